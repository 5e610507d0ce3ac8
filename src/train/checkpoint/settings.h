/* What a run is: everything that decides its bits, as text that a checkpoint keeps.
 *
 * One setting a line, "name: value". A setting that is not in use (momentum with Adam) is not there. A new setting is a
 * new line: a checkpoint that lacks it is then of another run, which is what it is. */
#ifndef BRAID_TRAIN_SETTINGS_H
#define BRAID_TRAIN_SETTINGS_H

#include "base/text.h"
#include "train/trainer.h"

/* The settings of this run; the training graph must be there. */
BRAID_MUST_CHECK braid_status braid_settings_write(const braid_trainer *trainer, braid_text *out);
/* INVALID_ARGUMENT names what differs, with what it was and what it is. The number of epochs, the learning rate and the
 * place of the data set may differ, which is said in the log. */
BRAID_MUST_CHECK braid_status braid_settings_compare(const char *before, const char *now);
#endif
