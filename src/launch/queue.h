/* In-order completion: tasks before a driver's queue that runs commands in order but tells of their ends in its own
 * way: late, out of order, or never. What a task goes through:
 *
 *   submitted   at the end of the list (`backlog`, linked through the tasks)
 *   issued      handed to the driver, which gives an event for its last command; in the slot value % window
 *   over        the driver says so of the event when it is polled, with a code
 *   ended       the code is judged, a failure goes to the verdict; the timeline is raised to the task's value
 *
 * One rule holds it together: tasks are issued and ended in the order of their values:
 *
 *     value of the timeline <= issued <= submitted          at most BRAID_LAUNCH_WINDOW issued and not ended
 *
 * So nothing is allocated in a steady state, a cancelled task that is still in the list never reaches the driver, and
 * queues of the same context find the event of a task that one of theirs waits for.
 *
 *   issuing   under `lock`, by the submitter or the worker, as far as the list goes
 *   ending    by one thread at a time, whoever comes: submitters, the driver's callbacks, the worker
 *   worker    a thread that sleeps unless the first task in the list waits for what the driver does not know, or for
 *             room; the driver does not call back and must be polled; or a deadline is to be watched
 *
 * A command cannot be taken back from a driver. When the device is lost, its tasks end without it; the memory of a
 * stopped queue has to stay until the driver has called back for all that it still had (`pending`). */
#ifndef BRAID_LAUNCH_QUEUE_H
#define BRAID_LAUNCH_QUEUE_H

#include "base/thread.h"
#include "braid/device.h"

enum { BRAID_LAUNCH_WINDOW = 512 };

typedef struct braid_launch_queue braid_launch_queue;

/* A task that is issued and not ended. */
typedef struct braid_launch_slot {
  braid_task *task;
  void *first, *last; /* the driver's events of the first command, if it is another (may be NULL), and the last */
  int64_t begun_ns;   /* the host's time before it was handed over */
  int32_t code;       /* of the last command once it is over, the driver's own */
} braid_launch_slot;

/* What the driver does. Events are the driver's own. */
typedef struct braid_launch_driver {
  /* Optional: the end of another task in flight that the host has to wait for before this one is enqueued, beside the
   * task's own waits; NULL: none. It stays until the next call. */
  const braid_point *(*precedes)(braid_launch_queue *queue, const braid_task *task);
  /* Hands the slot's task over, to run behind `waits`, and fills in its events. A failure may leave one too, of what
   * was begun; a task without an event is over. */
  braid_status (*enqueue)(braid_launch_queue *queue, braid_launch_slot *slot, void *const *waits, size_t wait_count);
  void (*flush)(braid_launch_queue *queue);
  /* Has braid_launch_queue_completed called when the event's command is over, be it at once. False: it cannot. */
  bool (*watch)(braid_launch_queue *queue, void *event);
  bool (*poll)(braid_launch_queue *queue, void *event, int32_t *code); /* is it over? then how */
  /* What the code of a task's last command means; of a good one the time, if the task wants it. */
  braid_status (*outcome)(braid_launch_queue *queue, const braid_launch_slot *slot, braid_timing *timing);
  void (*retain)(braid_launch_queue *queue, void *event);
  void (*release)(braid_launch_queue *queue, void *event);
  void (*mark_lost)(braid_launch_queue *queue); /* marks the device lost and wakes all of its queues */
} braid_launch_driver;

struct braid_launch_queue {
  const braid_launch_driver *driver;
  const void *context;  /* queues with the same one know each other's events */
  const char *device;   /* its name, for failures */
  const uint32_t *lost; /* the device is; atomic */
  uint32_t polls;       /* the driver is polled; else it calls back; atomic */
  uint32_t poll_part;   /* the pause between polls is this part of the time waited so far; 0: a sixteenth */
  bool splits;          /* tasks that are timed and tasks that are not are never in flight together */
  bool unified;         /* commands write memory that is the host's */
  int64_t deadline_ns;  /* of a task; 0: none */
  braid_timeline *timeline;

  pthread_mutex_t lock;         /* of issuing and of the list */
  bool timed;                   /* the task issued last is; atomic */
  braid_task *backlog, *newest; /* first (atomic) and last of the list, linked by link[0] */

  pthread_mutex_t slots_lock; /* of what follows; not held while the driver may wait */
  braid_launch_slot slots[BRAID_LAUNCH_WINDOW];
  uint64_t issued; /* the value */
  bool ending;     /* somebody ends tasks, and looks again before he goes; stays set in a queue that is stopped */

  uint32_t signals, sleeping; /* to the worker, which sleeps on the first, also for points; atomic */
  uint32_t stopping;          /* atomic */
  uint32_t pending;           /* callbacks that have not come, or are still inside; atomic */
  braid_thread worker;
};

/* In zeroed memory, with what the driver and the device say of the queue (`driver` to `deadline_ns`) set. On failure
 * there is nothing to stop. */
BRAID_MUST_CHECK braid_status braid_launch_queue_start(braid_launch_queue *queue, braid_timeline *timeline);
/* Waits for what was submitted, but not for a lost device; one that makes no progress at all is given up. */
void braid_launch_queue_stop(braid_launch_queue *queue);
/* May the memory of a stopped queue be freed? Always, unless the device is lost. */
bool braid_launch_queue_drained(const braid_launch_queue *queue);

/* Entries of braid_backend, for backends whose queue begins with a braid_launch_queue. */
BRAID_MUST_CHECK braid_status braid_launch_queue_submit(void *queue, braid_task *task);
void braid_launch_queue_flush(void *queue);
/* For the driver's callbacks: a command that was watched is over. */
void braid_launch_queue_completed(braid_launch_queue *queue);
/* Something changed that the worker has to know. */
void braid_launch_queue_wake(braid_launch_queue *queue);

#endif
