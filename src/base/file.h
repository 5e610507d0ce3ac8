/* Files: read whole or mapped, written whole or not at all. */
#ifndef BRAID_BASE_FILE_H
#define BRAID_BASE_FILE_H
#include "braid/allocator.h"
#include <stdbool.h>
#include <stdint.h>
/* Bytes of a file, mapped read-only (private copy for pipes and standard input "-"). */
typedef struct braid_file_view {
  const uint8_t *data;
  size_t bytes;
  bool mapped;
  const braid_allocator *allocator;
} braid_file_view;
/* NOT_FOUND / IO with path and reason; OUT_OF_RANGE beyond max_bytes (0: no limit). Directories are INVALID_FILE. */
BRAID_MUST_CHECK braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                              braid_file_view *out);
void braid_file_close(braid_file_view *view);
/* A writer that collects into PATH.tmp-<pid>.<n> in the same folder; commit flushes to disk (fsync) and renames over
 * PATH. Every failure (full disk) is IO with path and reason, and abort removes the temporary file. What is not a
 * regular file ("-" for standard output, a pipe, a device) is written in place. */
typedef struct braid_writer braid_writer;
BRAID_MUST_CHECK braid_status braid_writer_open(const braid_allocator *allocator, const char *path, braid_writer **out);
BRAID_MUST_CHECK braid_status braid_writer_put(braid_writer *writer, const void *bytes, size_t count);
BRAID_MUST_CHECK braid_status braid_writer_commit(braid_writer *writer); /* ends the writer, also on failure */
void braid_writer_abort(braid_writer *writer);                           /* NULL is allowed */
BRAID_MUST_CHECK braid_status braid_file_write(const braid_allocator *allocator, const char *path, const void *bytes,
                                               size_t count);
BRAID_MUST_CHECK braid_status braid_make_directories(const char *path); /* like mkdir -p */
#endif
