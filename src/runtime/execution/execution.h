/* Executions inside: the memory and tasks of one run of a plan. bind.c makes them, execution.c runs them. */
#ifndef BRAID_RUNTIME_EXECUTION_H
#define BRAID_RUNTIME_EXECUTION_H

#include "runtime/execution/address.h"
#include "runtime/execution/arenas.h"
#include "runtime/execution/trace.h"
#include "runtime/plan/prepared.h"
#include "runtime/surface/buffer.h"

/* Memory that the caller gives: one input or output (port.c). */
typedef struct braid_port {
  const braid_desc *desc;
  const char *name;
  braid_storage_id storage; /* -1: an input that nothing reads */
  int space;                /* where the plan wants it */
  const braid_slot *slots;
  size_t slot_count, bytes;
  braid_buffer *buffer; /* bound by the caller; NULL: memory is given at each run */
  braid_binding bound;  /* what the slots hold */
  braid_memory spare;   /* our own memory there, made when the caller's cannot be used in place, or none is given */
  braid_binding given;  /* outputs: the caller's; all NULL: not wanted, or in place */
  int given_space;
} braid_port;

typedef struct braid_pin {
  void *host;
  struct braid_pin *next;
} braid_pin;

enum { kSamples = 16 };

/* What a run submits to one queue. */
typedef struct braid_part {
  braid_notice notice; /* first: of its end */
  braid_execution *execution;
  braid_queue *queue; /* NULL: the plan does not use it */
  braid_task **tasks; /* in their order */
  size_t count;
  void *recording; /* NULL: the backend does not record */
  uint64_t before; /* the queue's last value before the run: step nth of the queue has before + 1 + nth */
  uint64_t submitted;
} braid_part;

typedef enum braid_run_state {
  BRAID_RUN_NONE, /* nothing was submitted, or it was waited for */
  BRAID_RUN_IN_FLIGHT,
  BRAID_RUN_ENDING, /* somebody is being told */
  BRAID_RUN_ENDED,
  BRAID_RUN_LEFT, /* given up on a lost device, with tasks that have not ended */
} braid_run_state;

struct braid_execution {
  const braid_allocator *allocator;
  braid_plan *plan;
  braid_machine *machine; /* the plan's */
  braid_weights *weights;
  braid_arenas *arenas;
  braid_weight **found; /* per storage; NULL: it is none of the weights */
  braid_pin *pins;      /* memory that devices have been told of */
  braid_part *parts;    /* per plan queue */
  size_t queues_used, unrecorded;
  uint32_t devices; /* bit i: device i is used */

  /* per step */
  braid_prepared **prepared;
  braid_task *tasks;
  braid_timing *timings;
  braid_task **parted; /* the tasks of one part after those of another */
  braid_point *waits;  /* of all steps, one after the other */
  braid_binding *bindings;
  int64_t *samples;   /* kSamples durations each, in ns; -1: none yet */
  double *energies;   /* of the last timed run, microjoules; < 0: unknown */
  braid_time **times; /* the machine's, per step; NULL: of none */
  size_t *writers;    /* steps that write weights */
  size_t writer_count;
  braid_part *here; /* of a plan that may run in the caller's thread; NULL: it does not */

  braid_port *inputs, *outputs;
  braid_slots slots;
  braid_sync_task sync_task; /* copies inputs and outputs that are not where the plan expects them */
  void *between;             /* of a move from one device to another, by way of the host; NULL: none is under way */
  int legs;                  /* transfers of the move under way that have ended */
  bool late_outputs;         /* some are to be moved when the run has ended, by the caller's thread */
  uint64_t runs;
  bool timed;         /* every run, and not the first ones alone */
  int64_t timeout_ns; /* of a run that is waited for at once; < 0: none */
  bool lost;          /* nothing runs any more */
  bool left;          /* tasks of the last run have not ended: they may still come back to their memory */
  braid_trace *trace; /* of the session that it belongs to; NULL: none */

  /* the run in flight */
  braid_verdict verdict; /* of its tasks */
  uint32_t state;        /* braid_run_state; atomic, a futex */
  uint32_t pending;      /* parts that have not ended, and the submitter while it submits; atomic */
  bool holds;            /* the weights are entered */
  void (*on_done)(void *context, braid_status status);
  void *context;
  braid_status outcome;
  char detail[512];
};

/* `timeout_ns`, < 0: none, is for braid_execution_run. */
BRAID_MUST_CHECK braid_status braid_execution_make(braid_plan *plan, braid_weights *weights, int64_t timeout_ns,
                                                   braid_execution **out);
/* May the execution's memory be given up, which its last run works on? BUSY, or DEVICE_LOST: tasks may come back to it.
 */
BRAID_MUST_CHECK braid_status braid_execution_check_idle(braid_execution *execution);
/* The same, and are its outputs where they are wanted? Else BUSY: they are moved when it is waited for. */
BRAID_MUST_CHECK braid_status braid_execution_check_settled(braid_execution *execution);
/* bind.c: memory, kernels, weights and tasks; undone by unbind, also after a failure. */
BRAID_MUST_CHECK braid_status braid_execution_bind(braid_execution *execution);
void braid_execution_unbind(braid_execution *execution);

/* port.c: before a run, what inputs and outputs are; after it, what is to be copied to the caller's memory. Late: what
 * takes a transfer; TIMEOUT at the deadline (< 0: none): the next call goes on. */
BRAID_MUST_CHECK braid_status braid_ports_bind(braid_execution *execution, const void *const *inputs,
                                               void *const *outputs);
BRAID_MUST_CHECK braid_status braid_ports_return(braid_execution *execution);
BRAID_MUST_CHECK braid_status braid_ports_return_late(braid_execution *execution, int64_t deadline_ns);
/* Binds buffers for one run, without references of its own, and unbinds them; one per input and output. A lost
 * execution keeps them. */
BRAID_MUST_CHECK braid_status braid_ports_lend(braid_execution *execution, braid_buffer *const *inputs,
                                               braid_buffer *const *outputs);
void braid_ports_lend_back(braid_execution *execution);
void braid_ports_deinit(braid_execution *execution);

/* measure.c. What some of the runs so far took, < 0: not measured; what the machine keeps of it: after the last of the
 * timed runs and at the end. */
double braid_execution_median_us(const braid_execution *execution, size_t step);
/* What the task took of its device in the last run that was timed, microjoules; < 0: unknown. */
double braid_execution_energy_uj(const braid_execution *execution, size_t step);
/* What the last run took of a step, in seconds; < 0: the device did not measure it. For executions that are `timed`. */
double braid_execution_last_seconds(const braid_execution *execution, size_t step);
BRAID_MUST_CHECK braid_status braid_execution_find_times(braid_execution *execution);
void braid_execution_keep_times(const braid_execution *execution);

/* torn.c. The steps that write weights, found once, and told apart before each run by whether they begin; of a run that
 * failed or was cancelled, before the weights are left: marks what it may have left half updated. `ended`: all of its
 * tasks have. */
BRAID_MUST_CHECK braid_status braid_execution_find_writers(braid_execution *execution);
void braid_execution_watch_writers(braid_execution *execution);
void braid_execution_tear(braid_execution *execution, bool ended);
/* TORN: the plan touches weights that an earlier run left so. */
BRAID_MUST_CHECK braid_status braid_execution_check_whole(const braid_execution *execution);

/* pin.c: as braid_session_pin and unpin. */
BRAID_MUST_CHECK braid_status braid_execution_pin(braid_execution *execution, void *host, size_t bytes);
void braid_execution_unpin(braid_execution *execution, void *host);

#endif
