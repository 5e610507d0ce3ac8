/* Looking for ended tasks. Drivers of graphics cards call back late: NVIDIA's takes 5 us more for each of a stream of
 * kernels and up to ten milliseconds after a copy, during which the host knows of nothing (measured on an H200). So a
 * thread of ours asks how the first command in line stands: without a pause at first, then now and then, the less often
 * the longer it takes. It never waits in the driver, which may not come back from a device that hangs. */
#include <sys/prctl.h>
#include <time.h>

#include "backend/opencl/queue_own.h"
#include "base/clock.h"

static const int64_t kAtOnce = 40000;                           /* ns of asking without a pause */
static const int64_t kShortestNap = 4000, kLongestNap = 250000; /* ns between questions */
enum { kPart = 16 };                                            /* a nap is this part of the time waited so far */

static bool is_over(const braid_cl_queue *queue) {
  return __atomic_load_n(&queue->stopping, __ATOMIC_ACQUIRE) && braid_cl_is_idle(queue);
}

void braid_cl_collector_wake(braid_cl_queue *queue) {
  if (__atomic_load_n(&queue->resting, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&queue->resting, 0, __ATOMIC_SEQ_CST))
    braid_futex_wake_all(&queue->resting);
}

static void rest(braid_cl_queue *queue) {
  __atomic_store_n(&queue->resting, 1, __ATOMIC_SEQ_CST);
  if (braid_cl_is_idle(queue) && !__atomic_load_n(&queue->stopping, __ATOMIC_SEQ_CST))
    (void)braid_futex_wait(&queue->resting, 1, -1);
  __atomic_store_n(&queue->resting, 0, __ATOMIC_SEQ_CST);
}

static void nap(int64_t waited_ns) {
  int64_t ns = waited_ns / kPart;
  if (ns < kShortestNap) ns = kShortestNap;
  if (ns > kLongestNap) ns = kLongestNap;
  (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

void *braid_cl_collect(void *context) {
  braid_cl_queue *queue = context;
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* short naps are to be short */
  uint32_t tail = 0;
  int64_t since = braid_now_ns();
  while (!is_over(queue)) {
    if (braid_cl_is_idle(queue)) {
      rest(queue);
      since = braid_now_ns();
      continue;
    }
    braid_cl_end_tasks(queue);
    uint32_t now_at = __atomic_load_n(&queue->tail, __ATOMIC_SEQ_CST);
    int64_t now = braid_now_ns();
    if (now_at != tail) since = now;
    tail = now_at;
    if (now - since > kAtOnce) nap(now - since);
  }
  return NULL;
}
