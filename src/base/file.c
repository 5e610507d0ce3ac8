#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/text.h"

enum { BUFFER_BYTES = 1 << 16 };

static const uint8_t no_bytes[1];

static const char *shown_input(const char *path) {
  return strcmp(path, "-") == 0 ? "standard input" : path;
}
static const char *shown_output(const char *path) {
  return strcmp(path, "-") == 0 ? "standard output" : path;
}

static braid_status too_large(const char *path, size_t max_bytes) {
  return braid_fail(BRAID_OUT_OF_RANGE, "%s: larger than the %zu bytes allowed", shown_input(path), max_bytes);
}

static braid_status cannot(const char *what, const char *path, int error) {
  braid_status status = error == ENOENT ? BRAID_NOT_FOUND : error == EISDIR ? BRAID_INVALID_FILE : BRAID_IO;
  return braid_fail(status, "%s: cannot %s: %s", path, what, strerror(error));
}

/* Reads a pipe, terminal or device to its end. */
static braid_status read_stream(int file, const char *path, size_t max_bytes, braid_file_view *out) {
  size_t capacity = BUFFER_BYTES, used = 0;
  uint8_t *data = braid_alloc(out->allocator, capacity);
  if (!data) return BRAID_NO_MEMORY;
  for (;;) {
    if (used == capacity) {
      size_t doubled;
      uint8_t *grown = braid_mul_size(capacity, 2, &doubled) ? braid_alloc(out->allocator, doubled) : NULL;
      if (!grown) {
        braid_free(out->allocator, data);
        return BRAID_NO_MEMORY;
      }
      memcpy(grown, data, used);
      braid_free(out->allocator, data);
      data = grown;
      capacity = doubled;
    }
    ssize_t got = read(file, data + used, capacity - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || (max_bytes && used + (size_t)got > max_bytes)) {
      int error = errno;
      braid_free(out->allocator, data);
      return got < 0 ? cannot("read", shown_input(path), error) : too_large(path, max_bytes);
    }
    if (got == 0) break;
    used += (size_t)got;
  }
  out->data = data;
  out->bytes = used;
  return BRAID_OK;
}

static braid_status map_file(int file, const char *path, size_t max_bytes, braid_file_view *out) {
  struct stat about;
  if (fstat(file, &about) != 0) return cannot("read", shown_input(path), errno);
  if (S_ISDIR(about.st_mode)) return cannot("read", shown_input(path), EISDIR);
  if (!S_ISREG(about.st_mode)) return read_stream(file, path, max_bytes, out);
  size_t bytes = (size_t)about.st_size;
  if (max_bytes && bytes > max_bytes) return too_large(path, max_bytes);
  if (bytes == 0) return read_stream(file, path, max_bytes, out); /* also files of /proc, which have no size */
  void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) return read_stream(file, path, max_bytes, out);
  *out = (braid_file_view){data, bytes, true, out->allocator};
  return BRAID_OK;
}

braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                             braid_file_view *out) {
  *out = (braid_file_view){.data = no_bytes, .allocator = allocator};
  if (strcmp(path, "-") == 0) return map_file(STDIN_FILENO, path, max_bytes, out);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot("open", path, errno);
  braid_status status = map_file(file, path, max_bytes, out);
  close(file);
  return status;
}

void braid_file_close(braid_file_view *view) {
  if (view->mapped)
    munmap((void *)(uintptr_t)view->data, view->bytes);
  else if (view->data != no_bytes)
    braid_free(view->allocator, (void *)(uintptr_t)view->data);
  *view = (braid_file_view){.data = no_bytes, .allocator = view->allocator};
}

struct braid_writer {
  const braid_allocator *allocator;
  char *path;
  char *temporary; /* NULL: written in place (standard output, a device, a pipe) */
  int file;
  size_t used;
  char buffer[BUFFER_BYTES];
};

static void close_writer(braid_writer *writer) {
  if (writer->file > STDERR_FILENO) close(writer->file);
  braid_free(writer->allocator, writer->temporary);
  braid_free(writer->allocator, writer->path);
  braid_free(writer->allocator, writer);
}

static braid_status open_target(braid_writer *writer) {
  static atomic_uint serial;
  if (strcmp(writer->path, "-") == 0) {
    writer->file = STDOUT_FILENO;
    return BRAID_OK;
  }
  /* Renaming over a device or a pipe would replace it; those are written in place. */
  struct stat about;
  if (stat(writer->path, &about) == 0 && !S_ISREG(about.st_mode)) {
    writer->file = open(writer->path, O_WRONLY | O_CLOEXEC);
    return writer->file < 0 ? cannot("write", writer->path, errno) : BRAID_OK;
  }
  braid_text name;
  braid_text_init(&name, writer->allocator);
  braid_text_printf(&name, "%s.tmp-%ld.%u", writer->path, (long)getpid(), atomic_fetch_add(&serial, 1));
  writer->temporary = name.failed ? NULL : braid_strdup(writer->allocator, name.data);
  braid_text_deinit(&name);
  if (!writer->temporary) return BRAID_NO_MEMORY;
  writer->file = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->file >= 0) return BRAID_OK;
  int error = errno;
  braid_free(writer->allocator, writer->temporary);
  writer->temporary = NULL;
  return cannot("create", writer->path, error);
}

braid_status braid_writer_open(const braid_allocator *allocator, const char *path, braid_writer **out) {
  *out = NULL;
  braid_writer *writer = braid_alloc(allocator, sizeof *writer);
  if (!writer) return BRAID_NO_MEMORY;
  writer->allocator = allocator;
  writer->temporary = NULL;
  writer->file = -1;
  writer->used = 0;
  writer->path = braid_strdup(allocator, path);
  braid_status status = writer->path ? open_target(writer) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = writer;
  else
    close_writer(writer);
  return status;
}

static braid_status write_all(braid_writer *writer, const char *bytes, size_t count) {
  while (count) {
    ssize_t written = write(writer->file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return braid_fail(BRAID_IO, "%s: cannot write: %s", shown_output(writer->path), strerror(errno));
    }
    bytes += written;
    count -= (size_t)written;
  }
  return BRAID_OK;
}

static braid_status flush(braid_writer *writer) {
  size_t used = writer->used;
  writer->used = 0;
  return write_all(writer, writer->buffer, used);
}

braid_status braid_writer_put(braid_writer *writer, const void *bytes, size_t count) {
  if (count > BUFFER_BYTES - writer->used) {
    braid_status status = flush(writer);
    if (status != BRAID_OK) return status;
  }
  if (count >= BUFFER_BYTES) return write_all(writer, bytes, count);
  if (count) memcpy(writer->buffer + writer->used, bytes, count);
  writer->used += count;
  return BRAID_OK;
}

/* Makes the rename itself last. A file system that cannot sync a folder has still renamed the file. */
static void sync_folder(const braid_writer *writer) {
  char folder[PATH_MAX];
  const char *slash = strrchr(writer->path, '/');
  if (slash) {
    size_t length = slash == writer->path ? 1 : (size_t)(slash - writer->path);
    if (length >= sizeof folder) return;
    memcpy(folder, writer->path, length);
    folder[length] = '\0';
  }
  int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

braid_status braid_writer_commit(braid_writer *writer) {
  braid_status status = flush(writer);
  if (writer->temporary) {
    if (status == BRAID_OK && fsync(writer->file) != 0) status = cannot("write", writer->path, errno);
    if (close(writer->file) != 0 && status == BRAID_OK) status = cannot("write", writer->path, errno);
    writer->file = -1;
    if (status == BRAID_OK && rename(writer->temporary, writer->path) != 0) {
      status = cannot("rename the finished file to it", writer->path, errno);
    }
    if (status == BRAID_OK)
      sync_folder(writer);
    else
      unlink(writer->temporary);
  }
  close_writer(writer);
  return status;
}

void braid_writer_abort(braid_writer *writer) {
  if (!writer) return;
  if (writer->temporary) unlink(writer->temporary);
  close_writer(writer);
}

braid_status braid_file_write(const braid_allocator *allocator, const char *path, const void *bytes, size_t count) {
  braid_writer *writer;
  braid_status status = braid_writer_open(allocator, path, &writer);
  if (status != BRAID_OK) return status;
  status = braid_writer_put(writer, bytes, count);
  if (status == BRAID_OK) return braid_writer_commit(writer);
  braid_writer_abort(writer);
  return status;
}

braid_status braid_make_directories(const char *path) {
  char prefix[4096];
  size_t length = strlen(path);
  if (length >= sizeof prefix) {
    return braid_fail(BRAID_OUT_OF_RANGE, "folder name of %zu characters is longer than %zu", length,
                      sizeof prefix - 1);
  }
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(prefix, path, i);
    prefix[i] = '\0';
    if (mkdir(prefix, 0777) == 0) continue;
    int error = errno;
    struct stat about;
    if (stat(prefix, &about) == 0 && S_ISDIR(about.st_mode)) continue;
    if (error == EEXIST) error = ENOTDIR;
    return braid_fail(BRAID_IO, "%s: cannot make the folder: %s", prefix, strerror(error));
  }
  return BRAID_OK;
}
