/* Any text is either a network (with random weights) or a failure with a sentence. */
#include "model/darknet.h"
#include "model/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 16 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_graph *graph;
  braid_status status = braid_darknet_import(&budget.allocator, "fuzz.cfg", (const char *)data, bytes, NULL, 1, &graph);
  fuzz_check(&budget, BUDGET, status, graph);
  return 0;
}
