/* One operation on one device, ready to run again and again: kernels prepared, inputs filled, nothing moved. */
#ifndef BRAID_MEASURE_TRIAL_H
#define BRAID_MEASURE_TRIAL_H

#include "braid/machine.h"

typedef struct braid_trial braid_trial;

/* `graph` has one node; it may be destroyed afterwards. The machine has one device. */
BRAID_MUST_CHECK braid_status braid_trial_create(braid_machine *machine, const braid_graph *graph, bool training,
                                                 const braid_allocator *allocator, braid_trial **out);
void braid_trial_destroy(braid_trial *trial); /* NULL is allowed */
/* Runs it once. *seconds: what its kernels took by the device's own time, without what was added around them, or, if
 * the device measures none, what the whole call took. TIMEOUT after a minute. */
BRAID_MUST_CHECK braid_status braid_trial_run(braid_trial *trial, double *seconds);
/* Runs the operation's own kernels so many times, without what was added around them, on what the last run left. */
BRAID_MUST_CHECK braid_status braid_trial_run_kernels(braid_trial *trial, size_t times);
const char *braid_trial_kernel(const braid_trial *trial);
/* Nothing is left to run: what the operation gives is known, or it is its input. */
bool braid_trial_is_empty(const braid_trial *trial);

/* What inputs hold: see trial.c. */
void braid_trial_fill(const braid_desc *desc, void *data);

#endif
