#include "graph/resize.h"

#include <math.h>
#include <string.h>

static bool is(const braid_attrs *attrs, const char *name, const char *otherwise, const char *value) {
  return strcmp(braid_attr_string(attrs, name, otherwise), value) == 0;
}

static bool mode_is(const braid_attrs *attrs, const char *mode) {
  return is(attrs, "mode", "nearest", mode);
}

static bool transformation_is(const braid_attrs *attrs, const char *mode) {
  return is(attrs, "coordinate_transformation_mode", "half_pixel", mode);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */
static const char *check_modes(const braid_attrs *attrs) {
  static const char *const kTransformations[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                                 "align_corners", "asymmetric",           "tf_crop_and_resize"};
  static const char *const kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  bool known = false, rounds = false;
  for (size_t i = 0; i < 6; i++) known = known || transformation_is(attrs, kTransformations[i]);
  for (size_t i = 0; i < 4; i++) rounds = rounds || is(attrs, "nearest_mode", "round_prefer_floor", kRoundings[i]);
  if (!mode_is(attrs, "nearest") && !mode_is(attrs, "linear") && !mode_is(attrs, "cubic"))
    return "mode is none of nearest, linear and cubic";
  if (!known) return "coordinate_transformation_mode is unknown";
  return rounds ? NULL : "nearest_mode is unknown";
}

/* The axes that scales, sizes and roi speak of. */
static const char *axes_of(const braid_attrs *attrs, int rank, int64_t axes[BRAID_MAX_RANK], size_t *count) {
  const int64_t *given = braid_attr_ints(attrs, "axes", count);
  bool seen[BRAID_MAX_RANK] = {false};
  if (!given) *count = (size_t)rank;
  if (*count > (size_t)rank) return "more axes than dimensions";
  for (size_t i = 0; i < *count; i++) {
    axes[i] = given ? given[i] : (int64_t)i;
    if (axes[i] < 0) axes[i] += rank;
    if (axes[i] < 0 || axes[i] >= rank || seen[axes[i]]) return "an axis is out of range or named twice";
    seen[axes[i]] = true;
  }
  return NULL;
}

/* How long an axis gets, in float: as ONNX Runtime multiplies, so that 10 * 0.7 is 7, although the float next to 0.7
 * lies below it; and so that n * (m / n) is m. */
static double scaled(int64_t in, double scale) {
  return (float)((double)in * scale);
}

static const char *size_by_scales(braid_resize *resize, const int64_t *axes, size_t count, const braid_tensor *scales) {
  if ((size_t)braid_desc_count(braid_tensor_desc(scales)) != count) return "not one scale per axis";
  for (size_t i = 0; i < count; i++) {
    double scale = braid_tensor_get_f64(scales, (int64_t)i), size = floor(scaled(resize->in[axes[i]], scale));
    if (!(scale > 0) || !(size < (double)INT32_MAX)) return "a scale is not positive, or too large";
    resize->scale[axes[i]] = scale;
    resize->out[axes[i]] = (int64_t)size;
  }
  return NULL;
}

static const char *size_by_sizes(braid_resize *resize, const braid_attrs *attrs, const int64_t *axes, size_t count,
                                 const braid_tensor *sizes) {
  bool larger = is(attrs, "keep_aspect_ratio_policy", "stretch", "not_smaller");
  bool smaller = is(attrs, "keep_aspect_ratio_policy", "stretch", "not_larger");
  double common = 0;
  if ((size_t)braid_desc_count(braid_tensor_desc(sizes)) != count) return "not one size per axis";
  for (size_t i = 0; i < count; i++) {
    int64_t size = braid_tensor_get_i64(sizes, (int64_t)i), in = resize->in[axes[i]];
    if (size < 0 || size > INT32_MAX || (in == 0 && size > 0)) return "a size is negative, or too large";
    double scale = in ? (double)size / (double)in : 1;
    resize->out[axes[i]] = size;
    resize->scale[axes[i]] = scale;
    if (!i || (larger && scale > common) || (smaller && scale < common)) common = scale;
  }
  for (size_t i = 0; (larger || smaller) && i < count; i++) {
    resize->scale[axes[i]] = common;
    resize->out[axes[i]] = (int64_t)floor(common * (double)resize->in[axes[i]] + 0.5);
  }
  return NULL;
}

static bool is_given(const braid_tensor *tensor) {
  return tensor && braid_desc_count(braid_tensor_desc(tensor)) > 0;
}

const char *braid_resize_init(braid_resize *resize, const braid_attrs *attrs, const braid_desc *x,
                              const braid_tensor *roi, const braid_tensor *scales, const braid_tensor *sizes) {
  int64_t axes[BRAID_MAX_RANK];
  size_t count;
  *resize = (braid_resize){.rank = x->rank};
  for (int i = 0; i < x->rank; i++) {
    resize->in[i] = resize->out[i] = x->dims[i];
    resize->scale[i] = resize->roi_end[i] = 1;
  }
  const char *wrong = check_modes(attrs);
  if (!wrong) wrong = axes_of(attrs, x->rank, axes, &count);
  if (wrong) return wrong;
  if (is_given(scales) == is_given(sizes)) return "expected either scales or sizes";
  wrong =
      is_given(scales) ? size_by_scales(resize, axes, count, scales) : size_by_sizes(resize, attrs, axes, count, sizes);
  if (wrong || !transformation_is(attrs, "tf_crop_and_resize")) return wrong;
  if (!is_given(roi) || (size_t)braid_desc_count(braid_tensor_desc(roi)) != 2 * count)
    return "roi does not hold a start and an end per axis";
  for (size_t i = 0; i < count; i++) {
    resize->roi_start[axes[i]] = braid_tensor_get_f64(roi, (int64_t)i);
    resize->roi_end[axes[i]] = braid_tensor_get_f64(roi, (int64_t)(count + i));
  }
  return NULL;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */
bool braid_resize_keeps(const braid_resize *resize, const braid_attrs *attrs, int axis) {
  bool whole = resize->roi_start[axis] == 0 && resize->roi_end[axis] == 1;
  return resize->in[axis] == resize->out[axis] && resize->scale[axis] == 1 &&
         (whole || !transformation_is(attrs, "tf_crop_and_resize"));
}

static bool antialiases(const braid_attrs *attrs) {
  return braid_attr_int(attrs, "antialias", 0) && !mode_is(attrs, "nearest");
}

int64_t braid_resize_taps(const braid_resize *resize, const braid_attrs *attrs, int axis) {
  if (mode_is(attrs, "nearest")) return 1;
  double reach = mode_is(attrs, "cubic") ? 2 : 1, scale = fmin(resize->scale[axis], 1);
  if (!antialiases(attrs)) return (int64_t)(2 * reach);
  return 2 - 2 * ((int64_t)floor(-reach / scale) + 1);
}

/* Where in the input output element `at` lies; false: outside the region of interest. */
static bool position(const braid_resize *resize, const braid_attrs *attrs, int axis, int64_t at, double *out) {
  double in = (double)resize->in[axis], scale = resize->scale[axis], x = (double)at;
  double width = scaled(resize->in[axis], scale);
  double half = (x + 0.5) / scale - 0.5, roi = resize->roi_end[axis] - resize->roi_start[axis];
  *out = half;
  if (transformation_is(attrs, "asymmetric")) *out = x / scale;
  if (transformation_is(attrs, "align_corners")) *out = width == 1 ? 0 : x * (in - 1) / (width - 1);
  if (transformation_is(attrs, "pytorch_half_pixel") && width == 1) *out = -0.5;
  if (transformation_is(attrs, "half_pixel_symmetric")) *out = in / 2 * (1 - (double)resize->out[axis] / width) + half;
  if (!transformation_is(attrs, "tf_crop_and_resize")) return true;
  *out = width == 1 ? roi * (in - 1) / 2 : x * roi * (in - 1) / (width - 1);
  *out += resize->roi_start[axis] * (in - 1);
  return *out >= 0 && *out <= in - 1;
}

/* Keys' kernel. */
static double cubic(double x, double a) {
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t clamped(double index, int64_t size) {
  return index < 0 ? 0 : index > (double)(size - 1) ? size - 1 : (int64_t)index;
}

static double nearest(const braid_attrs *attrs, double x) {
  const char *mode = braid_attr_string(attrs, "nearest_mode", "round_prefer_floor");
  if (strcmp(mode, "floor") == 0) return floor(x);
  if (strcmp(mode, "ceil") == 0) return ceil(x);
  return strcmp(mode, "round_prefer_ceil") == 0 ? floor(x + 0.5) : ceil(x - 0.5);
}

bool braid_resize_element(const braid_resize *resize, const braid_attrs *attrs, int axis, int64_t at, int64_t *indices,
                          double *weights) {
  double x, sum = 0, a = braid_attr_float(attrs, "cubic_coeff_a", -0.75);
  bool inside = position(resize, attrs, axis, at, &x), exclude = braid_attr_int(attrs, "exclude_outside", 0);
  int64_t taps = braid_resize_taps(resize, attrs, axis), size = resize->in[axis];
  if (mode_is(attrs, "nearest")) {
    indices[0] = clamped(nearest(attrs, x), size);
    weights[0] = 1;
    return inside;
  }
  double first = ceil(x) - (double)(taps / 2), scale = antialiases(attrs) ? fmin(resize->scale[axis], 1) : 1;
  for (int64_t i = 0; i < taps; i++) {
    double place = first + (double)i, distance = (place - x) * scale;
    weights[i] = mode_is(attrs, "cubic") ? cubic(distance, a) : fmax(0, 1 - fabs(distance));
    if (exclude && (place < 0 || place > (double)(size - 1))) weights[i] = 0;
    indices[i] = clamped(place, size);
    sum += weights[i];
  }
  for (int64_t i = 0; (exclude || antialiases(attrs)) && sum != 0 && i < taps; i++) weights[i] /= sum;
  return inside;
}
