/* Scales and zero points of quantized operands, read when a kernel runs. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_SCALES_H
#define BRAID_BACKEND_CPU_QUANTIZED_SCALES_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/quantized/requantize_isa.h"

/* The operand at `at` is followed by its scale and zero point (BRAID_BYTES_INPUT), or, for results, these two stand at
 * `at` and behind it. One number each; without a zero point that is 0. */
braid_bytes_scale braid_bytes_scale_of(const braid_node_desc *node, const braid_cpu_args *args, braid_dtype dtype,
                                       size_t at);
/* The result's, clamped as the node's activation says (Relu or Clip; attributes as FusedConv's). */
braid_bytes_scale braid_bytes_result_of(const braid_node_desc *node, const braid_cpu_args *args, size_t at);
/* Number `i` of a list of zero points, or the only one. */
int32_t braid_bytes_zero(const braid_node_desc *node, const braid_cpu_args *args, size_t at, int64_t i);
/* False, and why: an operand is not what the kernels of this folder take: bytes, float32 scales of one number. */
bool braid_bytes_match(const braid_node_desc *node, const size_t *operands, size_t count, size_t result, char *why,
                       size_t why_bytes);

static inline bool braid_bytes_given(const braid_node_desc *node, size_t at) {
  return at < node->input_count && node->inputs[at].present;
}

#endif
