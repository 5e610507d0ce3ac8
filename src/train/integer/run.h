/* The trainer's step and model where it trains in integers. */
#ifndef BRAID_TRAIN_INTEGER_RUN_H
#define BRAID_TRAIN_INTEGER_RUN_H
#include "train/trainer.h"

/* Sets `integers` and `step` from `model`. */
BRAID_MUST_CHECK braid_status braid_integer_build(braid_trainer *trainer);
/* What it trains and does not, as braid_trainer_parameters. */
BRAID_MUST_CHECK braid_status braid_integer_parameters(const braid_trainer *trainer, braid_graph **out);
#endif
