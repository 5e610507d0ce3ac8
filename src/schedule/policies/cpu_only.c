/* All on the CPUs, as far as they can. */
#include "schedule/policy.h"

static braid_status cpu_only_choose(const braid_choosing *choosing, braid_choices *choices) {
  return braid_choose_class(choosing, BRAID_CLASS_CPU, choices);
}

const braid_policy braid_policy_cpu_only = {
    .name = "cpu-only",
    .summary =
        "everything on the CPUs; what they cannot run, and without a CPU everything, by earliest end over all devices",
    .choose = cpu_only_choose,
};
