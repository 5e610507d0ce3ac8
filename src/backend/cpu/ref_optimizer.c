/* Optimizer steps: see graph/ops/optimizer.c for what they compute. float32 and float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"

static double read_number(const braid_operand *operand, const void *data) {
  switch (operand->desc.dtype) {
  case BRAID_F32:
    return *(const float *)data;
  case BRAID_F64:
    return *(const double *)data;
  case BRAID_I64:
    return (double)*(const int64_t *)data;
  case BRAID_I32:
    return *(const int32_t *)data;
  default:
    return NAN;
  }
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  if (dtype == BRAID_F32 || dtype == BRAID_F64) return true;
  snprintf(why, why_bytes, "%s parameters, float32 and float64 only", braid_dtype_name(dtype));
  return false;
}

static const void *input(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return index < node->input_count && node->inputs[index].present ? args->inputs[index] : NULL;
}

/* Is the update to be left out? */
static bool is_guarded(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  const void *guard = input(node, args, index);
  return guard && !isfinite(read_number(&node->inputs[index], guard));
}

static void keep(const braid_node_desc *node, const braid_cpu_args *args, const size_t *sources) {
  for (size_t i = 0; i < node->output_count; i++)
    if (args->outputs[i] && args->outputs[i] != args->inputs[sources[i]])
      memcpy(args->outputs[i], args->inputs[sources[i]], braid_desc_bytes(&node->outputs[i].desc));
}

/* --- SGD -----------------------------------------------------------------------------------------------------------
 */
#define DEFINE_SGD(type)                                                                                               \
  static void sgd_##type(int64_t count, const type *p, const type *g, const type *m, type *p_out, type *m_out,         \
                         type rate, type momentum, type decay, bool nesterov) {                                        \
    _Pragma("omp parallel for simd schedule(static)") for (int64_t i = 0; i < count; i++) {                            \
      type step = g[i] + decay * p[i];                                                                                 \
      if (m) {                                                                                                         \
        type kept = momentum * m[i] + step;                                                                            \
        m_out[i] = kept;                                                                                               \
        step = nesterov ? step + momentum * kept : kept;                                                               \
      }                                                                                                                \
      p_out[i] = p[i] - rate * step;                                                                                   \
    }                                                                                                                  \
  }

DEFINE_SGD(float)
DEFINE_SGD(double)

static braid_status run_sgd(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  if (is_guarded(node, args, 4)) {
    keep(node, args, (const size_t[]){0, 3});
    return BRAID_OK;
  }
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  double rate = read_number(&node->inputs[2], args->inputs[2]);
  double momentum = braid_attr_float(node->attrs, "momentum", 0);
  double decay = braid_attr_float(node->attrs, "weight_decay", 0);
  bool nesterov = braid_attr_int(node->attrs, "nesterov", 0) != 0;
  const void *m = input(node, args, 3);
  void *m_out = m && node->output_count > 1 ? args->outputs[1] : NULL;
  if (node->inputs[0].desc.dtype == BRAID_F32)
    sgd_float(count, args->inputs[0], args->inputs[1], m_out ? m : NULL, args->outputs[0], m_out, (float)rate,
              (float)momentum, (float)decay, nesterov);
  else
    sgd_double(count, args->inputs[0], args->inputs[1], m_out ? m : NULL, args->outputs[0], m_out, rate, momentum,
               decay, nesterov);
  return BRAID_OK;
}

/* --- Adam ----------------------------------------------------------------------------------------------------------
 */
typedef struct adam {
  double rate, beta1, beta2, epsilon, decay, correction1, root2;
  bool decoupled;
} adam;

#define DEFINE_ADAM(type, root)                                                                                        \
  static void adam_##type(int64_t count, const adam *a, const type *p, const type *g, const type *m, const type *v,    \
                          type *p_out, type *m_out, type *v_out) {                                                     \
    const type beta1 = (type)a->beta1, beta2 = (type)a->beta2, epsilon = (type)a->epsilon;                             \
    const type rate = (type)(a->rate / a->correction1), root2 = (type)a->root2;                                        \
    const type shrink = a->decoupled ? (type)(1 - a->rate * a->decay) : 1, decay = a->decoupled ? 0 : (type)a->decay;  \
    _Pragma("omp parallel for simd schedule(static)") for (int64_t i = 0; i < count; i++) {                            \
      type gradient = g[i] + decay * p[i];                                                                             \
      type first = beta1 * m[i] + (1 - beta1) * gradient;                                                              \
      type second = beta2 * v[i] + (1 - beta2) * gradient * gradient;                                                  \
      m_out[i] = first;                                                                                                \
      v_out[i] = second;                                                                                               \
      p_out[i] = shrink * p[i] - rate * first / (root(second) / root2 + epsilon);                                      \
    }                                                                                                                  \
  }

DEFINE_ADAM(float, sqrtf)
DEFINE_ADAM(double, sqrt)

static braid_status run_adam(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  if (is_guarded(node, args, 6)) {
    keep(node, args, (const size_t[]){0, 3, 4});
    return BRAID_OK;
  }
  double number = read_number(&node->inputs[5], args->inputs[5]);
  adam a = {.rate = read_number(&node->inputs[2], args->inputs[2]),
            .beta1 = braid_attr_float(node->attrs, "beta1", 0.9),
            .beta2 = braid_attr_float(node->attrs, "beta2", 0.999),
            .epsilon = braid_attr_float(node->attrs, "epsilon", 1e-8),
            .decay = braid_attr_float(node->attrs, "weight_decay", 0),
            .decoupled = braid_attr_int(node->attrs, "decoupled", 0) != 0};
  a.correction1 = 1 - pow(a.beta1, number);
  a.root2 = sqrt(1 - pow(a.beta2, number));
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  if (node->inputs[0].desc.dtype == BRAID_F32)
    adam_float(count, &a, args->inputs[0], args->inputs[1], args->inputs[3], args->inputs[4], args->outputs[0],
               args->outputs[1], args->outputs[2]);
  else
    adam_double(count, &a, args->inputs[0], args->inputs[1], args->inputs[3], args->inputs[4], args->outputs[0],
                args->outputs[1], args->outputs[2]);
  return BRAID_OK;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kSgd = {.run = run_sgd}, kAdam = {.run = run_adam};

static const braid_kernel kKernels[] = {
    {.op = "SgdUpdate",
     .name = "ref_sgd",
     .match = match,
     .in_place = 1u << 0 | 1u << 1,
     .in_place_more = {1u << 3},
     .implementation = &kSgd},
    {.op = "AdamUpdate",
     .name = "ref_adam",
     .match = match,
     .in_place = 1u << 0 | 1u << 1,
     .in_place_more = {1u << 3, 1u << 4},
     .implementation = &kAdam},
};

const braid_cpu_table braid_cpu_ref_optimizer = {kKernels, sizeof kKernels / sizeof *kKernels};
