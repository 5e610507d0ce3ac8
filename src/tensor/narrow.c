#include "tensor/narrow.h"

#include <math.h>
#include <string.h>

/* --- formats -------------------------------------------------------------------------------------------------------
 * A floating-point code is a sign, an exponent and a fraction. Numbers with exponent 0 are multiples of the smallest
 * one. */
typedef struct format {
  int fraction, bias;    /* bits of the fraction; exponent 1 stands for 2^(1 - bias) */
  int sign;              /* its bit */
  int most;              /* code of the largest finite number */
  int infinity, nan;     /* 0: none */
  bool zero_is_unsigned; /* what a negative zero would be is NaN */
} format;

static const format *format_of(braid_dtype dtype) {
  static const format kFormats[BRAID_DTYPE_COUNT] = {
      [BRAID_F8E4M3FN] = {3, 7, 0x80, 0x7e, 0, 0x7f, false},   [BRAID_F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0, 0x80, true},
      [BRAID_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, false}, [BRAID_F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0, 0x80, true},
      [BRAID_F4E2M1] = {1, 1, 0x8, 0x7, 0, 0, false},
  };
  return kFormats[dtype].sign ? &kFormats[dtype] : NULL;
}

enum { kE8m0Bias = 127, kE8m0Most = 0xfe, kE8m0Nan = 0xff };

int braid_dtype_bits(braid_dtype dtype) {
  switch (dtype) {
  case BRAID_U4:
  case BRAID_I4:
  case BRAID_F4E2M1:
    return 4;
  case BRAID_U2:
  case BRAID_I2:
    return 2;
  default:
    return 8 * (int)braid_dtype_size(dtype);
  }
}

bool braid_narrow_is_float(braid_dtype dtype) {
  return dtype == BRAID_F8E8M0 || format_of(dtype);
}

/* --- to a number ---------------------------------------------------------------------------------------------------
 */
static double power_of_two(int exponent) {
  uint64_t bits = (uint64_t)(1023 + exponent) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

double braid_narrow_to_f64(braid_dtype dtype, uint8_t code) {
  if (dtype == BRAID_F8E8M0) return code == kE8m0Nan ? (double)NAN : power_of_two(code - kE8m0Bias);
  const format *f = format_of(dtype);
  if (!f) return (double)braid_narrow_to_i64(dtype, code);
  int sign = code & f->sign, rest = code & (f->sign - 1), exponent = rest >> f->fraction;
  double value;
  if (f->zero_is_unsigned && sign && !rest)
    return (double)NAN;
  else if (f->infinity && rest == f->infinity)
    value = (double)INFINITY;
  else if (rest > f->most)
    value = (double)NAN;
  else
    value = (exponent ? (rest & ((1 << f->fraction) - 1)) + (1 << f->fraction) : rest) *
            power_of_two((exponent ? exponent : 1) - f->bias - f->fraction);
  return sign ? -value : value;
}

int64_t braid_narrow_to_i64(braid_dtype dtype, uint8_t code) {
  int bits = braid_dtype_bits(dtype), low = code & ((1 << bits) - 1);
  bool is_signed = dtype == BRAID_I4 || dtype == BRAID_I2;
  return is_signed && low >> (bits - 1) ? low - (1 << bits) : low;
}

/* --- from a number -------------------------------------------------------------------------------------------------
 */
static uint8_t e8m0_of(double value, const braid_narrowing *how) {
  int exponent;
  if (value != value || value < 0) return kE8m0Nan; /* all of its numbers are positive */
  if (value == 0) return how->overflows ? kE8m0Nan : 0;
  if (value == (double)INFINITY) return how->overflows ? kE8m0Nan : kE8m0Most;
  double part = frexp(value, &exponent); /* value is at least 2^(exponent - 1), and equal to it where part is 1/2 */
  bool up = how->e8m0 == BRAID_E8M0_UP ? part > 0.5 : how->e8m0 == BRAID_E8M0_NEAREST && part >= 0.75;
  int code = exponent - 1 + up + kE8m0Bias;
  if (code >= 0 && code <= kE8m0Most) return (uint8_t)code;
  if (how->overflows) return kE8m0Nan;
  return code < 0 ? 0 : kE8m0Most;
}

static uint8_t float_of(const format *f, double value, const braid_narrowing *how) {
  int sign = signbit(value) ? f->sign : 0, exponent, code;
  if (value != value) /* in float4, ml_dtypes and ONNX make it a zero of the other sign */
    return (uint8_t)(f->nan ? (f->nan & ~f->sign) | (f->zero_is_unsigned ? f->sign : sign) : sign ^ f->sign);
  if (value == 0) {
    code = 0;
  } else if (isinf(value)) {
    code = f->most + 1;
  } else {
    (void)frexp(value, &exponent);
    int above = exponent - 1 - (1 - f->bias); /* exponents above the smallest normal one */
    if (above < 0) above = 0;
    /* the exponent's field and the fraction carry into each other */
    code = (int)rint(ldexp(fabs(value), f->fraction + f->bias - 1 - above)) + above * (1 << f->fraction);
  }
  if (code > f->most) {
    code = f->most;
    if (how->overflows && (f->infinity || f->nan)) code = f->infinity ? f->infinity : f->nan;
  }
  return (uint8_t)(code || !f->zero_is_unsigned ? sign | code : 0);
}

uint8_t braid_narrow_of_i64(braid_dtype dtype, int64_t value) {
  return (uint8_t)((uint64_t)value & ((UINT64_C(1) << braid_dtype_bits(dtype)) - 1));
}

uint8_t braid_narrow_of_f64(braid_dtype dtype, double value, const braid_narrowing *how) {
  if (dtype == BRAID_F8E8M0) return e8m0_of(value, how);
  const format *f = format_of(dtype);
  if (f) return float_of(f, value, how);
  int bits = braid_dtype_bits(dtype);
  bool is_signed = dtype == BRAID_I4 || dtype == BRAID_I2;
  double least = is_signed ? -(1 << (bits - 1)) : 0, most = least + (1 << bits) - 1;
  if (how->wraps) least = -0x1p63, most = 0x1.fffffffffffffp62;
  if (value != value) return 0;
  return braid_narrow_of_i64(dtype, (int64_t)(value < least ? least : value > most ? most : value));
}

/* --- packed --------------------------------------------------------------------------------------------------------
 */
size_t braid_packed_bytes(const braid_desc *desc) {
  size_t each = 8 / (size_t)braid_dtype_bits(desc->dtype), bytes = braid_desc_bytes(desc);
  return each > 1 ? bytes / each + (bytes % each != 0) : bytes;
}

void braid_narrow_unpack(braid_dtype dtype, const uint8_t *packed, int64_t count, uint8_t *codes) {
  int bits = braid_dtype_bits(dtype), each = 8 / bits;
  for (int64_t i = 0; i < count; i++)
    codes[i] = (uint8_t)(packed[i / each] >> (int)(i % each) * bits & ((1 << bits) - 1));
}

void braid_narrow_pack(braid_dtype dtype, const uint8_t *codes, int64_t count, uint8_t *packed) {
  int bits = braid_dtype_bits(dtype), each = 8 / bits;
  for (int64_t i = 0; i < count; i++) {
    int shift = (int)(i % each) * bits, code = (codes[i] & ((1 << bits) - 1)) << shift;
    packed[i / each] = (uint8_t)(shift ? packed[i / each] | code : code);
  }
}
