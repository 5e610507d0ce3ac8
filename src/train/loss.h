/* The loss of a training step, as nodes of its graph. */
#ifndef BRAID_TRAIN_LOSS_H
#define BRAID_TRAIN_LOSS_H
#include "braid/train.h"

/* Whether the options' loss is of the data set's targets, and has as many weights as there are classes. */
BRAID_MUST_CHECK braid_status braid_loss_check(const braid_train_options *options, const braid_dataset_info *info);

typedef struct braid_loss_inputs {
  braid_value_id scores;                          /* float32 (batch, classes) */
  braid_value_id class_weights, positive_weights; /* constants of `classes` numbers; -1: none */
} braid_loss_inputs;
/* Adds the constants. */
BRAID_MUST_CHECK braid_status braid_loss_prepare(braid_graph *graph, const braid_train_options *options,
                                                 braid_value_id scores, braid_loss_inputs *out);
/* `targets`: int32 (batch) of classes, else float32 (batch, classes). *loss is one float32. */
BRAID_MUST_CHECK braid_status braid_loss_add(braid_graph *graph, const braid_train_options *options,
                                             braid_target_kind kind, const braid_loss_inputs *in,
                                             braid_value_id targets, braid_value_id *loss);
#endif
