#include "backend/manycore/kernel.h"

#include <stdarg.h>
#include <stdio.h>

bool braid_manycore_refuse(char *why, size_t why_bytes, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, why_bytes, format, list);
  va_end(list);
  return false;
}

bool braid_manycore_all_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (operand->present && operand->desc.dtype != BRAID_F32)
      return braid_manycore_refuse(why, why_bytes, "compute cores take float32, not %s",
                                   braid_dtype_name(operand->desc.dtype));
    if (operand->present && operand->desc.layout != BRAID_LAYOUT_PLAIN)
      return braid_manycore_refuse(why, why_bytes, "compute cores take operands in plain layout");
  }
  return true;
}

void braid_manycore_grids(const braid_manycore_group *group, braid_manycore_grid grids[BRAID_MANYCORE_GRIDS]) {
  grids[0] = (braid_manycore_grid){group->rows, group->columns};
  grids[1] = (braid_manycore_grid){1, group->cores};
  grids[2] = (braid_manycore_grid){group->cores, 1};
}
