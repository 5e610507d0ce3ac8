#include "device/event.h"

#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/pause.h"

enum {
  kCalled = 1,   /* a call is registered */
  kFinished = 2, /* the result stands; a call registered from now on is made by who registers it */
  kDone = 4,     /* waiters may go on, and the event's owner may reset or destroy it */
  kSlept = 8,    /* somebody sleeps on the word */
};

static uint32_t load(const braid_event *event) {
  return __atomic_load_n(&event->state, __ATOMIC_ACQUIRE);
}

void braid_event_init(braid_event *event, const braid_allocator *allocator) {
  *event = (braid_event){.allocator = allocator};
}

void braid_event_deinit(braid_event *event) {
  braid_free(event->allocator, event->detail);
}

braid_status braid_event_create(const braid_allocator *allocator, braid_event **out) {
  *out = braid_alloc(allocator, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  braid_event_init(*out, allocator);
  return BRAID_OK;
}

void braid_event_destroy(braid_event *event) {
  if (!event) return;
  braid_event_deinit(event);
  braid_free(event->allocator, event);
}

void braid_event_reset(braid_event *event) {
  if (event->detail) {
    braid_free(event->allocator, event->detail);
    event->detail = NULL;
  }
  event->status = BRAID_OK;
  event->native_owner = NULL;
  event->call = NULL;
  __atomic_store_n(&event->state, 0, __ATOMIC_RELEASE);
}

bool braid_event_done(const braid_event *event) {
  return load(event) & kDone;
}

static braid_status result(const braid_event *event) {
  if (event->status == BRAID_OK) return BRAID_OK;
  return braid_fail(event->status, "%s", event->detail ? event->detail : "");
}

/* Spins a little, because the usual wait is for a task that is nearly done, then sleeps. */
braid_status braid_event_wait(braid_event *event, int64_t timeout_ns) {
  for (int i = 0; i < kShortSpins; i++) {
    if (load(event) & kDone) return result(event);
    braid_pause();
  }
  int64_t deadline = timeout_ns < 0 ? 0 : braid_now_ns() + timeout_ns;
  for (;;) {
    uint32_t state = __atomic_fetch_or(&event->state, kSlept, __ATOMIC_ACQ_REL) | kSlept;
    if (state & kDone) return result(event);
    int64_t left = timeout_ns < 0 ? -1 : deadline - braid_now_ns();
    if (timeout_ns >= 0 && left <= 0) return braid_fail(BRAID_TIMEOUT, "the task is not done");
    (void)braid_futex_wait(&event->state, state, left);
  }
}

braid_timing braid_event_timing(const braid_event *event) {
  return event->timing;
}

const char *braid_event_detail(const braid_event *event) {
  return event->detail ? event->detail : "";
}

void braid_event_on_done(braid_event *event, void (*call)(void *context, braid_status status), void *context) {
  event->call = call;
  event->context = context;
  uint32_t before = __atomic_fetch_or(&event->state, kCalled, __ATOMIC_ACQ_REL);
  if (before & kFinished) call(context, event->status);
}

/* In two steps: once kDone is seen the owner may free the event, so the call is made before. */
void braid_event_complete(braid_event *event, braid_status status, const braid_timing *timing) {
  event->timing = timing ? *timing : (braid_timing){.energy_uj = -1};
  event->status = status;
  if (status != BRAID_OK) {
    const char *detail = braid_error_detail();
    if (detail[0]) event->detail = braid_strdup(event->allocator, detail);
    braid_clear_detail(); /* the event has it: this thread's next failure may come without one */
  }
  uint32_t nobody = 0;
  if (__atomic_compare_exchange_n(&event->state, &nobody, kFinished | kDone, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  uint32_t before = __atomic_fetch_or(&event->state, kFinished, __ATOMIC_ACQ_REL);
  if (before & kCalled) event->call(event->context, status);
  before = __atomic_fetch_or(&event->state, kDone, __ATOMIC_ACQ_REL);
  if (before & kSlept) braid_futex_wake_all(&event->state);
}

void braid_event_set_native(braid_event *event, const void *owner, void *native) {
  event->native = native;
  event->native_owner = owner;
}

void *braid_event_get_native(const braid_event *event, const void *owner) {
  return event->native_owner == owner ? event->native : NULL;
}
