/* The trainer's own state, shared by its loop (trainer.c) and what it keeps on disk (persist.c). */
#ifndef BRAID_TRAIN_TRAINER_H
#define BRAID_TRAIN_TRAINER_H

#include "graph/graph.h"
#include "train/checkpoint/output.h"
#include "train/record.h"
#include "train/report/events.h"
#include "train/step.h"

struct braid_trainer {
  const braid_allocator *allocator;
  braid_train_options options; /* strings are copies */
  braid_graph *model;          /* forward, prepared for training */
  braid_graph *step;           /* the training graph */
  braid_session *session;
  braid_dataset *train, *test; /* the caller's; test may be NULL */
  braid_loader *loader;
  braid_output *output; /* NULL without an output directory, as are events and settings */
  braid_events *events;
  char *settings; /* what a checkpoint must agree with (settings.h) */
  bool savable;   /* the model can be written as ONNX */
  braid_record record;
  float *scores;             /* batch x classes, of the last step */
  int64_t epoch, epoch_step; /* what runs next */
  int64_t steps;             /* per epoch */
  double loss_sum, epoch_seconds;
  int64_t correct, seen; /* within the epoch */
  braid_status trouble;  /* the first thing that failed beside training itself: run ends with it */
  char trouble_detail[1024];
};

/* Where its sessions run. */
braid_session_options braid_trainer_place(const braid_trainer *trainer);
/* Can checkpoints hold every parameter and state under its name? */
BRAID_MUST_CHECK braid_status braid_trainer_check_names(const braid_trainer *trainer);
/* Writes checkpoint-<step>.braid and drops all but the two newest. */
BRAID_MUST_CHECK braid_status braid_trainer_save(braid_trainer *trainer);
/* Goes on from the newest usable checkpoint; *found: there is one. INVALID_ARGUMENT if it is of another run. */
BRAID_MUST_CHECK braid_status braid_trainer_load(braid_trainer *trainer, bool *found);
#endif
