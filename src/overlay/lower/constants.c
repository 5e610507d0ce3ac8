/* Constants of a Q/DQ graph as integers.
 *
 * Weights are the bytes that a DequantizeLinear had, if its scale is one power of two. Else they are found in the real
 * numbers themselves: whatever bytes they were, the greatest power of two that divides all of them leaves the least
 * integers, so a graph of which only the folded constants are at hand can be lowered too. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/rewrite.h"
#include "overlay/lower/internal.h"

enum { MOST_EXPONENT = 100 };

static const braid_tensor *constant_of(const braid_graph *graph, braid_value_id id, braid_dtype dtype) {
  if (id < 0) return NULL;
  const braid_value *value = &graph->values[id];
  if (value->kind != BRAID_VALUE_CONSTANT || !value->tensor) return NULL;
  const braid_desc *desc = braid_tensor_desc(value->tensor);
  if (desc->dtype != dtype || desc->layout != BRAID_LAYOUT_PLAIN) return NULL;
  braid_value_note_read(value);
  return value->tensor;
}

static bool is_power(double scale, int32_t *exponent) {
  int e;
  if (!(scale > 0) || !isfinite(scale) || frexp(scale, &e) != 0.5) return false;
  *exponent = e - 1;
  return abs(*exponent) <= MOST_EXPONENT;
}

static bool is_zero(const braid_tensor *tensor) {
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++)
    if (braid_tensor_get_f64(tensor, i) != 0) return false;
  return true;
}

braid_status braid_overlay_read_scale(braid_overlay_lowering *l, braid_node_id id, int32_t *exponent) {
  const braid_node *node = &l->graph->nodes[id];
  const braid_tensor *scale = constant_of(l->graph, braid_node_input(node, 1), BRAID_F32);
  braid_value_id zero_id = braid_node_input(node, 2);
  if (!scale || braid_desc_count(braid_tensor_desc(scale)) != 1)
    return braid_overlay_refuse(l, id, "its scale is not one constant float32 number");
  double number = braid_tensor_get_f64(scale, 0);
  if (!is_power(number, exponent))
    return braid_overlay_refuse(l, id, "its scale %g is not a power of two within 2^-100 to 2^100", number);
  if (zero_id < 0) return BRAID_OK;
  const braid_tensor *zero = constant_of(l->graph, zero_id, BRAID_I8);
  if (!zero || !is_zero(zero)) return braid_overlay_refuse(l, id, "its zero point is not a constant int8 0");
  return BRAID_OK;
}

braid_status braid_overlay_read_number(braid_overlay_lowering *l, braid_node_id id, size_t input, double otherwise,
                                       double *out) {
  braid_value_id value = braid_node_input(&l->graph->nodes[id], input);
  *out = otherwise;
  if (value < 0) return BRAID_OK;
  const braid_tensor *tensor = constant_of(l->graph, value, BRAID_F32);
  if (!tensor || braid_desc_count(braid_tensor_desc(tensor)) != 1)
    return braid_overlay_refuse(l, id, "input %zu is not one constant float32 number", input);
  *out = braid_tensor_get_f64(tensor, 0);
  return isnan(*out) ? braid_overlay_refuse(l, id, "input %zu is NaN", input) : BRAID_OK;
}

/* --- weights -------------------------------------------------------------------------------------------------------
 */
/* The integer at i is bytes[i], or numbers[i] / 2^exponent. */
typedef struct weight_source {
  const int8_t *bytes;
  const float *numbers;
  int32_t exponent;
  int64_t count;
} weight_source;

static bool find_bytes(const braid_graph *graph, const braid_value *value, weight_source *out) {
  const braid_tensor *bytes = constant_of(graph, value->quantized[0], BRAID_I8);
  const braid_tensor *scale = constant_of(graph, value->quantized[1], BRAID_F32);
  if (!bytes || !scale || braid_desc_count(braid_tensor_desc(scale)) != 1) return false;
  if (braid_desc_count(braid_tensor_desc(bytes)) != out->count) return false;
  if (value->quantized[2] >= 0) {
    const braid_tensor *zero = constant_of(graph, value->quantized[2], BRAID_I8);
    if (!zero || !is_zero(zero)) return false;
  }
  out->bytes = braid_tensor_const_data(bytes);
  return is_power(braid_tensor_get_f64(scale, 0), &out->exponent);
}

/* The exponent of the lowest bit that is set, by the bits of a float32: a sign, 8 of an exponent, 23 behind a leading 1
 * that is not written but where the exponent is 0. `number` is not 0 and finite. */
static int lowest_bit(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  uint32_t exponent = bits >> 23 & 255, mantissa = bits & 0x7fffff;
  return (exponent ? (int)exponent : 1) - 150 + __builtin_ctz(exponent ? mantissa | 0x800000 : mantissa);
}

static braid_status find_numbers(braid_overlay_lowering *l, braid_node_id id, weight_source *out) {
  int lowest = INT_MAX;
  float least = 0, greatest = 0;
  for (int64_t i = 0; i < out->count; i++) {
    float number = out->numbers[i];
    if (!isfinite(number)) return braid_overlay_refuse(l, id, "a weight is NaN or infinite");
    if (number == 0) continue;
    int bit = lowest_bit(number);
    lowest = bit < lowest ? bit : lowest;
    least = number < least ? number : least;
    greatest = number > greatest ? number : greatest;
  }
  out->exponent = lowest == INT_MAX ? 0 : lowest;
  if (ldexp((double)greatest, -out->exponent) > 127 || ldexp((double)least, -out->exponent) < -128 ||
      abs(out->exponent) > MOST_EXPONENT)
    return braid_overlay_refuse(l, id, "its weights are not int8 with one scale that is a power of two");
  return BRAID_OK;
}

static braid_status find_weights(braid_overlay_lowering *l, braid_node_id id, braid_value_id weights,
                                 weight_source *out) {
  const braid_tensor *real = constant_of(l->graph, weights, BRAID_F32);
  if (!real) return braid_overlay_refuse(l, id, "its weights are not constant float32");
  *out = (weight_source){.count = braid_desc_count(braid_tensor_desc(real))};
  if (out->count < 1 || out->count > BRAID_OVERLAY_MOST_WEIGHTS)
    return braid_overlay_refuse(l, id, "it has %lld weights, 1 to 2^28 are possible", (long long)out->count);
  if (find_bytes(l->graph, &l->graph->values[weights], out)) return BRAID_OK;
  out->bytes = NULL;
  out->numbers = braid_tensor_const_data(real);
  return find_numbers(l, id, out);
}

braid_status braid_overlay_check_weights(braid_overlay_lowering *l, braid_node_id id, braid_value_id weights) {
  weight_source source;
  return find_weights(l, id, weights, &source);
}

/* --- biases --------------------------------------------------------------------------------------------------------
 */
/* Adds a bias in real numbers to `sums`, one for each of `channels` along dimension 1 of the result, or of all. */
static braid_status add_bias(braid_overlay_lowering *l, braid_node_id id, braid_value_id bias, int64_t channels,
                             double *sums) {
  const braid_tensor *real = constant_of(l->graph, bias, BRAID_F32);
  if (!real) return braid_overlay_refuse(l, id, "its bias is not constant float32");
  const braid_value *value = &l->graph->values[bias];
  const braid_tensor *whole = constant_of(l->graph, value->quantized[0], BRAID_I32);
  const braid_tensor *scale = constant_of(l->graph, value->quantized[1], BRAID_F32);
  const braid_tensor *zero = constant_of(l->graph, value->quantized[2], BRAID_I32);
  int64_t count = braid_desc_count(braid_tensor_desc(real));
  if (count != 1 && count != channels) return braid_overlay_refuse(l, id, "it has no bias for each channel");
  int32_t exponent = 0;
  bool exact = whole && scale && braid_desc_count(braid_tensor_desc(whole)) == count &&
               braid_desc_count(braid_tensor_desc(scale)) == 1 && is_power(braid_tensor_get_f64(scale, 0), &exponent) &&
               (value->quantized[2] < 0 || (zero && is_zero(zero)));
  for (int64_t c = 0; c < channels; c++) {
    int64_t at = count == 1 ? 0 : c;
    sums[c] += exact ? ldexp((double)((const int32_t *)braid_tensor_const_data(whole))[at], exponent)
                     : (double)((const float *)braid_tensor_const_data(real))[at];
    if (!isfinite(sums[c])) return braid_overlay_refuse(l, id, "a bias is NaN or infinite");
  }
  return BRAID_OK;
}

/* Biases as integers of 2^exponent: false if they are none. Parts between 0 and a half are what breaks ties, if all
 * channels have one. */
static bool make_biases(const double *sums, int64_t channels, int32_t exponent, int32_t *out, bool *half_up) {
  int64_t broken = 0;
  for (int64_t c = 0; c < channels; c++) {
    double units = ldexp(sums[c], -exponent), whole = floor(units);
    if (!(fabs(whole) <= INT32_MAX) || units - whole >= 0.5) return false;
    broken += units != whole;
    out[c] = (int32_t)whole;
  }
  *half_up = broken > 0;
  return broken == 0 || broken == channels;
}

/* --- both ----------------------------------------------------------------------------------------------------------
 */
static void fill_weights(const weight_source *source, const braid_overlay_draft *draft, int64_t outputs, int8_t *out) {
  int64_t inner = source->count / outputs;
  if (source->bytes && !draft->turned) {
    memcpy(out, source->bytes, (size_t)source->count);
    return;
  }
  double per_unit = ldexp(1, -source->exponent);
  for (int64_t o = 0; o < outputs; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t at = draft->turned ? i * outputs + o : o * inner + i;
      out[o * inner + i] = source->bytes ? source->bytes[at] : (int8_t)((double)source->numbers[at] * per_unit);
    }
}

static bool double_weights(int8_t *weights, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (weights[i] > 63 || weights[i] < -64) return false;
  for (int64_t i = 0; i < count; i++) weights[i] = (int8_t)(2 * weights[i]);
  return true;
}

static braid_status check_sums(braid_overlay_lowering *l, braid_node_id id, const braid_overlay_numbers *n,
                               int64_t outputs, int64_t inner) {
  for (int64_t o = 0; o < outputs; o++) {
    const int8_t *weights = n->weights + o * inner;
    int64_t weighed = 0;
#pragma omp simd reduction(+ : weighed)
    for (int64_t i = 0; i < inner; i++) weighed += weights[i] < 0 ? -weights[i] : weights[i];
    int64_t most = 128 * weighed + (n->biases[o] < 0 ? -(int64_t)n->biases[o] : n->biases[o]);
    if (most > INT32_MAX) return braid_overlay_refuse(l, id, "sums of channel %lld could leave int32", (long long)o);
  }
  return BRAID_OK;
}

static braid_status read_biases(braid_overlay_lowering *l, const braid_overlay_draft *draft, int64_t outputs,
                                int32_t x_exponent, int32_t most, int64_t count, double *sums,
                                braid_overlay_numbers *out) {
  for (size_t i = 0; i < draft->bias_count; i++) BRAID_TRY(add_bias(l, draft->node, draft->biases[i], outputs, sums));
  while (x_exponent + out->exponent > most) {
    if (!double_weights(out->weights, count))
      return braid_overlay_refuse(l, draft->node, "its result has a finer scale than its sums");
    out->exponent--;
  }
  while (!make_biases(sums, outputs, x_exponent + out->exponent, out->biases, &out->half_up)) {
    if (!double_weights(out->weights, count))
      return braid_overlay_refuse(l, draft->node,
                                  "its biases are not integers of the scales of operand and weights, nor such and a "
                                  "part below a half in all channels");
    out->exponent--;
  }
  return BRAID_OK;
}

braid_status braid_overlay_read_weights(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t x_exponent,
                                        int32_t most, struct braid_arena *arena, braid_overlay_numbers *out) {
  weight_source source;
  BRAID_TRY(find_weights(l, draft->node, draft->weights, &source));
  int64_t outputs = draft->form.channels, inputs = l->maps[draft->x].channels / draft->groups;
  int64_t taps = (int64_t)draft->window.kernel_rows * draft->window.kernel_columns;
  if (taps > source.count || inputs * taps > source.count || outputs * inputs * taps != source.count)
    return braid_overlay_refuse(l, draft->node, "its weights do not fit its operand and result");
  *out = (braid_overlay_numbers){.exponent = source.exponent};
  out->weights = braid_arena_alloc(arena, (size_t)source.count);
  out->biases = braid_arena_alloc(arena, (size_t)outputs * sizeof *out->biases);
  double *sums = braid_zalloc_array(l->allocator, (size_t)outputs, sizeof *sums);
  if (!out->weights || !out->biases || !sums) {
    braid_free(l->allocator, sums);
    return BRAID_NO_MEMORY;
  }
  fill_weights(&source, draft, outputs, out->weights);
  braid_status status = read_biases(l, draft, outputs, x_exponent, most, source.count, sums, out);
  if (status == BRAID_OK) status = check_sums(l, draft->node, out, outputs, source.count / outputs);
  braid_free(l->allocator, sums);
  return status;
}
