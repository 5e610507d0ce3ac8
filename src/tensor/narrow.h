/* Narrow numbers: float8 and float4 formats, and integers of 4 and 2 bits. In memory each is a byte with its code in
 * the low bits; files of ONNX pack the small ones, 2 or 4 to a byte, the first in the lowest bits. What lies above a
 * code is ignored when it is read and zero when it is written. */
#ifndef BRAID_TENSOR_NARROW_H
#define BRAID_TENSOR_NARROW_H
#include "braid/tensor.h"

typedef enum braid_e8m0_rounding { BRAID_E8M0_UP, BRAID_E8M0_DOWN, BRAID_E8M0_NEAREST } braid_e8m0_rounding;

/* How numbers become narrow. */
typedef struct braid_narrowing {
  bool wraps;               /* integers: the low bits of the whole part; else the nearest in range */
  bool overflows;           /* float8: to infinity, or NaN where there is none; else to the largest finite number */
  braid_e8m0_rounding e8m0; /* to a power of two; ties go up */
} braid_narrowing;

int braid_dtype_bits(braid_dtype dtype);       /* 8, 4 or 2; of a type that is not narrow, all of its bits */
bool braid_narrow_is_float(braid_dtype dtype); /* float8 and float4 */

/* Exact. */
double braid_narrow_to_f64(braid_dtype dtype, uint8_t code);
/* Floating-point formats: rounded once, ties to even. Integers: without the fraction. NaN is 0 in integers, and a zero
 * in float4, which has no NaN. */
uint8_t braid_narrow_of_f64(braid_dtype dtype, double value, const braid_narrowing *how);
/* The low bits, as integers are cast. */
int64_t braid_narrow_to_i64(braid_dtype dtype, uint8_t code);
uint8_t braid_narrow_of_i64(braid_dtype dtype, int64_t value);

/* Bytes of a PLAIN tensor in a file: braid_desc_bytes, or less where elements are packed. */
size_t braid_packed_bytes(const braid_desc *desc);
/* `count` codes, one in a byte, from and to packed ones. `packed` may be the end of `codes`. */
void braid_narrow_unpack(braid_dtype dtype, const uint8_t *packed, int64_t count, uint8_t *codes);
void braid_narrow_pack(braid_dtype dtype, const uint8_t *codes, int64_t count, uint8_t *packed);

#endif
