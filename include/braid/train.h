/* Training: optimizers, schedules, the trainer, evaluation, checkpoints. */
#ifndef BRAID_TRAIN_H
#define BRAID_TRAIN_H

#include "braid/data.h"
#include "braid/session.h"

typedef enum braid_optimizer { BRAID_SGD, BRAID_ADAM, BRAID_ADAMW } braid_optimizer;
typedef enum braid_schedule { BRAID_CONSTANT, BRAID_STEP, BRAID_COSINE, BRAID_ONE_CYCLE } braid_schedule;
typedef enum braid_loss { BRAID_CROSS_ENTROPY, BRAID_SQUARED_ERROR } braid_loss;

typedef struct braid_train_options {
  const char *devices, *place; /* as in braid_session_options */
  int threads;
  braid_registry *registry; /* as in braid_session_options; must outlive the trainer */
  int64_t batch, epochs;
  uint64_t seed;
  braid_loss loss;
  double label_smoothing; /* cross entropy: [0, 1) */
  braid_optimizer optimizer;
  double learning_rate, momentum, weight_decay;
  bool nesterov;
  double beta1, beta2, epsilon; /* Adam, AdamW */
  braid_schedule schedule;
  int64_t warmup_steps;
  int64_t step_epochs; /* BRAID_STEP: multiply by step_gamma every so many epochs */
  double step_gamma;
  const char *out_directory; /* checkpoints, model.onnx, event files, report; locked by the trainer. NULL: none */
  bool resume;               /* go on from the newest usable checkpoint in out_directory, if there is one */
  int64_t checkpoint_steps;  /* 0: at the end of every epoch only */
  const char *trace;         /* Chrome/Perfetto trace; NULL: none */
} braid_train_options;
/* Batch 128, 10 epochs, SGD with momentum 0.9, weight decay 5e-4, learning rate 0.05, cosine, cross entropy. */
BRAID_API void braid_train_options_init(braid_train_options *options);

/* A copy of `model` as the trainer makes it trainable (braid_graph_make_trainable). The loss is taken of the first
 * output: the others are left out, and what they alone depend on stays fixed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainable_copy(const braid_graph *model, braid_graph **out);

typedef struct braid_train_progress {
  int64_t epoch, epochs, step, steps; /* step within the epoch, 1-based after it ran */
  double loss, accuracy;              /* running over the epoch */
  double learning_rate, images_per_second, seconds_left;
  bool epoch_done;
  double test_loss, test_accuracy; /* at epoch_done with a test set, else NAN */
  int64_t tested, to_test;         /* samples, while the test of an epoch's end runs; else 0 */
} braid_train_progress;
/* Called after every step, during tests, and after every epoch. Return false to stop: the trainer writes a checkpoint
 * and returns CANCELLED. */
typedef bool braid_train_callback(void *context, const braid_train_progress *progress);

typedef struct braid_trainer braid_trainer;
/* Opens the output directory, or says why not: another run is using it, it is no folder, it takes no checkpoint. When
 * resuming, INVALID_ARGUMENT names what is not as it was (docs/training.md).
 * `model` is a resolved-or-not forward graph with one image input and one output of scores (batch, classes); a trailing
 * Softmax is recognized and left out of the loss. Its batch dimension is set to options->batch. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_create(const braid_graph *model, braid_dataset *train,
                                                             braid_dataset *test, const braid_train_options *options,
                                                             braid_trainer **out);
BRAID_API void braid_trainer_destroy(braid_trainer *trainer);
/* Runs to the last epoch. NOT_FINITE names the step and the first layer whose values are not finite. A test, a report
 * or a checkpoint that fails does not end it: it is said in the log, and the first such failure is returned at the end.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_run(braid_trainer *trainer, braid_train_callback *callback,
                                                          void *context);
/* The trained model as a forward graph with the current parameters. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_model(braid_trainer *trainer, braid_graph **out);

typedef struct braid_test_result {
  int64_t samples;
  int classes;
  double loss, accuracy, top5;
  int64_t *confusion;  /* classes x classes, row = truth; owned by the result */
  int64_t worst_count; /* samples wrong with the highest loss first */
  int64_t *worst_index;
  int32_t *worst_guess, *worst_label;
  double *worst_loss;
} braid_test_result;
/* Called after every batch with the samples done; return false to stop: the test returns CANCELLED. */
typedef bool braid_test_callback(void *context, int64_t done, int64_t total);
/* `callback` may be NULL. The result is the caller's to deinit, also after a failure. */
BRAID_API BRAID_MUST_CHECK braid_status braid_test(const braid_graph *model, braid_dataset *dataset, int64_t batch,
                                                   const braid_session_options *options, braid_test_callback *callback,
                                                   void *context, braid_test_result *result);
BRAID_API void braid_test_result_deinit(braid_test_result *result);

#endif
