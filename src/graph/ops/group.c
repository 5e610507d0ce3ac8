/* Collectives of a group of processes (braid/group.h).
 *
 * AllReduce(x...) gives for each operand its sum over all processes, elementwise; with the attribute `reduction` "max"
 * or "or" the largest number, or the bitwise or. Every process runs the same nodes in the same order. Operands of one
 * node are reduced together, as one message. Where there is no group a result is its operand. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

static braid_status infer_all_reduce(const braid_infer *infer) {
  const char *reduction = braid_attr_string(&infer->node->attrs, "reduction", "sum");
  bool or = strcmp(reduction, "or") == 0;
  if (! or &&strcmp(reduction, "sum") != 0 && strcmp(reduction, "max") != 0)
    return braid_infer_fail(infer, "reduction \"%.20s\"; sum, max or or is expected", reduction);
  const braid_desc *first = braid_infer_input(infer, 0);
  if (infer->node->output_count != braid_infer_inputs(infer))
    return braid_infer_fail(infer, "has not as many outputs as inputs");
  for (size_t i = 0; i < braid_infer_inputs(infer); i++) {
    const braid_desc *x = braid_infer_input(infer, i);
    if (!x || x->dtype != first->dtype) return braid_infer_fail(infer, "inputs differ in type");
    bool integer = x->dtype == BRAID_I32 || x->dtype == BRAID_I64;
    if (!integer && (or || (x->dtype != BRAID_F32 && x->dtype != BRAID_F64)))
      return braid_infer_fail(infer, "input %zu is %s; %s is expected", i, braid_dtype_name(x->dtype),
                              or ? "int32 or int64" : "int32, int64, float32 or float64");
    BRAID_TRY(braid_infer_output(infer, i, x->dtype, x->rank, x->dims));
  }
  return BRAID_OK;
}

static const braid_op kOps[] = {
    {"AllReduce", 1, -1, 1, -1, BRAID_OP_COLLECTIVE, infer_all_reduce, NULL, NULL},
};

extern const braid_op_family braid_ops_group;
const braid_op_family braid_ops_group = {kOps, sizeof kOps / sizeof *kOps};
