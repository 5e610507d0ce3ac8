/* An operation that keeps another device busy. */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "base/try.h"
#include "measure/measure.h"
#include "runtime/machine.h"

struct braid_beside {
  const braid_allocator *allocator;
  braid_subjects subjects;
  braid_machine *machine;
  braid_trial *trial;
  braid_thread thread;
  bool running, stop; /* stop: atomic */
  braid_status status;
  char detail[300], op[40], size[16], device[64], name[128];
};

static braid_status parse_spec(braid_beside *beside, const char *spec) {
  const char *at = strchr(spec, '@'), *colon = strchr(spec, ':');
  if (colon > at) colon = NULL; /* of the device's options */
  size_t op = at ? (size_t)((colon ? colon : at) - spec) : 0, size = colon && at ? (size_t)(at - colon) - 1 : 0;
  if (!op || !at[1] || op >= sizeof beside->op || size >= sizeof beside->size || strlen(at) >= sizeof beside->device)
    return braid_fail(BRAID_INVALID_ARGUMENT, "\"%.100s\": OP:SIZE@DEVICE is expected, such as MatMul:medium@opencl0",
                      spec);
  snprintf(beside->op, sizeof beside->op, "%.*s", (int)op, spec);
  snprintf(beside->size, sizeof beside->size, "%.*s", size ? (int)size : 6, size ? colon + 1 : "medium");
  snprintf(beside->device, sizeof beside->device, "%s", at + 1);
  if (strchr(beside->op, ',') || strcmp(beside->op, "all") == 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "\"%.100s\": one operation is expected before the '@'", spec);
  return BRAID_OK;
}

static void *beside_work(void *context) {
  braid_beside *beside = context;
  double seconds;
  while (beside->status == BRAID_OK && !__atomic_load_n(&beside->stop, __ATOMIC_ACQUIRE))
    beside->status = braid_trial_run(beside->trial, &seconds);
  if (beside->status != BRAID_OK) snprintf(beside->detail, sizeof beside->detail, "%.290s", braid_error_detail());
  return NULL;
}

static braid_status beside_read(braid_beside *beside, const char *spec) {
  BRAID_TRY(parse_spec(beside, spec));
  BRAID_TRY(braid_subjects_init(&beside->subjects, beside->allocator));
  return braid_subjects_add_ops(&beside->subjects, beside->op, beside->size);
}

braid_status braid_beside_check(const char *spec, const braid_allocator *allocator, char *device, size_t bytes) {
  braid_beside *beside = braid_zalloc(allocator, sizeof *beside);
  if (!beside) return BRAID_NO_MEMORY;
  beside->allocator = allocator;
  braid_status status = beside_read(beside, spec);
  snprintf(device, bytes, "%s", beside->device);
  (void)braid_beside_stop(beside);
  return status;
}

static braid_status beside_make(braid_beside *beside, braid_registry *registry, const char *spec, int threads) {
  braid_graph *graph;
  BRAID_TRY(beside_read(beside, spec));
  const braid_subject *subject = &beside->subjects.items[0];
  snprintf(beside->name, sizeof beside->name, "%s %s %s", beside->device, subject->op, subject->size);
  const braid_machine_options options = {.devices = beside->device, .threads = threads, .registry = registry};
  BRAID_TRY(braid_machine_create(beside->allocator, &options, &beside->machine));
  BRAID_TRY(braid_subject_extract(subject, &graph));
  braid_status status = braid_trial_create(beside->machine, graph, false, beside->allocator, &beside->trial);
  braid_graph_destroy(graph);
  if (status == BRAID_OK) status = braid_thread_start(&beside->thread, "braid-beside", beside_work, beside);
  beside->running = status == BRAID_OK;
  return status;
}

braid_status braid_beside_start(braid_registry *registry, const char *spec, int threads,
                                const braid_allocator *allocator, braid_beside **out) {
  *out = NULL;
  braid_beside *beside = braid_zalloc(allocator, sizeof *beside);
  if (!beside) return BRAID_NO_MEMORY;
  beside->allocator = allocator;
  braid_status status = beside_make(beside, registry, spec, threads);
  if (status == BRAID_OK)
    *out = beside;
  else
    (void)braid_beside_stop(beside);
  return status;
}

braid_status braid_beside_stop(braid_beside *beside) {
  if (!beside) return BRAID_OK;
  __atomic_store_n(&beside->stop, true, __ATOMIC_RELEASE);
  if (beside->running) braid_thread_join(&beside->thread);
  braid_status status = beside->status;
  if (status != BRAID_OK && beside->running)
    status = braid_fail(status, "what runs beside, %s: %s", beside->name, beside->detail);
  braid_trial_destroy(beside->trial);
  braid_machine_release(beside->machine);
  braid_subjects_deinit(&beside->subjects);
  braid_free(beside->allocator, beside);
  return status;
}

const char *braid_beside_device(const braid_beside *beside) {
  return beside->device;
}

const char *braid_beside_name(const braid_beside *beside) {
  return beside->name;
}
