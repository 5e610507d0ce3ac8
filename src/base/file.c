#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/detail.h"
#include "base/text.h"
#include "base/try.h"

enum { BUFFER_BYTES = 1 << 16 };
static const size_t kMaxStreamBytes = (size_t)2 << 30; /* 2 GiB, as documented */

static const uint8_t no_bytes[1];

static bool is_standard(const char *path) {
  return strcmp(path, "-") == 0;
}
static const char *shown_input(const char *path) {
  return is_standard(path) ? "standard input" : path;
}
static const char *shown_output(const char *path) {
  return is_standard(path) ? "standard output" : path;
}

static braid_status too_large(const char *path, size_t max_bytes) {
  if (max_bytes == kMaxStreamBytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s: has more than 2 GiB; write it to a file first", shown_input(path));
  return braid_fail(BRAID_OUT_OF_RANGE, "%s: larger than the %zu bytes allowed", shown_input(path), max_bytes);
}

static braid_status cannot(const char *what, const char *path, int error) {
  braid_status status = error == ENOENT ? BRAID_NOT_FOUND : error == EISDIR ? BRAID_INVALID_FILE : BRAID_IO;
  return braid_fail(status, "%s: cannot %s: %s", path, what, strerror(error));
}

/* Failures of writing are always IO, whatever the reason. */
static braid_status cannot_put(const char *what, const char *path, int error) {
  return braid_fail(BRAID_IO, "%s: cannot %s: %s", path, what, strerror(error));
}

/* --- reading ------------------------------------------------------------------------------------------------------ */
struct braid_reader {
  const braid_allocator *allocator;
  char *path;
  int file;            /* -1: parked, or the contents are in `data` */
  const uint8_t *data; /* the contents of a stream, or the caller's memory; NULL: read from the file */
  uint8_t *own;        /* `data`, if allocated by the reader */
  size_t bytes;
  struct stat opened; /* the file when it was opened */
};

/* Reads a pipe or terminal to its end; it may be endless. */
static braid_status read_stream(braid_reader *reader, size_t max_bytes) {
  if (!max_bytes || max_bytes > kMaxStreamBytes) max_bytes = kMaxStreamBytes;
  size_t capacity = BUFFER_BYTES, used = 0;
  uint8_t *data = braid_alloc(reader->allocator, capacity);
  if (!data) return BRAID_NO_MEMORY;
  for (;;) {
    if (used == capacity) {
      size_t doubled;
      uint8_t *grown = braid_mul_size(capacity, 2, &doubled) ? braid_alloc(reader->allocator, doubled)
                                                             : braid_refuse_memory(capacity, 2);
      if (!grown) {
        braid_free(reader->allocator, data);
        return BRAID_NO_MEMORY;
      }
      memcpy(grown, data, used);
      braid_free(reader->allocator, data);
      data = grown;
      capacity = doubled;
    }
    ssize_t got = read(reader->file, data + used, capacity - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || used + (size_t)got > max_bytes) {
      int error = errno;
      braid_free(reader->allocator, data);
      return got < 0 ? cannot("read", shown_input(reader->path), error) : too_large(reader->path, max_bytes);
    }
    if (got == 0) break;
    used += (size_t)got;
  }
  reader->data = reader->own = data;
  reader->bytes = used;
  return BRAID_OK;
}

static const char *kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

static braid_status not_regular(const char *path, mode_t mode) {
  return braid_fail(BRAID_INVALID_FILE, "%s: is %s, expected a file", shown_input(path), kind_of(mode));
}

/* A path that names an open descriptor of this process, as made by a shell's <(...). Opening it does not wait for a
 * writer. */
static bool is_own_descriptor(const char *path) {
  return is_standard(path) || strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
         strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* Opening a FIFO would wait for a writer. */
static braid_status open_descriptor(braid_reader *reader) {
  reader->file = is_standard(reader->path) ? STDIN_FILENO : open(reader->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (reader->file >= 0) return BRAID_OK;
  int error = errno;
  struct stat about;
  if (error == ENXIO && stat(reader->path, &about) == 0) return not_regular(reader->path, about.st_mode);
  return cannot("open", reader->path, error);
}

static void close_descriptor(braid_reader *reader) {
  if (reader->file >= 0 && !is_standard(reader->path)) close(reader->file);
  reader->file = -1;
}

static braid_status open_file(braid_reader *reader, size_t max_bytes) {
  BRAID_TRY(open_descriptor(reader));
  if (fstat(reader->file, &reader->opened) != 0) return cannot("read", shown_input(reader->path), errno);
  mode_t mode = reader->opened.st_mode;
  bool stream = !S_ISREG(mode);
  if (S_ISDIR(mode) || (stream && !is_own_descriptor(reader->path))) return not_regular(reader->path, mode);
  if (stream && !is_standard(reader->path)) (void)fcntl(reader->file, F_SETFL, 0); /* blocking reads again */
  if (stream || reader->opened.st_size == 0) { /* also files of /proc, which have no size */
    BRAID_TRY(read_stream(reader, max_bytes));
    close_descriptor(reader);
    return BRAID_OK;
  }
  reader->bytes = (size_t)reader->opened.st_size;
  return max_bytes && reader->bytes > max_bytes ? too_large(reader->path, max_bytes) : BRAID_OK;
}

static braid_reader *new_reader(const braid_allocator *allocator, const char *path) {
  braid_reader *reader = braid_zalloc(allocator, sizeof *reader);
  if (!reader) return NULL;
  reader->allocator = allocator;
  reader->file = -1;
  reader->path = braid_strdup(allocator, path);
  if (reader->path) return reader;
  braid_free(allocator, reader);
  return NULL;
}

braid_status braid_reader_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                               braid_reader **out) {
  *out = NULL;
  braid_reader *reader = new_reader(allocator, path);
  if (!reader) return BRAID_NO_MEMORY;
  braid_status status = open_file(reader, max_bytes);
  if (status == BRAID_OK)
    *out = reader;
  else
    braid_reader_close(reader);
  return status;
}

braid_status braid_reader_wrap(const braid_allocator *allocator, const char *name, const void *data, size_t bytes,
                               braid_reader **out) {
  *out = new_reader(allocator, name);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->data = bytes ? data : no_bytes;
  (*out)->bytes = bytes;
  return BRAID_OK;
}

void braid_reader_close(braid_reader *reader) {
  if (!reader) return;
  close_descriptor(reader);
  braid_free(reader->allocator, reader->own);
  braid_free(reader->allocator, reader->path);
  braid_free(reader->allocator, reader);
}

size_t braid_reader_bytes(const braid_reader *reader) {
  return reader->bytes;
}

const char *braid_reader_name(const braid_reader *reader) {
  return shown_input(reader->path);
}

static bool same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Whether the contents can have changed. Adding or removing a hard link (also by renaming another file over it) changes
 * ctime too, but not the contents. */
static braid_status check_unchanged(const braid_reader *reader) {
  const struct stat *then = &reader->opened;
  struct stat now;
  if (fstat(reader->file, &now) != 0) return cannot("read", shown_input(reader->path), errno);
  bool same = now.st_dev == then->st_dev && now.st_ino == then->st_ino && now.st_size == then->st_size &&
              same_time(now.st_mtim, then->st_mtim) &&
              (now.st_nlink != then->st_nlink || same_time(now.st_ctim, then->st_ctim));
  return same ? BRAID_OK : braid_fail(BRAID_IO, "%s: changed while it was read", shown_input(reader->path));
}

braid_status braid_reader_check(const braid_reader *reader) {
  return reader->file < 0 ? BRAID_OK : check_unchanged(reader);
}

braid_status braid_reader_park(braid_reader *reader) {
  if (reader->file < 0 || is_standard(reader->path)) return BRAID_OK;
  BRAID_TRY(check_unchanged(reader));
  close_descriptor(reader);
  return BRAID_OK;
}

static braid_status open_again(braid_reader *reader) {
  BRAID_TRY(open_descriptor(reader));
  braid_status status = check_unchanged(reader);
  if (status != BRAID_OK) close_descriptor(reader);
  return status;
}

braid_status braid_reader_get(braid_reader *reader, size_t offset, void *to, size_t count) {
  if (offset > reader->bytes || count > reader->bytes - offset)
    return braid_fail(BRAID_INVALID_FILE, "%s: has %zu bytes, %zu from byte %zu on are expected",
                      shown_input(reader->path), reader->bytes, count, offset);
  if (reader->data) {
    if (count) memcpy(to, reader->data + offset, count);
    return BRAID_OK;
  }
  if (reader->file < 0) BRAID_TRY(open_again(reader));
  for (uint8_t *at = to; count;) {
    ssize_t got = pread(reader->file, at, count, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", shown_input(reader->path), errno);
    if (got == 0)
      return braid_fail(BRAID_IO, "%s: ends at byte %zu, it had %zu when it was opened", shown_input(reader->path),
                        offset, reader->bytes);
    at += got;
    offset += (size_t)got;
    count -= (size_t)got;
  }
  return BRAID_OK;
}

static braid_status read_whole(braid_reader *reader, braid_file_view *out) {
  uint8_t *data = reader->own;
  if (!data) {
    data = braid_alloc(reader->allocator, reader->bytes);
    if (!data) return BRAID_NO_MEMORY;
    braid_status status = braid_reader_get(reader, 0, data, reader->bytes);
    if (status == BRAID_OK) status = braid_reader_check(reader);
    if (status != BRAID_OK) {
      braid_free(reader->allocator, data);
      return status;
    }
  }
  reader->own = NULL;
  *out = (braid_file_view){data, reader->bytes, reader->allocator};
  return BRAID_OK;
}

braid_status braid_file_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                             braid_file_view *out) {
  *out = (braid_file_view){no_bytes, 0, allocator};
  braid_reader *reader;
  BRAID_TRY(braid_reader_open(allocator, path, max_bytes, &reader));
  braid_status status = read_whole(reader, out);
  braid_reader_close(reader);
  return status;
}

void braid_file_close(braid_file_view *view) {
  if (view->data != no_bytes) braid_free(view->allocator, (void *)(uintptr_t)view->data);
  *view = (braid_file_view){no_bytes, 0, view->allocator};
}

/* --- writing ------------------------------------------------------------------------------------------------------ */
struct braid_writer {
  const braid_allocator *allocator;
  char *path;
  char *temporary; /* NULL: written in place (standard output, a device, a pipe) */
  int file;
  int error; /* the errno of the first write that failed: what it has of the file is not whole; 0: none did */
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
  if (is_standard(writer->path)) {
    writer->file = STDOUT_FILENO;
    return BRAID_OK;
  }
  /* Renaming over a device or a pipe would replace it; those are written in place. */
  struct stat about;
  if (stat(writer->path, &about) == 0 && !S_ISREG(about.st_mode)) {
    writer->file = open(writer->path, O_WRONLY | O_CLOEXEC);
    return writer->file < 0 ? cannot_put("write", writer->path, errno) : BRAID_OK;
  }
  braid_text name;
  braid_text_init(&name, writer->allocator);
  braid_text_printf(&name, "%s.tmp-%ld.%u", writer->path, (long)getpid(), atomic_fetch_add(&serial, 1));
  writer->temporary = name.failed ? NULL : braid_strdup(writer->allocator, name.data);
  braid_text_deinit(&name);
  if (!writer->temporary) return BRAID_NO_MEMORY;
  writer->file = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->file >= 0) {
    (void)flock(writer->file, LOCK_EX | LOCK_NB); /* for braid_writer_clean; a file system that has none goes without */
    return BRAID_OK;
  }
  int error = errno;
  braid_free(writer->allocator, writer->temporary);
  writer->temporary = NULL;
  return cannot_put("create", writer->path, error);
}

braid_status braid_writer_open(const braid_allocator *allocator, const char *path, braid_writer **out) {
  *out = NULL;
  braid_writer *writer = braid_alloc(allocator, sizeof *writer);
  if (!writer) return BRAID_NO_MEMORY;
  writer->allocator = allocator;
  writer->temporary = NULL;
  writer->file = -1;
  writer->error = 0;
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
  while (count && !writer->error) {
    ssize_t written = write(writer->file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      writer->error = errno;
      break;
    }
    bytes += written;
    count -= (size_t)written;
  }
  return writer->error ? cannot_put("write", shown_output(writer->path), writer->error) : BRAID_OK;
}

static braid_status flush(braid_writer *writer) {
  size_t used = writer->used;
  writer->used = 0;
  return write_all(writer, writer->buffer, used);
}

braid_status braid_writer_put(braid_writer *writer, const void *bytes, size_t count) {
  if (writer->error || count > BUFFER_BYTES - writer->used) {
    braid_status status = flush(writer);
    if (status != BRAID_OK) return status;
  }
  if (count >= BUFFER_BYTES) return write_all(writer, bytes, count);
  if (count) memcpy(writer->buffer + writer->used, bytes, count);
  writer->used += count;
  return BRAID_OK;
}

braid_status braid_writer_flush(braid_writer *writer, const char **out_path) {
  *out_path = writer->temporary ? writer->temporary : writer->path;
  return flush(writer);
}

/* Makes the rename durable. Errors are ignored: a file system that cannot sync a folder has still renamed the file. */
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

static braid_status commit(braid_writer *writer, bool synced) {
  braid_status status = flush(writer);
  if (writer->temporary) {
    if (status == BRAID_OK && synced && fsync(writer->file) != 0) status = cannot_put("write", writer->path, errno);
    if (close(writer->file) != 0 && status == BRAID_OK) status = cannot_put("write", writer->path, errno);
    writer->file = -1;
    if (status == BRAID_OK && rename(writer->temporary, writer->path) != 0) {
      status = cannot_put("rename the finished file to it", writer->path, errno);
    }
    if (status != BRAID_OK)
      unlink(writer->temporary);
    else if (synced)
      sync_folder(writer);
  }
  close_writer(writer);
  return status;
}

braid_status braid_writer_commit(braid_writer *writer) {
  return commit(writer, true);
}

braid_status braid_writer_commit_unsynced(braid_writer *writer) {
  return commit(writer, false);
}

void braid_writer_abort(braid_writer *writer) {
  if (!writer) return;
  if (writer->temporary) unlink(writer->temporary);
  close_writer(writer);
}

/* Whether what follows ".tmp-" is a writer's: <pid>.<n>. */
static bool is_temporary(const char *rest) {
  static const char kDigits[] = "0123456789";
  size_t pid = strspn(rest, kDigits), n = rest[pid] == '.' ? strspn(rest + pid + 1, kDigits) : 0;
  return pid && n && rest[pid + 1 + n] == '\0';
}

/* Removes it, unless somebody writes it. */
static bool remove_leftover(int folder, const char *name) {
  struct stat about;
  int file = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  bool removed = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
                 unlinkat(folder, name, 0) == 0;
  close(file);
  return removed;
}

size_t braid_writer_clean(const char *path) {
  static const char kMark[] = ".tmp-";
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char folder[PATH_MAX] = ".";
  size_t removed = 0, length = strlen(name);
  if (slash && (size_t)(slash - path) + 2 > sizeof folder) return 0;
  if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  DIR *list = opendir(folder);
  if (!list) return 0;
  for (const struct dirent *entry; (entry = readdir(list));)
    if (strncmp(entry->d_name, name, length) == 0 && strncmp(entry->d_name + length, kMark, sizeof kMark - 1) == 0 &&
        is_temporary(entry->d_name + length + sizeof kMark - 1))
      removed += remove_leftover(dirfd(list), entry->d_name);
  closedir(list);
  return removed;
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
    return braid_fail(BRAID_IO, "%s: cannot create the folder: %s", prefix, strerror(error));
  }
  return BRAID_OK;
}
