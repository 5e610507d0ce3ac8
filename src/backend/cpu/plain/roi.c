/* RoiAlign: averages, or the largest, of samples that lie at equal distances in the cells of a box. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"

typedef struct roi_state {
  braid_ref_float base;
  int64_t batch, channels, height, width, count, rows, columns, samples;
  double scale, shift;
  bool largest, whole; /* whole: no box is less than a pixel */
  size_t x_at;         /* index of the image among the inputs; boxes and their images' numbers follow */
} roi_state;

/* Samples of one cell along one axis: number i of `count` lies at start + (i + 0.5) * step. Only those from `first` to
 * before `end` can lie in the image: a box may be far larger than that. */
typedef struct roi_axis {
  double start, step, count;
  int64_t first, end;
} roi_axis;

/* A pixel and the next, and how much of a sample they are. */
typedef struct roi_pair {
  int64_t at[2];
  double weight[2];
} roi_pair;

static double between(double x, double low, double high) {
  return x > low ? (x < high ? x : high) : low; /* NaN: low */
}

static roi_axis cell_samples(const roi_state *s, double low, double high, int64_t cell, int64_t cells, int64_t size) {
  low = low * s->scale - s->shift;
  high = high * s->scale - s->shift;
  double extent = s->whole && !(high - low > 1) ? 1 : high - low, wide = extent / (double)cells;
  roi_axis axis = {.start = low + (double)cell * wide, .count = s->samples > 0 ? (double)s->samples : ceil(wide)};
  if (!(axis.count >= 1) || !isfinite(axis.start) || !isfinite(wide)) return axis; /* a box of no extent */
  axis.step = wide / axis.count;
  double first = (-1 - axis.start) / axis.step, end = ((double)size - axis.start) / axis.step;
  if (axis.step < 0) {
    double other = first;
    first = end;
    end = other;
  }
  if (axis.step == 0) first = 0, end = axis.count;
  axis.first = (int64_t)between(floor(first) - 1, 0, between(axis.count, 0, 0x1p40));
  axis.end = (int64_t)between(ceil(end) + 1, 0, between(axis.count, 0, 0x1p40));
  return axis;
}

/* False: outside of the image, where a sample is zero. */
static bool sample_pair(const roi_axis *axis, int64_t i, int64_t size, roi_pair *pair) {
  double at = axis->start + ((double)i + 0.5) * axis->step;
  if (!(at >= -1 && at <= (double)size)) return false;
  if (at < 0) at = 0;
  int64_t low = (int64_t)at;
  if (low >= size - 1) at = (double)(low = size - 1);
  pair->at[0] = low;
  pair->at[1] = low + 1 < size ? low + 1 : low;
  pair->weight[1] = at - (double)low;
  pair->weight[0] = 1 - pair->weight[1];
  return true;
}

#define T float
#define BRAID_REF_NAME(name) name##_f32
#include "backend/cpu/plain/roi_template.h"
#undef T
#undef BRAID_REF_NAME
#define T double
#define BRAID_REF_NAME(name) name##_f64
#include "backend/cpu/plain/roi_template.h"
#undef T
#undef BRAID_REF_NAME

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
static braid_status init_from(const braid_node_desc *node, size_t x_at, roi_state *s) {
  const braid_desc *x = &node->inputs[x_at].desc;
  bool half = strcmp(braid_attr_string(node->attrs, "coordinate_transformation_mode", "half_pixel"), "half_pixel") == 0;
  s->x_at = x_at;
  s->batch = x->dims[0];
  s->channels = x->dims[1];
  s->height = x->dims[2];
  s->width = x->dims[3];
  s->count = node->inputs[x_at + 1].desc.dims[0];
  s->rows = braid_attr_int(node->attrs, "output_height", 1);
  s->columns = braid_attr_int(node->attrs, "output_width", 1);
  s->samples = braid_attr_int(node->attrs, "sampling_ratio", 0);
  s->scale = braid_attr_float(node->attrs, "spatial_scale", 1);
  s->shift = half ? 0.5 : 0;
  s->whole = !half;
  s->largest = strcmp(braid_attr_string(node->attrs, "mode", "avg"), "max") == 0;
  return BRAID_OK;
}

static braid_status init_roi(const braid_node_desc *node, void *self) {
  return init_from(node, 0, self);
}

static braid_status init_roi_grad(const braid_node_desc *node, void *self) {
  return init_from(node, 1, self);
}

static braid_status run_roi(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const roi_state *s = state;
  const int64_t *images = args->inputs[s->x_at + 2];
  for (int64_t i = 0; i < s->count; i++)
    if (images[i] < 0 || images[i] >= s->batch)
      return braid_fail(BRAID_OUT_OF_RANGE, "box %lld is of image %lld, of %lld", (long long)i, (long long)images[i],
                        (long long)s->batch);
  return braid_ref_run(node, state, args);
}

static braid_status create_roi(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                               braid_prepared_info *info) {
  static const braid_ref_op op = {sizeof(roi_state), init_roi, roi_forward_f32, roi_forward_f64};
  return braid_ref_create(allocator, node, &op, state, info);
}

static braid_status create_roi_grad(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                    braid_prepared_info *info) {
  static const braid_ref_op op = {sizeof(roi_state), init_roi_grad, roi_backward_f32, roi_backward_f64};
  return braid_ref_create(allocator, node, &op, state, info);
}

static const braid_cpu_kernel kRoi = {.create = create_roi, .run = run_roi};
static const braid_cpu_kernel kRoiGrad = {.create = create_roi_grad, .run = run_roi};

static const braid_kernel kKernels[] = {
    {.op = "RoiAlign", .name = "ref_roi_align", .match = braid_ref_match_float, .implementation = &kRoi},
    {.op = "RoiAlignGrad", .name = "ref_roi_align_grad", .match = braid_ref_match_float, .implementation = &kRoiGrad},
};

extern const braid_cpu_table braid_cpu_plain_roi;
const braid_cpu_table braid_cpu_plain_roi = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
