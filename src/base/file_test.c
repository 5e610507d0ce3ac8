#include "base/file.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "oom.h"

static char folder[] = "/tmp/braid-file-test-XXXXXX";

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
  assert_int_equal(braid_file_write(NULL, in_folder("no/such/file"), "x", 1), BRAID_NOT_FOUND);
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
  if (access("/dev/full", W_OK) != 0) return;
  assert_int_equal(braid_file_write(NULL, "/dev/full", "x", 1), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "No space left"));
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

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_write_then_read),
      cmocka_unit_test(test_abort_leaves_the_old_file),
      cmocka_unit_test(test_failures_name_the_path),
      cmocka_unit_test(test_devices_stay),
      cmocka_unit_test(test_pipe),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
