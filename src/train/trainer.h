/* The state of a trainer, used by the training loop (trainer.c) and by persist.c, which saves and restores it. */
#ifndef BRAID_TRAIN_TRAINER_H
#define BRAID_TRAIN_TRAINER_H

#include "graph/graph.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/output.h"
#include "train/checkpoint/state_copy.h"
#include "train/integer/digests.h"
#include "train/integer/network.h"
#include "train/parallel/slice.h"
#include "train/record.h"
#include "train/report/events.h"
#include "train/step.h"

/* Of one step, in memory that devices copy from and to by themselves. */
typedef struct braid_step_room {
  braid_step_numbers numbers;
  float loss;
} braid_step_room;

enum { BRAID_TOLD = 16 }; /* more than an epoch has kinds of failures */

struct braid_trainer {
  const braid_allocator *allocator;
  const braid_log *log;        /* the registry's; NULL: none */
  braid_train_options options; /* strings are copies; of several processes, 0 alone has an output directory */
  braid_slice slice;           /* of every batch, which is that of all processes together */
  bool stopping;               /* this process was told to stop; the others learn it in the next step */
  braid_graph *model;          /* trainable forward graph */
  braid_graph *step;           /* the training graph */
  struct braid_integer_network *integers; /* what `step` is of; NULL: it is in floating point */
  braid_integer_digests digests;          /* of `step`; none without a recorder */
  struct braid_recorder *recorder;        /* makes lines of a ledger; NULL: there is none */
  struct braid_ledger_writer *ledger;     /* where they go; NULL: an audit compares them */
  bool recorded;                          /* there is a recorder once the session is made */
  braid_session *session;
  braid_dataset *train, *test; /* the caller's; test may be NULL */
  braid_loader *loader;
  braid_output *output; /* NULL without an output directory, as are events and settings */
  braid_events *events;
  char *settings; /* compared with those of a checkpoint (settings.h) */
  bool resumed;   /* from a checkpoint */
  bool savable;   /* the model can be written as ONNX */
  braid_record record;
  braid_step_room *room; /* what steps are given and give, beside samples */
  braid_batch batch;     /* of the next step's first part, or the last one */
  bool fetched;  /* it is the next one's: with other processes all tell each other early that they have theirs */
  float *scores; /* samples of the slice x classes, of the last step; behind it */
  int64_t epoch, epoch_step; /* next step to run */
  int64_t steps;             /* per epoch; with options.steps the last one may have fewer */
  double loss_sum, epoch_seconds;
  int64_t correct, seen; /* within the epoch; of labels the decisions */
  double step_loss;      /* of the last step */
  double step_seconds;   /* measured; of the last step, with reading its batches */
  int64_t step_correct, step_seen;
  size_t aside_bytes;          /* of values: from so many on they are written by a thread (aside.h) */
  struct braid_aside *aside;   /* what the thread writes, or has written; NULL: nothing */
  braid_state_copy state_copy; /* of the step that was last looked at; while there is an aside, also the thread's */
  int64_t looked_at;           /* steps that were done when the state was last looked at before it was kept */
  bool model_owed;             /* model.onnx is that of an earlier epoch */
  bool ending;                 /* no step follows, although some are left: the run was stopped, or failed */
  uint64_t told[BRAID_TOLD];   /* hashes of the failures that were told last, so that none is told twice */
  size_t told_count;           /* so far; the next replaces told[told_count % BRAID_TOLD] */
  braid_status side_failure; /* first failure of an evaluation, report or checkpoint; returned at the end of the run */
  char side_failure_detail[1024];
};

/* Over the whole run. */
static inline int64_t braid_trainer_total_steps(const braid_trainer *trainer) {
  return trainer->options.steps ? trainer->options.steps : trainer->options.epochs * trainer->steps;
}
static inline int64_t braid_trainer_steps_done(const braid_trainer *trainer) {
  int64_t done = trainer->epoch * trainer->steps + trainer->epoch_step, most = trainer->options.steps;
  return most && done > most ? most : done; /* a last epoch that was shorter is over */
}
/* Of the epoch that is next or runs. */
static inline int64_t braid_trainer_epoch_steps(const braid_trainer *trainer) {
  int64_t left = braid_trainer_total_steps(trainer) - trainer->epoch * trainer->steps;
  return trainer->options.steps && left < trainer->steps ? left : trainer->steps;
}
/* The epoch that runs, or the last one that did, from 1 on. */
static inline int64_t braid_trainer_epoch_begun(const braid_trainer *trainer) {
  return trainer->epoch + (trainer->epoch_step > 0);
}
/* What checkpoints hold of the training graph, and a ledger hashes. */
static inline bool braid_value_is_kept(const braid_value *value) {
  return value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
}

/* As braid_trainer_create; `recorded`: in integers, with a recorder but without a ledger file. */
BRAID_MUST_CHECK braid_status braid_trainer_make(const braid_graph *model, braid_dataset *train, braid_dataset *test,
                                                 const braid_train_options *options, bool recorded,
                                                 braid_trainer **out);
/* Options for its sessions. */
braid_session_options braid_trainer_place(const braid_trainer *trainer);
/* replace.c: between two steps, another plan for those to come, on the same devices; what was trained stays. `place` as
 * in session options. From then on every run is timed. On failure the plan stays. */
typedef struct braid_replacement {
  double prepare_seconds, switch_seconds; /* making the new plan and giving up the old one; in between */
  bool moved;                             /* parameters had to be brought to other memory, or to another layout */
} braid_replacement;
BRAID_MUST_CHECK braid_status braid_trainer_replace(braid_trainer *trainer, const char *place, braid_replacement *out);
/* The machine that steps run on, the tasks of a step, the device of each, the nodes that it runs (from 0; several, if
 * the plan fused them; NULL: no more, and none in what the plan inserted), and what the last run took of it in seconds
 * (< 0: the device did not measure it), once a plan was replaced. */
struct braid_machine *braid_trainer_machine(const braid_trainer *trainer);
size_t braid_trainer_task_count(const braid_trainer *trainer);
int braid_trainer_task_device(const braid_trainer *trainer, size_t task);
const char *braid_trainer_task_node(const braid_trainer *trainer, size_t task, size_t index);
double braid_trainer_task_seconds(const braid_trainer *trainer, size_t task);
/* Checks that the names of all parameters and states are valid in checkpoints. */
BRAID_MUST_CHECK braid_status braid_trainer_check_names(const braid_trainer *trainer);
/* feed.c. The batches that come next are those after the steps done. */
BRAID_MUST_CHECK braid_status braid_trainer_seek(braid_trainer *trainer);
/* Makes `room` and `scores`. */
BRAID_MUST_CHECK braid_status braid_trainer_make_room(braid_trainer *trainer);
/* Tells devices of memory that they copy from and to, so that they need no copy of it in between; where they can't take
 * it so, copies are slower. */
void braid_trainer_pin(braid_trainer *trainer, void *memory, size_t bytes);
void braid_trainer_unpin(braid_trainer *trainer, void *memory);
/* All that is the trainer's, for a session that is new. */
void braid_trainer_pin_all(braid_trainer *trainer);
void braid_trainer_drop_feed(braid_trainer *trainer);
/* trained.c: as braid_trainer_model, of what `read` gives by name. */
BRAID_MUST_CHECK braid_status braid_trainer_model_of(const braid_trainer *trainer, braid_integer_read *read,
                                                     void *context, braid_graph **out);
/* The step that is next in its epoch. */
BRAID_MUST_CHECK braid_status braid_trainer_run_step(braid_trainer *trainer, double rate);
/* One step at this rate, of the next epoch where this one is over; `loss` of its batches. */
BRAID_MUST_CHECK braid_status braid_trainer_step(braid_trainer *trainer, double rate, double *loss);
/* Writes checkpoint-<step>.braid and removes all but the two newest. */
BRAID_MUST_CHECK braid_status braid_trainer_save(braid_trainer *trainer);
/* DIR/NAME: what is trained as ONNX. */
BRAID_MUST_CHECK braid_status braid_trainer_save_model(braid_trainer *trainer, const char *name);
/* What fails beside training itself does not end it: it is told, once where the same fails again, and the run fails
 * when it is done. The detail is that of braid_error_detail(). */
void braid_trainer_note_failure(braid_trainer *trainer, braid_status status, const char *what);
/* The same of an earlier epoch; `detail` may be empty. */
void braid_trainer_note_failure_of(braid_trainer *trainer, int64_t epoch, braid_status status, const char *what,
                                   const char *detail);
/* Writes a checkpoint, and model.onnx, where there is an output directory. What is large is written aside (aside.h),
 * and not at all while the one before is. */
void braid_trainer_keep(braid_trainer *trainer, bool model);
/* model.onnx, where it is owed. */
void braid_trainer_write_model(braid_trainer *trainer);
/* The end of a run: what was not kept, or is only being written, is on disk then. */
BRAID_MUST_CHECK braid_status braid_trainer_keep_all(braid_trainer *trainer);
/* Restores the state from an open checkpoint of this training graph; settings are not compared. */
BRAID_MUST_CHECK braid_status braid_trainer_restore(braid_trainer *trainer, const braid_checkpoint_file *file);
/* Restores the newest valid checkpoint; *found: there is one. INVALID_ARGUMENT if it was written with other settings.
 */
BRAID_MUST_CHECK braid_status braid_trainer_load(braid_trainer *trainer, bool *found);
#endif
