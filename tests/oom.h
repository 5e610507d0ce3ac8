/* Out-of-memory sweeps: every constructor is run with an allocator that fails the n-th request, n = 0, 1, 2 ..., until
 * it gets through. Each failed attempt must say NO_MEMORY with a detail of its own and leave nothing behind. For tests
 * only. */
#ifndef BRAID_TESTS_OOM_H
#define BRAID_TESTS_OOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "braid/allocator.h"

typedef struct oom_allocator {
  braid_allocator allocator; /* hand &oom.allocator to what is tested */
  int64_t fail_at;           /* the request that fails, counted from 0; -1: none */
  atomic_int_fast64_t requests, live;
  atomic_bool failed;
} oom_allocator;

static void *oom_allocate(void *context, size_t bytes, size_t alignment) {
  oom_allocator *oom = context;
  if (atomic_fetch_add(&oom->requests, 1) == oom->fail_at) {
    atomic_store(&oom->failed, true);
    return NULL;
  }
  const braid_allocator *heap = braid_allocator_default();
  void *pointer = heap->allocate(heap->context, bytes, alignment);
  if (pointer) atomic_fetch_add(&oom->live, 1);
  return pointer;
}

static void oom_release(void *context, void *pointer) {
  oom_allocator *oom = context;
  const braid_allocator *heap = braid_allocator_default();
  if (pointer) atomic_fetch_sub(&oom->live, 1);
  heap->release(heap->context, pointer);
}

/* Fails request `fail_at` (-1: none), counts what is live. */
static inline void oom_init(oom_allocator *oom, int64_t fail_at) {
  *oom = (oom_allocator){.allocator = {oom, oom_allocate, oom_release}, .fail_at = fail_at};
}

/* `attempt` constructs with the allocator, destroys what it got, and returns the constructor's status. Returns how many
 * requests a successful attempt makes. */
static inline int64_t oom_sweep(braid_status (*attempt)(const braid_allocator *allocator, void *context),
                                void *context) {
  for (int64_t n = 0;; n++) {
    oom_allocator oom;
    oom_init(&oom, n);
    (void)braid_fail(BRAID_INTERNAL, "of an older failure");
    braid_status status = attempt(&oom.allocator, context);
    if (atomic_load(&oom.live) != 0) {
      fail_msg("request %lld failing leaves %lld blocks behind", (long long)n, (long long)atomic_load(&oom.live));
    }
    if (!atomic_load(&oom.failed)) {
      if (status != BRAID_OK) fail_msg("with memory enough: %s: %s", braid_status_text(status), braid_error_detail());
      return n;
    }
    if (status != BRAID_NO_MEMORY) {
      fail_msg("request %lld failing gives \"%s\", not NO_MEMORY", (long long)n, braid_status_text(status));
    }
    if (strstr(braid_error_detail(), "of an older failure")) {
      fail_msg("request %lld failing leaves the detail \"%s\"", (long long)n, braid_error_detail());
    }
  }
}

#endif
