/* LinearAttention: attention by a state that every token changes. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "base/checked.h"

typedef struct linear_state {
  braid_ref_float base;
  int64_t batch, tokens, kv_heads, share, keys, values, decays, betas; /* share: query heads of one state */
  bool gated, delta;
  double scale;
} linear_state;

#define T float
#define BRAID_REF_NAME(name) name##_f32
#include "backend/cpu/plain/recurrence_template.h"
#undef T
#undef BRAID_REF_NAME
#define T double
#define BRAID_REF_NAME(name) name##_f64
#include "backend/cpu/plain/recurrence_template.h"
#undef T
#undef BRAID_REF_NAME

static braid_status init_linear(const braid_node_desc *node, void *self) {
  linear_state *s = self;
  const braid_desc *q = &node->inputs[0].desc, *v = &node->inputs[2].desc;
  const char *rule = braid_attr_string(node->attrs, "update_rule", "gated_delta");
  int64_t q_heads = braid_attr_int(node->attrs, "q_num_heads", 1);
  s->kv_heads = braid_attr_int(node->attrs, "kv_num_heads", 1);
  s->batch = q->dims[0];
  s->tokens = q->dims[1];
  s->share = q_heads / s->kv_heads;
  s->keys = q->dims[2] / q_heads;
  s->values = v->dims[2] / s->kv_heads;
  s->gated = strstr(rule, "gated") != NULL;
  s->delta = strstr(rule, "delta") != NULL;
  s->decays = s->gated ? node->inputs[4].desc.dims[2] : 0;
  s->betas = s->delta ? node->inputs[5].desc.dims[2] : 0;
  s->scale = braid_attr_float(node->attrs, "scale", 0);
  if (s->scale == 0) s->scale = 1 / sqrt((double)s->keys);
  size_t bytes;
  if (!braid_mul_size((size_t)(s->keys * s->values + s->values), sizeof(double), &bytes) ||
      !braid_mul_size(bytes, (size_t)(s->batch * s->kv_heads), &s->base.scratch_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its states overflow");
  return BRAID_OK;
}

BRAID_REF_KERNEL(kLinear, linear_attention, linear_state, init_linear)

static const braid_kernel kKernels[] = {
    {.op = "LinearAttention",
     .name = "ref_linear_attention",
     .match = braid_ref_match_float,
     .implementation = &kLinear},
};

extern const braid_cpu_table braid_cpu_plain_recurrence;
const braid_cpu_table braid_cpu_plain_recurrence = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
