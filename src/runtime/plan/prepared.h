/* Kernels that are prepared, kept in a machine as long as somebody uses them: executions of plans with the same node
 * for a kernel have one between them. A machine has one queue for a device's kernels, which runs one task at a time, so
 * what a kernel holds for its task is never wanted by two. A backend that does not allow it
 * (braid_backend.shares_prepared) prepares for each. */
#ifndef BRAID_RUNTIME_PREPARED_H
#define BRAID_RUNTIME_PREPARED_H

#include "runtime/plan/plan.h"

typedef struct braid_prepared {
  void *self; /* the backend's */
  braid_prepared_info info;

  /* the cache's own */
  braid_machine *machine; /* of plans that use it */
  int device;
  bool listed, ready;
  uint32_t users;
  struct braid_prepared *next; /* in its bucket */
  braid_arena *arena; /* of `node`, which outlives the plan that it was made for; NULL: the plan's step has it */
  braid_node_desc node;
  uint64_t hash;
  size_t key_bytes;
  uint8_t key[];
} braid_prepared;

/* The step's kernel, prepared. The numbers of constants that prepare may look at are there. Any thread. */
BRAID_MUST_CHECK braid_status braid_prepared_get(const braid_plan *plan, const braid_step *step, braid_prepared **out);
void braid_prepared_release(braid_prepared *prepared); /* NULL is allowed */

typedef struct braid_prepared_cache braid_prepared_cache;
BRAID_MUST_CHECK braid_status braid_prepared_cache_create(const braid_allocator *allocator, braid_prepared_cache **out);
void braid_prepared_cache_destroy(braid_prepared_cache *cache); /* empty by then; NULL is allowed */

#endif
