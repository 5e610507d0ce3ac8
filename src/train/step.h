/* The training graph: a forward graph extended by loss, gradients and optimizer. */
#ifndef BRAID_TRAIN_STEP_H
#define BRAID_TRAIN_STEP_H
#include "braid/train.h"

/* Of several processes that train together (parallel/slice.h) each has such a graph for its slice of the batch, which
 * options.batch is the size of.
 *
 * Inputs of the training graph in their order: images, targets (classes as int32 of the batch, else float32 of batch
 * and classes), then scalars: the learning rate (float32) and the number of the batch (int64, 1-based, over the whole
 * run), which dropout draws by; with options.accumulate above 1 the number of the update (int64, 1-based), 0 for the
 * first batch of a step and 1 for the others (float32), and 1 for its last batch and 0 for the others (float32); with
 * options.average_decay or lookahead_steps the weight of this update in what is kept (float32); with options.mixup the
 * other targets and the share of the first ones (float32). Outputs: the loss (one float32), and the scores (batch,
 * classes) unless the loss is an output of the model; with a ledger the digests (integer/digests.h). */
enum { BRAID_STEP_INPUTS = 4, BRAID_STEP_MOST_INPUTS = 10, BRAID_STEP_OUTPUTS = 3 };

typedef struct braid_step_numbers {
  float rate, kept, last, average, mix;
  int32_t rate_exponent; /* in integers: the rate is 2 to this */
  const void *mixed_targets;
  int64_t batch, update;
} braid_step_numbers;
/* Sets the scalars' places in `inputs`, after images and targets; returns the number of inputs. */
size_t braid_step_bind(const braid_train_options *options, const braid_step_numbers *numbers,
                       const void *inputs[BRAID_STEP_MOST_INPUTS]);

/* `model` is not changed. INVALID_GRAPH or INVALID_ARGUMENT if it does not fit the data set. */
BRAID_MUST_CHECK braid_status braid_step_graph(const braid_graph *model, const braid_dataset_info *info,
                                               const braid_train_options *options, braid_graph **out);

/* The same of a model that gives scores of [batch, classes, ...]: each of a sample's `places` places has a class of its
 * own, and the targets are int32 of (batch * places). */
BRAID_MUST_CHECK braid_status braid_step_graph_of_places(const braid_graph *model, const braid_dataset_info *info,
                                                         int64_t places, const braid_train_options *options,
                                                         braid_graph **out);

/* The same without a data set: samples are what the model's one input takes, classes what its first output gives: of
 * each sample, or, where it has more than two dimensions, of each place of it. Further outputs of a graph with an
 * auxiliary_share count with it in the loss. */
BRAID_MUST_CHECK braid_status braid_step_graph_alone(const braid_graph *model, const braid_train_options *options,
                                                     braid_graph **out);

/* Of a generator and a discriminator (adversarial.c). Inputs: what the generator takes (random numbers), samples of the
 * data, the learning rate (float32), the number of the step (int64). Outputs: the discriminator's loss, the
 * generator's, and what it made. Of options only the batch, the optimizer and weight decay count. Parameters and states
 * of the discriminator are named "discriminator/NAME". INVALID_GRAPH or INVALID_ARGUMENT if they do not fit. */
BRAID_MUST_CHECK braid_status braid_step_graph_adversarial(const braid_graph *generator,
                                                           const braid_graph *discriminator,
                                                           const braid_train_options *options, braid_graph **out);

/* Sets the batch of the model's first input (the first dimension) and checks it against the data set's samples. */
BRAID_MUST_CHECK braid_status braid_bind_samples(braid_graph *model, const braid_dataset_info *info, int64_t batch);
/* The same of a model with one input alone. */
BRAID_MUST_CHECK braid_status braid_bind_input(braid_graph *model, const braid_dataset_info *info, int64_t batch);
/* What the scores of an output are. */
typedef enum braid_score_kind {
  BRAID_SCORES_PLAIN,             /* logits */
  BRAID_SCORES_PROBABILITIES,     /* after Softmax, or of labels after Sigmoid */
  BRAID_SCORES_LOG_PROBABILITIES, /* after LogSoftmax */
} braid_score_kind;

/* The scores of a resolved forward graph as float32 (batch, classes): output 0, cast and flattened. With
 * `before_activation`, a final Softmax or LogSoftmax over the classes (of labels: Sigmoid) is omitted, including casts
 * and reshapes after it.
 */
BRAID_MUST_CHECK braid_status braid_scores(braid_graph *graph, const braid_dataset_info *info, bool before_activation,
                                           braid_value_id *out, braid_score_kind *kind);
#endif
