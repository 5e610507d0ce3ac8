#include "base/file.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "damage.h"
#include "folder.h"
#include "oom.h"
#include "skip.h"

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static size_t count_files(const char *pattern) {
  glob_t found;
  size_t count = glob(in_folder(pattern), 0, NULL, &found) == 0 ? found.gl_pathc : 0;
  if (count) globfree(&found);
  return count;
}

static void test_write_then_read(void **state) {
  (void)state;
  static char bytes[200000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 31);
  braid_writer *writer;
  assert_int_equal(braid_writer_open(NULL, in_folder("data"), &writer), BRAID_OK);
  for (size_t at = 0, step = 1; at < sizeof bytes; at += step, step = step * 3) {
    if (step > sizeof bytes - at) step = sizeof bytes - at;
    assert_int_equal(braid_writer_put(writer, bytes + at, step), BRAID_OK);
  }
  assert_int_equal(count_files("data"), 0);
  assert_int_equal(braid_writer_commit(writer), BRAID_OK);
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, in_folder("data"), 0, &view), BRAID_OK);
  assert_int_equal(view.bytes, sizeof bytes);
  assert_memory_equal(view.data, bytes, sizeof bytes);
  braid_file_close(&view);
  assert_int_equal(braid_file_open(NULL, in_folder("data"), 100, &view), BRAID_OUT_OF_RANGE);
  assert_non_null(strstr(braid_error_detail(), "100"));
}

static void test_abort_leaves_the_old_file(void **state) {
  (void)state;
  assert_int_equal(braid_file_write(NULL, in_folder("kept"), "old", 3), BRAID_OK);
  braid_writer *writer;
  assert_int_equal(braid_writer_open(NULL, in_folder("kept"), &writer), BRAID_OK);
  assert_int_equal(braid_writer_put(writer, "new", 3), BRAID_OK);
  braid_writer_abort(writer);
  assert_int_equal(count_files("kept*"), 1);
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, in_folder("kept"), 0, &view), BRAID_OK);
  assert_memory_equal(view.data, "old", 3);
  braid_file_close(&view);
}

static void test_failures_name_the_path(void **state) {
  (void)state;
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, in_folder("none"), 0, &view), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), in_folder("none")));
  assert_int_equal(braid_file_open(NULL, folder, 0, &view), BRAID_INVALID_FILE);
  assert_int_equal(braid_file_write(NULL, in_folder("no/such/file"), "x", 1), BRAID_IO);
  assert_int_equal(braid_make_directories(in_folder("a/b/c")), BRAID_OK);
  assert_int_equal(braid_make_directories(in_folder("a/b/c")), BRAID_OK);
  assert_int_equal(braid_file_write(NULL, in_folder("a/b/c/file"), "x", 1), BRAID_OK);
  assert_int_equal(braid_make_directories(in_folder("a/b/c/file/d")), BRAID_IO);
}

/* A device is written in place: renaming over it would replace it. */
static void test_devices_stay(void **state) {
  (void)state;
  assert_int_equal(braid_file_write(NULL, "/dev/null", "x", 1), BRAID_OK);
  struct stat about;
  assert_int_equal(stat("/dev/null", &about), 0);
  assert_true(S_ISCHR(about.st_mode));
}

static void test_full_device(void **state) {
  (void)state;
  if (access("/dev/full", W_OK) != 0) skip_test("system", "there is no /dev/full");
  assert_int_equal(braid_file_write(NULL, "/dev/full", "x", 1), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "No space left"));
}

/* A disk that is full for a moment: what was lost then is missed, although there is room again. */
static void test_full_for_a_moment(void **state) {
  (void)state;
  enum { BYTES = 256 << 10 };
  struct rlimit before;
  braid_writer *writer;
  const char *beside;
  uint8_t *bytes = calloc(4, BYTES);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  for (int commits = 0; commits < 2; commits++) {
    assert_int_equal(braid_writer_open(NULL, in_folder("full"), &writer), BRAID_OK);
    assert_int_equal(braid_writer_put(writer, bytes, BYTES), BRAID_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2 * BYTES, before.rlim_max}), 0);
    assert_int_equal(braid_writer_put(writer, bytes, (size_t)4 * BYTES), BRAID_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(braid_writer_put(writer, bytes, BYTES), BRAID_IO);
    assert_int_equal(braid_writer_put(writer, bytes, 1), BRAID_IO);
    assert_int_equal(braid_writer_flush(writer, &beside), BRAID_IO);
    assert_non_null(strstr(braid_error_detail(), "File too large"));
    if (commits)
      assert_int_equal(braid_writer_commit(writer), BRAID_IO);
    else
      braid_writer_abort(writer);
    assert_int_equal(count_files("full*"), 0);
  }
  signal(SIGXFSZ, handler);
  free(bytes);
}

static void test_pipe(void **state) {
  (void)state;
  int ends[2];
  char path[64];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "through a pipe", 14), 14);
  close(ends[1]);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, path, 0, &view), BRAID_OK);
  assert_int_equal(view.bytes, 14);
  assert_memory_equal(view.data, "through a pipe", 14);
  braid_file_close(&view);
  close(ends[0]);
}

static void expect(const char *path, braid_status status, const char *says) {
  braid_file_view view;
  braid_reader *reader;
  assert_int_equal(braid_file_open(NULL, path, 0, &view), status);
  if (!strstr(braid_error_detail(), says)) fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), says);
  assert_int_equal(braid_reader_open(NULL, path, 0, &reader), status);
  assert_null(reader);
}

/* Nobody opens the other end of the FIFO: the alarm ends a test that waits for that. */
static void test_what_is_no_file_is_refused_at_once(void **state) {
  (void)state;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(strlen(in_folder("socket")) < sizeof address.sun_path);
  strcpy(address.sun_path, in_folder("socket"));
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
  alarm(10);
  expect(in_folder("fifo"), BRAID_INVALID_FILE, "is a FIFO");
  expect(in_folder("socket"), BRAID_INVALID_FILE, "is a socket");
  expect(folder, BRAID_INVALID_FILE, "is a folder");
  expect("/dev/zero", BRAID_INVALID_FILE, "is a device");
  alarm(0);
  close(listener);
}

/* /proc says 0 bytes of what has some. */
static void test_files_without_a_size(void **state) {
  (void)state;
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, "/proc/self/status", 0, &view), BRAID_OK);
  assert_true(view.bytes > 100);
  braid_file_close(&view);
  assert_int_equal(braid_file_write(NULL, in_folder("empty"), "", 0), BRAID_OK);
  assert_int_equal(braid_file_open(NULL, in_folder("empty"), 0, &view), BRAID_OK);
  assert_int_equal(view.bytes, 0);
  braid_file_close(&view);
}

static braid_reader *read_some(const char *path, const char *bytes, size_t count, size_t read) {
  char got[64];
  braid_reader *reader;
  assert_int_equal(braid_file_write(NULL, path, bytes, count), BRAID_OK);
  assert_int_equal(braid_reader_open(NULL, path, 0, &reader), BRAID_OK);
  assert_int_equal(braid_reader_bytes(reader), count);
  assert_int_equal(braid_reader_get(reader, 0, got, read), BRAID_OK);
  assert_memory_equal(got, bytes, read);
  assert_int_equal(braid_reader_check(reader), BRAID_OK);
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* the clock of files goes in steps */
  return reader;
}

/* What is read is what the file held when it was opened, or there is a sentence. */
static void test_files_that_change_while_they_are_read(void **state) {
  (void)state;
  static const char kBytes[] = "some bytes that stand here for a model";
  enum { COUNT = sizeof kBytes - 1 };
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    bool gone = kind == DAMAGE_REPLACE || kind == DAMAGE_REMOVE; /* the open file is as it was */
    char got[COUNT];
    braid_reader *reader = read_some(in_folder("changing"), kBytes, COUNT, 4);
    damage(in_folder("changing"), kind);
    braid_status status = braid_reader_get(reader, 0, got, COUNT);
    assert_int_equal(status, kind == DAMAGE_CUT ? BRAID_IO : BRAID_OK);
    if (kind == DAMAGE_CUT) assert_non_null(strstr(braid_error_detail(), "it had 38 when it was opened"));
    if (gone) assert_memory_equal(got, kBytes, COUNT);
    assert_int_equal(braid_reader_check(reader), gone ? BRAID_OK : BRAID_IO);
    if (!gone) assert_non_null(strstr(braid_error_detail(), "changing: changed while it was read"));
    braid_reader_close(reader);

    reader = read_some(in_folder("changing"), kBytes, COUNT, 4);
    assert_int_equal(braid_reader_park(reader), BRAID_OK);
    assert_int_equal(braid_reader_get(reader, 0, got, COUNT), BRAID_OK); /* opened again */
    assert_int_equal(braid_reader_park(reader), BRAID_OK);
    damage(in_folder("changing"), kind);
    for (int i = 0; i < 2; i++) /* and does not forget that it is another file */
      assert_int_equal(braid_reader_get(reader, 0, got, 4), kind == DAMAGE_REMOVE ? BRAID_NOT_FOUND : BRAID_IO);
    braid_reader_close(reader);
  }
}

static void test_reading_beyond_the_end(void **state) {
  (void)state;
  braid_reader *reader;
  char got[8];
  assert_int_equal(braid_reader_wrap(NULL, "bytes", "12345678", 8, &reader), BRAID_OK);
  assert_int_equal(braid_reader_get(reader, 4, got, 4), BRAID_OK);
  assert_memory_equal(got, "5678", 4);
  assert_int_equal(braid_reader_get(reader, 8, got, 0), BRAID_OK);
  assert_int_equal(braid_reader_get(reader, 5, got, 4), BRAID_INVALID_FILE);
  assert_int_equal(braid_reader_get(reader, SIZE_MAX, got, 4), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "bytes: has 8 bytes"));
  braid_reader_close(reader);
}

static braid_status write_and_read(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_status status = braid_file_write(allocator, in_folder("oom"), "some bytes", 10);
  braid_file_view view;
  if (status != BRAID_OK) return status;
  status = braid_file_open(allocator, in_folder("oom"), 0, &view);
  if (status == BRAID_OK) braid_file_close(&view);
  return status;
}

/* Syncing the folder is the one request that may fail without harm, so the count of requests decides, not the status.
 */
static void test_out_of_memory(void **state) {
  (void)state;
  for (int64_t n = 0;; n++) {
    oom_allocator oom;
    oom_init(&oom, n);
    braid_status status = write_and_read(&oom.allocator, NULL);
    assert_int_equal(oom.live, 0);
    assert_int_equal(count_files("oom.tmp*"), 0);
    assert_true(status == BRAID_OK || status == BRAID_NO_MEMORY);
    if (!oom.failed) break;
  }
}

static bool is_there(const char *name) {
  struct stat about;
  return lstat(in_folder(name), &about) == 0;
}

/* A process that is killed leaves what it has written; whoever still writes keeps it. */
static void test_leftovers(void **state) {
  (void)state;
  braid_writer *writer;
  pid_t child = fork();
  if (child == 0) {
    if (braid_writer_open(NULL, in_folder("model"), &writer) != BRAID_OK) _exit(1);
    raise(SIGKILL);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(braid_writer_open(NULL, in_folder("model"), &writer), BRAID_OK);
  static const char *const kOthers[] = {"model.tmp-1", "model.tmp-1.", "model.tmp-1.2.old", "model.tmp-a.1",
                                        "modelx.tmp-1.2"};
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++)
    assert_int_equal(braid_file_write(NULL, in_folder(kOthers[i]), "x", 1), BRAID_OK);
  assert_int_equal(symlink("modelx.tmp-1.2", in_folder("model.tmp-7.7")), 0);
  assert_int_equal(mkdir(in_folder("model.tmp-8.8"), 0700), 0);
  assert_int_equal(braid_writer_clean(in_folder("model")), 1);
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++) assert_true(is_there(kOthers[i]));
  assert_true(is_there("model.tmp-7.7") && is_there("model.tmp-8.8"));
  assert_int_equal(braid_writer_put(writer, "whole", 5), BRAID_OK);
  assert_int_equal(braid_writer_commit(writer), BRAID_OK);
  assert_true(is_there("model"));
  assert_int_equal(braid_writer_clean(in_folder("model")), 0);
  assert_int_equal(braid_writer_clean(in_folder("nowhere/model")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_leftovers),
      cmocka_unit_test(test_write_then_read),
      cmocka_unit_test(test_abort_leaves_the_old_file),
      cmocka_unit_test(test_failures_name_the_path),
      cmocka_unit_test(test_devices_stay),
      cmocka_unit_test(test_full_device),
      cmocka_unit_test(test_full_for_a_moment),
      cmocka_unit_test(test_pipe),
      cmocka_unit_test(test_what_is_no_file_is_refused_at_once),
      cmocka_unit_test(test_files_without_a_size),
      cmocka_unit_test(test_files_that_change_while_they_are_read),
      cmocka_unit_test(test_reading_beyond_the_end),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
