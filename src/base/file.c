#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status too_large(const char *path, size_t max_bytes) {
  return braid_fail(BRAID_OUT_OF_RANGE, "%s: larger than the %zu bytes allowed", path, max_bytes);
}

/* Pipes and the like: their size is known only at the end. */
static braid_status read_all(int fd, const char *path, size_t max_bytes, braid_file_view *out) {
  size_t capacity = 1 << 16, used = 0;
  uint8_t *data = braid_alloc(out->allocator, capacity);
  braid_status status = data ? BRAID_OK : BRAID_NO_MEMORY;
  while (status == BRAID_OK) {
    if (used == capacity) {
      uint8_t *grown = capacity <= SIZE_MAX / 2 ? braid_alloc(out->allocator, capacity * 2) : NULL;
      if (!grown) {
        status = BRAID_NO_MEMORY;
        break;
      }
      memcpy(grown, data, used);
      braid_free(out->allocator, data);
      data = grown;
      capacity *= 2;
    }
    ssize_t n = read(fd, data + used, capacity - used);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      status = braid_fail(BRAID_IO, "%s: %s", path, strerror(errno));
    else
      used += (size_t)n;
    if (max_bytes && used > max_bytes) status = too_large(path, max_bytes);
  }
  if (status != BRAID_OK) {
    braid_free(out->allocator, data);
    return status;
  }
  out->data = data;
  out->bytes = used;
  return BRAID_OK;
}

static braid_status map_or_read(int fd, const char *path, size_t max_bytes, braid_file_view *out) {
  struct stat info;
  if (fstat(fd, &info) != 0) return braid_fail(BRAID_IO, "%s: %s", path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return braid_fail(BRAID_IO, "%s: is a directory, a file is expected", path);
  if (!S_ISREG(info.st_mode) || info.st_size == 0) return read_all(fd, path, max_bytes, out);
  if (max_bytes && (uintmax_t)info.st_size > max_bytes) return too_large(path, max_bytes);
  void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return braid_fail(BRAID_IO, "%s: cannot be mapped: %s", path, strerror(errno));
  out->data = data;
  out->bytes = (size_t)info.st_size;
  out->mapped = true;
  return BRAID_OK;
}

braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                             braid_file_view *out) {
  *out = (braid_file_view){.allocator = allocator};
  if (strcmp(path, "-") == 0) return map_or_read(STDIN_FILENO, "standard input", max_bytes, out);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return braid_fail(errno == ENOENT ? BRAID_NOT_FOUND : BRAID_IO, "%s: %s", path, strerror(errno));
  braid_status status = map_or_read(fd, path, max_bytes, out);
  close(fd);
  return status;
}

void braid_file_close(braid_file_view *view) {
  if (view->mapped)
    munmap((void *)view->data, view->bytes);
  else
    braid_free(view->allocator, (void *)view->data);
  *view = (braid_file_view){.allocator = view->allocator};
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
struct braid_writer {
  const braid_allocator *allocator;
  FILE *file;
  char *path, *temporary;
};

static braid_status failed(const braid_writer *writer) {
  return braid_fail(BRAID_IO, "%s: %s", writer->path, strerror(errno));
}

braid_status braid_writer_open(const braid_allocator *allocator, const char *path, braid_writer **out) {
  *out = NULL;
  braid_writer *writer = braid_zalloc(allocator, sizeof *writer);
  if (!writer) return BRAID_NO_MEMORY;
  writer->allocator = allocator;
  size_t bytes = strlen(path) + 32;
  writer->path = braid_strdup(allocator, path);
  writer->temporary = braid_alloc(allocator, bytes);
  braid_status status = writer->path && writer->temporary ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    snprintf(writer->temporary, bytes, "%s.tmp-%ld", path, (long)getpid());
    writer->file = fopen(writer->temporary, "wbe");
    if (!writer->file) status = failed(writer);
  }
  if (status == BRAID_OK)
    *out = writer;
  else
    braid_writer_abort(writer);
  return status;
}

braid_status braid_writer_put(braid_writer *writer, const void *bytes, size_t count) {
  if (count && fwrite(bytes, 1, count, writer->file) != count) return failed(writer);
  return BRAID_OK;
}

/* The rename is on disk only once its folder is. A folder that cannot be opened or synced is no reason to fail. */
static void sync_folder(const char *path) {
  char folder[4096];
  const char *slash = strrchr(path, '/');
  if (slash && (size_t)(slash - path) >= sizeof folder) return;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!fsync(fd);
  close(fd);
}

braid_status braid_writer_commit(braid_writer *writer) {
  braid_status status = BRAID_OK;
  if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0) status = failed(writer);
  FILE *file = writer->file;
  writer->file = NULL;
  if (fclose(file) != 0 && status == BRAID_OK) status = failed(writer);
  if (status == BRAID_OK && rename(writer->temporary, writer->path) != 0) status = failed(writer);
  if (status == BRAID_OK)
    sync_folder(writer->path);
  else
    unlink(writer->temporary);
  braid_free(writer->allocator, writer->path);
  braid_free(writer->allocator, writer->temporary);
  braid_free(writer->allocator, writer);
  return status;
}

void braid_writer_abort(braid_writer *writer) {
  if (!writer) return;
  if (writer->file) {
    fclose(writer->file);
    unlink(writer->temporary);
  }
  braid_free(writer->allocator, writer->path);
  braid_free(writer->allocator, writer->temporary);
  braid_free(writer->allocator, writer);
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
  char part[4096];
  size_t length = strlen(path);
  if (length >= sizeof part) return braid_fail(BRAID_INVALID_ARGUMENT, "a path of %zu characters is too long", length);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST) return braid_fail(BRAID_IO, "%s: %s", part, strerror(errno));
  }
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return braid_fail(BRAID_IO, "%s: is not a directory", path);
  return BRAID_OK;
}
