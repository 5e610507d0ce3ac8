/* 16-bit floating-point numbers: conversion to and from float32, rounding to nearest, ties to even. */
#ifndef BRAID_TENSOR_HALF_H
#define BRAID_TENSOR_HALF_H
#include <stdint.h>
#include <string.h>

#include "braid/tensor.h"

static inline bool braid_dtype_is_half(braid_dtype dtype) {
  return dtype == BRAID_F16 || dtype == BRAID_BF16;
}

static inline uint32_t braid_bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float braid_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float braid_f16_to_f32(uint16_t half) {
#ifdef __F16C__
  return __builtin_ia32_vcvtph2ps((__attribute__((vector_size(16))) short){(short)half})[0];
#else
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 31) return braid_float_of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent) return braid_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float value = (float)fraction * 0x1p-24f; /* exact: subnormals are multiples of 2^-24 */
  return sign ? -value : value;
#endif
}

static inline uint16_t braid_f32_to_f16(float value) {
#ifdef __F16C__
  return (uint16_t)__builtin_ia32_vcvtps2ph((__attribute__((vector_size(16))) float){value}, 0)[0];
#else
  uint32_t bits = braid_bits_of_float(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff)); /* NaN, quiet */
  if (rest >= 0x47800000) return (uint16_t)(sign | 0x7c00);                       /* 2^16 and above: infinity */
  if (rest < 0x38800000) { /* below 2^-14: subnormal; adding 0.5 lets the hardware round at 2^-24 */
    float rounded = braid_float_of_bits(rest) + 0.5f;
    return (uint16_t)(sign | (braid_bits_of_float(rounded) - 0x3f000000));
  }
  uint32_t odd = rest >> 13 & 1;
  return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + odd) >> 13));
#endif
}

static inline float braid_bf16_to_f32(uint16_t half) {
  return braid_float_of_bits((uint32_t)half << 16);
}

static inline uint16_t braid_f32_to_bf16(float value) {
  uint32_t bits = braid_bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
