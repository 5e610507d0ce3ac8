/* The queue's own: what its files share: queue.c takes tasks and feeds the driver, complete.c ends them and gives up
 * those that hang, collect.c looks for ended ones where the driver's calls come late. */
#ifndef BRAID_BACKEND_OPENCL_QUEUE_OWN_H
#define BRAID_BACKEND_OPENCL_QUEUE_OWN_H

#include "backend/opencl/queue.h"
#include "backend/opencl/slot.h"
#include "base/thread.h"

/* Tasks in the driver's hands. What is there cannot be taken back by `cancel`; what is not is only a list. */
enum { BRAID_CL_WINDOW = 512 };

struct braid_cl_queue {
  braid_cl_device *device;
  const braid_cl_api *cl;
  cl_command_queue
      queue; /* the driver's in use: the first of these, that measures time, or the second, that does not */
  cl_command_queue measuring, quick; /* quick: NULL until a task wants it */
  const braid_allocator *allocator;
  braid_cl_queue *next; /* of the device */

  pthread_mutex_t lock; /* guards enqueueing and the backlog */
  pthread_cond_t wake;  /* of the feeder */
  braid_cl_slot *backlog, **backlog_end;
  braid_cl_slot *spare; /* free slots of this queue */
  uint32_t stopping;    /* atomic */

  braid_cl_slot *freed; /* those that came back; a stack taken whole; atomic */
  uint32_t users;       /* threads and callbacks that are about to touch the queue; atomic */
  uint32_t waiting;     /* the feeder wants to hear of ended tasks; atomic */

  /* In flight, in order: [tail, head) of `order`. The submitter moves head, who ends tasks moves tail; both atomic. */
  braid_cl_slot *order[BRAID_CL_WINDOW];
  uint32_t head, tail;
  uint32_t enders; /* calls of braid_cl_end_tasks that nobody has answered yet; atomic */

  /* Owned by who ends tasks. */
  int64_t clock_offset_ns, clock_error_ns, clock_at_ns; /* host = device + offset, within error, found at */
  uint64_t ended, watched; /* tasks ended; the number of the one that has been first in line, running, since */
  int64_t watched_ns;
  braid_cl_slot *left_in; /* the last command given up: it keeps the driver's queue */

  bool polls;       /* ended tasks are looked for; else the driver calls */
  uint32_t resting; /* the collector has nothing to look for; atomic, a futex */
  braid_thread feeder, collector;
};

/* The queue with whose lock held this thread is in the driver, which may call back in the middle of a call. */
extern _Thread_local const braid_cl_queue *braid_cl_inside;

/* Ends the tasks at the head of the line that have finished, in order; all of them if the device is lost or the first
 * has been running for longer than it may. Any thread that does not hold the queue's lock; one at a time does the
 * work. */
void braid_cl_end_tasks(braid_cl_queue *queue);
/* The driver's call at the end of a command. */
void CL_CALLBACK braid_cl_on_finished(cl_event event, cl_int status, void *slot);
/* Looks for ended tasks as long as the queue lives; main function of a thread. */
void *braid_cl_collect(void *queue);
/* There is something to look for. */
void braid_cl_collector_wake(braid_cl_queue *queue);
/* Marks the device lost and wakes its queues' feeders. */
void braid_cl_declare_lost(braid_cl_device *device);

/* How long a task may run; 0: as long as it likes. */
static inline int64_t braid_cl_limit_ns(const braid_cl_queue *queue) {
  static const int64_t kPatience = 30000000000; /* of a queue that is being destroyed */
  int64_t limit = queue->device->deadline_ns;
  return limit || !__atomic_load_n(&queue->stopping, __ATOMIC_ACQUIRE) ? limit : kPatience;
}

static inline bool braid_cl_is_idle(const braid_cl_queue *queue) {
  return __atomic_load_n(&queue->head, __ATOMIC_SEQ_CST) == __atomic_load_n(&queue->tail, __ATOMIC_SEQ_CST);
}

static inline bool braid_cl_is_cancelled(const braid_task *task) {
  return task->cancel && __atomic_load_n(task->cancel, __ATOMIC_ACQUIRE);
}

#endif
