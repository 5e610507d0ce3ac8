#include "group.h"

#include <string.h>

#include "braid/allocator.h"
#include "plans.h"
#include "try.h"

struct braid_ort_group {
  braid_ort_compute_table table; /* first: the framework knows the group by it */
  braid_ort_plans *plans;        /* NULL: nothing reads what the group computes, so it computes nothing */
  braid_ort_host *host;
  size_t input_count, output_count;
  size_t *places; /* of the graph's inputs and then outputs: their index among those of the framework's node */
  char name[128];
};

/* --- runs --- */

static braid_status group_inputs(const braid_ort_group *group, const OrtKernelContext *context, braid_ort_call *call) {
  for (size_t i = 0; i < group->input_count; i++) {
    const OrtValue *value = NULL;
    int type = 0, known = braid_ort_plans_input_rank(group->plans, i);
    TRY_ORT(braid_ort.KernelContext_GetInput(context, group->places[i], &value));
    if (!value) return braid_fail(BRAID_INVALID_ARGUMENT, "input %zu is not given", i);
    TRY_ORT(braid_ort.GetTensorElementTypeAndShapeDataReference(value, &type, &call->dims[i], &call->ranks[i]));
    if (known < 0 ? call->ranks[i] > BRAID_MAX_RANK : call->ranks[i] != (size_t)known)
      return braid_fail(BRAID_INVALID_ARGUMENT, "input %zu has %zu dimensions, %s %d", i, call->ranks[i],
                        known < 0 ? "at most" : "the model declares", known < 0 ? BRAID_MAX_RANK : known);
    TRY_ORT(braid_ort.GetTensorData(value, &call->inputs[i]));
  }
  return BRAID_OK;
}

static braid_status group_outputs(const braid_ort_group *group, OrtKernelContext *context, const braid_plan *plan,
                                  braid_ort_call *call) {
  for (size_t i = 0; i < group->output_count; i++) {
    OrtValue *value = NULL;
    const braid_desc *desc = braid_plan_output(plan, i);
    TRY_ORT(braid_ort.KernelContext_GetOutput(context, group->places[group->input_count + i], desc->dims,
                                              (size_t)desc->rank, &value));
    TRY_ORT(braid_ort.GetTensorMutableData(value, &call->outputs[i]));
  }
  return BRAID_OK;
}

/* Whether an output is in the memory of an input, as a program may bind it. */
static bool output_overlaps(const braid_plan *plan, const braid_ort_call *call, size_t index) {
  size_t bytes = braid_desc_bytes(braid_plan_output(plan, index));
  uintptr_t begin = (uintptr_t)call->outputs[index];
  for (size_t i = 0; i < braid_plan_input_count(plan); i++) {
    uintptr_t other = (uintptr_t)call->left[i];
    if (begin < other + braid_desc_bytes(braid_plan_input(plan, i)) && other < begin + bytes) return true;
  }
  return false;
}

/* Runs with one more of the outputs beside what it overlaps, since kernels read inputs after they have begun to write,
 * until none does. */
static braid_status group_run_apart(braid_execution *execution, const braid_plan *plan, size_t first,
                                    braid_ort_call *call) {
  while (first < braid_plan_output_count(plan) && !output_overlaps(plan, call, first)) first++;
  if (first == braid_plan_output_count(plan)) return braid_execution_run(execution, call->left, call->outputs);
  size_t bytes = braid_desc_bytes(braid_plan_output(plan, first));
  void *bound = call->outputs[first], *apart = braid_alloc(NULL, bytes);
  if (!apart) return braid_fail(BRAID_NO_MEMORY, "there is no memory for an output that overlaps an input");
  call->outputs[first] = apart;
  braid_status status = group_run_apart(execution, plan, first + 1, call);
  if (status == BRAID_OK) memcpy(bound, apart, bytes);
  if (status != BRAID_DEVICE_LOST) braid_free(NULL, apart); /* a lost device may still write to it */
  return status;
}

static braid_status group_run(braid_ort_group *group, OrtKernelContext *context, braid_ort_call *call) {
  braid_ort_plan *plan = NULL;
  braid_execution *execution = NULL;
  braid_status status = group_inputs(group, context, call);
  if (status == BRAID_OK) status = braid_ort_plans_take(group->plans, call, &plan, &execution);
  if (status == BRAID_OK) status = group_outputs(group, context, plan->plan, call);
  if (status == BRAID_OK) status = group_run_apart(execution, plan->plan, 0, call);
  if (status == BRAID_DEVICE_LOST) {
    braid_ort_host_lost(group->host);
    braid_execution_destroy(execution);
    execution = NULL;
    status = braid_fail(BRAID_DEVICE_LOST, "%s", braid_error_detail());
  }
  braid_ort_plans_give(group->plans, call, plan, execution);
  return status;
}

static OrtStatus *group_compute(void *info, void *state, OrtKernelContext *context) {
  braid_ort_group *group = info;
  braid_ort_call *call = NULL;
  (void)state;
  if (!group->plans) return NULL;
  braid_status status = braid_ort_host_check(group->host);
  if (status == BRAID_OK) status = braid_ort_plans_call(group->plans, &call);
  if (status == BRAID_OK) status = group_run(group, context, call);
  if (status == BRAID_OK) return NULL;
  return braid_ort_status(braid_fail(status, "%s: %s", group->name, braid_error_detail()));
}

static OrtStatus *group_create_state(void *info, OrtNodeComputeContext *context, void **state) {
  (void)context;
  *state = info;
  return NULL;
}

static void group_release_state(void *info, void *state) {
  (void)info;
  (void)state;
}

/* --- create --- */

static braid_status group_fill(braid_ort_group *group, const braid_ort_group_options *options, braid_ort_view *view,
                               const braid_ort_piece *piece) {
  braid_graph *graph = NULL;
  bool open = false;
  if (piece->output_count == 0) return BRAID_OK;
  TRY(braid_ort_piece_parse(view, piece, &graph));
  braid_ort_plans_options plans = {braid_ort_host_machine(options->host), options->weights, options->plan,
                                   options->plans};
  TRY(braid_ort_plans_create(&plans, graph, &group->plans));
  if (braid_graph_input_count(graph) != piece->input_count || braid_graph_output_count(graph) != piece->output_count)
    return braid_fail(BRAID_INTERNAL, "the graph has other inputs or outputs than the group");
  for (size_t i = 0; i < piece->input_count; i++) {
    const braid_ort_value *value = &view->values[piece->inputs[i]];
    open = open || value->rank < 0;
    for (int d = 0; d < value->rank; d++) open = open || value->dims[d] < 0;
  }
  return open ? BRAID_OK : braid_ort_plans_settle(group->plans, options->checked);
}

braid_status braid_ort_group_create(const braid_ort_group_options *options, braid_ort_view *view,
                                    const braid_ort_piece *piece, const size_t *places, braid_ort_group **out) {
  *out = NULL;
  braid_ort_group *group = braid_zalloc(NULL, sizeof *group);
  size_t *copy = braid_zalloc_array(NULL, piece->input_count + piece->output_count + 1, sizeof *copy);
  if (!group || !copy) {
    braid_free(NULL, group);
    braid_free(NULL, copy);
    return braid_fail(BRAID_NO_MEMORY, "there is no memory for a group");
  }
  memcpy(copy, places, (piece->input_count + piece->output_count) * sizeof *copy);
  *group = (braid_ort_group){.host = options->host, .places = copy};
  group->table = (braid_ort_compute_table){braid_ort.version, group_create_state, group_compute, group_release_state};
  group->input_count = piece->input_count;
  group->output_count = piece->output_count;
  strncpy(group->name, piece->name, sizeof group->name - 1);
  braid_status status = group_fill(group, options, view, piece);
  if (status == BRAID_OK)
    *out = group;
  else
    braid_ort_group_destroy(group);
  return status;
}

void braid_ort_group_destroy(braid_ort_group *group) {
  if (!group || braid_ort_host_foreign(group->host)) return;
  braid_ort_plans_destroy(group->plans);
  braid_free(NULL, group->places);
  braid_free(NULL, group);
}

braid_ort_compute_table *braid_ort_group_table(braid_ort_group *group) {
  return &group->table;
}
