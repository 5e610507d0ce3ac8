/* Threads: a thin layer over POSIX threads that keeps the library's error rules. */
#ifndef BRAID_BASE_THREAD_H
#define BRAID_BASE_THREAD_H
#include "braid/status.h"
#include <pthread.h>
#include <stdint.h>
typedef struct braid_thread {
  pthread_t handle;
} braid_thread;
/* `name`: at most 15 characters, shown by debuggers. Signals are blocked in the new thread. */
BRAID_MUST_CHECK braid_status braid_thread_start(braid_thread *thread, const char *name, void *(*main)(void *),
                                                 void *context);
void braid_thread_join(braid_thread *thread);
int braid_cpu_count(void); /* CPUs this process may use (affinity and cgroup quota), at least 1 */
/* Waits while *word == expected, until woken or timeout_ns (< 0: no limit); false on timeout. May wake spuriously. */
int braid_futex_wait(uint32_t *word, uint32_t expected, int64_t timeout_ns);
void braid_futex_wake_all(uint32_t *word);
void braid_futex_wake_shared(uint32_t *word); /* in memory that other processes wait on */
#endif
