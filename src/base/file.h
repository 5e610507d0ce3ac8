/* Files: read as a whole or in parts into allocated memory, written atomically.
 *
 * Files are not memory-mapped: if a mapped file is overwritten, results change, and if it is truncated, the process is
 * killed. */
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
/* NOT_FOUND or IO with path and reason; OUT_OF_RANGE for more than max_bytes (0: no limit); INVALID_FILE, without
 * blocking, if it is not a regular file (a folder, FIFO, socket, device). Descriptors that are open already, standard
 * input ("-", /dev/stdin) and /dev/fd/N, are read to their end, up to 2 GiB. */
BRAID_MUST_CHECK braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                              braid_file_view *out);
void braid_file_close(braid_file_view *view);

/* A file open for reading at any offset. Errors of opening as above. */
typedef struct braid_reader braid_reader;
BRAID_MUST_CHECK braid_status braid_reader_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                                braid_reader **out);
/* A reader of the caller's memory, which must outlive it, in place of a file. */
BRAID_MUST_CHECK braid_status braid_reader_wrap(const braid_allocator *allocator, const char *name, const void *data,
                                                size_t bytes, braid_reader **out);
void braid_reader_close(braid_reader *reader);             /* NULL is allowed */
size_t braid_reader_bytes(const braid_reader *reader);     /* when it was opened */
const char *braid_reader_name(const braid_reader *reader); /* for messages */
/* INVALID_FILE beyond the end; IO if the file has been truncated. */
BRAID_MUST_CHECK braid_status braid_reader_get(braid_reader *reader, size_t offset, void *to, size_t count);
/* IO if the file was modified since it was opened, judged by its size and times: what was read may then be
 * inconsistent. Adding and removing a hard link is not distinguishable from a write with a reset mtime, and is refused
 * too. Call it after the last read. */
BRAID_MUST_CHECK braid_status braid_reader_check(const braid_reader *reader);
/* Checks, and closes the descriptor until the next read, which fails if the path is then another file. */
BRAID_MUST_CHECK braid_status braid_reader_park(braid_reader *reader);

/* A writer to PATH.tmp-<pid>.<n> in the same folder, which it locks (flock); commit syncs it to disk (fsync) and
 * renames it to PATH, abort removes it. Every failure is IO with path and reason; one of writing stays: whatever is put
 * or flushed after it fails too, and so does the commit. Paths that are not regular files ("-" for standard output, a
 * pipe, a device) are written directly. */
typedef struct braid_writer braid_writer;
BRAID_MUST_CHECK braid_status braid_writer_open(const braid_allocator *allocator, const char *path, braid_writer **out);
BRAID_MUST_CHECK braid_status braid_writer_put(braid_writer *writer, const void *bytes, size_t count);
/* What was put is in a file, of this name until it is committed; read it before more is put. The name is the writer's.
 */
BRAID_MUST_CHECK braid_status braid_writer_flush(braid_writer *writer, const char **out_path);
BRAID_MUST_CHECK braid_status braid_writer_commit(braid_writer *writer); /* destroys the writer, also on failure */
/* The same without waiting for the disk, for what can be made again: a machine that fails may leave it empty. */
BRAID_MUST_CHECK braid_status braid_writer_commit_unsynced(braid_writer *writer);
void braid_writer_abort(braid_writer *writer); /* NULL is allowed */
/* Removes what writers to PATH left behind whose processes were killed; files that somebody has locked are being
 * written. Returns how many were removed: what cannot be looked at stays. */
size_t braid_writer_clean(const char *path);
BRAID_MUST_CHECK braid_status braid_file_write(const braid_allocator *allocator, const char *path, const void *bytes,
                                               size_t count);
BRAID_MUST_CHECK braid_status braid_make_directories(const char *path); /* like mkdir -p */
#endif
