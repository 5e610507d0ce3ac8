/* What the plain kernels of quantized numbers share: elements of operands of any type. */
#ifndef BRAID_BACKEND_CPU_PLAIN_QUANTIZE_H
#define BRAID_BACKEND_CPU_PLAIN_QUANTIZE_H

#include "backend/cpu/cpu.h"
#include "tensor/half.h"
#include "tensor/narrow.h"

static inline double braid_plain_real(const braid_operand *operand, const void *data, int64_t i) {
  switch (operand->desc.dtype) {
  case BRAID_F64:
    return ((const double *)data)[i];
  case BRAID_F16:
    return (double)braid_f16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_BF16:
    return (double)braid_bf16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_F32:
    return (double)((const float *)data)[i];
  case BRAID_I32:
    return ((const int32_t *)data)[i];
  case BRAID_I16:
    return ((const int16_t *)data)[i];
  case BRAID_U16:
    return ((const uint16_t *)data)[i];
  case BRAID_I8:
    return ((const int8_t *)data)[i];
  case BRAID_U8:
    return ((const uint8_t *)data)[i];
  default:
    return braid_narrow_to_f64(operand->desc.dtype, ((const uint8_t *)data)[i]);
  }
}

static inline int32_t braid_plain_integer(const braid_operand *operand, const void *data, int64_t i) {
  switch (operand->desc.dtype) {
  case BRAID_I8:
    return ((const int8_t *)data)[i];
  case BRAID_U8:
    return ((const uint8_t *)data)[i];
  case BRAID_I16:
    return ((const int16_t *)data)[i];
  case BRAID_U16:
    return ((const uint16_t *)data)[i];
  default:
    return ((const int32_t *)data)[i];
  }
}

static inline bool braid_plain_given(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

#endif
