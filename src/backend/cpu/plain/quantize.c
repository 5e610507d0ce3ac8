/* Plain kernels of quantized arithmetic. Products are exact in int32; results are rounded half to even and saturate. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/movement/map.h"
#include "base/checked.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "tensor/half.h"

static double real_at(const braid_operand *operand, const void *data, int64_t i) {
  switch (operand->desc.dtype) {
  case BRAID_F64:
    return ((const double *)data)[i];
  case BRAID_F16:
    return (double)braid_f16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_BF16:
    return (double)braid_bf16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_I32:
    return ((const int32_t *)data)[i];
  default:
    return (double)((const float *)data)[i];
  }
}

static int32_t integer_at(const braid_operand *operand, const void *data, int64_t i) {
  switch (operand->desc.dtype) {
  case BRAID_I8:
    return ((const int8_t *)data)[i];
  case BRAID_U8:
    return ((const uint8_t *)data)[i];
  case BRAID_I16:
    return ((const int16_t *)data)[i];
  case BRAID_U16:
    return ((const uint16_t *)data)[i];
  default:
    return ((const int32_t *)data)[i];
  }
}

static bool given(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

/* NaN becomes the lowest number. */
static int32_t saturated(float value, braid_dtype dtype) {
  float low = dtype == BRAID_I8 ? INT8_MIN : dtype == BRAID_I16 ? INT16_MIN : 0;
  float high = dtype == BRAID_I8    ? INT8_MAX
               : dtype == BRAID_U8  ? UINT8_MAX
               : dtype == BRAID_I16 ? INT16_MAX
                                    : UINT16_MAX;
  return (int32_t)(value > high ? high : value >= low ? value : low);
}

static void put_integer(void *to, int64_t i, int32_t value, braid_dtype dtype) {
  if (braid_dtype_size(dtype) == 1)
    ((uint8_t *)to)[i] = (uint8_t)value;
  else
    ((uint16_t *)to)[i] = (uint16_t)value;
}

/* --- to and from quantized numbers -------------------------------------------------------------------------------- */
/* Element i of x has scale number scale_index(i). */
typedef struct scaling {
  int64_t inner, size, block, scales_inner; /* scales_inner: scales of one step of the outer dimensions */
  bool single, blocked;
} scaling;

static scaling scaling_of(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc, *scale = &node->inputs[1].desc;
  scaling s = {.inner = 1, .size = 1, .block = braid_attr_int(node->attrs, "block_size", 0)};
  s.single = !s.block && braid_desc_count(scale) == 1;
  s.blocked = s.block > 0;
  if (s.single) return s;
  int64_t axis = braid_attr_int(node->attrs, "axis", 1);
  if (axis < 0) axis += x->rank;
  s.size = x->dims[axis];
  for (int64_t i = axis + 1; i < x->rank; i++) s.inner *= x->dims[i];
  if (s.blocked) s.scales_inner = scale->dims[axis] * s.inner;
  return s;
}

static int64_t scale_index(const scaling *s, int64_t i) {
  if (s->single) return 0;
  int64_t place = i / s->inner % s->size;
  if (!s->blocked) return place;
  return i / (s->inner * s->size) * s->scales_inner + place / s->block * s->inner + i % s->inner;
}

static braid_status run_quantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  scaling s = scaling_of(node);
  const braid_desc *y = &node->outputs[0].desc;
  int64_t count = braid_desc_count(y);
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++) {
    int64_t at = scale_index(&s, i);
    float scale = (float)real_at(&node->inputs[1], args->inputs[1], at);
    float zero = given(node, 2) ? (float)integer_at(&node->inputs[2], args->inputs[2], at) : 0;
    float value = rintf((float)real_at(&node->inputs[0], args->inputs[0], i) / scale) + zero;
    put_integer(args->outputs[0], i, saturated(value, y->dtype), y->dtype);
  }
  return BRAID_OK;
}

static braid_status run_dequantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  scaling s = scaling_of(node);
  const braid_desc *y = &node->outputs[0].desc;
  int64_t count = braid_desc_count(y);
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++) {
    int64_t at = scale_index(&s, i), zero = given(node, 2) ? integer_at(&node->inputs[2], args->inputs[2], at) : 0;
    int64_t number = integer_at(&node->inputs[0], args->inputs[0], i) - zero;
    double exact = (double)number * real_at(&node->inputs[1], args->inputs[1], at);
    if (y->dtype == BRAID_F32) ((float *)args->outputs[0])[i] = (float)exact;
    if (y->dtype == BRAID_F64) ((double *)args->outputs[0])[i] = exact;
    if (y->dtype == BRAID_F16) ((uint16_t *)args->outputs[0])[i] = braid_f32_to_f16((float)exact);
    if (y->dtype == BRAID_BF16) ((uint16_t *)args->outputs[0])[i] = braid_f32_to_bf16((float)exact);
  }
  return BRAID_OK;
}

static braid_status run_dynamic_quantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  const float *x = args->inputs[0];
  uint8_t *y = args->outputs[0];
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  float scale = (high - low) / 255;
  int32_t zero = scale > 0 ? saturated(rintf(-low / scale), BRAID_U8) : 0;
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++)
    y[i] = (uint8_t)(scale > 0 ? saturated(rintf(x[i] / scale) + (float)zero, BRAID_U8) : 0);
  *(float *)args->outputs[1] = scale;
  *(uint8_t *)args->outputs[2] = (uint8_t)zero;
  return BRAID_OK;
}

/* --- results of products ------------------------------------------------------------------------------------------ */
/* How an exact sum becomes an output element: as it is (int32), or scaled and quantized. */
typedef struct finish {
  const braid_node_desc *node;
  const braid_cpu_args *args;
  size_t left_scale, right_scale, y_scale; /* inputs; 0: none */
  bool left_list, right_list;              /* one scale per row, or per column */
} finish;

static void put_sum(const finish *f, int64_t at, int32_t sum, int64_t row, int64_t column) {
  const braid_node_desc *node = f->node;
  if (!f->y_scale) {
    ((int32_t *)f->args->outputs[0])[at] = sum;
    return;
  }
  const void *const *inputs = f->args->inputs;
  float left = (float)real_at(&node->inputs[f->left_scale], inputs[f->left_scale], f->left_list ? row : 0);
  float right = (float)real_at(&node->inputs[f->right_scale], inputs[f->right_scale], f->right_list ? column : 0);
  float scale = (float)real_at(&node->inputs[f->y_scale], inputs[f->y_scale], 0);
  size_t zero_at = f->y_scale + 1;
  float zero = (float)integer_at(&node->inputs[zero_at], inputs[zero_at], 0);
  braid_dtype dtype = node->outputs[0].desc.dtype;
  float value = (float)rint((double)sum * ((double)left * (double)right / (double)scale)) + zero;
  put_integer(f->args->outputs[0], at, saturated(value, dtype), dtype);
}

/* Which inputs an op has where. */
typedef struct places {
  size_t left, left_zero, right, right_zero, left_scale, right_scale, y_scale;
} places;

static places places_of(const braid_node_desc *node) {
  bool scaled = strncmp(node->op, "QLinear", 7) == 0;
  return scaled ? (places){0, 2, 3, 5, 1, 4, 6} : (places){0, 2, 1, 3, 0, 0, 0};
}

static bool is_list(const braid_node_desc *node, size_t index) {
  return given(node, index) && braid_desc_count(&node->inputs[index].desc) > 1;
}

static finish finish_of(const braid_node_desc *node, const braid_cpu_args *args, const places *at) {
  return (finish){node,
                  args,
                  at->left_scale,
                  at->right_scale,
                  at->y_scale,
                  at->y_scale && is_list(node, at->left_scale),
                  at->y_scale && is_list(node, at->right_scale)};
}

static int32_t zero_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index, int64_t i) {
  if (!given(node, index)) return 0;
  return integer_at(&node->inputs[index], args->inputs[index], is_list(node, index) ? i : 0);
}

/* --- matrix products ---------------------------------------------------------------------------------------------- */
typedef struct matmul_shape {
  int64_t rows, inner, columns, products;
} matmul_shape;

static matmul_shape shape_of(const braid_node_desc *node, const places *at) {
  const braid_desc *a = &node->inputs[at->left].desc, *b = &node->inputs[at->right].desc;
  matmul_shape s = {.rows = a->rank > 1 ? a->dims[a->rank - 2] : 1,
                    .inner = a->dims[a->rank - 1],
                    .columns = b->rank > 1 ? b->dims[b->rank - 1] : 1};
  int64_t each = s.rows * s.columns;
  s.products = each ? braid_desc_count(&node->outputs[0].desc) / each : 0;
  return s;
}

/* Which matrix of an operand product `index` uses: leading dimensions are broadcast. */
static int64_t matrix_of(const braid_desc *operand, const braid_node_desc *node, int64_t index, bool vector_a,
                         bool vector_b) {
  const braid_desc *y = &node->outputs[0].desc;
  int lead = y->rank - (vector_a ? 0 : 1) - (vector_b ? 0 : 1), own = operand->rank > 1 ? operand->rank - 2 : 0;
  int64_t matrix = 0, stride = 1;
  for (int i = lead - 1; i >= 0; i--) {
    int d = i - (lead - own);
    if (d >= 0) {
      matrix += index % y->dims[i] % operand->dims[d] * stride;
      stride *= operand->dims[d];
    }
    index /= y->dims[i];
  }
  return matrix;
}

static braid_status create_matmul(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  (void)allocator;
  places at = places_of(node);
  matmul_shape s = shape_of(node, &at);
  *state = NULL;
  size_t row, all;
  if (!braid_mul_size((size_t)s.columns, sizeof(int32_t), &row) ||
      !braid_mul_size(row, (size_t)(s.rows * s.products), &all))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  info->workspace_bytes = all + 64;
  return BRAID_OK;
}

/* Row by row: the row's sums, then their conversion. */
static braid_status run_matmul(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  places at = places_of(node);
  matmul_shape s = shape_of(node, &at);
  finish f = finish_of(node, args, &at);
  const braid_operand *a = &node->inputs[at.left], *b = &node->inputs[at.right];
  bool vector_a = a->desc.rank == 1, vector_b = b->desc.rank == 1;
#pragma omp parallel for schedule(static) if (s.products * s.rows * s.columns * s.inner > 1 << 14)
  for (int64_t task = 0; task < s.products * s.rows; task++) {
    int64_t product = task / s.rows, row = task % s.rows;
    int64_t a_at = (matrix_of(&a->desc, node, product, vector_a, vector_b) * s.rows + row) * s.inner;
    int64_t b_at = matrix_of(&b->desc, node, product, vector_a, vector_b) * s.inner * s.columns;
    int32_t *sums = (int32_t *)args->workspace + task * s.columns, zero = zero_of(node, args, at.left_zero, row);
    memset(sums, 0, (size_t)s.columns * sizeof *sums);
    for (int64_t k = 0; k < s.inner; k++) {
      int32_t left = integer_at(a, args->inputs[at.left], a_at + k) - zero;
      for (int64_t c = 0; left && c < s.columns; c++)
        sums[c] += left * (integer_at(b, args->inputs[at.right], b_at + k * s.columns + c) -
                           zero_of(node, args, at.right_zero, c));
    }
    for (int64_t c = 0; c < s.columns; c++) put_sum(&f, task * s.columns + c, sums[c], row, c);
  }
  return BRAID_OK;
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */
static braid_status create_conv(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  places at = places_of(node);
  braid_convolution *conv = braid_zalloc(allocator, sizeof *conv);
  *state = NULL;
  if (!conv) return BRAID_NO_MEMORY;
  braid_status status =
      braid_geometry_conv(node->attrs, &node->inputs[at.left].desc, &node->inputs[at.right].desc, conv);
  if (status == BRAID_OK)
    *state = conv;
  else
    braid_free(allocator, conv);
  return status;
}

/* One output element: padding stands for the zero point, that is, for nothing. */
static int32_t window_sum(const braid_convolution *conv, const braid_operand *x, const void *x_data,
                          const braid_operand *w, const void *w_data, int64_t x_at, int64_t w_at, const int64_t *origin,
                          int32_t x_zero, int32_t w_zero) {
  const braid_window *v = &conv->window;
  int64_t channels = conv->inputs / conv->groups, plane = braid_window_inputs(v);
  int32_t sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t z = 0; z < v->kernel[0]; z++)
      for (int64_t y = 0; y < v->kernel[1]; y++)
        for (int64_t k = 0; k < v->kernel[2]; k++, w_at++) {
          int64_t d = origin[0] + z * v->dilation[0], h = origin[1] + y * v->dilation[1];
          int64_t i = origin[2] + k * v->dilation[2];
          if (d < 0 || d >= v->input[0] || h < 0 || h >= v->input[1] || i < 0 || i >= v->input[2]) continue;
          int64_t from = x_at + c * plane + (d * v->input[1] + h) * v->input[2] + i;
          sum += (integer_at(x, x_data, from) - x_zero) * (integer_at(w, w_data, w_at) - w_zero);
        }
  return sum;
}

static braid_status run_conv(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_convolution *conv = state;
  const braid_window *v = &conv->window;
  places at = places_of(node);
  finish f = finish_of(node, args, &at);
  const int32_t *bias = at.y_scale && given(node, 8) ? args->inputs[8] : NULL;
  int64_t plane = braid_window_outputs(v), channels = conv->inputs / conv->groups, each = conv->outputs / conv->groups;
  int64_t filter = channels * braid_window_volume(v);
#pragma omp parallel for schedule(static) if (conv->batch * conv->outputs * plane * filter > 1 << 14)
  for (int64_t task = 0; task < conv->batch * conv->outputs; task++) {
    int64_t b = task / conv->outputs, m = task % conv->outputs;
    int64_t x_at = (b * conv->inputs + m / each * channels) * braid_window_inputs(v);
    int32_t x_zero = zero_of(node, args, at.left_zero, 0), w_zero = zero_of(node, args, at.right_zero, m);
    for (int64_t o = 0; o < plane; o++) {
      int64_t places_out[3] = {o / (v->output[1] * v->output[2]), o / v->output[2] % v->output[1], o % v->output[2]};
      int64_t origin[3];
      for (int i = 0; i < 3; i++) origin[i] = places_out[i] * v->stride[i] - v->begin[i];
      int32_t sum = window_sum(conv, &node->inputs[at.left], args->inputs[at.left], &node->inputs[at.right],
                               args->inputs[at.right], x_at, m * filter, origin, x_zero, w_zero);
      put_sum(&f, task * plane + o, bias ? (int32_t)((uint32_t)sum + (uint32_t)bias[m]) : sum, 0, m);
    }
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kQuantize = {.run = run_quantize};
static const braid_cpu_kernel kDequantize = {.run = run_dequantize};
static const braid_cpu_kernel kDynamic = {.run = run_dynamic_quantize};
static const braid_cpu_kernel kMatmul = {.create = create_matmul, .run = run_matmul};
static const braid_cpu_kernel kConv = {.create = create_conv, .run = run_conv};
static const braid_kernel kKernels[] = {
    {.op = "ConvInteger", .name = "ref_conv_integer", .implementation = &kConv},
    {.op = "DequantizeLinear", .name = "ref_dequantize", .implementation = &kDequantize},
    {.op = "DynamicQuantizeLinear", .name = "ref_dynamic_quantize", .implementation = &kDynamic},
    {.op = "MatMulInteger", .name = "ref_matmul_integer", .implementation = &kMatmul},
    {.op = "QLinearConv", .name = "ref_qlinear_conv", .implementation = &kConv},
    {.op = "QLinearMatMul", .name = "ref_qlinear_matmul", .implementation = &kMatmul},
    {.op = "QuantizeLinear", .name = "ref_quantize", .implementation = &kQuantize},
};

extern const braid_cpu_table braid_cpu_plain_quantize;
const braid_cpu_table braid_cpu_plain_quantize = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
