/* Files: read whole or piece by piece into memory of our own, written whole or not at all.
 *
 * Nothing is mapped. A mapping shows what the file holds when a page is first touched, so a file that is overwritten
 * later would change results, and one that is cut would end the process. What has been read here is ours, and stays. */
#ifndef BRAID_BASE_FILE_H
#define BRAID_BASE_FILE_H
#include "braid/allocator.h"
#include <stdbool.h>
#include <stdint.h>

/* The bytes of a file. */
typedef struct braid_file_view {
  const uint8_t *data;
  size_t bytes;
  const braid_allocator *allocator;
} braid_file_view;
/* NOT_FOUND / IO with path and reason; OUT_OF_RANGE beyond max_bytes (0: no limit). What is no regular file (a folder,
 * FIFO, socket, device) is INVALID_FILE at once, without waiting for it; but what the process has open already is read
 * to its end, of 2 GiB at most: standard input ("-", /dev/stdin) and /dev/fd/N. */
BRAID_MUST_CHECK braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                              braid_file_view *out);
void braid_file_close(braid_file_view *view);

/* A file open for reading at any offset. Errors of opening as above. */
typedef struct braid_reader braid_reader;
BRAID_MUST_CHECK braid_status braid_reader_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                                braid_reader **out);
/* Bytes of the caller's, which outlive the reader, in place of a file. */
BRAID_MUST_CHECK braid_status braid_reader_wrap(const braid_allocator *allocator, const char *name, const void *data,
                                                size_t bytes, braid_reader **out);
void braid_reader_close(braid_reader *reader);             /* NULL is allowed */
size_t braid_reader_bytes(const braid_reader *reader);     /* when it was opened */
const char *braid_reader_name(const braid_reader *reader); /* for messages */
/* INVALID_FILE beyond the end; IO if the file has become shorter. */
BRAID_MUST_CHECK braid_status braid_reader_get(braid_reader *reader, size_t offset, void *to, size_t count);
/* IO if the file was written to since it was opened, going by its size and times: what was read may then be a mixture.
 * A hard link made and taken away leaves the same marks as a write whose time was set back, and is refused like it. To
 * be called after the last read. */
BRAID_MUST_CHECK braid_status braid_reader_check(const braid_reader *reader);
/* Checks, and gives the descriptor back until the next read, which fails if the path then leads to another file. */
BRAID_MUST_CHECK braid_status braid_reader_park(braid_reader *reader);

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
