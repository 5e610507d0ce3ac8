#include "launch/recipe.h"

/* Fitted to an NVIDIA H200, where over the shapes of cl_kernels_bench --sweep the choice reaches 0.96 of the best tile
 * and slices, and never less than 0.91; of other GPUs' figures only the relations matter. load_alone is by counts of
 * instructions, not fitted. */
static const braid_launch_tile_model kH200 = {.lanes = 128,
                                              .resident = 1024,
                                              .step_wait = 600,
                                              .read_of_four = 1,
                                              .load_in_fours = 10,
                                              .load_alone = 24,
                                              .join = 12000,
                                              .join_element = 0.5,
                                              .most_slices = 16};

static const braid_launch_tuning kCpu = {.group = 64, .tile_group = 64};
/* Large tiles have 64 sums for a work-item. Beside so many there are no registers for twice eight elements on their way
 * that are looked up one by one. */
static const braid_launch_tuning kGpu = {.group = 256,
                                         .tile_group = 256,
                                         .tiles = {{128, 128, 16, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}},
                                         .window_depth = 8,
                                         .unrolls = true,
                                         .model = &kH200};
static const braid_launch_tuning kFpga = {.group = 256, .tile_group = 256};

void braid_launch_tune(braid_launch_traits *traits, const braid_launch_knobs *knobs) {
  if (knobs->as_cpu || knobs->as_gpu || knobs->as_fpga) {
    traits->cpu = knobs->as_cpu;
    traits->gpu = knobs->as_gpu;
    traits->fpga = knobs->as_fpga;
  }
  traits->knobs = *knobs;
  traits->tuning = traits->cpu ? &kCpu : traits->gpu ? &kGpu : &kFpga;
}
