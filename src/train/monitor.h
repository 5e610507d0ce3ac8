/* What a run decides by its own history: which epoch is the best one, whether to end early, and how far the plateau
 * schedule has lowered the rate. All of it is a function of the record of finished epochs, which checkpoints hold, so a
 * resumed run decides the same.
 *
 * The number that is followed is the test's loss or accuracy, and the training's if nothing was tested. An epoch whose
 * test failed has none, and is no improvement. */
#ifndef BRAID_TRAIN_MONITOR_H
#define BRAID_TRAIN_MONITOR_H
#include "braid/train.h"
#include "train/record.h"

/* The index of the best epoch, the first of equal ones; -1: there is none yet. */
int64_t braid_monitor_best(const braid_train_options *options, const braid_record *record);
/* Whether options.patience epochs in a row were no better than the best one before them. */
bool braid_monitor_ends(const braid_train_options *options, const braid_record *record);
/* Of BRAID_PLATEAU: what the learning rate is multiplied by, by the rule of PyTorch's ReduceLROnPlateau with its
 * relative threshold of 1e-4 and no cooldown. */
double braid_monitor_plateau(const braid_train_options *options, const braid_record *record);
#endif
