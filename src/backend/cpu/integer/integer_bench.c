/* How near training in integers comes to what the processor can do: the convolutions of the VGG-like network
 * (models/vgg-tile.cfg) in the three phases of a step, in GOP/s (a multiplication and an addition are two), beside the
 * rate of the dot-product instruction alone.
 *
 *   integer_bench [THREADS [BATCH]] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "base/clock.h"
#include "graph/integer_layers.h"

static const double kSeconds = 0.3;

/* --- the instruction alone -----------------------------------------------------------------------------------------
 */
#ifdef __x86_64__
enum { kChains = 12, kTurns = 1 << 15 };

#define CHAIN(number) "vpdpbusd %%zmm31, %%zmm30, %%zmm" #number "\n\t"

__attribute__((target("avx512f,avx512vnni"))) static void peak_run(void) {
  for (int turn = 0; turn < kTurns; turn++)
    __asm__ volatile(
        CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7) CHAIN(8) CHAIN(9) CHAIN(10) CHAIN(11)
        :
        :
        : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11");
}

/* The best of several turns, as the nodes' times are. */
static double peak_gops(int threads) {
  double best = 1e9, total = 0;
  while (total < kSeconds) {
    int64_t start = braid_now_ns();
#pragma omp parallel num_threads(threads)
    peak_run();
    double seconds = (double)(braid_now_ns() - start) * 1e-9;
    best = seconds < best ? seconds : best;
    total += seconds;
  }
  return (double)threads * kTurns * kChains * 128 / best * 1e-9;
}
#endif

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
enum { kOperands = 4 };

typedef struct bench_node {
  braid_graph *graph;
  braid_node_id node;
  braid_operand operands[kOperands];
  void *memory[kOperands];
} bench_node;

static const braid_kernel *best_kernel(const char *op) {
  const braid_kernel **kernels, *found = NULL;
  size_t count;
  if (braid_cpu_list_kernels(NULL, false, &kernels, &count) != BRAID_OK) return NULL;
  for (size_t i = 0; i < count && !found; i++)
    if (strcmp(kernels[i]->op, op) == 0) found = kernels[i];
  braid_free(NULL, kernels);
  return found;
}

/* Seconds of one run, the best of several. */
static double time_node(bench_node *b, int phase) {
  const braid_node *node = &b->graph->nodes[b->node];
  const braid_kernel *kernel = best_kernel(kOps[phase]);
  size_t outputs = phase ? 2 : 1;
  braid_node_desc desc = {.op = kOps[phase],
                          .name = "n",
                          .attrs = &node->attrs,
                          .input_count = 2,
                          .output_count = outputs,
                          .inputs = b->operands,
                          .outputs = b->operands + 2};
  for (size_t i = 0; i < 2 + outputs; i++) {
    b->operands[i] = (braid_operand){true, b->graph->values[i < 2 ? node->inputs[i] : node->outputs[i - 2]].desc, NULL};
    size_t bytes = braid_desc_bytes(&b->operands[i].desc);
    b->memory[i] = braid_zalloc(NULL, bytes);
    if (!b->memory[i]) return 0;
    memset(b->memory[i], 3, bytes);
  }
  braid_cpu_prepared *prepared;
  braid_prepared_info info = {0};
  if (!kernel || braid_cpu_prepare(NULL, kernel, &desc, &prepared, &info) != BRAID_OK) return 0;
  void *workspace = braid_zalloc(NULL, info.workspace_bytes + 1);
  for (size_t i = 0; i < 2; i++) prepared->inputs[i] = b->memory[i];
  for (size_t i = 0; i < outputs; i++) prepared->outputs[i] = b->memory[2 + i];
  double best = 1e9, total = 0;
  for (int turn = 0; workspace && (turn < 2 || total < kSeconds); turn++) {
    int64_t start = braid_now_ns();
    if (braid_cpu_run(prepared, workspace) != BRAID_OK) break;
    double seconds = (double)(braid_now_ns() - start) * 1e-9;
    best = seconds < best ? seconds : best;
    total += seconds;
  }
  braid_free(NULL, workspace);
  braid_cpu_discard(prepared);
  return best;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
  int64_t batch = argc > 2 ? atoi(argv[2]) : 128;
  if (threads < 1 || batch < 1) return 1;
  omp_set_num_threads(threads);
  double peak = 0, work = 0, spent = 0, phase_work[kPhases] = {0}, phase_spent[kPhases] = {0};
#ifdef __x86_64__
  if (braid_isa_current() == BRAID_ISA_VNNI) peak = peak_gops(threads);
#endif
  printf("%s, %d threads, the instruction alone: %.0f GOP/s\n", braid_isa_name(braid_isa_current()), threads, peak);
  printf("%8s %20s %20s %20s\n", "", "forward", "error of the input", "gradient of weights");
  for (int l = 0; l < kLayerCount; l++) {
    const layer *each = &kLayers[l];
    double gop = 2e-9 * (double)(batch * each->channels * each->filters) *
                 (each->size ? 9 * (double)(each->size * each->size) : 1);
    printf("%8s", each->name);
    for (int phase = 0; phase < kPhases; phase++) {
      bench_node b = {.graph = NULL};
      if (l == 0 && phase == 1) { /* nothing stands before the first layer */
        printf("%21s", "-");
        continue;
      }
      double seconds = add_layer(each, batch, phase, &b.graph, &b.node) == BRAID_OK ? time_node(&b, phase) : 0;
      if (seconds <= 0) return fprintf(stderr, "%s: %s\n", kOps[phase], braid_error_detail()), 1;
      printf(" %8.2f ms %4.0f GOP/s", seconds * 1e3, seconds > 0 ? gop / seconds : 0);
      work += gop, spent += seconds;
      phase_work[phase] += gop, phase_spent[phase] += seconds;
      for (int i = 0; i < kOperands; i++) braid_free(NULL, b.memory[i]);
      braid_graph_destroy(b.graph);
    }
    printf("\n");
  }
  printf("%8s", "all");
  for (int phase = 0; phase < kPhases; phase++)
    printf(" %8.2f ms %4.0f GOP/s", phase_spent[phase] * 1e3, phase_work[phase] / phase_spent[phase]);
  printf("\n");
  printf("together: %.0f GOP in %.0f ms, %.0f GOP/s", work, spent * 1e3, work / spent);
  if (peak > 0) printf(", %.0f%% of the instruction's rate", 100 * work / spent / peak);
  printf("\n");
  return 0;
}
