#include "backend/cpu/quantized/scales.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int32_t braid_bytes_zero(const braid_node_desc *node, const braid_cpu_args *args, size_t at, int64_t i) {
  if (!braid_bytes_given(node, at)) return 0;
  const braid_desc *desc = &node->inputs[at].desc;
  int64_t index = braid_desc_count(desc) == 1 ? 0 : i;
  return desc->dtype == BRAID_I8 ? ((const int8_t *)args->inputs[at])[index]
                                 : ((const uint8_t *)args->inputs[at])[index];
}

braid_bytes_scale braid_bytes_scale_of(const braid_node_desc *node, const braid_cpu_args *args, braid_dtype dtype,
                                       size_t at) {
  bool is_signed = dtype == BRAID_I8;
  return (braid_bytes_scale){.scale = *(const float *)args->inputs[at],
                             .is_signed = is_signed,
                             .zero = braid_bytes_zero(node, args, at + 1, 0),
                             .low = is_signed ? INT8_MIN : 0,
                             .high = is_signed ? INT8_MAX : UINT8_MAX};
}

/* Rounding keeps the order of numbers: clamping before quantizing is clamping by the quantized bounds behind it. */
static int32_t quantize_bound(const braid_bytes_scale *scale, float bound, int32_t otherwise) {
  float value = rintf(bound / scale->scale) + (float)scale->zero;
  if (isnan(value)) return otherwise;
  return (int32_t)fminf(fmaxf(value, (float)scale->low), (float)scale->high);
}

braid_bytes_scale braid_bytes_result_of(const braid_node_desc *node, const braid_cpu_args *args, size_t at) {
  braid_bytes_scale y = braid_bytes_scale_of(node, args, node->outputs[0].desc.dtype, at);
  const char *name = braid_attr_string(node->attrs, "activation", "");
  size_t count = 0;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &count);
  bool clip = strcmp(name, "Clip") == 0, relu = strcmp(name, "Relu") == 0;
  int32_t low = y.low, high = y.high;
  if (relu || (clip && count > 0)) low = quantize_bound(&y, relu ? 0 : params[0], y.low);
  if (clip && count > 1) high = quantize_bound(&y, params[1], y.high);
  y.low = low < high ? low : high; /* of a Clip whose bounds are the wrong way round the upper one counts */
  y.high = high;
  return y;
}

bool braid_bytes_match(const braid_node_desc *node, const size_t *operands, size_t count, size_t result, char *why,
                       size_t why_bytes) {
  const char *reason = NULL;
  for (size_t i = 0; i <= count && !reason; i++) {
    size_t scale = i < count ? operands[i] + 1 : result;
    braid_dtype dtype = i < count ? node->inputs[operands[i]].desc.dtype : node->outputs[0].desc.dtype;
    if (!braid_dtype_is_byte(dtype))
      reason = "8-bit integers only";
    else if (node->inputs[scale].desc.dtype != BRAID_F32)
      reason = "float32 scales only";
    else if (braid_desc_count(&node->inputs[scale].desc) != 1)
      reason = "one scale for all only";
    else if (braid_bytes_given(node, scale + 1) && braid_desc_count(&node->inputs[scale + 1].desc) != 1)
      reason = "one zero point for all only";
  }
  if (!reason && braid_desc_count(&node->outputs[0].desc) == 0) reason = "an empty result";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}
