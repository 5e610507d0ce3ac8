/* Training in integers, element by element, in any layout: the input, rectifiers, sums, scaling of errors, quantized
 * weights, and the update with as many random numbers at once as vectors hold. docs/integer-training.md is the
 * contract. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/integer/bytes_isa.h"
#include "backend/cpu/integer/input_isa.h"
#include "graph/integer.h"
#include "tensor/layout.h"

/* kChunk: elements that a thread takes at a time; a multiple of BRAID_INTEGER_DRAWS. */
enum { kChunk = 1 << 14, kMostApart = 16 };

static int64_t read_attr(const braid_node_desc *node, const char *name) {
  return braid_attr_int(node->attrs, name, 0);
}

/* All operands of the first one's shape in its layout, if that has no padding. */
static void pointwise_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_layout chosen = inputs[0];
  if (chosen == BRAID_LAYOUT_ANY || braid_layout_is_blocked(chosen)) chosen = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = node->inputs[i].desc.rank == node->inputs[0].desc.rank ? chosen : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = i == 0 ? chosen : BRAID_LAYOUT_PLAIN;
}

#define EACH_CHUNK(count, statement)                                                                                   \
  do {                                                                                                                 \
    int64_t all = (count);                                                                                             \
    _Pragma("omp parallel for schedule(static) if (all > kChunk)") for (int64_t at = 0; at < all; at += kChunk) {      \
      int64_t some = all - at < kChunk ? all - at : kChunk;                                                            \
      statement;                                                                                                       \
    }                                                                                                                  \
  } while (0)

static braid_status run_relu(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *x = args->inputs[0];
  int8_t *y = args->outputs[0];
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc), BRAID_ISA_CALL(braid_integer_rectify, x + at, some, y + at));
  return BRAID_OK;
}

static braid_status run_relu_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *e = args->inputs[0], *y = args->inputs[1];
  int8_t *to = args->outputs[0];
  int32_t most = (int32_t)braid_integer_max(read_attr(node, "bits"));
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc),
             BRAID_ISA_CALL(braid_integer_pass_within, e + at, y + at, some, most, to + at));
  return BRAID_OK;
}

static braid_status run_add(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *a = args->inputs[0], *b = args->inputs[1];
  int8_t *y = args->outputs[0];
  int32_t high = (int32_t)braid_integer_max(read_attr(node, "bits")), low = read_attr(node, "relu") ? 0 : -high;
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc),
             BRAID_ISA_CALL(braid_integer_add_bytes, a + at, b + at, some, low, high, y + at));
  return BRAID_OK;
}

static braid_status run_input(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const float *x = args->inputs[0];
  int8_t *a = args->outputs[0];
  float scale = (float)((int64_t)1 << read_attr(node, "shift"));
  int32_t most = (int32_t)braid_integer_max(read_attr(node, "bits"));
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc),
             BRAID_ISA_CALL(braid_integer_input, x + at, some, scale, most, a + at));
  return BRAID_OK;
}

static braid_status run_quantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *v = &node->inputs[0].desc;
  const int8_t *bytes = args->inputs[0];
  const int16_t *words = args->inputs[0];
  int8_t *w = args->outputs[0];
  int shift = (int)read_attr(node, "shift");
  int32_t most = (int32_t)braid_integer_max(read_attr(node, "bits"));
  if (v->dtype == BRAID_I8)
    EACH_CHUNK(braid_desc_count(v), BRAID_ISA_CALL(braid_integer_scale_i8, bytes + at, some, shift, most, w + at));
  else
    EACH_CHUNK(braid_desc_count(v), BRAID_ISA_CALL(braid_integer_scale_i16, words + at, some, shift, most, w + at));
  return BRAID_OK;
}

static int64_t raw_at(braid_dtype dtype, const void *raw, int64_t i) {
  int64_t value = dtype == BRAID_I64 ? ((const int64_t *)raw)[i] : ((const int32_t *)raw)[i];
  return braid_integer_limit(value, -BRAID_INTEGER_MOST_RAW, BRAID_INTEGER_MOST_RAW);
}

static int64_t magnitude_width(braid_dtype dtype, const void *magnitude) {
  int64_t value = raw_at(dtype, magnitude, 0);
  return value < 0 ? 0 : braid_integer_width((uint64_t)value);
}

/* Magnitudes that need no more bits than errors have: d is 0 or below. */
static void scale_up(const braid_desc *desc, const void *raw, int64_t at, int64_t some, int64_t d, int64_t bits,
                     int8_t *e) {
  for (int64_t i = at; i < at + some; i++)
    e[i] = (int8_t)braid_integer_clip(raw_at(desc->dtype, raw, i) * ((int64_t)1 << -d), bits);
}

/* How an error lies in memory: samples of `lines` rows of `length` elements, whose numbers in the plain order are
 * `lines` apart. In the plain layout all of it is one row. */
typedef struct error_rows {
  int64_t rows, length, lines;
} error_rows;

static error_rows rows_of(const braid_desc *desc) {
  int64_t count = braid_desc_count(desc);
  if (desc->layout != BRAID_LAYOUT_BHWC || count == 0) return (error_rows){1, count, 1};
  int64_t channels = desc->dims[1], lines = count / (desc->dims[0] * channels);
  return (error_rows){desc->dims[0] * lines, channels, lines};
}

typedef struct random_scale {
  const braid_desc *desc;
  const void *raw;
  int64_t d, bits;
  uint32_t key;
  int8_t *e;
} random_scale;

/* Rows of `length` elements in memory from element `at` on, the first of which has number `number`. */
static void scale_rows(const random_scale *p, int64_t at, int64_t rows, int64_t length, int64_t number, int64_t step) {
  uint32_t first = p->key + (uint32_t)number;
  if (p->desc->dtype == BRAID_I32 && p->d <= 31) {
    BRAID_ISA_CALL(braid_integer_scale_randomly, (const int32_t *)p->raw + at, rows, length, first, (uint32_t)step,
                   (int)p->d, (int32_t)braid_integer_max(p->bits), p->e + at);
    return;
  }
  for (int64_t i = 0; i < rows * length; i++) {
    uint32_t u = braid_integer_mix(first + (uint32_t)(i / length) + (uint32_t)(i % length * step));
    p->e[at + i] = (int8_t)braid_integer_clip(
        braid_integer_round_randomly(raw_at(p->desc->dtype, p->raw, at + i), (int)p->d, u), p->bits);
  }
}

/* `rows` rows from row `row` on, sample by sample. */
static void scale_samples(const random_scale *p, const error_rows *in, int64_t row, int64_t rows) {
  for (int64_t end = row + rows, some; row < end; row += some) {
    int64_t sample = row / in->lines, line = row % in->lines;
    some = in->lines - line < end - row ? in->lines - line : end - row;
    scale_rows(p, row * in->length, some, in->length, sample * in->lines * in->length + line, in->lines);
  }
}

static void scale_randomly(const random_scale *p) {
  error_rows in = rows_of(p->desc);
  int64_t count = in.rows * in.length;
  if (in.rows == 1) {
    EACH_CHUNK(count, scale_rows(p, at, 1, some, at, 1));
    return;
  }
  int64_t together = in.length < kChunk ? kChunk / in.length : 1;
#pragma omp parallel for schedule(static) if (count > kChunk)
  for (int64_t row = 0; row < in.rows; row += together)
    scale_samples(p, &in, row, in.rows - row < together ? in.rows - row : together);
}

static void scale_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool rows = inputs[0] == BRAID_LAYOUT_BHWC && node->inputs[0].desc.rank > 2;
  if (!rows) inputs[0] = BRAID_LAYOUT_PLAIN;
  pointwise_layouts(node, inputs, outputs);
}

static braid_status run_scale_error(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *desc = &node->inputs[0].desc;
  const void *raw = args->inputs[0];
  int8_t *e = args->outputs[0];
  int64_t bits = read_attr(node, "bits"), step = *(const int64_t *)args->inputs[3];
  int64_t d = magnitude_width(desc->dtype, args->inputs[1]) - (bits - 1);
  uint32_t key = braid_integer_error_key((uint64_t)read_attr(node, "seed"), step, (uint32_t)read_attr(node, "stream"));
  key += (uint32_t)read_attr(node, "first"); /* elements are counted modulo 2^32 */
  if (d > 0)
    scale_randomly(&(random_scale){desc, raw, d, bits, key, e});
  else
    EACH_CHUNK(braid_desc_count(desc), scale_up(desc, raw, at, some, d, bits, e));
  *(int32_t *)args->outputs[1] = (int32_t)(*(const int32_t *)args->inputs[2] + read_attr(node, "offset") + d);
  return BRAID_OK;
}

static braid_status run_scale_error_relu(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  braid_status status = run_scale_error(node, state, args);
  const int8_t *y = args->inputs[4];
  int8_t *e = args->outputs[0];
  int32_t most = (int32_t)braid_integer_max(read_attr(node, "relu_bits"));
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc),
             BRAID_ISA_CALL(braid_integer_pass_within, e + at, y + at, some, most, e + at));
  return status;
}

/* The error with the larger exponent is brought to the other's, by 16 places at most; beyond them the other is lost. */
static braid_status run_error_sum(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t x1 = *(const int32_t *)args->inputs[1], x2 = *(const int32_t *)args->inputs[3];
  bool swapped = x2 > x1;
  const int8_t *large = args->inputs[swapped ? 2 : 0], *small = args->inputs[swapped ? 0 : 2];
  int64_t between = swapped ? x2 - x1 : x1 - x2, count = braid_desc_count(&node->inputs[0].desc);
  int apart = between < kMostApart ? (int)between : kMostApart;
  int32_t *raw = args->outputs[0], kept = between > kMostApart ? 0 : -1;
  uint32_t bits = 0;
#pragma omp parallel for schedule(static) reduction(| : bits) if (count > kChunk)
  for (int64_t at = 0; at < count; at += kChunk) {
    int64_t some = count - at < kChunk ? count - at : kChunk;
    bits |= BRAID_ISA_CALL(braid_integer_sum_errors, large + at, small + at, some, apart, kept, raw + at);
  }
  *(int32_t *)args->outputs[1] = (int32_t)bits;
  *(int32_t *)args->outputs[2] = (int32_t)((swapped ? x2 : x1) - apart);
  return BRAID_OK;
}

/* --- update --------------------------------------------------------------------------------------------------------
 */
typedef struct update {
  const braid_cpu_args *args;
  braid_dtype parameter, gradient;
  uint64_t seed;
  uint32_t stream, step;
  int64_t t, bits;
} update;

static int64_t read_parameter(const update *p, int64_t i) {
  const void *data = p->args->inputs[0];
  return p->parameter == BRAID_I8 ? ((const int8_t *)data)[i] : ((const int16_t *)data)[i];
}

/* Gradients of 64 bits, steps to the left, and random numbers of more than 31 bits. */
static void update_slowly(const update *p, int64_t at, int64_t some, const uint32_t *u) {
  for (int64_t i = at; i < at + some; i++) {
    int64_t g = raw_at(p->gradient, p->args->inputs[1], i);
    int64_t by = p->t > 0 ? braid_integer_round_randomly(g, (int)p->t, u[i - at]) : g * ((int64_t)1 << -p->t);
    int64_t value = braid_integer_clip(read_parameter(p, i) - braid_integer_clip(by, p->bits), p->bits);
    if (p->parameter == BRAID_I8)
      ((int8_t *)p->args->outputs[0])[i] = (int8_t)value;
    else
      ((int16_t *)p->args->outputs[0])[i] = (int16_t)value;
  }
}

static void update_chunk(const update *p, int64_t first, int64_t count) {
  int32_t most = (int32_t)braid_integer_max(p->bits);
  const int32_t *g = p->args->inputs[1];
  bool fast = p->gradient == BRAID_I32 && p->t >= 1 && p->t <= 31;
  for (int64_t at = first; at < first + count; at += BRAID_INTEGER_DRAWS) {
    uint32_t u[BRAID_INTEGER_DRAWS];
    int64_t some = first + count - at < BRAID_INTEGER_DRAWS ? first + count - at : BRAID_INTEGER_DRAWS;
    BRAID_ISA_CALL(braid_integer_draw, p->seed, p->step, p->stream, (uint64_t)at, u);
    if (!fast)
      update_slowly(p, at, some, u);
    else if (p->parameter == BRAID_I8)
      BRAID_ISA_CALL(braid_integer_update_i8, (const int8_t *)p->args->inputs[0] + at, g + at, u, some, (int)p->t, most,
                     (int8_t *)p->args->outputs[0] + at);
    else
      BRAID_ISA_CALL(braid_integer_update_i16, (const int16_t *)p->args->inputs[0] + at, g + at, u, some, (int)p->t,
                     most, (int16_t *)p->args->outputs[0] + at);
  }
}

static braid_status run_update(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  update p = {.args = args,
              .parameter = node->inputs[0].desc.dtype,
              .gradient = node->inputs[1].desc.dtype,
              .seed = (uint64_t)read_attr(node, "seed"),
              .stream = (uint32_t)read_attr(node, "stream"),
              .step = (uint32_t) * (const int64_t *)args->inputs[4],
              .bits = read_attr(node, "bits")};
  int64_t rate = braid_integer_limit(*(const int32_t *)args->inputs[3], -8, 8);
  p.t = magnitude_width(p.gradient, args->inputs[2]) - rate - (p.bits - 8) + read_attr(node, "slower");
  if (p.t > 62) p.t = 62;
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc), update_chunk(&p, at, some));
  return BRAID_OK;
}

/* --- momentum ------------------------------------------------------------------------------------------------------
 */
typedef struct momentum {
  update update; /* t is the shift of the gradient, inputs are as IntegerMomentum has them */
  braid_integer_momentum all;
} momentum;

static void move_parameters(const update *p, const braid_integer_momentum *all, int64_t at, int64_t some,
                            const int32_t *g, const uint32_t *u) {
  const int16_t *v = (const int16_t *)p->args->inputs[1] + at;
  int16_t *v_to = (int16_t *)p->args->outputs[1] + at;
  braid_integer_momentum m = *all;
  m.key += (uint32_t)at;
  if (p->parameter == BRAID_I8)
    BRAID_ISA_CALL(braid_integer_momentum_i8, &m, (const int8_t *)p->args->inputs[0] + at, v, g, u, some,
                   (int8_t *)p->args->outputs[0] + at, v_to);
  else
    BRAID_ISA_CALL(braid_integer_momentum_i16, &m, (const int16_t *)p->args->inputs[0] + at, v, g, u, some,
                   (int16_t *)p->args->outputs[0] + at, v_to);
}

/* Gradients of 64 bits and random numbers of more than 31 bits. */
static void momentum_slowly(const momentum *m, int64_t at, int64_t some, const uint32_t *u) {
  const update *p = &m->update;
  int32_t q[BRAID_INTEGER_DRAWS];
  for (int64_t i = 0; i < some; i++) {
    int64_t g = raw_at(p->gradient, p->args->inputs[2], at + i);
    int64_t by = p->t > 0 ? braid_integer_round_randomly(g, (int)p->t, u[i]) : g * ((int64_t)1 << -p->t);
    q[i] = (int32_t)braid_integer_clip(by, BRAID_INTEGER_MOMENTUM_BITS);
  }
  braid_integer_momentum all = m->all;
  all.t = 0;
  move_parameters(p, &all, at, some, q, u);
}

static void momentum_chunk(const momentum *m, int64_t first, int64_t count) {
  const update *p = &m->update;
  bool fast = p->gradient == BRAID_I32 && p->t <= 31;
  for (int64_t at = first; at < first + count; at += BRAID_INTEGER_DRAWS) {
    uint32_t u[BRAID_INTEGER_DRAWS];
    int64_t some = first + count - at < BRAID_INTEGER_DRAWS ? first + count - at : BRAID_INTEGER_DRAWS;
    if (p->t > 0) BRAID_ISA_CALL(braid_integer_draw, p->seed, p->step, p->stream, (uint64_t)at, u);
    if (fast)
      move_parameters(p, &m->all, at, some, (const int32_t *)p->args->inputs[2] + at, u);
    else
      momentum_slowly(m, at, some, u);
  }
}

static braid_status run_momentum(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t bits = read_attr(node, "bits"), decay = read_attr(node, "decay"), step = *(const int64_t *)args->inputs[5];
  int64_t rate = *(const int32_t *)args->inputs[4];
  int t = braid_integer_momentum_shift(read_attr(node, "place"), rate, *(const int32_t *)args->inputs[3]);
  uint64_t seed = (uint64_t)read_attr(node, "seed");
  uint32_t stream = (uint32_t)read_attr(node, "stream");
  momentum m = {{.args = args,
                 .parameter = node->inputs[0].desc.dtype,
                 .gradient = node->inputs[2].desc.dtype,
                 .seed = seed,
                 .stream = stream,
                 .step = (uint32_t)step,
                 .t = t,
                 .bits = bits},
                {.t = t,
                 .decays = decay > 0,
                 .decay_shift = braid_integer_decay_shift(bits, decay, rate),
                 .f = BRAID_INTEGER_MOMENTUM_PLACES - (int)bits,
                 .most = (int32_t)braid_integer_max(bits),
                 .key = braid_integer_error_key(seed, step, stream)}};
  EACH_CHUNK(braid_desc_count(&node->inputs[0].desc), momentum_chunk(&m, at, some));
  return BRAID_OK;
}

static const braid_cpu_kernel kRelu = {.run = run_relu}, kReluGrad = {.run = run_relu_grad}, kAdd = {.run = run_add},
                              kQuantize = {.run = run_quantize}, kScaleError = {.run = run_scale_error},
                              kScaleErrorRelu = {.run = run_scale_error_relu}, kUpdate = {.run = run_update},
                              kMomentum = {.run = run_momentum}, kInput = {.run = run_input},
                              kErrorSum = {.run = run_error_sum};

#define KERNEL(node_op, kernel_name, places, kernel)                                                                   \
  { .op = node_op, .name = kernel_name, .layouts = pointwise_layouts, .in_place = places, .implementation = &(kernel) }
static const braid_kernel kKernels[] = {
    KERNEL("IntegerAdd", "vector_integer_add", 3, kAdd),
    KERNEL("IntegerErrorSum", "vector_integer_error_sum", 0, kErrorSum),
    KERNEL("IntegerInput", "vector_integer_input", 0, kInput),
    KERNEL("IntegerRelu", "vector_integer_relu", 1, kRelu),
    KERNEL("IntegerReluGrad", "vector_integer_relu_grad", 3, kReluGrad),
    {.op = "IntegerScaleError",
     .name = "vector_integer_scale_error",
     .layouts = scale_layouts,
     .implementation = &kScaleError},
    {.op = "IntegerScaleErrorRelu",
     .name = "vector_integer_scale_error_relu",
     .layouts = scale_layouts,
     .implementation = &kScaleErrorRelu},
    {.op = "IntegerQuantize", .name = "vector_integer_quantize", .implementation = &kQuantize},
    {.op = "IntegerMomentum",
     .name = "vector_integer_momentum",
     .in_place = 1u << 0,
     .in_place_more = {1u << 1},
     .implementation = &kMomentum},
    {.op = "IntegerUpdate", .name = "vector_integer_update", .in_place = 1, .implementation = &kUpdate},
};

extern const braid_cpu_table braid_cpu_integer_pointwise;
const braid_cpu_table braid_cpu_integer_pointwise = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
