#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

braid_status braid_thread_start(braid_thread *thread, const char *name, void *(*entry)(void *), void *context) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread->handle, NULL, entry, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) {
    return braid_fail(error == EAGAIN ? BRAID_NO_MEMORY : BRAID_INTERNAL, "cannot start thread \"%s\": %s", name,
                      strerror(error));
  }
  pthread_setname_np(thread->handle, name);
  return BRAID_OK;
}

void braid_thread_join(braid_thread *thread) {
  pthread_join(thread->handle, NULL);
}

static int count_affinity(void) {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC((size_t)cpus);
    if (!set) break;
    size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
    int failed = sched_getaffinity(0, bytes, set);
    int error = errno;
    int count = failed ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (!failed) return count;
    if (error != EINVAL) break; /* EINVAL: the kernel's set is larger than ours */
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* A cgroup's CPU quota in CPUs, rounded up; 0: no limit. Version 2: "quota period" or "max period". */
static long read_quota(const char *folder) {
  char path[4200];
  snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
  long quota = 0, period = 0;
  FILE *file = fopen(path, "re");
  if (file) {
    if (fscanf(file, "%ld %ld", &quota, &period) != 2) quota = 0;
    fclose(file);
  }
  return quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

/* The smallest quota from this process's cgroup up to the root. */
static long cgroup_limit(void) {
  char line[4100] = "";
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return 0;
  char folder[4100] = "";
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "0::", 3) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    memcpy(folder, line + 3, strlen(line + 3) + 1);
  }
  fclose(file);
  long limit = 0;
  for (;;) {
    long quota = read_quota(strcmp(folder, "/") == 0 ? "" : folder);
    if (quota && (!limit || quota < limit)) limit = quota;
    char *slash = strrchr(folder, '/');
    if (!slash) break;
    *slash = '\0';
  }
  return limit;
}

int braid_cpu_count(void) {
  int count = count_affinity();
  long limit = cgroup_limit();
  if (limit && limit < count) count = (int)limit;
  return count > 0 ? count : 1;
}

int braid_futex_wait(uint32_t *word, uint32_t expected, int64_t timeout_ns) {
  struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
  long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
  return !(result < 0 && errno == ETIMEDOUT);
}

void braid_futex_wake_shared(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void braid_futex_wake_all(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
