/* Conformance: contents in their layouts, and results against what they should be. */
#include <math.h>
#include <string.h>

#include "device/conformance.h"
#include "tensor/layout.h"

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
typedef struct walk {
  braid_strides strides;
  int64_t batch, channels, places;
} walk;

static bool is_plain(const braid_desc *desc) {
  return desc->layout == BRAID_LAYOUT_PLAIN || desc->rank < 3;
}

static walk walk_of(const braid_desc *desc) {
  walk w = {.batch = desc->dims[0], .channels = desc->dims[1], .places = 1};
  for (int i = 2; i < desc->rank; i++) w.places *= desc->dims[i];
  w.strides = braid_layout_strides(desc->layout, w.batch, w.channels, w.places);
  return w;
}

/* Where element (b, c, s) lies, in elements. */
static int64_t position(const walk *w, int64_t b, int64_t c, int64_t s) {
  return b * w->strides.b + c / BRAID_LAYOUT_BLOCK * w->strides.block + c % BRAID_LAYOUT_BLOCK * w->strides.c +
         s * w->strides.s;
}

static void rearrange(const braid_desc *desc, const uint8_t *from, uint8_t *to, bool pack) {
  walk w = walk_of(desc);
  size_t size = braid_dtype_size(desc->dtype);
  for (int64_t b = 0, i = 0; b < w.batch; b++)
    for (int64_t c = 0; c < w.channels; c++)
      for (int64_t s = 0; s < w.places; s++, i++) {
        size_t plain = (size_t)i * size, packed = (size_t)position(&w, b, c, s) * size;
        memcpy(to + (pack ? packed : plain), from + (pack ? plain : packed), size);
      }
}

void braid_suite_pack(const braid_desc *desc, const void *plain, void *packed) {
  size_t bytes = braid_desc_bytes(desc);
  if (!bytes) return;
  if (is_plain(desc)) {
    memcpy(packed, plain, bytes);
    return;
  }
  memset(packed, 0, bytes);
  rearrange(desc, plain, packed, true);
}

/* Of either sign. */
static bool is_zero(const braid_desc *desc, const uint8_t *element) {
  size_t size = braid_dtype_size(desc->dtype);
  for (size_t i = 0; i + 1 < size; i++)
    if (element[i]) return false;
  uint8_t sign = braid_dtype_is_float(desc->dtype) ? 0x80 : 0; /* little-endian */
  return (element[size - 1] & ~sign) == 0;
}

bool braid_suite_unpack(const braid_desc *desc, const void *packed, void *plain) {
  size_t bytes = braid_desc_bytes(desc);
  if (!bytes) return true;
  if (is_plain(desc)) {
    memcpy(plain, packed, bytes);
    return true;
  }
  rearrange(desc, packed, plain, false);
  if (desc->layout != BRAID_LAYOUT_BLOCKED16) return true;
  walk w = walk_of(desc);
  size_t size = braid_dtype_size(desc->dtype);
  int64_t padded = (w.channels + BRAID_LAYOUT_BLOCK - 1) / BRAID_LAYOUT_BLOCK * BRAID_LAYOUT_BLOCK;
  for (int64_t b = 0; b < w.batch; b++)
    for (int64_t c = w.channels; c < padded; c++)
      for (int64_t s = 0; s < w.places; s++)
        if (!is_zero(desc, (const uint8_t *)packed + (size_t)position(&w, b, c, s) * size)) return false;
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
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
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

/* ONNX leaves it open what becomes of a floating-point number that an integer type cannot hold. */
static bool is_undefined(const braid_trial *trial, braid_dtype to, uint32_t data, int64_t i) {
  bool casts = strcmp(trial->node.op, "Cast") == 0 || strcmp(trial->node.op, "CastLike") == 0;
  const braid_tensor *input = casts ? trial->data[data][0] : NULL;
  if (!input || !braid_dtype_is_float(braid_tensor_desc(input)->dtype) || braid_dtype_is_float(to) || to == BRAID_BOOL)
    return false;
  bool is_signed = to == BRAID_I8 || to == BRAID_I16 || to == BRAID_I32 || to == BRAID_I64;
  double x = trunc(braid_tensor_get_f64(input, i)), end = ldexp(1, (int)braid_dtype_size(to) * 8 - is_signed);
  return !(x < end && x >= (is_signed ? -end : 0));
}

bool braid_trial_compare(const braid_trial *trial, const braid_desc *desc, size_t output, uint32_t data,
                         const void *packed, char *detail) {
  const braid_tensor *expected = trial->data[data][trial->node.input_count + output];
  bool exact = !braid_dtype_is_float(desc->dtype) && !trial->rounded;
  braid_tensor *got;
  SUITE_CHECK(braid_tensor_create(NULL, braid_tensor_desc(expected), &got) == BRAID_OK, "no memory for a result");
  bool padded = braid_suite_unpack(desc, packed, braid_tensor_data(got)), passed = padded;
  if (!padded) braid_suite_fail(detail, "the padding of output %zu is not zero", output);
  bound b = bound_of(trial, expected);
  for (int64_t i = 0; passed && i < braid_desc_count(desc); i++) {
    if (is_undefined(trial, desc->dtype, data, i)) continue;
    double x = braid_tensor_get_f64(expected, i), y = braid_tensor_get_f64(got, i);
    passed = exact ? compare_whole(expected, got, i) : is_near(&b, x, y);
    if (!passed) braid_suite_fail(detail, "element %lld of output %zu is %.9g, not %.9g", (long long)i, output, y, x);
  }
  braid_tensor_release(got);
  return passed;
}
