/* Any bytes are either a model or a failure with a sentence. */
#include "model/fuzz.h"
#include "model/onnx_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 64 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_onnx_source source;
  braid_graph *graph = NULL;
  braid_status status = braid_onnx_source_wrap(&budget.allocator, "fuzz.onnx", data, bytes, &source);
  if (status == BRAID_OK) status = braid_onnx_import(&source, &graph);
  braid_onnx_source_close(&source);
  fuzz_check(&budget, BUDGET, status, graph);
  return 0;
}
