/* Weights inside: the memory of what persists, and which contents it has. */
#ifndef BRAID_RUNTIME_WEIGHTS_H
#define BRAID_RUNTIME_WEIGHTS_H

#include "runtime/plan/plan.h"
#include "runtime/sync_task.h"

/* Memory for what one execution was the first to need, of one space. */
typedef struct braid_weight_region {
  struct braid_weight_region *next;
  braid_memory memory;
  int space;
} braid_weight_region;

/* A parameter or state, or one form of a constant: in memory of the weights, or of a tensor that kernels read as it
 * lies. */
typedef struct braid_weight {
  const char *name;    /* of a parameter or state; NULL: a constant */
  braid_digest digest; /* of the constant's contents; 0, 0 in weights of one plan */
  braid_desc desc;     /* with the layout that it is kept in */
  int device;          /* of a packed form; -1: any of the space */
  uint64_t packing;
  int space;
  size_t bytes, offset;
  const braid_weight_region *region; /* NULL: it is the tensor's memory */
  braid_tensor *tensor;              /* retained; NULL: it is the region's */
  bool filled;
  bool torn; /* torn.c; guarded by who is inside (enter) */
} braid_weight;

struct braid_weights {
  const braid_allocator *allocator;
  uint32_t references; /* atomic */
  braid_machine *machine;
  bool own; /* of one execution: nothing is looked up */

  pthread_mutex_t turn; /* of who reads and writes; held for a few instructions, for runs that end need it */
  pthread_cond_t turned;
  uint64_t arrived, entered; /* in the order of arrival, so that nobody is kept out by those behind him */
  size_t readers;            /* executions in flight that read what others write */
  bool writer;
  size_t holders[32]; /* of those inside, how many are on each device */
  uint32_t torn;      /* how many of the items are; atomic */

  pthread_mutex_t lock; /* of all that follows; held while a synchronous task waits behind runs in a queue */
  braid_weight **items;
  size_t count, capacity;
  braid_weight_region *regions;
  braid_sync_task sync_task;
  braid_plan *sync_task_plan; /* whose constants an abandoned synchronous task may still read; NULL: none's */
  int64_t timeout_ns;         /* of synchronous tasks; < 0: none */
};

BRAID_MUST_CHECK braid_status braid_weights_make(braid_machine *machine, bool own, int64_t timeout_ns,
                                                 braid_weights **out);
/* Finds the weights of a plan's storages, adds those that are not there, and fills them: `found` gets one per storage,
 * NULL where it is none of them. prepared: as from braid_plan_prepare. arena: per space, for setup steps. */
BRAID_MUST_CHECK braid_status braid_weights_bind(braid_weights *weights, braid_plan *plan,
                                                 struct braid_prepared *const *prepared, const braid_memory *arenas,
                                                 braid_weight **found);
/* The layout in which a parameter or state of this shape is kept; false: it is not there. */
bool braid_weights_find_layout(braid_weights *weights, const char *name, const braid_desc *shape, braid_layout *out);
braid_binding braid_weight_binding(const braid_weight *weight);
/* Copies out or in, at once, inside of enter and leave. Touches `host` only while the call lasts. */
BRAID_MUST_CHECK braid_status braid_weights_fetch(braid_weights *weights, const braid_weight *weight, void *host);
/* The bytes as they are kept, in the weight's layout. `host` must live as long as the weights: a transfer that is left
 * behind on a lost device may still touch it. */
BRAID_MUST_CHECK braid_status braid_weights_fetch_kept(braid_weights *weights, const braid_weight *weight, void *host);
BRAID_MUST_CHECK braid_status braid_weights_put(braid_weights *weights, braid_weight *weight, const void *host);
/* torn.c, inside of enter and leave: contents that are not whole are not read; check says TORN. */
void braid_weights_tear(braid_weights *weights, braid_weight *weight);
void braid_weights_mend(braid_weights *weights, braid_weight *weight);
BRAID_MUST_CHECK braid_status braid_weight_check(const braid_weight *weight);

/* False: a synchronous task that a lost device has not ended may still access the execution's memory. */
bool braid_weights_returned(braid_weights *weights, const braid_memory *arenas);

/* Around what reads, or writes, parameters and states, on these devices (as bits). DEVICE_LOST: whoever holds them is
 * on a device that is lost, and does not leave. */
BRAID_MUST_CHECK braid_status braid_weights_enter(braid_weights *weights, bool writes, uint32_t devices);
void braid_weights_leave(braid_weights *weights, bool writes, uint32_t devices); /* as entered */

#endif
