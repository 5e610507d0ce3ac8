/* A file of lines of bounded length: when it is full it becomes PATH.1, and begins anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "serve/trace/record.h"

struct trace_file {
  char *path, *old; /* old: PATH.1 */
  int file;
  size_t bytes, most;
};

static braid_status open_file(trace_file *file) {
  struct stat facts;
  file->file =
      open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640); /* a FIFO must not hold us up */
  if (file->file < 0) return braid_fail(BRAID_IO, "trace file %.200s: %s", file->path, strerror(errno));
  if (fstat(file->file, &facts) != 0 || !S_ISREG(facts.st_mode))
    return braid_fail(BRAID_IO, "trace file %.200s is no regular file", file->path);
  file->bytes = (size_t)facts.st_size;
  return BRAID_OK;
}

braid_status braid_trace_file_open(const char *path, size_t most, trace_file **out) {
  *out = NULL;
  trace_file *file = braid_zalloc(NULL, sizeof *file);
  if (!file) return BRAID_NO_MEMORY;
  file->file = -1;
  file->most = most;
  file->path = braid_strdup(NULL, path);
  braid_text old;
  braid_text_init(&old, NULL);
  braid_text_printf(&old, "%s.1", path);
  file->old = old.failed ? NULL : old.data; /* the text's memory */
  braid_status status = file->path && file->old ? open_file(file) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = file;
  else
    braid_trace_file_close(file);
  return status;
}

static braid_status turn_over(trace_file *file) {
  close(file->file);
  file->file = -1;
  if (rename(file->path, file->old) != 0)
    return braid_fail(BRAID_IO, "trace file %.200s: it cannot be renamed to PATH.1: %s", file->path, strerror(errno));
  return open_file(file);
}

/* What was written of a line that is not whole is taken back. */
static braid_status write_all(trace_file *file, const char *data, size_t bytes) {
  size_t used = 0;
  while (used < bytes) {
    ssize_t count = write(file->file, data + used, bytes - used);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    used += (size_t)count;
  }
  if (used == bytes) {
    file->bytes += bytes;
    return BRAID_OK;
  }
  int reason = errno;
  (void)!ftruncate(file->file, (off_t)file->bytes);
  return braid_fail(BRAID_IO, "trace file %.200s: %s", file->path, strerror(reason));
}

braid_status braid_trace_file_add(trace_file *file, const char *line, size_t bytes) {
  if (bytes > file->most) return braid_fail(BRAID_IO, "trace file %.200s: %zu bytes at once", file->path, bytes);
  if (file->file < 0) BRAID_TRY(open_file(file)); /* it could not be opened before */
  if (file->bytes && file->bytes + bytes > file->most) BRAID_TRY(turn_over(file));
  return write_all(file, line, bytes);
}

void braid_trace_file_close(trace_file *file) {
  if (!file) return;
  if (file->file >= 0) close(file->file);
  braid_free(NULL, file->path);
  braid_free(NULL, file->old);
  braid_free(NULL, file);
}
