/* ONNX's numbers for element types (TensorProto.DataType). Attributes of ops (Cast `to`, EyeLike `dtype`,
 * QuantizeLinear `output_dtype`) carry these numbers, as in ONNX; everything else speaks braid_dtype. */
#ifndef BRAID_GRAPH_ONNX_DTYPE_H
#define BRAID_GRAPH_ONNX_DTYPE_H

#include "braid/tensor.h"

/* X(number, ONNX name, braid dtype) */
#define BRAID_ONNX_DTYPE_MAP(X)                                                                                        \
  X(1, "FLOAT", BRAID_F32)                                                                                             \
  X(2, "UINT8", BRAID_U8)                                                                                              \
  X(3, "INT8", BRAID_I8)                                                                                               \
  X(4, "UINT16", BRAID_U16)                                                                                            \
  X(5, "INT16", BRAID_I16)                                                                                             \
  X(6, "INT32", BRAID_I32)                                                                                             \
  X(7, "INT64", BRAID_I64)                                                                                             \
  X(8, "STRING", BRAID_NONE)                                                                                           \
  X(9, "BOOL", BRAID_BOOL)                                                                                             \
  X(10, "FLOAT16", BRAID_F16)                                                                                          \
  X(11, "DOUBLE", BRAID_F64)                                                                                           \
  X(12, "UINT32", BRAID_U32)                                                                                           \
  X(13, "UINT64", BRAID_U64)                                                                                           \
  X(14, "COMPLEX64", BRAID_NONE)                                                                                       \
  X(15, "COMPLEX128", BRAID_NONE)                                                                                      \
  X(16, "BFLOAT16", BRAID_BF16)                                                                                        \
  X(17, "FLOAT8E4M3FN", BRAID_F8E4M3FN)                                                                                \
  X(18, "FLOAT8E4M3FNUZ", BRAID_F8E4M3FNUZ)                                                                            \
  X(19, "FLOAT8E5M2", BRAID_F8E5M2)                                                                                    \
  X(20, "FLOAT8E5M2FNUZ", BRAID_F8E5M2FNUZ)                                                                            \
  X(21, "UINT4", BRAID_U4)                                                                                             \
  X(22, "INT4", BRAID_I4)                                                                                              \
  X(23, "FLOAT4E2M1", BRAID_F4E2M1)                                                                                    \
  X(24, "FLOAT8E8M0", BRAID_F8E8M0)                                                                                    \
  X(25, "UINT2", BRAID_U2)                                                                                             \
  X(26, "INT2", BRAID_I2)                                                                                              \
  X(27, "FLOAT6E2M3", BRAID_NONE)                                                                                      \
  X(28, "FLOAT6E3M2", BRAID_NONE)

/* BRAID_NONE for types we do not carry and numbers ONNX does not know. */
static inline braid_dtype braid_dtype_from_onnx(int64_t number) {
  switch (number) {
#define BRAID_ONNX_DTYPE_FROM(number, name, dtype)                                                                     \
  case number:                                                                                                         \
    return dtype;
    BRAID_ONNX_DTYPE_MAP(BRAID_ONNX_DTYPE_FROM)
#undef BRAID_ONNX_DTYPE_FROM
  default:
    return BRAID_NONE;
  }
}

/* 0 (UNDEFINED) for BRAID_NONE. */
static inline int braid_dtype_to_onnx(braid_dtype dtype) {
#define BRAID_ONNX_DTYPE_TO(number, name, own)                                                                         \
  if (own != BRAID_NONE && own == dtype) return number;
  BRAID_ONNX_DTYPE_MAP(BRAID_ONNX_DTYPE_TO)
#undef BRAID_ONNX_DTYPE_TO
  return 0;
}

/* "FLOAT8E4M3FN", for messages; "unknown" for numbers ONNX does not know. */
static inline const char *braid_onnx_dtype_name(int64_t number) {
  switch (number) {
#define BRAID_ONNX_DTYPE_NAME(number, name, dtype)                                                                     \
  case number:                                                                                                         \
    return name;
    BRAID_ONNX_DTYPE_MAP(BRAID_ONNX_DTYPE_NAME)
#undef BRAID_ONNX_DTYPE_NAME
  default:
    return "unknown";
  }
}

#endif
