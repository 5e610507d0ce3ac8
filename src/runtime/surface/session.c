#include "runtime/surface/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/plan.h"
#include "runtime/plan/snapshot.h"

/* --- one call at a time --------------------------------------------------------------------------------------------
 */
static braid_status session_enter(braid_session *session, const char *call) {
  const char *busy = NULL;
  if (__atomic_compare_exchange_n(&session->busy, &busy, call, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return BRAID_OK;
  return braid_fail(BRAID_BUSY, "%s while %s of the same session is under way in another thread; use a session each",
                    call, busy);
}

static void session_leave(braid_session *session) {
  __atomic_store_n(&session->busy, NULL, __ATOMIC_RELEASE);
}

/* --- create --------------------------------------------------------------------------------------------------------
 */
static braid_status take_plan(braid_session *session, const braid_graph *graph, const braid_session_options *options) {
  if (options->load_plan || options->save_plan)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a plan and a file to load it from, or to save it to");
  if (options->machine && options->machine != options->plan->machine)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the plan is of another machine");
  BRAID_TRY(braid_snapshot_check_given(options->plan, graph));
  session->plan = braid_plan_retain(options->plan);
  return BRAID_OK;
}

/* What a plan takes for constant decides whether it reads the weights that it is run with. */
static braid_status load_plan(braid_machine *machine, const braid_graph *graph, const braid_session_options *options,
                              braid_plan **out) {
  BRAID_TRY(braid_plan_load(machine, graph, options->load_plan, out));
  if ((*out)->training == options->training) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "%s: the plan was made for %s, the session is for %s", options->load_plan,
                    options->training ? "inference" : "training", options->training ? "training" : "inference");
}

static braid_status make_plan(braid_session *session, const braid_graph *graph, const braid_session_options *options) {
  braid_machine *machine = options->machine;
  if (machine)
    (void)braid_machine_retain(machine);
  else
    BRAID_TRY(braid_machine_create(session->allocator,
                                   &(braid_machine_options){.devices = options->devices,
                                                            .threads = options->threads,
                                                            .registry = options->registry},
                                   &machine));
  braid_plan_options own = {.training = options->training,
                            .no_fusion = options->no_fusion,
                            .weights = options->weights,
                            .no_reuse = options->no_reuse,
                            .place = options->place,
                            .loose_place = options->loose_place,
                            .explain = options->explain};
  braid_status status = options->load_plan ? load_plan(machine, graph, options, &session->plan)
                                           : braid_plan_create(machine, graph, &own, &session->plan);
  braid_machine_release(machine); /* the plan keeps it */
  if (status != BRAID_OK || !options->save_plan) return status;
  return braid_plan_save(session->plan, graph, options->save_plan);
}

static braid_status make_session(braid_session *session, const braid_graph *graph,
                                 const braid_session_options *options) {
  bool limited = options->timeout_ms > 0 && options->timeout_ms < INT64_MAX / 1000000;
  BRAID_TRY(options->plan ? take_plan(session, graph, options) : make_plan(session, graph, options));
  BRAID_TRY(braid_execution_make(session->plan, options->weights, limited ? options->timeout_ms * 1000000 : -1,
                                 &session->execution));
  if (!options->plan) braid_plan_drop(session->plan, true); /* nobody else runs it */
  return options->trace ? braid_trace_create(session->plan, options->trace, &session->execution->trace) : BRAID_OK;
}

braid_status braid_session_create(const braid_graph *graph, const braid_session_options *options, braid_session **out) {
  static const braid_session_options kDefault;
  *out = NULL;
  braid_session *session = braid_zalloc(graph->allocator, sizeof *session);
  if (!session) return BRAID_NO_MEMORY;
  session->allocator = graph->allocator;
  int64_t start_ns = braid_now_ns();
  braid_status status = make_session(session, graph, options ? options : &kDefault);
  session->prepare_ms = (double)(braid_now_ns() - start_ns) / 1e6;
  if (status == BRAID_OK)
    *out = session;
  else
    braid_session_destroy(session);
  return status;
}

static braid_status finish_trace(braid_session *session) {
  if (!session->execution) return BRAID_OK;
  braid_trace *trace = session->execution->trace;
  session->execution->trace = NULL;
  return braid_trace_finish(trace);
}

braid_status braid_session_save_trace(braid_session *session) {
  BRAID_TRY(session_enter(session, "braid_session_save_trace"));
  braid_status status = finish_trace(session);
  session_leave(session);
  return status;
}

void braid_session_destroy(braid_session *session) {
  if (!session) return;
  while (session_enter(session, "braid_session_destroy") != BRAID_OK)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  if (finish_trace(session) != BRAID_OK)
    braid_log_write(session->plan->machine->log, BRAID_LOG_WARNING, "the trace was not written: %s",
                    braid_error_detail());
  braid_execution_destroy(session->execution);
  braid_plan_release(session->plan);
  braid_free(session->allocator, session);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_session_run(braid_session *session, const void *const *inputs, void *const *outputs) {
  BRAID_TRY(session_enter(session, "braid_session_run"));
  braid_status status = braid_execution_run(session->execution, inputs, outputs);
  session_leave(session);
  return status;
}

braid_status braid_session_pin(braid_session *session, void *host, size_t bytes) {
  BRAID_TRY(session_enter(session, "braid_session_pin"));
  braid_status status = braid_execution_pin(session->execution, host, bytes);
  session_leave(session);
  return status;
}

braid_status braid_session_unpin(braid_session *session, void *host) {
  BRAID_TRY(session_enter(session, "braid_session_unpin"));
  braid_execution_unpin(session->execution, host);
  session_leave(session);
  return BRAID_OK;
}

/* --- parameters and states -----------------------------------------------------------------------------------------
 */
static braid_status find_value(const braid_session *session, const char *name, braid_value_id *out) {
  *out = braid_graph_find_value(session->plan->graph, name);
  const braid_value *value = *out >= 0 ? &session->plan->graph->values[*out] : NULL;
  if (value && (value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE)) return BRAID_OK;
  return braid_fail(BRAID_NOT_FOUND, "the graph has no parameter or state %.120s", name);
}

static braid_status find_kept(const braid_session *session, const char *name, const braid_tensor *tensor,
                              braid_value_id *out) {
  BRAID_TRY(find_value(session, name, out));
  const braid_value *value = &session->plan->graph->values[*out];
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
  const braid_plan *plan = session->plan;
  for (braid_instance_id i = plan->first_instance[id]; i >= 0; i = plan->instances[i].next) {
    braid_storage_id storage = braid_plan_find(plan, plan->instances[i].storage);
    if (plan->storages[storage].kind == BRAID_STORAGE_PERSISTENT && plan->storages[storage].value == id &&
        plan->instances[i].desc.layout == plan->layouts[id])
      return storage;
  }
  return -1;
}

static braid_status packed(const char *name) {
  return braid_fail(BRAID_UNSUPPORTED, "%.120s was built into kernels as a constant; make the session for training",
                    name);
}

typedef enum copy_way { COPY_OUT, COPY_AS_KEPT, COPY_IN } copy_way;

static braid_status copy_kept(braid_session *session, braid_storage_id storage, void *host, copy_way way) {
  bool write = way == COPY_IN;
  braid_weights *weights = session->execution->weights;
  braid_weight *weight = session->execution->found[storage];
  if (session->execution->lost && !braid_weight_binding(weight).host)
    return braid_fail(BRAID_DEVICE_LOST, "an earlier run hung or lost its device");
  BRAID_TRY(braid_weights_enter(weights, write, 0));
  braid_status status = write             ? braid_weights_put(weights, weight, host)
                        : way == COPY_OUT ? braid_weights_fetch(weights, weight, host)
                                          : braid_weights_fetch_kept(weights, weight, host);
  braid_weights_leave(weights, write, 0);
  if (weights->sync_task.abandoned) session->execution->lost = true;
  return status;
}

static braid_status read_kept(braid_session *session, const char *name, braid_tensor *tensor) {
  braid_value_id id;
  BRAID_TRY(find_kept(session, name, tensor, &id));
  braid_storage_id storage = kept_in(session, id);
  if (storage >= 0) return copy_kept(session, storage, braid_tensor_data(tensor), COPY_OUT);
  const braid_tensor *own = session->plan->graph->values[id].tensor;
  if (!own) return packed(name);
  memcpy(braid_tensor_data(tensor), braid_tensor_const_data(own), braid_desc_bytes(braid_tensor_desc(own)));
  return BRAID_OK;
}

braid_status braid_session_describe_kept(braid_session *session, const char *name, braid_desc *desc, size_t *bytes) {
  braid_value_id id;
  BRAID_TRY(find_value(session, name, &id));
  braid_storage_id storage = kept_in(session, id);
  const braid_weight *weight = storage >= 0 ? session->execution->found[storage] : NULL;
  *desc = weight ? weight->desc : session->plan->graph->values[id].desc;
  *bytes = weight ? weight->bytes : braid_desc_bytes(desc);
  return BRAID_OK;
}

static braid_status fetch_kept(braid_session *session, const char *name, void *host) {
  braid_value_id id;
  BRAID_TRY(find_value(session, name, &id));
  braid_storage_id storage = kept_in(session, id);
  if (storage >= 0) return copy_kept(session, storage, host, COPY_AS_KEPT);
  const braid_tensor *own = session->plan->graph->values[id].tensor;
  if (!own) return packed(name);
  memcpy(host, braid_tensor_const_data(own), braid_desc_bytes(braid_tensor_desc(own)));
  return BRAID_OK;
}

braid_status braid_session_fetch_kept(braid_session *session, const char *name, void *host) {
  BRAID_TRY(session_enter(session, "braid_session_fetch_kept"));
  braid_status status = fetch_kept(session, name, host);
  session_leave(session);
  return status;
}

const void *braid_session_look(braid_session *session, const char *name) {
  braid_value_id id = braid_graph_find_value(session->plan->graph, name);
  braid_storage_id storage = id >= 0 ? kept_in(session, id) : -1;
  const braid_weight *weight = storage >= 0 ? session->execution->found[storage] : NULL;
  if (!weight || weight->torn || weight->desc.layout != BRAID_LAYOUT_PLAIN) return NULL;
  return braid_weight_binding(weight).host;
}

static braid_status write_kept(braid_session *session, const char *name, const braid_tensor *tensor) {
  braid_value_id id;
  BRAID_TRY(find_kept(session, name, tensor, &id));
  if (braid_plan_is_constant(session->plan, id)) return packed(name);
  braid_storage_id storage = kept_in(session, id);
  if (storage >= 0) return copy_kept(session, storage, (void *)braid_tensor_const_data(tensor), COPY_IN);
  braid_value *value =
      &session->plan->graph->values[id]; /* not used by the graph: its tensor may be shared, so a new one */
  braid_tensor *copy;
  BRAID_TRY(braid_tensor_create(session->allocator, &value->desc, &copy));
  memcpy(braid_tensor_data(copy), braid_tensor_const_data(tensor), braid_desc_bytes(&value->desc));
  braid_tensor_release(value->tensor);
  value->tensor = copy;
  return BRAID_OK;
}

braid_status braid_session_read(braid_session *session, const char *name, braid_tensor *tensor) {
  BRAID_TRY(session_enter(session, "braid_session_read"));
  braid_status status = read_kept(session, name, tensor);
  session_leave(session);
  return status;
}

braid_status braid_session_write(braid_session *session, const char *name, const braid_tensor *tensor) {
  BRAID_TRY(session_enter(session, "braid_session_write"));
  braid_status status = write_kept(session, name, tensor);
  session_leave(session);
  return status;
}

static bool is_kept(const braid_session *session, const braid_value *value) {
  const braid_graph *own = session->plan->graph;
  braid_value_id id = value->tensor ? braid_graph_find_value(own, value->name) : -1;
  return id >= 0 && (own->values[id].kind == BRAID_VALUE_PARAMETER || own->values[id].kind == BRAID_VALUE_STATE);
}

/* New tensors with the current contents of those values of the graph that the session keeps; the others stay NULL. */
static braid_status read_all(braid_session *session, const braid_graph *graph, braid_tensor **tensors, size_t *count) {
  *count = 0;
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    if (!is_kept(session, value)) continue;
    BRAID_TRY(braid_tensor_create(graph->allocator, &value->desc, &tensors[i]));
    BRAID_TRY(read_kept(session, value->name, tensors[i]));
    ++*count;
  }
  if (*count) return BRAID_OK;
  return braid_fail(BRAID_NOT_FOUND, "no constant or parameter of graph %.120s is a parameter or state of the session",
                    graph->name);
}

static braid_status store_all(braid_session *session, braid_graph *graph, braid_tensor **tensors) {
  size_t count;
  BRAID_TRY(read_all(session, graph, tensors, &count));
  BRAID_TRY(braid_graph_begin_change(graph));
  for (size_t i = 0; i < graph->value_count; i++) {
    if (!tensors[i]) continue;
    braid_tensor *before = graph->values[i].tensor;
    graph->values[i].tensor = tensors[i];
    tensors[i] = before;
  }
  return BRAID_OK;
}

braid_status braid_session_store(braid_session *session, braid_graph *graph) {
  BRAID_TRY(session_enter(session, "braid_session_store"));
  braid_tensor **tensors = braid_zalloc_array(graph->allocator, graph->value_count, sizeof(braid_tensor *));
  braid_status status = tensors ? store_all(session, graph, tensors) : BRAID_NO_MEMORY;
  for (size_t i = 0; tensors && i < graph->value_count; i++) braid_tensor_release(tensors[i]);
  braid_free(graph->allocator, tensors);
  session_leave(session);
  return status;
}

/* --- reports -------------------------------------------------------------------------------------------------------
 */
size_t braid_session_input_count(const braid_session *session) {
  return session->plan->graph->input_count;
}

size_t braid_session_output_count(const braid_session *session) {
  return session->plan->graph->output_count;
}

const braid_desc *braid_session_input(const braid_session *session, size_t index) {
  return braid_plan_input(session->plan, index);
}

const braid_desc *braid_session_output(const braid_session *session, size_t index) {
  return braid_plan_output(session->plan, index);
}

const char *braid_session_input_name(const braid_session *session, size_t index) {
  const braid_graph *graph = session->plan->graph;
  return index < graph->input_count ? graph->values[graph->inputs[index]].name : NULL;
}

const char *braid_session_output_name(const braid_session *session, size_t index) {
  const braid_graph *graph = session->plan->graph;
  return index < graph->output_count ? graph->values[graph->outputs[index]].name : NULL;
}

braid_session_stats braid_session_get_stats(const braid_session *session) {
  const braid_plan *plan = session->plan;
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
  return session->plan->steps.count;
}

braid_plan_line braid_session_plan(const braid_session *session, size_t index) {
  braid_plan_line line = braid_plan_get_line(session->plan, index);
  if (index >= session->plan->steps.count) return line;
  line.median_us = braid_execution_median_us(session->execution, index);
  line.energy_uj = braid_execution_energy_uj(session->execution, index);
  return line;
}

size_t braid_session_offer_count(const braid_session *session, size_t line) {
  return braid_plan_offer_count(session->plan, line);
}

braid_plan_offer braid_session_offer(const braid_session *session, size_t line, size_t index) {
  return braid_plan_get_offer(session->plan, line, index);
}
