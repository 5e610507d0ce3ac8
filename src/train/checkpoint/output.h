/* The folder a run writes to: one run at a time, and nothing in it is written over by a run that starts over. */
#ifndef BRAID_TRAIN_OUTPUT_H
#define BRAID_TRAIN_OUTPUT_H

#include "braid/allocator.h"

typedef struct braid_output braid_output;

/* Makes the folder where it is missing, and locks it until close or the end of the process, however that comes; then
 * removes the unfinished files that a killed run left, and puts back what it was setting aside. IO with a sentence: it
 * is no folder, cannot be written, or another run is using it. */
BRAID_MUST_CHECK braid_status braid_output_open(const braid_allocator *allocator, const char *directory,
                                                braid_output **out);
/* Moves what an earlier run left (model, report, checkpoints, event files) to a new folder DIRECTORY/earlier,
 * DIRECTORY/earlier-2 ..., with a warning in the log: all of it or, seen from the next run, nothing. */
BRAID_MUST_CHECK braid_status braid_output_set_aside(const braid_output *output);
void braid_output_close(braid_output *output); /* NULL is allowed */

#endif
