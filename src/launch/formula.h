/* Formulas of whole numbers over the shapes and attributes of a node, or of a chain of nodes, as manifests hold them:
 *
 *   12   in0[1]  out0[-1]   numbers; a dimension of an input or output, from the end if negative
 *   rank(in0)  count(in0)  present(in2)
 *   attr(group, 1)          an attribute, or the number that holds without it
 *   attr(pads, 2, 0)        element 2 of a list
 *   is(mode, linear, nearest)
 *                           is the text attribute `mode`, which is `nearest` where it is not there, `linear`?
 *   node1.in2[0]  rank(node1.in2)  attr(node1.axis, 1)  present(node1)
 *                           of a node of the chain; without that inputs and attributes are the first node's and outputs
 *                           the last's. Attributes of a node that is not there are as if they were left out
 *   frac_w                  a number that the scope knows by name
 *   min(a, b)  max(a, b)  ceil_div(a, b)  round_up(a, b)
 *   + - * / %   == != < <= > >=   && || !   ( )
 *
 * Truth is 1 and 0; && and || look at their right side only where it counts. Division rounds towards zero. Overflow,
 * division by zero, dimensions and elements that are not there and attributes of another kind are failures. attribute.h
 * says what pads and kernel_shape are. */
#ifndef BRAID_LAUNCH_FORMULA_H
#define BRAID_LAUNCH_FORMULA_H

#include "braid/device.h"

typedef struct braid_launch_scope {
  const braid_node_desc *const
      *nodes;               /* each NULL if it is not there; the first is. No array: formulas are only read */
  size_t node_count;        /* of the chain; a node alone: 1 */
  const char *const *names; /* and `values`: numbers that are known by name */
  const int64_t *values;
  size_t name_count;
  uint64_t *asked; /* per node: bit i is set when a formula looks at attribute i, of the first 64; NULL: not noted */
  /* Where formulas are only read: the node's op if it has no such attribute, else NULL. NULL: nobody knows. */
  const char *(*op_without)(const void *context, size_t node, const char *attribute);
  const void *context;
} braid_launch_scope;

/* Notes that the node's attribute was looked at; pads stand for auto_pad too. INVALID_FILE: its op has none such. */
BRAID_MUST_CHECK braid_status braid_launch_ask(const braid_launch_scope *scope, size_t node, const char *name);

/* INVALID_FILE for a formula that cannot be read, OUT_OF_RANGE for one without a value here; the detail shows the
 * formula and the place. Where the scope has no nodes, nothing is computed. */
BRAID_MUST_CHECK braid_status braid_launch_formula(const char *text, const braid_launch_scope *scope, int64_t *out);

#endif
