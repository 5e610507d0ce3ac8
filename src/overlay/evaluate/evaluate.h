/* The evaluation of the overlay (braid/overlay_evaluation.h): its networks from their descriptions, and tasks on a card
 * as the timing simulator has them. */
#ifndef BRAID_OVERLAY_EVALUATE_H
#define BRAID_OVERLAY_EVALUATE_H

#include "braid/overlay_evaluation.h"
#include "overlay/compiler/package.h"
#include "overlay/sim/timing.h"

struct braid_overlay_task {
  const braid_allocator *allocator;
  uint8_t design[BRAID_SHA256_BYTES]; /* that it was compiled for */
  braid_overlay_task_info info;
  braid_instruction *instructions[BRAID_OVERLAY_MOST_CORES];
  size_t counts[BRAID_OVERLAY_MOST_CORES];
  int64_t program_bytes[BRAID_OVERLAY_MOST_CORES];
  int64_t bytes[BRAID_TIMING_SEGMENTS]; /* of DDR */
};

/* A task where a tenant has it. */
typedef struct braid_placed_task {
  braid_timing_task task;
  braid_timing_program programs[BRAID_OVERLAY_MOST_CORES];
  uint64_t code[BRAID_OVERLAY_MOST_CORES];
} braid_placed_task;
/* On cores from `core` on, its memory from line *line on, which is moved behind it. Programs that fit the card's memory
 * for instructions have been fetched with a run before. `out` must stay where it is. */
void braid_overlay_task_place(const braid_overlay_task *task, const braid_overlay_design *design, int core,
                              uint64_t *line, braid_placed_task *out);

#endif
