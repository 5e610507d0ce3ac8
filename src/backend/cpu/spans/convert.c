#include "backend/cpu/spans/convert.h"

#include <string.h>

#include "backend/cpu/spans/spans.h"
#include "tensor/half.h"

/* --- one number ----------------------------------------------------------------------------------------------------
 */
/* To float so that a second rounding, to 16 bits, gives what a single one would: inexact results are made odd. */
static inline float narrow_to_odd(double value) {
  float nearest = (float)value;
  if ((double)nearest == value || !(value - value == 0)) return nearest;
  uint32_t bits = braid_bits_of_float(nearest);
  bool away = (double)nearest > value ? value > 0 : value < 0; /* rounded away from zero */
  return braid_float_of_bits((bits - (away ? 1 : 0)) | 1);
}

#define SATURATE(T, id, low, high)                                                                                     \
  static inline T id##_of(double value) {                                                                              \
    if (value != value) return 0;                                                                                      \
    return value <= low ? low : value >= high ? high : (T)value;                                                       \
  }
SATURATE(int8_t, I8, INT8_MIN, INT8_MAX)
SATURATE(int16_t, I16, INT16_MIN, INT16_MAX)
SATURATE(int32_t, I32, INT32_MIN, INT32_MAX)
SATURATE(uint8_t, U8, 0, UINT8_MAX)
SATURATE(uint16_t, U16, 0, UINT16_MAX)
SATURATE(uint32_t, U32, 0, UINT32_MAX)
#undef SATURATE
static inline int64_t I64_of(double value) {
  if (value != value) return 0;
  if (value < -0x1p63) return INT64_MIN;
  return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}
static inline uint64_t U64_of(double value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

/* What a stored element is as a number of the machine. */
#define LOAD_F32(x) (x)
#define LOAD_F64(x) (x)
#define LOAD_F16(x) braid_f16_to_f32(x)
#define LOAD_BF16(x) braid_bf16_to_f32(x)

#define STORE_F32(x) ((float)(x))
#define STORE_F64(x) ((double)(x))
#define STORE_F16(x) braid_f32_to_f16(narrow_to_odd((double)(x)))
#define STORE_BF16(x) braid_f32_to_bf16(narrow_to_odd((double)(x)))
#define STORE_BOOL(x) ((x) != 0)

#define TYPE_F32 float
#define TYPE_F64 double
#define TYPE_F16 uint16_t
#define TYPE_BF16 uint16_t
#define TYPE_I8 int8_t
#define TYPE_I16 int16_t
#define TYPE_I32 int32_t
#define TYPE_I64 int64_t
#define TYPE_U8 uint8_t
#define TYPE_U16 uint16_t
#define TYPE_U32 uint32_t
#define TYPE_U64 uint64_t
#define TYPE_BOOL uint8_t

#define CONVERT(from, to, expression)                                                                                  \
  static void from##_##to(const void *source, void *target, int64_t count) {                                           \
    const TYPE_##from *s = source;                                                                                     \
    TYPE_##to *t = target;                                                                                             \
    for (int64_t i = 0; i < count; i++) t[i] = (TYPE_##to)(expression);                                                \
  }

#define FROM_FLOAT(from)                                                                                               \
  CONVERT(from, F32, STORE_F32(LOAD_##from(s[i])))                                                                     \
  CONVERT(from, F64, STORE_F64(LOAD_##from(s[i])))                                                                     \
  CONVERT(from, F16, STORE_F16(LOAD_##from(s[i])))                                                                     \
  CONVERT(from, BF16, STORE_BF16(LOAD_##from(s[i])))                                                                   \
  CONVERT(from, I8, I8_of(LOAD_##from(s[i])))                                                                          \
  CONVERT(from, I16, I16_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, I32, I32_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, I64, I64_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, U8, U8_of(LOAD_##from(s[i])))                                                                          \
  CONVERT(from, U16, U16_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, U32, U32_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, U64, U64_of(LOAD_##from(s[i])))                                                                        \
  CONVERT(from, BOOL, STORE_BOOL(LOAD_##from(s[i])))

#define FROM_INTEGER(from)                                                                                             \
  CONVERT(from, F32, STORE_F32(s[i]))                                                                                  \
  CONVERT(from, F64, STORE_F64(s[i]))                                                                                  \
  CONVERT(from, F16, STORE_F16(s[i]))                                                                                  \
  CONVERT(from, BF16, STORE_BF16(s[i]))                                                                                \
  CONVERT(from, I8, s[i])                                                                                              \
  CONVERT(from, I16, s[i])                                                                                             \
  CONVERT(from, I32, s[i])                                                                                             \
  CONVERT(from, I64, s[i])                                                                                             \
  CONVERT(from, U8, s[i])                                                                                              \
  CONVERT(from, U16, s[i])                                                                                             \
  CONVERT(from, U32, s[i])                                                                                             \
  CONVERT(from, U64, s[i])                                                                                             \
  CONVERT(from, BOOL, STORE_BOOL(s[i]))

FROM_FLOAT(F32)
FROM_FLOAT(F64)
FROM_FLOAT(F16)
FROM_FLOAT(BF16)
FROM_INTEGER(I8)
FROM_INTEGER(I16)
FROM_INTEGER(I32)
FROM_INTEGER(I64)
FROM_INTEGER(U8)
FROM_INTEGER(U16)
FROM_INTEGER(U32)
FROM_INTEGER(U64)
FROM_INTEGER(BOOL)

#define SAME(bytes)                                                                                                    \
  static void same_##bytes(const void *from, void *to, int64_t count) {                                                \
    memmove(to, from, (size_t)count *bytes);                                                                           \
  }
SAME(1)
SAME(2)
SAME(4)
SAME(8)
#undef SAME

static braid_convert *find_same(braid_dtype dtype) {
  switch (braid_dtype_size(dtype)) {
  case 1:
    return same_1;
  case 2:
    return same_2;
  case 4:
    return same_4;
  default:
    return same_8;
  }
}

braid_convert *braid_convert_find(braid_dtype from, braid_dtype to) {
#define ENTRY(id, name, bytes, npy) [BRAID_##id] = ROW(id),
#define ROW(id)                                                                                                        \
  {                                                                                                                    \
    [BRAID_F32] = id##_F32, [BRAID_F64] = id##_F64, [BRAID_F16] = id##_F16, [BRAID_BF16] = id##_BF16,                  \
    [BRAID_I8] = id##_I8, [BRAID_I16] = id##_I16, [BRAID_I32] = id##_I32, [BRAID_I64] = id##_I64,                      \
    [BRAID_U8] = id##_U8, [BRAID_U16] = id##_U16, [BRAID_U32] = id##_U32, [BRAID_U64] = id##_U64,                      \
    [BRAID_BOOL] = id##_BOOL                                                                                           \
  }
  static braid_convert *const kTable[BRAID_DTYPE_COUNT][BRAID_DTYPE_COUNT] = {BRAID_WIDE_DTYPE_MAP(ENTRY)};
#undef ROW
#undef ENTRY
  const braid_span_set *spans = braid_spans_float();
  if (from == to) return find_same(from);
  if (from == BRAID_F16 && to == BRAID_F32) return spans->load_f16;
  if (from == BRAID_F32 && to == BRAID_F16) return spans->store_f16;
  if (from == BRAID_BF16 && to == BRAID_F32) return spans->load_bf16;
  if (from == BRAID_F32 && to == BRAID_BF16) return spans->store_bf16;
  return kTable[from][to];
}

/* --- narrow numbers ------------------------------------------------------------------------------------------------
 * Through int64 between integers, whose low bits are kept, else through double, which holds all of them. */
static bool has_fraction(braid_dtype dtype) {
  return braid_dtype_is_float(dtype) || braid_narrow_is_float(dtype);
}

void braid_narrow_convert_init(braid_narrow_convert *convert, braid_dtype from, braid_dtype to,
                               const braid_narrowing *how) {
  *convert = (braid_narrow_convert){.from = from, .to = to, .how = *how};
  for (int code = 0; braid_dtype_is_narrow(from) && code < 256; code++)
    convert->numbers[code] = braid_narrow_to_f64(from, (uint8_t)code);
}

void braid_narrow_convert_run(const braid_narrow_convert *convert, const void *source, void *target, int64_t count) {
  enum { kBlock = 512 };
  double numbers[kBlock];
  int64_t integers[kBlock];
  braid_dtype from = convert->from, to = convert->to;
  bool whole = !has_fraction(from) && !has_fraction(to), wide = !braid_dtype_is_narrow(from);
  void *between = whole ? (void *)integers : numbers;
  braid_dtype carrier = whole ? BRAID_I64 : BRAID_F64;
  const uint8_t *s = source;
  uint8_t *t = target;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t some = count - begin < kBlock ? count - begin : kBlock;
    if (wide)
      braid_convert_find(from, carrier)(s + (size_t)begin * braid_dtype_size(from), between, some);
    else if (whole)
      for (int64_t i = 0; i < some; i++) integers[i] = (int64_t)convert->numbers[s[begin + i]];
    else
      for (int64_t i = 0; i < some; i++) numbers[i] = convert->numbers[s[begin + i]];
    if (!braid_dtype_is_narrow(to))
      braid_convert_find(carrier, to)(between, t + (size_t)begin * braid_dtype_size(to), some);
    else if (whole)
      for (int64_t i = 0; i < some; i++) t[begin + i] = braid_narrow_of_i64(to, integers[i]);
    else
      for (int64_t i = 0; i < some; i++) t[begin + i] = braid_narrow_of_f64(to, numbers[i], &convert->how);
  }
}
