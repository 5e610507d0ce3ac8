#include "launch/nest.h"

void braid_launch_broadcast_steps(const braid_desc *desc, int rank, int64_t *steps) {
  int64_t step = 1;
  for (int i = rank; i-- > 0;) {
    int at = i - (rank - desc->rank);
    steps[i] = at < 0 || desc->dims[at] == 1 ? 0 : step;
    if (at >= 0) step *= desc->dims[at];
  }
}

static bool walks_through(const braid_launch_nest *nest, int outer, int inner) {
  for (int o = 0; o < BRAID_LAUNCH_NEST_OPERANDS; o++)
    if (nest->steps[o][outer] != nest->steps[o][inner] * nest->dims[inner]) return false;
  return true;
}

static void take_dimension(braid_launch_nest *nest, int to, int from) {
  nest->dims[to] = nest->dims[from];
  for (int o = 0; o < BRAID_LAUNCH_NEST_OPERANDS; o++) nest->steps[o][to] = nest->steps[o][from];
}

void braid_launch_nest_merge(braid_launch_nest *nest) {
  int kept = 0;
  for (int i = 0; i < nest->rank; i++) {
    if (nest->dims[i] == 1) continue;
    if (kept && walks_through(nest, kept - 1, i)) {
      int64_t outer = nest->dims[kept - 1];
      take_dimension(nest, kept - 1, i);
      nest->dims[kept - 1] *= outer;
    } else {
      take_dimension(nest, kept++, i);
    }
  }
  nest->rank = kept ? kept : 1;
  if (kept) return;
  nest->dims[0] = 1;
  for (int o = 0; o < BRAID_LAUNCH_NEST_OPERANDS; o++) nest->steps[o][0] = 0;
}

void braid_launch_nest_sizes(braid_launch_planner *p, const braid_launch_nest *nest, int width) {
  for (int i = nest->rank - width; i < nest->rank; i++) braid_launch_index(p, i < 0 ? 1 : nest->dims[i]);
}

void braid_launch_nest_steps(braid_launch_planner *p, const braid_launch_nest *nest, int operand, int width) {
  for (int i = nest->rank - width; i < nest->rank; i++) braid_launch_index(p, i < 0 ? 0 : nest->steps[operand][i]);
}
