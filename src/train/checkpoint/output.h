/* The output folder of a run: used by one run at a time, and a new run does not overwrite the results of an earlier
 * one. */
#ifndef BRAID_TRAIN_OUTPUT_H
#define BRAID_TRAIN_OUTPUT_H

#include "braid/allocator.h"
#include "braid/log.h"

typedef struct braid_output braid_output;

/* Creates the folder if necessary and locks it until close or the end of the process; then removes temporary files of a
 * killed run, and undoes an interrupted braid_output_set_aside. IO: not a folder, not writable, or used by another run.
 */
BRAID_MUST_CHECK braid_status braid_output_open(const braid_allocator *allocator, const braid_log *log,
                                                const char *directory, braid_output **out);
/* Moves the results of an earlier run (model, report, checkpoints, event files) to a new folder DIRECTORY/earlier,
 * DIRECTORY/earlier-2 ..., with a warning in the log. Atomic: if it is interrupted, the next braid_output_open undoes
 * it. */
BRAID_MUST_CHECK braid_status braid_output_set_aside(const braid_output *output);
void braid_output_close(braid_output *output); /* NULL is allowed */

#endif
