/* A raise stores the value, then looks whether somebody waits for it; who waits says for what, then looks at the value:
 * one of the two sees the other. Both store by exchanging, which costs the same on x86: QEMU lets a load pass the
 * store before it on an emulated ARM, though both are sequentially consistent. Whoever waits is in the list, as a
 * notice; threads that sleep too, each on a word of its own, so that nobody is woken for a value that he does not wait
 * for. */
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "braid/device.h"
#include "device/pause.h"
#include "device/sleep.h"

struct braid_timeline {
  _Alignas(64) uint64_t value; /* atomic */
  uint64_t awaited;            /* the lowest value that somebody waits for; atomic */
  pthread_mutex_t lock;        /* of the list */
  braid_notice *notices;
  const void *owner;
  void *native;
  const braid_allocator *allocator;
};

braid_status braid_timeline_create(const braid_allocator *allocator, braid_timeline **out) {
  *out = braid_zalloc(allocator, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->allocator = allocator;
  (*out)->awaited = UINT64_MAX;
  if (!pthread_mutex_init(&(*out)->lock, NULL)) return BRAID_OK;
  braid_free(allocator, *out);
  *out = NULL;
  return BRAID_NO_MEMORY;
}

void braid_timeline_destroy(braid_timeline *timeline) {
  if (!timeline) return;
  pthread_mutex_destroy(&timeline->lock);
  braid_free(timeline->allocator, timeline);
}

uint64_t braid_timeline_value(const braid_timeline *timeline) {
  return __atomic_load_n(&timeline->value, __ATOMIC_ACQUIRE);
}

bool braid_timeline_reached(const braid_timeline *timeline, uint64_t value) {
  return braid_timeline_value(timeline) >= value;
}

/* --- raising -------------------------------------------------------------------------------------------------------
 */
/* Takes what waits for `value` or less out of the list, in the order in which it came. */
static braid_notice *take_due(braid_timeline *timeline, uint64_t value) {
  braid_notice *due = NULL, **end = &due;
  uint64_t awaited = UINT64_MAX;
  pthread_mutex_lock(&timeline->lock);
  for (braid_notice **link = &timeline->notices; *link;) {
    braid_notice *notice = *link;
    if (notice->value <= value) {
      *link = notice->next;
      *end = notice;
      end = &notice->next;
    } else {
      if (notice->value < awaited) awaited = notice->value;
      link = &notice->next;
    }
  }
  *end = NULL;
  __atomic_store_n(&timeline->awaited, awaited, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&timeline->lock);
  return due;
}

void braid_timeline_raise(braid_timeline *timeline, uint64_t value) {
  if (value <= __atomic_load_n(&timeline->value, __ATOMIC_RELAXED)) return;
  (void)__atomic_exchange_n(&timeline->value, value, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&timeline->awaited, __ATOMIC_SEQ_CST) > value) return;
  for (braid_notice *notice = take_due(timeline, value), *next; notice; notice = next) {
    next = notice->next; /* the notice is its owner's again once it is called */
    notice->call(notice);
  }
}

/* --- waiting -------------------------------------------------------------------------------------------------------
 */
/* Adds the notice; false: the value is reached, and it was not. */
static bool add_notice(braid_timeline *timeline, braid_notice *notice) {
  pthread_mutex_lock(&timeline->lock);
  uint64_t before = timeline->awaited;
  if (notice->value < before) (void)__atomic_exchange_n(&timeline->awaited, notice->value, __ATOMIC_SEQ_CST);
  bool waits = __atomic_load_n(&timeline->value, __ATOMIC_SEQ_CST) < notice->value;
  if (waits) {
    braid_notice **end = &timeline->notices;
    while (*end) end = &(*end)->next;
    notice->next = NULL;
    *end = notice;
  } else {
    __atomic_store_n(&timeline->awaited, before, __ATOMIC_SEQ_CST);
  }
  pthread_mutex_unlock(&timeline->lock);
  return waits;
}

/* False: it is not in the list any more, but called or about to be. */
static bool remove_notice(braid_timeline *timeline, const braid_notice *notice) {
  pthread_mutex_lock(&timeline->lock);
  braid_notice **link = &timeline->notices;
  while (*link && *link != notice) link = &(*link)->next;
  bool found = *link;
  if (found) *link = notice->next; /* `awaited` may stay too low for a while, which costs a look */
  pthread_mutex_unlock(&timeline->lock);
  return found;
}

void braid_timeline_notify(braid_timeline *timeline, uint64_t value, braid_notice *notice) {
  notice->value = value;
  if (braid_timeline_reached(timeline, value) || !add_notice(timeline, notice)) notice->call(notice);
}

/* A thread that sleeps until *word changes: when the value is reached, when the run is cancelled, or for a reason of
 * its own. */
typedef struct sleeper {
  braid_notice notice;          /* first */
  const braid_verdict *verdict; /* of the run; NULL: none */
  uint32_t *word;               /* atomic, a futex */
  uint32_t noticed;             /* the notice was called; atomic */
  struct sleeper *next;         /* of those with a verdict */
} sleeper;

/* The word may be gone once it has changed; waking whoever sleeps at its address does no harm. */
static void wake_sleeper(braid_notice *notice) {
  sleeper *own = (sleeper *)notice;
  uint32_t *word = own->word;
  __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&own->noticed, 1, __ATOMIC_RELEASE);
  braid_futex_wake_all(word);
}

/* Who sleeps says for which run, then looks whether it is cancelled; who cancels does the opposite. The lock is taken
 * only by threads that are about to sleep, and by those that cancel while one does. */
static pthread_mutex_t sleepers_lock = PTHREAD_MUTEX_INITIALIZER;
static sleeper *sleepers; /* atomic */

static void add_sleeper(sleeper *own) {
  pthread_mutex_lock(&sleepers_lock);
  own->next = sleepers;
  (void)__atomic_exchange_n(&sleepers, own, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&sleepers_lock);
}

static void remove_sleeper(const sleeper *own) {
  pthread_mutex_lock(&sleepers_lock);
  sleeper **link = &sleepers;
  while (*link != own) link = &(*link)->next;
  __atomic_store_n(link, own->next, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&sleepers_lock);
}

static void sleep_until_called(sleeper *own, uint32_t seen, int64_t timeout_ns) {
  if (own->verdict) add_sleeper(own);
  if (!own->verdict || !__atomic_load_n(&own->verdict->cancel, __ATOMIC_SEQ_CST))
    (void)braid_futex_wait(own->word, seen, timeout_ns);
  if (own->verdict) remove_sleeper(own);
}

/* Spins a little, because the usual wait is for a task that is nearly done, then sleeps. */
void braid_point_sleep(const braid_point *point, const braid_verdict *verdict, uint32_t *word, uint32_t seen,
                       int64_t timeout_ns) {
  for (int i = 0; i < kShortSpins; i++) {
    if (braid_timeline_reached(point->timeline, point->value)) return;
    braid_pause();
  }
  sleeper own = {.notice = {.call = wake_sleeper, .value = point->value}, .verdict = verdict, .word = word};
  if (!add_notice(point->timeline, &own.notice)) return;
  sleep_until_called(&own, seen, timeout_ns);
  if (remove_notice(point->timeline, &own.notice)) return;
  while (!__atomic_load_n(&own.noticed, __ATOMIC_ACQUIRE)) braid_pause();
}

braid_status braid_timeline_wait(braid_timeline *timeline, uint64_t value, int64_t timeout_ns) {
  int64_t deadline = braid_deadline_ns(timeout_ns), left = timeout_ns;
  while (!braid_timeline_reached(timeline, value)) {
    uint32_t word = 0;
    braid_point_sleep(&(braid_point){timeline, value}, NULL, &word, 0, left);
    left = deadline < 0 ? -1 : deadline - braid_now_ns();
    if (deadline >= 0 && left <= 0 && !braid_timeline_reached(timeline, value))
      return braid_fail(BRAID_TIMEOUT, "the task is not done");
  }
  return BRAID_OK;
}

/* --- native queues -------------------------------------------------------------------------------------------------
 */
void braid_timeline_set_native(braid_timeline *timeline, const void *owner, void *native) {
  timeline->native = native;
  timeline->owner = owner;
}

void *braid_timeline_get_native(const braid_timeline *timeline, const void *owner) {
  return timeline->owner == owner ? timeline->native : NULL;
}

/* --- verdicts ------------------------------------------------------------------------------------------------------
 */
void braid_verdict_init(braid_verdict *verdict) {
  __atomic_store_n(&verdict->cancel, 0, __ATOMIC_RELAXED); /* any thread may cancel at any time */
  __atomic_store_n(&verdict->failures, 0, __ATOMIC_RELAXED);
  verdict->status = BRAID_OK;
  verdict->task = NULL;
  verdict->detail[0] = '\0';
}

void braid_verdict_cancel(braid_verdict *verdict) {
  (void)__atomic_exchange_n(&verdict->cancel, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&sleepers_lock);
  for (sleeper *own = sleepers; own; own = own->next) {
    if (own->verdict != verdict) continue;
    __atomic_add_fetch(own->word, 1, __ATOMIC_RELEASE);
    braid_futex_wake_all(own->word);
  }
  pthread_mutex_unlock(&sleepers_lock);
}

bool braid_verdict_cancelled(const braid_verdict *verdict) {
  return __atomic_load_n(&verdict->cancel, __ATOMIC_ACQUIRE);
}

void braid_verdict_fail(braid_verdict *verdict, const braid_task *task, braid_status status) {
  if (!__atomic_fetch_add(&verdict->failures, 1, __ATOMIC_ACQ_REL)) {
    verdict->task = task;
    (void)snprintf(verdict->detail, sizeof verdict->detail, "%s", braid_error_detail());
    __atomic_store_n(&verdict->status, status, __ATOMIC_RELEASE);
  }
  braid_clear_detail(); /* the verdict has it: this thread's next failure may come without one */
  braid_verdict_cancel(verdict);
}

braid_status braid_verdict_status(const braid_verdict *verdict) {
  braid_status status = __atomic_load_n(&verdict->status, __ATOMIC_ACQUIRE);
  if (status != BRAID_OK) return braid_fail(status, "%s", verdict->detail);
  if (!braid_verdict_cancelled(verdict)) return BRAID_OK;
  braid_clear_detail();
  return BRAID_CANCELLED;
}
