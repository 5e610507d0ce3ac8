/* What training in 16 bits keeps beside float32 parameters: a copy of each parameter that products read, rounded anew
 * by the update, and the scale of fp16's loss. All of it is states of the graph, so a checkpoint has it. */
#ifndef BRAID_TRAIN_COPIES_H
#define BRAID_TRAIN_COPIES_H

#include "graph/graph.h"

/* Puts a state in the place of the cast of a parameter to a 16-bit type. copies[i] is that of parameters[i], -1 if it
 * has none. Casts of other parameters, which are frozen, stay. */
BRAID_MUST_CHECK braid_status braid_copies_make(braid_graph *graph, const braid_value_id *parameters, size_t count,
                                                braid_value_id *copies);

/* The names that its states begin with, before any number that tells them from values of the model. */
#define BRAID_LOSS_SCALE "loss_scale"
#define BRAID_LOSS_SCALE_STEPS "loss_scale/steps"
BRAID_MUST_CHECK braid_status braid_loss_scale_make(braid_graph *graph, braid_value_id *scale);
/* `last`: not 0 in a step's last batch; -1: every batch is a step. */
BRAID_MUST_CHECK braid_status braid_loss_scale_update(braid_graph *graph, braid_value_id scale, braid_value_id guard,
                                                      braid_value_id last);

#endif
