#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/try.h"

/* --- devices -------------------------------------------------------------------------------------------------------
 */
enum { kMaxDevices = 16, kSpecBytes = 256 };

/* The option for CPU threads goes to every CPU that does not set them itself. */
static braid_status open_device(braid_session *session, const char *spec, size_t length, int threads) {
  char text[kSpecBytes];
  braid_plan_device *device = &session->devices[session->device_count];
  if (session->device_count == kMaxDevices || length + 24 > sizeof text)
    return braid_fail(BRAID_INVALID_ARGUMENT, "more than %d devices, or a description that is too long", kMaxDevices);
  memcpy(text, spec, length);
  text[length] = '\0';
  bool cpu = strncmp(text, "cpu", 3) == 0 && (text[3] == '\0' || text[3] == ':');
  if (threads != 0 && cpu && !strstr(text, "threads="))
    snprintf(text + length, sizeof text - length, "%sthreads=%d", text[3] ? "," : ":", threads);
  BRAID_TRY(braid_device_open(session->registry, text, &device->device));
  device->backend = braid_device_backend(device->device);
  device->self = braid_device_self(device->device);
  device->info = braid_device_get_info(device->device);
  int twins = 0;
  for (size_t i = 0; i < session->device_count; i++)
    twins += strcmp(session->devices[i].info->name, device->info->name) == 0;
  session->device_count++;
  char label[64];
  if (twins)
    snprintf(label, sizeof label, "%s#%d", device->info->name, twins);
  else
    snprintf(label, sizeof label, "%s", device->info->name);
  device->label = braid_graph_intern(session->graph, label, strlen(label));
  return device->label ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status open_devices(braid_session *session, const braid_session_options *options) {
  session->registry = options->registry;
  if (!session->registry) {
    BRAID_TRY(braid_registry_create(session->allocator, &session->own_registry));
    session->registry = session->own_registry;
  }
  session->devices = braid_zalloc_array(session->allocator, kMaxDevices, sizeof *session->devices);
  if (!session->devices) return BRAID_NO_MEMORY;
  const char *specs = options->devices ? options->devices : "cpu";
  for (;;) {
    specs += strspn(specs, " ");
    size_t length = strcspn(specs, " ");
    if (!length) break;
    BRAID_TRY(open_device(session, specs, length, options->threads));
    specs += length;
  }
  return session->device_count ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "no device is given");
}

/* --- one call at a time --------------------------------------------------------------------------------------------
 */
braid_status braid_session_enter(braid_session *session, const char *call) {
  const char *busy = NULL;
  if (__atomic_compare_exchange_n(&session->busy, &busy, call, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return BRAID_OK;
  return braid_fail(BRAID_BUSY, "%s while %s of the same session is under way in another thread; use a session each",
                    call, busy);
}

void braid_session_leave(braid_session *session) {
  __atomic_store_n(&session->busy, NULL, __ATOMIC_RELEASE);
}

/* --- create --------------------------------------------------------------------------------------------------------
 */
static braid_status make_ports(braid_session *session) {
  const braid_graph *graph = session->graph;
  session->inputs = braid_zalloc_array(session->allocator, graph->input_count, sizeof *session->inputs);
  session->outputs = braid_zalloc_array(session->allocator, graph->output_count, sizeof *session->outputs);
  if (!session->inputs || !session->outputs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->input_count + graph->output_count; i++) {
    bool input = i < graph->input_count;
    const braid_value *value = &graph->values[input ? graph->inputs[i] : graph->outputs[i - graph->input_count]];
    braid_port *port = input ? &session->inputs[i] : &session->outputs[i - graph->input_count];
    *port =
        (braid_port){.desc = &value->desc, .name = value->name, .storage = -1, .bytes = braid_desc_bytes(&value->desc)};
  }
  return BRAID_OK;
}

/* Lets go of the tensors that nobody reads any more: what kernels have packed and what was copied. A parameter that the
 * graph does not use keeps its tensor, so that it can still be read and written. */
static void release_tensors(braid_session *session) {
  const braid_plan *plan = &session->plan;
  for (size_t i = 0; i < session->graph->value_count; i++) {
    braid_value *value = &session->graph->values[i];
    bool bound = false, persists = false;
    for (braid_instance_id id = plan->first_instance[i]; id >= 0; id = plan->instances[id].next) {
      const braid_storage *storage = braid_plan_storage(plan, plan->instances[id].storage);
      bound |= storage->kind == BRAID_STORAGE_TENSOR;
      persists |= storage->kind == BRAID_STORAGE_PERSISTENT;
    }
    bool unused = value->kind != BRAID_VALUE_CONSTANT && !persists && !braid_plan_is_constant(plan, (braid_value_id)i);
    if (bound || unused) continue;
    braid_tensor_release(value->tensor);
    value->tensor = NULL;
  }
}

/* Plans and prepares a copy of the graph. */
static braid_status prepare(braid_session *session, const braid_graph *graph, const braid_session_options *options) {
  BRAID_TRY(braid_graph_clone(graph, &session->graph));
  BRAID_TRY(braid_resolve(session->graph));
  if (!options->no_fusion) BRAID_TRY(braid_graph_fuse(session->graph));
  BRAID_TRY(open_devices(session, options));
  BRAID_TRY(make_ports(session));
  BRAID_TRY(braid_plan_init(&session->plan, session->graph, graph, session->devices, session->device_count, options));
  BRAID_TRY(braid_session_bind(session));
  release_tensors(session);
  return options->trace ? braid_trace_create(&session->plan, options->trace, &session->trace) : BRAID_OK;
}

static braid_status create(const braid_graph *graph, const braid_session_options *options, braid_session **out) {
  *out = NULL;
  const braid_allocator *allocator = graph->allocator;
  braid_session *session = braid_zalloc(allocator, sizeof *session);
  if (!session) return BRAID_NO_MEMORY;
  session->allocator = allocator;
  session->plan.allocator = allocator;
  session->timeout_ns =
      options->timeout_ms > 0 && options->timeout_ms < INT64_MAX / 1000000 ? options->timeout_ms * 1000000 : -1;
  int64_t start_ns = braid_now_ns();
  braid_status status = prepare(session, graph, options);
  session->prepare_ms = (double)(braid_now_ns() - start_ns) / 1e6;
  if (status == BRAID_OK)
    *out = session;
  else
    braid_session_destroy(session);
  return status;
}

/* Fusion knows no devices: where one lacks the fused kernels, the graph runs as it was given. */
braid_status braid_session_create(const braid_graph *graph, const braid_session_options *options, braid_session **out) {
  static const braid_session_options kDefault;
  braid_session_options own = options ? *options : kDefault;
  braid_status status = create(graph, &own, out);
  if (status != BRAID_UNSUPPORTED || own.no_fusion) return status;
  braid_log_write(BRAID_LOG_INFO, "without fusion, because: %s", braid_error_detail());
  own.no_fusion = true;
  return create(graph, &own, out);
}

static braid_status finish_trace(braid_session *session) {
  braid_trace *trace = session->trace;
  session->trace = NULL;
  return braid_trace_finish(trace);
}

braid_status braid_session_save_trace(braid_session *session) {
  BRAID_TRY(braid_session_enter(session, "braid_session_save_trace"));
  braid_status status = finish_trace(session);
  braid_session_leave(session);
  return status;
}

void braid_session_destroy(braid_session *session) {
  if (!session) return;
  while (braid_session_enter(session, "braid_session_destroy") != BRAID_OK)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  if (finish_trace(session) != BRAID_OK)
    braid_log_write(BRAID_LOG_WARNING, "the trace was not written: %s", braid_error_detail());
  braid_session_unbind(session);
  braid_plan_deinit(&session->plan);
  for (size_t i = 0; session->inputs && i < session->graph->input_count; i++)
    braid_free(session->allocator, session->inputs[i].spare);
  for (size_t i = 0; session->outputs && i < session->graph->output_count; i++)
    braid_free(session->allocator, session->outputs[i].spare);
  braid_free(session->allocator, session->inputs);
  braid_free(session->allocator, session->outputs);
  for (size_t i = 0; session->devices && i < session->device_count; i++) braid_device_close(session->devices[i].device);
  braid_free(session->allocator, session->devices);
  braid_registry_destroy(session->own_registry);
  braid_graph_destroy(session->graph);
  braid_free(session->allocator, session);
}

/* --- parameters and states -----------------------------------------------------------------------------------------
 */
static braid_status find_kept(const braid_session *session, const char *name, const braid_tensor *tensor,
                              braid_value_id *out) {
  *out = braid_graph_find_value(session->graph, name);
  const braid_value *value = *out >= 0 ? &session->graph->values[*out] : NULL;
  if (!value || (value->kind != BRAID_VALUE_PARAMETER && value->kind != BRAID_VALUE_STATE))
    return braid_fail(BRAID_NOT_FOUND, "the graph has no parameter or state %.120s", name);
  const braid_desc *desc = braid_tensor_desc(tensor);
  if (desc->dtype == value->desc.dtype && desc->layout == BRAID_LAYOUT_PLAIN &&
      braid_desc_same_shape(desc, &value->desc))
    return BRAID_OK;
  char given[96], expected[96];
  return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is %s, the tensor given is %s%s", name,
                    braid_desc_format(&value->desc, expected, sizeof expected),
                    braid_desc_format(desc, given, sizeof given),
                    desc->layout == BRAID_LAYOUT_PLAIN ? "" : " and not plain");
}

/* The storage that holds a parameter or state; -1: its tensor does, or (no tensor either) kernels have packed it. */
static braid_storage_id kept_in(const braid_session *session, braid_value_id id) {
  const braid_plan *plan = &session->plan;
  for (braid_instance_id i = plan->first_instance[id]; i >= 0; i = plan->instances[i].next) {
    braid_storage_id storage = braid_plan_find(plan, plan->instances[i].storage);
    if (plan->storages[storage].kind == BRAID_STORAGE_PERSISTENT && plan->storages[storage].value == id &&
        plan->instances[i].desc.layout == BRAID_LAYOUT_PLAIN)
      return storage;
  }
  return -1;
}

static braid_status packed(const char *name) {
  return braid_fail(BRAID_UNSUPPORTED, "%.120s was built into kernels as a constant; make the session for training",
                    name);
}

static braid_status read_kept(braid_session *session, const char *name, braid_tensor *tensor) {
  braid_value_id id;
  BRAID_TRY(find_kept(session, name, tensor, &id));
  braid_storage_id storage = kept_in(session, id);
  if (storage >= 0) return braid_session_fetch(session, storage, braid_tensor_data(tensor));
  const braid_tensor *own = session->graph->values[id].tensor;
  if (!own) return packed(name);
  memcpy(braid_tensor_data(tensor), braid_tensor_const_data(own), braid_desc_bytes(braid_tensor_desc(own)));
  return BRAID_OK;
}

static braid_status write_kept(braid_session *session, const char *name, const braid_tensor *tensor) {
  braid_value_id id;
  BRAID_TRY(find_kept(session, name, tensor, &id));
  if (braid_plan_is_constant(&session->plan, id)) return packed(name);
  braid_storage_id storage = kept_in(session, id);
  if (storage >= 0) return braid_session_put(session, storage, braid_tensor_const_data(tensor));
  braid_value *value = &session->graph->values[id]; /* not used by the graph: its tensor may be shared, so a new one */
  braid_tensor *copy;
  BRAID_TRY(braid_tensor_create(session->allocator, &value->desc, &copy));
  memcpy(braid_tensor_data(copy), braid_tensor_const_data(tensor), braid_desc_bytes(&value->desc));
  braid_tensor_release(value->tensor);
  value->tensor = copy;
  return BRAID_OK;
}

braid_status braid_session_read(braid_session *session, const char *name, braid_tensor *tensor) {
  BRAID_TRY(braid_session_enter(session, "braid_session_read"));
  braid_status status = read_kept(session, name, tensor);
  braid_session_leave(session);
  return status;
}

braid_status braid_session_write(braid_session *session, const char *name, const braid_tensor *tensor) {
  BRAID_TRY(braid_session_enter(session, "braid_session_write"));
  braid_status status = write_kept(session, name, tensor);
  braid_session_leave(session);
  return status;
}

/* --- reports -------------------------------------------------------------------------------------------------------
 */
size_t braid_session_input_count(const braid_session *session) {
  return session->graph->input_count;
}

size_t braid_session_output_count(const braid_session *session) {
  return session->graph->output_count;
}

const braid_desc *braid_session_input(const braid_session *session, size_t index) {
  return index < session->graph->input_count ? session->inputs[index].desc : NULL;
}

const braid_desc *braid_session_output(const braid_session *session, size_t index) {
  return index < session->graph->output_count ? session->outputs[index].desc : NULL;
}

braid_session_stats braid_session_get_stats(const braid_session *session) {
  const braid_plan *plan = &session->plan;
  braid_session_stats stats = {.nodes = plan->steps.count,
                               .unshared_bytes = plan->unshared_bytes,
                               .parameter_bytes = plan->folded_bytes,
                               .prepare_ms = session->prepare_ms};
  for (size_t i = 0; i < plan->steps.count; i++) stats.conversions += plan->steps.items[i].node < 0;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as < 0 && storage->kind == BRAID_STORAGE_TENSOR) stats.parameter_bytes += storage->bytes;
  }
  for (int space = 0; space < plan->space_count; space++) {
    stats.arena_bytes += plan->arena_bytes[space];
    stats.parameter_bytes += plan->persistent_bytes[space];
  }
  return stats;
}

size_t braid_session_plan_count(const braid_session *session) {
  return session->plan.steps.count;
}

static int compare_samples(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static double median_us(const braid_session *session, size_t step) {
  int32_t samples[kSamples];
  size_t count = 0;
  for (size_t i = 0; i < kSamples; i++) {
    int32_t sample = __atomic_load_n(&session->samples[step * kSamples + i], __ATOMIC_RELAXED);
    if (sample >= 0) samples[count++] = sample;
  }
  if (!count) return -1;
  qsort(samples, count, sizeof *samples, compare_samples);
  return (samples[(count - 1) / 2] + (double)samples[count / 2]) / 2e3;
}

braid_plan_line braid_session_plan(const braid_session *session, size_t index) {
  if (index >= session->plan.steps.count) return (braid_plan_line){"", "", "", "", "", -1};
  const braid_step *step = &session->plan.steps.items[index];
  return (braid_plan_line){.node = step->label,
                           .op = step->op,
                           .device = session->devices[step->device].label,
                           .kernel = step->kernel ? step->kernel->name : "transfer",
                           .why = step->why,
                           .median_us = median_us(session, index)};
}
