#include "base/clock.h"

#include <time.h>

#include "base/invariant.h"

int64_t braid_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#ifdef BRAID_INVARIANTS
  static _Thread_local int64_t last;
  BRAID_ASSERT(ns >= last);
  last = ns;
#endif
  return ns;
}

int64_t braid_thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t braid_deadline_ns(int64_t timeout_ns) {
  int64_t deadline;
  if (timeout_ns < 0 || __builtin_add_overflow(braid_now_ns(), timeout_ns, &deadline)) return -1;
  return deadline;
}
