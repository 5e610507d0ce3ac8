/* Plain kernels over quantized numbers: products with exact sums, and the ops over bytes of
 * docs/quantization.md, whose formulas these are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/plain/quantize.h"
#include "backend/cpu/spans/activation.h"
#include "base/checked.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/ops/qlinear.h"

/* --- scales and zero points ----------------------------------------------------------------------------------------
 */
static bool is_list(const braid_node_desc *node, size_t index) {
  return braid_plain_given(node, index) && braid_desc_count(&node->inputs[index].desc) > 1;
}

/* Number i of a list of zero points, or the only one. */
static int32_t zero_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index, int64_t i) {
  if (!braid_plain_given(node, index)) return 0;
  return braid_plain_integer(&node->inputs[index], args->inputs[index], is_list(node, index) ? i : 0);
}

static float scale_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index, int64_t i) {
  return (float)braid_plain_real(&node->inputs[index], args->inputs[index], is_list(node, index) ? i : 0);
}

/* A byte stands for (byte - zero) * scale; results lie between low and high. */
typedef struct quantization {
  float scale;
  int32_t zero, low, high;
} quantization;

/* Of bytes of this type, whose scale is input `at`, with the zero point behind it. */
static quantization quantization_of(const braid_node_desc *node, const braid_cpu_args *args, braid_dtype dtype,
                                    size_t at) {
  bool is_signed = dtype == BRAID_I8;
  return (quantization){.scale = scale_of(node, args, at, 0),
                        .zero = zero_of(node, args, at + 1, 0),
                        .low = is_signed ? INT8_MIN : 0,
                        .high = is_signed ? INT8_MAX : UINT8_MAX};
}

/* The byte for `steps` times the scale; NaN becomes the lowest number. */
static int32_t nearest(const quantization *q, float steps) {
  float value = rintf(steps) + (float)q->zero, low = (float)q->low, high = (float)q->high;
  return (int32_t)(value > high ? high : value >= low ? value : low);
}

static int32_t nearest_bound(const quantization *q, float bound, int32_t otherwise) {
  float steps = bound / q->scale;
  return isnan(steps) ? otherwise : nearest(q, steps);
}

/* The result's, whose bounds Relu or Clip make narrower: rounding keeps the order of numbers. Of a Clip whose bounds
 * are the wrong way round the upper one counts. */
static quantization quantization_of_result(const braid_node_desc *node, const braid_cpu_args *args, size_t at) {
  quantization all = quantization_of(node, args, node->outputs[0].desc.dtype, at), y = all;
  const char *name = braid_attr_string(node->attrs, "activation", "");
  size_t count = 0;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &count);
  bool relu = strcmp(name, "Relu") == 0, clip = strcmp(name, "Clip") == 0;
  if (relu || (clip && count > 0)) y.low = nearest_bound(&all, relu ? 0 : params[0], all.low);
  if (clip && count > 1) y.high = nearest_bound(&all, params[1], all.high);
  if (y.low > y.high) y.low = y.high;
  return y;
}

/* --- results of products -------------------------------------------------------------------------------------------
 */
enum { kBias = 8, kResidual = 9, kBetween = 12 }; /* inputs of products with scales */

/* Which inputs an op has where; y_scale 0: results are the sums. */
typedef struct places {
  size_t left, left_zero, right, right_zero, left_scale, right_scale, y_scale;
} places;

static places places_of(const braid_node_desc *node) {
  return strstr(node->op, "QLinear") ? (places){0, 2, 3, 5, 1, 4, 6} : (places){0, 2, 1, 3, 0, 0, 0};
}

/* How an exact sum becomes an element of the result: as it is (int32), or scaled and quantized. */
typedef struct finish {
  const braid_node_desc *node;
  const braid_cpu_args *args;
  places at;
  const int32_t *bias; /* NULL: none */
  bool is_long;        /* sums may leave int32 */
  bool residual;
  quantization y, between, z; /* between: what a residual z is added to */
} finish;

/* Of sums of `length` products. */
static finish finish_of(const braid_node_desc *node, const braid_cpu_args *args, int64_t length) {
  finish f = {.node = node, .args = args, .at = places_of(node), .is_long = length > BRAID_QLINEAR_MOST_PRODUCTS};
  if (!f.at.y_scale) return f;
  f.y = quantization_of_result(node, args, f.at.y_scale);
  f.bias = braid_plain_given(node, kBias) ? args->inputs[kBias] : NULL;
  f.residual = braid_plain_given(node, kResidual);
  if (!f.residual) return f;
  braid_dtype dtype = braid_plain_given(node, kBetween + 1) ? node->inputs[kBetween + 1].desc.dtype : BRAID_U8;
  f.between = quantization_of(node, args, dtype, kBetween);
  f.z = quantization_of(node, args, node->inputs[kResidual].desc.dtype, kResidual + 1);
  return f;
}

/* Results in int32 wrap, and so does a sum that would fit without its bias. */
static void put_sum(const finish *f, int64_t at, int64_t sum, int64_t row, int64_t column) {
  const braid_node_desc *node = f->node;
  const braid_cpu_args *args = f->args;
  if (f->bias) sum += f->bias[column];
  if (!f->is_long || !f->at.y_scale) sum = (int32_t)(uint32_t)sum;
  if (!f->at.y_scale) {
    ((int32_t *)args->outputs[0])[at] = (int32_t)sum;
    return;
  }
  const quantization *first = f->residual ? &f->between : &f->y;
  float left = scale_of(node, args, f->at.left_scale, row), right = scale_of(node, args, f->at.right_scale, column);
  int32_t value = nearest(first, (float)sum * (left * right / first->scale));
  if (f->residual) {
    int32_t z = braid_plain_integer(&node->inputs[kResidual], args->inputs[kResidual], at);
    value = nearest(&f->y, (float)(value - f->between.zero) * (f->between.scale / f->y.scale) +
                               (float)(z - f->z.zero) * (f->z.scale / f->y.scale));
  }
  ((uint8_t *)args->outputs[0])[at] = (uint8_t)value;
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
typedef struct matmul_shape {
  int64_t rows, inner, columns, products;
  int64_t inner_step, column_step; /* of the right matrix */
} matmul_shape;

static matmul_shape shape_of(const braid_node_desc *node, const places *at) {
  const braid_desc *a = &node->inputs[at->left].desc, *b = &node->inputs[at->right].desc;
  bool transposed = braid_attr_int(node->attrs, "transB", 0) != 0; /* of FusedQLinearMatMul, whose b has rank 2 */
  matmul_shape s = {.rows = a->rank > 1 ? a->dims[a->rank - 2] : 1,
                    .inner = a->dims[a->rank - 1],
                    .columns = transposed    ? b->dims[0]
                               : b->rank > 1 ? b->dims[b->rank - 1]
                                             : 1};
  s.inner_step = transposed ? 1 : s.columns;
  s.column_step = transposed ? s.inner : 1;
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
  if (!braid_mul_size((size_t)s.columns, sizeof(int64_t), &row) ||
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
  finish f = finish_of(node, args, s.inner);
  const braid_operand *a = &node->inputs[at.left], *b = &node->inputs[at.right];
  bool vector_a = a->desc.rank == 1, vector_b = b->desc.rank == 1;
#pragma omp parallel for schedule(static) if (s.products * s.rows * s.columns * s.inner > 1 << 14)
  for (int64_t task = 0; task < s.products * s.rows; task++) {
    int64_t product = task / s.rows, row = task % s.rows;
    int64_t a_at = (matrix_of(&a->desc, node, product, vector_a, vector_b) * s.rows + row) * s.inner;
    int64_t b_at = matrix_of(&b->desc, node, product, vector_a, vector_b) * s.inner * s.columns;
    int64_t *sums = (int64_t *)args->workspace + task * s.columns;
    int32_t zero = zero_of(node, args, at.left_zero, row);
    memset(sums, 0, (size_t)s.columns * sizeof *sums);
    for (int64_t k = 0; k < s.inner; k++) {
      int32_t left = braid_plain_integer(a, args->inputs[at.left], a_at + k) - zero;
      for (int64_t c = 0; left && c < s.columns; c++) {
        int64_t from = b_at + k * s.inner_step + c * s.column_step;
        int32_t right = braid_plain_integer(b, args->inputs[at.right], from) - zero_of(node, args, at.right_zero, c);
        sums[c] += left * right;
      }
    }
    for (int64_t c = 0; c < s.columns; c++) put_sum(&f, task * s.columns + c, sums[c], row, c);
  }
  return BRAID_OK;
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
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
static int64_t window_sum(const braid_convolution *conv, const braid_operand *x, const void *x_data,
                          const braid_operand *w, const void *w_data, int64_t x_at, int64_t w_at, const int64_t *origin,
                          int32_t x_zero, int32_t w_zero) {
  const braid_window *v = &conv->window;
  int64_t channels = conv->inputs / conv->groups, plane = braid_window_inputs(v);
  int64_t sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t z = 0; z < v->kernel[0]; z++)
      for (int64_t y = 0; y < v->kernel[1]; y++)
        for (int64_t k = 0; k < v->kernel[2]; k++, w_at++) {
          int64_t d = origin[0] + z * v->dilation[0], h = origin[1] + y * v->dilation[1];
          int64_t i = origin[2] + k * v->dilation[2];
          if (d < 0 || d >= v->input[0] || h < 0 || h >= v->input[1] || i < 0 || i >= v->input[2]) continue;
          int64_t from = x_at + c * plane + (d * v->input[1] + h) * v->input[2] + i;
          sum += (braid_plain_integer(x, x_data, from) - x_zero) * (braid_plain_integer(w, w_data, w_at) - w_zero);
        }
  return sum;
}

static braid_status run_conv(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_convolution *conv = state;
  const braid_window *v = &conv->window;
  places at = places_of(node);
  int64_t plane = braid_window_outputs(v), channels = conv->inputs / conv->groups, each = conv->outputs / conv->groups;
  int64_t filter = channels * braid_window_volume(v);
  finish f = finish_of(node, args, filter);
#pragma omp parallel for schedule(static) if (conv->batch * conv->outputs * plane * filter > 1 << 14)
  for (int64_t task = 0; task < conv->batch * conv->outputs; task++) {
    int64_t b = task / conv->outputs, m = task % conv->outputs;
    int64_t x_at = (b * conv->inputs + m / each * channels) * braid_window_inputs(v);
    int32_t x_zero = zero_of(node, args, at.left_zero, 0), w_zero = zero_of(node, args, at.right_zero, m);
    for (int64_t o = 0; o < plane; o++) {
      int64_t places_out[3] = {o / (v->output[1] * v->output[2]), o / v->output[2] % v->output[1], o % v->output[2]};
      int64_t origin[3];
      for (int i = 0; i < 3; i++) origin[i] = places_out[i] * v->stride[i] - v->begin[i];
      int64_t sum = window_sum(conv, &node->inputs[at.left], args->inputs[at.left], &node->inputs[at.right],
                               args->inputs[at.right], x_at, m * filter, origin, x_zero, w_zero);
      put_sum(&f, task * plane + o, sum, 0, m);
    }
  }
  return BRAID_OK;
}

/* --- element by element --------------------------------------------------------------------------------------------
 */
/* (a - its zero) of QLinearAdd and QLinearMul; a second operand of one element stands beside each of the first. */
static int32_t centred(const braid_node_desc *node, const braid_cpu_args *args, size_t at, int64_t i) {
  int64_t from = braid_desc_count(&node->inputs[at].desc) == 1 ? 0 : i;
  return braid_plain_integer(&node->inputs[at], args->inputs[at], from) - zero_of(node, args, at + 2, 0);
}

static braid_status run_add(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  quantization y = quantization_of_result(node, args, 6);
  float a_scale = scale_of(node, args, 1, 0), b_scale = scale_of(node, args, 4, 0);
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++) {
    float a = (float)centred(node, args, 0, i), b = (float)centred(node, args, 3, i);
    ((uint8_t *)args->outputs[0])[i] = (uint8_t)nearest(&y, a * (a_scale / y.scale) + b * (b_scale / y.scale));
  }
  return BRAID_OK;
}

static braid_status run_multiply(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  quantization y = quantization_of_result(node, args, 6);
  float a_scale = scale_of(node, args, 1, 0), b_scale = scale_of(node, args, 4, 0);
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++) {
    float product = (float)(centred(node, args, 0, i) * centred(node, args, 3, i));
    ((uint8_t *)args->outputs[0])[i] = (uint8_t)nearest(&y, product * (a_scale * b_scale / y.scale));
  }
  return BRAID_OK;
}

/* What becomes of each byte: dequantized, activated, quantized. */
static void make_table(const quantization *x, bool is_signed, const quantization *y, const braid_activation *activation,
                       uint8_t table[256]) {
  float values[256];
  for (int i = 0; i < 256; i++) values[i] = (float)((is_signed ? (int8_t)i : i) - x->zero) * x->scale;
  if (activation->entry) braid_activation_run(activation, values, 256);
  for (int i = 0; i < 256; i++) table[i] = (uint8_t)nearest(y, values[i] / y->scale);
}

static bool match_activation(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_activation activation;
  if (braid_activation_read(node, &activation)) return true;
  snprintf(why, why_bytes, "activation %s", braid_attr_string(node->attrs, "activation", ""));
  return false;
}

static braid_status run_activation(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  braid_activation activation;
  uint8_t table[256];
  braid_dtype dtype = node->inputs[0].desc.dtype;
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  quantization x = quantization_of(node, args, dtype, 1);
  quantization y = quantization_of(node, args, node->outputs[0].desc.dtype, 3);
  (void)braid_activation_read(node, &activation); /* matched */
  make_table(&x, dtype == BRAID_I8, &y, &activation, table);
  for (int64_t i = 0; i < count; i++) ((uint8_t *)args->outputs[0])[i] = table[((const uint8_t *)args->inputs[0])[i]];
  return BRAID_OK;
}

/* Of each step of the outer dimensions the result has those of all parts, one behind the other. */
static braid_status run_concat(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *all = &node->outputs[0].desc;
  const braid_activation none = {.entry = NULL};
  quantization y = quantization_of(node, args, all->dtype, 0);
  int64_t axis = braid_attr_int(node->attrs, "axis", 0), inner = 1, begin = 0;
  if (axis < 0) axis += all->rank;
  for (int64_t i = axis + 1; i < all->rank; i++) inner *= all->dims[i];
  for (size_t part = 2; part < node->input_count; part += 3) {
    uint8_t table[256];
    const braid_desc *desc = &node->inputs[part].desc;
    const uint8_t *from = args->inputs[part];
    quantization x = quantization_of(node, args, desc->dtype, part + 1);
    int64_t run = desc->dims[axis] * inner, step = all->dims[axis] * inner, count = braid_desc_count(desc);
    make_table(&x, desc->dtype == BRAID_I8, &y, &none, table);
    for (int64_t i = 0; i < count; i++)
      ((uint8_t *)args->outputs[0])[i / run * step + begin + i % run] = table[from[i]];
    begin += run;
  }
  return BRAID_OK;
}

/* --- averages ------------------------------------------------------------------------------------------------------
 */
static braid_status create_pool(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc;
  braid_window *window = braid_zalloc(allocator, sizeof *window);
  *state = NULL;
  if (!window) return BRAID_NO_MEMORY;
  braid_status status =
      strstr(node->op, "Global") ? braid_geometry_global(x, window) : braid_geometry_pool(node->attrs, x, window);
  if (status == BRAID_OK)
    *state = window;
  else
    braid_free(allocator, window);
  return status;
}

/* The numbers under a window: their sum, how many, and how many places lie in the image or in its padding. */
typedef struct gathered {
  int64_t sum, inside, padded;
} gathered;

static gathered window_gather(const braid_window *v, const braid_operand *x, const void *data, int64_t image,
                              const int64_t *origin, int32_t zero) {
  gathered g = {.sum = 0};
  for (int64_t i = 0; i < braid_window_volume(v); i++) {
    int64_t tap[3] = {i / (v->kernel[1] * v->kernel[2]), i / v->kernel[2] % v->kernel[1], i % v->kernel[2]}, at = 0;
    bool inside = true, padded = true;
    for (int d = 0; d < 3; d++) {
      int64_t place = origin[d] + tap[d] * v->dilation[d];
      inside = inside && place >= 0 && place < v->input[d];
      padded = padded && place < v->input[d] + v->end[d];
      at = at * v->input[d] + place;
    }
    g.padded += padded;
    g.inside += inside;
    if (inside) g.sum += braid_plain_integer(x, data, image + at) - zero;
  }
  return g;
}

static braid_status run_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_window *v = state;
  const braid_operand *x = &node->inputs[0];
  int64_t plane = braid_window_outputs(v), planes = x->desc.dims[0] * x->desc.dims[1];
  bool padding = braid_attr_int(node->attrs, "count_include_pad", 0) != 0;
  quantization from = quantization_of(node, args, x->desc.dtype, 1);
  quantization y = quantization_of(node, args, node->outputs[0].desc.dtype, 3);
#pragma omp parallel for schedule(static) if (planes * plane * braid_window_volume(v) > 1 << 14)
  for (int64_t i = 0; i < planes * plane; i++) {
    int64_t o = i % plane,
            origin[3] = {o / (v->output[1] * v->output[2]), o / v->output[2] % v->output[1], o % v->output[2]};
    for (int d = 0; d < 3; d++) origin[d] = origin[d] * v->stride[d] - v->begin[d];
    gathered g = window_gather(v, x, args->inputs[0], i / plane * braid_window_inputs(v), origin, from.zero);
    int64_t count = padding ? g.padded : g.inside;
    float factor = from.scale / ((float)(count > 0 ? count : 1) * y.scale);
    ((uint8_t *)args->outputs[0])[i] = (uint8_t)nearest(&y, (float)g.sum * factor);
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kMatmul = {.create = create_matmul, .run = run_matmul};
static const braid_cpu_kernel kConv = {.create = create_conv, .run = run_conv};
static const braid_cpu_kernel kAdd = {.run = run_add};
static const braid_cpu_kernel kMultiply = {.run = run_multiply};
static const braid_cpu_kernel kActivation = {.run = run_activation};
static const braid_cpu_kernel kConcat = {.run = run_concat};
static const braid_cpu_kernel kPool = {.create = create_pool, .run = run_pool};
static const braid_kernel kKernels[] = {
    {.op = "ConvInteger", .name = "ref_conv_integer", .implementation = &kConv},
    {.op = "FusedQLinearConv", .name = "ref_fused_qlinear_conv", .implementation = &kConv},
    {.op = "FusedQLinearMatMul", .name = "ref_fused_qlinear_matmul", .implementation = &kMatmul},
    {.op = "MatMulInteger", .name = "ref_matmul_integer", .implementation = &kMatmul},
    {.op = "QLinearActivation",
     .name = "ref_qlinear_activation",
     .match = match_activation,
     .implementation = &kActivation},
    {.op = "QLinearAdd", .name = "ref_qlinear_add", .implementation = &kAdd},
    {.op = "QLinearAveragePool", .name = "ref_qlinear_average_pool", .implementation = &kPool},
    {.op = "QLinearConcat", .name = "ref_qlinear_concat", .implementation = &kConcat},
    {.op = "QLinearConv", .name = "ref_qlinear_conv", .implementation = &kConv},
    {.op = "QLinearGlobalAveragePool", .name = "ref_qlinear_global_average_pool", .implementation = &kPool},
    {.op = "QLinearMatMul", .name = "ref_qlinear_matmul", .implementation = &kMatmul},
    {.op = "QLinearMul", .name = "ref_qlinear_mul", .implementation = &kMultiply},
};

extern const braid_cpu_table braid_cpu_plain_qlinear;
const braid_cpu_table braid_cpu_plain_qlinear = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
