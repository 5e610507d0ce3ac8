/* Any bytes are either the weights of this network, all of them read, or a failure with a sentence. */
#include <string.h>

#include "model/fuzz.h"
#include "model/model.h"

static const char kNetwork[] = "[net]\nheight=6\nwidth=6\nchannels=2\n"
                               "[convolutional]\nbatch_normalize=1\nfilters=2\nsize=3\npad=1\nactivation=leaky\n"
                               "[convolutional]\nfilters=2\nsize=1\nflipped=1\nactivation=linear\n"
                               "[local]\nfilters=1\nsize=3\npad=1\n"
                               "[connected]\noutput=3\nbatch_normalize=1\n[lstm]\noutput=2\n[softmax]\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 16 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_graph *graph = NULL;
  braid_model_memory model = {.data = kNetwork,
                              .bytes = strlen(kNetwork),
                              .format = BRAID_MODEL_DARKNET,
                              .name = "fuzz.cfg",
                              .weights = data,
                              .weights_bytes = bytes};
  braid_status status = braid_model_parse(&budget.allocator, &model, &graph);
  fuzz_check(&budget, BUDGET, status, graph);
  return 0;
}
