#include "graph/gradient.h"

#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/body.h"
#include "graph/precision.h"

struct braid_gradient_state {
  braid_value_id *of; /* forward value -> its gradient so far; -1: none */
  bool *depends;      /* forward value -> does it depend on a value we differentiate by? */
  size_t value_count; /* forward values; what the driver adds lies beyond */
};

/* --- for gradient functions ----------------------------------------------------------------------------------------
 */
braid_value_id braid_gradient_input(const braid_gradient_context *context, size_t index) {
  const braid_node *node = &context->graph->nodes[context->node];
  return index < node->input_count ? node->inputs[index] : -1;
}

braid_value_id braid_gradient_output(const braid_gradient_context *context, size_t index) {
  const braid_node *node = &context->graph->nodes[context->node];
  return index < node->output_count ? node->outputs[index] : -1;
}

braid_value_id braid_gradient_of_output(const braid_gradient_context *context, size_t index) {
  braid_value_id value = braid_gradient_output(context, index);
  return value >= 0 && (size_t)value < context->state->value_count ? context->state->of[value] : -1;
}

braid_status braid_gradient_add_output(braid_gradient_context *context, size_t index, braid_value_id *out) {
  braid_graph *graph = context->graph;
  *out = braid_gradient_output(context, index);
  if (*out >= 0) return BRAID_OK;
  size_t have = graph->nodes[context->node].output_count, count = have > index ? have : index + 1;
  braid_value_id *outputs = braid_graph_arena_alloc(graph, count * sizeof *outputs);
  if (!outputs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) outputs[i] = braid_gradient_output(context, i);
  BRAID_TRY(braid_graph_add_value(graph, NULL, BRAID_VALUE_RESULT, &outputs[index]));
  graph->values[outputs[index]].producer = context->node;
  graph->nodes[context->node].outputs = outputs;
  graph->nodes[context->node].output_count = count;
  *out = outputs[index];
  return braid_graph_infer_node(graph, context->node);
}

bool braid_gradient_wanted(const braid_gradient_context *context, size_t index) {
  braid_value_id value = braid_gradient_input(context, index);
  return value >= 0 && (size_t)value < context->state->value_count && context->state->depends[value];
}

braid_status braid_gradient_node(braid_gradient_context *context, const char *op, const braid_value_id *inputs,
                                 size_t count, braid_value_id *out, braid_node_id *node) {
  braid_value_id result = 0; /* `out` may be one of the inputs */
  braid_node_id id;
  BRAID_TRY(braid_graph_add_node(context->graph, op, NULL, inputs, count, &result, 1, &id));
  *out = result;
  context->graph->nodes[id].backward = true;
  if (node) *node = id;
  return BRAID_OK;
}

braid_status braid_gradient_reshape(braid_gradient_context *context, braid_value_id value, int rank,
                                    const int64_t *dims, braid_value_id *out) {
  braid_value_id inputs[2] = {value};
  braid_node_id node;
  bool empty = false;
  for (int i = 0; i < rank; i++) empty |= dims[i] == 0;
  BRAID_TRY(braid_graph_add_int64s(context->graph, dims, (size_t)rank, &inputs[1]));
  BRAID_TRY(braid_gradient_node(context, "Reshape", inputs, 2, out, &node));
  if (!empty) return BRAID_OK;
  BRAID_TRY(braid_graph_set_int(context->graph, node, "allowzero", 1)); /* else 0 means: as in the input */
  return braid_graph_infer_node(context->graph, node);
}

braid_status braid_gradient_copy_attrs(braid_gradient_context *context, braid_node_id id) {
  braid_graph *graph = context->graph;
  size_t count = graph->nodes[context->node].attrs.count;
  for (size_t i = 0; i < count; i++) {
    const braid_attr *attr = &graph->nodes[context->node].attrs.items[i];
    BRAID_TRY(braid_attrs_copy(graph, id, attr));
  }
  return braid_graph_infer_node(graph, id);
}

braid_status braid_gradient_scalar(braid_gradient_context *context, braid_dtype dtype, double value,
                                   braid_value_id *out) {
  return braid_graph_add_scalar(context->graph, dtype, value, out);
}

braid_status braid_gradient_give(braid_gradient_context *context, size_t index, braid_value_id gradient) {
  braid_value_id value = braid_gradient_input(context, index);
  if (!braid_gradient_wanted(context, index)) return BRAID_OK;
  braid_value_id *slot = &context->state->of[value];
  if (*slot < 0) {
    *slot = gradient;
    return BRAID_OK;
  }
  braid_value_id sum;
  BRAID_TRY(braid_gradient_node(context, "Add", (braid_value_id[]){*slot, gradient}, 2, &sum, NULL));
  *slot = sum;
  return BRAID_OK;
}

/* Sums `gradient` over the dimensions along which `target` was broadcast, and gives it the target's shape. */
static braid_status reduce_to(braid_gradient_context *context, const braid_desc *target, braid_value_id gradient,
                              braid_value_id *out) {
  braid_graph *graph = context->graph;
  const braid_desc from = graph->values[gradient].desc, to = *target;
  if (from.rank < 0)
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s: gradients need resolved shapes",
                      graph->nodes[context->node].name);
  *out = gradient;
  if (braid_desc_same_shape(&from, &to)) return BRAID_OK;
  int64_t axes[BRAID_MAX_RANK], count = 0;
  for (int i = 0; i < from.rank; i++) {
    int j = i - (from.rank - to.rank);
    if ((j < 0 || to.dims[j] == 1) && from.dims[i] != 1) axes[count++] = i;
  }
  if (count) {
    braid_value_id list;
    BRAID_TRY(braid_graph_add_int64s(graph, axes, (size_t)count, &list));
    BRAID_TRY(braid_gradient_node(context, "ReduceSum", (braid_value_id[]){*out, list}, 2, out, NULL));
  }
  if (from.rank == to.rank) return BRAID_OK;
  return braid_gradient_reshape(context, *out, to.rank, to.dims, out);
}

braid_status braid_gradient_give_reduced(braid_gradient_context *context, size_t index, braid_value_id gradient) {
  if (!braid_gradient_wanted(context, index)) return BRAID_OK;
  const braid_desc target = context->graph->values[braid_gradient_input(context, index)].desc;
  BRAID_TRY(reduce_to(context, &target, gradient, &gradient));
  return braid_gradient_give(context, index, gradient);
}

/* --- driver --------------------------------------------------------------------------------------------------------
 */
static void mark_dependent(const braid_graph *graph, const braid_value_id *wrt, size_t count, bool *depends) {
  for (size_t i = 0; i < count; i++) depends[wrt[i]] = true;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    bool any = false;
    for (size_t j = 0; j < node->input_count; j++)
      any |= node->inputs[j] >= 0 && depends[node->inputs[j]] &&
             braid_dtype_is_float(graph->values[node->inputs[j]].desc.dtype);
    for (size_t j = 0; any && j < node->output_count; j++)
      if (node->outputs[j] >= 0) depends[node->outputs[j]] |= any;
  }
}

static bool node_has_gradient(const braid_gradient_context *context) {
  const braid_node *node = &context->graph->nodes[context->node];
  bool wanted = false, arrives = false;
  for (size_t i = 0; i < node->input_count; i++) wanted |= braid_gradient_wanted(context, i);
  for (size_t i = 0; i < node->output_count; i++) arrives |= braid_gradient_of_output(context, i) >= 0;
  return wanted && arrives;
}

static braid_status gradient_run(braid_graph *graph, braid_value_id loss, struct braid_gradient_state *state) {
  braid_gradient_context context = {.graph = graph, .state = state};
  size_t forward = graph->node_count;
  BRAID_TRY(braid_graph_add_scalar(graph, graph->values[loss].desc.dtype, 1.0, &state->of[loss]));
  /* the seed has the loss's shape, which may be [] or [1] */
  braid_value *seed = &graph->values[state->of[loss]];
  if (!braid_desc_same_shape(&seed->desc, &graph->values[loss].desc)) {
    braid_value_id shape, seed_id = state->of[loss];
    const braid_desc desc = graph->values[loss].desc;
    BRAID_TRY(braid_graph_add_int64s(graph, desc.dims, (size_t)desc.rank, &shape));
    BRAID_TRY(braid_gradient_node(&context, "Reshape", (braid_value_id[]){seed_id, shape}, 2, &state->of[loss], NULL));
  }
  for (size_t i = forward; i-- > 0;) {
    context.node = (braid_node_id)i;
    if (!node_has_gradient(&context)) continue;
    const braid_node *node = &graph->nodes[i];
    if (!node->op->gradient)
      return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s) has no gradient", node->name, node->op->name);
    braid_status status = node->op->gradient(&context);
    if (status != BRAID_OK)
      return braid_fail_prefix(status, "gradient of node %.120s (%s)", graph->nodes[i].name, graph->nodes[i].op->name);
  }
  return BRAID_OK;
}

static braid_status gradient_check(const braid_graph *graph, braid_value_id loss, const braid_value_id *wrt,
                                   size_t count) {
  if (loss < 0 || (size_t)loss >= graph->value_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "loss value %d does not exist", loss);
  const braid_value *value = &graph->values[loss];
  if (value->desc.rank < 0 || braid_desc_count(&value->desc) != 1 || !braid_dtype_is_float(value->desc.dtype))
    return braid_fail(BRAID_INVALID_ARGUMENT, "loss %.120s must be one floating-point number", value->name);
  for (size_t i = 0; i < count; i++)
    if (wrt[i] < 0 || (size_t)wrt[i] >= graph->value_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "value %d does not exist", wrt[i]);
  return BRAID_OK;
}

braid_status braid_graph_gradients(braid_graph *graph, braid_value_id loss, const braid_value_id *wrt, size_t count,
                                   braid_value_id *grads) {
  BRAID_TRY(gradient_check(graph, loss, wrt, count));
  BRAID_TRY(braid_graph_begin_change(graph));
  BRAID_TRY(braid_body_expand_all(graph));
  BRAID_TRY(braid_graph_lower(graph));
  struct braid_gradient_state state = {.value_count = graph->value_count};
  state.of = braid_zalloc_array(graph->allocator, graph->value_count, sizeof *state.of);
  state.depends = braid_zalloc_array(graph->allocator, graph->value_count, sizeof *state.depends);
  braid_status status = state.of && state.depends ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t i = 0; i < state.value_count; i++) state.of[i] = -1;
    mark_dependent(graph, wrt, count, state.depends);
    status = gradient_run(graph, loss, &state);
  }
  for (size_t i = 0; status == BRAID_OK && i < count; i++) grads[i] = state.of[wrt[i]];
  braid_free(graph->allocator, state.of);
  braid_free(graph->allocator, state.depends);
  return status;
}
