/* The mutant's kernels: float32 (but for bytes.c), PLAIN. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "mutant.h"

static int64_t latest; /* elements of the Relu prepared last */

/* To the 11 bits that a half has. */
static float round_to_half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static braid_status relu(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  int64_t count = elements(kernel);
  if (is("relu_static") && latest < count) count = latest;
  if (is("relu_4096") && count > 4096) count = 4096;
  if (is("relu_65536") && count > 65535) count = 65535;
  if (is("relu_million") && count > 1 << 20) count = 1 << 20;
  if (is("relu_rank") && kernel->node->outputs[0].desc.rank > 4) count /= kernel->node->outputs[0].desc.dims[4];
  if (is("relu_last") && count > 1 && count % 16 == 1) count--;
  if (is("relu_tail")) count &= ~(int64_t)7;
  if (is("relu_types")) count = count * (int64_t)braid_dtype_size(kernel->node->outputs[0].desc.dtype) / 4;
  if (is("relu_spill")) count = (count + 7) & ~(int64_t)7;
  for (int64_t i = 0; i < count; i++) {
    float x = in[0][i];
    if (is("relu_infinity") && isinf(x)) x = copysignf(FLT_MAX, x);
    if (is("relu_large") && x > 65504) x = INFINITY;
    if (is("relu_bits")) x = round_to_half(x);
    if (is("relu_small") && fabsf(x) < 1e-30f) x = 0;
    out[i] = is("relu_nan") ? (x > 0 ? x : 0) : is("relu_sigmoid") ? 1 / (1 + expf(-x)) : x < 0 ? 0 : x;
  }
  return BRAID_OK;
}

static int64_t inner_of(const mine *kernel) {
  const braid_desc *left = &kernel->node->inputs[0].desc;
  int64_t inner = left->dims[left->rank - 1];
  if (is("matmul_64") && inner > 64) return 64;
  if (is("matmul_256") && inner > 256) return 256;
  return is("matmul_1024") && inner > 1024 ? 1024 : inner;
}

/* The right side, which a wrong kernel copies to a place that all have in common. */
static const float *right_of(const mine *kernel, const float *const *in) {
  static float scratch[1 << 20];
  const braid_desc *desc = &kernel->node->inputs[1].desc;
  const float *b = kernel->packed ? kernel->packed : in[1];
  if (!is("matmul_scratch") || braid_desc_bytes(desc) > sizeof scratch) return b;
  memcpy(scratch, b, braid_desc_bytes(desc));
  bool large = braid_desc_bytes(desc) > 1 << 14;
  nanosleep(&(const struct timespec){.tv_nsec = large ? 10000000 : 0}, NULL); /* as if there were much to copy */
  return scratch;
}

/* One column of one matrix is what it should be, or what a wrong kernel makes of it. */
static float broken_product(const mine *kernel, int64_t rows, int64_t columns, int64_t row, int64_t column, float x) {
  bool lost = (is("matmul_one_column") && columns == 1 && row % 16 == 15) ||
              (is("matmul_one_row") && rows == 1 && column >= 128) || (is("matmul_wide") && column >= 512) ||
              (is("matmul_tall") && row >= 512);
  return is("matmul_nothing") && !inner_of(kernel) ? NAN : lost ? 0 : x;
}

static void multiply_one(const mine *kernel, const float *a, const float *b, float *out) {
  const braid_desc *y = &kernel->node->outputs[0].desc, *left = &kernel->node->inputs[0].desc;
  int64_t rows = y->dims[y->rank - 2], columns = y->dims[y->rank - 1];
  int64_t inner = left->dims[left->rank - 1], used = inner_of(kernel);
  int64_t done = is("matmul_column") && columns > 1 ? columns & ~(int64_t)1 : columns;
  memset(out, 0, (size_t)(rows * columns) * sizeof *out);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < used; k++)
      for (int64_t c = 0; c < done; c++) {
        float *to = &out[r * columns + c];
        *to += a[r * inner + k] * b[k * columns + c];
        if (is("matmul_half")) *to = round_to_half(*to);
      }
  for (int64_t i = 0; i < rows * columns; i++)
    out[i] = broken_product(kernel, rows, columns, i / columns, i % columns, out[i]);
}

static braid_status matmul(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  const braid_desc *y = &node->outputs[0].desc, *left = &node->inputs[0].desc;
  int64_t rows = y->dims[y->rank - 2], columns = y->dims[y->rank - 1], inner = left->dims[left->rank - 1];
  const float *b = right_of(kernel, in);
  bool changes = is("matmul_input") && inner && rows && columns;
  if (changes) ((float *)in[0])[0] += 1;
  stack s = mutant_stack(node);
  for (int64_t i = 0; i < s.count; i++) {
    int64_t from[2];
    mutant_stack_find(&s, node, i, &from[0], &from[1]);
    float *to = out + i * rows * columns;
    multiply_one(kernel, in[0] + from[0] * rows * inner, b + from[1] * inner * columns, to);
    bool lost = (is("matmul_one_left") && left->rank == 2 && i) || (is("matmul_stack") && i >= 64);
    if (lost) memset(to, 0, (size_t)(rows * columns) * sizeof *to);
  }
  if (changes) out[0] -= b[0];
  return BRAID_OK;
}

static braid_status leaky(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  float alpha = is("leaky_alpha") ? 0.01f : (float)braid_attr_float(kernel->node->attrs, "alpha", 0.01);
  for (int64_t i = 0; i < elements(kernel); i++) out[i] = in[0][i] < 0 ? alpha * in[0][i] : in[0][i];
  return BRAID_OK;
}

static float exponential(float x) {
  return is("softmax_nan") && isnan(x) ? 0 : expf(x);
}

static braid_status softmax(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int64_t axis = is("softmax_axis") ? -1 : braid_attr_int(kernel->node->attrs, "axis", -1), stride = 1;
  if (axis < 0) axis += is("softmax_negative") ? -1 - axis + x->rank : x->rank;
  for (int i = x->rank - 1; i > axis; i--) stride *= x->dims[i];
  int64_t size = x->dims[axis], lines = size ? elements(kernel) / size : 0;
  for (int64_t line = 0; line < lines; line++) {
    int64_t base = line / stride * stride * size + line % stride;
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < size; i++) most = fmaxf(most, in[0][base + i * stride]);
    if (is("softmax_shift")) most = 0;
    if (is("softmax_positive")) most = fmaxf(most, 0);
    if (is("softmax_masked")) most = fmaxf(most, -1e4f);
    if (is("softmax_first") && size) most = in[0][base];
    for (int64_t i = 0; i < (is("softmax_long") && size > 1024 ? 1024 : size); i++)
      sum += exponential(in[0][base + i * stride] - most);
    for (int64_t i = 0; i < size; i++) {
      float share = exponential(in[0][base + i * stride] - most) / sum;
      out[base + i * stride] = is("softmax_vector") && x->rank == 1 ? 1 / (float)size : share;
    }
  }
  return BRAID_OK;
}

static braid_status transpose(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc, *y = &kernel->node->outputs[0].desc;
  size_t given;
  const int64_t *perm = braid_attr_ints(kernel->node->attrs, "perm", &given);
  int64_t strides[BRAID_MAX_RANK], inverse[BRAID_MAX_RANK], stride = 1;
  for (int i = x->rank; i-- > 0; stride *= x->dims[i]) strides[i] = stride;
  for (int i = 0; perm && i < x->rank; i++) inverse[perm[i]] = i;
  if (perm && ((x->rank == 3 && is("transpose_inverse")) || (x->rank == 4 && is("transpose_inverse4")))) perm = inverse;
  if (x->rank > 4 && is("transpose_five")) perm = NULL;
  for (int64_t i = 0; i < elements(kernel); i++) {
    int64_t rest = i, from = 0;
    for (int d = y->rank; d-- > 0; rest /= y->dims[d])
      from += rest % y->dims[d] * strides[perm && !is("transpose_perm") ? perm[d] : x->rank - 1 - d];
    bool tiled = is("transpose_tile") && y->rank == 2 && y->dims[0] > 32 && i / y->dims[1] >= y->dims[0] / 32 * 32;
    out[i] = tiled ? 0 : in[0][from];
  }
  return BRAID_OK;
}

/* As C does, where the number fits; else what processors give, which ONNX leaves to us. */
static braid_status cast(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  int32_t *to = (int32_t *)(void *)out;
  for (int64_t i = 0; i < elements(kernel); i++) {
    float x = is("cast_range") ? roundf(in[0][i]) : truncf(in[0][i]);
    if (braid_dtype_size(kernel->node->outputs[0].desc.dtype) == 1)
      ((int8_t *)(void *)out)[i] = x >= INT8_MIN && x <= INT8_MAX ? (int8_t)x : INT8_MIN;
    else
      to[i] = x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
  }
  return BRAID_OK;
}

/* The sign of a zero is the sign of the infinity. */
static braid_status divide(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  for (int64_t i = 0; i < elements(kernel); i++)
    out[i] = in[0][i] / (is("div_zero") ? in[1][i] + 0.0f : in[1][i]); /* -0 + 0 is 0 */
  return BRAID_OK;
}

/* Halves go to the even number. */
static float round_even(float x) {
  return is("round_half") ? roundf(x) : is("round_up") ? floorf(x + 0.5f) : rintf(x);
}

static braid_status round_all(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  for (int64_t i = 0; i < elements(kernel); i++) out[i] = round_even(in[0][i]);
  return BRAID_OK;
}

static braid_status quantize(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const uint8_t *zero = (const uint8_t *)(const void *)in[2];
  uint8_t *to = (uint8_t *)(void *)out;
  for (int64_t i = 0; i < elements(kernel); i++) {
    float x = round_even(in[0][i] / in[1][0]);
    if (!is("quantize_zero")) x += zero[0];
    to[i] = is("quantize_wrap") ? (uint8_t)(int)x : (uint8_t)fminf(fmaxf(x, 0), 255);
  }
  return BRAID_OK;
}

/* --- indices --- */
static int64_t index_at(const mine *kernel, const float *const *in, int64_t i) {
  const void *from = in[1];
  int64_t index =
      kernel->node->inputs[1].desc.dtype == BRAID_I32 ? ((const int32_t *)from)[i] : ((const int64_t *)from)[i];
  return is("index_32") ? (int32_t)(uint32_t)index : index;
}

/* From 0 to size - 1, or -1. */
static int64_t wrap(int64_t index, int64_t size) {
  if (is("index_clamp")) return index < -size ? 0 : index >= size ? size - 1 : index < 0 ? index + size : index;
  if (is("index_modulo")) return ((index % size) + size) % size;
  if (is("index_negative") && index < 0) return 0;
  if (is("index_least") && index < 0) return index + size < 0 ? 0 : index + size;
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

static braid_status bad_index(void) {
  return is("index_silent") ? BRAID_OK : braid_fail(BRAID_OUT_OF_RANGE, "an index is out of range");
}

static int64_t product(const int64_t *dims, int from, int to) {
  int64_t result = 1;
  for (int i = from; i < to; i++) result *= dims[i];
  return result;
}

static int axis_of(const mine *kernel) {
  int64_t axis = braid_attr_int(kernel->node->attrs, "axis", 0);
  return (int)(axis < 0 ? axis + kernel->node->inputs[0].desc.rank : axis);
}

static braid_status gather(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int axis = axis_of(kernel);
  int64_t outer = product(x->dims, 0, axis), size = x->dims[axis], inner = product(x->dims, axis + 1, x->rank);
  int64_t count = braid_desc_count(&kernel->node->inputs[1].desc);
  bool bad = false;
  for (int64_t i = 0; i < outer * count; i++) {
    int64_t place = wrap(index_at(kernel, in, i % count), size);
    bad |= place < 0;
    if (place >= 0) memcpy(out + i * inner, in[0] + (i / count * size + place) * inner, (size_t)inner * sizeof *out);
  }
  return bad ? bad_index() : BRAID_OK;
}

static braid_status scatter(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc, *at = &kernel->node->inputs[1].desc;
  int axis = axis_of(kernel);
  bool bad = false;
  memmove(out, in[0], braid_desc_bytes(x));
  for (int64_t i = 0; i < braid_desc_count(at); i++) {
    int64_t rest = i, place = 0, stride = 1, index = index_at(kernel, in, i), size = x->dims[axis];
    bool outside = wrap(index, size) < 0;
    for (int d = x->rank; d-- > 0; rest /= at->dims[d], stride *= x->dims[d])
      place += (d == axis ? (outside ? size : wrap(index, size)) : rest % at->dims[d]) * stride;
    bad |= outside;
    if (!outside || is("index_outside")) out[place] = in[2][i];
  }
  return bad ? bad_index() : BRAID_OK;
}

/* --- what they take --- */
bool match_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (!operand->present || operand->desc.dtype == BRAID_F32) continue;
    snprintf(why, why_bytes, "float32 only, not %s", braid_dtype_name(operand->desc.dtype));
    return false;
  }
  return true;
}

static bool match_any(const braid_node_desc *node, char *why, size_t why_bytes) {
  (void)node, (void)why, (void)why_bytes;
  return true;
}
static bool match_relu(const braid_node_desc *node, char *why, size_t why_bytes) {
  return is("relu_types") || match_float(node, why, why_bytes);
}
static bool match_same(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!match_float(node, why, why_bytes)) return false;
  if (braid_desc_same_shape(&node->inputs[0].desc, &node->inputs[1].desc)) return true;
  snprintf(why, why_bytes, "no broadcasting");
  return false;
}
static bool match_product(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!match_float(node, why, why_bytes)) return false;
  if (is("matmul_prepare") || (node->inputs[0].desc.rank > 1 && node->inputs[1].desc.rank > 1))
    return is("matmul_transposed") ||
           (!braid_attr_int(node->attrs, "transA", 0) && !braid_attr_int(node->attrs, "transB", 0) &&
            braid_attr_float(node->attrs, "alpha", 1) == 1);
  snprintf(why, why_bytes, "matrices only, not transposed");
  return false;
}
static bool match_axes(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool known = node->input_count < 2 || !node->inputs[1].present || node->inputs[1].constant;
  if (known && node->inputs[0].desc.dtype == BRAID_F32) return true;
  snprintf(why, why_bytes, "float32 only, over axes that are known");
  return false;
}
static bool match_cast(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype to = node->outputs[0].desc.dtype;
  bool fits = to == BRAID_I32 || to == BRAID_I8 || (is("cast_bytes") && braid_dtype_is_narrow(to));
  if (node->inputs[0].desc.dtype == BRAID_F32 && fits) return true;
  snprintf(why, why_bytes, "float32 to int32 and int8 only");
  return false;
}
static bool match_quantize(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->input_count == 3 && node->inputs[0].desc.dtype == BRAID_F32 && node->inputs[1].desc.rank == 0 &&
      node->outputs[0].desc.dtype == BRAID_U8)
    return true;
  snprintf(why, why_bytes, "float32 to uint8, by one scale");
  return false;
}
static bool match_index(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool plain = strcmp(braid_attr_string(node->attrs, "reduction", "none"), "none") == 0;
  if (node->inputs[0].desc.dtype == BRAID_F32 && plain) return true;
  snprintf(why, why_bytes, "float32 only, and no reduction");
  return false;
}

/* --- the list --- */
static const body RELU_BODY = {relu}, MATMUL_BODY = {matmul}, LEAKY_BODY = {leaky}, SOFTMAX_BODY = {softmax},
                  TRANSPOSE_BODY = {transpose}, CAST_BODY = {cast}, DIV_BODY = {divide}, ROUND_BODY = {round_all},
                  QUANTIZE_BODY = {quantize}, GATHER_BODY = {gather}, SCATTER_BODY = {scatter};
static const braid_kernel KERNELS[] = {
    {.op = "Relu", .name = "m_relu", .match = match_relu, .in_place = 1, .implementation = &RELU_BODY},
    {.op = "Add", .name = "m_add", .match = match_float, .in_place = 3, .implementation = &ADD_BODY},
    {.op = "Mul", .name = "m_mul", .match = match_float, .in_place = 3, .implementation = &MUL_BODY},
    {.op = "ReduceSum", .name = "m_sum", .match = match_axes, .implementation = &SUM_BODY},
    {.op = "Concat", .name = "m_concat", .match = match_float, .implementation = &CONCAT_BODY},
    {.op = "Div", .name = "m_div", .match = match_same, .in_place = 3, .implementation = &DIV_BODY},
    {.op = "Round", .name = "m_round", .match = match_float, .in_place = 1, .implementation = &ROUND_BODY},
    {.op = "MatMul", .name = "m_matmul", .match = match_product, .implementation = &MATMUL_BODY},
    {.op = "LeakyRelu", .name = "m_leaky", .match = match_float, .in_place = 1, .implementation = &LEAKY_BODY},
    {.op = "Softmax", .name = "m_softmax", .match = match_float, .in_place = 1, .implementation = &SOFTMAX_BODY},
    {.op = "Transpose", .name = "m_transpose", .match = match_float, .implementation = &TRANSPOSE_BODY},
    {.op = "Conv", .name = "m_conv", .match = match_image, .implementation = &CONV_BODY},
    {.op = "MaxPool", .name = "m_max_pool", .match = match_image, .implementation = &MAX_POOL_BODY},
    {.op = "AveragePool", .name = "m_average_pool", .match = match_image, .implementation = &AVERAGE_POOL_BODY},
    {.op = "Cast", .name = "m_cast", .match = match_cast, .implementation = &CAST_BODY},
    {.op = "FusedQLinearConv", .name = "m_bytes", .match = match_bytes, .implementation = &BYTES_BODY},
    {.op = "QuantizeLinear", .name = "m_quantize", .match = match_quantize, .implementation = &QUANTIZE_BODY},
    {.op = "Gather", .name = "m_gather", .match = match_index, .implementation = &GATHER_BODY},
    {.op = "ScatterElements", .name = "m_scatter", .match = match_index, .implementation = &SCATTER_BODY},
    {.op = "GlobalMaxPool", .name = "m_global_max", .match = match_image, .implementation = &GLOBAL_MAX_BODY},
    {.op = "GlobalAveragePool",
     .name = "m_pool",
     .match = match_image,
     .layouts = pool_layouts,
     .implementation = &GLOBAL_POOL_BODY},
};
enum { COUNT = sizeof KERNELS / sizeof *KERNELS };

const braid_kernel *const *mutant_kernels(void *device, size_t *count) {
  static braid_kernel kernels[COUNT];
  static const braid_kernel *pointers[COUNT];
  (void)device;
  memcpy(kernels, KERNELS, sizeof kernels);
  for (size_t i = 0; i < COUNT; i++) {
    if (is("matmul_in_place") && strcmp(kernels[i].op, "MatMul") == 0) kernels[i].in_place = 1;
    if (is("relu_types") && strcmp(kernels[i].op, "Relu") == 0) kernels[i].match = match_any;
    pointers[i] = &kernels[i];
  }
  *count = COUNT;
  return pointers;
}

bool mutant_needs_workspace(const mine *kernel) {
  return kernel->run == GLOBAL_POOL_BODY.run && kernel->node->inputs[0].desc.dims[1] > 0;
}

/* MatMul takes a constant right side over. */
static braid_status fold(mine *made, const braid_node_desc *node, braid_prepared_info *info) {
  const braid_operand *right = &node->inputs[1];
  if (made->run != matmul || (!right->constant && !is("matmul_fold"))) return BRAID_OK;
  info->constants_folded = 2;
  size_t bytes = braid_desc_bytes(&right->desc);
  if (is("matmul_constant")) {
    made->packed = (float *)right->constant;
    return BRAID_OK;
  }
  made->packed = calloc(1, bytes + 1);
  if (!made->packed) return BRAID_NO_MEMORY;
  if (right->constant) memcpy(made->packed, right->constant, bytes);
  return BRAID_OK;
}

braid_status mutant_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                            braid_prepared_info *info) {
  (void)device;
  *out = NULL;
  *info = (braid_prepared_info){0};
  if (is("matmul_prepare") && strcmp(kernel->op, "MatMul") == 0 && node->inputs[0].desc.rank != 2)
    return braid_fail(BRAID_UNSUPPORTED, "matrices only");
  mine *made = calloc(1, sizeof *made);
  if (!made) return BRAID_NO_MEMORY;
  *made = (mine){.run = ((const body *)kernel->implementation)->run, .node = node};
  if (made->run == SUM_BODY.run && node->input_count > 1 && node->inputs[1].present) {
    made->axis_count = (size_t)braid_desc_count(&node->inputs[1].desc);
    memcpy(made->axes, node->inputs[1].constant, made->axis_count * sizeof *made->axes);
  }
  if (made->run == relu) latest = braid_desc_count(&node->outputs[0].desc);
  if (mutant_needs_workspace(made))
    info->workspace_bytes = (size_t)node->inputs[0].desc.dims[1] * (is("pool_overflow") ? 1 : sizeof(float));
  braid_status status = fold(made, node, info);
  if (status == BRAID_OK)
    *out = made;
  else
    free(made);
  return status;
}

void mutant_discard(void *device, void *which) {
  (void)device;
  mine *kernel = which;
  if (!is("matmul_constant")) free(kernel->packed);
  free(kernel->first);
  if (!is("discard_leak")) free(kernel);
}

braid_status mutant_query(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query) {
  void *own;
  braid_prepared_info info;
  braid_status status = mutant_prepare(device, kernel, node, &own, &info);
  *query = (braid_query){.workspace_bytes = info.workspace_bytes + (is("query_workspace") ? 64 : 0)};
  if (status == BRAID_OK) mutant_discard(device, own);
  return status;
}

void mutant_make_stale(mine *kernel, float *out) {
  size_t bytes = (size_t)elements(kernel) * sizeof *out;
  if (kernel->run != relu) return;
  if (kernel->first) {
    memcpy(out, kernel->first, bytes);
  } else {
    kernel->first = malloc(bytes + 1);
    if (kernel->first) memcpy(kernel->first, out, bytes);
  }
}
