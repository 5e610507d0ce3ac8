#include "train/ledger/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/try.h"
#include "train/ledger/file.h"

struct braid_ledger_writer {
  const braid_allocator *allocator;
  char *path;
  int file;
  bool failed;
  char chain[BRAID_SHA256_HEX + 1];
  braid_text line;
};

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static braid_status writer_failed(braid_ledger_writer *writer, const char *what) {
  writer->failed = true;
  return braid_fail(BRAID_IO, "%s: %s: %s", writer->path, what, strerror(errno));
}

static braid_status put(braid_ledger_writer *writer, const char *text, size_t bytes) {
  if (writer->failed) return braid_fail(BRAID_IO, "%s: an earlier line could not be written", writer->path);
  while (bytes > 0) {
    ssize_t wrote = write(writer->file, text, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return writer_failed(writer, "cannot write");
    text += wrote;
    bytes -= (size_t)wrote;
  }
  return BRAID_OK;
}

/* `line` with its chain, after what is in writer->line. */
static braid_status chain_line(braid_ledger_writer *writer, const char *line) {
  braid_ledger_chain(writer->chain, line);
  braid_text_printf(&writer->line, "%s chain %s\n", line, writer->chain);
  return writer->line.failed ? BRAID_NO_MEMORY : BRAID_OK;
}

braid_status braid_ledger_writer_add(braid_ledger_writer *writer, const char *line) {
  writer->line.length = 0;
  BRAID_TRY(chain_line(writer, line));
  return put(writer, writer->line.data, writer->line.length);
}

braid_status braid_ledger_writer_sync(braid_ledger_writer *writer) {
  if (writer->failed || fsync(writer->file) == 0 || errno == EINVAL || errno == ENOTSUP) return BRAID_OK;
  return writer_failed(writer, "cannot be written to the disk");
}

/* --- the file that is there ----------------------------------------------------------------------------------------
 */
static braid_status read_all(braid_ledger_writer *writer, char **out, size_t *bytes) {
  struct stat about;
  *out = NULL;
  *bytes = 0;
  if (fstat(writer->file, &about) != 0) return writer_failed(writer, "cannot read");
  if (!S_ISREG(about.st_mode)) return braid_fail(BRAID_INVALID_FILE, "%s: is not a file", writer->path);
  char *text = braid_alloc(writer->allocator, (size_t)about.st_size + 1);
  if (!text) return BRAID_NO_MEMORY;
  while (*bytes < (size_t)about.st_size) {
    ssize_t got = pread(writer->file, text + *bytes, (size_t)about.st_size - *bytes, (off_t)*bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    *bytes += (size_t)got;
  }
  text[*bytes] = '\0';
  *out = text;
  return BRAID_OK;
}

static braid_status cut(braid_ledger_writer *writer, size_t bytes) {
  if (ftruncate(writer->file, (off_t)bytes) != 0) return writer_failed(writer, "cannot be cut");
  return lseek(writer->file, (off_t)bytes, SEEK_SET) < 0 ? writer_failed(writer, "cannot seek") : BRAID_OK;
}

static const char *next_line(const char *line) {
  line += strcspn(line, "\n");
  return *line ? line + 1 : line;
}

static bool names_model(const char *line) {
  return strncmp(line, "model: ", 7) == 0;
}

/* The number of the first line of `was` that is not one of the head; 0: there is none, and *rest is what follows the
 * head, or NULL where `was` ends, torn, before it does. The model's name may be another. */
static size_t differing_line(const char *was, const char *head, const char **rest) {
  for (size_t line = 1;; line++) {
    if (names_model(head)) head = next_line(head);
    if (names_model(was)) was = next_line(was), line++;
    *rest = *head ? NULL : was;
    if (!*head) return 0;
    size_t a = strcspn(was, "\n"), b = strcspn(head, "\n");
    if (!was[a] && a <= b && strncmp(was, head, a) == 0) return 0;
    if (a != b || strncmp(was, head, a) != 0) return line;
    was += a + 1, head += b + 1;
  }
}

static braid_status other_run(const braid_ledger_writer *writer, size_t line) {
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "%s: line %zu: is the ledger of another run, or of other settings, of which none may change while "
                    "a ledger is kept (nor --epochs and --lr)",
                    writer->path, line);
}

/* Training begins: the file is empty, or a run that was killed left it. */
static braid_status begin_file(braid_ledger_writer *writer, const char *text, const char *head, const char *state,
                               bool resume) {
  braid_text first;
  const char *rest;
  if (*text && !resume)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: is there already, and a ledger is not overwritten: give another name, or go on with its run "
                      "by --resume",
                      writer->path);
  size_t line = differing_line(text, head, &rest);
  if (line) return other_run(writer, line);
  braid_ledger_begin_chain(head, writer->chain);
  braid_text_init(&first, writer->allocator);
  braid_text_printf(&first, "step 0%s", state);
  braid_status status = first.failed ? BRAID_NO_MEMORY : chain_line(writer, first.data);
  braid_text_deinit(&first);
  BRAID_TRY(status);
  size_t left = rest ? strlen(rest) : 0, common = left < writer->line.length ? left : writer->line.length;
  if (common && memcmp(rest, writer->line.data, common) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: is the ledger of a run that began with other weights", writer->path);
  BRAID_TRY(cut(writer, 0));
  BRAID_TRY(put(writer, head, strlen(head)));
  return put(writer, writer->line.data, writer->line.length);
}

/* Training goes on behind the line of step `done`. */
static braid_status go_on(braid_ledger_writer *writer, braid_ledger *ledger, const braid_ledger_now *now) {
  int64_t done = now->done, step;
  braid_ledger_parts parts;
  if (done >= (int64_t)ledger->line_count)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: ends with step %zu, and the checkpoint is of step %" PRId64
                      ": it is of another run, or lines were removed",
                      ledger->path, ledger->line_count - 1, done);
  const braid_ledger_line *line = &ledger->lines[done];
  size_t length = strlen(line->text), tail = strlen(now->state), count = ledger->values;
  if (length < tail || strcmp(line->text + length - tail, now->state) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: line %zu: the parameters after step %" PRId64
                      " are not those of the checkpoint: it is of another run",
                      ledger->path, line->number, done);
  if (!braid_ledger_split(line->text, count, ledger->parameters, &step, &parts) ||
      strlen(now->momentums) != count * BRAID_LEDGER_NUMBER ||
      braid_ledger_other_number(parts.values, now->momentums, count) < count)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: line %zu: the momentums after step %" PRId64 " are not those of the checkpoint",
                      ledger->path, line->number, done);
  memcpy(writer->chain, line->chain, BRAID_SHA256_HEX);
  return cut(writer, line->end);
}

static braid_status no_ledger(const char *path, int64_t done) {
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "%s: there is no such ledger, and the checkpoint is of step %" PRId64
                    ": a ledger begins with its run",
                    path, done);
}

static braid_status take_file(braid_ledger_writer *writer, const char *head, const braid_ledger_now *now, bool resume) {
  char *text;
  size_t bytes;
  const char *rest;
  braid_ledger *ledger = NULL;
  BRAID_TRY(read_all(writer, &text, &bytes));
  braid_status status;
  int64_t done = now->done;
  size_t line = done > 0 && bytes ? differing_line(text, head, &rest) : 0;
  if (done == 0)
    status = begin_file(writer, text, head, now->state, resume);
  else if (!bytes)
    status = no_ledger(writer->path, done);
  else if (line)
    status = other_run(writer, line);
  else {
    status = braid_ledger_parse(writer->allocator, writer->path, text, bytes, &ledger);
    text = NULL; /* the ledger's */
    if (status == BRAID_OK) status = go_on(writer, ledger, now);
  }
  braid_ledger_close(ledger);
  braid_free(writer->allocator, text);
  return status;
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static braid_status open_locked(braid_ledger_writer *writer, bool create) {
  writer->file = open(writer->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT : 0), 0666);
  if (writer->file < 0 && errno == ENOENT && !create) return BRAID_OK;
  if (writer->file < 0) return writer_failed(writer, "cannot open");
  if (flock(writer->file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return BRAID_OK;
  return braid_fail(BRAID_IO, "%s: another run writes this ledger", writer->path);
}

braid_status braid_ledger_writer_open(const braid_allocator *allocator, const char *path, const char *head,
                                      const braid_ledger_now *now, bool resume, braid_ledger_writer **out) {
  *out = NULL;
  braid_ledger_writer *writer = braid_zalloc(allocator, sizeof *writer);
  if (!writer) return BRAID_NO_MEMORY;
  writer->allocator = allocator;
  writer->file = -1;
  braid_text_init(&writer->line, allocator);
  writer->path = braid_strdup(allocator, path);
  braid_status status = writer->path ? open_locked(writer, now->done == 0) : BRAID_NO_MEMORY;
  if (status == BRAID_OK && writer->file < 0) status = no_ledger(path, now->done);
  if (status == BRAID_OK) status = take_file(writer, head, now, resume);
  if (status == BRAID_OK) status = braid_ledger_writer_sync(writer);
  if (status == BRAID_OK)
    *out = writer;
  else
    braid_ledger_writer_close(writer);
  return status;
}

void braid_ledger_writer_close(braid_ledger_writer *writer) {
  if (!writer) return;
  if (writer->file >= 0) close(writer->file);
  braid_text_deinit(&writer->line);
  braid_free(writer->allocator, writer->path);
  braid_free(writer->allocator, writer);
}
