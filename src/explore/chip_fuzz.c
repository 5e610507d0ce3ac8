/* Any text is a chip within its bounds, or a failure with a sentence; and designs on it have times. */
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
  braid_chip_destroy(chip);
  return 0;
}
