/* Errands: tasks outside of runs, each waited for by the call that starts it. An errand and the memory it works on
 * belong to an object and not to that call, because a task that is late, or on a device that is lost, is left behind
 * and may still touch them. One at a time; guarded by its owner. */
#ifndef BRAID_RUNTIME_ERRAND_H
#define BRAID_RUNTIME_ERRAND_H

#include "runtime/machine.h"

typedef struct braid_errand {
  braid_machine *machine; /* not retained */
  braid_task task;
  braid_verdict verdict;
  braid_binding bindings[3];
  void *staging;      /* in place of the caller's memory; NULL: none */
  void *prepared;     /* a kernel for this errand alone, discarded when it has ended; NULL: none */
  const void *lender; /* whose other memory it works with (weights.c); NULL: nobody's */
  bool left;          /* the last one has not ended, */
  int device;         /* on this device: */
  braid_point point;  /* this is not reached */
} braid_errand;

void braid_errand_init(braid_errand *errand, braid_machine *machine);
/* The errand has ended, or none was run. */
void braid_errand_deinit(braid_errand *errand);
/* Waits for one that was left behind. TIMEOUT (< 0: no limit); DEVICE_LOST: it may never end, and what it works on must
 * stay. */
BRAID_MUST_CHECK braid_status braid_errand_settle(braid_errand *errand, int64_t timeout_ns);
/* Submits errand->task and waits for its end: how it ended, or that it was left. Settle first. */
BRAID_MUST_CHECK braid_status braid_errand_run(braid_errand *errand, int device, int queue, int64_t timeout_ns);
/* Copies `place` of a device of separate memory to host memory, or the other way, after settling. */
BRAID_MUST_CHECK braid_status braid_errand_move(braid_errand *errand, int device, const braid_binding *place,
                                                void *host, bool write, int64_t timeout_ns);
/* The same by way of memory of the errand's, so that `host` is touched only while the call lasts. */
BRAID_MUST_CHECK braid_status braid_errand_move_staged(braid_errand *errand, int device, const braid_binding *place,
                                                       void *host, bool write, int64_t timeout_ns);

#endif
