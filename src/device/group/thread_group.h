/* A group of threads of one process, each of which is a member as a process would be. For tests only. */
#ifndef BRAID_DEVICE_GROUP_THREAD_GROUP_H
#define BRAID_DEVICE_GROUP_THREAD_GROUP_H

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "braid/group.h"

enum { kMostThreads = 8, kMostShared = 1 << 20 };

/* What they share: one message of each, and a barrier. */
static struct thread_world {
  pthread_mutex_t lock;
  pthread_cond_t passed;
  int size, waiting;
  unsigned turn;
  _Alignas(64) uint8_t messages[kMostThreads][kMostShared];
} thread_world = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1, 0, 0, {{0}}};
static _Thread_local int thread_rank;

/* Of the threads to come; each then sets thread_rank. */
static inline void thread_world_begin(int size) {
  thread_world.size = size;
  thread_world.waiting = 0;
}

static inline braid_status thread_barrier(const braid_group_patience *patience) {
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&thread_world.lock);
  unsigned turn = thread_world.turn;
  if (++thread_world.waiting == thread_world.size) {
    thread_world.waiting = 0;
    thread_world.turn++;
    pthread_cond_broadcast(&thread_world.passed);
  }
  while (status == BRAID_OK && turn == thread_world.turn) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    (void)pthread_cond_timedwait(&thread_world.passed, &thread_world.lock, &until);
    if (turn == thread_world.turn && patience->is_over(patience->context))
      status = braid_fail(BRAID_DEVICE_LOST, "the other threads do not answer");
  }
  pthread_mutex_unlock(&thread_world.lock);
  return status;
}

static inline braid_status thread_join(void **context, int *rank, int *size) {
  *rank = thread_rank;
  *size = thread_world.size;
  *context = (void *)(uintptr_t)(thread_rank + 1);
  return BRAID_OK;
}

static inline void thread_combine(void *into, const void *from, size_t count, braid_dtype dtype, braid_reduction how) {
  for (size_t i = 0; i < count; i++) {
    if (dtype == BRAID_F32 || dtype == BRAID_F64) {
      double a = dtype == BRAID_F32 ? ((float *)into)[i] : ((double *)into)[i];
      double b = dtype == BRAID_F32 ? ((const float *)from)[i] : ((const double *)from)[i];
      double c = how == BRAID_REDUCE_SUM ? a + b : a > b ? a : b;
      if (dtype == BRAID_F32)
        ((float *)into)[i] = (float)c;
      else
        ((double *)into)[i] = c;
      continue;
    }
    int64_t a = dtype == BRAID_I32 ? ((int32_t *)into)[i] : ((int64_t *)into)[i];
    int64_t b = dtype == BRAID_I32 ? ((const int32_t *)from)[i] : ((const int64_t *)from)[i];
    int64_t c = how == BRAID_REDUCE_SUM  ? (int64_t)((uint64_t)a + (uint64_t)b)
                : how == BRAID_REDUCE_OR ? a | b
                : a > b                  ? a
                                         : b;
    if (dtype == BRAID_I32)
      ((int32_t *)into)[i] = (int32_t)c;
    else
      ((int64_t *)into)[i] = c;
  }
}

static inline int rank_in(void *context) {
  return (int)(uintptr_t)context - 1;
}

static inline braid_status thread_all_reduce(void *context, void *data, size_t count, braid_dtype dtype,
                                             braid_reduction how, const braid_group_patience *patience) {
  size_t element = braid_dtype_size(dtype), most = kMostShared / element;
  for (size_t at = 0; at < count; at += most) {
    size_t some = count - at < most ? count - at : most;
    uint8_t *own = (uint8_t *)data + at * element;
    memcpy(thread_world.messages[rank_in(context)], own, some * element);
    braid_status status = thread_barrier(patience);
    if (status != BRAID_OK) return status;
    memcpy(own, thread_world.messages[0], some * element);
    for (int r = 1; r < thread_world.size; r++) thread_combine(own, thread_world.messages[r], some, dtype, how);
    status = thread_barrier(patience);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static inline braid_status thread_broadcast(void *context, void *data, size_t bytes, int root,
                                            const braid_group_patience *patience) {
  for (size_t at = 0; at < bytes; at += kMostShared) {
    size_t some = bytes - at < kMostShared ? bytes - at : kMostShared;
    if (rank_in(context) == root) memcpy(thread_world.messages[root], (uint8_t *)data + at, some);
    braid_status status = thread_barrier(patience);
    if (status != BRAID_OK) return status;
    if (rank_in(context) != root) memcpy((uint8_t *)data + at, thread_world.messages[root], some);
    status = thread_barrier(patience);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static int thread_aborted; /* the code, of the last that did */
static inline void thread_abort(void *context, int code) {
  (void)context;
  __atomic_store_n(&thread_aborted, code, __ATOMIC_RELAXED);
}

static inline void thread_leave(void *context, bool lost) {
  (void)context, (void)lost;
}

static const braid_group_ops kThreadOps = {.abi = BRAID_GROUP_ABI,
                                           .name = "threads",
                                           .join = thread_join,
                                           .all_reduce = thread_all_reduce,
                                           .broadcast = thread_broadcast,
                                           .abort = thread_abort,
                                           .leave = thread_leave};

/* Runs `member` in so many threads, each a process of the group; its result is in `out` (NULL: none is wanted). */
typedef struct thread_member {
  int rank;
  int (*member)(braid_group *group, void *context);
  void *context;
  int result;
} thread_member;

static inline void *thread_member_main(void *argument) {
  thread_member *m = argument;
  braid_group *group;
  thread_rank = m->rank;
  m->result = -1;
  if (braid_group_join(NULL, &kThreadOps, &group) != BRAID_OK) return NULL;
  m->result = m->member(group, m->context);
  braid_group_destroy(group);
  return NULL;
}

/* 0 if every member returned 0; else the first other result. */
static inline int thread_world_run(int size, int (*member)(braid_group *group, void *context), void *context) {
  pthread_t threads[kMostThreads];
  thread_member members[kMostThreads];
  int result = 0;
  thread_world_begin(size);
  for (int r = 0; r < size; r++) {
    members[r] = (thread_member){r, member, context, -1};
    if (pthread_create(&threads[r], NULL, thread_member_main, &members[r]) != 0) return -1;
  }
  for (int r = 0; r < size; r++) {
    pthread_join(threads[r], NULL);
    if (!result) result = members[r].result;
  }
  return result;
}

#endif
