/* Plain kernels between real and quantized numbers: results are rounded half to even and saturate. */
#include <math.h>

#include "backend/cpu/plain/quantize.h"
#include "backend/cpu/spans/convert.h"
#include "graph/onnx_dtype.h"
#include "tensor/half.h"
#include "tensor/narrow.h"

/* NaN becomes the lowest number. */
static int32_t saturated(float value, braid_dtype dtype) {
  bool is_signed = dtype == BRAID_I8 || dtype == BRAID_I16 || dtype == BRAID_I4 || dtype == BRAID_I2;
  int count = 1 << braid_dtype_bits(dtype);
  float low = is_signed ? (float)(-count / 2) : 0, high = low + (float)(count - 1);
  return (int32_t)(value > high ? high : value >= low ? value : low);
}

static void put_integer(void *to, int64_t i, int32_t value, braid_dtype dtype) {
  if (braid_dtype_is_narrow(dtype))
    ((uint8_t *)to)[i] = braid_narrow_of_i64(dtype, value);
  else if (braid_dtype_size(dtype) == 1)
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

/* Goes from element to element: the divisions that find a scale cost more than all else. */
typedef struct walk {
  const scaling *scaling;
  int64_t outer, place, i, line; /* line: the scale of i = 0 */
} walk;

static int64_t scale_line(const scaling *s, int64_t outer, int64_t place) {
  return s->blocked ? outer * s->scales_inner + place / s->block * s->inner : place;
}

static walk walk_from(const scaling *s, int64_t element) {
  if (s->single) return (walk){.scaling = s};
  int64_t line = element / s->inner;
  walk w = {s, line / s->size, line % s->size, element % s->inner, 0};
  w.line = scale_line(s, w.outer, w.place);
  return w;
}

/* The number of this element's scale, and on to the next. */
static int64_t walk_on(walk *w) {
  const scaling *s = w->scaling;
  if (s->single) return 0;
  int64_t at = w->line + (s->blocked ? w->i : 0);
  if (++w->i == s->inner) {
    w->i = 0;
    if (++w->place == s->size) w->place = 0, w->outer++;
    w->line = scale_line(s, w->outer, w->place);
  }
  return at;
}

/* x / scale as it is in this type. */
static double quotient(double x, double scale, braid_dtype in) {
  switch (in) {
  case BRAID_F64:
    return x / scale;
  case BRAID_F16:
    x = (double)braid_f16_to_f32(braid_f32_to_f16((float)x));
    scale = (double)braid_f16_to_f32(braid_f32_to_f16((float)scale));
    return (double)braid_f16_to_f32(braid_f32_to_f16((float)x / (float)scale));
  case BRAID_BF16:
    x = (double)braid_bf16_to_f32(braid_f32_to_bf16((float)x));
    scale = (double)braid_bf16_to_f32(braid_f32_to_bf16((float)scale));
    return (double)braid_bf16_to_f32(braid_f32_to_bf16((float)x / (float)scale));
  default:
    return (double)((float)x / (float)scale);
  }
}

enum { kPiece = 512 };

static braid_status run_quantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  scaling s = scaling_of(node);
  const braid_desc *y = &node->outputs[0].desc;
  int64_t count = braid_desc_count(y), said = braid_attr_int(node->attrs, "precision", 0);
  braid_dtype precision = said ? braid_dtype_from_onnx(said) : node->inputs[1].desc.dtype;
  braid_narrowing how = {.overflows = !braid_attr_int(node->attrs, "saturate", 1)};
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    walk w = walk_from(&s, begin);
    for (int64_t i = begin; i < begin + kPiece && i < count; i++) {
      int64_t at = walk_on(&w);
      double zero = braid_plain_given(node, 2) ? braid_plain_real(&node->inputs[2], args->inputs[2], at) : 0;
      double value = quotient(braid_plain_real(&node->inputs[0], args->inputs[0], i),
                              braid_plain_real(&node->inputs[1], args->inputs[1], at), precision);
      if (braid_narrow_is_float(y->dtype))
        ((uint8_t *)args->outputs[0])[i] = braid_narrow_of_f64(y->dtype, value + zero, &how);
      else
        put_integer(args->outputs[0], i, saturated((float)(rint(value) + zero), y->dtype), y->dtype);
    }
  }
  return BRAID_OK;
}

/* In double, which holds the product, and rounded once. */
static braid_status run_dequantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  scaling s = scaling_of(node);
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t count = braid_desc_count(y);
  size_t x_bytes = braid_dtype_size(x->dtype), y_bytes = braid_dtype_size(y->dtype);
  braid_convert *store = braid_convert_find(BRAID_F64, y->dtype);
  braid_narrow_convert narrow;
  bool is_narrow = braid_dtype_is_narrow(x->dtype);
  if (is_narrow) braid_narrow_convert_init(&narrow, x->dtype, BRAID_F64, &(braid_narrowing){0});
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    double numbers[kPiece];
    int64_t some = begin + kPiece < count ? kPiece : count - begin;
    const char *from = (const char *)args->inputs[0] + (size_t)begin * x_bytes;
    if (is_narrow)
      braid_narrow_convert_run(&narrow, from, numbers, some);
    else
      braid_convert_find(x->dtype, BRAID_F64)(from, numbers, some);
    walk w = walk_from(&s, begin);
    for (int64_t i = 0; i < some; i++) {
      int64_t at = walk_on(&w);
      if (braid_plain_given(node, 2)) numbers[i] -= braid_plain_real(&node->inputs[2], args->inputs[2], at);
      numbers[i] *= braid_plain_real(&node->inputs[1], args->inputs[1], at);
    }
    store(numbers, (char *)args->outputs[0] + (size_t)begin * y_bytes, some);
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
  float scale = high > low ? (high - low) / 255 : 1;
  int32_t zero = scale > 0 ? saturated(rintf(-low / scale), BRAID_U8) : 0;
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++)
    y[i] = (uint8_t)(scale > 0 ? saturated(rintf(x[i] / scale) + (float)zero, BRAID_U8) : 0);
  *(float *)args->outputs[1] = scale;
  *(uint8_t *)args->outputs[2] = (uint8_t)zero;
  return BRAID_OK;
}

static const braid_cpu_kernel kQuantize = {.run = run_quantize};
static const braid_cpu_kernel kDequantize = {.run = run_dequantize};
static const braid_cpu_kernel kDynamic = {.run = run_dynamic_quantize};
static const braid_kernel kKernels[] = {
    {.op = "DequantizeLinear", .name = "ref_dequantize", .implementation = &kDequantize},
    {.op = "DynamicQuantizeLinear", .name = "ref_dynamic_quantize", .implementation = &kDynamic},
    {.op = "QuantizeLinear", .name = "ref_quantize", .implementation = &kQuantize},
};

extern const braid_cpu_table braid_cpu_plain_quantize;
const braid_cpu_table braid_cpu_plain_quantize = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
