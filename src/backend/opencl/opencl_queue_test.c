/* Queues under load: tasks of several queues and devices, of several runs, wait for each other and for timelines of the
 * host; some runs are cancelled. Every task ends, is run unless its run is cancelled, and sees what it waited for. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/context.h"
#include "base/philox.h"
#include "base/thread.h"
#include "device/queue.h"
#include "oom.h"
#include "skip.h"

enum { kDevices = 2, kQueues = 4, kTasks = 1200, kHosts = 60, kWaits = 5, kRounds = 4, kRuns = 30, kStride = 512 };

static const uint64_t kSeed = 99;
static const int64_t kPatience = 60000000000; /* ns */

typedef struct load {
  braid_registry *registry;
  braid_device *devices[kDevices];
  const braid_backend *backend;
  braid_queue queues[kQueues];
  void *buffers[kDevices];
  braid_timeline *hosts[kHosts]; /* raised to the round */
  braid_timeline *submitted;     /* tasks of all rounds */
  braid_verdict runs[kRuns];
  bool cancelled[kRuns];
  braid_task tasks[kTasks];
  braid_point waits[kTasks][kWaits];
  braid_timing timings[kTasks];
  uint64_t values[kTasks];
  int reads[kTasks]; /* the task whose value a READ gets; -1: a WRITE */
  uint64_t round;
} load;

static uint32_t draw(const load *own, uint64_t what, uint64_t index, uint32_t bound) {
  return braid_random_below(kSeed, (uint32_t)own->round, (uint32_t)what, index, bound);
}

static int queue_of(int task) {
  return task % kQueues;
}

static void open_load(load *own, const char *options) {
  assert_int_equal(braid_registry_create(NULL, &own->registry), BRAID_OK);
  for (int i = 0; i < kDevices; i++) {
    char spec[96];
    snprintf(spec, sizeof spec, "opencl0.%d:parts=%d%s", i, kDevices, options);
    if (braid_device_open(own->registry, spec, &own->devices[i]) != BRAID_OK) fail_msg("%s", braid_error_detail());
    own->backend = braid_device_backend(own->devices[i]);
    void *self = braid_device_self(own->devices[i]);
    assert_int_equal(own->backend->buffer_create(self, (size_t)kTasks * kStride, &own->buffers[i]), BRAID_OK);
  }
  for (int i = 0; i < kQueues; i++)
    assert_int_equal(
        braid_queue_open(&own->queues[i], NULL, own->backend, braid_device_self(own->devices[i % kDevices])), BRAID_OK);
  for (int i = 0; i < kHosts; i++) assert_int_equal(braid_timeline_create(NULL, &own->hosts[i]), BRAID_OK);
  assert_int_equal(braid_timeline_create(NULL, &own->submitted), BRAID_OK);
}

static void close_load(load *own) {
  for (int i = 0; i < kQueues; i++) braid_queue_close(&own->queues[i]);
  for (int i = 0; i < kHosts; i++) braid_timeline_destroy(own->hosts[i]);
  braid_timeline_destroy(own->submitted);
  for (int i = 0; i < kDevices; i++) {
    own->backend->buffer_destroy(braid_device_self(own->devices[i]), own->buffers[i]);
    braid_device_close(own->devices[i]);
  }
  braid_registry_destroy(own->registry);
}

/* Tasks next to each other are mostly of one run. */
static int run_of(const load *own, int task) {
  return (int)((uint32_t)task / 40 + draw(own, 8, (uint64_t)task, 2)) % kRuns;
}

/* Task i waits for a few before it, mostly near ones, and for the host's; a READ for the WRITE whose value it reads. */
static void make_task(load *own, int i) {
  braid_task *task = &own->tasks[i];
  int device = queue_of(i) % kDevices, count = (int)draw(own, 1, (uint64_t)i, kWaits);
  own->reads[i] = -1;
  for (int w = 0; w < count; w++) {
    uint32_t kind = draw(own, 2, (uint64_t)(i * kWaits + w), 12);
    int host = (int)draw(own, 3, (uint64_t)(i * kWaits + w), kHosts);
    own->waits[i][w] = (braid_point){own->hosts[host], own->round};
    if (!kind || !i) continue;
    int other = i - 1 - (int)draw(own, 4, (uint64_t)(i * kWaits + w), (uint32_t)(i < 40 ? i : 40));
    own->waits[i][w] = braid_queue_point(&own->queues[queue_of(other)], &own->tasks[other]);
    if (own->reads[other] < 0 && queue_of(other) % kDevices == device && !own->cancelled[run_of(own, other)])
      own->reads[i] = other;
  }
  int slot = own->reads[i] < 0 ? i : own->reads[i];
  braid_binding place = {.buffer = own->buffers[device], .offset = (size_t)slot * kStride, .bytes = sizeof(uint64_t)};
  own->values[i] = own->reads[i] < 0 ? own->round << 32 | (uint64_t)i : 0;
  *task = (braid_task){.kind = own->reads[i] < 0 ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                       .label = "load",
                       .source = place,
                       .target = place,
                       .host = &own->values[i],
                       .waits = own->waits[i],
                       .wait_count = (size_t)count,
                       .verdict = &own->runs[run_of(own, i)],
                       .timing = draw(own, 7, (uint64_t)i / 100, 2) ? &own->timings[i] : NULL};
}

/* Raises the host's timelines in some order, and cancels runs, each when so many tasks have been submitted. */
static void *raise_hosts(void *context) {
  load *own = context;
  for (int i = 0; i < kHosts; i++) {
    uint64_t tasks =
        (own->round - 1) * kTasks + (uint64_t)i * kTasks / kHosts + draw(own, 5, (uint64_t)i, kTasks / kHosts);
    (void)braid_timeline_wait(own->submitted, tasks, kPatience);
    if (i < kRuns && own->cancelled[i]) braid_verdict_cancel(&own->runs[i]);
    braid_timeline_raise(own->hosts[(i * 37 + (int)own->round) % kHosts], own->round);
  }
  return NULL;
}

static void check_task(load *own, int i) {
  const braid_queue *queue = &own->queues[queue_of(i)];
  if (braid_timeline_wait(queue->timeline, own->tasks[i].value, kPatience) != BRAID_OK)
    fail_msg("round %d: task %d does not end", (int)own->round, i);
  int run = run_of(own, i);
  braid_status status = braid_verdict_status(&own->runs[run]);
  if (status != (own->cancelled[run] ? BRAID_CANCELLED : BRAID_OK))
    fail_msg("round %d: the run of task %d ends with \"%s\" (%s)", (int)own->round, i, braid_status_text(status),
             braid_error_detail());
  if (status == BRAID_OK && own->reads[i] >= 0 && own->values[i] != own->values[own->reads[i]])
    fail_msg("round %d: task %d does not see what task %d wrote", (int)own->round, i, own->reads[i]);
}

static void run_load(const char *options) {
  static load own;
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  print_message("seed %llu\n", (unsigned long long)kSeed);
  own = (load){.registry = NULL};
  open_load(&own, options);
  for (own.round = 1; own.round <= kRounds; own.round++) {
    braid_thread hosts;
    /* The first round without cancelled runs, the last with many. */
    for (int i = 0; i < kRuns; i++) {
      braid_verdict_init(&own.runs[i]);
      own.cancelled[i] = draw(&own, 6, (uint64_t)i, 100) < (own.round - 1) * 12;
    }
    assert_int_equal(braid_thread_start(&hosts, "hosts", raise_hosts, &own), BRAID_OK);
    for (int i = 0; i < kTasks; i++) {
      make_task(&own, i);
      assert_int_equal(braid_queue_submit(&own.queues[queue_of(i)], &own.tasks[i]), BRAID_OK);
      braid_timeline_raise(own.submitted, (own.round - 1) * kTasks + (uint64_t)i + 1);
      if (i % 50 == 49) braid_queue_flush(&own.queues[queue_of(i)]);
    }
    for (int q = 0; q < kQueues; q++) braid_queue_flush(&own.queues[q]);
    for (int i = 0; i < kTasks; i++) check_task(&own, i);
    braid_thread_join(&hosts);
  }
  close_load(&own);
}

static void test_memory_of_its_own(void **state) {
  (void)state;
  run_load(",memory=separate");
}

static void test_memory_of_the_host(void **state) {
  (void)state;
  run_load("");
}

/* Reads go to the driver alone. */
static void test_deadline(void **state) {
  (void)state;
  run_load(",memory=separate,deadline_ms=60000");
}

/* A card's tasks are looked for, and go to one of two queues of the driver. */
static void test_as_a_card(void **state) {
  (void)state;
  run_load(",memory=separate,as=gpu");
  run_load(",memory=separate,as=gpu,deadline_ms=60000");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_of_its_own),
                                     cmocka_unit_test(test_memory_of_the_host), cmocka_unit_test(test_deadline),
                                     cmocka_unit_test(test_as_a_card)};
  return skip_run_group_tests(tests, NULL, NULL);
}
