/* Optimizer steps: see graph/ops/optimizer.c for what they compute. The 16-bit types are computed in float. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "tensor/half.h"
#include "tensor/layout.h"

typedef enum step_kind { STEP_SGD, STEP_ADAM, STEP_ONNX_MOMENTUM, STEP_ONNX_ADAGRAD, STEP_ONNX_ADAM } step_kind;

/* The numbers of one step; what does not concern its kind is 0. */
typedef struct step {
  step_kind kind;
  double rate, momentum, decay, beta1, beta2, epsilon, correction1, root2, shrink;
  bool nesterov, decoupled;
} step;

#define SAME(value) (value)

#define T float
#define C float
#define NAME(stem) stem##_f32
#define ROOT sqrtf
#define LOAD SAME
#define STORE SAME
#include "backend/cpu/plain/optimizer_template.h"
#undef T
#undef NAME
#undef LOAD
#undef STORE
#define T uint16_t
#define NAME(stem) stem##_f16
#define LOAD braid_f16_to_f32
#define STORE braid_f32_to_f16
#include "backend/cpu/plain/optimizer_template.h"
#undef NAME
#undef LOAD
#undef STORE
#define NAME(stem) stem##_bf16
#define LOAD braid_bf16_to_f32
#define STORE braid_f32_to_bf16
#include "backend/cpu/plain/optimizer_template.h"
#undef T
#undef C
#undef NAME
#undef ROOT
#undef LOAD
#undef STORE
#define T double
#define C double
#define NAME(stem) stem##_f64
#define ROOT sqrt
#define LOAD SAME
#define STORE SAME
#include "backend/cpu/plain/optimizer_template.h"

static void run_step(const step *s, const braid_desc *desc, const void *const *operands, void *const *results) {
  int64_t count = (int64_t)(braid_desc_bytes(desc) / braid_dtype_size(desc->dtype)); /* padding too */
  switch (desc->dtype) {
  case BRAID_F32:
    run_f32(s, count, operands, results);
    return;
  case BRAID_F16:
    run_f16(s, count, operands, results);
    return;
  case BRAID_BF16:
    run_bf16(s, count, operands, results);
    return;
  default: /* infer lets no other through */
    run_f64(s, count, operands, results);
    return;
  }
}

/* --- masters -------------------------------------------------------------------------------------------------------
 * Parameters of float32 with what is 16-bit about them: the gradient, and a copy that is rounded anew. Block by block,
 * so that a block's gradient as float32 stays in the cache. */
enum { kBlock = 2048 };

typedef struct masters {
  braid_dtype gradient, copied; /* copied: BRAID_NONE without a copy */
  float unscale;                /* gradients times this */
} masters;

static void widen_block(const masters *m, const void *from, int64_t at, int64_t count, float *to) {
  const uint16_t *half = (const uint16_t *)from + at;
  if (m->gradient == BRAID_F16)
    for (int64_t i = 0; i < count; i++) to[i] = braid_f16_to_f32(half[i]);
  else if (m->gradient == BRAID_BF16)
    for (int64_t i = 0; i < count; i++) to[i] = braid_bf16_to_f32(half[i]);
  else
    memcpy(to, (const float *)from + at, (size_t)count * sizeof *to);
  if (m->unscale != 1)
    for (int64_t i = 0; i < count; i++) to[i] *= m->unscale;
}

static void round_block(const masters *m, const float *from, int64_t count, uint16_t *to) {
  if (m->copied == BRAID_F16)
    for (int64_t i = 0; i < count; i++) to[i] = braid_f32_to_f16(from[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = braid_f32_to_bf16(from[i]);
}

/* operands: parameter, gradient, states; results: parameter, states. */
static void run_masters(const step *s, const masters *m, int64_t count, const void *const *operands,
                        void *const *results, uint16_t *copy) {
  int64_t blocks = (count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t b = 0; b < blocks; b++) {
    float gradient[kBlock];
    int64_t at = b * kBlock, here = count - at < kBlock ? count - at : kBlock;
    const void *from[4] = {NULL};
    void *to[3] = {NULL};
    for (size_t i = 0; i < 4; i++) from[i] = operands[i] ? (const float *)operands[i] + at : NULL;
    for (size_t i = 0; i < 3; i++) to[i] = results[i] ? (float *)results[i] + at : NULL;
    widen_block(m, operands[1], at, here, gradient);
    from[1] = gradient;
    run_f32(s, here, from, to);
    if (copy) round_block(m, to[0], here, copy + at);
  }
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
static double read_number(const braid_operand *operand, const void *data) {
  switch (operand->desc.dtype) {
  case BRAID_F32:
    return *(const float *)data;
  case BRAID_F64:
    return *(const double *)data;
  case BRAID_F16:
    return braid_f16_to_f32(*(const uint16_t *)data);
  case BRAID_BF16:
    return braid_bf16_to_f32(*(const uint16_t *)data);
  case BRAID_I64:
    return (double)*(const int64_t *)data;
  default: /* infer lets no other through */
    return *(const int32_t *)data;
  }
}

static double number(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return read_number(&node->inputs[index], args->inputs[index]);
}

static const void *input(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return index < node->input_count && node->inputs[index].present ? args->inputs[index] : NULL;
}

static void *output(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return index < node->output_count && node->outputs[index].present ? args->outputs[index] : NULL;
}

/* Is the update to be left out? */
static bool is_guarded(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return input(node, args, index) && !isfinite(number(node, args, index));
}

static void keep(const braid_node_desc *node, const braid_cpu_args *args, const size_t *sources) {
  for (size_t i = 0; i < node->output_count; i++)
    if (output(node, args, i) && args->outputs[i] != args->inputs[sources[i]])
      memcpy(args->outputs[i], args->inputs[sources[i]], braid_desc_bytes(&node->outputs[i].desc));
}

/* --- steps of trainings --------------------------------------------------------------------------------------------
 */
/* `scale`: the input that the gradient is divided by; the copy is the one behind it, and the last output. */
static void run_update(const braid_node_desc *node, const braid_cpu_args *args, const step *s,
                       const void *const operands[4], void *const results[3], size_t scale) {
  const braid_desc *parameter = &node->inputs[0].desc;
  bool scaled = input(node, args, scale) != NULL, copied = input(node, args, scale + 1) != NULL;
  masters m = {.gradient = node->inputs[1].desc.dtype, .copied = BRAID_NONE, .unscale = 1};
  if (!scaled && !copied && m.gradient == parameter->dtype) {
    run_step(s, parameter, operands, results);
    return;
  }
  if (scaled) m.unscale = 1 / (float)number(node, args, scale);
  if (copied) m.copied = node->inputs[scale + 1].desc.dtype;
  run_masters(s, &m, (int64_t)(braid_desc_bytes(parameter) / sizeof(float)), operands, results,
              copied ? output(node, args, node->output_count - 1) : NULL);
}

static braid_status run_sgd(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  if (is_guarded(node, args, 4)) {
    keep(node, args, (const size_t[]){0, 3, 6});
    return BRAID_OK;
  }
  const void *kept = input(node, args, 3);
  step s = {.kind = STEP_SGD,
            .rate = number(node, args, 2),
            .momentum = braid_attr_float(node->attrs, "momentum", 0),
            .decay = braid_attr_float(node->attrs, "weight_decay", 0),
            .nesterov = braid_attr_int(node->attrs, "nesterov", 0) != 0};
  run_update(node, args, &s, (const void *const[4]){args->inputs[0], args->inputs[1], kept},
             (void *const[3]){args->outputs[0], kept ? output(node, args, 1) : NULL}, 5);
  return BRAID_OK;
}

static braid_status run_adam(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  if (is_guarded(node, args, 6)) {
    keep(node, args, (const size_t[]){0, 3, 4, 8});
    return BRAID_OK;
  }
  double done = number(node, args, 5);
  step s = {.kind = STEP_ADAM,
            .rate = number(node, args, 2),
            .beta1 = braid_attr_float(node->attrs, "beta1", 0.9),
            .beta2 = braid_attr_float(node->attrs, "beta2", 0.999),
            .epsilon = braid_attr_float(node->attrs, "epsilon", 1e-8),
            .decay = braid_attr_float(node->attrs, "weight_decay", 0),
            .decoupled = braid_attr_int(node->attrs, "decoupled", 0) != 0};
  s.correction1 = 1 - pow(s.beta1, done);
  s.root2 = sqrt(1 - pow(s.beta2, done));
  run_update(node, args, &s, (const void *const[4]){args->inputs[0], args->inputs[1], args->inputs[3], args->inputs[4]},
             (void *const[3]){args->outputs[0], args->outputs[1], args->outputs[2]}, 7);
  return BRAID_OK;
}

/* --- steps of ONNX: a rate, a count of updates, then parameters, gradients and states in groups ---------------------
 */
static step read_onnx(const braid_node_desc *node, const braid_cpu_args *args) {
  const braid_attrs *attrs = node->attrs;
  double rate = number(node, args, 0), updates = number(node, args, 1);
  step s = {.rate = rate,
            .decay = braid_attr_float(attrs, "norm_coefficient", 0),
            .epsilon = braid_attr_float(attrs, "epsilon", (double)1e-6f),
            .beta1 = braid_attr_float(attrs, "alpha", 0.9),
            .beta2 = braid_attr_float(attrs, "beta", 0.999),
            .shrink = 1 - braid_attr_float(attrs, "norm_coefficient_post", 0)};
  if (strstr(node->op, "Momentum")) {
    s.kind = STEP_ONNX_MOMENTUM;
    s.nesterov = strcmp(braid_attr_string(attrs, "mode", "standard"), "nesterov") == 0;
    if (updates <= 0) s.beta2 = 1;
  } else if (strstr(node->op, "Adagrad")) {
    s.kind = STEP_ONNX_ADAGRAD;
    s.rate = rate / (1 + updates * braid_attr_float(attrs, "decay_factor", 0));
  } else {
    s.kind = STEP_ONNX_ADAM;
    if (updates > 0) s.rate = rate * sqrt(1 - pow(s.beta2, updates)) / (1 - pow(s.beta1, updates));
  }
  return s;
}

static braid_status run_onnx(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  step s = read_onnx(node, args);
  size_t groups = s.kind == STEP_ONNX_ADAM ? 4 : 3, tensors = (node->input_count - 2) / groups;
  for (size_t i = 0; i < tensors; i++) {
    const void *operands[4] = {NULL};
    void *results[3] = {NULL};
    for (size_t g = 0; g < groups; g++) operands[g] = args->inputs[2 + g * tensors + i];
    for (size_t g = 0; g + 1 < groups; g++) results[g] = args->outputs[g * tensors + i];
    run_step(&s, &node->inputs[2 + i].desc, operands, results);
  }
  return BRAID_OK;
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* Everything of the parameter's shape lies as the parameter does: an update is element by element, and computes zeros
 * from zeros, so padding stays zero, but for Adam without an epsilon, where 0 is divided by 0. */
static void optimizer_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_desc parameter = node->inputs[0].desc;
  bool adam = strcmp(node->op, "AdamUpdate") == 0,
       divides = adam && braid_attr_float(node->attrs, "epsilon", 1e-8) <= 0;
  parameter.layout = BRAID_LAYOUT_PLAIN;
  if (inputs[0] != BRAID_LAYOUT_ANY && braid_desc_set_layout(&parameter, inputs[0]) == BRAID_OK && divides &&
      braid_desc_is_padded(&parameter))
    parameter.layout = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++) {
    bool same = node->inputs[i].present && braid_desc_same_shape(&node->inputs[i].desc, &parameter);
    inputs[i] = same ? parameter.layout : BRAID_LAYOUT_PLAIN;
  }
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = parameter.layout;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kSgd = {.run = run_sgd}, kAdam = {.run = run_adam}, kOnnx = {.run = run_onnx};

static const braid_kernel kKernels[] = {
    {.op = "SgdUpdate",
     .name = "ref_sgd",
     .layouts = optimizer_layouts,
     .in_place = 1u << 0 | 1u << 1,
     .in_place_more = {1u << 3, 1u << 6},
     .implementation = &kSgd},
    {.op = "AdamUpdate",
     .name = "ref_adam",
     .layouts = optimizer_layouts,
     .in_place = 1u << 0 | 1u << 1,
     .in_place_more = {1u << 3, 1u << 4, 1u << 8},
     .implementation = &kAdam},
    {.op = "ai.onnx.preview.training.Adagrad", .name = "ref_onnx_optimizer", .implementation = &kOnnx},
    {.op = "ai.onnx.preview.training.Adam", .name = "ref_onnx_optimizer", .implementation = &kOnnx},
    {.op = "ai.onnx.preview.training.Momentum", .name = "ref_onnx_optimizer", .implementation = &kOnnx},
};

extern const braid_cpu_table braid_cpu_plain_optimizer;
const braid_cpu_table braid_cpu_plain_optimizer = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
