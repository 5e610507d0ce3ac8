/* Any text is either a network (with random weights) or a failure with a sentence. */
#include "model/fuzz.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 16 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_graph *graph;
  braid_model_memory model = {
      .data = data, .bytes = bytes, .format = BRAID_MODEL_DARKNET, .name = "fuzz.cfg", .seed = 1};
  braid_status status = braid_model_parse(&budget.allocator, &model, &graph);
  fuzz_check(&budget, BUDGET, status, graph);
  return 0;
}
