/* Any text is a design within its bounds, or a failure with a sentence; and what follows from it has figures. */
#include <math.h>
#include <stdlib.h>

#include "braid/overlay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const braid_overlay_design *design;
  braid_status status = braid_overlay_design_parse(NULL, "input", data, bytes, &design);
  if (status != BRAID_OK) {
    if (design || (status != BRAID_NO_MEMORY && !braid_error_detail()[0])) abort();
    return 0;
  }
  if (braid_overlay_core_products(design) < 1) abort();
  for (int cores = 1; cores <= design->cores; cores++) {
    braid_overlay_roofline roofline;
    int first, count;
    braid_overlay_core_banks(design, cores - 1, &first, &count);
    if (first < 0 || count < 1 || first + count > design->banks) abort();
    braid_overlay_get_roofline(design, cores, &roofline);
    if (!(roofline.turning_point > 0) || !isfinite(roofline.turning_point)) abort();
  }
  double resources[BRAID_OVERLAY_RESOURCES];
  braid_overlay_estimate(design, true, resources);
  for (int i = 0; i < BRAID_OVERLAY_RESOURCES; i++)
    if (!(resources[i] > 0) || !isfinite(resources[i])) abort();
  braid_overlay_design_destroy(design);
  return 0;
}
