#ifndef BRAID_RUNTIME_RESOLVE_H
#define BRAID_RUNTIME_RESOLVE_H

#include "braid/session.h"
#include "graph/graph.h"

/* As braid_resolve, for graphs of our own whose inputs get no other shape: what they were before is not kept. */
BRAID_MUST_CHECK braid_status braid_resolve_for_good(braid_graph *graph);

#endif
