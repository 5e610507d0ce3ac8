/* The mutant's kernel over bytes: FusedQLinearConv of one place at a time, as docs/quantization.md says. */
#include <math.h>
#include <stdio.h>

#include "mutant.h"

enum { X = 0, W = 3, Y = 6, BIAS = 8, Z = 9, BETWEEN = 12 }; /* inputs */

bool match_bytes(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *x = &node->inputs[X].desc, *w = &node->inputs[W].desc;
  bool single = x->rank == 4 && w->dims[1] == x->dims[1] && w->dims[2] == 1 && w->dims[3] == 1;
  if (single && !braid_attr_has(node->attrs, "activation")) return true;
  snprintf(why, why_bytes, "images and filters of one place only, and no activation");
  return false;
}

static bool has(const braid_node_desc *node, size_t at) {
  return at < node->input_count && node->inputs[at].present;
}

/* Number i of a list, or the only one. */
static int integer_at(const braid_node_desc *node, const float *const *in, size_t at, int64_t i) {
  if (!has(node, at)) return 0;
  const braid_desc *desc = &node->inputs[at].desc;
  const void *from = in[at];
  if (braid_desc_count(desc) == 1) i = 0;
  return desc->dtype == BRAID_I8 ? ((const int8_t *)from)[i] : ((const uint8_t *)from)[i];
}

static float scale_at(const braid_node_desc *node, const float *const *in, size_t at, int64_t i) {
  return in[at][braid_desc_count(&node->inputs[at].desc) == 1 ? 0 : i];
}

/* The number of type `dtype` for x times the scale. */
static int quantized(braid_dtype dtype, float x, int zero) {
  int low = dtype == BRAID_I8 ? INT8_MIN : 0;
  x = (is("bytes_half") ? floorf(x + 0.5f) : rintf(x)) + (float)zero;
  return (int)fminf(fmaxf(x, (float)low), (float)(low + 255));
}

/* Over the channels of one place; a processor's sum of two products of bytes may end at 16 bits. */
static int sum_of(const braid_node_desc *node, const float *const *in, int64_t place, int64_t filter) {
  const int64_t *dims = node->inputs[X].desc.dims;
  int64_t channels = dims[1], plane = dims[2] * dims[3];
  int sum = 0, pair = 0;
  for (int64_t c = 0; c < channels; c++) {
    int64_t from = (place / plane * channels + c) * plane + place % plane;
    int w = integer_at(node, in, W, filter * channels + c);
    if (!is("bytes_w_zero")) w -= integer_at(node, in, W + 2, filter);
    pair += (integer_at(node, in, X, from) - integer_at(node, in, X + 2, 0)) * w;
    if (c % 2 == 0 && c + 1 < channels) continue;
    if (is("bytes_pairs")) pair = pair > INT16_MAX ? INT16_MAX : pair < INT16_MIN ? INT16_MIN : pair;
    sum += pair;
    pair = 0;
  }
  return sum + (has(node, BIAS) ? ((const int32_t *)(const void *)in[BIAS])[filter] : 0);
}

static int result_of(const braid_node_desc *node, const float *const *in, int64_t i, int sum, int64_t filter) {
  braid_dtype dtype = node->outputs[0].desc.dtype;
  bool residual = has(node, Z) && !is("bytes_residual");
  size_t first = residual ? BETWEEN : Y;
  float y_scale = scale_at(node, in, Y, 0);
  float factor = scale_at(node, in, X + 1, 0) * scale_at(node, in, W + 1, filter) / scale_at(node, in, first, 0);
  int y_zero = integer_at(node, in, Y + 1, 0), zero = integer_at(node, in, first + 1, 0);
  if (!residual) return quantized(dtype, (float)sum * factor, y_zero);
  int between = quantized(node->inputs[BETWEEN + 1].desc.dtype, (float)sum * factor, zero) - zero;
  int z = integer_at(node, in, Z, i) - integer_at(node, in, Z + 2, 0);
  return quantized(dtype,
                   (float)between * (scale_at(node, in, BETWEEN, 0) / y_scale) +
                       (float)z * (scale_at(node, in, Z + 1, 0) / y_scale),
                   y_zero);
}

static braid_status conv_bytes(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  const int64_t *dims = node->outputs[0].desc.dims;
  int64_t filters = dims[1], plane = dims[2] * dims[3];
  for (int64_t i = 0; i < elements(kernel); i++) {
    int64_t filter = i / plane % filters, place = i / plane / filters * plane + i % plane;
    ((uint8_t *)(void *)out)[i] = (uint8_t)result_of(node, in, i, sum_of(node, in, place, filter), filter);
  }
  return BRAID_OK;
}
const body BYTES_BODY = {conv_bytes};
