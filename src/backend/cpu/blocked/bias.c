/* BiasGrad on float32 in blocks of 16 channels, the layout of the convolutions around it: a plane is summed in float,
 * the planes of a channel in double, in one order whatever the number of threads. */
#include <stdio.h>

#include "backend/cpu/blocked/planes_isa.h"
#include "backend/cpu/cpu.h"

enum { kLanes = BRAID_BLOCKED_LANES, kLeastChannels = 16 };

static braid_status bias_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *dy = &node->inputs[0].desc;
  int64_t blocks = (dy->dims[1] + kLanes - 1) / kLanes, places = 1;
  for (int i = 2; i < dy->rank; i++) places *= dy->dims[i];
#pragma omp parallel for schedule(dynamic)
  for (int64_t block = 0; block < blocks; block++) {
    double sums[kLanes] = {0};
    for (int64_t b = 0; b < dy->dims[0]; b++)
      BRAID_ISA_CALL(braid_blocked_add_plane, (const float *)args->inputs[0] + (b * blocks + block) * places * kLanes,
                     places, sums);
    for (int64_t i = 0; i < kLanes && block * kLanes + i < dy->dims[1]; i++)
      ((float *)args->outputs[0])[block * kLanes + i] = (float)sums[i];
  }
  return BRAID_OK;
}

static bool bias_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *dy = &node->inputs[0].desc;
  const char *reason = NULL;
  if (dy->dtype != BRAID_F32)
    reason = "float32 only";
  else if (dy->rank < 3 || dy->dims[1] < kLeastChannels)
    reason = "no image of at least 16 channels";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

static void bias_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  (void)node;
  inputs[0] = BRAID_LAYOUT_BLOCKED16;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

static const braid_cpu_kernel kBias = {.run = bias_run};

static const braid_kernel kKernels[] = {
    {.op = "BiasGrad",
     .name = "blocked_bias_grad",
     .match = bias_match,
     .layouts = bias_layouts,
     .implementation = &kBias},
};

const braid_cpu_table braid_cpu_blocked_bias = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
