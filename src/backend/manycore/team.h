/* The host's threads that play the compute cores: each takes the next core whose program has not been run yet, with a
 * scratchpad of the thread's own. Programs of one task do not see each other, so that the number of threads changes no
 * bit of a result. One task runs at a time. */
#ifndef BRAID_BACKEND_MANYCORE_TEAM_H
#define BRAID_BACKEND_MANYCORE_TEAM_H

#include "backend/manycore/kernel.h"

typedef struct braid_manycore_team braid_manycore_team;
BRAID_MUST_CHECK braid_status braid_manycore_team_create(const braid_allocator *allocator,
                                                         const braid_manycore_group *group, int threads,
                                                         braid_manycore_team **out);
void braid_manycore_team_destroy(braid_manycore_team *team); /* NULL is allowed */
/* Runs the program on all cores of the group, by the team and the calling thread. The first failure in the order of
 * cores is the result, with its sentence. */
braid_status braid_manycore_team_run(braid_manycore_team *team, const braid_kernel *kernel,
                                     const braid_manycore_plan *plan, const braid_manycore_operand *operands);

#endif
