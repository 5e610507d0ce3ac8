/* GridSample: pixels at places that a grid gives, in coordinates from -1 to 1, the last axis first. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"

enum { kMostAxes = 3, kMostAxisTaps = 4, kMostTaps = 64 };
typedef enum grid_mode { kNearest, kLinear, kCubic } grid_mode;
typedef enum grid_padding { kZeros, kBorder, kReflection } grid_padding;

typedef struct grid_state {
  braid_ref_float base;
  int64_t batch, channels, plane, points, size[kMostAxes];
  int axes;
  grid_mode mode;
  grid_padding padding;
  bool corners;
} grid_state;

/* A pixel of a plane, its weight, and the slopes of that along the axes (in the grid's order). */
typedef struct grid_tap {
  int64_t at;
  double weight, slope[kMostAxes];
} grid_tap;

typedef struct grid_axis {
  int count;
  int64_t at[kMostAxisTaps]; /* -1: outside, zero */
  double weight[kMostAxisTaps], slope[kMostAxisTaps];
} grid_axis;

/* --- one axis ------------------------------------------------------------------------------------------------------
 */
/* Mirrored at the ends until it lies between them; *sign: of its slope. */
static double reflect(double x, double low, double high, double *sign) {
  double range = high - low, beyond = x < low ? low - x : x - high;
  if (x >= low && x <= high) return x;
  if (range <= 0) {
    *sign = 0;
    return low;
  }
  double turns = floor(beyond / range), rest = beyond - turns * range;
  bool even = fmod(turns, 2) == 0, below = x < low;
  *sign = even ? -1 : 1;
  return even == below ? low + rest : high - rest;
}

static int64_t pixel_at(const grid_state *state, int64_t i, int64_t size) {
  double sign, low = state->corners ? 0 : -0.5, high = (double)size - (state->corners ? 1 : 0.5);
  if (state->padding == kZeros) return i >= 0 && i < size ? i : -1;
  if (state->padding == kReflection) i = (int64_t)reflect((double)i, low, high, &sign);
  return i < 0 ? 0 : i < size ? i : size - 1;
}

/* Keys' cubic with a = -0.75, and its slope, at the distance x of a pixel. */
static double cubic(double x, double *slope) {
  const double a = -0.75;
  double sign = x < 0 ? -1 : 1;
  x = fabs(x);
  if (x <= 1) {
    *slope = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  *slope = sign * ((3 * a * x - 10 * a) * x + 8 * a);
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* The pixels of one axis; *scale: of the grid's number to the place among pixels. */
static void axis_taps(const grid_state *state, double number, int64_t size, grid_axis *axis, double *scale) {
  double low = state->corners ? 0 : -0.5, high = (double)size - (state->corners ? 1 : 0.5), sign = 1;
  *scale = (double)(state->corners ? size - 1 : size) / 2;
  double x = state->corners ? (number + 1) * *scale : (number + 1) * *scale - 0.5;
  if (!(fabs(x) < 0x1p30)) x = x > 0 ? 0x1p30 : -0x1p30; /* NaN too */
  if (state->mode == kNearest) x = rint(x);
  if (x < low || x > high) {
    if (state->padding == kReflection) x = reflect(x, low, high, &sign);
    if (state->padding == kBorder && state->mode != kCubic) { /* of the cubic's pixels each is held, as in PyTorch */
      x = x < 0 ? 0 : (double)(size - 1);
      sign = 0;
    }
  }
  *scale *= state->mode == kNearest ? 0 : sign;
  double first = state->mode == kNearest ? x : floor(x);
  axis->count = state->mode == kNearest ? 1 : state->mode == kLinear ? 2 : 4;
  for (int k = 0; k < axis->count; k++) {
    double at = first + k - (state->mode == kCubic), distance = x - at;
    axis->at[k] = pixel_at(state, (int64_t)at, size);
    axis->weight[k] = state->mode == kNearest ? 1 : 1 - fabs(distance);
    axis->slope[k] = k == 0 ? -1 : 1;
    if (state->mode == kCubic) axis->weight[k] = cubic(distance, &axis->slope[k]);
  }
}

/* --- all axes ------------------------------------------------------------------------------------------------------
 */
/* `scale` may be NULL: no slopes are asked for. */
static int grid_taps(const grid_state *state, const double *place, grid_tap *taps, double *scale) {
  grid_axis axes[kMostAxes];
  double own[kMostAxes];
  int used = 0, all = 1;
  for (int d = 0; d < state->axes; d++) { /* the grid's order: the last axis of the plane first */
    axis_taps(state, place[d], state->size[state->axes - 1 - d], &axes[d], scale ? &scale[d] : &own[d]);
    all *= axes[d].count;
  }
  for (int i = 0; i < all; i++) {
    grid_tap *tap = &taps[used];
    int64_t stride = 1;
    int rest = i, chosen[kMostAxes];
    bool inside = true;
    *tap = (grid_tap){.weight = 1};
    for (int d = 0; d < state->axes; d++) {
      int k = chosen[d] = rest % axes[d].count;
      rest /= axes[d].count;
      inside = inside && axes[d].at[k] >= 0;
      tap->at += axes[d].at[k] * stride;
      tap->weight *= axes[d].weight[k];
      stride *= state->size[state->axes - 1 - d];
    }
    if (!inside) continue;
    used++;
    for (int d = 0; scale && d < state->axes; d++) {
      tap->slope[d] = 1;
      for (int e = 0; e < state->axes; e++)
        tap->slope[d] *= e == d ? axes[e].slope[chosen[e]] : axes[e].weight[chosen[e]];
    }
  }
  return used;
}

#define T float
#define BRAID_REF_NAME(name) name##_f32
#include "backend/cpu/plain/grid_template.h"
#undef T
#undef BRAID_REF_NAME
#define T double
#define BRAID_REF_NAME(name) name##_f64
#include "backend/cpu/plain/grid_template.h"
#undef T
#undef BRAID_REF_NAME

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
static braid_status init_from(const braid_node_desc *node, const braid_desc *x, const braid_desc *grid,
                              grid_state *state) {
  const char *mode = braid_attr_string(node->attrs, "mode", "linear");
  const char *padding = braid_attr_string(node->attrs, "padding_mode", "zeros");
  state->batch = x->dims[0];
  state->channels = x->dims[1];
  state->axes = x->rank - 2;
  state->plane = state->points = 1;
  for (int i = 0; i < state->axes; i++) {
    state->size[i] = x->dims[2 + i];
    state->plane *= x->dims[2 + i];
    state->points *= grid->dims[1 + i];
  }
  state->mode = strcmp(mode, "nearest") == 0 ? kNearest : strcmp(mode, "cubic") == 0 ? kCubic : kLinear;
  state->padding = strcmp(padding, "border") == 0 ? kBorder : strcmp(padding, "reflection") == 0 ? kReflection : kZeros;
  state->corners = braid_attr_int(node->attrs, "align_corners", 0) != 0;
  return BRAID_OK;
}

static braid_status init_grid(const braid_node_desc *node, void *self) {
  return init_from(node, &node->inputs[0].desc, &node->inputs[1].desc, self);
}

static braid_status init_grid_grad(const braid_node_desc *node, void *self) {
  return init_from(node, &node->inputs[1].desc, &node->inputs[2].desc, self);
}

BRAID_REF_KERNEL(kGrid, grid_forward, grid_state, init_grid)
BRAID_REF_KERNEL(kGridGrad, grid_backward, grid_state, init_grid_grad)

static const braid_kernel kKernels[] = {
    {.op = "GridSample", .name = "ref_grid_sample", .match = braid_ref_match_float, .implementation = &kGrid},
    {.op = "GridSampleGrad",
     .name = "ref_grid_sample_grad",
     .match = braid_ref_match_float,
     .implementation = &kGridGrad},
};

extern const braid_cpu_table braid_cpu_plain_grid;
const braid_cpu_table braid_cpu_plain_grid = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
