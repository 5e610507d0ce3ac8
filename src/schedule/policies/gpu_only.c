/* All on the GPUs, as far as they can; without a GPU, by earliest end over all devices: what the other policies are
 * compared with. */
#include "schedule/policy.h"

static braid_status gpu_only_choose(const braid_choosing *choosing, braid_choices *choices) {
  return braid_choose_class(choosing, BRAID_CLASS_GPU, choices);
}

const braid_policy braid_policy_gpu_only = {
    .name = "gpu-only",
    .summary =
        "everything on the GPUs; what they cannot run, and without a GPU everything, by earliest end over all devices",
    .choose = gpu_only_choose,
};
