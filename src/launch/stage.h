/* Staging: operands copied into memory as a kernel that is not the library's wants them, and back. */
#ifndef BRAID_LAUNCH_STAGE_H
#define BRAID_LAUNCH_STAGE_H

#include "launch/planner.h"

enum { BRAID_STAGE_AXES = 8 };

typedef struct braid_launch_stage {
  bool input;
  size_t index;     /* of the node's inputs or outputs */
  braid_dtype type; /* of the operand */
  /* Of the piece; another than the operand's, which is float32 then: whole numbers with `fraction` bits of fraction,
   * or float16. */
  braid_dtype as;
  int fraction;
  int rank;
  int64_t dims[BRAID_MAX_RANK]; /* of the part of the operand that is copied, which begins at element `from` */
  int64_t from;
  /* The piece's axes, outermost first: each counts `step` of the operand's axis. Several of one axis add up, and what
   * lies beyond that axis is zero in the piece. */
  int axis_count;
  struct braid_launch_piece_axis {
    int axis;
    int64_t step, size;
  } axes[BRAID_STAGE_AXES];
  braid_launch_piece piece; /* of the workspace, or of the packed form of a constant */
} braid_launch_stage;

/* The piece's elements; -1: more than can be counted. */
int64_t braid_launch_stage_count(const braid_launch_stage *stage);
/* Adds the launch that copies, into the piece for an input, out of it for an output. */
void braid_launch_add_stage(braid_launch_planner *p, const braid_launch_stage *stage);
/* Of an input, on the host: the whole piece from the whole operand, both in plain memory. Gives what the launch does.
 */
void braid_launch_pack_stage(const braid_launch_stage *stage, const void *operand, void *piece);
/* Mixes into a key all that the piece's contents depend on but the operand's. */
uint64_t braid_launch_mix_stage(uint64_t key, const braid_launch_stage *stage);

#endif
