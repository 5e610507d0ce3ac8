/* How fast the timing simulator is, and what it says beside the compiler's estimate: ResNet-50, VGG16 and MobileNet v1
 * of 224 x 224, cnn-16x512. `--table`: as rows for docs/overlay.md.
 *
 *   build/bench/timing_bench */
#include <stdio.h>
#include <string.h>

#include "overlay/compiler/bench_networks.h"
#include "overlay/compiler/package.h"

/* ONNXim's README (github.com/PSAL-POSTECH/ONNXim, img/ONNXim_demo.png) shows a run of ResNet-18 on four cores of a
 * TPUv4: the simulation starts at 04.527 s and is at cycle 766,953 at 07.034 s. */
static const double kOnnximCycles = 766953 / (7.034 - 4.527), kGoal = 5e6;
enum { kOnnximCores = 4, kRepeats = 5 };

/* Without fetching: all instructions fit the card's memory for them. */
static int64_t cycles_resident(const braid_package *package, const braid_overlay_design *design, int cores) {
  braid_overlay_design large = *design;
  braid_overlay_simulated t;
  large.instruction_bytes = 1 << 30;
  return braid_overlay_simulate(package, &large, cores, &t) == BRAID_OK ? t.cycles : 1;
}

static int bench_cores(const braid_package *package, const braid_overlay_design *design, int cores, bool table) {
  braid_overlay_simulated t;
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; repeat++) {
    if (braid_overlay_simulate(package, design, cores, &t) != BRAID_OK) {
      printf("%s\n", braid_error_detail());
      return 1;
    }
    if (t.host_seconds < best) best = t.host_seconds;
  }
  double speed = (double)t.cycles / best, over = 100 * ((double)t.cycles / (double)t.estimate - 1);
  double fetching = 100 * ((double)t.cycles / (double)cycles_resident(package, design, cores) - 1);
  const char *format =
      table ? "| %d | %lld | %.2f | %+.1f %% | %.2f MB | %+.2f %% | %.3f + %.3f | %.0f | %.0f |\n"
            : "  %2d cores: %10lld cycles, %8.2f ms, %+5.1f %% over the estimate; instructions %5.2f MB, "
              "whose fetching costs %+.2f %%; a switch %.3f ms (measured) + %.3f ms (modelled); simulated "
              "%.1f M cycles/s, of a core %.1f M\n";
  printf(format, cores, (long long)t.cycles, t.seconds * 1e3, over, (double)t.program_bytes / 1e6, fetching,
         t.compile_microseconds / 1e3, t.transfer_seconds * 1e3, speed / 1e6, speed * cores / 1e6);
  return speed < kGoal;
}

static int bench(const struct bench_model *model, const braid_overlay_design *design, bool table) {
  bench_network *n = bench_network_create(model);
  braid_package *package = NULL;
  if (!n) return 1;
  int slow = 0;
  printf("%s\n", model->name);
  if (braid_package_compile(&n->network, design, NULL, &package) == BRAID_OK)
    for (int cores = 1; cores <= design->cores; cores *= 2) slow += bench_cores(package, design, cores, table);
  else
    printf("%s\n", braid_error_detail());
  braid_package_destroy(package);
  bench_network_destroy(n);
  return slow;
}

int main(int argc, char **argv) {
  const braid_overlay_design *design;
  bool table = argc > 1 && strcmp(argv[1], "--table") == 0;
  int slow = 0;
  if (braid_overlay_design_load(NULL, "cnn-16x512", &design) != BRAID_OK) {
    printf("%s\n", braid_error_detail());
    return 1;
  }
  for (int m = 0; m < BENCH_MODELS; m++) slow += bench(&bench_models[m], design, table);
  printf(
      "%s\nONNXim shows %.2f M cycles/s with four cores, %.2f M of a core: another machine, larger cores, and cycles\n"
      "of a network on the chip and of DRAM's own timing, which are not modelled here\n",
      slow ? "slower than the goal of 5 M cycles/s" : "not slower than the goal of 5 M cycles/s", kOnnximCycles / 1e6,
      kOnnximCycles * kOnnximCores / 1e6);
  braid_overlay_design_destroy(design);
  return slow != 0;
}
