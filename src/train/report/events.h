/* TensorBoard event files: scalars over steps. */
#ifndef BRAID_TRAIN_EVENTS_H
#define BRAID_TRAIN_EVENTS_H
#include "braid/allocator.h"
#include <stdint.h>
typedef struct braid_events braid_events;
/* Opens a new file "events.out.tfevents.<seconds>.<host>.<pid>" in the folder. `resumed_at`: the step from which the
 * run continues, 0 for a new one; TensorBoard then ignores later steps in earlier files. */
BRAID_MUST_CHECK braid_status braid_events_open(const braid_allocator *allocator, const char *directory,
                                                int64_t resumed_at, braid_events **out);
BRAID_MUST_CHECK braid_status braid_events_scalar(braid_events *events, int64_t step, const char *tag, double value);
/* Writes the scalars that were given since the last flush. Where the disk is full, IO: the file ends with the record
 * before them, and the next flush writes these too. */
BRAID_MUST_CHECK braid_status braid_events_flush(braid_events *events);
void braid_events_close(braid_events *events); /* flushes what can be written; NULL is allowed */
#endif
