/* The training graph: a forward graph with its loss, gradients and optimizer, ready for a session. */
#ifndef BRAID_TRAIN_STEP_H
#define BRAID_TRAIN_STEP_H
#include "braid/train.h"

/* Inputs of the training graph in their order: images, labels (int32, batch), then the learning rate (float32 scalar)
 * and the number of the step (1-based, int64 scalar). Outputs: the loss (one float32), the scores (batch, classes). */
enum { BRAID_STEP_INPUTS = 4, BRAID_STEP_OUTPUTS = 2 };

/* `model` is left as it is. INVALID_GRAPH / INVALID_ARGUMENT say what does not fit `info`. */
BRAID_MUST_CHECK braid_status braid_step_graph(const braid_graph *model, const braid_dataset_info *info,
                                               const braid_train_options *options, braid_graph **out);

/* Sets the batch of the model's one input (the first dimension) and checks it against the data set's samples. */
BRAID_MUST_CHECK braid_status braid_bind_input(braid_graph *model, const braid_dataset_info *info, int64_t batch);
/* What the numbers of an output say of the classes. */
typedef enum braid_score_kind {
  BRAID_SCORES_PLAIN,             /* they rank; a softmax of them gives probabilities */
  BRAID_SCORES_PROBABILITIES,     /* they went through Softmax */
  BRAID_SCORES_LOG_PROBABILITIES, /* ... LogSoftmax */
} braid_score_kind;

/* The scores of a resolved forward graph as float32 (batch, classes): output 0, cast and flattened. With
 * `before_softmax` a last Softmax or LogSoftmax over the classes is left out, and what is behind it, if that only casts
 * or reshapes. */
BRAID_MUST_CHECK braid_status braid_scores(braid_graph *graph, const braid_dataset_info *info, bool before_softmax,
                                           braid_value_id *out, braid_score_kind *kind);
#endif
