/* Resize: by the nearest as a table lookup for any type; interpolating as one pass per axis, in float (double for
 * double). The gradient goes through the same weights the other way. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/movement/map.h"
#include "base/try.h"
#include "graph/resize.h"
#include "tensor/half.h"

typedef struct axis_pass {
  int axis;
  int64_t taps;
  int64_t *indices; /* [out][taps] */
  double *weights;
  bool *inside;
} axis_pass;

typedef struct resize_state {
  const braid_allocator *allocator;
  braid_resize resize;
  braid_map *map; /* nearest; else NULL */
  axis_pass passes[BRAID_MAX_RANK];
  int pass_count;
  size_t room; /* bytes of one intermediate result */
  double extrapolation;
} resize_state;

static void destroy(const braid_allocator *allocator, void *opaque) {
  resize_state *state = opaque;
  if (!state) return;
  braid_map_destroy(allocator, state->map);
  for (int i = 0; i < state->pass_count; i++) {
    braid_free(allocator, state->passes[i].indices);
    braid_free(allocator, state->passes[i].weights);
    braid_free(allocator, state->passes[i].inside);
  }
  braid_free(allocator, state);
}

/* --- preparation -------------------------------------------------------------------------------------------------- */
static braid_status wrap_list(const braid_node_desc *node, size_t index, braid_tensor **out) {
  *out = NULL;
  if (index >= node->input_count || !node->inputs[index].present || !node->inputs[index].constant) return BRAID_OK;
  const braid_operand *operand = &node->inputs[index];
  return braid_tensor_wrap(NULL, &operand->desc, (void *)operand->constant, NULL, NULL, out);
}

static braid_status plan(const braid_node_desc *node, const braid_desc *x, braid_resize *resize) {
  braid_tensor *lists[3] = {NULL};
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < 3; i++) status = wrap_list(node, 1 + i, &lists[i]);
  const char *wrong = NULL;
  if (status == BRAID_OK) wrong = braid_resize_init(resize, node->attrs, x, lists[0], lists[1], lists[2]);
  for (size_t i = 0; i < 3; i++) braid_tensor_release(lists[i]);
  return wrong ? braid_fail(BRAID_INVALID_GRAPH, "%s", wrong) : status;
}

static braid_status add_pass(resize_state *state, const braid_node_desc *node, int axis) {
  axis_pass *pass = &state->passes[state->pass_count++];
  int64_t count = state->resize.out[axis];
  pass->axis = axis;
  pass->taps = braid_resize_taps(&state->resize, node->attrs, axis);
  size_t entries = (size_t)(count * pass->taps) + 1;
  pass->indices = braid_zalloc_array(state->allocator, entries, sizeof *pass->indices);
  pass->weights = braid_zalloc_array(state->allocator, entries, sizeof *pass->weights);
  pass->inside = braid_zalloc_array(state->allocator, (size_t)count + 1, sizeof *pass->inside);
  if (!pass->indices || !pass->weights || !pass->inside) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < count; i++)
    pass->inside[i] = braid_resize_element(&state->resize, node->attrs, axis, i, pass->indices + i * pass->taps,
                                           pass->weights + i * pass->taps);
  return BRAID_OK;
}

static braid_status make_map(resize_state *state, const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t strides[BRAID_MAX_RANK], index;
  double weight;
  braid_map *map;
  BRAID_TRY(braid_map_create(state->allocator, y->rank, y->dims, braid_dtype_size(y->dtype), &map));
  braid_map_strides(x->dims, x->rank, strides);
  for (int d = 0; d < y->rank; d++) {
    int64_t *table;
    braid_map_line(map, d, 0, strides[d]);
    if (braid_resize_keeps(&state->resize, node->attrs, d)) continue;
    BRAID_TRY(braid_map_table(state->allocator, map, d, &table));
    for (int64_t i = 0; i < y->dims[d]; i++) {
      bool inside = braid_resize_element(&state->resize, node->attrs, d, i, &index, &weight);
      table[i] = inside ? index * strides[d] : -1;
    }
  }
  state->map = map;
  return BRAID_OK;
}

static braid_status resize_prepare(resize_state *state, const braid_node_desc *node, braid_prepared_info *info) {
  bool gradient = strcmp(node->op, "ResizeGrad") == 0;
  bool nearest = strcmp(braid_attr_string(node->attrs, "mode", "nearest"), "nearest") == 0;
  const braid_desc *x = gradient ? &node->outputs[0].desc : &node->inputs[0].desc;
  BRAID_TRY(plan(node, x, &state->resize));
  state->extrapolation = braid_attr_float(node->attrs, "extrapolation_value", 0);
  if (nearest && !gradient) return make_map(state, node);
  int64_t most = 1;
  /* The last axis first: it gains nothing from vectors, and an image that grows is then still small. */
  for (int d = x->rank; d-- > 0;) {
    int64_t in = state->resize.in[d], out = state->resize.out[d];
    most *= in > out ? in : out;
    if (!braid_resize_keeps(&state->resize, node->attrs, d)) BRAID_TRY(add_pass(state, node, d));
  }
  size_t bytes = x->dtype == BRAID_F64 ? sizeof(double) : sizeof(float);
  state->room = ((size_t)most * bytes + 63) & ~(size_t)63;
  info->workspace_bytes = 2 * state->room;
  return BRAID_OK;
}

static braid_status resize_create(const braid_allocator *allocator, const braid_node_desc *node, void **out,
                                  braid_prepared_info *info) {
  *out = NULL;
  resize_state *state = braid_zalloc(allocator, sizeof *state);
  if (!state) return BRAID_NO_MEMORY;
  state->allocator = allocator;
  braid_status status = resize_prepare(state, node, info);
  if (status == BRAID_OK)
    *out = state;
  else
    destroy(allocator, state);
  return status;
}

/* --- passes ------------------------------------------------------------------------------------------------------- */
/* Along one axis of [outer][size][inner]: the forward pass makes `out` from `in`, the backward pass adds into `in`. */
#define DEFINE_PASSES(type)                                                                                            \
  /* The last axis: a row of the output at a time. */                                                                  \
  static void forward_rows_##type(const axis_pass *pass, int64_t outer, int64_t in, int64_t out, double extrapolation, \
                                  const type *from, type *to) {                                                        \
    _Pragma("omp parallel for schedule(static)") for (int64_t o = 0; o < outer; o++) {                                 \
      const type *source = from + o * in;                                                                              \
      const int64_t *indices = pass->indices;                                                                          \
      const double *weights = pass->weights;                                                                           \
      for (int64_t i = 0; i < out; i++, indices += pass->taps, weights += pass->taps) {                                \
        type sum = 0;                                                                                                  \
        for (int64_t t = 0; t < pass->taps; t++) sum += (type)weights[t] * source[indices[t]];                         \
        to[o * out + i] = pass->inside[i] ? sum : (type)extrapolation;                                                 \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void forward_##type(const axis_pass *pass, int64_t outer, int64_t in, int64_t out, int64_t inner,             \
                             double extrapolation, const type *from, type *to) {                                       \
    if (inner == 1) {                                                                                                  \
      forward_rows_##type(pass, outer, in, out, extrapolation, from, to);                                              \
      return;                                                                                                          \
    }                                                                                                                  \
    _Pragma("omp parallel for schedule(static)") for (int64_t r = 0; r < outer * out; r++) {                           \
      int64_t o = r / out, i = r % out;                                                                                \
      const int64_t *indices = pass->indices + i * pass->taps;                                                         \
      const double *weights = pass->weights + i * pass->taps;                                                          \
      type *row = to + r * inner;                                                                                      \
      for (int64_t k = 0; k < inner; k++) row[k] = pass->inside[i] ? 0 : (type)extrapolation;                          \
      for (int64_t t = 0; pass->inside[i] && t < pass->taps; t++) {                                                    \
        const type *source = from + (o * in + indices[t]) * inner;                                                     \
        type weight = (type)weights[t];                                                                                \
        for (int64_t k = 0; k < inner; k++) row[k] += weight * source[k];                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void backward_##type(const axis_pass *pass, int64_t outer, int64_t in, int64_t out, int64_t inner,            \
                              const type *from, type *to) {                                                            \
    _Pragma("omp parallel for schedule(static)") for (int64_t o = 0; o < outer; o++) {                                 \
      memset(to + o * in * inner, 0, (size_t)(in * inner) * sizeof(type));                                             \
      for (int64_t i = 0; i < out; i++)                                                                                \
        for (int64_t t = 0; pass->inside[i] && t < pass->taps; t++) {                                                  \
          type *target = to + (o * in + pass->indices[i * pass->taps + t]) * inner;                                    \
          const type *source = from + (o * out + i) * inner;                                                           \
          type weight = (type)pass->weights[i * pass->taps + t];                                                       \
          for (int64_t k = 0; k < inner; k++) target[k] += weight * source[k];                                         \
        }                                                                                                              \
    }                                                                                                                  \
  }
DEFINE_PASSES(float)
DEFINE_PASSES(double)
#undef DEFINE_PASSES

/* What passes work on: float of 16-bit types, other types themselves. */
static const char *load(const braid_desc *desc, const void *from, void *room) {
  if (desc->dtype == BRAID_F32 || desc->dtype == BRAID_F64) return from;
  int64_t count = braid_desc_count(desc);
  const uint16_t *half = from;
  for (int64_t i = 0; i < count; i++)
    ((float *)room)[i] = desc->dtype == BRAID_F16 ? braid_f16_to_f32(half[i]) : braid_bf16_to_f32(half[i]);
  return room;
}

static void store(const braid_desc *desc, const void *from, void *to) {
  if (from == to) return;
  int64_t count = braid_desc_count(desc);
  if (desc->dtype == BRAID_F32 || desc->dtype == BRAID_F64) {
    memcpy(to, from, braid_desc_bytes(desc));
    return;
  }
  uint16_t *half = to;
  for (int64_t i = 0; i < count; i++) {
    float value = ((const float *)from)[i];
    half[i] = desc->dtype == BRAID_F16 ? braid_f32_to_f16(value) : braid_f32_to_bf16(value);
  }
}

/* Where a pass puts its result: the last one at once into the output, if that has the type of the passes. */
static char *target(const resize_state *state, const braid_desc *y, int done, const braid_cpu_args *args) {
  bool last = done + 1 == state->pass_count, same = y->dtype == BRAID_F32 || y->dtype == BRAID_F64;
  return last && same ? args->outputs[0] : (char *)args->workspace + (done % 2 ? 0 : state->room);
}

static braid_status run_forward(const braid_node_desc *node, void *opaque, const braid_cpu_args *args) {
  const resize_state *state = opaque;
  const braid_desc *y = &node->outputs[0].desc;
  if (state->map) {
    uint64_t fill = 0;
    float extrapolation = (float)state->extrapolation;
    if (y->dtype == BRAID_F32) memcpy(&fill, &extrapolation, sizeof extrapolation);
    if (y->dtype == BRAID_F64) memcpy(&fill, &state->extrapolation, sizeof fill);
    if (y->dtype == BRAID_F16) fill = braid_f32_to_f16(extrapolation);
    if (y->dtype == BRAID_BF16) fill = braid_f32_to_bf16(extrapolation);
    braid_map_run(state->map, args->inputs[0], args->outputs[0], &fill);
    return BRAID_OK;
  }
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, node->inputs[0].desc.dims, sizeof dims);
  const char *from = load(&node->inputs[0].desc, args->inputs[0], args->workspace);
  for (int p = 0; p < state->pass_count; p++) {
    char *to = target(state, y, p, args);
    const axis_pass *pass = &state->passes[p];
    int64_t outer = 1, inner = 1, in = dims[pass->axis], out = state->resize.out[pass->axis];
    for (int d = 0; d < y->rank; d++) *(d < pass->axis ? &outer : &inner) *= d == pass->axis ? 1 : dims[d];
    if (y->dtype == BRAID_F64)
      forward_double(pass, outer, in, out, inner, state->extrapolation, (const double *)from, (double *)to);
    else
      forward_float(pass, outer, in, out, inner, state->extrapolation, (const float *)from, (float *)to);
    dims[pass->axis] = out;
    from = to;
  }
  store(y, from, args->outputs[0]);
  return BRAID_OK;
}

static braid_status run_backward(const braid_node_desc *node, void *opaque, const braid_cpu_args *args) {
  const resize_state *state = opaque;
  const braid_desc *dx = &node->outputs[0].desc;
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, node->inputs[0].desc.dims, sizeof dims);
  const char *from = load(&node->inputs[0].desc, args->inputs[0], args->workspace);
  for (int p = state->pass_count - 1; p >= 0; p--) {
    char *to = target(state, dx, state->pass_count - 1 - p, args);
    const axis_pass *pass = &state->passes[p];
    int64_t outer = 1, inner = 1, in = state->resize.in[pass->axis], out = dims[pass->axis];
    for (int d = 0; d < dx->rank; d++) *(d < pass->axis ? &outer : &inner) *= d == pass->axis ? 1 : dims[d];
    if (dx->dtype == BRAID_F64)
      backward_double(pass, outer, in, out, inner, (const double *)from, (double *)to);
    else
      backward_float(pass, outer, in, out, inner, (const float *)from, (float *)to);
    dims[pass->axis] = in;
    from = to;
  }
  store(dx, from, args->outputs[0]);
  return BRAID_OK;
}

static const braid_cpu_kernel kForward = {
    .create = resize_create, .run = run_forward, .destroy = destroy, .moves = true};
static const braid_cpu_kernel kBackward = {
    .create = resize_create, .run = run_backward, .destroy = destroy, .moves = true};
static const braid_kernel kKernels[] = {
    {.op = "Resize", .name = "ref_resize", .implementation = &kForward},
    {.op = "ResizeGrad", .name = "ref_resize_grad", .implementation = &kBackward},
};

extern const braid_cpu_table braid_cpu_movement_resize;
const braid_cpu_table braid_cpu_movement_resize = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
