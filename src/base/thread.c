#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
  if (error) return braid_fail(BRAID_NO_MEMORY, "cannot start thread %s: %s", name, strerror(error));
  pthread_setname_np(thread->handle, name);
  return BRAID_OK;
}

void braid_thread_join(braid_thread *thread) {
  pthread_join(thread->handle, NULL);
}

/* CPUs by the quota of control group version 2; 0: no quota. */
static int quota_cpus(void) {
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!file) return 0;
  long long quota, period;
  int fields = fscanf(file, "%lld %lld", &quota, &period);
  fclose(file);
  return fields == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int braid_cpu_count(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  int quota = quota_cpus();
  if (quota > 0 && quota < count) count = quota;
  return count > 0 ? count : 1;
}

int braid_futex_wait(uint32_t *word, uint32_t expected, int64_t timeout_ns) {
  struct timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
  long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &limit, NULL, 0);
  return result == 0 || errno != ETIMEDOUT;
}

void braid_futex_wake_all(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
