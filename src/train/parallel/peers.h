/* What processes that train together say to each other beside the step's own sums. Every function is called by all of
 * them at the same place; with one process they do nothing. */
#ifndef BRAID_TRAIN_PARALLEL_PEERS_H
#define BRAID_TRAIN_PARALLEL_PEERS_H

#include "train/trainer.h"

/* As braid_group_agree. */
BRAID_MUST_CHECK braid_status braid_peers_status(const braid_trainer *trainer, braid_status status);
/* Before devices are opened: all processes have as many CUDA devices, since those join by themselves when they are
 * asked for their kernels. */
BRAID_MUST_CHECK braid_status braid_peers_devices(struct braid_group *group, const char *devices);
/* Before the first step: all processes train the same model on the same data, and their plans have the same collectives
 * in the same order. INVALID_ARGUMENT or UNSUPPORTED. */
BRAID_MUST_CHECK braid_status braid_peers_check(braid_trainer *trainer);
/* All go on from where process 0 is: position, history of epochs, parameters and states. */
BRAID_MUST_CHECK braid_status braid_peers_state(braid_trainer *trainer);
/* After a step, in one message: what it has counted becomes that of all samples, and whether all have what the next one
 * needs (`status`, of this process). That somebody has not is no failure yet: it is that of the next
 * braid_peers_begin_step. */
BRAID_MUST_CHECK braid_status braid_peers_end_step(braid_trainer *trainer, braid_status status);
/* Whether all have a batch, as braid_peers_status; without a message, where they told each other after the step before
 * (`told`). */
BRAID_MUST_CHECK braid_status braid_peers_begin_step(const braid_trainer *trainer, bool told, braid_status status);
/* The end of an epoch: CANCELLED if its test was stopped; the epoch's row becomes that of process 0, which tests. */
BRAID_MUST_CHECK braid_status braid_peers_row(braid_trainer *trainer);
/* *choice becomes that of process 0. */
BRAID_MUST_CHECK braid_status braid_peers_choose(braid_trainer *trainer, bool *choice);
/* Parameters and states are the same everywhere, to the bit; INTERNAL if not. After braid_trainer_look. */
BRAID_MUST_CHECK braid_status braid_peers_compare(braid_trainer *trainer);

#endif
