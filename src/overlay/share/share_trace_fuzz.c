/* Recorded requests are read or refused, whatever the bytes are; what was read can be run. */
#include <stdlib.h>

#include "overlay/share/sample_models.h"
#include "overlay/share/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sample_models samples;
  sample_models_make(&samples);
  braid_share_trace_options options = {
      .models = samples.models, .model_count = SAMPLE_MODELS, .cores = 16, .tenants = 3, .load = 0.7};
  braid_share_trace trace;
  if (braid_share_trace_parse(&options, (const char *)data, size, NULL, &trace) != BRAID_OK) return 0;
  braid_share_card card = {.cores = 16,
                           .contexts = trace.contexts,
                           .context_count = trace.count,
                           .models = samples.models,
                           .model_count = SAMPLE_MODELS,
                           .jobs = trace.jobs,
                           .job_count = trace.count};
  if (braid_share_check(&card) != BRAID_OK) abort();
  braid_share_trace_deinit(&trace);
  return 0;
}
