/* Sessions inside: a plan bound to memory and queues. */
#ifndef BRAID_RUNTIME_SESSION_H
#define BRAID_RUNTIME_SESSION_H

#include "device/event.h"
#include "runtime/plan.h"
#include "runtime/trace.h"

/* The memory of a space: an arena for what is shared over time, a region for what persists. */
typedef struct braid_space_memory {
  const braid_plan_device *owner; /* who allocates; NULL: the session itself (host memory without unified device) */
  void *arena, *persistent;       /* buffers of the owner, or memory */
  uint8_t *arena_host, *persistent_host;
} braid_space_memory;

/* A place in a task that holds the address of a storage of the caller's. */
typedef struct braid_slot {
  braid_storage_id storage;
  void **where;
} braid_slot;

/* Memory that the caller gives at each run: one input or output. */
typedef struct braid_port {
  const braid_desc *desc;
  const char *name;
  braid_storage_id storage; /* -1: an input that nothing reads */
  const braid_slot *slots;
  size_t slot_count, bytes;
  void *bound; /* what the slots hold */
  void *spare; /* our own memory, made when the caller's cannot be used (unaligned, or none given) */
} braid_port;

typedef struct braid_pin {
  void *host;
  struct braid_pin *next;
} braid_pin;

enum { kSamples = 16 };

/* What executing a step takes. */
typedef struct braid_action {
  braid_status (*submit)(void *queue, braid_task *task);
  void *queue;
} braid_action;

/* A task outside of runs. It belongs to the session and not to the call that waits for it, because on a device that is
 * lost it may be left behind. */
typedef struct braid_errand {
  braid_task task;
  braid_event event;
  braid_binding bindings[3];
  void *staging; /* in place of the caller's memory; NULL: none */
  bool left;     /* it has not ended */
} braid_errand;

struct braid_session {
  const braid_allocator *allocator;
  const char *busy; /* atomic: the public call under way; NULL: none */
  braid_graph *graph;
  braid_registry *registry, *own_registry;
  braid_plan_device *devices;
  size_t device_count;
  braid_plan plan;
  braid_space_memory *memory; /* per space */
  braid_pin *pins;            /* memory that devices have been told of */
  void **queues;              /* per plan queue; NULL: unused */

  /* per step */
  braid_task *tasks;
  braid_event *events;
  braid_event **waits; /* of all steps, one after the other */
  braid_binding *bindings;
  braid_action *actions;
  int32_t *samples; /* kSamples durations each, in ns; -1: none yet */
  braid_step_id *last_of_queue;
  braid_errand errand;
  uint32_t cancel;

  braid_port *inputs, *outputs;
  braid_slot *slots;
  size_t slot_count;
  uint64_t runs;
  int64_t timeout_ns; /* < 0: none */
  bool lost;          /* a task hung: its memory may still be written, so nothing runs any more */
  double prepare_ms;
  braid_trace *trace; /* NULL: none */
};

/* Every public call that touches what changes enters and leaves; while one is inside others are refused with BUSY. What
 * such calls are made of, below, expects to be inside. */
BRAID_MUST_CHECK braid_status braid_session_enter(braid_session *session, const char *call);
void braid_session_leave(braid_session *session);

/* pin.c: as the public calls. */
BRAID_MUST_CHECK braid_status braid_session_add_pin(braid_session *session, void *host, size_t bytes);
void braid_session_remove_pin(braid_session *session, void *host);

/* bind.c: memory, queues and tasks for the plan; undone by braid_session_destroy. */
BRAID_MUST_CHECK braid_status braid_session_bind(braid_session *session);
void braid_session_unbind(braid_session *session);
/* Writes a storage that persists, or reads it, at once. Touches `host` only while the call lasts. */
BRAID_MUST_CHECK braid_status braid_session_put(braid_session *session, braid_storage_id storage, const void *host);
BRAID_MUST_CHECK braid_status braid_session_fetch(braid_session *session, braid_storage_id storage, void *host);

/* executor.c: waits until the event is done; TIMEOUT at the deadline (< 0: none), DEVICE_LOST if a device is gone and
 * the task does not end within kGrace of that. Whether the task failed is the event's to say. */
BRAID_MUST_CHECK braid_status braid_session_await(const braid_session *session, braid_event *event,
                                                  int64_t deadline_ns);

#endif
