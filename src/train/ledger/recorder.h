/* Steps of a training in integers as lines of a ledger: written by a run, made again by an audit. */
#ifndef BRAID_TRAIN_LEDGER_RECORDER_H
#define BRAID_TRAIN_LEDGER_RECORDER_H

#include "train/step.h"
#include "train/trainer.h"

typedef struct braid_recorder braid_recorder;

/* Of a trainer whose session exists. */
BRAID_MUST_CHECK braid_status braid_recorder_create(braid_trainer *trainer, braid_recorder **out);
void braid_recorder_destroy(braid_recorder *recorder); /* NULL is allowed */
/* Where the step's run writes its digests, int32 of trainer->digests.count. */
void *braid_recorder_digests(braid_recorder *recorder);
/* The line of the step that has just run. Valid until the next one. */
BRAID_MUST_CHECK braid_status braid_recorder_step(braid_recorder *recorder, const braid_batch *batch,
                                                  const braid_step_numbers *numbers, float loss, const char **line);
/* The line made last. */
const char *braid_recorder_line(const braid_recorder *recorder);
/* " parameters ... state ..." of now, as a line ends with it. */
BRAID_MUST_CHECK braid_status braid_recorder_state(braid_recorder *recorder, const char **text);

/* The digests of the momentums as they are now, at their places among the values of a line; in those of others '-'. */
BRAID_MUST_CHECK braid_status braid_recorder_momentums(braid_recorder *recorder, const char **text);

#endif
