#include "measure/cycles.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/vector.h"

static int open_event(long thread, uint64_t event) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_HARDWARE,
      .size = sizeof attr,
      .config = event,
      .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
      .exclude_kernel = 1,
      .exclude_hv = 1,
  };
  return (int)syscall(SYS_perf_event_open, &attr, (pid_t)thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void explain(braid_cycles *cycles, int error) {
  snprintf(cycles->note, sizeof cycles->note, "%s (perf_event_open: %s)",
           error == EACCES || error == EPERM ? "counting is not permitted, see kernel.perf_event_paranoid"
                                             : "this system has no counters of instructions and cycles",
           strerror(error));
}

static braid_status add_thread(braid_cycles *cycles, long thread) {
  static const uint64_t kEvents[] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES};
  for (int i = 0; i < 2; i++) {
    int *files = braid_grow(cycles->allocator, cycles->files, cycles->count, &cycles->capacity, sizeof *files);
    if (!files) return BRAID_NO_MEMORY;
    cycles->files = files;
    int file = open_event(thread, kEvents[i]);
    if (file < 0 && errno == ESRCH && !i) return BRAID_OK; /* it has ended meanwhile */
    if (file < 0) explain(cycles, errno);
    if (file < 0) return BRAID_OK;
    files[cycles->count++] = file;
  }
  return BRAID_OK;
}

static void close_all(braid_cycles *cycles) {
  for (size_t i = 0; i < cycles->count; i++) close(cycles->files[i]);
  braid_free(cycles->allocator, cycles->files);
  cycles->files = NULL;
  cycles->count = cycles->capacity = 0;
}

braid_status braid_cycles_begin(braid_cycles *cycles, const braid_allocator *allocator) {
  *cycles = (braid_cycles){.allocator = allocator};
  DIR *threads = opendir("/proc/self/task");
  if (!threads) explain(cycles, errno);
  braid_status status = BRAID_OK;
  const struct dirent *entry;
  while (threads && status == BRAID_OK && !cycles->note[0] && (entry = readdir(threads)))
    if (entry->d_name[0] != '.') status = add_thread(cycles, strtol(entry->d_name, NULL, 10));
  if (threads) closedir(threads);
  if (status != BRAID_OK || cycles->note[0]) close_all(cycles);
  return status;
}

/* The hardware may count for a part of the time alone. */
static double read_event(int file) {
  uint64_t values[3] = {0};
  if (read(file, values, sizeof values) != sizeof values) return NAN;
  return values[2] ? (double)values[0] * ((double)values[1] / (double)values[2]) : 0;
}

double braid_cycles_end(braid_cycles *cycles) {
  double sums[2] = {0};
  for (size_t i = 0; i < cycles->count; i++) sums[i % 2] += read_event(cycles->files[i]);
  bool counted = cycles->count > 0;
  close_all(cycles);
  if (counted && !(sums[1] > 0)) snprintf(cycles->note, sizeof cycles->note, "the counters counted nothing");
  return counted && sums[1] > 0 ? sums[0] / sums[1] : NAN;
}
