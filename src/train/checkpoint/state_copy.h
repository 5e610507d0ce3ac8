/* A copy of all parameters and states in the host's memory, as the devices keep them: made in a few milliseconds, since
 * nothing is rewritten and devices copy to pinned memory by themselves; what is written aside (aside.h), looked at or
 * compared comes from it. Its memory stays for the next one. */
#ifndef BRAID_TRAIN_CHECKPOINT_STATE_COPY_H
#define BRAID_TRAIN_CHECKPOINT_STATE_COPY_H

#include "graph/graph.h"

typedef struct braid_trainer braid_trainer;

typedef struct braid_state_item {
  const braid_value *value; /* of the training graph */
  braid_desc desc;          /* with the layout of the bytes */
  size_t offset, bytes;
} braid_state_item;

typedef struct braid_state_copy {
  braid_state_item *items;
  size_t count;
  uint8_t *memory;
  size_t bytes;
  bool whole; /* all of one step; else there is none */
} braid_state_copy;

/* NO_MEMORY: there is no copy. Nobody reads the one before. */
BRAID_MUST_CHECK braid_status braid_state_copy_take(braid_trainer *trainer);
/* Calls `visit` for every parameter and state with its bytes, from the copy, or where there is none (no memory for all
 * of it) by one after the other. */
typedef braid_status braid_state_visit(void *context, const braid_state_item *item, const void *bytes);
BRAID_MUST_CHECK braid_status braid_state_copy_visit(braid_trainer *trainer, braid_state_visit *visit, void *context);
void braid_state_copy_deinit(braid_trainer *trainer);
/* One as a plain tensor, the caller's to release. */
BRAID_MUST_CHECK braid_status braid_state_copy_tensor(const braid_allocator *allocator, const braid_state_copy *copy,
                                                      size_t index, braid_tensor **out);
/* The same by name. */
BRAID_MUST_CHECK braid_status braid_state_copy_find(const braid_allocator *allocator, const braid_state_copy *copy,
                                                    const char *name, braid_tensor **out);

#endif
