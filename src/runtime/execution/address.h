/* Addresses: where a plan's storages lie for one execution, and tasks bound to them. */
#ifndef BRAID_RUNTIME_ADDRESS_H
#define BRAID_RUNTIME_ADDRESS_H

#include "runtime/execution/weights.h"

typedef struct braid_addresses {
  const braid_plan *plan;
  const braid_memory *arenas;   /* per space */
  braid_weight *const *weights; /* per storage; NULL: it is none of the weights */
} braid_addresses;

/* A place in a task that says where a storage of the caller's lies: a binding, or the address alone. */
typedef struct braid_slot {
  braid_storage_id storage;
  braid_binding *binding; /* NULL: */
  void **host;
} braid_slot;

typedef struct braid_slots {
  braid_slot *items;
  size_t count;
} braid_slots;

/* Fills in what the task works on. Places that wait for the caller's memory are added to `slots` (NULL: there are
 * none). Returns the first binding that the step does not need. */
braid_binding *braid_bind_kernel(const braid_addresses *addresses, const braid_step *step, void *prepared,
                                 braid_task *task, braid_binding *bindings, braid_slots *slots);
void braid_bind_move(const braid_addresses *addresses, const braid_step *step, braid_task *task, braid_slots *slots);

/* Names what the memory was for: the largest value of a space, beside the whole. */
BRAID_MUST_CHECK braid_status braid_plan_no_memory(const braid_plan *plan, braid_status status, int space,
                                                   braid_storage_kind kind, size_t bytes);

#endif
