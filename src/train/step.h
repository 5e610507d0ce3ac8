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
/* The scores of a resolved forward graph as (batch, classes): output 0, flattened. With `before_softmax` a last Softmax
 * or LogSoftmax is left out. */
BRAID_MUST_CHECK braid_status braid_scores(braid_graph *graph, const braid_dataset_info *info, bool before_softmax,
                                           braid_value_id *out);
#endif
