/* Kernels of float32 for nodes with 16-bit operands: what the node reads is converted to float32 in the workspace, what
 * it gives is rounded from there, by launches of their own. So every family takes these types; those whose kernels are
 * worth it load and store them themselves. */
#ifndef BRAID_LAUNCH_WIDENED_H
#define BRAID_LAUNCH_WIDENED_H

#include "launch/recipe.h"

/* The family's plan and match, for kernels as braid_launch_list_kernels lists them. */
BRAID_MUST_CHECK braid_status braid_launch_plan(const braid_launch_traits *traits, const braid_launch_kernel *kernel,
                                                const braid_node_desc *node, braid_launch_recipe *recipe);
bool braid_launch_match(const braid_launch_traits *traits, const braid_launch_kernel *kernel,
                        const braid_node_desc *node, char *why, size_t why_bytes);
/* braid_kernel.match of widened kernels: the rest is braid_launch_match's. */
bool braid_launch_match_widened(const braid_node_desc *node, char *why, size_t why_bytes);

#endif
