#include "train/checkpoint/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

struct braid_output {
  const braid_allocator *allocator;
  const braid_log *log;
  char *directory, *lock_path;
  int lock;
};

/* What a run leaves; each may also be there unfinished (braid_writer). */
static const char *const kLeft[] = {"checkpoint-", "events.out.tfevents.", "model.onnx", "best.onnx", "report.html"};
static const char kUnfinished[] = ".tmp-";

static bool is_left_by_run(const char *name) {
  for (size_t i = 0; i < sizeof kLeft / sizeof *kLeft; i++)
    if (strncmp(name, kLeft[i], strlen(kLeft[i])) == 0) return true;
  return false;
}

/* --- the lock ------------------------------------------------------------------------------------------------------
 */
static braid_status refuse_second(const braid_output *output, int file) {
  char holder[32] = "";
  ssize_t got = pread(file, holder, sizeof holder - 1, 0);
  long process = got > 0 ? strtol(holder, NULL, 10) : 0;
  if (process > 0)
    return braid_fail(BRAID_IO, "%s is in use by another run, process %ld; give another folder, or end that run first",
                      output->directory, process);
  return braid_fail(BRAID_IO, "%s is in use by another run; give another folder, or end that run first",
                    output->directory);
}

/* The lock ends with the process. Its file is removed when a run ends, so whoever locks a file that is no longer the
 * one of that name looks again. */
static braid_status lock(braid_output *output) {
  for (;;) {
    int file = open(output->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return braid_fail(BRAID_IO, "%s: cannot create: %s", output->lock_path, strerror(errno));
    output->lock = file;
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        braid_status status = refuse_second(output, file);
        close(file);
        output->lock = -1;
        return status;
      }
      braid_log_write(output->log, BRAID_LOG_WARNING, "%s: cannot be locked (%s): no other run may write to it",
                      output->directory, strerror(errno));
    }
    struct stat locked, named;
    if (fstat(file, &locked) == 0 && stat(output->lock_path, &named) == 0 && locked.st_ino == named.st_ino &&
        locked.st_dev == named.st_dev)
      break;
    close(file);
    output->lock = -1;
  }
  char holder[32];
  int length = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
  if (ftruncate(output->lock, 0) == 0 && pwrite(output->lock, holder, (size_t)length, 0) == length) return BRAID_OK;
  return braid_fail(BRAID_IO, "%s: cannot write: %s", output->lock_path, strerror(errno));
}

/* --- an earlier run ------------------------------------------------------------------------------------------------
 * What it left goes into a folder of a fixed name first, which then gets its own by one rename. A run that is killed in
 * between leaves that folder, and the next one puts everything back before it looks at anything: nothing new is written
 * until all is set aside. */
enum { kMostEarlier = 100000, kPathBytes = PATH_MAX + NAME_MAX + 2 };
static const char kAside[] = ".braid.aside";

static braid_status path_in(const char *folder, const char *name, char out[kPathBytes]) {
  if ((size_t)snprintf(out, kPathBytes, "%s/%s", folder, name) < kPathBytes) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "the folder name %.80s... is too long", folder);
}

/* Moves what a run left; what is there already stays where it is. */
static braid_status move_all(const char *from, const char *to, bool *moved) {
  DIR *folder = opendir(from);
  if (!folder) return braid_fail(BRAID_IO, "%s: %s", from, strerror(errno));
  braid_status status = BRAID_OK;
  for (struct dirent *entry; status == BRAID_OK && (entry = readdir(folder));) {
    char old[kPathBytes], new[kPathBytes];
    struct stat about;
    if (!is_left_by_run(entry->d_name)) continue;
    status = path_in(from, entry->d_name, old);
    if (status == BRAID_OK) status = path_in(to, entry->d_name, new);
    if (status != BRAID_OK || lstat(new, &about) == 0) continue;
    *moved = true;
    if (rename(old, new) != 0) status = braid_fail(BRAID_IO, "%s: cannot move to %s: %s", old, new, strerror(errno));
  }
  closedir(folder);
  return status;
}

/* Gives the folder of what was set aside the first name that is free. A folder is never renamed over one that holds
 * something. */
static braid_status name_earlier(const braid_log *log, const char *directory, const char *aside) {
  char path[kPathBytes], name[32] = "earlier";
  for (int i = 2; i <= kMostEarlier; i++) {
    BRAID_TRY(path_in(directory, name, path));
    if (rename(aside, path) == 0) {
      braid_log_write(log, BRAID_LOG_WARNING, "%s holds an earlier run: what it left is moved to %s", directory, path);
      return BRAID_OK;
    }
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) break;
    snprintf(name, sizeof name, "earlier-%d", i);
  }
  return braid_fail(BRAID_IO, "%s: cannot rename to %s: %s", aside, path, strerror(errno));
}

/* After a run that was killed while it set an earlier one aside. */
static braid_status put_back(const braid_log *log, const char *directory) {
  char aside[kPathBytes];
  bool moved = false;
  BRAID_TRY(path_in(directory, kAside, aside));
  if (access(aside, F_OK) != 0) return BRAID_OK;
  BRAID_TRY(move_all(aside, directory, &moved));
  if (rmdir(aside) == 0) return BRAID_OK;
  return name_earlier(log, directory, aside); /* it holds what has another's name by now */
}

braid_status braid_output_set_aside(const braid_output *output) {
  char aside[kPathBytes];
  bool moved = false;
  BRAID_TRY(path_in(output->directory, kAside, aside));
  if (mkdir(aside, 0777) != 0) return braid_fail(BRAID_IO, "%s: cannot create the folder: %s", aside, strerror(errno));
  BRAID_TRY(move_all(output->directory, aside, &moved));
  if (moved) return name_earlier(output->log, output->directory, aside);
  return rmdir(aside) == 0 ? BRAID_OK : braid_fail(BRAID_IO, "%s: cannot remove: %s", aside, strerror(errno));
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static void remove_unfinished(const char *directory) {
  DIR *folder = opendir(directory);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));)
    if (is_left_by_run(entry->d_name) && strstr(entry->d_name, kUnfinished)) unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
}

static braid_status open_folder(braid_output *output, const char *directory) {
  braid_text path;
  braid_text_init(&path, output->allocator);
  braid_text_printf(&path, "%s/.braid.lock", directory);
  output->directory = braid_strdup(output->allocator, directory);
  output->lock_path = path.failed ? NULL : braid_strdup(output->allocator, path.data);
  braid_text_deinit(&path);
  if (!output->directory || !output->lock_path) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_make_directories(directory));
  BRAID_TRY(lock(output));
  BRAID_TRY(put_back(output->log, directory));
  remove_unfinished(directory);
  return BRAID_OK;
}

braid_status braid_output_open(const braid_allocator *allocator, const braid_log *log, const char *directory,
                               braid_output **out) {
  *out = NULL;
  braid_output *output = braid_zalloc(allocator, sizeof *output);
  if (!output) return BRAID_NO_MEMORY;
  output->allocator = allocator;
  output->log = log;
  output->lock = -1;
  braid_status status = open_folder(output, directory);
  if (status == BRAID_OK)
    *out = output;
  else
    braid_output_close(output);
  return status;
}

void braid_output_close(braid_output *output) {
  if (!output) return;
  if (output->lock >= 0) {
    unlink(output->lock_path); /* while it is still ours */
    close(output->lock);
  }
  braid_free(output->allocator, output->lock_path);
  braid_free(output->allocator, output->directory);
  braid_free(output->allocator, output);
}
