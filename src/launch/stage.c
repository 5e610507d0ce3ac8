#include "launch/stage.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "launch/move.h"

int64_t braid_launch_stage_count(const braid_launch_stage *stage) {
  int64_t count = 1;
  for (int i = 0; i < stage->axis_count; i++)
    if (!braid_mul_i64(count, stage->axes[i].size, &count)) return -1;
  return count;
}

/* A piece of another type than the operand's is of whole numbers, or of float16. */
static void add_types(braid_launch_planner *p, const braid_launch_stage *stage) {
  if (stage->as == stage->type) {
    braid_launch_option(p, "-DT=%s -DP=%s", braid_launch_move_type(stage->type), braid_launch_move_type(stage->type));
  } else if (stage->as == BRAID_F16) {
    braid_launch_option(p, "-DHALF -DT=float -DP=ushort");
  } else {
    braid_launch_option(p, "-DFIXED -DT=float -DP=%s", braid_launch_type(stage->as));
  }
}

void braid_launch_add_stage(braid_launch_planner *p, const braid_launch_stage *stage) {
  int64_t count = braid_launch_stage_count(stage);
  int packed = 0;
  /* at the end, where the kernel begins; those before are of one step of the first axis */
  struct braid_launch_piece_axis axes[BRAID_STAGE_AXES];
  int unused = BRAID_STAGE_AXES - stage->axis_count;
  for (int i = 0; i < unused; i++) axes[i] = (struct braid_launch_piece_axis){0, 0, 1};
  memcpy(axes + unused, stage->axes, (size_t)stage->axis_count * sizeof *axes);
  if (count > INT32_MAX / 2) p->wide = true;
  braid_launch_begin(p, "stage", stage->input ? "stage_in" : "stage_out");
  add_types(p, stage);
  if (stage->input) braid_launch_input(p, stage->index);
  braid_launch_workspace(p, stage->piece);
  if (!stage->input) braid_launch_output(p, stage->index);
  braid_launch_index(p, count);
  braid_launch_index(p, stage->from);
  for (int i = 0; i < BRAID_STAGE_AXES; i++) packed |= (int)((unsigned)axes[i].axis << 4 * i);
  braid_launch_int(p, packed);
  braid_launch_float(p, ldexp(1, stage->input ? stage->fraction : -stage->fraction));
  for (int i = 0; i < BRAID_STAGE_AXES; i++) braid_launch_index(p, axes[i].size);
  for (int i = 0; i < BRAID_STAGE_AXES; i++) braid_launch_index(p, axes[i].step);
  for (int i = 0; i < BRAID_MAX_RANK; i++) braid_launch_index(p, i < stage->rank ? stage->dims[i] : 1);
  braid_launch_range(p, count);
}
