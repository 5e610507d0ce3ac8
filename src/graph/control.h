/* Conditionals. A graph runs every node once, so an If is decided before the run or not at all.
 *
 * Both branches of an If are part of the graph. What a branch takes from outside passes through IfBranch(condition,
 * value) with attribute `branch` (the truth value for which the branch is taken); the branches' results meet in
 * If(condition, then_0.., else_0..). Once inference has folded the condition, the nodes of the branch not taken are
 * dead: they are not inferred (their shapes may not fit), and If and IfBranch give way to what they pass on. */
#ifndef BRAID_GRAPH_CONTROL_H
#define BRAID_GRAPH_CONTROL_H

#include "graph/graph.h"

bool braid_control_is(const braid_node *node);
/* For a control node: decides it, redirects its uses and marks what is dead. For any other: *skip says whether it has a
 * dead input; then its outputs are dead too. `dead` has one entry per value. UNSUPPORTED: the condition is not known
 * before the run. */
BRAID_MUST_CHECK braid_status braid_control_step(braid_graph *graph, braid_node_id node, bool *dead, bool *skip);
#endif
