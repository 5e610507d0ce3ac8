/* Weights and biases of a layer in integers.
 *
 * A channel's scale is the greatest absolute weight / 127 (63 in a reduced range; Krishnamoorthi 2018, section 3.1,
 * symmetric). It is made larger where the bias, in units of x's scale times it, would not stay below 2^30: with the sum
 * of 32,768 products of 255 * 127 that still fits int32. A channel without weights takes the scale that gives its bias
 * 24 bits. Scales that are powers of two are the one with the least squared error over the weights (power.h), or the
 * least that the bias allows. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/rewrite.h"
#include "quantize/internal.h"
#include "quantize/power.h"

static const double kMostBias = 1 << 30, kBiasOfNothing = 1 << 24;

typedef struct layer_weights {
  const braid_node *node;
  const float *data, *bias; /* bias NULL: none */
  int64_t channels, inner, channel_stride, inner_stride;
  bool one_bias;      /* the same for all channels */
  double alpha, beta; /* of Gemm: factors of weights and bias */
  float x_scale;
  double most; /* absolute value of an integer */
  bool power_of_two;
} layer_weights;

static double bias_of(const layer_weights *l, int64_t channel) {
  return l->bias ? l->beta * l->bias[l->one_bias ? 0 : channel] : 0;
}

static double weight_of(const layer_weights *l, int64_t channel, int64_t i) {
  return l->alpha * l->data[channel * l->channel_stride + i * l->inner_stride];
}

static void read_layer(const braid_graph *graph, const braid_node *node, float x_scale, layer_weights *l) {
  const braid_value *w = &graph->values[node->inputs[1]];
  braid_value_id b = braid_node_input(node, 2);
  int axis = braid_select_axis(node);
  *l = (layer_weights){.node = node, .data = braid_tensor_const_data(w->tensor), .x_scale = x_scale};
  l->channels = w->desc.dims[axis];
  l->inner = braid_desc_count(&w->desc) / l->channels;
  l->channel_stride = axis ? 1 : l->inner;
  l->inner_stride = axis ? l->channels : 1;
  if (b >= 0) {
    l->bias = braid_tensor_const_data(graph->values[b].tensor);
    l->one_bias = braid_desc_count(&graph->values[b].desc) == 1;
  }
  bool gemm = braid_node_is(node, "Gemm");
  l->alpha = gemm ? braid_attr_float(&node->attrs, "alpha", 1) : 1;
  l->beta = gemm ? braid_attr_float(&node->attrs, "beta", 1) : 1;
}

/* The power of two for channels from `first` on, before `last`, whose greatest absolute weight is `most`. */
static double power_of(const layer_weights *l, int64_t first, int64_t last, double most) {
  braid_power power = braid_power_begin(-most, most, -l->most, l->most);
  for (int64_t c = first; c < last; c++)
    for (int64_t i = 0; i < l->inner; i++) braid_power_see(&power, &(float){(float)weight_of(l, c, i)}, 1);
  return ldexp(1, braid_power_choose(&power));
}

/* The least power of two that is no less; `scale` is above 0. */
static double round_to_power(double scale) {
  int exponent;
  double mantissa = frexp(scale, &exponent);
  return ldexp(1, mantissa == 0.5 ? exponent - 1 : exponent);
}

/* The scale for channels from `first` on, before `last`. */
static braid_status scale_of(const layer_weights *l, int64_t first, int64_t last, float *out) {
  double most = 0, bias = 0;
  bool finite = true;
  for (int64_t c = first; c < last; c++) {
    for (int64_t i = 0; i < l->inner; i++) {
      double weight = fabs(weight_of(l, c, i));
      finite = finite && isfinite(weight);
      most = weight > most ? weight : most;
    }
    bias = fmax(bias, fabs(bias_of(l, c)));
    finite = finite && isfinite(bias_of(l, c));
  }
  if (!finite)
    return braid_fail(BRAID_NOT_FINITE, "node %.120s (%s): a weight or bias is NaN or infinite", l->node->name,
                      l->node->op->name);
  double smallest = l->power_of_two && most > 0 ? power_of(l, first, last, most) : most / l->most;
  double scale = fmax(smallest, bias / (l->x_scale * kMostBias));
  if (most == 0) scale = bias > 0 ? bias / (l->x_scale * kBiasOfNothing) : 1;
  /* the product with x's scale is a normal number, as factors of kernels must be */
  scale = fmax(scale, fmax((double)FLT_MIN, 2 * (double)FLT_MIN / l->x_scale));
  if (l->power_of_two) scale = round_to_power(scale);
  if (!(scale * l->x_scale <= (double)FLT_MAX) || !(scale <= (double)FLT_MAX))
    return braid_fail(BRAID_OUT_OF_RANGE, "node %.120s (%s): its numbers are too large for scales in float32",
                      l->node->name, l->node->op->name);
  *out = (float)scale;
  return BRAID_OK;
}

static int64_t clamp_integer(double number, double most) {
  return (int64_t)fmin(fmax(nearbyint(number), -most), most);
}

static void fill_weights(const layer_weights *l, const float *scales, bool one, int8_t *out) {
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t i = 0; i < l->inner; i++)
      out[c * l->channel_stride + i * l->inner_stride] =
          (int8_t)clamp_integer(weight_of(l, c, i) / scales[one ? 0 : c], l->most);
}

static void fill_bias(const layer_weights *l, const float *scales, bool one, float *bias_scales, int32_t *out) {
  for (int64_t c = 0; c < l->channels; c++) {
    float scale = scales[one ? 0 : c] * l->x_scale;
    bias_scales[one ? 0 : c] = scale;
    out[c] = (int32_t)clamp_integer(bias_of(l, c) / scale, kMostBias);
  }
}

static braid_status new_tensor(const braid_graph *graph, braid_dtype dtype, int rank, const int64_t *dims,
                               braid_tensor **out) {
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, rank, dims));
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, out));
  memset(braid_tensor_data(*out), 0, braid_desc_bytes(&desc));
  return BRAID_OK;
}

static braid_status quantize_layer(const braid_graph *graph, const layer_weights *l, bool per_tensor,
                                   braid_quantized_weights *out) {
  const braid_desc *w = &graph->values[l->node->inputs[1]].desc;
  int rank = per_tensor ? 0 : 1;
  BRAID_TRY(new_tensor(graph, BRAID_I8, w->rank, w->dims, &out->weights));
  BRAID_TRY(new_tensor(graph, BRAID_F32, rank, &l->channels, &out->scale));
  BRAID_TRY(new_tensor(graph, BRAID_I8, rank, &l->channels, &out->zero_point));
  float *scales = braid_tensor_data(out->scale);
  if (per_tensor) BRAID_TRY(scale_of(l, 0, l->channels, scales));
  for (int64_t c = 0; c < l->channels && !per_tensor; c++) BRAID_TRY(scale_of(l, c, c + 1, &scales[c]));
  fill_weights(l, scales, per_tensor, braid_tensor_data(out->weights));
  if (!l->bias) return BRAID_OK;
  BRAID_TRY(new_tensor(graph, BRAID_I32, 1, &l->channels, &out->bias));
  BRAID_TRY(new_tensor(graph, BRAID_F32, rank, &l->channels, &out->bias_scale));
  BRAID_TRY(new_tensor(graph, BRAID_I32, rank, &l->channels, &out->bias_zero));
  fill_bias(l, scales, per_tensor, braid_tensor_data(out->bias_scale), braid_tensor_data(out->bias));
  return BRAID_OK;
}

void braid_quantized_weights_deinit(braid_quantized_weights *weights) {
  braid_tensor_release(weights->weights);
  braid_tensor_release(weights->scale);
  braid_tensor_release(weights->zero_point);
  braid_tensor_release(weights->bias);
  braid_tensor_release(weights->bias_scale);
  braid_tensor_release(weights->bias_zero);
  *weights = (braid_quantized_weights){0};
}

braid_status braid_quantize_weights(const braid_graph *graph, const braid_node *layer, float x_scale,
                                    const braid_quantize_options *options, braid_quantized_weights *out) {
  *out = (braid_quantized_weights){0};
  layer_weights l;
  read_layer(graph, layer, x_scale, &l);
  l.most = options->reduce_range ? 63 : 127;
  l.power_of_two = options->power_of_two;
  braid_status status = quantize_layer(graph, &l, options->per_tensor, out);
  if (status != BRAID_OK) braid_quantized_weights_deinit(out);
  return status;
}
