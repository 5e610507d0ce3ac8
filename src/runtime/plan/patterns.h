/* The list that places nodes by hand (braid_session_options.place): "pattern=device", of which the first that matches a
 * node counts, and "auto", with spaces or commas between them. A pattern may stand in quotes, single or double, and
 * then holds these, too: "'conv 1, left'=cpu".
 *
 * A pattern sees the names of the model. Nodes that were fused are one node, which answers to all their names. A
 * pattern that no name of the model matches is an error; one that only matches names of nodes that run nowhere (folded,
 * or a new name for the same memory) is warned of. */
#ifndef BRAID_RUNTIME_PATTERNS_H
#define BRAID_RUNTIME_PATTERNS_H

#include "runtime/plan/plan.h"

typedef struct braid_pattern {
  const char *text;
  int device;
  bool matched; /* a node that runs */
} braid_pattern;

typedef struct braid_patterns {
  braid_pattern *items; /* in the plan's arena */
  size_t count;
  bool balanced; /* "auto" is in the list */
} braid_patterns;

/* `list` may be NULL. */
BRAID_MUST_CHECK braid_status braid_patterns_parse(const braid_plan *plan, const char *list, braid_patterns *out);
/* The device that the list sends a node to, which runs; -1: none. */
int braid_patterns_find(const braid_plan *plan, braid_patterns *patterns, const braid_node *node);
/* After all nodes that run: has every pattern matched? `given` is the graph as the caller gave it. */
BRAID_MUST_CHECK braid_status braid_patterns_check(const braid_patterns *patterns, const braid_log *log,
                                                   const braid_graph *given);

#endif
