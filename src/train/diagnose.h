/* Finding where numbers stop being finite. */
#ifndef BRAID_TRAIN_DIAGNOSE_H
#define BRAID_TRAIN_DIAGNOSE_H
#include "train/trainer.h"
/* Runs the forward part of the step once more on `batch`, node by node, with the parameters as they are, and returns
 * NOT_FINITE whose detail names the step and the first layer with a value that is not finite (or the input, or a
 * parameter); another status if it cannot be found out. */
braid_status braid_trainer_diagnose(braid_trainer *trainer, const braid_batch *batch);
/* NOT_FINITE, and the name, if a parameter or state holds a number that is not finite: the loss need not show it, since
 * gradients overflow before it does and a Relu may give 0 for NaN. */
braid_status braid_trainer_check_finite(braid_trainer *trainer);
#endif
