#include "launch/attribute.h"

#include <math.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/graph.h"

/* --- windows -------------------------------------------------------------------------------------------------------
 */
static bool is_one_of(const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(word, words[i]) == 0) return true;
  return false;
}
#define IS_ONE_OF(word, ...)                                                                                           \
  is_one_of(word, (const char *const[]){__VA_ARGS__}, sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *))

static bool is_pool(const braid_node_desc *node) {
  return IS_ONE_OF(node->op, "MaxPool", "AveragePool", "LpPool");
}

/* The input that has the weights of a convolution; 0: the node is none. */
static size_t weights_of(const braid_node_desc *node) {
  if (strcmp(node->op, "QLinearConv") == 0) return 3;
  return IS_ONE_OF(node->op, "Conv", "FusedConv", "ConvInteger", "ConvTranspose") ? 1 : 0;
}

/* The geometry of a convolution or pooling; false for other nodes. */
static bool resolve_window(const braid_node_desc *node, braid_window *out) {
  braid_convolution convolution;
  braid_status status;
  size_t weights = weights_of(node);
  if (node->input_count <= weights || !node->inputs[0].present || !node->inputs[weights].present) return false;
  const braid_desc *x = &node->inputs[0].desc, *w = &node->inputs[weights].desc;
  if (is_pool(node)) {
    status = braid_geometry_pool(node->attrs, x, out);
  } else if (weights) {
    status = strcmp(node->op, "ConvTranspose") == 0 ? braid_geometry_conv_transpose(node->attrs, x, w, &convolution)
                                                    : braid_geometry_conv(node->attrs, x, w, &convolution);
    *out = convolution.window;
  } else {
    return false;
  }
  if (status != BRAID_OK) braid_clear_detail();
  return status == BRAID_OK;
}

static bool pads_itself(const braid_node_desc *node) {
  return strcmp(braid_attr_string(node->attrs, "auto_pad", "NOTSET"), "NOTSET") != 0;
}

/* Is this an attribute that the geometry says better than the node? */
static bool is_resolved(const braid_node_desc *node, const char *name) {
  if (strcmp(name, "pads") == 0) return pads_itself(node);
  return strcmp(name, "kernel_shape") == 0 && weights_of(node) && !braid_attr_has(node->attrs, name);
}

/* Element `index` of so many is not there. */
static braid_status too_few(const char *name, size_t count) {
  return braid_fail(BRAID_OUT_OF_RANGE, "attribute %.60s has %zu elements, the first of which is element 0", name,
                    count);
}

static braid_status read_resolved(const braid_node_desc *node, const char *name, int64_t index, int64_t *out) {
  braid_window window;
  if (!resolve_window(node, &window))
    return braid_fail(BRAID_OUT_OF_RANGE, "attribute %.60s depends on auto_pad or the weights", name);
  int64_t first = BRAID_WINDOW_RANK - window.rank, rank = window.rank;
  bool kernel = strcmp(name, "kernel_shape") == 0;
  if (index >= (kernel ? rank : 2 * rank)) return too_few(name, (size_t)(kernel ? rank : 2 * rank));
  if (kernel)
    *out = window.kernel[first + index];
  else
    *out = index < rank ? window.begin[first + index] : window.end[first + index - rank];
  return BRAID_OK;
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
static bool take_whole(double number, int64_t *out) {
  if (!(fabs(number) < 9007199254740992.0) || number != floor(number)) return false; /* 2^53: beyond, all are whole */
  *out = (int64_t)number;
  return true;
}

braid_status braid_launch_attribute(const braid_node_desc *node, const char *name, int64_t index, int64_t otherwise,
                                    int64_t *out) {
  *out = otherwise;
  if (index >= 0 && is_resolved(node, name)) return read_resolved(node, name, index, out);
  const braid_attr *attr = braid_attrs_find(node->attrs, name);
  if (!attr) return BRAID_OK;
  bool list = index >= 0;
  if (!list && attr->kind == BRAID_ATTR_INT) {
    *out = attr->i;
    return BRAID_OK;
  }
  if (!list && attr->kind == BRAID_ATTR_FLOAT && take_whole(attr->f, out)) return BRAID_OK;
  if (list && (attr->kind == BRAID_ATTR_INTS || attr->kind == BRAID_ATTR_FLOATS)) {
    if ((uint64_t)index >= attr->count) return too_few(name, attr->count);
    if (attr->kind == BRAID_ATTR_FLOATS && take_whole(attr->floats[index], out)) return BRAID_OK;
    if (attr->kind == BRAID_ATTR_INTS) {
      *out = attr->ints[index];
      return BRAID_OK;
    }
  }
  return braid_fail(BRAID_OUT_OF_RANGE, "attribute %.60s is no %s", name,
                    list ? "list of whole numbers" : "whole number");
}

braid_status braid_launch_attribute_is(const braid_node_desc *node, const char *name, const char *word,
                                       const char *otherwise, bool *out) {
  const braid_attr *attr = braid_attrs_find(node->attrs, name);
  if (attr && attr->kind != BRAID_ATTR_STRING)
    return braid_fail(BRAID_OUT_OF_RANGE, "attribute %.60s is no text", name);
  *out = strcmp(attr ? attr->s : otherwise, word) == 0;
  return BRAID_OK;
}

/* --- what may go unasked -------------------------------------------------------------------------------------------
 */
/* The numbers that change nothing, where an attribute of the name has them alone or throughout. */
static const struct neutral {
  const char *name, *op; /* NULL: any */
  double number;
} kNeutral[] = {
    {"alpha", "FusedGemm", 1},      {"alpha", "FusedMatMul", 1}, {"alpha", "Gemm", 1},        {"alpha", "MatMul", 1},
    {"beta", "FusedGemm", 1},       {"beta", "Gemm", 1},         {"ceil_mode", NULL, 0},      {"dilations", NULL, 1},
    {"count_include_pad", NULL, 0}, {"group", NULL, 1},          {"output_padding", NULL, 0}, {"pads", NULL, 0},
    {"storage_order", NULL, 0},     {"strides", NULL, 1},        {"transA", NULL, 0},         {"transB", NULL, 0},
};

static bool has_only(const braid_attr *attr, double number) {
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    return (double)attr->i == number;
  case BRAID_ATTR_FLOAT:
    return attr->f == number;
  case BRAID_ATTR_INTS:
    for (size_t i = 0; i < attr->count; i++)
      if ((double)attr->ints[i] != number) return false;
    return true;
  default:
    return false;
  }
}

static bool is_unpadded(const braid_node_desc *node) {
  braid_window window;
  if (!resolve_window(node, &window)) return false;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    if (window.begin[i] || window.end[i]) return false;
  return true;
}

bool braid_launch_attribute_is_neutral(const braid_node_desc *node, const braid_attr *attr) {
  if (strcmp(attr->name, "auto_pad") == 0) return !pads_itself(node) || is_unpadded(node);
  if (strcmp(attr->name, "pads") == 0 && pads_itself(node)) return true;
  if (strcmp(attr->name, "kernel_shape") == 0 && weights_of(node)) return true;
  for (size_t i = 0; i < sizeof kNeutral / sizeof *kNeutral; i++)
    if (strcmp(attr->name, kNeutral[i].name) == 0 && (!kNeutral[i].op || strcmp(node->op, kNeutral[i].op) == 0))
      return has_only(attr, kNeutral[i].number);
  return false;
}
