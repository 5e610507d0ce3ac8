/* Traces: when which step ran on which queue, kept in a ring that is made beforehand, written as Chrome/Perfetto JSON.
 */
#ifndef BRAID_RUNTIME_TRACE_H
#define BRAID_RUNTIME_TRACE_H

#include "runtime/plan/plan.h"

typedef struct braid_trace braid_trace;

/* The file is opened now, so that a path that cannot be written is known at once, and gets its name in finish. The plan
 * must live until then. */
BRAID_MUST_CHECK braid_status braid_trace_create(const braid_plan *plan, const char *path, braid_trace **out);
/* Keeps the time of a step of the n-th run; when the ring is full the oldest are forgotten. */
void braid_trace_add(braid_trace *trace, uint64_t run, braid_step_id step, int64_t start_ns, int64_t end_ns);
/* Writes the file and ends the trace, also on failure. NULL is allowed. */
BRAID_MUST_CHECK braid_status braid_trace_finish(braid_trace *trace);

#endif
