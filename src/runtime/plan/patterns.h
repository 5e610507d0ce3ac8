/* The list that places the nodes of a plan by hand (braid_session_options.place, base/patterns.h).
 *
 * A pattern sees the names of the model. Nodes that were fused are one node, which answers to all their names. A
 * pattern that no name of the model matches is an error; one that only matches names of nodes that run nowhere (folded,
 * or a new name for the same memory) is warned of. */
#ifndef BRAID_RUNTIME_PATTERNS_H
#define BRAID_RUNTIME_PATTERNS_H

#include "base/patterns.h"
#include "runtime/plan/plan.h"

/* `list` may be NULL. In the plan's arena. */
BRAID_MUST_CHECK braid_status braid_plan_patterns_parse(const braid_plan *plan, const char *list, braid_patterns *out);
/* The device that the list sends a node to, which runs; -1: none. */
int braid_plan_patterns_find(const braid_plan *plan, braid_patterns *patterns, const braid_node *node);
/* The place in the list of the first pattern that any of the node's names matches; count: none does. */
size_t braid_plan_patterns_rank(braid_patterns *patterns, const braid_node *node);
/* After all nodes that run: has every pattern matched? `given` is the graph as the caller gave it. */
BRAID_MUST_CHECK braid_status braid_plan_patterns_check(const braid_patterns *patterns, const braid_log *log,
                                                        const braid_graph *given, braid_arena *arena);

#endif
