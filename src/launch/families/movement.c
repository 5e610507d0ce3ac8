/* Ops that move elements and compute nothing: loops over steps, and tiles where rows and columns change places. */
#include <string.h>

#include "graph/ops/movement.h"
#include "launch/families.h"
#include "launch/move.h"

enum { kTileCpu = 16, kTileOther = 32 };

static void row_major(const braid_desc *desc, int64_t *steps) {
  int64_t step = 1;
  for (int i = desc->rank; i-- > 0; step *= desc->dims[i]) steps[i] = step;
}

static int movement_axis(const braid_node_desc *node, int rank) {
  int64_t axis = braid_attr_int(node->attrs, "axis", 0);
  return (int)(axis < 0 ? axis + rank : axis);
}

/* --- transpose -----------------------------------------------------------------------------------------------------
 */
/* The loop over the output's dimensions. */
static braid_launch_nest transpose_nest(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  size_t count;
  const int64_t *perm = braid_attr_ints(node->attrs, "perm", &count);
  int64_t steps[BRAID_MAX_RANK];
  braid_launch_nest nest = {.rank = y->rank};
  row_major(x, steps);
  row_major(y, nest.steps[1]);
  for (int i = 0; i < y->rank; i++) {
    int64_t from = perm ? perm[i] : y->rank - 1 - i;
    nest.dims[i] = y->dims[i];
    nest.steps[0][i] = steps[from < 0 ? from + y->rank : from];
  }
  braid_launch_nest_merge(&nest);
  return nest;
}

/* [planes] [columns, rows] of the output, after merging. */
static bool match_tiles(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_launch_nest nest = transpose_nest(node);
  int last = nest.rank - 1;
  bool planes = nest.rank == 3 && nest.steps[0][0] == nest.dims[1] * nest.dims[2];
  if ((nest.rank == 2 || planes) && nest.steps[0][last - 1] == 1 && nest.steps[0][last] == nest.dims[last - 1])
    return true;
  return braid_launch_refuse(why, why_bytes, "more changes places than the last two dimensions");
}

static braid_status plan_tiles(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_nest nest = transpose_nest(node);
  int last = nest.rank - 1;
  int64_t rows = nest.dims[last], columns = nest.dims[last - 1];
  size_t tile = traits->cpu ? kTileCpu : kTileOther;
  if (tile > braid_launch_group(traits)) tile = braid_launch_group(traits);
  int64_t across = (columns + (int64_t)tile - 1) / (int64_t)tile, down = (rows + (int64_t)tile - 1) / (int64_t)tile;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "transpose", "transpose");
  braid_launch_option(&p, "-DT=%s", braid_launch_move_type(node->outputs[0].desc.dtype));
  braid_launch_input(&p, 0);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, rows);
  braid_launch_index(&p, columns);
  braid_launch_index(&p, across);
  braid_launch_groups(&p, across * down, nest.rank == 3 ? nest.dims[0] : 1, 1, tile);
  return braid_launch_plan_end(&p);
}

static braid_status plan_transpose(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_move(&p, &(braid_launch_move){.nest = transpose_nest(node)});
  return braid_launch_plan_end(&p);
}

/* --- concat, split -------------------------------------------------------------------------------------------------
 */
/* All of `part`, which lies in `whole` from `offset` of `axis` on; operand `whole_operand` of the nest is the whole. */
static braid_launch_nest part_nest(const braid_desc *part, const braid_desc *whole, int whole_operand) {
  braid_launch_nest nest = {.rank = part->rank};
  memcpy(nest.dims, part->dims, sizeof nest.dims);
  row_major(part, nest.steps[1 - whole_operand]);
  row_major(whole, nest.steps[whole_operand]);
  return nest;
}

static int64_t step_of(const braid_desc *desc, int axis) {
  int64_t steps[BRAID_MAX_RANK];
  row_major(desc, steps);
  return steps[axis];
}

static bool match_concat(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->input_count <= BRAID_LAUNCHES) return true;
  return braid_launch_refuse(why, why_bytes, "%zu operands, at most %d", node->input_count, BRAID_LAUNCHES);
}

static braid_status plan_concat(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  braid_launch_planner p;
  const braid_desc *whole = &node->outputs[0].desc;
  int axis = movement_axis(node, whole->rank);
  int64_t at = 0;
  braid_launch_plan_begin(&p, traits, node, recipe);
  for (size_t i = 0; i < node->input_count; at += node->inputs[i++].desc.dims[axis])
    braid_launch_add_move(&p, &(braid_launch_move){.input = i,
                                                   .to = at * step_of(whole, axis),
                                                   .nest = part_nest(&node->inputs[i].desc, whole, 1)});
  return braid_launch_plan_end(&p);
}

static bool match_split(const braid_node_desc *node, char *why, size_t why_bytes) {
  size_t there = 0;
  for (size_t i = 0; i < node->output_count; i++) there += node->outputs[i].present;
  bool known = !braid_launch_has_input(node, 1) || node->inputs[1].constant;
  if (!known) return braid_launch_refuse(why, why_bytes, "sizes that are not known before the run");
  if (there <= BRAID_LAUNCHES) return true;
  return braid_launch_refuse(why, why_bytes, "%zu results, at most %d", there, BRAID_LAUNCHES);
}

static int64_t split_size(const braid_node_desc *node, size_t index, int axis) {
  if (node->outputs[index].present) return node->outputs[index].desc.dims[axis];
  if (!braid_launch_has_input(node, 1)) {
    int64_t count = (int64_t)node->output_count;
    return (node->inputs[0].desc.dims[axis] + count - 1) / count;
  }
  const void *sizes = node->inputs[1].constant;
  return node->inputs[1].desc.dtype == BRAID_I32 ? ((const int32_t *)sizes)[index] : ((const int64_t *)sizes)[index];
}

static braid_status plan_split(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  const braid_desc *whole = &node->inputs[0].desc;
  int axis = movement_axis(node, whole->rank);
  int64_t at = 0;
  braid_launch_plan_begin(&p, traits, node, recipe);
  for (size_t i = 0; i < node->output_count; at += split_size(node, i++, axis))
    if (node->outputs[i].present)
      braid_launch_add_move(&p, &(braid_launch_move){.output = i,
                                                     .from = at * step_of(whole, axis),
                                                     .nest = part_nest(&node->outputs[i].desc, whole, 0)});
  return braid_launch_plan_end(&p);
}

/* --- slice, and its gradient ---------------------------------------------------------------------------------------
 */
static bool read_list(const braid_node_desc *node, size_t index, int64_t *values, size_t *count) {
  const braid_operand *list = &node->inputs[index];
  *count = (size_t)braid_desc_count(&list->desc);
  if (!list->constant || *count > BRAID_MAX_RANK) return false;
  for (size_t i = 0; i < *count; i++)
    values[i] =
        list->desc.dtype == BRAID_I32 ? ((const int32_t *)list->constant)[i] : ((const int64_t *)list->constant)[i];
  return true;
}

/* `x`: what is sliced. */
static bool read_slice(const braid_node_desc *node, const braid_desc *x, braid_slice *slice) {
  int64_t lists[4][BRAID_MAX_RANK];
  size_t counts[4];
  bool there[4];
  for (size_t i = 0; i < 4; i++) {
    there[i] = braid_launch_has_input(node, 1 + i);
    if (there[i] && !read_list(node, 1 + i, lists[i], &counts[i])) return false;
  }
  return there[0] && there[1] &&
         braid_slice_init(x, lists[0], lists[1], there[2] ? lists[2] : NULL, there[3] ? lists[3] : NULL, counts[0],
                          slice);
}

static bool movement_is_gradient(const braid_node_desc *node) {
  return strcmp(node->op, "SliceGrad") == 0;
}

static const braid_desc *sliced_desc(const braid_node_desc *node) {
  return movement_is_gradient(node) ? &node->outputs[0].desc : &node->inputs[0].desc;
}

static bool match_slice(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_slice slice;
  return read_slice(node, sliced_desc(node), &slice) ||
         braid_launch_refuse(why, why_bytes, "bounds that are not known before the run");
}

static braid_status plan_slice(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_slice slice;
  const braid_desc *x = sliced_desc(node);
  const int whole = movement_is_gradient(node) ? 1 : 0;
  braid_launch_move move = {.nest.rank = x->rank};
  int64_t steps[BRAID_MAX_RANK], offset = 0;
  if (!read_slice(node, x, &slice)) return braid_fail(BRAID_INTERNAL, "a slice that was not matched");
  row_major(x, steps);
  for (int i = 0; i < x->rank; i++) {
    move.nest.dims[i] = slice.count[i];
    move.nest.steps[whole][i] = steps[i] * slice.step[i];
    offset += steps[i] * slice.start[i];
  }
  row_major(movement_is_gradient(node) ? &node->inputs[0].desc : &node->outputs[0].desc, move.nest.steps[1 - whole]);
  *(whole ? &move.to : &move.from) = offset;
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (whole) braid_launch_add_zeros(&p);
  braid_launch_add_move(&p, &move);
  return braid_launch_plan_end(&p);
}

/* --- expand --------------------------------------------------------------------------------------------------------
 */
static braid_status plan_expand(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  braid_launch_planner p;
  const braid_desc *y = &node->outputs[0].desc;
  braid_launch_move move = {.nest.rank = y->rank};
  memcpy(move.nest.dims, y->dims, sizeof move.nest.dims);
  braid_launch_broadcast_steps(&node->inputs[0].desc, y->rank, move.nest.steps[0]);
  row_major(y, move.nest.steps[1]);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_move(&p, &move);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kTiles = {.plan = plan_tiles}, kTranspose = {.plan = plan_transpose};
static const braid_launch_kernel kConcat = {.plan = plan_concat}, kSplit = {.plan = plan_split};
static const braid_launch_kernel kSlice = {.plan = plan_slice}, kExpand = {.plan = plan_expand};

static const braid_kernel kKernels[] = {
    {.op = "Transpose", .name = "transpose_tiles", .match = match_tiles, .implementation = &kTiles},
    {.op = "Transpose", .name = "transpose", .implementation = &kTranspose},
    {.op = "Concat", .name = "concat", .match = match_concat, .implementation = &kConcat},
    {.op = "Split", .name = "split", .match = match_split, .implementation = &kSplit},
    {.op = "Slice", .name = "slice", .match = match_slice, .implementation = &kSlice},
    {.op = "SliceGrad", .name = "slice_grad", .match = match_slice, .implementation = &kSlice},
    {.op = "Expand", .name = "expand", .implementation = &kExpand},
};

const braid_launch_family braid_launch_family_movement = {kKernels, sizeof kKernels / sizeof *kKernels, false};
