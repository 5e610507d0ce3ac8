/* Any bytes are a trace context or none; what is kept of one is a context again, and the same. The first byte says how
 * many of the others are the traceparent; the rest is the tracestate. */
#include <stdlib.h>
#include <string.h>

#include "serve/trace/trace_context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  if (!bytes) return 0;
  size_t parent = data[0] < bytes - 1 ? data[0] : bytes - 1;
  braid_trace_context context, again;
  char text[BRAID_TRACE_PARENT], state[BRAID_TRACE_STATE], second[BRAID_TRACE_STATE];
  if (braid_trace_parse((const char *)data + 1, parent, &context)) {
    braid_trace_format(&context, text);
    if (strlen(text) != BRAID_TRACE_PARENT - 1 || !braid_trace_parse(text, strlen(text), &again) ||
        memcmp(context.trace, again.trace, sizeof again.trace) != 0 ||
        memcmp(context.span, again.span, sizeof again.span) != 0 || context.sampled != again.sampled)
      abort();
  }
  braid_trace_state((const char *)data + 1 + parent, bytes - 1 - parent, state);
  if (strlen(state) >= sizeof state) abort();
  braid_trace_state(state, strlen(state), second);
  if (strcmp(state, second) != 0) abort();
  return 0;
}
