/* The settings that determine the results of a run, as text stored in its checkpoints.
 *
 * One setting per line, "name: value". Settings that are not used (momentum with Adam) are omitted. A checkpoint of an
 * older version of Braid without a newer setting counts as different. */
#ifndef BRAID_TRAIN_SETTINGS_H
#define BRAID_TRAIN_SETTINGS_H

#include "base/text.h"
#include "braid/log.h"
#include "train/trainer.h"

/* The settings of this run; its training graph must have been created. */
BRAID_MUST_CHECK braid_status braid_settings_write(const braid_trainer *trainer, braid_text *out);
/* Of these, the lines of a data set without its path, and those of the model's structure. */
BRAID_MUST_CHECK braid_status braid_settings_write_data(const braid_dataset *data, braid_text *out);
void braid_settings_write_model(const braid_trainer *trainer, braid_text *out);
/* INVALID_ARGUMENT names the setting that differs, with both values. The number of epochs, the learning rate and the
 * path of the data set may differ, with a warning in the log. */
BRAID_MUST_CHECK braid_status braid_settings_compare(const braid_log *log, const char *before, const char *now);
#endif
