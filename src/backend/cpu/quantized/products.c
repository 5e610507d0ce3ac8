/* Products of 8-bit integers: MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv.
 *
 * Both sides less their zero points are laid out as rows of 16-bit numbers along the inner dimension, so that a sum of
 * products of pairs is one instruction; sums are exact in 32 bits, as the reference's. A matrix product's rows are
 * those of the left matrix and the columns of the right one; a convolution's are its filters and, a strip at a time,
 * the patches under its window. Constant weights are laid out once: that is their packed form. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/quantized/bytes_isa.h"
#include "base/checked.h"
#include "base/fnv.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/ops/qlinear.h"
#include "tensor/dtype.h"

enum { kUnit = 32, kColumns = BRAID_BYTES_COLUMNS, kRows = BRAID_BYTES_ROWS }; /* inner is padded to kUnit */

/* Which inputs an op has where; 0: none. */
typedef struct places {
  size_t left, left_zero, right, right_zero, left_scale, right_scale, y_scale;
} places;

typedef struct integer_product {
  places at;
  bool convolves;
  braid_convolution conv;
  int64_t rows, inner, padded, columns; /* of a matrix product; of one group of one image of a convolution */
  int64_t pieces;                       /* groups x images */
  int64_t weight_rows;                  /* all rows of weights: filters, or columns of the right matrix */
  bool packed;                          /* weights come laid out; else they are in every run */
  void *zeros;                          /* of packed weights, a copy of the constant; NULL: none */
  int64_t lanes;                        /* threads that have patches of their own */
  size_t zero_bytes;
  size_t weights_at, left_at, factors_at, lane_at, lane_bytes; /* in the workspace */
} integer_product;

static places places_of(const braid_node_desc *node) {
  bool scaled = strncmp(node->op, "QLinear", 7) == 0;
  return scaled ? (places){0, 2, 3, 5, 1, 4, 6} : (places){0, 2, 1, 3, 0, 0, 0};
}

static bool given(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

static bool is_list(const braid_node_desc *node, size_t index) {
  return index && given(node, index) && braid_desc_count(&node->inputs[index].desc) > 1;
}

static bool product_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  places at = places_of(node);
  const braid_desc *left = &node->inputs[at.left].desc, *right = &node->inputs[at.right].desc;
  bool convolves = strstr(node->op, "Conv") != NULL;
  const char *reason = NULL;
  if (!braid_dtype_is_byte(left->dtype) || !braid_dtype_is_byte(right->dtype) ||
      (at.y_scale && !braid_dtype_is_byte(node->outputs[0].desc.dtype)))
    reason = "8-bit integers only";
  else if (!convolves && (left->rank < 2 || right->rank != 2))
    reason = "a right side that is no single matrix";
  else if (is_list(node, at.left_zero) || is_list(node, at.left_scale))
    reason = "scales or zero points of rows";
  else if (braid_desc_count(&node->outputs[0].desc) == 0 || braid_desc_count(left) == 0)
    reason = "an empty operand";
  else if (braid_desc_count(right) > right->dims[convolves ? 0 : 1] * BRAID_QLINEAR_MOST_PRODUCTS)
    reason = "sums that int32 may not hold";
  for (size_t i = 1; !reason && at.y_scale && i < 7; i++)
    if ((i == at.left_scale || i == at.right_scale || i == at.y_scale) && node->inputs[i].desc.dtype != BRAID_F32)
      reason = "float32 scales only";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

/* --- laying out ----------------------------------------------------------------------------------------------------
 */
/* Integer `i` of 8 bits. */
static inline int32_t byte_at(const void *data, bool is_signed, int64_t i) {
  return is_signed ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
}

static const void *input_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return given(node, index) ? args->inputs[index] : NULL;
}

/* A zero point; `data` NULL: there is none. */
static int32_t zero_at(const braid_node_desc *node, size_t index, const void *data, int64_t i) {
  if (!data) return 0;
  return byte_at(data, node->inputs[index].desc.dtype == BRAID_I8, is_list(node, index) ? i : 0);
}

/* One row: `count` numbers `step` apart, then zeros to `padded`. */
static void lay_row(const void *data, bool is_signed, int64_t from, int64_t step, int64_t count, int32_t zero,
                    int64_t padded, int16_t *row) {
  if (is_signed)
    for (int64_t k = 0; k < count; k++) row[k] = (int16_t)(((const int8_t *)data)[from + k * step] - zero);
  else
    for (int64_t k = 0; k < count; k++) row[k] = (int16_t)(((const uint8_t *)data)[from + k * step] - zero);
  memset(row + count, 0, (size_t)(padded - count) * sizeof *row);
}

/* Filters, or the columns of the right matrix. */
static void lay_weights(const integer_product *p, const braid_node_desc *node, const void *data, const void *zeros,
                        int16_t *to) {
  bool is_signed = node->inputs[p->at.right].desc.dtype == BRAID_I8;
#pragma omp parallel for schedule(static) if (p->weight_rows * p->inner > 1 << 14)
  for (int64_t r = 0; r < p->weight_rows; r++)
    lay_row(data, is_signed, p->convolves ? r * p->inner : r, p->convolves ? 1 : p->columns, p->inner,
            zero_at(node, p->at.right_zero, zeros, r), p->padded, to + r * p->padded);
}

/* The patch under the window at output `o` of one group's channels `x`; what lies outside counts as the zero point. */
static void lay_patch(const integer_product *p, const void *x, bool is_signed, int64_t from, int64_t o, int32_t zero,
                      int16_t *row) {
  const braid_window *v = &p->conv.window;
  int64_t plane = braid_window_inputs(v), channels = p->conv.inputs / p->conv.groups, k = 0;
  int64_t z0 = o / (v->output[1] * v->output[2]) * v->stride[0] - v->begin[0];
  int64_t y0 = o / v->output[2] % v->output[1] * v->stride[1] - v->begin[1];
  int64_t x0 = o % v->output[2] * v->stride[2] - v->begin[2];
  if (p->inner == channels) { /* a pointwise convolution: one place of each channel */
    bool inside = z0 >= 0 && z0 < v->input[0] && y0 >= 0 && y0 < v->input[1] && x0 >= 0 && x0 < v->input[2];
    int64_t place = (z0 * v->input[1] + y0) * v->input[2] + x0;
    lay_row(x, is_signed, from + place, plane, inside ? channels : 0, zero, p->padded, row);
    return;
  }
  for (int64_t c = 0; c < channels; c++, from += plane)
    for (int64_t z = z0, i = 0; i < v->kernel[0]; i++, z += v->dilation[0])
      for (int64_t y = y0, j = 0; j < v->kernel[1]; j++, y += v->dilation[1]) {
        bool outside = z < 0 || z >= v->input[0] || y < 0 || y >= v->input[1];
        int64_t line = from + (z * v->input[1] + y) * v->input[2];
        for (int64_t at = x0, l = 0; l < v->kernel[2]; l++, at += v->dilation[2])
          row[k++] = outside || at < 0 || at >= v->input[2] ? 0 : (int16_t)(byte_at(x, is_signed, line + at) - zero);
      }
  memset(row + k, 0, (size_t)(p->padded - k) * sizeof *row);
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
/* `count` sums of one row become output elements; the factor of element i is factors[i * step]. */
static void put_sums(const braid_node_desc *node, const braid_cpu_args *args, const places *at, const int32_t *sums,
                     int64_t count, const float *factors, int64_t step, int64_t to) {
  if (!at->y_scale) {
    memcpy((int32_t *)args->outputs[0] + to, sums, (size_t)count * sizeof *sums);
    return;
  }
  bool is_signed = node->outputs[0].desc.dtype == BRAID_I8;
  float zero = (float)zero_at(node, at->y_scale + 1, input_of(node, args, at->y_scale + 1), 0);
  float low = is_signed ? INT8_MIN : 0, high = is_signed ? INT8_MAX : UINT8_MAX;
  BRAID_ISA_CALL(braid_bytes_scale_sums, sums, count, factors, step, zero, low, high, (uint8_t *)args->outputs[0] + to);
}

/* left * right / y for each row of weights. */
static void make_factors(const integer_product *p, const braid_node_desc *node, const braid_cpu_args *args,
                         float *factors) {
  if (!p->at.y_scale) return;
  const float *left = args->inputs[p->at.left_scale], *right = args->inputs[p->at.right_scale];
  float y = *(const float *)args->inputs[p->at.y_scale];
  bool list = is_list(node, p->at.right_scale);
  for (int64_t r = 0; r < p->weight_rows; r++) factors[r] = left[0] * right[list ? r : 0] / y;
}

/* All `rows` of `a` against `columns` rows of `b`; element (r, c) of the result goes to `to` + r * row_step + c. */
static void run_strip(const integer_product *p, const braid_node_desc *node, const braid_cpu_args *args,
                      const int16_t *a, const int16_t *b, int64_t columns, const int32_t *bias, const float *factors,
                      int64_t to, int64_t row_step) {
  int32_t sums[kRows][kColumns];
  for (int64_t r = 0; r < p->rows; r += kRows) {
    int64_t some = p->rows - r < kRows ? p->rows - r : kRows;
    if (some == kRows)
      BRAID_ISA_CALL(braid_bytes_multiply_rows, a + r * p->padded, b, p->padded, columns, sums);
    else
      for (int64_t i = 0; i < some; i++)
        BRAID_ISA_CALL(braid_bytes_multiply_row, a + (r + i) * p->padded, b, p->padded, columns, sums[i]);
    for (int64_t i = 0; i < some; i++) {
      for (int64_t c = 0; bias && c < columns; c++)
        sums[i][c] = (int32_t)((uint32_t)sums[i][c] + (uint32_t)bias[r + i]);
      put_sums(node, args, &p->at, sums[i], columns, p->convolves ? factors + r + i : factors, p->convolves ? 0 : 1,
               to + (r + i) * row_step);
    }
  }
}

static void run_matmul(const integer_product *p, const braid_node_desc *node, const braid_cpu_args *args,
                       const int16_t *weights, const float *factors) {
  int16_t *left = (int16_t *)((char *)args->workspace + p->left_at);
  bool is_signed = node->inputs[p->at.left].desc.dtype == BRAID_I8;
  int32_t zero = zero_at(node, p->at.left_zero, input_of(node, args, p->at.left_zero), 0);
#pragma omp parallel if (p->rows * p->inner * p->columns > 1 << 16)
  {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < p->rows; r++)
      lay_row(args->inputs[p->at.left], is_signed, r * p->inner, 1, p->inner, zero, p->padded, left + r * p->padded);
#pragma omp for schedule(static)
    for (int64_t c = 0; c < p->columns; c += kColumns)
      run_strip(p, node, args, left, weights + c * p->padded, p->columns - c < kColumns ? p->columns - c : kColumns,
                NULL, factors + c, c, p->columns);
  }
}

static void run_conv(const integer_product *p, const braid_node_desc *node, const braid_cpu_args *args,
                     const int16_t *weights, const float *factors) {
  const braid_convolution *conv = &p->conv;
  const void *x = args->inputs[p->at.left];
  const int32_t *bias = p->at.y_scale && given(node, 8) ? args->inputs[8] : NULL;
  bool is_signed = node->inputs[p->at.left].desc.dtype == BRAID_I8;
  int32_t zero = zero_at(node, p->at.left_zero, input_of(node, args, p->at.left_zero), 0);
  int64_t strips = (p->columns + kColumns - 1) / kColumns, plane = braid_window_inputs(&conv->window);
#pragma omp parallel for schedule(static) if (p->lanes > 1)
  for (int64_t lane = 0; lane < p->lanes; lane++) {
    int16_t *patches = (int16_t *)((char *)args->workspace + p->lane_at + (size_t)lane * p->lane_bytes);
    for (int64_t task = lane; task < p->pieces * strips; task += p->lanes) {
      int64_t piece = task / strips, group = piece % conv->groups, first = task % strips * kColumns;
      int64_t columns = p->columns - first < kColumns ? p->columns - first : kColumns;
      for (int64_t c = 0; c < columns; c++)
        lay_patch(p, x, is_signed, piece * (conv->inputs / conv->groups) * plane, first + c, zero,
                  patches + c * p->padded);
      run_strip(p, node, args, weights + group * p->rows * p->padded, patches, columns,
                bias ? bias + group * p->rows : NULL, factors + group * p->rows, piece * p->rows * p->columns + first,
                p->columns);
    }
  }
}

/* Up to kColumns outputs of one line, of a filter that looks at one channel. */
static void sum_line(const integer_product *p, const void *x, bool is_signed, int64_t from, int64_t line, int64_t at,
                     int64_t count, int32_t zero, const int16_t *weights, int32_t *sums) {
  const braid_window *v = &p->conv.window;
  int64_t z = line / v->output[1] * v->stride[0] - v->begin[0], y0 = line % v->output[1] * v->stride[1] - v->begin[1];
  memset(sums, 0, (size_t)count * sizeof *sums);
  for (int64_t i = 0; i < v->kernel[0]; i++, z += v->dilation[0])
    for (int64_t j = 0, y = y0; j < v->kernel[1]; j++, y += v->dilation[1]) {
      if (z < 0 || z >= v->input[0] || y < 0 || y >= v->input[1]) continue;
      for (int64_t l = 0; l < v->kernel[2]; l++)
        BRAID_ISA_CALL(braid_bytes_add_line, x, is_signed, from + (z * v->input[1] + y) * v->input[2], v->input[2],
                       at * v->stride[2] - v->begin[2] + l * v->dilation[2], v->stride[2], count,
                       weights[(i * v->kernel[1] + j) * v->kernel[2] + l], zero, sums);
    }
}

/* Filters that look at one channel each gain nothing from patches: their sums are made line by line. */
static void run_depthwise(const integer_product *p, const braid_node_desc *node, const braid_cpu_args *args,
                          const int16_t *weights, const float *factors) {
  const braid_window *v = &p->conv.window;
  const int32_t *bias = p->at.y_scale && given(node, 8) ? args->inputs[8] : NULL;
  bool is_signed = node->inputs[p->at.left].desc.dtype == BRAID_I8;
  int32_t zero = zero_at(node, p->at.left_zero, input_of(node, args, p->at.left_zero), 0);
  int64_t lines = v->output[0] * v->output[1], plane = braid_window_inputs(v);
#pragma omp parallel for schedule(static) if (p->pieces * p->rows * p->inner * p->columns > 1 << 16)
  for (int64_t task = 0; task < p->pieces * p->rows; task++) {
    int64_t piece = task / p->rows, filter = piece % p->conv.groups * p->rows + task % p->rows;
    for (int64_t line = 0; line < lines; line++)
      for (int64_t at = 0; at < v->output[2]; at += kColumns) {
        int32_t sums[kColumns];
        int64_t count = v->output[2] - at < kColumns ? v->output[2] - at : kColumns;
        sum_line(p, args->inputs[p->at.left], is_signed, piece * plane, line, at, count, zero,
                 weights + filter * p->padded, sums);
        for (int64_t i = 0; bias && i < count; i++) sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)bias[filter]);
        put_sums(node, args, &p->at, sums, count, factors + filter, 0, task * p->columns + line * v->output[2] + at);
      }
  }
}

static braid_status product_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_product *p = state;
  const int16_t *weights = p->packed ? args->inputs[p->at.right] : NULL;
  float *factors = (float *)((char *)args->workspace + p->factors_at);
  if (!weights) {
    int16_t *rows = (int16_t *)((char *)args->workspace + p->weights_at);
    lay_weights(p, node, args->inputs[p->at.right], input_of(node, args, p->at.right_zero), rows);
    weights = rows;
  }
  make_factors(p, node, args, factors);
  bool depthwise = p->convolves && p->conv.inputs == p->conv.groups;
  (depthwise ? run_depthwise : p->convolves ? run_conv : run_matmul)(p, node, args, weights, factors);
  return BRAID_OK;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
/* Room for rows x columns elements at the end of the workspace. */
static size_t place(braid_prepared_info *info, int64_t rows, int64_t columns, size_t unit, bool *fits) {
  size_t at = info->workspace_bytes, bytes = 0;
  *fits = *fits && braid_mul_size((size_t)rows, (size_t)columns, &bytes) && braid_mul_size(bytes, unit, &bytes) &&
          braid_add_size(bytes, 63, &bytes) && braid_add_size(at, bytes & ~(size_t)63, &info->workspace_bytes);
  return at;
}

static braid_status read_shape(integer_product *p, const braid_node_desc *node) {
  const braid_desc *left = &node->inputs[p->at.left].desc, *right = &node->inputs[p->at.right].desc;
  if (p->convolves) {
    BRAID_TRY(braid_geometry_conv(node->attrs, left, right, &p->conv));
    p->rows = p->conv.outputs / p->conv.groups;
    p->inner = p->conv.inputs / p->conv.groups * braid_window_volume(&p->conv.window);
    p->columns = braid_window_outputs(&p->conv.window);
    p->pieces = p->conv.batch * p->conv.groups;
    p->weight_rows = p->conv.outputs;
  } else {
    p->inner = right->dims[0];
    p->columns = p->weight_rows = right->dims[1];
    p->rows = p->inner ? braid_desc_count(left) / p->inner : 0;
    p->pieces = 1;
  }
  p->padded = (p->inner + kUnit - 1) / kUnit * kUnit;
  return BRAID_OK;
}

static braid_status product_prepare(const braid_allocator *allocator, integer_product *p, const braid_node_desc *node,
                                    braid_prepared_info *info) {
  BRAID_TRY(read_shape(p, node));
  bool fits = true;
  const void *zeros = given(node, p->at.right_zero) ? node->inputs[p->at.right_zero].constant : NULL;
  p->packed = node->inputs[p->at.right].constant && (zeros || !given(node, p->at.right_zero));
  p->factors_at = place(info, p->weight_rows, 1, sizeof(float), &fits);
  if (!p->packed) p->weights_at = place(info, p->weight_rows, p->padded, sizeof(int16_t), &fits);
  if (!p->convolves) p->left_at = place(info, p->rows, p->padded, sizeof(int16_t), &fits);
  if (p->convolves) {
    int64_t tasks = p->pieces * ((p->columns + kColumns - 1) / kColumns), threads = omp_get_max_threads();
    p->lanes = tasks < threads ? tasks : threads;
    p->lane_at = info->workspace_bytes;
    for (int64_t lane = 0; lane < p->lanes; lane++) place(info, kColumns, p->padded, sizeof(int16_t), &fits);
    p->lane_bytes = (info->workspace_bytes - p->lane_at) / (size_t)p->lanes;
  }
  if (!fits) return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  size_t unused;
  if (p->packed && !braid_mul_size((size_t)p->weight_rows * sizeof(int16_t), (size_t)p->padded, &unused))
    return braid_fail(BRAID_OUT_OF_RANGE, "its weights overflow");
  if (!p->packed || !zeros) return BRAID_OK;
  size_t bytes = braid_desc_bytes(&node->inputs[p->at.right_zero].desc);
  p->zeros = braid_alloc(allocator, bytes);
  if (!p->zeros) return BRAID_NO_MEMORY;
  memcpy(p->zeros, zeros, bytes);
  p->zero_bytes = bytes;
  return BRAID_OK;
}

static void list_packings(const void *state, braid_query *query) {
  const integer_product *p = state;
  if (!p->packed) return;
  const int64_t shape[] = {p->convolves, p->weight_rows, p->inner, p->padded, (int64_t)p->zero_bytes};
  uint64_t key = braid_fnv_mix(BRAID_FNV_START, shape, sizeof shape);
  key = braid_fnv_mix(key, p->zeros, p->zero_bytes);
  query->packings[query->packing_count++] =
      (braid_packing){(uint32_t)p->at.right, (size_t)p->weight_rows * (size_t)p->padded * sizeof(int16_t), key};
}

static braid_status product_pack(const braid_node_desc *node, void *state, uint32_t input, const void *plain,
                                 void *packed) {
  const integer_product *p = state;
  (void)input;
  lay_weights(p, node, plain, p->zeros, packed);
  return BRAID_OK;
}

static void destroy(const braid_allocator *allocator, void *state) {
  integer_product *p = state;
  if (p) braid_free(allocator, p->zeros);
  braid_free(allocator, p);
}

static braid_status product_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  *state = NULL;
  integer_product *p = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  p->at = places_of(node);
  p->convolves = strstr(node->op, "Conv") != NULL;
  braid_status status = product_prepare(allocator, p, node, info);
  if (status == BRAID_OK)
    *state = p;
  else
    destroy(allocator, p);
  return status;
}

static const braid_cpu_kernel kProduct = {.create = product_create,
                                          .run = product_run,
                                          .destroy = destroy,
                                          .list_packings = list_packings,
                                          .pack = product_pack};
static const braid_kernel kKernels[] = {
    {.op = "ConvInteger", .name = "pairs_conv_integer", .match = product_match, .implementation = &kProduct},
    {.op = "MatMulInteger", .name = "pairs_matmul_integer", .match = product_match, .implementation = &kProduct},
    {.op = "QLinearConv", .name = "pairs_qlinear_conv", .match = product_match, .implementation = &kProduct},
    {.op = "QLinearMatMul", .name = "pairs_qlinear_matmul", .match = product_match, .implementation = &kProduct},
};

extern const braid_cpu_table braid_cpu_quantized_products;
const braid_cpu_table braid_cpu_quantized_products = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
