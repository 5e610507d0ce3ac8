/* The ledger of a run: a file that only grows, but for lines after the checkpoint that a run goes on from, which are
 * computed again. */
#ifndef BRAID_TRAIN_LEDGER_WRITER_H
#define BRAID_TRAIN_LEDGER_WRITER_H

#include "braid/allocator.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct braid_ledger_writer braid_ledger_writer;

/* A run as it is after `done` steps: the end of a line, and the momentums' digests (recorder.h). */
typedef struct braid_ledger_now {
  const char *state, *momentums;
  int64_t done;
} braid_ledger_now;

/* `head` is what the file begins with. With 0 steps the head and the line of step 0 are written; a file that is there
 * is refused unless `resume`, and then unless it begins with these (or is the beginning of them, torn). With more steps
 * the file has that head, a whole chain and a line of step `done` with that state and those momentums; what follows is
 * cut off. The file is locked until close. INVALID_ARGUMENT or INVALID_FILE say what is wrong; the file is then as it
 * was. */
BRAID_MUST_CHECK braid_status braid_ledger_writer_open(const braid_allocator *allocator, const char *path,
                                                       const char *head, const braid_ledger_now *now, bool resume,
                                                       braid_ledger_writer **out);
/* Adds a line and its chain. After a failure (IO) nothing more is added. */
BRAID_MUST_CHECK braid_status braid_ledger_writer_add(braid_ledger_writer *writer, const char *line);
/* What was added is on the disk. */
BRAID_MUST_CHECK braid_status braid_ledger_writer_sync(braid_ledger_writer *writer);
void braid_ledger_writer_close(braid_ledger_writer *writer); /* NULL is allowed */

#endif
