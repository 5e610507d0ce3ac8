#include "graph/body.h"

#include <string.h>

#include "base/try.h"
#include "graph/onnx_dtype.h"

/* --- the function's operands ---------------------------------------------------------------------------------------
 */
const braid_attrs *braid_body_attrs(const braid_body *body) {
  return &body->graph->nodes[body->node].attrs;
}

braid_value_id braid_body_input(const braid_body *body, size_t index) {
  const braid_node *node = &body->graph->nodes[body->node];
  return index < node->input_count ? node->inputs[index] : -1;
}

bool braid_body_wants(const braid_body *body, size_t output) {
  const braid_node *node = &body->graph->nodes[body->node];
  return output < node->output_count && node->outputs[output] >= 0;
}

const braid_desc *braid_body_output_desc(const braid_body *body) {
  return braid_body_desc(body, body->graph->nodes[body->node].outputs[0]);
}

/* The value of the function becomes that of the node that computes it: names and uses stay as they are. */
static braid_status take_over(braid_body *body, size_t output, braid_value_id value) {
  braid_graph *graph = body->graph;
  braid_value_id target = graph->nodes[body->node].outputs[output];
  const braid_desc *want = &graph->values[target].desc, *have = &graph->values[value].desc;
  if (want->dtype != have->dtype || !braid_desc_same_shape(want, have))
    return braid_fail(BRAID_INTERNAL, "node %.120s (%s): output %zu of its body is of another type or shape",
                      graph->nodes[body->node].name, graph->nodes[body->node].op->name, output);
  braid_node *last = &graph->nodes[graph->values[value].producer];
  for (size_t i = 0; i < last->output_count; i++)
    if (last->outputs[i] == value) last->outputs[i] = target;
  graph->values[target].producer = graph->values[value].producer;
  graph->values[target].tensor = graph->values[value].tensor;
  graph->values[value].tensor = NULL;
  graph->nodes[body->node].outputs[output] = -1;
  braid_graph_replace_uses(graph, value, target);
  return BRAID_OK;
}

void braid_body_give(braid_body *body, size_t output, braid_value_id value) {
  if (!braid_body_wants(body, output)) return;
  value = braid_body_1(body, "Identity", value); /* so that it is nobody else's */
  if (body->status == BRAID_OK) body->status = take_over(body, output, value);
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
const braid_desc *braid_body_desc(const braid_body *body, braid_value_id value) {
  static const braid_desc nothing = {.dtype = BRAID_F32};
  return value < 0 ? &nothing : &body->graph->values[value].desc;
}

braid_value_id braid_body_scalar(braid_body *body, braid_dtype dtype, double value) {
  braid_value_id made = -1;
  if (body->status == BRAID_OK) body->status = braid_graph_add_scalar(body->graph, dtype, value, &made);
  return made;
}

braid_value_id braid_body_int64s(braid_body *body, const int64_t *values, size_t count) {
  braid_value_id made = -1;
  if (body->status == BRAID_OK) body->status = braid_graph_add_int64s(body->graph, values, count, &made);
  return made;
}

braid_value_id braid_body_tensor(braid_body *body, braid_tensor *tensor) {
  braid_value_id made = -1;
  if (body->status == BRAID_OK)
    body->status = braid_graph_add_tensor(body->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &made);
  braid_tensor_release(tensor);
  return made;
}

braid_value_id braid_body_tabulate(braid_body *body, const braid_desc *desc,
                                   double (*f)(int64_t at, const double *context), const double *context) {
  braid_tensor *tensor = NULL;
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, desc, &tensor);
  if (!tensor) return -1;
  for (int64_t i = 0; i < braid_desc_count(desc); i++) braid_tensor_set_f64(tensor, i, f(i, context));
  return braid_body_tensor(body, tensor);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static braid_status body_set(braid_graph *graph, braid_node_id node, const braid_body_attr *attr) {
  if (attr->s) return braid_graph_set_string(graph, node, attr->name, attr->s);
  if (attr->ints) return braid_graph_set_ints(graph, node, attr->name, attr->ints, attr->count);
  if (attr->is_float) return braid_graph_set_float(graph, node, attr->name, attr->f);
  return braid_graph_set_int(graph, node, attr->name, attr->i);
}

static braid_status body_add(braid_body *body, const char *op, const braid_value_id *inputs, size_t count,
                             const braid_body_attr *attrs, braid_value_id *out) {
  braid_graph *graph = body->graph;
  braid_node_id id;
  braid_value_id output = 0;
  BRAID_TRY(braid_graph_add_node(graph, op, NULL, inputs, count, &output, 1, &id));
  const braid_node *function = &graph->nodes[body->node];
  graph->nodes[id].module = function->module;
  graph->nodes[id].call = function->call;
  graph->nodes[id].backward = function->backward;
  BRAID_TRY(braid_graph_add_alias(graph, id, function->name)); /* what is said of the function is said of its nodes */
  for (; attrs && attrs->name; attrs++) BRAID_TRY(body_set(graph, id, attrs));
  BRAID_TRY(braid_graph_infer_and_fold(graph, id, body->evaluator));
  *out = output;
  return BRAID_OK;
}

braid_value_id braid_body_node(braid_body *body, const char *op, const braid_value_id *inputs, size_t count,
                               const braid_body_attr *attrs) {
  braid_value_id made = -1;
  if (body->status == BRAID_OK) body->status = body_add(body, op, inputs, count, attrs, &made);
  return made;
}

braid_value_id braid_body_1(braid_body *body, const char *op, braid_value_id a) {
  return braid_body_node(body, op, &a, 1, NULL);
}

braid_value_id braid_body_2(braid_body *body, const char *op, braid_value_id a, braid_value_id b) {
  return braid_body_node(body, op, (braid_value_id[]){a, b}, 2, NULL);
}

braid_value_id braid_body_with(braid_body *body, const char *op, braid_value_id a, double b) {
  return braid_body_2(body, op, a, braid_body_scalar(body, braid_body_desc(body, a)->dtype, b));
}

braid_value_id braid_body_where(braid_body *body, braid_value_id condition, braid_value_id a, braid_value_id b) {
  return braid_body_node(body, "Where", (braid_value_id[]){condition, a, b}, 3, NULL);
}

braid_value_id braid_body_cast(braid_body *body, braid_value_id value, braid_dtype dtype) {
  if (braid_body_desc(body, value)->dtype == dtype) return value;
  const braid_body_attr attrs[] = {{.name = "to", .i = braid_dtype_to_onnx(dtype)}, {0}};
  return braid_body_node(body, "Cast", &value, 1, attrs);
}

braid_value_id braid_body_reshape(braid_body *body, braid_value_id value, int rank, const int64_t *dims) {
  const braid_body_attr attrs[] = {{.name = "allowzero", .i = 1}, {0}};
  braid_value_id shape = braid_body_int64s(body, dims, (size_t)rank);
  return braid_body_node(body, "Reshape", (braid_value_id[]){value, shape}, 2, attrs);
}

braid_value_id braid_body_transpose(braid_body *body, braid_value_id value, const int64_t *perm) {
  size_t rank = (size_t)braid_body_desc(body, value)->rank;
  const braid_body_attr attrs[] = {{.name = "perm", .ints = perm, .count = rank}, {0}};
  return braid_body_node(body, "Transpose", &value, 1, attrs);
}

braid_value_id braid_body_expand_to(braid_body *body, braid_value_id value, int rank, const int64_t *dims) {
  return braid_body_2(body, "Expand", value, braid_body_int64s(body, dims, (size_t)rank));
}

braid_value_id braid_body_slice(braid_body *body, braid_value_id value, int64_t axis, int64_t start, int64_t end) {
  braid_value_id inputs[4] = {value, braid_body_int64s(body, &start, 1), braid_body_int64s(body, &end, 1),
                              braid_body_int64s(body, &axis, 1)};
  return braid_body_node(body, "Slice", inputs, 4, NULL);
}

braid_value_id braid_body_concat(braid_body *body, const braid_value_id *parts, size_t count, int64_t axis) {
  const braid_body_attr attrs[] = {{.name = "axis", .i = axis}, {0}};
  return braid_body_node(body, "Concat", parts, count, attrs);
}

braid_value_id braid_body_reduce(braid_body *body, const char *op, braid_value_id value, int64_t axis, bool keep) {
  const braid_body_attr attrs[] = {{.name = "keepdims", .i = keep}, {0}};
  braid_value_id axes = braid_body_int64s(body, &axis, 1);
  return braid_body_node(body, op, (braid_value_id[]){value, axes}, 2, attrs);
}

/* --- in place of the node ------------------------------------------------------------------------------------------
 */
static const struct function_op {
  const char *op;
  void (*expand)(braid_body *body);
} kFunctions[] = {
#define ENTRY(op) {#op, braid_expand_##op},
    BRAID_FUNCTION_OPS(ENTRY)
#undef ENTRY
};

static const struct function_op *find_function(const char *op) {
  size_t i = 0;
  while (strcmp(kFunctions[i].op, op) != 0) i++;
  return &kFunctions[i];
}

braid_status braid_body_expand(braid_graph *graph, braid_node_id id, const braid_evaluator *evaluator) {
  braid_body body = {.graph = graph, .node = id, .evaluator = evaluator, .status = BRAID_OK};
  bool wanted = false; /* a node that has given way to its body lies there until the graph is compacted */
  for (size_t i = 0; i < graph->nodes[id].output_count; i++) wanted |= braid_body_wants(&body, i);
  if (!wanted) return BRAID_OK;
  find_function(graph->nodes[id].op->name)->expand(&body);
  if (body.status != BRAID_OK)
    return braid_fail_prefix(body.status, "node %.120s (%s)", graph->nodes[id].name, graph->nodes[id].op->name);
  for (size_t i = 0; i < graph->nodes[id].output_count; i++)
    if (graph->nodes[id].outputs[i] >= 0)
      return braid_fail(BRAID_INTERNAL, "node %.120s (%s): its body gives no output %zu", graph->nodes[id].name,
                        graph->nodes[id].op->name, i);
  return BRAID_OK;
}

braid_status braid_body_expand_all(braid_graph *graph) {
  size_t count = graph->node_count;
  for (size_t i = 0; i < count; i++)
    if (graph->nodes[i].op->flags & BRAID_OP_FUNCTION)
      BRAID_TRY(braid_graph_infer_and_fold(graph, (braid_node_id)i, NULL));
  return graph->node_count > count ? braid_graph_sort(graph) : BRAID_OK;
}
