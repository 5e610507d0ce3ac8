/* Any text is a chip within its bounds, or a failure with a sentence; and designs and kernels on it have figures. */
#include <math.h>
#include <stdlib.h>

#include "braid/explore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static braid_tile_network *network;
  if (!network) {
    braid_graph *graph;
    if (braid_tile_paper_model(NULL, &graph) != BRAID_OK) abort();
    if (braid_tile_network_create(graph, 8, &network) != BRAID_OK) abort();
    braid_graph_destroy(graph);
  }
  braid_chip *chip;
  braid_status status = braid_chip_parse("input", data, bytes, &chip);
  if (status != BRAID_OK) {
    if (chip || (status != BRAID_NO_MEMORY && !braid_error_detail()[0])) abort();
    return 0;
  }
  static const int64_t kTiles[] = {1, 32, BRAID_TILE_MOST};
  for (size_t i = 0; i < 9; i++) {
    braid_tile_design design = {kTiles[i / 3], kTiles[i % 3], chip->clock ? chip->clock->value : 200};
    braid_tile_result result;
    if (braid_tile_evaluate(network, chip, &design, &result) != BRAID_OK) abort();
    if (!(result.total_ms > 0) || !isfinite(result.total_ms) || !isfinite(result.dsps)) abort();
  }
  for (size_t i = 0; chip->kernel && i < BRAID_KERNEL_OPS; i++) {
    const braid_kernel_design design = {4, 16, 256, BRAID_KERNEL_MOST_UNROLL};
    double used[BRAID_KERNEL_RESOURCES], mhz = braid_kernel_model_fmax(chip, (braid_kernel_op)i, &design, 3);
    braid_kernel_use(chip, (braid_kernel_op)i, &design, 3, used);
    if (!(mhz > 0) || !isfinite(mhz)) abort();
    for (int k = 0; k < BRAID_KERNEL_RESOURCES; k++)
      if (!(used[k] >= 0) || !isfinite(used[k])) abort();
  }
  braid_chip_destroy(chip);
  return 0;
}
