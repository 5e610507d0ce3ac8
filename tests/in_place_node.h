/* Nodes drawn at random for in_place.h: shapes, types, attributes, inputs given twice or known before the run. Many are
 * none that the op takes. */
#ifndef BRAID_TESTS_IN_PLACE_NODE_H
#define BRAID_TESTS_IN_PLACE_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/philox.h"
#include "braid/custom.h"
#include "graph/graph.h"
#include "graph/known_attrs.h"

enum {
  IN_PLACE_SEED = 8209,
  IN_PLACE_OPERANDS = 8,
  IN_PLACE_OUTPUTS = 4,
  IN_PLACE_PATTERN = 0xa5,
  IN_PLACE_MOST = 200000,
  IN_PLACE_BYTES = 8 * IN_PLACE_MOST
};

#define IN_PLACE_OK(expression)                                                                                        \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

static uint32_t in_place_draws;

static inline uint32_t in_place_draw(uint32_t bound) {
  return braid_random_below(IN_PLACE_SEED, 0, 0, in_place_draws++, bound);
}

static braid_status in_place_infer_fresh(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                                         braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status in_place_compute_fresh(const braid_attrs *attrs, const braid_custom_array *inputs,
                                           size_t input_count, const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  memcpy(outputs[0].data, inputs[0].data, braid_desc_bytes(inputs[0].desc));
  return BRAID_OK;
}

/* Its result has memory of its own, which dies with its last reader. */
static const braid_custom_op in_place_fresh = {"test.InPlaceFresh",   1, 1, 1, in_place_infer_fresh,
                                               in_place_compute_fresh};

typedef struct in_place_node {
  braid_graph *graph;
  braid_node_id id;
  braid_tensor *tensors[IN_PLACE_OPERANDS]; /* per input */
} in_place_node;

static inline braid_desc in_place_base(bool large) {
  static const int64_t kDims[] = {1, 2, 3, 4, 8, 16, 48};
  int64_t dims[4] = {0};
  int rank = in_place_draw(2) ? 4 : (int)in_place_draw(4); /* images have kernels of their own */
  for (int i = 0; i < rank; i++) dims[i] = rank == 4 && i == 1 && in_place_draw(2) ? 16 : kDims[in_place_draw(7)];
  if (large && rank && !in_place_draw(16)) dims[in_place_draw((uint32_t)rank)] = 40000;
  braid_desc desc;
  IN_PLACE_OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  while (braid_desc_count(&desc) > IN_PLACE_MOST) desc.dims[in_place_draw((uint32_t)rank)] = 1;
  return desc;
}

/* Shapes that may go together with `base`, by number. */
enum { IN_PLACE_SHAPES = 8 };
static inline braid_desc in_place_shape(const braid_desc *base, uint32_t kind) {
  braid_desc desc = *base;
  int64_t channels = base->rank > 1 && base->dims[1] < 64 ? base->dims[1] : 4;
  switch (kind) {
  case 0: /* broadcast */
    for (int i = 0; i < desc.rank; i++)
      if (in_place_draw(2)) desc.dims[i] = 1;
    break;
  case 1: /* broadcast, leading dimensions left out */
    if (desc.rank) memmove(desc.dims, desc.dims + 1, (size_t)--desc.rank * sizeof *desc.dims);
    break;
  case 2:
    desc.rank = 1, desc.dims[0] = channels;
    break;
  case 3: /* the weights of a convolution that keeps the shape */
    desc.rank = base->rank > 2 ? base->rank : 4;
    for (int i = 0; i < desc.rank; i++) desc.dims[i] = i < 2 ? channels : 1;
    break;
  case 4:
    desc.rank = 0;
    break;
  default: /* the same */
    break;
  }
  return desc;
}

static inline void in_place_fill(braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  uint32_t stream = in_place_draws++;
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    double x = 4 * (double)braid_random_uniform(IN_PLACE_SEED, 1, stream, (uint64_t)i) - 1;
    bool negative = braid_dtype_is_float(desc->dtype) || desc->dtype == BRAID_I8 || desc->dtype == BRAID_I32;
    if (!braid_dtype_is_float(desc->dtype)) x = (double)(int64_t)x;
    if (desc->dtype == BRAID_BOOL) x = x > 1;
    braid_tensor_set_f64(tensor, i, x < 0 && !negative ? 0 : x);
  }
}

/* What the inputs of a node have in common. Half of the nodes are uniform: one type, nothing known before the run, and
 * the first shape up to some input, then one of another kind, then others of a kind, perhaps the first shape again at
 * the end. In the rest anything goes. */
typedef struct in_place_style {
  braid_desc base;
  bool uniform;
  uint32_t split, second, third, again; /* inputs from which on, and kinds of shapes */
} in_place_style;

static inline uint32_t in_place_kind(const in_place_style *style, uint32_t index) {
  if (!style->uniform) return in_place_draw(IN_PLACE_SHAPES);
  if (index < style->split || index >= style->again) return IN_PLACE_SHAPES;
  return index == style->split ? style->second : style->third;
}

static inline braid_value_id in_place_input(in_place_node *n, const in_place_style *style, uint32_t index) {
  bool list = !style->uniform && !in_place_draw(4); /* axes, a shape */
  braid_desc desc = in_place_shape(&style->base, in_place_kind(style, index));
  if (list) desc = (braid_desc){.rank = (int)in_place_draw(2), .dims = {1}, .dtype = BRAID_I64};
  if (!style->uniform && !list && !in_place_draw(6))
    desc.dtype = (braid_dtype)(1 + in_place_draw(BRAID_DTYPE_COUNT - 1));
  bool constant = list || (!style->uniform && braid_desc_count(&desc) <= 16 && !in_place_draw(4));
  braid_tensor *tensor;
  IN_PLACE_OK(braid_tensor_create(NULL, &desc, &tensor));
  if (constant) in_place_fill(tensor);
  if (list) *(int64_t *)braid_tensor_data(tensor) = (int64_t)in_place_draw(3) - 1;
  braid_value_id id;
  IN_PLACE_OK(braid_graph_add_tensor(n->graph, NULL, constant ? BRAID_VALUE_CONSTANT : BRAID_VALUE_STATE, tensor, &id));
  n->tensors[index] = tensor;
  braid_tensor_release(tensor); /* the graph has it */
  if (constant) return id;
  braid_value_id fresh = 0;
  IN_PLACE_OK(braid_graph_add_node(n->graph, in_place_fresh.name, NULL, &id, 1, &fresh, 1, NULL));
  return fresh;
}

/* Of the attributes those that the op has. */
static inline void in_place_attribute(in_place_node *n, braid_attr attr) {
  if (braid_node_check_attr(&n->graph->nodes[n->id], &attr) == BRAID_OK)
    IN_PLACE_OK(braid_attrs_copy(n->graph, n->id, &attr));
}

static inline void in_place_attributes(in_place_node *n, const braid_desc *base) {
  static const char *const kFlags[] = {"fmod", "training_mode", "exclusive", "reverse", "upper"};
  static const char *const kFactors[] = {"alpha", "scale", "momentum"};
  static const char *const kReductions[] = {"none", "add", "mul", "max"};
  const int64_t ones[2] = {1, 1};
  for (size_t i = 0; i < 5; i++)
    if (in_place_draw(2))
      in_place_attribute(n, (braid_attr){.name = kFlags[i], .kind = BRAID_ATTR_INT, .i = in_place_draw(2)});
  for (size_t i = 0; i < 3; i++)
    if (in_place_draw(2)) in_place_attribute(n, (braid_attr){.name = kFactors[i], .kind = BRAID_ATTR_FLOAT, .f = 0.75});
  if (base->rank)
    in_place_attribute(n,
                       (braid_attr){.name = "axis", .kind = BRAID_ATTR_INT, .i = in_place_draw((uint32_t)base->rank)});
  in_place_attribute(n, (braid_attr){.name = "bits", .kind = BRAID_ATTR_INT, .i = 8});
  in_place_attribute(n, (braid_attr){.name = "to", .kind = BRAID_ATTR_INT, .i = 1 + in_place_draw(16)});
  in_place_attribute(
      n, (braid_attr){.name = "direction", .kind = BRAID_ATTR_STRING, .s = in_place_draw(2) ? "LEFT" : "RIGHT"});
  in_place_attribute(
      n, (braid_attr){.name = "approximate", .kind = BRAID_ATTR_STRING, .s = in_place_draw(2) ? "tanh" : "none"});
  in_place_attribute(n,
                     (braid_attr){.name = "reduction", .kind = BRAID_ATTR_STRING, .s = kReductions[in_place_draw(4)]});
  in_place_attribute(n, (braid_attr){.name = "strides", .kind = BRAID_ATTR_INTS, .count = 2, .ints = ones});
}

/* Does the op take the inputs? Then they get their contents. */
static inline bool in_place_complete(const in_place_node *n) {
  if (braid_graph_infer_node(n->graph, n->id) != BRAID_OK) return false;
  const braid_node *node = &n->graph->nodes[n->id];
  for (size_t i = 0; i < node->output_count; i++) {
    const braid_desc *desc = node->outputs[i] >= 0 ? &n->graph->values[node->outputs[i]].desc : NULL;
    if (desc && (desc->rank < 0 || braid_desc_count(desc) > IN_PLACE_MOST)) return false;
  }
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0 && n->graph->values[node->inputs[i]].kind != BRAID_VALUE_CONSTANT)
      in_place_fill(n->tensors[i]);
  return true;
}

/* False: no node of the op, try again. The graph is the caller's then too. */
static inline bool in_place_draw_node(const braid_op *op, bool large, in_place_node *n) {
  *n = (in_place_node){0};
  IN_PLACE_OK(braid_graph_create(NULL, "in place", &n->graph));
  in_place_style style = {.base = in_place_base(large), .uniform = in_place_draw(2), .second = in_place_draw(5)};
  style.third = in_place_draw(2) ? style.second : in_place_draw(5);
  style.base.dtype = in_place_draw(2) ? BRAID_F32 : (braid_dtype)(1 + in_place_draw(BRAID_DTYPE_COUNT - 1));
  uint32_t least = (uint32_t)op->min_inputs,
           most = op->max_inputs < 0 || op->max_inputs > 6 ? 6 : (uint32_t)op->max_inputs;
  uint32_t inputs = least + in_place_draw(most >= least ? most - least + 1 : 1);
  uint32_t outputs = op->max_outputs < 0 || op->max_outputs > IN_PLACE_OUTPUTS ? 3 : (uint32_t)op->max_outputs;
  if (!inputs || inputs > IN_PLACE_OPERANDS || outputs > IN_PLACE_OUTPUTS) return false;
  style.split = 1 + in_place_draw(inputs);
  style.again = inputs - in_place_draw(2);
  braid_value_id ids[IN_PLACE_OPERANDS], results[IN_PLACE_OUTPUTS];
  for (uint32_t i = 0; i < inputs; i++) {
    uint32_t twice = in_place_draw(8 * i + 1);
    ids[i] = twice < i ? ids[twice] : in_place_input(n, &style, i);
    if (twice < i) n->tensors[i] = n->tensors[twice];
    if (i >= least && !in_place_draw(8)) ids[i] = -1;
  }
  for (uint32_t i = 0; i < outputs; i++) results[i] = (int)i < op->min_outputs || in_place_draw(4) ? 0 : -1;
  if (braid_graph_add_node(n->graph, op->name, "node", ids, inputs, results, outputs, &n->id) != BRAID_OK) return false;
  in_place_attributes(n, &style.base);
  return in_place_complete(n);
}

#endif
