/* A loss that the model computes itself (BRAID_OUTPUT_LOSS): its first input takes the samples, its second one their
 * targets, and an output is the loss. */
#ifndef BRAID_TRAIN_OWN_LOSS_H
#define BRAID_TRAIN_OWN_LOSS_H
#include "braid/train.h"

/* Sets the batch of both inputs, and checks them against the data set. */
BRAID_MUST_CHECK braid_status braid_own_loss_bind(braid_graph *model, const braid_dataset_info *info, int64_t batch);
/* The output of this name (NULL: the only one) becomes the only output of a graph that is not to be unresolved. */
BRAID_MUST_CHECK braid_status braid_own_loss_select(braid_graph *graph, const char *name);
/* Of a resolved graph with the loss as its only output, which is left out: *loss is one float32, and the second input
 * takes the targets as the loader gives them. */
BRAID_MUST_CHECK braid_status braid_own_loss_take(braid_graph *graph, braid_value_id *loss);
/* Whether `model` takes the batches of a test, of which the last one may be smaller. */
BRAID_MUST_CHECK braid_status braid_own_loss_check(const braid_graph *model, const char *output,
                                                   const braid_dataset_info *test, int64_t batch);
#endif
