/* Relu, and Add (BiasAdd): results are cut into pieces of lines, along which each operand either runs or stands still.
 */
#include <stdio.h>
#include <string.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/sw26010.h"

enum { kMostOperands = 2, kRelu, kAdd };

/* The result as lines of `line` elements, numbered by up to BRAID_MAX_RANK outer dimensions; neighbouring dimensions
 * that all operands walk through in one go are one. */
typedef struct elements_plan {
  int inputs, rank;
  int64_t outer[BRAID_MAX_RANK], steps[kMostOperands][BRAID_MAX_RANK]; /* of outer dimensions, in elements */
  int64_t line, along[kMostOperands]; /* 1: the operand runs along lines; 0: it stands */
  int64_t lines, piece, pieces;       /* elements of a piece; pieces of a line */
  bool two_buffers;
} elements_plan;

/* Steps of an operand over the result's dimensions: 0 where it is broadcast. */
static void operand_steps(const braid_desc *x, const braid_desc *y, int64_t *steps) {
  int64_t stride = 1;
  for (int i = y->rank; i-- > 0;) {
    int at = i - (y->rank - x->rank);
    steps[i] = at < 0 || x->dims[at] == 1 ? 0 : stride;
    if (at >= 0) stride *= x->dims[at];
  }
}

static bool continues(const elements_plan *p, int64_t steps[][BRAID_MAX_RANK], int i, int64_t inner, int last) {
  for (int k = 0; k < p->inputs; k++)
    if (steps[k][i] != steps[k][last] * inner) return false;
  return true;
}

/* Joins dimensions from the last on; the innermost group is the line. */
static void join_dimensions(elements_plan *p, const braid_node_desc *node) {
  const braid_desc *y = &node->outputs[0].desc;
  int64_t steps[kMostOperands][BRAID_MAX_RANK], dims[BRAID_MAX_RANK];
  int count = 0, order[BRAID_MAX_RANK];
  for (int k = 0; k < p->inputs; k++) operand_steps(&node->inputs[k].desc, y, steps[k]);
  for (int i = y->rank; i-- > 0;) {
    if (y->dims[i] == 1) continue;
    if (count && continues(p, steps, i, dims[count - 1], order[count - 1])) {
      dims[count - 1] *= y->dims[i];
      continue;
    }
    order[count] = i;
    dims[count++] = y->dims[i];
  }
  p->line = count ? dims[0] : 1;
  for (int k = 0; k < p->inputs; k++) p->along[k] = count && steps[k][order[0]] != 0;
  p->rank = count ? count - 1 : 0;
  p->lines = 1;
  for (int g = 1; g < count; g++) {
    p->outer[g - 1] = dims[g];
    p->lines *= dims[g];
    for (int k = 0; k < p->inputs; k++) p->steps[k][g - 1] = steps[k][order[g]];
  }
}

static bool elements_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                               size_t why_bytes) {
  elements_plan *p = out;
  if (!braid_manycore_all_float(node, why, why_bytes)) return false;
  *p = (elements_plan){.inputs = (int)node->input_count};
  if (braid_desc_count(&node->outputs[0].desc) == 0) return true; /* lines is 0: there is nothing to do */
  join_dimensions(p, node);
  int64_t elements = (int64_t)(group->scratchpad / sizeof(float));
  /* A piece of every operand that runs along, or one number; results lie over the first. */
  for (int buffers = 2; buffers >= 1; buffers--) {
    int64_t most = (elements / (buffers * p->inputs)) / 16 * 16;
    if (most < 16) continue;
    int64_t even = braid_manycore_room(braid_manycore_quotient(p->line * p->lines, group->cores));
    p->piece = braid_manycore_min(braid_manycore_min(most, p->line), braid_manycore_max(even, 64));
    p->pieces = braid_manycore_quotient(p->line, p->piece);
    p->two_buffers = buffers == 2;
    return true;
  }
  return braid_manycore_refuse(why, why_bytes, "%d pieces of 64 bytes do not fit into a scratchpad of %zu bytes",
                               p->inputs, group->scratchpad);
}

static void get_piece(braid_manycore_core *core, const elements_plan *p, int input, int64_t line, int64_t first,
                      int64_t count, float *to) {
  int64_t at = 0, rest = line;
  for (int i = 0; i < p->rank; i++) {
    at += rest % p->outer[i] * p->steps[input][i];
    rest /= p->outer[i];
  }
  int64_t run = p->along[input] ? count : 1;
  braid_manycore_get(core, to, &(braid_manycore_block){input, at + first * p->along[input], 1, run, run, run, 1});
}

static void elements_run(braid_manycore_core *core, const elements_plan *p, int op) {
  float *buffers[2][kMostOperands] = {{NULL}};
  core->two_buffers = p->two_buffers;
  if (!p->lines) return;
  for (int b = 0; b <= p->two_buffers; b++)
    for (int k = 0; k < p->inputs; k++)
      if (!(buffers[b][k] = braid_manycore_take(core, p->piece))) return;
  int64_t turn = 0;
  for (int64_t item = core->id; item < p->lines * p->pieces; item += core->group->cores, turn++) {
    int64_t line = item / p->pieces, first = item % p->pieces * p->piece;
    int64_t count = braid_manycore_min(p->piece, p->line - first);
    float **x = buffers[p->two_buffers ? turn & 1 : 0];
    for (int k = 0; k < p->inputs; k++) get_piece(core, p, k, line, first, count, x[k]);
    double cycles = braid_sw26010_pass_cycles(braid_sw26010_vectors(count), p->inputs + 1, 1);
    if (braid_manycore_compute(core, cycles, 0)) {
      if (op == kRelu)
        for (int64_t i = 0; i < count; i++) x[0][i] = x[0][i] < 0 ? 0 : x[0][i];
      else if (p->along[0] && p->along[1])
        for (int64_t i = 0; i < count; i++) x[0][i] += x[1][i];
      else
        for (int64_t i = count; i-- > 0;) x[0][i] = x[0][p->along[0] ? i : 0] + x[1][p->along[1] ? i : 0];
    }
    braid_manycore_put(core, x[0],
                       &(braid_manycore_block){p->inputs, line * p->line + first, 1, count, count, count, 1});
    braid_manycore_step(core);
  }
}

static void relu_run(braid_manycore_core *core, const void *plan) {
  elements_run(core, plan, kRelu);
}

static void add_run(braid_manycore_core *core, const void *plan) {
  elements_run(core, plan, kAdd);
}

_Static_assert(sizeof(elements_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kReluKernel = {elements_plan_init, relu_run, NULL};
static const braid_manycore_kernel kAddKernel = {elements_plan_init, add_run, NULL};
static const braid_kernel kKernels[] = {
    {.op = "Relu", .name = "core_relu", .in_place = 1, .implementation = &kReluKernel},
    {.op = "Add", .name = "core_add", .in_place = 3, .implementation = &kAddKernel},
};
const braid_manycore_table braid_manycore_elements = {kKernels, sizeof kKernels / sizeof *kKernels};
