/* Memory for what runs compute on their way, per space. Tasks of one queue never overlap, whoever submitted them: where
 * one queue has all tasks of a plan, its executions have their arenas in common, else each has its own. */
#ifndef BRAID_RUNTIME_ARENAS_H
#define BRAID_RUNTIME_ARENAS_H

#include "runtime/plan/plan.h"

typedef struct braid_arenas {
  bool shared;
  uint32_t users;        /* guarded by the plan's lock */
  braid_memory memory[]; /* space_count */
} braid_arenas;

/* With the plan's lock held. On failure *out may have to be released. */
BRAID_MUST_CHECK braid_status braid_arenas_take(braid_plan *plan, braid_arenas **out);
/* Without it. NULL is allowed. */
void braid_arenas_release(braid_plan *plan, braid_arenas *arenas);

#endif
