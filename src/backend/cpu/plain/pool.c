/* Plain pools and their gradients, over one to three spatial dimensions, PLAIN or BHWC. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "base/checked.h"
#include "graph/geometry.h"

enum { SMALL = 256 };

typedef struct pool_state {
  braid_ref_float base;
  braid_window window;
  braid_ref_view view;
  int64_t p;        /* of LpPool */
  bool include_pad; /* AveragePool divides by what lies in the padding, too */
  bool places;      /* MaxPool: where the maxima are is wanted */
  bool small;       /* the places of maxima are uint8, and looked up */
  uint8_t coordinates[SMALL][BRAID_WINDOW_RANK];
  bool column_major; /* MaxPool's indices count along the first spatial dimension first */
} pool_state;

/* Indices count over the shape that the pooled one comes from; the result may be larger, then that lies in its corner.
 * Sizes are those of planes, and the number of planes. */
typedef struct unpool_state {
  braid_ref_float base;
  int64_t pooled, planes;
  int64_t source[BRAID_WINDOW_RANK], result[BRAID_WINDOW_RANK];
} unpool_state;

/* The part of one output's window that lies inside the input, as kernel places [first, last). */
typedef struct patch {
  int64_t origin[BRAID_WINDOW_RANK], first[BRAID_WINDOW_RANK], last[BRAID_WINDOW_RANK];
} patch;

static void output_place(const braid_window *window, int64_t o, int64_t *place) {
  place[2] = o % window->output[2];
  place[1] = o / window->output[2] % window->output[1];
  place[0] = o / window->output[2] / window->output[1];
}

/* Kernel places below this one lie before `limit`. */
static int64_t places_before(const braid_window *window, int i, int64_t origin, int64_t limit) {
  int64_t dilation = window->dilation[i], room = limit - origin;
  int64_t places = room > 0 ? room : 0;
  if (dilation > 1) places = (places + dilation - 1) / dilation;
  return places < window->kernel[i] ? places : window->kernel[i];
}

static patch patch_at(const braid_window *window, int64_t o) {
  patch p;
  int64_t place[BRAID_WINDOW_RANK];
  output_place(window, o, place);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    p.origin[i] = place[i] * window->stride[i] - window->begin[i];
    p.first[i] = places_before(window, i, p.origin[i], 0);
    p.last[i] = places_before(window, i, p.origin[i], window->input[i]);
  }
  return p;
}

#define FOR_EACH_PLACE(p)                                                                                              \
  for (int64_t kd = p.first[0]; kd < p.last[0]; kd++)                                                                  \
    for (int64_t kh = p.first[1]; kh < p.last[1]; kh++)                                                                \
      for (int64_t kw = p.first[2]; kw < p.last[2]; kw++)

static int64_t source_of(const braid_window *window, const patch *p, int64_t kd, int64_t kh, int64_t kw) {
  int64_t d = p->origin[0] + kd * window->dilation[0], h = p->origin[1] + kh * window->dilation[1];
  return (d * window->input[1] + h) * window->input[2] + p->origin[2] + kw * window->dilation[2];
}

static void split_place(const braid_window *window, int64_t k, int64_t *coordinates) {
  int64_t across = window->kernel[2], slab = across * window->kernel[1];
  coordinates[0] = k / slab;
  coordinates[1] = k / across % window->kernel[1];
  coordinates[2] = k % across;
}

/* The input under kernel place `k` of a window that begins at `origin`; -1 if that is padding. */
static int64_t source_at(const pool_state *state, const int64_t *origin, int64_t k) {
  const braid_window *window = &state->window;
  int64_t far[BRAID_WINDOW_RANK], at = 0;
  if (!state->small) split_place(window, k, far);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    int64_t source = origin[i] + (state->small ? state->coordinates[k][i] : far[i]) * window->dilation[i];
    if (source < 0 || source >= window->input[i]) return -1;
    at = at * window->input[i] + source;
  }
  return at;
}

/* What an average divides by; a window that is all padding has the average 0. */
static int64_t divisor_of(const pool_state *state, const patch *p) {
  const braid_window *window = &state->window;
  int64_t count = 1;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    count *= state->include_pad ? places_before(window, i, p->origin[i], window->input[i] + window->end[i])
                                : p->last[i] - p->first[i];
  return count > 0 ? count : 1;
}

/* Where index `index` lies in the result of MaxUnpool; -1: nowhere. */
static int64_t unpooled_place(const unpool_state *state, int64_t index) {
  const int64_t *source = state->source, *result = state->result;
  int64_t plane = source[0] * source[1] * source[2];
  if (index < 0 || index >= state->planes * plane) return -1;
  int64_t w = index % source[2], h = index / source[2] % source[1], d = index / source[2] / source[1] % source[0];
  if (d >= result[0] || h >= result[1] || w >= result[2]) return -1;
  return ((index / plane * result[0] + d) * result[1] + h) * result[2] + w;
}

/* Number of element `source` of a plane, counted as storage_order says. */
static int64_t index_in_plane(const pool_state *state, int64_t source) {
  if (!state->column_major) return source;
  const int64_t *size = state->window.input;
  int64_t w = source % size[2], h = source / size[2] % size[1], d = source / size[2] / size[1];
  return (w * size[1] + h) * size[0] + d;
}

/* Outputs Indices and Window of one pixel, from the places in its window. */
static void give_places(const pool_state *state, int64_t b, int64_t o, const int32_t *place, void *const *outputs) {
  int64_t outputs_per = braid_window_outputs(&state->window), plane = braid_window_inputs(&state->window);
  patch p = patch_at(&state->window, o);
  int64_t inner = state->view.inner, at = (b * outputs_per + o) * inner;
  for (int64_t i = 0; i < inner; i++) {
    if (outputs[1]) {
      int64_t source = source_at(state, p.origin, place[i]);
      ((int64_t *)outputs[1])[at + i] = (b * inner + i) * plane + (source < 0 ? 0 : index_in_plane(state, source));
    }
    if (outputs[2] && state->small) ((uint8_t *)outputs[2])[at + i] = (uint8_t)place[i];
    if (outputs[2] && !state->small) ((int32_t *)outputs[2])[at + i] = place[i];
  }
}

#define T float
#define NAME(stem) stem##_f32
#define MATH(function) function##f
#define LOWEST -INFINITY
#define IS_NAN(value) isnan(value)
#include "backend/cpu/plain/max_pool_template.h"
#include "backend/cpu/plain/pool_template.h"
#undef T
#undef NAME
#undef MATH
#define T double
#define NAME(stem) stem##_f64
#define MATH(function) function
#include "backend/cpu/plain/max_pool_template.h"
#include "backend/cpu/plain/pool_template.h"
#undef T
#undef NAME
#undef MATH
#undef LOWEST
#undef IS_NAN
#define IS_NAN(value) false
#define T int8_t
#define NAME(stem) stem##_i8
#define LOWEST INT8_MIN
#include "backend/cpu/plain/max_pool_template.h"
#undef T
#undef NAME
#undef LOWEST
#define T uint8_t
#define NAME(stem) stem##_u8
#define LOWEST 0
#include "backend/cpu/plain/max_pool_template.h"
#undef T
#undef NAME
#undef LOWEST
#undef IS_NAN

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool is_there(const braid_node_desc *node, size_t output) {
  return output < node->output_count && node->outputs[output].present;
}

static void read_options(const braid_node_desc *node, pool_state *state) {
  state->view = braid_ref_view_of(&node->inputs[0].desc);
  state->p = braid_attr_int(node->attrs, "p", 2);
  state->include_pad = braid_attr_int(node->attrs, "count_include_pad", 0) != 0;
  state->column_major = braid_attr_int(node->attrs, "storage_order", 0) != 0;
  state->small = braid_window_volume(&state->window) <= SMALL;
  for (int64_t k = 0; state->small && k < braid_window_volume(&state->window); k++) {
    int64_t coordinates[BRAID_WINDOW_RANK];
    split_place(&state->window, k, coordinates);
    for (int i = 0; i < BRAID_WINDOW_RANK; i++) state->coordinates[k][i] = (uint8_t)coordinates[i];
  }
}

static braid_status init_pool(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = braid_geometry_pool(node->attrs, &node->inputs[0].desc, &state->window);
  if (status == BRAID_OK) read_options(node, state);
  return status;
}

static braid_status init_max_pool(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = init_pool(node, self);
  if (status != BRAID_OK) return status;
  if (node->inputs[0].desc.dtype == BRAID_I8) state->base.compute = max_forward_i8;
  if (node->inputs[0].desc.dtype == BRAID_U8) state->base.compute = max_forward_u8;
  state->places = is_there(node, 1) || is_there(node, 2);
  size_t outputs = (size_t)braid_desc_count(&node->outputs[0].desc);
  if (state->places && !braid_mul_size(outputs, sizeof(int32_t), &state->base.scratch_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  return BRAID_OK;
}

static braid_status init_pool_grad(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = braid_geometry_pool_grad(node->attrs, &node->inputs[0].desc, &state->window);
  if (status == BRAID_OK) read_options(node, state);
  return status;
}

/* (dy, x, y) */
static braid_status init_lp_grad(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = braid_geometry_pool(node->attrs, &node->inputs[1].desc, &state->window);
  if (status == BRAID_OK) read_options(node, state);
  return status;
}

static braid_status init_global(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = braid_geometry_global(&node->inputs[0].desc, &state->window);
  if (status == BRAID_OK) read_options(node, state);
  return status;
}

/* The plane is that of the result, which has the forward input's shape. */
static braid_status init_global_grad(const braid_node_desc *node, void *self) {
  pool_state *state = self;
  braid_status status = braid_geometry_global(&node->outputs[0].desc, &state->window);
  if (status == BRAID_OK) read_options(node, state);
  return status;
}

static braid_status init_unpool_shapes(const braid_node_desc *node, const braid_desc *pooled, const braid_desc *result,
                                       unpool_state *state) {
  braid_window window;
  braid_status status = braid_geometry_unpool(node->attrs, pooled, &window);
  if (status != BRAID_OK) return status;
  state->pooled = braid_desc_count(pooled);
  state->planes = pooled->dims[0] * pooled->dims[1];
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    int dimension = i - BRAID_WINDOW_RANK + result->rank;
    state->source[i] = window.input[i];
    state->result[i] = dimension < 2 ? 1 : result->dims[dimension];
  }
  return BRAID_OK;
}

static braid_status init_unpool(const braid_node_desc *node, void *self) {
  return init_unpool_shapes(node, &node->inputs[0].desc, &node->outputs[0].desc, self);
}

static braid_status init_unpool_grad(const braid_node_desc *node, void *self) {
  return init_unpool_shapes(node, &node->outputs[0].desc, &node->inputs[0].desc, self);
}

static bool match_max(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  return dtype == BRAID_I8 || dtype == BRAID_U8 || braid_ref_match_float(node, why, why_bytes);
}

BRAID_REF_KERNEL(kMax, max_forward, pool_state, init_max_pool)
BRAID_REF_KERNEL(kAverage, average_forward, pool_state, init_pool)
BRAID_REF_KERNEL(kLp, lp_forward, pool_state, init_pool)
BRAID_REF_KERNEL(kGlobalMax, max_forward, pool_state, init_global)
BRAID_REF_KERNEL(kGlobalAverage, average_forward, pool_state, init_global)
BRAID_REF_KERNEL(kGlobalLp, lp_forward, pool_state, init_global)
BRAID_REF_KERNEL(kUnpool, unpool_forward, unpool_state, init_unpool)
BRAID_REF_KERNEL(kMaxGrad, max_backward, pool_state, init_pool_grad)
BRAID_REF_KERNEL(kAverageGrad, average_backward, pool_state, init_pool_grad)
BRAID_REF_KERNEL(kLpGrad, lp_backward, pool_state, init_lp_grad)
BRAID_REF_KERNEL(kGlobalMaxGrad, global_max_backward, pool_state, init_global_grad)
BRAID_REF_KERNEL(kGlobalAverageGrad, average_backward, pool_state, init_global_grad)
BRAID_REF_KERNEL(kGlobalLpGrad, lp_backward, pool_state, init_global_grad)
BRAID_REF_KERNEL(kUnpoolGrad, unpool_backward, unpool_state, init_unpool_grad)

#define KERNEL(op_name, kernel_name, matches, cpu)                                                                     \
  { .op = op_name, .name = kernel_name, .match = matches, .layouts = braid_ref_follow_layout, .implementation = &cpu }
/* Indices count over PLAIN tensors. */
#define KERNEL_PLAIN(op_name, kernel_name, cpu)                                                                        \
  { .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .implementation = &cpu }

static const braid_kernel kKernels[] = {
    KERNEL("MaxPool", "ref_max_pool", match_max, kMax),
    KERNEL("AveragePool", "ref_average_pool", braid_ref_match_float, kAverage),
    KERNEL("LpPool", "ref_lp_pool", braid_ref_match_float, kLp),
    KERNEL("GlobalMaxPool", "ref_global_max_pool", braid_ref_match_float, kGlobalMax),
    KERNEL("GlobalAveragePool", "ref_global_average_pool", braid_ref_match_float, kGlobalAverage),
    KERNEL("GlobalLpPool", "ref_global_lp_pool", braid_ref_match_float, kGlobalLp),
    KERNEL("MaxPoolGrad", "ref_max_pool_grad", braid_ref_match_float, kMaxGrad),
    KERNEL("AveragePoolGrad", "ref_average_pool_grad", braid_ref_match_float, kAverageGrad),
    KERNEL("LpPoolGrad", "ref_lp_pool_grad", braid_ref_match_float, kLpGrad),
    KERNEL("GlobalMaxPoolGrad", "ref_global_max_pool_grad", braid_ref_match_float, kGlobalMaxGrad),
    KERNEL("GlobalAveragePoolGrad", "ref_global_average_pool_grad", braid_ref_match_float, kGlobalAverageGrad),
    KERNEL("GlobalLpPoolGrad", "ref_global_lp_pool_grad", braid_ref_match_float, kGlobalLpGrad),
    KERNEL_PLAIN("MaxUnpool", "ref_max_unpool", kUnpool),
    KERNEL_PLAIN("MaxUnpoolGrad", "ref_max_unpool_grad", kUnpoolGrad),
};

extern const braid_cpu_table braid_cpu_plain_pool;
const braid_cpu_table braid_cpu_plain_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
