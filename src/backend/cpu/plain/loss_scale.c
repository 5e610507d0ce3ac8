/* GradientGuard and LossScaleUpdate: see graph/ops/optimizer.c for what they compute. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "tensor/half.h"

/* --- the guard -----------------------------------------------------------------------------------------------------
 */
/* Is an exponent all ones? `bits` is of unsigned numbers, `mask` the exponent. */
#define ANY_INFINITE(type, mask)                                                                                       \
  do {                                                                                                                 \
    const type *bits = data;                                                                                           \
    int found = 0;                                                                                                     \
    _Pragma("omp parallel for simd schedule(static) reduction(| : found) if (count > 1 << 16)") for (int64_t i = 0;    \
                                                                                                     i < count; i++)   \
        found |= (bits[i] & (type)(mask)) == (type)(mask);                                                             \
    return found != 0;                                                                                                 \
  } while (0)

/* Padding, which is zero, does not hurt. */
static bool has_infinite(const braid_desc *desc, const void *data) {
  int64_t count = (int64_t)(braid_desc_bytes(desc) / braid_dtype_size(desc->dtype));
  switch (desc->dtype) {
  case BRAID_F16:
    ANY_INFINITE(uint16_t, 0x7c00);
  case BRAID_BF16:
    ANY_INFINITE(uint16_t, 0x7f80);
  case BRAID_F32:
    ANY_INFINITE(uint32_t, 0x7f800000);
  default: /* infer lets no other through */
    ANY_INFINITE(uint64_t, 0x7ff0000000000000);
  }
}

static braid_status run_guard(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  bool found = false;
  for (size_t i = 0; !found && i < node->input_count; i++) found = has_infinite(&node->inputs[i].desc, args->inputs[i]);
  *(float *)args->outputs[0] = found ? NAN : 0;
  return BRAID_OK;
}

/* What is looked at may lie as it likes. */
static void guard_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++)
    if (inputs[i] == BRAID_LAYOUT_ANY) inputs[i] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

/* --- the scale -----------------------------------------------------------------------------------------------------
 */
static braid_status run_scale(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  static const float kLeast = 1, kMost = 1 << 24;
  (void)state;
  float scale = *(const float *)args->inputs[0];
  int64_t steps = *(const int64_t *)args->inputs[1];
  bool last = node->input_count < 4 || !node->inputs[3].present || *(const float *)args->inputs[3] != 0;
  if (last && isfinite(*(const float *)args->inputs[2])) {
    steps = steps < 0 ? 0 : steps;
    if (steps >= braid_attr_int(node->attrs, "interval", 2000) - 1) {
      steps = 0;
      scale = scale < kMost / 2 ? 2 * scale : kMost;
    } else {
      steps++;
    }
  } else if (last) {
    steps = steps >= 0 ? -1 : steps > -INT64_MAX ? steps - 1 : steps;
    scale = scale > 2 * kLeast ? scale / 2 : kLeast;
  }
  *(float *)args->outputs[0] = scale;
  *(int64_t *)args->outputs[1] = steps;
  return BRAID_OK;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kGuard = {.run = run_guard}, kScale = {.run = run_scale};

static const braid_kernel kKernels[] = {
    {.op = "GradientGuard", .name = "ref_guard", .layouts = guard_layouts, .implementation = &kGuard},
    {.op = "LossScaleUpdate",
     .name = "ref_loss_scale",
     .in_place = 1u << 0,
     .in_place_more = {1u << 1},
     .implementation = &kScale},
};

extern const braid_cpu_table braid_cpu_plain_loss_scale;
const braid_cpu_table braid_cpu_plain_loss_scale = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
