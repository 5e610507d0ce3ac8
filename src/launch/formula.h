/* Formulas of whole numbers over a node's shapes and attributes, as manifests hold them:
 *
 *   12   in0[1]  out0[-1]   numbers; a dimension of an input or output, from the end if negative
 *   rank(in0)  count(in0)  present(in2)
 *   attr(group, 1)          an attribute, or the number that holds without it
 *   attr(pads, 2, 0)        element 2 of a list
 *   min(a, b)  max(a, b)  ceil_div(a, b)  round_up(a, b)
 *   + - * / %   == != < <= > >=   && || !   ( )
 *
 * Truth is 1 and 0; && and || look at their right side only where it counts. Division rounds towards zero. Overflow,
 * division by zero and dimensions that are not there are failures. */
#ifndef BRAID_LAUNCH_FORMULA_H
#define BRAID_LAUNCH_FORMULA_H

#include "braid/device.h"

/* INVALID_FILE for a formula that cannot be read, OUT_OF_RANGE for one without a value here; the detail shows the
 * formula and the place. */
BRAID_MUST_CHECK braid_status braid_launch_formula(const char *text, const braid_node_desc *node, int64_t *out);
/* Can it be read? No node is needed, and nothing is computed. */
BRAID_MUST_CHECK braid_status braid_launch_formula_check(const char *text);

#endif
