/* Saved plans read back: decisions and kernels' answers from rows, everything else by the code that made the plan. */
#ifndef BRAID_RUNTIME_RESTORE_H
#define BRAID_RUNTIME_RESTORE_H

#include "runtime/plan/snapshot.h"

/* UNSUPPORTED: the machine, the library or the graph is not what the plan was made for; the sentence has the first
 * difference. INVALID_FILE: the rows contradict each other. */
BRAID_MUST_CHECK braid_status braid_restore(braid_machine *machine, const braid_graph *given,
                                            const braid_snapshot *saved, braid_plan **out);

/* --- what planning asks in place of the machine while plan->saved is set -------------------------------------------
 */
/* The layouts of parameters and states (plan->layouts). */
BRAID_MUST_CHECK braid_status braid_restore_homes(const braid_plan *plan);
/* Layouts of a node's operands. */
BRAID_MUST_CHECK braid_status braid_restore_layouts(const braid_plan *plan, braid_node_id node,
                                                    const braid_node_desc *desc, braid_layout *layouts);
/* What the kernel of step `index` said. */
BRAID_MUST_CHECK braid_status braid_restore_query(const braid_plan *plan, bool setup, size_t index, braid_step *step);
/* Device, kernel and answer of a conversion that is about to be appended. */
BRAID_MUST_CHECK braid_status braid_restore_conversion(const braid_plan *plan, bool setup, braid_step *step);

/* --- constants -----------------------------------------------------------------------------------------------------
 * A plan that was loaded has no contents of weights until its first execution is made: then the graph it was loaded for
 * is folded again, and kernels are asked whether they are those that the file speaks of. With plan->lock held. */
BRAID_MUST_CHECK braid_status braid_plan_recover(braid_plan *plan);

#endif
