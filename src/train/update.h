/* The second half of the training graph: from the loss to the next parameters. In this order: gradients; their sum over
 * the batches of a step; clipping; one optimizer node for each parameter, with the rate and weight decay of its group;
 * the moving average of the parameters. All of it is nodes and states of the graph, so every device runs it, and a
 * checkpoint of the states is all that is needed to go on. */
#ifndef BRAID_TRAIN_UPDATE_H
#define BRAID_TRAIN_UPDATE_H

#include "graph/graph.h"
#include "train/step.h"

/* Scalars that the nodes take; kept, last and average are -1 where the options do not need them. */
typedef struct braid_update_inputs {
  braid_value_id loss, rate, update, kept, last, average;
} braid_update_inputs;

/* Does the group that the parameter belongs to have a rate of 0? */
bool braid_parameter_is_frozen(const braid_train_options *options, const char *parameter);
/* NOT_FOUND: a group's pattern matches no parameter of `graph`. INVALID_ARGUMENT: the groups leave nothing to train. */
BRAID_MUST_CHECK braid_status braid_check_groups(const braid_graph *graph, const braid_train_options *options);
/* Fails as braid_check_groups does. */
BRAID_MUST_CHECK braid_status braid_add_update(braid_graph *graph, const braid_train_options *options,
                                               const braid_update_inputs *inputs);
/* The state of a training graph that holds the moving average of a parameter; -1: there is none. */
braid_value_id braid_step_average(const braid_graph *step, const char *parameter);
/* "w/momentum", or "w/momentum~2" if `graph` has a value of that name; in its arena. NULL: no memory. */
const char *braid_update_state_name(braid_graph *graph, const char *parameter, const char *suffix);
#endif
