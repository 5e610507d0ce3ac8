/* A task in flight, and what other queues may learn of it. A slot is the native event that braid_event_set_native
 * leaves for queues of the same context: its memory stays until the context ends, so that a queue may look at it while
 * the task ends on another thread. */
#ifndef BRAID_BACKEND_OPENCL_SLOT_H
#define BRAID_BACKEND_OPENCL_SLOT_H

#include "backend/opencl/device.h"

struct braid_cl_slot {
  pthread_mutex_t lock;     /* guards owner, last, finished and orphan */
  const braid_event *owner; /* completed by the task in this slot; NULL: none */
  cl_event first, last;     /* of the task's commands; `last` NULL: not enqueued (yet, or never) */
  bool finished, orphan;    /* orphan: given up; the callback finds nobody waiting */
  cl_int result;            /* of the last command */

  braid_cl_context *context;
  braid_cl_queue *queue;
  braid_task *task;
  int64_t before_ns, after_ns; /* the host's time around enqueueing */
  braid_status status;         /* of a task that did not get as far as the driver */
  braid_event *failed_wait;    /* whose failure it shares */
  char detail[224];
  cl_command_queue left_queue; /* of a queue destroyed with this command in it: released when the slot is used again */
  braid_cl_slot *next;         /* in the backlog or a free list */
  braid_cl_slot *all;
};

/* Links up to `count` free slots by `next`; NULL when out of memory. */
braid_cl_slot *braid_cl_slots_take(braid_cl_context *context, size_t count);
void braid_cl_slots_give(braid_cl_context *context, braid_cl_slot *list);
/* Leaves a destroyed queue's handle with a command that was given up; false: its callback has come. */
bool braid_cl_slot_keep_queue(braid_cl_slot *slot, cl_command_queue queue);
void braid_cl_slots_release(braid_cl_context *context); /* all of them, with the context */

#endif
