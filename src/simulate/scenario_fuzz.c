/* Any text is a scenario within its bounds, or a failure with a sentence. */
#include "simulate/scenario.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_scenario *s;
  braid_status status = braid_scenario_parse("input", data, bytes, &s);
  if ((status == BRAID_OK) != (s != NULL) || (status != BRAID_OK && !braid_error_detail()[0])) abort();
  if (s && (!s->node_count || s->node_count > BRAID_SCENARIO_NODES)) abort();
  for (unsigned i = 0; s && i < s->events_count; i++)
    if (s->events[i].event < BRAID_EVENT_CAP && (size_t)(s->events[i].node + s->events[i].count) > s->node_count)
      abort();
  for (unsigned i = 0; s && i < s->tenants_count; i++)
    if (s->tenants[i].model_index >= s->models_count) abort();
  braid_scenario_free(s);
  return 0;
}
