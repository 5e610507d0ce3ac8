/* Gradients against finite differences, in double. A test builds a graph over random inputs, names the value that is
 * differentiated, and every element of every input's gradient (a random choice of them where there are many) is held
 * against the central difference of the forward graph. For tests only.
 *
 *   gradcheck g;
 *   gradcheck_begin(&g, "Conv");
 *   braid_value_id x = gradcheck_input(&g, 4, (int64_t[]){2, 3, 5, 5}, -1, 1), ...;
 *   braid_node_id node = gradcheck_node(&g, "Conv", (braid_value_id[]){x, w, b}, 3, &y, 1);
 *   ok(braid_graph_set_ints(g.graph, node, "pads", ...));
 *   gradcheck_end(&g, &y, 1, 1e-6);
 *
 * The loss is the sum of the outputs, each element weighted by a random number. It is an op of the test's own, so that
 * the harness needs no op but the one under test. */
#ifndef BRAID_TESTS_GRADCHECK_H
#define BRAID_TESTS_GRADCHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/philox.h"
#include "braid/custom.h"
#include "braid/session.h"
#include "graph/gradient.h"

enum { GRADCHECK_INPUTS = 12, GRADCHECK_ELEMENTS = 40, GRADCHECK_SEED = 20240911 };

typedef struct gradcheck {
  const char *what;
  braid_graph *graph;
  braid_value_id inputs[GRADCHECK_INPUTS];
  braid_tensor *tensors[GRADCHECK_INPUTS];
  bool constant[GRADCHECK_INPUTS]; /* not differentiated by */
  size_t count;
  uint32_t stream;
} gradcheck;

static inline void gradcheck_ok(const gradcheck *g, braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s: %s", g->what, braid_status_text(status), braid_error_detail());
}

/* --- the loss ------------------------------------------------------------------------------------------------------
 */
static braid_status gradcheck_loss_infer(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                                         braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)inputs, (void)input_count, (void)output_count;
  return braid_desc_init(outputs, BRAID_F64, 0, NULL);
}

static braid_status gradcheck_loss_compute(const braid_attrs *attrs, const braid_custom_array *inputs,
                                           size_t input_count, const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)output_count;
  double sum = 0;
  for (size_t i = 0; i + 1 < input_count; i += 2) {
    const double *y = inputs[i].data, *weights = inputs[i + 1].data;
    for (int64_t j = 0; j < braid_desc_count(inputs[i].desc); j++) sum += y[j] * weights[j];
  }
  *(double *)outputs[0].data = sum;
  return BRAID_OK;
}

/* The gradient of the loss itself is 1. */
static braid_status gradcheck_loss_gradient(braid_gradient_context *context) {
  size_t count = context->graph->nodes[context->node].input_count;
  for (size_t i = 0; i + 1 < count; i += 2) {
    braid_status status = braid_gradient_give(context, i, braid_gradient_input(context, i + 1));
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

/* Adds the loss node; custom ops have no gradient, so this one gets one. */
static inline braid_value_id gradcheck_loss(gradcheck *g, const braid_value_id *pairs, size_t count) {
  static const braid_custom_op custom = {"GradcheckLoss", 2, 16, 1, gradcheck_loss_infer, gradcheck_loss_compute};
  braid_value_id loss = 0;
  if (!braid_op_find(custom.name)) gradcheck_ok(g, braid_custom_op_register(&custom));
  ((braid_op *)(uintptr_t)braid_op_find(custom.name))->gradient = gradcheck_loss_gradient;
  gradcheck_ok(g, braid_graph_add_node(g->graph, custom.name, NULL, pairs, count, &loss, 1, NULL));
  return loss;
}

/* --- building ------------------------------------------------------------------------------------------------------
 */
static inline void gradcheck_begin(gradcheck *g, const char *what) {
  *g = (gradcheck){.what = what};
  gradcheck_ok(g, braid_graph_create(NULL, what, &g->graph));
}

/* An input that holds `tensor`, which the check takes over. */
static inline braid_value_id gradcheck_tensor(gradcheck *g, braid_tensor *tensor, bool constant) {
  assert_true(g->count < GRADCHECK_INPUTS);
  g->tensors[g->count] = tensor;
  g->constant[g->count] = constant;
  gradcheck_ok(g, braid_graph_add_input(g->graph, NULL, braid_tensor_desc(tensor), &g->inputs[g->count]));
  return g->inputs[g->count++];
}

static inline braid_tensor *gradcheck_random(gradcheck *g, int rank, const int64_t *dims, double low, double high) {
  braid_desc desc;
  braid_tensor *tensor;
  gradcheck_ok(g, braid_desc_init(&desc, BRAID_F64, rank, dims));
  gradcheck_ok(g, braid_tensor_create(NULL, &desc, &tensor));
  double *data = braid_tensor_data(tensor);
  g->stream++;
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    data[i] = low + (high - low) * (double)braid_random_uniform(GRADCHECK_SEED, 0, g->stream, (uint64_t)i);
  return tensor;
}

/* A double input of random numbers in [low, high), differentiated by. */
static inline braid_value_id gradcheck_input(gradcheck *g, int rank, const int64_t *dims, double low, double high) {
  return gradcheck_tensor(g, gradcheck_random(g, rank, dims, low, high), false);
}

/* outputs[i] = -1 beforehand: left out. */
static inline braid_node_id gradcheck_node(gradcheck *g, const char *op, const braid_value_id *inputs, size_t count,
                                           braid_value_id *outputs, size_t output_count) {
  braid_node_id node;
  gradcheck_ok(g, braid_graph_add_node(g->graph, op, op, inputs, count, outputs, output_count, &node));
  return node;
}

/* --- checking ------------------------------------------------------------------------------------------------------
 */
/* A copy of the graph with everything folded; its outputs are constants. */
static inline braid_graph *gradcheck_evaluate(const gradcheck *g) {
  braid_graph *copy;
  gradcheck_ok(g, braid_graph_clone(g->graph, &copy));
  for (size_t i = 0; i < g->count; i++) gradcheck_ok(g, braid_graph_bind_input(copy, g->inputs[i], g->tensors[i]));
  gradcheck_ok(g, braid_resolve(copy));
  return copy;
}

static inline const braid_tensor *gradcheck_output(const gradcheck *g, const braid_graph *graph, size_t index) {
  const braid_tensor *tensor = braid_graph_value(graph, braid_graph_output(graph, index)).tensor;
  if (!tensor) fail_msg("%s: output %zu was not computed", g->what, index);
  return tensor;
}

static inline double gradcheck_loss_at(const gradcheck *g, double *element, double value) {
  double old = *element;
  *element = value;
  braid_graph *result = gradcheck_evaluate(g);
  double loss = braid_tensor_get_f64(gradcheck_output(g, result, 0), 0);
  braid_graph_destroy(result);
  *element = old;
  return loss;
}

/* A quotient that is no finite number says nothing about a gradient. */
static inline bool gradcheck_agree(double actual, double expected, double tolerance) {
  return isfinite(expected) && fabs(actual - expected) <= tolerance * (1 + fabs(expected));
}

static inline void gradcheck_compare(const gradcheck *g, size_t input, const braid_tensor *gradient, double tolerance) {
  double *data = braid_tensor_data(g->tensors[input]);
  int64_t count = braid_desc_count(braid_tensor_desc(g->tensors[input]));
  assert_true(braid_desc_same_shape(braid_tensor_desc(gradient), braid_tensor_desc(g->tensors[input])));
  for (int64_t n = 0; n < count && n < GRADCHECK_ELEMENTS; n++) {
    int64_t i = count <= GRADCHECK_ELEMENTS
                    ? n
                    : braid_random_below(GRADCHECK_SEED, 1, (uint32_t)input, (uint64_t)n, (uint32_t)count);
    const double step = 1e-5;
    double up = gradcheck_loss_at(g, &data[i], data[i] + step), down = gradcheck_loss_at(g, &data[i], data[i] - step);
    double expected = (up - down) / (2 * step), actual = braid_tensor_get_f64(gradient, i);
    if (!gradcheck_agree(actual, expected, tolerance))
      fail_msg("%s: gradient of input %zu at %lld is %.12g, the difference quotient %.12g (seed %d)", g->what, input,
               (long long)i, actual, expected, GRADCHECK_SEED);
  }
}

/* The graph with the weighted sum of `outputs` as its output 0 and, from output 1 on, its gradient by every input that
 * is not constant; *forward (if not NULL): without the gradients. */
static inline void gradcheck_differentiate(gradcheck *g, const braid_value_id *outputs, size_t count,
                                           braid_graph **forward) {
  braid_value_id pairs[16], wrt[GRADCHECK_INPUTS], grads[GRADCHECK_INPUTS];
  size_t inputs = g->count, wanted = 0;
  for (size_t i = 0; i < count; i++) {
    braid_value_info info = braid_graph_value(g->graph, outputs[i]);
    gradcheck_ok(g, braid_graph_infer_node(g->graph, info.producer));
    const braid_desc desc = braid_graph_value(g->graph, outputs[i]).desc;
    pairs[2 * i] = outputs[i];
    pairs[2 * i + 1] = gradcheck_tensor(g, gradcheck_random(g, desc.rank, desc.dims, -1, 1), true);
  }
  braid_value_id loss = gradcheck_loss(g, pairs, 2 * count);
  gradcheck_ok(g, braid_graph_add_output(g->graph, loss));
  if (forward) gradcheck_ok(g, braid_graph_clone(g->graph, forward));
  for (size_t i = 0; i < inputs; i++)
    if (!g->constant[i]) wrt[wanted++] = g->inputs[i];
  gradcheck_ok(g, braid_graph_gradients(g->graph, loss, wrt, wanted, grads));
  for (size_t i = 0; i < wanted; i++) {
    if (grads[i] < 0) fail_msg("%s: input value %d has no gradient", g->what, wrt[i]);
    gradcheck_ok(g, braid_graph_add_output(g->graph, grads[i]));
  }
}

static inline void gradcheck_destroy(gradcheck *g) {
  braid_graph_destroy(g->graph);
  for (size_t i = 0; i < g->count; i++) braid_tensor_release(g->tensors[i]);
}

/* Differentiates the weighted sum of `outputs` by every input and checks the gradients to `tolerance`, relative where
 * they are large. Destroys the check. */
static inline void gradcheck_end(gradcheck *g, const braid_value_id *outputs, size_t count, double tolerance) {
  size_t inputs = g->count, next = 1;
  braid_graph *forward = NULL;
  gradcheck_differentiate(g, outputs, count, &forward);
  braid_graph *result = gradcheck_evaluate(g);
  braid_graph_destroy(g->graph);
  g->graph = forward;
  for (size_t i = 0; i < inputs; i++)
    if (!g->constant[i]) gradcheck_compare(g, i, gradcheck_output(g, result, next++), tolerance);
  braid_graph_destroy(result);
  gradcheck_destroy(g);
}

#endif
