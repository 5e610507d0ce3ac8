/* Checkpoints and models written aside, by a thread, while training goes on: of large networks, whose epochs on a fast
 * device may take less time than writing what they have learned. One is written at a time; an epoch that ends meanwhile
 * is not kept, the next one is. So training never waits for the disk, and a run that is killed loses what it did since
 * the last one that was written. */
#ifndef BRAID_TRAIN_CHECKPOINT_ASIDE_H
#define BRAID_TRAIN_CHECKPOINT_ASIDE_H

#include <stdbool.h>

#include "braid/status.h"

typedef struct braid_trainer braid_trainer;
typedef struct braid_aside braid_aside;

/* Are this trainer's values so large that they are written aside? */
bool braid_aside_suits(const braid_trainer *trainer);
/* Is one being written? */
bool braid_aside_is_busy(const braid_trainer *trainer);
/* The trainer's copy of its state is written by the thread, which has it until its end; the one before must have ended.
 * `model`: model.onnx too. NO_MEMORY: nothing was begun. */
BRAID_MUST_CHECK braid_status braid_aside_begin(braid_trainer *trainer, bool model);
/* Waits for the one that is being written, and notes its failure (braid_trainer_note_failure_of). */
void braid_aside_end(braid_trainer *trainer);

#endif
