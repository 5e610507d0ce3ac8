/* The operations of Hype-training's Table 1 at its three sizes. The table has no dimensions; its classes are those of
 * section 3.2, by the dimensions of a product (of a convolution those of the product that it is): small 256 to 1023,
 * medium 1024 to 4095, large with one above 4096. The medium product is the paper's own example, 2048x1024 by
 * 1024x1024; all others are ours. Weights of convolutions are kept from run to run, both sides of products are given.
 */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "measure/subjects.h"
#include "measure/trial.h"

enum { kSizes = 3 };
static const char *const kSizeNames[kSizes] = {"small", "medium", "large"};

/* rows and columns of what an operation works on; of a product its inner side too. */
typedef struct plane {
  int64_t rows, inner, columns;
} plane;
static const plane kPlanes[kSizes] = {{512, 512, 512}, {2048, 1024, 1024}, {8192, 1024, 1024}};

/* Convolutions with a window of 3x3: filters, channels and the side of the image. */
typedef struct image {
  int64_t filters, channels, side;
} image;
static const image kImages[kSizes] = {{512, 64, 24}, {1024, 128, 32}, {1024, 512, 32}};

typedef struct maker {
  braid_graph *graph;
  braid_node_id node;
  int size;
} maker;

static braid_status add_input(maker *m, int rank, const int64_t *dims, braid_value_id *out) {
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  return braid_graph_add_input(m->graph, NULL, &desc, out);
}

/* Weights are kept, as in a network: kernels may have them in a form of their own. */
static braid_status add_weights(maker *m, int rank, const int64_t *dims, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  BRAID_TRY(braid_tensor_create(m->graph->allocator, &desc, &tensor));
  braid_trial_fill(&desc, braid_tensor_data(tensor));
  braid_status status = braid_graph_add_tensor(m->graph, NULL, BRAID_VALUE_PARAMETER, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status add_node(maker *m, const char *op, const braid_value_id *inputs, size_t count) {
  braid_value_id output = 0;
  BRAID_TRY(braid_graph_add_node(m->graph, op, op, inputs, count, &output, 1, &m->node));
  return braid_graph_add_output(m->graph, output);
}

static braid_status make_product(maker *m, const char *op) {
  const plane *p = &kPlanes[m->size];
  braid_value_id inputs[2];
  BRAID_TRY(add_input(m, 2, (int64_t[]){p->rows, p->inner}, &inputs[0]));
  BRAID_TRY(add_input(m, 2, (int64_t[]){p->inner, p->columns}, &inputs[1]));
  return add_node(m, op, inputs, 2);
}

static braid_status make_pairs(maker *m, const char *op) {
  const int64_t dims[] = {kPlanes[m->size].rows, kPlanes[m->size].columns};
  braid_value_id inputs[2];
  BRAID_TRY(add_input(m, 2, dims, &inputs[0]));
  BRAID_TRY(add_input(m, 2, dims, &inputs[1]));
  return add_node(m, op, inputs, 2);
}

/* Of one matrix: BiasGrad sums its rows, Transpose and Softmax are as ONNX has them without attributes. */
static braid_status make_single(maker *m, const char *op) {
  const int64_t dims[] = {kPlanes[m->size].rows, kPlanes[m->size].columns};
  braid_value_id input;
  BRAID_TRY(add_input(m, 2, dims, &input));
  return add_node(m, op, &input, 1);
}

static braid_status set_window(maker *m) {
  const int64_t shape[] = {3, 3}, strides[] = {1, 1}, pads[] = {1, 1, 1, 1};
  BRAID_TRY(braid_graph_set_ints(m->graph, m->node, "kernel_shape", shape, 2));
  BRAID_TRY(braid_graph_set_ints(m->graph, m->node, "strides", strides, 2));
  return braid_graph_set_ints(m->graph, m->node, "pads", pads, 4);
}

static braid_status make_convolution(maker *m, const char *op) {
  const image *i = &kImages[m->size];
  const int64_t x[] = {1, i->channels, i->side, i->side}, w[] = {i->filters, i->channels, 3, 3};
  const int64_t y[] = {1, i->filters, i->side, i->side}, sides[] = {i->side, i->side};
  bool input = strcmp(op, "ConvGradInput") == 0, filter = strcmp(op, "ConvGradFilter") == 0;
  braid_value_id inputs[2];
  BRAID_TRY(add_input(m, 4, input ? y : x, &inputs[0]));
  BRAID_TRY(filter ? add_input(m, 4, y, &inputs[1]) : add_weights(m, 4, w, &inputs[1]));
  braid_value_id output = 0;
  BRAID_TRY(braid_graph_add_node(m->graph, op, op, inputs, 2, &output, 1, &m->node));
  if (input) BRAID_TRY(braid_graph_set_ints(m->graph, m->node, "input_shape", sides, 2));
  BRAID_TRY(set_window(m));
  return braid_graph_add_output(m->graph, output);
}

static braid_status make_pool(maker *m, const char *op) {
  const image *i = &kImages[m->size];
  const int64_t x[] = {1, i->channels, 4 * i->side, 4 * i->side}, shape[] = {2, 2};
  braid_value_id input, output = 0;
  BRAID_TRY(add_input(m, 4, x, &input));
  BRAID_TRY(braid_graph_add_node(m->graph, op, op, &input, 1, &output, 1, &m->node));
  BRAID_TRY(braid_graph_set_ints(m->graph, m->node, "kernel_shape", shape, 2));
  BRAID_TRY(braid_graph_set_ints(m->graph, m->node, "strides", shape, 2));
  return braid_graph_add_output(m->graph, output);
}

/* Those without a published name are not part of "all". */
static const struct {
  const char *op, *published;
  braid_status (*make)(maker *m, const char *op);
} kOps[] = {
    {"MatMul", "MatMul", make_product},
    {"Conv", "Conv2D", make_convolution},
    {"ConvGradFilter", "Conv2DBackpropFilter", make_convolution},
    {"ConvGradInput", "Conv2DBackpropInput", make_convolution},
    {"BiasGrad", "BiasAddGrad", make_single},
    {"Mul", "Mul", make_pairs},
    {"Transpose", "Transpose", make_single},
    {"Add", NULL, make_pairs},
    {"Relu", NULL, make_single},
    {"Softmax", NULL, make_single},
    {"MaxPool", NULL, make_pool},
};
enum { kOpCount = sizeof kOps / sizeof *kOps };

static braid_status add_op(braid_subjects *subjects, size_t op, int size) {
  maker m = {.size = size};
  braid_graph **graphs = braid_grow(subjects->allocator, subjects->graphs, subjects->graph_count,
                                    &subjects->graph_capacity, sizeof *graphs);
  if (!graphs) return BRAID_NO_MEMORY;
  subjects->graphs = graphs;
  BRAID_TRY(braid_graph_create(subjects->allocator, kOps[op].op, &m.graph));
  graphs[subjects->graph_count++] = m.graph;
  BRAID_TRY(kOps[op].make(&m, kOps[op].op));
  BRAID_TRY(braid_graph_infer_node(m.graph, m.node));
  return braid_subjects_add(subjects, m.graph, m.node, kSizeNames[size]);
}

/* Whether the word is in the list, "a,b,c". */
static bool lists(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == length && strncmp(at, word, length) == 0) return true;
  return false;
}

static bool names_op(size_t op, const char *word, size_t length) {
  const char *names[] = {kOps[op].op, kOps[op].published};
  for (int i = 0; i < 2; i++)
    if (names[i] && strlen(names[i]) == length && strncmp(names[i], word, length) == 0) return true;
  return false;
}

static braid_status check_ops(const char *ops) {
  for (const char *at = ops; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    size_t length = strcspn(at, ",");
    bool known = length == 3 && strncmp(at, "all", 3) == 0;
    char list[256] = "";
    for (size_t i = 0, used = 0; i < kOpCount; i++) {
      known |= names_op(i, at, length);
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", kOps[i].op);
    }
    if (!known)
      return braid_fail(BRAID_INVALID_ARGUMENT,
                        "there is no operation \"%.*s\" at given sizes; there are %s (any other is measured as part of "
                        "a model)",
                        (int)(length < 60 ? length : 60), at, list);
  }
  return BRAID_OK;
}

static braid_status check_sizes(const char *sizes) {
  for (const char *at = sizes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    size_t length = strcspn(at, ",");
    bool known = false;
    for (int i = 0; i < kSizes; i++) known |= strlen(kSizeNames[i]) == length && !strncmp(kSizeNames[i], at, length);
    if (!known)
      return braid_fail(BRAID_INVALID_ARGUMENT, "there is no size \"%.*s\"; there are small, medium, large",
                        (int)(length < 60 ? length : 60), at);
  }
  return BRAID_OK;
}

braid_status braid_subjects_add_ops(braid_subjects *subjects, const char *ops, const char *sizes) {
  BRAID_TRY(check_ops(ops));
  BRAID_TRY(check_sizes(sizes));
  for (size_t i = 0; i < kOpCount; i++) {
    bool wanted = lists(ops, kOps[i].op) || (kOps[i].published && (lists(ops, "all") || lists(ops, kOps[i].published)));
    for (int size = 0; size < kSizes && wanted; size++)
      if (!sizes || lists(sizes, kSizeNames[size])) BRAID_TRY(add_op(subjects, i, size));
  }
  return BRAID_OK;
}
