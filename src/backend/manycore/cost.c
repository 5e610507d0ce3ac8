#include "backend/manycore/cost.h"

#include <string.h>

#include "backend/manycore/sw26010.h"
#include "graph/geometry.h"
#include "graph/integer.h"

double braid_manycore_microjoules(double seconds) {
  return seconds * BRAID_SW26010_NODE_WATTS / BRAID_SW26010_GROUPS * 1e6;
}

braid_status braid_manycore_cost_count(const braid_allocator *allocator, const braid_manycore_group *group,
                                       const braid_kernel *kernel, const braid_manycore_plan *plan,
                                       braid_manycore_cost *out) {
  const braid_manycore_kernel *program = kernel->implementation;
  *out = (braid_manycore_cost){0};
  /* Only addresses in it are formed. */
  uint8_t *memory = braid_alloc(allocator, group->scratchpad);
  if (!memory) return BRAID_NO_MEMORY;
  double longest = 0, computing = 0;
  braid_status status = BRAID_OK;
  for (int id = 0; id < group->cores && status == BRAID_OK; id++) {
    braid_manycore_core core;
    braid_manycore_core_begin(&core, group, kernel->name, id, memory, NULL);
    program->run(&core, plan);
    status = core.status;
    if (status != BRAID_OK) status = braid_fail(status, "%s", core.detail);
    double cycles = braid_manycore_core_cycles(&core);
    if (cycles > longest) longest = cycles;
    if (core.account.computed > computing) computing = core.account.computed;
    out->busy += core.account.steps > 0;
    out->macs += core.account.macs;
    out->get_bytes += core.account.get_bytes;
    out->put_bytes += core.account.put_bytes;
    out->steps += core.account.steps;
  }
  braid_free(allocator, memory);
  out->seconds = longest / BRAID_SW26010_HERTZ;
  out->compute_seconds = computing / BRAID_SW26010_HERTZ;
  out->microjoules = braid_manycore_microjoules(out->seconds);
  return status;
}

/* --- the management core -------------------------------------------------------------------------------------------
 */
static const braid_desc *input_at(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present ? &node->inputs[index].desc : NULL;
}

static double window_operations(braid_status status, const braid_convolution *conv) {
  if (status != BRAID_OK) return 0;
  return (double)conv->batch * (double)conv->outputs * (double)braid_window_outputs(&conv->window) *
         (double)(conv->inputs / conv->groups) * (double)braid_window_volume(&conv->window);
}

static double conv_operations(const braid_node_desc *node) {
  const braid_desc *first = input_at(node, 0), *second = input_at(node, 1);
  braid_convolution conv;
  if (strcmp(node->op, "ConvGradInput") == 0)
    return window_operations(braid_geometry_conv_grad_input(node->attrs, first, second, &conv), &conv);
  if (strcmp(node->op, "ConvGradFilter") == 0)
    return window_operations(braid_geometry_conv_grad_filter(node->attrs, first, second, &conv), &conv);
  if (strcmp(node->op, "ConvTranspose") == 0)
    return window_operations(braid_geometry_conv_transpose(node->attrs, first, second, &conv), &conv);
  return window_operations(braid_geometry_conv(node->attrs, first, second, &conv), &conv);
}

static double integer_conv_operations(const braid_node_desc *node) {
  const braid_desc *first = input_at(node, 0), *second = input_at(node, 1);
  braid_convolution conv;
  if (strcmp(node->op, "IntegerConvGradInput") == 0)
    return window_operations(braid_integer_conv_grad_input(node->attrs, first, second, &conv), &conv);
  if (strcmp(node->op, "IntegerConvGradFilter") == 0)
    return window_operations(braid_integer_conv_grad_filter(node->attrs, first, second, &conv), &conv);
  return window_operations(braid_integer_conv(node->attrs, first, second, &conv), &conv);
}

/* The filter, for each element of the result. */
static double quantized_conv_operations(const braid_node_desc *node) {
  const braid_desc *w = input_at(node, strcmp(node->op, "ConvInteger") == 0 ? 1 : 3);
  if (!w || w->rank < 1 || !w->dims[0]) return 0;
  return (double)braid_desc_count(&node->outputs[0].desc) * ((double)braid_desc_count(w) / (double)w->dims[0]);
}

/* The inner dimension, for each element of the result. */
static double product_operations(const braid_node_desc *node) {
  const braid_desc *a = input_at(node, 0);
  int64_t transposed = a->rank > 1 && braid_attr_int(node->attrs, "transA", 0);
  int64_t inner = a->rank < 1 ? 1 : a->dims[a->rank - (transposed ? 2 : 1)];
  return (double)braid_desc_count(&node->outputs[0].desc) * (double)inner;
}

/* Each weight for each step of each sequence; a gradient takes each once more for every result that it gives. */
static double recurrent_operations(const braid_node_desc *node) {
  const braid_desc *x = input_at(node, 0), *w = input_at(node, 1), *r = input_at(node, 2);
  if (!r || x->rank < 2) return 0;
  double of_w = (double)braid_desc_count(w), of_r = (double)braid_desc_count(r), step = of_w + of_r;
  if (strstr(node->op, "Grad")) {
    bool given[3] = {false};
    for (size_t i = 0; i < 3 && i < node->output_count; i++) given[i] = node->outputs[i].present;
    step = of_r + given[0] * of_w + given[1] * of_w + given[2] * of_r;
  }
  return (double)x->dims[0] * (double)x->dims[1] * step;
}

/* Multiply-adds of the ops that have some. */
static const struct {
  const char *op;
  double (*count)(const braid_node_desc *node);
} kCounted[] = {
    {"Conv", conv_operations},
    {"FusedConv", conv_operations},
    {"ConvTranspose", conv_operations},
    {"ConvGradInput", conv_operations},
    {"ConvGradFilter", conv_operations},
    {"IntegerConv", integer_conv_operations},
    {"IntegerConvGradInput", integer_conv_operations},
    {"IntegerConvGradFilter", integer_conv_operations},
    {"ConvInteger", quantized_conv_operations},
    {"QLinearConv", quantized_conv_operations},
    {"FusedQLinearConv", quantized_conv_operations},
    {"Gemm", product_operations},
    {"MatMul", product_operations},
    {"MatMulInteger", product_operations},
    {"QLinearMatMul", product_operations},
    {"FusedQLinearMatMul", product_operations},
    {"RNN", recurrent_operations},
    {"GRU", recurrent_operations},
    {"LSTM", recurrent_operations},
    {"RNNGrad", recurrent_operations},
    {"GRUGrad", recurrent_operations},
    {"LSTMGrad", recurrent_operations},
};

static double multiply_adds(const braid_node_desc *node) {
  if (!input_at(node, 0) || !input_at(node, 1)) return 0;
  for (size_t i = 0; i < sizeof kCounted / sizeof *kCounted; i++)
    if (strcmp(kCounted[i].op, node->op) == 0) return kCounted[i].count(node);
  return 0;
}

static double pool_operations(const braid_node_desc *node) {
  braid_window window;
  if (strcmp(node->op, "MaxPool") != 0 && strcmp(node->op, "AveragePool") != 0) return 0;
  if (braid_geometry_pool(node->attrs, &node->inputs[0].desc, &window) != BRAID_OK) return 0;
  return (double)braid_desc_count(&node->outputs[0].desc) * (double)braid_window_volume(&window);
}

double braid_manycore_operations(const braid_node_desc *node) {
  double most = multiply_adds(node);
  if (most > 0) return most;
  most = input_at(node, 0) ? pool_operations(node) : 0;
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    double count = operand->present ? (double)braid_desc_count(&operand->desc) : 0;
    if (count > most) most = count;
  }
  return most;
}

double braid_manycore_management_seconds(const braid_node_desc *node, bool vectors) {
  double bytes = 0;
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (operand->present) bytes += (double)braid_desc_bytes(&operand->desc);
  }
  return braid_sw26010_management_seconds(braid_manycore_operations(node), bytes, vectors);
}
