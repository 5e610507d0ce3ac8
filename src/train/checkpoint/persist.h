/* The parts of a trainer's checkpoint (persist.c), for what writes one at once and for what writes one aside. */
#ifndef BRAID_TRAIN_CHECKPOINT_PERSIST_H
#define BRAID_TRAIN_CHECKPOINT_PERSIST_H

#include "train/checkpoint/checkpoint.h"
#include "train/trainer.h"

enum { BRAID_KEPT_COUNTERS = 6, BRAID_KEPT_PATH = 4096 };

/* What a checkpoint holds beside values. */
typedef struct braid_kept {
  double counters[BRAID_KEPT_COUNTERS];
  const char *settings; /* the trainer's */
  const void *rows;     /* of the record */
  size_t row_count;
  size_t values; /* of the training graph that follow */
} braid_kept;

/* DIR/checkpoint-<step>.braid of the step that is done. */
BRAID_MUST_CHECK braid_status braid_kept_path(const braid_trainer *trainer, char path[BRAID_KEPT_PATH]);
void braid_kept_head(const braid_trainer *trainer, braid_kept *kept);
/* A checkpoint to which the values are to be put, then it is committed. */
BRAID_MUST_CHECK braid_status braid_kept_begin(const braid_allocator *allocator, const char *path,
                                               const braid_kept *kept, braid_checkpoint **out);
BRAID_MUST_CHECK braid_status braid_kept_read(const braid_trainer *trainer, const braid_value *value,
                                              braid_tensor **out);

#endif
