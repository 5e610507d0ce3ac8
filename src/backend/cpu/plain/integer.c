/* Training in integers, element by element: docs/integer-training.md, which these loops are. */
#include "backend/cpu/plain/integer.h"

#include <math.h>

#include "base/philox.h"

static int64_t read_attr(const braid_node_desc *node, const char *name) {
  return braid_attr_int(node->attrs, name, 0);
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
static braid_status run_input(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const float *x = args->inputs[0];
  int8_t *a = args->outputs[0];
  int64_t count = braid_desc_count(&node->inputs[0].desc), bits = read_attr(node, "bits");
  double scale = (double)((int64_t)1 << read_attr(node, "shift")), most = (double)braid_integer_max(bits);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    double value = floor((double)x[i] * scale + 0.5); /* exact: a double holds x, the power of two and the half */
    a[i] = isnan(value) ? 0 : (int8_t)(value > most ? most : value < -most ? -most : value);
  }
  return BRAID_OK;
}

static braid_status run_quantize(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *v = &node->inputs[0].desc;
  int8_t *w = args->outputs[0];
  int64_t count = braid_desc_count(v), bits = read_attr(node, "bits"), shift = read_attr(node, "shift");
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++)
    w[i] = (int8_t)braid_integer_clip(braid_integer_round(braid_plain_get(v->dtype, args->inputs[0], i), shift), bits);
  return BRAID_OK;
}

static braid_status run_relu(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *x = args->inputs[0];
  int8_t *y = args->outputs[0];
  int64_t count = braid_desc_count(&node->inputs[0].desc);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
  return BRAID_OK;
}

static braid_status run_relu_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *e = args->inputs[0], *y = args->inputs[1];
  int8_t *result = args->outputs[0];
  int64_t count = braid_desc_count(&node->inputs[0].desc), most = braid_integer_max(read_attr(node, "bits"));
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) result[i] = y[i] > 0 && y[i] < most ? e[i] : 0;
  return BRAID_OK;
}

static braid_status run_add(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *a = args->inputs[0], *b = args->inputs[1];
  int8_t *y = args->outputs[0];
  int64_t count = braid_desc_count(&node->inputs[0].desc), bits = read_attr(node, "bits");
  bool relu = read_attr(node, "relu") != 0;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) y[i] = (int8_t)braid_plain_clip(a[i] + b[i], bits, relu);
  return BRAID_OK;
}

/* --- errors --------------------------------------------------------------------------------------------------------
 */
static braid_status run_error_sum(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *e1 = args->inputs[0], *e2 = args->inputs[2];
  int64_t x1 = *(const int32_t *)args->inputs[1], x2 = *(const int32_t *)args->inputs[3];
  if (x2 > x1) {
    const int8_t *other = e1;
    int64_t exponent = x1;
    e1 = e2, x1 = x2;
    e2 = other, x2 = exponent;
  }
  int64_t apart = x1 - x2 < 16 ? x1 - x2 : 16, count = braid_desc_count(&node->inputs[0].desc);
  bool lost = x1 - x2 > 16;
  int32_t *raw = args->outputs[0];
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) raw[i] = (int32_t)(e1[i] * ((int64_t)1 << apart) + (lost ? 0 : e2[i]));
  braid_plain_magnitude(&node->outputs[0].desc, raw, args->outputs[1]);
  *(int32_t *)args->outputs[2] = (int32_t)(x1 - apart);
  return BRAID_OK;
}

static braid_status run_scale_error(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *raw = &node->inputs[0].desc;
  int8_t *e = args->outputs[0];
  int64_t bits = read_attr(node, "bits"), count = braid_desc_count(raw);
  int64_t magnitude = braid_integer_limit(braid_plain_get(raw->dtype, args->inputs[1], 0), 0, BRAID_INTEGER_MOST_RAW);
  int64_t d = braid_integer_width((uint64_t)magnitude) - (bits - 1);
  const int64_t *step = args->inputs[3];
  uint32_t key = braid_integer_error_key((uint64_t)read_attr(node, "seed"), *step, (uint32_t)read_attr(node, "stream"));
  uint64_t first = (uint64_t)read_attr(node, "first");
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    int64_t value = braid_integer_limit(braid_plain_get(raw->dtype, args->inputs[0], i), -BRAID_INTEGER_MOST_RAW,
                                        BRAID_INTEGER_MOST_RAW);
    int64_t rounded =
        d > 0 ? braid_integer_round_randomly(value, (int)d, braid_integer_error_bits(key, first + (uint64_t)i))
              : value * ((int64_t)1 << -d);
    e[i] = (int8_t)braid_integer_clip(rounded, bits);
  }
  *(int32_t *)args->outputs[1] = (int32_t)(*(const int32_t *)args->inputs[2] + read_attr(node, "offset") + d);
  return BRAID_OK;
}

static braid_status run_scale_error_relu(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  braid_status status = run_scale_error(node, state, args);
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  if (status == BRAID_OK) braid_plain_rectify(args->outputs[0], args->inputs[4], count, read_attr(node, "relu_bits"));
  return status;
}

static braid_status run_magnitude(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  braid_plain_magnitude(&node->inputs[0].desc, args->inputs[0], args->outputs[0]);
  return BRAID_OK;
}

static braid_status run_squared_error(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const int8_t *y = args->inputs[0];
  const int32_t *labels = args->inputs[1];
  int32_t *raw = node->output_count > 1 ? args->outputs[1] : NULL;
  const braid_desc *desc = &node->inputs[0].desc;
  int64_t classes = desc->dims[1], most = braid_integer_max(read_attr(node, "bits")), loss = 0;
  bool hinge = read_attr(node, "hinge") != 0;
  uint64_t magnitude = 0;
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    bool right = i % classes == labels[i / classes];
    int64_t error = y[i] - (right ? most : 0);
    if (hinge && (right ? error > 0 : error < 0)) error = 0;
    loss += error * error;
    magnitude |= (uint64_t)(error < 0 ? -error : error);
    if (raw) raw[i] = (int32_t)error;
  }
  *(int64_t *)args->outputs[0] = loss;
  if (node->output_count > 2 && args->outputs[2]) *(int32_t *)args->outputs[2] = (int32_t)magnitude;
  return BRAID_OK;
}

/* --- update --------------------------------------------------------------------------------------------------------
 */
static braid_status run_update(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *parameter = &node->inputs[0].desc, *gradient = &node->inputs[1].desc;
  int64_t bits = read_attr(node, "bits"), count = braid_desc_count(parameter);
  int64_t magnitude =
      braid_integer_limit(braid_plain_get(gradient->dtype, args->inputs[2], 0), 0, BRAID_INTEGER_MOST_RAW);
  int64_t rate = braid_integer_limit(*(const int32_t *)args->inputs[3], -8, 8);
  int64_t t = braid_integer_width((uint64_t)magnitude) - rate - (bits - 8) + read_attr(node, "slower");
  if (t > 62) t = 62;
  uint64_t seed = (uint64_t)read_attr(node, "seed");
  uint32_t stream = (uint32_t)read_attr(node, "stream"), step = (uint32_t) * (const int64_t *)args->inputs[4];
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    int64_t g = braid_integer_limit(braid_plain_get(gradient->dtype, args->inputs[1], i), -BRAID_INTEGER_MOST_RAW,
                                    BRAID_INTEGER_MOST_RAW);
    int64_t by;
    if (t > 0)
      by = braid_integer_round_randomly(g, (int)t, braid_random_u32(seed, step, stream, (uint64_t)i));
    else
      by = g * ((int64_t)1 << -t);
    int64_t p = braid_plain_get(parameter->dtype, args->inputs[0], i) - braid_integer_clip(by, bits);
    braid_plain_set(parameter->dtype, args->outputs[0], i, braid_integer_clip(p, bits));
  }
  return BRAID_OK;
}

/* floor(value * 2^places) */
static int64_t scale_floor(int64_t value, int places) {
  return places >= 0 ? value * ((int64_t)1 << places) : braid_integer_floor(value, -places);
}

static braid_status run_momentum(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *parameter = &node->inputs[0].desc, *gradient = &node->inputs[2].desc;
  int64_t bits = read_attr(node, "bits"), decay = read_attr(node, "decay"), count = braid_desc_count(parameter);
  int64_t rate = *(const int32_t *)args->inputs[4], step = *(const int64_t *)args->inputs[5];
  int t = braid_integer_momentum_shift(read_attr(node, "place"), rate, *(const int32_t *)args->inputs[3]);
  int decay_shift = braid_integer_decay_shift(bits, decay, rate), f = BRAID_INTEGER_MOMENTUM_PLACES - (int)bits;
  uint64_t seed = (uint64_t)read_attr(node, "seed");
  uint32_t stream = (uint32_t)read_attr(node, "stream"), key = braid_integer_error_key(seed, step, stream);
  const int16_t *momentum = args->inputs[1];
  int16_t *next = args->outputs[1];
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    int64_t g = braid_integer_limit(braid_plain_get(gradient->dtype, args->inputs[2], i), -BRAID_INTEGER_MOST_RAW,
                                    BRAID_INTEGER_MOST_RAW);
    int64_t p = braid_plain_get(parameter->dtype, args->inputs[0], i);
    uint32_t w = braid_integer_error_bits(key, (uint64_t)i);
    int64_t q = t > 0 ? braid_integer_round_randomly(g, t, braid_random_u32(seed, (uint32_t)step, stream, (uint64_t)i))
                      : g * ((int64_t)1 << -t);
    int64_t kept = 15 * 4096 * (int64_t)momentum[i] + (decay ? scale_floor(p, decay_shift) : 0);
    int64_t v = braid_integer_clip(braid_integer_floor(kept + (w & 0xffff), 16) +
                                       braid_integer_clip(q, BRAID_INTEGER_MOMENTUM_BITS),
                                   BRAID_INTEGER_MOMENTUM_BITS);
    int64_t by = braid_integer_floor(v + (w >> 16 & (((uint32_t)1 << f) - 1)), f);
    next[i] = (int16_t)v;
    braid_plain_set(parameter->dtype, args->outputs[0], i, braid_integer_clip(p - by, bits));
  }
  return BRAID_OK;
}

/* --- digest --------------------------------------------------------------------------------------------------------
 */
static uint32_t digest_number(braid_dtype dtype, const void *data, int64_t i) {
  if (dtype == BRAID_U8) return ((const uint8_t *)data)[i];
  int64_t value = braid_plain_get(dtype, data, i);
  return dtype == BRAID_I64 ? braid_integer_digest_fold(value) : (uint32_t)value;
}

static braid_status run_digest(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  uint64_t first = (uint64_t)read_attr(node, "first");
  for (size_t input = 0; input < node->input_count; input++) {
    const braid_desc *desc = &node->inputs[input].desc;
    int64_t samples = desc->rank > 0 ? desc->dims[0] : 1, count = braid_desc_count(desc);
    int64_t places = samples > 0 ? count / samples : 0;
    uint32_t digest = 0;
#pragma omp parallel for reduction(+ : digest)
    for (int64_t i = 0; i < count; i++) {
      uint64_t place = 2 * (uint64_t)(i % places), sample = 2 * (first + (uint64_t)(i / places)) + 1;
      digest += braid_integer_digest_weight(sample) * braid_integer_digest_weight(place) *
                digest_number(desc->dtype, args->inputs[input], i);
    }
    ((uint32_t *)args->outputs[0])[input] = digest;
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kInput = {.run = run_input}, kQuantize = {.run = run_quantize}, kRelu = {.run = run_relu},
                              kReluGrad = {.run = run_relu_grad}, kAdd = {.run = run_add},
                              kErrorSum = {.run = run_error_sum}, kScaleError = {.run = run_scale_error},
                              kScaleErrorRelu = {.run = run_scale_error_relu},
                              kSquaredError = {.run = run_squared_error}, kUpdate = {.run = run_update},
                              kMomentum = {.run = run_momentum}, kDigest = {.run = run_digest},
                              kMagnitude = {.run = run_magnitude};

static const braid_kernel kKernels[] = {
    {.op = "IntegerAdd", .name = "ref_integer_add", .in_place = 3, .implementation = &kAdd},
    {.op = "IntegerDigest", .name = "ref_integer_digest", .implementation = &kDigest},
    {.op = "IntegerErrorSum", .name = "ref_integer_error_sum", .implementation = &kErrorSum},
    {.op = "IntegerInput", .name = "ref_integer_input", .implementation = &kInput},
    {.op = "IntegerMagnitude", .name = "ref_integer_magnitude", .implementation = &kMagnitude},
    {.op = "IntegerMomentum",
     .name = "ref_integer_momentum",
     .in_place = 1u << 0,
     .in_place_more = {1u << 1},
     .implementation = &kMomentum},
    {.op = "IntegerQuantize", .name = "ref_integer_quantize", .implementation = &kQuantize},
    {.op = "IntegerRelu", .name = "ref_integer_relu", .in_place = 1, .implementation = &kRelu},
    {.op = "IntegerReluGrad", .name = "ref_integer_relu_grad", .in_place = 3, .implementation = &kReluGrad},
    {.op = "IntegerScaleError", .name = "ref_integer_scale_error", .implementation = &kScaleError},
    {.op = "IntegerScaleErrorRelu", .name = "ref_integer_scale_error_relu", .implementation = &kScaleErrorRelu},
    {.op = "IntegerSquaredError", .name = "ref_integer_squared_error", .implementation = &kSquaredError},
    {.op = "IntegerUpdate", .name = "ref_integer_update", .in_place = 1, .implementation = &kUpdate},
};

const braid_cpu_table braid_cpu_plain_integer = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
