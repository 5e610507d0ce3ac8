/* Checkpoints: the state from which a training run continues with the same bits.
 *
 * A file, little endian: 8 bytes "BRAIDCKP", uint32 version, uint32 number of sections; then per section: a name
 * (uint16 length, bytes), an element type (uint8, numbered in checkpoint.c), a rank (uint8), int64 dimensions, the
 * elements, uint32 CRC-32 of all of that; then a CRC-32 of the whole file before it. Files are written atomically, so a
 * run that is killed at any moment leaves the previous one. */
#ifndef BRAID_TRAIN_CHECKPOINT_H
#define BRAID_TRAIN_CHECKPOINT_H

#include "braid/log.h"
#include "braid/tensor.h"

typedef struct braid_checkpoint braid_checkpoint;

/* --- writing ---
 * create, put every tensor (names are unique; contents are copied to the file at once), then commit. */
BRAID_MUST_CHECK braid_status braid_checkpoint_create(const braid_allocator *allocator, const char *path,
                                                      size_t sections, braid_checkpoint **out);
/* OUT_OF_RANGE: the name is too long for a section. */
BRAID_MUST_CHECK braid_status braid_checkpoint_check_name(const char *name);
BRAID_MUST_CHECK braid_status braid_checkpoint_put(braid_checkpoint *checkpoint, const char *name,
                                                   const braid_desc *desc, const void *data);
/* Ends the writer, also on failure. Fails if fewer or more sections were put than announced. */
BRAID_MUST_CHECK braid_status braid_checkpoint_commit(braid_checkpoint *checkpoint);
void braid_checkpoint_abort(braid_checkpoint *checkpoint); /* NULL is allowed */

/* --- reading ---
 * Checks the whole file first: INVALID_FILE names the path, the place and what was expected. */
typedef struct braid_checkpoint_file braid_checkpoint_file;
BRAID_MUST_CHECK braid_status braid_checkpoint_open(const braid_allocator *allocator, const char *path,
                                                    braid_checkpoint_file **out);
/* The same from memory, for tests. `path` is for messages. */
BRAID_MUST_CHECK braid_status braid_checkpoint_parse(const braid_allocator *allocator, const char *path,
                                                     const void *data, size_t bytes, braid_checkpoint_file **out);
void braid_checkpoint_close(braid_checkpoint_file *file); /* NULL is allowed */
size_t braid_checkpoint_count(const braid_checkpoint_file *file);
const char *braid_checkpoint_name(const braid_checkpoint_file *file, size_t index);
/* The section's descriptor and data (valid until the file is closed); NULL if it does not exist. */
const void *braid_checkpoint_find(const braid_checkpoint_file *file, const char *name, braid_desc *desc);

/* Opens the newest valid checkpoint of a folder ("checkpoint-<step>.braid") of step `most` or before; damaged ones are
 * skipped with a warning in the log. *out is NULL if there is no checkpoint; INVALID_FILE if all are damaged. */
BRAID_MUST_CHECK braid_status braid_checkpoint_newest(const braid_allocator *allocator, const braid_log *log,
                                                      const char *directory, int64_t most, int64_t *step,
                                                      braid_checkpoint_file **out);
/* Removes all but the `keep` newest. */
void braid_checkpoint_prune(const braid_allocator *allocator, const braid_log *log, const char *directory, size_t keep);

#endif
