/* An event file on a disk that is full for a while, or without memory for a while: it ends with a whole record at any
 * time, and has all that were taken in the end. */
#include "train/report/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "folder.h"
#include "oom.h"

static char path[300];

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void find_file(void) {
  DIR *all = opendir(folder);
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all));)
    if (strstr(entry->d_name, "tfevents")) snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
  closedir(all);
  assert_true(path[0]);
}

static void clear_folder(void) {
  DIR *all = opendir(folder);
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all));)
    if (strstr(entry->d_name, "tfevents")) (void)unlinkat(dirfd(all), entry->d_name, 0);
  closedir(all);
}

/* How many records the file has, behind the last of which nothing stands; *bytes: its size. */
static int count_records(long *bytes) {
  FILE *file = fopen(path, "rb");
  uint8_t head[12];
  int count = 0;
  assert_non_null(file);
  while (fread(head, 1, sizeof head, file) == sizeof head) {
    uint64_t length;
    memcpy(&length, head, 8);
    for (uint64_t i = 0; i < length + 4; i++) assert_true(fgetc(file) != EOF);
    count++;
  }
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *bytes = ftell(file);
  rewind(file);
  long whole = 0;
  for (int i = 0; i < count; i++) {
    uint64_t length;
    assert_int_equal(fseek(file, whole, SEEK_SET), 0);
    assert_int_equal(fread(&length, 1, 8, file), 8);
    whole += (long)length + 16;
  }
  assert_int_equal(whole, *bytes);
  fclose(file);
  return count;
}

static void put_points(braid_events *events, int64_t step) {
  for (int i = 0; i < 6; i++) assert_int_equal(braid_events_scalar(events, step, "loss/train", (double)i), BRAID_OK);
}

static void test_full_disk(void **state) {
  (void)state;
  struct rlimit all;
  braid_events *events;
  long before, after;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(braid_events_open(NULL, folder, 0, &events), BRAID_OK);
  put_points(events, 1);
  assert_int_equal(braid_events_flush(events), BRAID_OK);
  find_file();
  assert_int_equal(count_records(&before), 7);
  limit_files((rlim_t)before + 100); /* a record and a part of the next */
  for (int64_t step = 2; step < 4; step++) {
    put_points(events, step);
    assert_int_equal(braid_events_flush(events), BRAID_IO);
    assert_non_null(strstr(braid_error_detail(), "cannot write: File too large"));
    assert_int_equal(count_records(&after), 7);
    assert_int_equal(after, before);
  }
  limit_files(all.rlim_cur);
  put_points(events, 4);
  assert_int_equal(braid_events_flush(events), BRAID_OK);
  put_points(events, 5);
  braid_events_close(events);
  assert_int_equal(count_records(&after), 31);
}

/* The buffer grows in the middle of a record, and there is no memory once. */
static void test_short_memory(void **state) {
  (void)state;
  bool was_short = false;
  for (int64_t n = 0; n < 4; n++) {
    oom_allocator oom;
    braid_events *events;
    long bytes;
    int taken = 1; /* the header */
    clear_folder();
    oom_init(&oom, n);
    if (braid_events_open(&oom.allocator, folder, 0, &events) != BRAID_OK) continue;
    find_file();
    for (int i = 0; i < 100; i++) {
      braid_status status = braid_events_scalar(events, i + 1, "loss/train", (double)i);
      was_short |= status != BRAID_OK;
      taken += status == BRAID_OK;
    }
    assert_true(taken >= 100);
    braid_events_close(events);
    assert_int_equal(count_records(&bytes), taken);
    assert_int_equal(atomic_load(&oom.live), 0);
  }
  assert_true(was_short);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_disk), cmocka_unit_test(test_short_memory)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
