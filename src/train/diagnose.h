/* Locating the first values that are not finite. */
#ifndef BRAID_TRAIN_DIAGNOSE_H
#define BRAID_TRAIN_DIAGNOSE_H
#include "train/trainer.h"
bool braid_all_finite(const float *data, int64_t count);
/* Repeats the forward pass of the step on `batch`, node by node, with the current parameters. NOT_FINITE names the step
 * and the first layer (or input, or parameter) with a value that is not finite; OK if there is none, of the samples
 * that this process has; another status if the diagnosis fails. */
braid_status braid_trainer_diagnose(braid_trainer *trainer, const braid_batch *batch);
/* NOT_FINITE: the loss alone is to blame. */
braid_status braid_trainer_blame_loss(const braid_trainer *trainer);
/* NOT_FINITE names a parameter or state with a value that is not finite. The loss may still be finite, since gradients
 * overflow before it does and a Relu may map NaN to 0. */
braid_status braid_trainer_check_finite(braid_trainer *trainer);
/* The same of a new copy of all of them (trainer->state_copy), if there is memory for it. Nobody uses the one before.
 */
braid_status braid_trainer_look(braid_trainer *trainer);
#endif
