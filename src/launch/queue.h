/* In-order completion: tasks before a driver's queue that runs commands in order but tells of their ends in its own
 * way, late, out of order, or never.
 *
 * One rule holds it together: tasks are issued (handed to the driver) and ended in the order of their values:
 *
 *     ended <= issued <= submitted          at most BRAID_LAUNCH_WINDOW issued and not ended
 *
 * What is issued and not ended lies in the slot value % BRAID_LAUNCH_WINDOW, where queues of the same context find the
 * driver's event of a task that one of theirs waits for. What is submitted and not issued is a list through the tasks
 * themselves. So nothing is allocated in a steady state, and a cancelled task that is still in the list never reaches
 * the driver.
 *
 *   issuing   under `lock`, by the submitter or the worker, as far as the list goes
 *   ending    by one thread at a time, whoever comes: submitters, the driver's callbacks, the worker
 *   worker    a thread that sleeps unless the first task in the list waits for what the driver does not know, or for
 *             room; a driver that does not call back must be asked; or a deadline is to be watched
 *
 * A driver may call back for a command that was given up: so the memory of a queue stays, stopped or started again,
 * until its context ends. */
#ifndef BRAID_LAUNCH_QUEUE_H
#define BRAID_LAUNCH_QUEUE_H

#include "base/thread.h"
#include "braid/device.h"

enum { BRAID_LAUNCH_WINDOW = 512 };

typedef struct braid_launch_queue braid_launch_queue;

/* A task in flight. Guarded by the queue's `look`; who ends the task may read it without. */
typedef struct braid_launch_slot {
  braid_launch_queue *queue;
  braid_task *task;
  void *first, *last; /* the driver's events of the first command, if it is another (may be NULL), and the last */
  int64_t before_ns, after_ns; /* the host's time around issuing */
  bool finished;
  int32_t code; /* of the last command once it has finished, the driver's own */
} braid_launch_slot;

/* What the driver does. Events are the driver's own. */
typedef struct braid_launch_driver {
  /* Hands the task over, to run behind `waits`. *last is the event of its last command; a failure may leave one too, of
   * what was begun. */
  braid_status (*enqueue)(braid_launch_queue *queue, const braid_task *task, void *const *waits, size_t wait_count,
                          void **first, void **last);
  /* May it be enqueued behind what is in flight? NULL: yes. */
  bool (*follows)(braid_launch_queue *queue, const braid_task *task);
  void (*flush)(braid_launch_queue *queue);
  /* Has braid_launch_queue_finished called when the event's command has ended, be it at once. */
  void (*watch)(braid_launch_slot *slot, void *event);
  bool (*ask)(braid_launch_queue *queue, void *event, int32_t *code); /* has it ended? then how */
  /* What the code of a task's last command means; of a good one the time, if the task wants it. */
  braid_status (*outcome)(braid_launch_queue *queue, const braid_launch_slot *slot, braid_timing *timing);
  void (*retain)(braid_launch_queue *queue, void *event);
  void (*release)(braid_launch_queue *queue, void *event);
  bool (*is_lost)(braid_launch_queue *queue);
  void (*lose)(braid_launch_queue *queue); /* marks the device lost and wakes all of its queues */
} braid_launch_driver;

struct braid_launch_queue {
  const braid_launch_driver *driver;
  const void *context; /* queues with the same one know each other's events */
  const char *device;  /* its name, for failures */
  bool polls;          /* ended commands are asked for; else the driver calls */
  bool unified;        /* commands write memory that is the host's */
  int64_t deadline_ns; /* of a task; 0: none */
  uint32_t *orphans;   /* commands of the context that were given up and may still end; atomic */
  braid_timeline *timeline;

  pthread_mutex_t lock;         /* of issuing and of the list */
  braid_task *backlog, *newest; /* first (atomic) and last of the list, linked by link[0] */
  uint32_t unflushed;           /* atomic */

  pthread_mutex_t look; /* of what follows; not held while the driver may wait */
  braid_launch_slot slots[BRAID_LAUNCH_WINDOW];
  uint64_t issued, ended; /* values */
  bool ending;            /* somebody ends tasks, and looks again before he goes */
  uint64_t watched;       /* the value that has been first, with its waits done, since: */
  int64_t watched_ns;

  uint32_t signals, sleeping; /* to the worker, which sleeps on the first; atomic */
  uint32_t stopping;          /* atomic */
  uint32_t callers;           /* of braid_launch_queue_finished, who are still inside; atomic */
  braid_thread worker;
};

/* Once for the memory of a queue, and before it is freed. */
BRAID_MUST_CHECK braid_status braid_launch_queue_init(braid_launch_queue *queue);
void braid_launch_queue_deinit(braid_launch_queue *queue);
/* Between these the queue takes tasks; what the driver and the device say of it (`driver` to `orphans`) is set before.
 * Stopping waits for what was submitted, but not for a lost device; one that makes no progress at all is given up. */
BRAID_MUST_CHECK braid_status braid_launch_queue_start(braid_launch_queue *queue, braid_timeline *timeline);
void braid_launch_queue_stop(braid_launch_queue *queue);

void braid_launch_queue_submit(braid_launch_queue *queue, braid_task *task);
void braid_launch_queue_flush(braid_launch_queue *queue);
/* For the driver's callbacks: the command of this event has ended with this code. */
void braid_launch_queue_finished(braid_launch_slot *slot, void *event, int32_t code);
/* Something changed that the worker has to know. */
void braid_launch_queue_wake(braid_launch_queue *queue);

#endif
