/* Any bytes are either a model or a failure with a sentence. */
#include "model/fuzz.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 64 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_graph *graph = NULL;
  braid_model_memory model = {.data = data, .bytes = bytes, .name = "fuzz.onnx"};
  braid_status status = braid_model_parse(&budget.allocator, &model, &graph);
  fuzz_check(&budget, BUDGET, status, graph);
  return 0;
}
