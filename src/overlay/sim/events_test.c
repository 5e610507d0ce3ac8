/* Events come in the order of their times and of being added, wherever they waited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "overlay/sim/events.h"

enum { kMost = 4000 };

typedef struct expected {
  uint64_t at;
  bool taken;
} expected;

/* Against a search of all that is there. */
static void test_order(void **state) {
  (void)state;
  static expected all[kMost];
  braid_event_queue *queue = braid_zalloc(NULL, sizeof *queue);
  uint64_t drawn = 0, now = 0;
  size_t added = 0, left = 0;
  while (added < kMost || left) {
    size_t more = added < kMost ? braid_random_below(3, 0, 0, drawn++, 5) : 0;
    for (size_t i = 0; i < more && added < kMost; i++, added++, left++) {
      static const uint32_t kRanges[] = {1, 3, 60, BRAID_EVENT_RING, 10 * BRAID_EVENT_RING};
      uint32_t range = kRanges[braid_random_below(3, 0, 0, drawn++, 5)];
      all[added] = (expected){now + braid_random_below(3, 0, 0, drawn++, range + 1), false};
      braid_event_queue_add(queue, all[added].at, BRAID_EVENT_CORE, (uint32_t)added, 0);
    }
    if (!left) continue;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < added; i++)
      if (!all[i].taken && (best == SIZE_MAX || all[i].at < all[best].at)) best = i;
    assert_int_equal(braid_event_queue_next(queue), all[best].at);
    braid_event e = braid_event_queue_take(queue);
    assert_int_equal(e.index, best);
    assert_int_equal(e.at, all[best].at);
    all[best].taken = true;
    now = e.at;
    left--;
  }
  assert_int_equal(braid_event_queue_next(queue), UINT64_MAX);
  assert_false(queue->failed);
  braid_event_queue_deinit(queue);
  braid_free(NULL, queue);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
