/* The mutant's kernels whose operands differ in shape: sums and products that broadcast, stacks of matrices, sums over
 * axes, concatenation. */
#include <math.h>

#include "mutant.h"

/* --- broadcasting --- */
static void find_steps(const braid_desc *desc, int rank, int64_t steps[BRAID_MAX_RANK]) {
  int64_t step = 1;
  memset(steps, 0, BRAID_MAX_RANK * sizeof *steps);
  for (int d = desc->rank, to = rank; d-- > 0; step *= desc->dims[d]) steps[--to] = desc->dims[d] == 1 ? 0 : step;
}

static int64_t place_of(const braid_desc *out, const int64_t *steps, int64_t i) {
  int64_t place = 0;
  for (int d = out->rank; d-- > 0; i /= out->dims[d]) place += i % out->dims[d] * steps[d];
  return place;
}

/* Is `desc` as wide as the result, but for a dimension between its first and its last? */
static bool has_middle(const braid_desc *desc, const braid_desc *out) {
  for (int d = 1; d + 1 < desc->rank; d++)
    if (desc->rank == out->rank && desc->dims[d] == 1 && desc->dims[0] > 1 && desc->dims[desc->rank - 1] > 1)
      return true;
  return false;
}

/* Does a wrong kernel count on from the beginning of an operand when it comes to its end? */
static bool runs_around(const braid_node_desc *node) {
  const braid_desc *out = &node->outputs[0].desc;
  return is("add_broadcast") || (is("add_rank5") && out->rank > 4) || (is("add_rank6") && out->rank > 5) ||
         (is("add_middle") && has_middle(&node->inputs[1].desc, out));
}

static void break_steps(const braid_node_desc *node, int64_t *a, int64_t *b) {
  const braid_desc *left = &node->inputs[0].desc, *right = &node->inputs[1].desc, *out = &node->outputs[0].desc;
  int64_t count = braid_desc_count(out);
  bool narrow_left = braid_desc_count(left) != count, narrow_right = braid_desc_count(right) != count;
  size_t bytes = BRAID_MAX_RANK * sizeof *b;
  if (is("add_first") && narrow_left) memcpy(a, b, bytes);
  if (is("add_both") && narrow_left && narrow_right) memset(b, 0, bytes);
  if (is("broadcast_5d") && out->rank > 4 && narrow_right) memset(b, 0, bytes);
  if (is("mul_batch") && out->rank == 4 && right->rank == 4 && right->dims[2] == 1 && right->dims[3] == 1) b[0] = 0;
  if (is("add_between") && out->rank == 3 && right->rank == 3 && right->dims[1] == 1 && out->dims[1] > 1) b[0] = 0;
}

typedef float pair(float a, float b);
static float plus(float a, float b) {
  return a + b;
}
static float times(float a, float b) {
  return a * b;
}

static braid_status combine(const mine *kernel, const float *const *in, float *out, pair *function) {
  const braid_desc *left = &kernel->node->inputs[0].desc, *right = &kernel->node->inputs[1].desc;
  const braid_desc *y = &kernel->node->outputs[0].desc;
  int64_t count = elements(kernel), a[BRAID_MAX_RANK], b[BRAID_MAX_RANK];
  bool around = runs_around(kernel->node);
  find_steps(left, y->rank, a);
  find_steps(right, y->rank, b);
  break_steps(kernel->node, a, b);
  if (is("add_rows") && y->rank > 1 && y->dims[y->rank - 2] > 300) count = count / y->dims[y->rank - 2] * 300;
  for (int64_t i = 0; i < count; i++) {
    float x = in[0][around ? i % braid_desc_count(left) : place_of(y, a, i)];
    out[i] = function(x, in[1][around ? i % braid_desc_count(right) : place_of(y, b, i)]);
    if (is("add_same") && in[0] == in[1]) out[i] = 0;
  }
  return BRAID_OK;
}

static braid_status add(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  if (is("add_in_place") && braid_desc_same_shape(&node->inputs[0].desc, &node->inputs[1].desc)) {
    memcpy(out, in[0], (size_t)elements(kernel) * sizeof *out); /* two passes: the first is over the second input */
    for (int64_t i = 0; i < elements(kernel); i++) out[i] += in[1][i];
    return BRAID_OK;
  }
  return combine(kernel, in, out, plus);
}

static braid_status multiply(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  return combine(kernel, in, out, times);
}

/* --- stacks of matrices --- */
static int64_t size_of(const braid_desc *desc) {
  int64_t size = desc->dims[desc->rank - 2] * desc->dims[desc->rank - 1];
  return size ? size : 1;
}

stack mutant_stack(const braid_node_desc *node) {
  braid_desc lead = node->outputs[0].desc;
  lead.rank -= 2;
  return (stack){.lead = lead, .count = braid_desc_count(&lead)};
}

/* Which matrices of the operands make matrix `i` of the result. */
void mutant_stack_find(const stack *s, const braid_node_desc *node, int64_t i, int64_t *left, int64_t *right) {
  braid_desc a = node->inputs[0].desc, b = node->inputs[1].desc;
  int64_t steps[BRAID_MAX_RANK], lefts = braid_desc_count(&a) / size_of(&a),
                                 rights = braid_desc_count(&b) / size_of(&b);
  a.rank -= 2;
  b.rank -= 2;
  find_steps(&a, s->lead.rank, steps);
  *left = place_of(&s->lead, steps, i);
  find_steps(&b, s->lead.rank, steps);
  *right = place_of(&s->lead, steps, i);
  if (is("matmul_lead") && s->lead.rank > 1) *left = i % lefts, *right = i % rights;
  if (is("matmul_right_one") && b.rank && b.dims[b.rank - 1] == 1 && !*right) *right = i % rights;
  if (is("matmul_right_between") && b.rank == 2 && b.dims[1] == 1) *right = 0;
  if (is("matmul_left_lower") && a.rank < s->lead.rank) *left = 0;
}

/* --- sums --- */
static void find_axes(const mine *kernel, bool summed[BRAID_MAX_RANK]) {
  const braid_node_desc *node = kernel->node;
  int rank = node->inputs[0].desc.rank;
  bool none = node->input_count < 2 || !kernel->axis_count;
  for (int d = 0; d < rank; d++)
    summed[d] = none && (is("sum_noop") || !braid_attr_int(node->attrs, "noop_with_empty_axes", 0));
  for (size_t i = is("sum_last_axis") && kernel->axis_count ? kernel->axis_count - 1 : 0; i < kernel->axis_count; i++)
    summed[kernel->axes[i] < 0 ? (is("sum_negative") ? 0 : kernel->axes[i] + rank) : kernel->axes[i]] = true;
}

static braid_status reduce_sum(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc;
  bool summed[BRAID_MAX_RANK] = {false};
  int64_t steps[BRAID_MAX_RANK] = {0}, step = 1, count = braid_desc_count(x), results = elements(kernel);
  find_axes(kernel, summed);
  for (int d = x->rank; d-- > 0; step *= summed[d] ? 1 : x->dims[d]) steps[d] = summed[d] ? 0 : step;
  for (int64_t i = 0; i < results; i++) out[i] = is("sum_nothing") && !count ? NAN : 0;
  double *sums = calloc((size_t)step + 1, sizeof *sums);
  if (!sums) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < count; i++)
    if (!is("sum_2000") || i <= 2000) sums[place_of(x, steps, i)] += in[0][i];
  for (int64_t i = 0; i < results && i < step && count; i++) out[i] = (float)sums[i];
  free(sums);
  return BRAID_OK;
}

/* --- concatenation --- */
static braid_status concat(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *y = &kernel->node->outputs[0].desc;
  int64_t axis = braid_attr_int(kernel->node->attrs, "axis", 0), outer = 1, inner = 1, begin = 0;
  if (axis < 0) axis += y->rank;
  for (int64_t d = 0; d < y->rank; d++) *(d < axis ? &outer : &inner) *= d == axis ? 1 : y->dims[d];
  for (size_t k = 0; k < kernel->node->input_count; k++) {
    int64_t own = kernel->node->inputs[k].desc.dims[axis], first = kernel->node->inputs[0].desc.dims[axis];
    if ((is("concat_four") && k >= 4) || (is("concat_empty") && own == 0)) break;
    int64_t copied = is("concat_width") && first < own ? first : own;
    for (int64_t o = 0; o < outer; o++)
      memcpy(out + (o * y->dims[axis] + begin) * inner, in[k] + o * own * inner,
             (size_t)(copied * inner) * sizeof *out);
    begin += own;
  }
  return BRAID_OK;
}

const body ADD_BODY = {add}, MUL_BODY = {multiply}, SUM_BODY = {reduce_sum}, CONCAT_BODY = {concat};
