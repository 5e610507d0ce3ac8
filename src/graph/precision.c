#include "graph/precision.h"

#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/onnx_dtype.h"

/* --- which ops -----------------------------------------------------------------------------------------------------
 */
static const char *const kProducts[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
static const char *const kProductGradients[] = {"ConvGradInput", "ConvGradFilter"};

enum { kFirst = 1, kAll = INT32_MAX };

/* Bit i: input i is computed on; others (ratios, statistics, indices) stay as they are. */
typedef struct follower {
  const char *op;
  uint32_t computed_on;
} follower;

static const follower kFollowers[] = {
    {"Abs", kAll},
    {"Add", kAll},
    {"AveragePool", kFirst},
    {"BatchNormalization", kFirst},
    {"Celu", kAll},
    {"Clip", kAll},
    {"Concat", kAll},
    {"DepthToSpace", kFirst},
    {"Dropout", kFirst},
    {"Elu", kAll},
    {"Expand", kFirst},
    {"Flatten", kFirst},
    {"Gather", kFirst},
    {"Gelu", kAll},
    {"GlobalAveragePool", kFirst},
    {"GlobalMaxPool", kFirst},
    {"HardSigmoid", kAll},
    {"HardSwish", kAll},
    {"Identity", kFirst},
    {"LeakyRelu", kAll},
    {"Max", kAll},
    {"MaxPool", kFirst},
    {"Min", kAll},
    {"Mish", kAll},
    {"Mul", kAll},
    {"Neg", kAll},
    {"PRelu", kAll},
    {"Pad", kAll},
    {"Relu", kAll},
    {"Reshape", kFirst},
    {"Resize", kFirst},
    {"Selu", kAll},
    {"Sigmoid", kAll},
    {"Slice", kFirst},
    {"SpaceToDepth", kFirst},
    {"Split", kFirst},
    {"Squeeze", kFirst},
    {"Sub", kAll},
    {"Sum", kAll},
    {"Swish", kAll},
    {"Tanh", kAll},
    {"Tile", kFirst},
    {"Transpose", kFirst},
    {"Unsqueeze", kFirst},
    {"Where", kAll},
};

static bool is_one_of(const char *op, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(op, names[i]) == 0) return true;
  return false;
}

static bool is_product(const char *op) {
  return is_one_of(op, kProducts, sizeof kProducts / sizeof *kProducts);
}

/* 0: the op does not follow. */
static uint32_t computed_on(const char *op) {
  for (size_t i = 0; i < sizeof kFollowers / sizeof *kFollowers; i++)
    if (strcmp(op, kFollowers[i].op) == 0) return kFollowers[i].computed_on;
  return 0;
}

/* --- casts ---------------------------------------------------------------------------------------------------------
 */
typedef struct precision_pass {
  braid_graph *graph;
  braid_dtype low;
  size_t value_count;       /* before the pass */
  braid_value_id *low_of;   /* of float32 values: their cast to 16 bits; -1: none yet */
  braid_value_id *whole_of; /* of values that the pass has made 16-bit: their cast to float32; -1: none yet */
  bool *lowered;
} precision_pass;

static braid_status precision_cast(precision_pass *p, braid_value_id value, braid_dtype to, braid_value_id *out) {
  braid_node_id node;
  *out = 0;
  BRAID_TRY(braid_graph_add_node(p->graph, "Cast", NULL, &value, 1, out, 1, &node));
  BRAID_TRY(braid_graph_set_int(p->graph, node, "to", braid_dtype_to_onnx(to)));
  return braid_graph_infer_node(p->graph, node);
}

static braid_status low_version(precision_pass *p, braid_value_id *value) {
  if (p->graph->values[*value].desc.dtype != BRAID_F32) return BRAID_OK;
  braid_value_id *cast = &p->low_of[*value];
  if (*cast < 0) BRAID_TRY(precision_cast(p, *value, p->low, cast));
  *value = *cast;
  return BRAID_OK;
}

static braid_status whole_version(precision_pass *p, braid_value_id *value) {
  if ((size_t)*value >= p->value_count || !p->lowered[*value]) return BRAID_OK;
  braid_value_id *cast = &p->whole_of[*value];
  if (*cast < 0) BRAID_TRY(precision_cast(p, *value, BRAID_F32, cast));
  *value = *cast;
  return BRAID_OK;
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static bool is_computed_on(uint32_t inputs, size_t index) {
  return index >= 31 ? inputs == kAll : inputs >> index & 1;
}

/* Constants and parameters go by what they are combined with. */
static bool is_given(const braid_value *value) {
  return value->kind == BRAID_VALUE_CONSTANT || value->kind == BRAID_VALUE_PARAMETER;
}

/* Becomes the node one of 16 bits? Operands of a model's own 16-bit or double type leave it as it is. */
static bool takes_low(const precision_pass *p, const braid_node *node, uint32_t inputs, bool product) {
  bool any = product;
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0 || !is_computed_on(inputs, i)) continue;
    const braid_value *value = &p->graph->values[node->inputs[i]];
    if (!braid_dtype_is_float(value->desc.dtype)) continue;
    bool own = (size_t)node->inputs[i] < p->value_count && p->lowered[node->inputs[i]];
    if (!own && value->desc.dtype != BRAID_F32) return false;
    if (!own && !product && !is_given(value)) return false;
    any |= own;
  }
  return any;
}

static braid_status lower_node(precision_pass *p, braid_node_id id, uint32_t inputs) {
  braid_graph *graph = p->graph;
  for (size_t i = 0; i < graph->nodes[id].input_count; i++) {
    braid_value_id value = graph->nodes[id].inputs[i];
    if (value < 0 || !is_computed_on(inputs, i)) continue;
    BRAID_TRY(low_version(p, &value)); /* moves the nodes */
    graph->nodes[id].inputs[i] = value;
  }
  BRAID_TRY(braid_graph_infer_node(graph, id));
  for (size_t i = 0; i < graph->nodes[id].output_count; i++) {
    braid_value_id value = graph->nodes[id].outputs[i];
    if (value >= 0 && graph->values[value].desc.dtype == p->low) p->lowered[value] = true;
  }
  return BRAID_OK;
}

static braid_status keep_node(precision_pass *p, braid_node_id id) {
  braid_graph *graph = p->graph;
  for (size_t i = 0; i < graph->nodes[id].input_count; i++) {
    braid_value_id value = graph->nodes[id].inputs[i];
    if (value < 0) continue;
    BRAID_TRY(whole_version(p, &value));
    graph->nodes[id].inputs[i] = value;
  }
  return BRAID_OK;
}

/* --- ends ----------------------------------------------------------------------------------------------------------
 */
/* The 16-bit value's name, once float32's has its own. */
static const char *low_name(const precision_pass *p, const char *name) {
  const char *dtype = braid_dtype_name(p->low);
  const char *low = braid_arena_format(p->graph->arena, "%s/%s", name, dtype);
  for (int number = 2; low && braid_graph_find_value(p->graph, low) >= 0; number++)
    low = braid_arena_format(p->graph->arena, "%s/%s~%d", name, dtype, number);
  return low;
}

/* The name stays with what is float32; a value that is given out again has passed it on already. */
static braid_status keep_output(precision_pass *p, size_t index) {
  braid_graph *graph = p->graph;
  braid_value_id value = graph->outputs[index], whole = value;
  BRAID_TRY(whole_version(p, &whole));
  graph->outputs[index] = whole;
  if (whole == value) return BRAID_OK;
  for (size_t i = 0; i < index; i++)
    if (graph->outputs[i] == whole) return BRAID_OK;
  const char *name = graph->values[value].name, *low = low_name(p, name);
  if (!low) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_graph_rename_value(graph, value, low));
  return braid_graph_rename_value(graph, whole, name);
}

static braid_status keep_ends(precision_pass *p) {
  for (size_t i = 0; i < p->graph->output_count; i++) BRAID_TRY(keep_output(p, i));
  for (size_t i = 0; i < p->value_count; i++) {
    braid_value_id next = p->graph->values[i].next;
    if (next < 0) continue;
    BRAID_TRY(whole_version(p, &next));
    p->graph->values[i].next = next;
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status lower_all(precision_pass *p) {
  size_t count = p->graph->node_count; /* casts come behind */
  for (size_t i = 0; i < count; i++) {
    const braid_node *node = &p->graph->nodes[i];
    bool product = is_product(node->op->name);
    uint32_t inputs = product ? kAll : computed_on(node->op->name);
    bool low = inputs && takes_low(p, node, inputs, product);
    BRAID_TRY(low ? lower_node(p, (braid_node_id)i, inputs) : keep_node(p, (braid_node_id)i));
  }
  BRAID_TRY(keep_ends(p));
  return braid_graph_sort(p->graph);
}

static braid_status lower_graph(braid_graph *graph, braid_dtype low) {
  precision_pass p = {.graph = graph, .low = low, .value_count = graph->value_count};
  BRAID_TRY(braid_graph_begin_change(graph));
  BRAID_TRY(braid_graph_sort(graph));
  p.low_of = braid_zalloc_array(graph->allocator, p.value_count + 1, 2 * sizeof *p.low_of);
  p.lowered = braid_zalloc_array(graph->allocator, p.value_count + 1, sizeof *p.lowered);
  p.whole_of = p.low_of + p.value_count;
  braid_status status = p.low_of && p.lowered ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t i = 0; i < 2 * p.value_count; i++) p.low_of[i] = -1;
    status = lower_all(&p);
  }
  braid_free(graph->allocator, p.low_of);
  braid_free(graph->allocator, p.lowered);
  return status;
}

static braid_status allow_tf32(braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++) {
    const char *op = graph->nodes[i].op->name;
    if (is_product(op) || is_one_of(op, kProductGradients, sizeof kProductGradients / sizeof *kProductGradients))
      BRAID_TRY(braid_graph_set_int(graph, (braid_node_id)i, "__tf32", 1));
  }
  return BRAID_OK;
}

braid_status braid_graph_lower(braid_graph *graph) {
  braid_dtype low = braid_precision_dtype(graph->precision);
  if (low == BRAID_F32) return BRAID_OK;
  graph->precision = BRAID_FLOAT32;
  return lower_graph(graph, low);
}

braid_status braid_graph_apply_precision(braid_graph *graph) {
  bool tf32 = graph->precision == BRAID_TF32;
  BRAID_TRY(braid_graph_lower(graph));
  graph->precision = BRAID_FLOAT32;
  return tf32 ? allow_tf32(graph) : BRAID_OK;
}

static const char *const kNames[] = {[BRAID_FLOAT32] = "float32",
                                     [BRAID_INT8] = "int8",
                                     [BRAID_TF32] = "tf32",
                                     [BRAID_BFLOAT16] = "bf16",
                                     [BRAID_FLOAT16] = "fp16"};

const char *braid_precision_name(braid_precision precision) {
  return (size_t)precision < sizeof kNames / sizeof *kNames ? kNames[precision] : "unknown";
}

braid_status braid_graph_set_precision(braid_graph *graph, braid_precision precision) {
  if ((size_t)precision >= sizeof kNames / sizeof *kNames)
    return braid_fail(BRAID_INVALID_ARGUMENT, "an unknown precision");
  if (precision == BRAID_INT8)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "int8 is no precision of a graph: integers are trained (braid/train.h) or quantized "
                      "(braid/quantize.h); there are float32, tf32, bf16 and fp16");
  graph->precision = precision;
  return BRAID_OK;
}

braid_precision braid_graph_precision(const braid_graph *graph) {
  return graph->precision;
}
