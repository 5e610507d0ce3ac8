#include <math.h>

#include "runtime/conformance/conformance.h"
#include "tensor/narrow.h"

static const double kRelative = 1e-3, kAbsolute = 1e-7, kBfloat = 1.0 / 64;

static bool close_enough(double expected, double got, double relative) {
  if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
  if (isinf(expected) || isinf(got)) return expected == got;
  return fabs(expected - got) <= kAbsolute + relative * fabs(expected);
}

static braid_status compare_floats(const braid_tensor *expected, const braid_tensor *got, int64_t count,
                                   double relative) {
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < count; i++)
    if (!close_enough(braid_tensor_get_f64(expected, i), braid_tensor_get_f64(got, i), relative) && !wrong++) first = i;
  if (!wrong) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "%lld of %lld values differ, first at %lld: %.9g, expected %.9g",
                    (long long)wrong, (long long)count, (long long)first, braid_tensor_get_f64(got, first),
                    braid_tensor_get_f64(expected, first));
}

static braid_status compare_integers(const braid_tensor *expected, const braid_tensor *got, int64_t count) {
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < count; i++)
    if (braid_tensor_get_i64(expected, i) != braid_tensor_get_i64(got, i) && !wrong++) first = i;
  if (!wrong) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "%lld of %lld values differ, first at %lld: %lld, expected %lld",
                    (long long)wrong, (long long)count, (long long)first, (long long)braid_tensor_get_i64(got, first),
                    (long long)braid_tensor_get_i64(expected, first));
}

braid_status braid_case_compare(const braid_tensor *expected, const braid_desc *desc, const void *data) {
  const braid_desc *want = braid_tensor_desc(expected);
  if (want->dtype != desc->dtype || !braid_desc_same_shape(want, desc)) {
    char one[128], other[128];
    return braid_fail(BRAID_INVALID_GRAPH, "is %s, expected %s", braid_desc_format(desc, one, sizeof one),
                      braid_desc_format(want, other, sizeof other));
  }
  braid_tensor *got;
  braid_status status = braid_tensor_wrap(NULL, desc, (void *)data, NULL, NULL, &got);
  if (status != BRAID_OK) return status;
  int64_t count = braid_desc_count(desc);
  if (!braid_dtype_is_float(desc->dtype) && !braid_narrow_is_float(desc->dtype))
    status = compare_integers(expected, got, count);
  else
    status = compare_floats(expected, got, count, desc->dtype == BRAID_BF16 ? kBfloat : kRelative);
  braid_tensor_release(got);
  return status;
}
