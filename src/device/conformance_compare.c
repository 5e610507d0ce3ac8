/* Conformance: contents in their layouts, and results against what they should be. */
#include <math.h>
#include <string.h>

#include "device/conformance.h"
#include "tensor/layout.h"
#include "tensor/narrow.h"

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* Of either sign. */
static bool is_zero(const braid_desc *desc, const uint8_t *element) {
  size_t size = braid_dtype_size(desc->dtype);
  for (size_t i = 0; i + 1 < size; i++)
    if (element[i]) return false;
  uint8_t sign = braid_dtype_is_float(desc->dtype) ? 0x80 : 0; /* little-endian */
  return (element[size - 1] & ~sign) == 0;
}

/* All elements of the memory, those of the padding too: indices count on to where the blocks end. Row by row of the
 * last dimension. */
bool braid_suite_unpack(const braid_desc *desc, const void *packed, void *plain) {
  size_t size = braid_dtype_size(desc->dtype), taken = 0;
  int64_t index[BRAID_MAX_RANK] = {0};
  if (desc->layout == BRAID_LAYOUT_PLAIN) {
    if (braid_desc_bytes(desc)) memcpy(plain, packed, braid_desc_bytes(desc));
    return true;
  }
  braid_places places = braid_places_of(desc);
  int last = desc->rank - 1;
  int64_t row = places.outer[last] * places.unit[last];
  for (int64_t at = 0; at < places.count; at += row) {
    int64_t first = braid_places_find(&places, index), inside = desc->dims[last];
    for (int d = 0; d < last; d++)
      if (index[d] >= desc->dims[d]) inside = 0;
    for (int64_t i = 0; i < row; i++) {
      const uint8_t *element = (const uint8_t *)packed + (size_t)(first + braid_places_at(&places, last, i)) * size;
      if (i < inside)
        memcpy((uint8_t *)plain + taken++ * size, element, size);
      else if (!is_zero(desc, element))
        return false;
    }
    for (int d = last; d-- > 0 && ++index[d] == places.outer[d] * places.unit[d];) index[d] = 0;
  }
  return true;
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
typedef struct bound {
  double relative, absolute;
} bound;

/* Element by element each result stands for itself; sums may cancel, so their error is measured by the largest of the
 * tensor. Generous: this tells a wrong kernel from a right one, not a good from a better one. */
static bound bound_of(const braid_trial *trial, const braid_tensor *expected) {
  static const double kRelative[BRAID_DTYPE_COUNT] = {
      [BRAID_F32] = 1e-4, [BRAID_F64] = 1e-9, [BRAID_F16] = 1e-2, [BRAID_BF16] = 5e-2};
  const braid_desc *desc = braid_tensor_desc(expected);
  bound b = {.relative = kRelative[desc->dtype]};
  if (!braid_dtype_is_float(desc->dtype)) {
    b.absolute = trial->rounded ? 1 : 0;
    return b;
  }
  double most = 0;
  for (int64_t i = 0, count = braid_desc_count(desc); i < count; i++) {
    double x = fabs(braid_tensor_get_f64(expected, i));
    if (isfinite(x) && x > most) most = x;
  }
  if (trial->elementwise && most > 1) most = 1;
  b.absolute = b.relative * most * (trial->elementwise ? 0.1 : 1);
  return b;
}

/* Nothing but itself is near to infinity. */
static bool is_near(const bound *b, double x, double y) {
  return x == y || (isnan(x) && isnan(y)) || (isfinite(x) && fabs(x - y) <= b->absolute + b->relative * fabs(x));
}

static bool compare_whole(const braid_tensor *expected, const braid_tensor *got, int64_t i) {
  size_t size = braid_dtype_size(braid_tensor_desc(expected)->dtype), at = (size_t)i * size;
  return memcmp((const uint8_t *)braid_tensor_const_data(expected) + at,
                (const uint8_t *)braid_tensor_const_data(got) + at, size) == 0;
}

/* ONNX leaves it open what becomes of a floating-point number that an integer type cannot hold: the numbers that are
 * cast, or null where every result is defined. */
static const braid_tensor *left_open(const braid_trial *trial, braid_dtype to, uint32_t data) {
  bool casts = strcmp(trial->node.op, "Cast") == 0 || strcmp(trial->node.op, "CastLike") == 0;
  const braid_tensor *input = casts ? trial->data[data][0] : NULL;
  if (!input || !braid_dtype_is_float(braid_tensor_desc(input)->dtype) || braid_dtype_is_float(to) ||
      braid_narrow_is_float(to) || to == BRAID_BOOL)
    return NULL;
  return input;
}

static bool can_hold(braid_dtype to, double number) {
  bool is_signed =
      to == BRAID_I8 || to == BRAID_I16 || to == BRAID_I32 || to == BRAID_I64 || to == BRAID_I4 || to == BRAID_I2;
  double x = trunc(number), end = ldexp(1, braid_dtype_bits(to) - is_signed);
  return x < end && x >= (is_signed ? -end : 0);
}

bool braid_trial_compare(const braid_trial *trial, const braid_desc *desc, size_t output, uint32_t data,
                         const void *packed, char *detail) {
  const braid_tensor *expected = trial->data[data][trial->node.input_count + output];
  bool exact = !braid_dtype_is_float(desc->dtype) && !trial->rounded;
  braid_tensor *got;
  SUITE_CHECK(braid_tensor_create(NULL, braid_tensor_desc(expected), &got) == BRAID_OK, "no memory for a result");
  bool padded = braid_suite_unpack(desc, packed, braid_tensor_data(got)), passed = padded;
  if (!padded) braid_suite_fail(detail, "the padding of output %zu is not zero", output);
  int64_t count = braid_desc_count(desc);
  size_t bytes = (size_t)count * braid_dtype_size(desc->dtype);
  bool same = passed && (!bytes || memcmp(braid_tensor_data(got), braid_tensor_const_data(expected), bytes) == 0);
  const braid_tensor *open = left_open(trial, desc->dtype, data);
  bound b = same ? (bound){0} : bound_of(trial, expected);
  for (int64_t i = 0; passed && !same && i < count; i++) {
    if (open && !can_hold(desc->dtype, braid_tensor_get_f64(open, i))) continue;
    double x = braid_tensor_get_f64(expected, i), y = braid_tensor_get_f64(got, i);
    passed = exact ? compare_whole(expected, got, i) || (isnan(x) && isnan(y)) : is_near(&b, x, y);
    if (!passed) braid_suite_fail(detail, "element %lld of output %zu is %.9g, not %.9g", (long long)i, output, y, x);
  }
  braid_tensor_release(got);
  return passed;
}
