/* Times of the two compilers, and what they estimate: ResNet-50, VGG16 and MobileNet v1 of 224 x 224 with random
 * weights, for the design with 16 cores (platforms/overlay/cnn-16x512.yaml).
 *
 *   build/bench/compiler_bench */
#include <stdio.h>

#include "base/clock.h"
#include "overlay/compiler/bench_networks.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/design.h"

enum { kRepeats = 200 };

static void bench_dynamic(const braid_package *package, const braid_overlay_design *design) {
  static const int kCores[] = {1, 2, 3, 4, 6, 8, 12, 16};
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  double alone = 0;
  for (size_t k = 0; k < sizeof kCores / sizeof *kCores; k++) {
    double best = 1e9;
    size_t bytes = 0;
    for (int repeat = 0; repeat < kRepeats; repeat++) {
      double begin = (double)braid_now_ns();
      if (braid_programs_make(package, kCores[k], 0, &programs) != BRAID_OK) return;
      double us = ((double)braid_now_ns() - begin) / 1e3;
      if (us < best) best = us;
    }
    for (int c = 0; c < kCores[k]; c++) bytes += programs.core[c].bytes;
    double ms = (double)programs.cycles / design->clock_mhz / 1e3;
    if (kCores[k] == 1) alone = ms;
    printf("  %2d cores: %7.1f us for %8zu bytes; %8.3f ms an image, %5.1f %% more than its share, %.2f %% over the "
           "bound\n",
           kCores[k], best, bytes, ms, 100 * (ms * kCores[k] / alone - 1),
           100 * ((double)programs.cycles / (double)programs.bound - 1));
  }
  braid_programs_deinit(&programs);
}

static int bench(const struct bench_model *model, const braid_overlay_design *design) {
  bench_network *n = bench_network_create(model);
  braid_package *package;
  int64_t macs = 0;
  if (!n) return 1;
  for (size_t l = 0; l < n->network.layer_count; l++) macs += braid_overlay_macs(&n->network, &n->layers[l]);
  double begin = (double)braid_now_ns();
  braid_status status = braid_package_compile(&n->network, design, NULL, &package);
  double ms = ((double)braid_now_ns() - begin) / 1e6;
  if (status != BRAID_OK) {
    printf("%s: %s\n", model->name, braid_error_detail());
    return 1;
  }
  double bound = (double)macs / (double)braid_overlay_core_products(design) / design->clock_mhz / 1e3;
  printf("%s: %zu layers, %.2f G multiply-accumulates (%.2f ms of one core at least); compiled in %.1f ms: %zu "
         "tilings, %zu tiles, %.1f MB "
         "of instructions, %.1f MB of constants, %.1f MB of maps\n",
         model->name, package->layer_count, (double)macs / 1e9, bound, ms, package->tiling_count, package->tile_count,
         (double)package->instruction_bytes / 1e6, (double)package->bytes[BRAID_SEGMENT_CONSTANTS] / 1e6,
         (double)package->bytes[BRAID_SEGMENT_FEATURES] / 1e6);
  bench_dynamic(package, design);
  braid_package_destroy(package);
  bench_network_destroy(n);
  return 0;
}

int main(void) {
  const braid_overlay_design *design;
  if (braid_overlay_design_load(NULL, "cnn-16x512", &design) != BRAID_OK) {
    printf("%s\n", braid_error_detail());
    return 1;
  }
  int failed = 0;
  for (int m = 0; m < BENCH_MODELS; m++) failed += bench(&bench_models[m], design);
  braid_overlay_design_destroy(design);
  return failed != 0;
}
