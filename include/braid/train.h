/* Training: optimizers, schedules, the trainer, evaluation, checkpoints. */
#ifndef BRAID_TRAIN_H
#define BRAID_TRAIN_H

#include "braid/data.h"
#include "braid/session.h"

typedef enum braid_optimizer { BRAID_SGD, BRAID_ADAM, BRAID_ADAMW } braid_optimizer;
typedef enum braid_schedule { BRAID_CONSTANT, BRAID_STEP, BRAID_COSINE, BRAID_ONE_CYCLE, BRAID_PLATEAU } braid_schedule;
typedef enum braid_loss { BRAID_CROSS_ENTROPY, BRAID_SQUARED_ERROR } braid_loss;

/* By which number epochs are compared: of the test, or of training where nothing is tested. */
typedef enum braid_monitor { BRAID_MONITOR_LOSS, BRAID_MONITOR_ACCURACY } braid_monitor;

/* Parameters whose name matches `pattern` ('*' stands for any text, '?' for any one character). A parameter is in the
 * first group that matches. */
typedef struct braid_parameter_group {
  const char *pattern;
  double rate;         /* factor of the learning rate. 0: frozen, which saves their gradients; running statistics of
                          normalizations are no parameters and go on moving */
  double weight_decay; /* instead of the options'; NAN: theirs */
} braid_parameter_group;

typedef struct braid_train_options {
  const char *devices, *place; /* as in braid_session_options */
  int threads;
  braid_registry *registry; /* as in braid_session_options; must outlive the trainer */
  int64_t batch, epochs;
  uint64_t seed;
  braid_loss loss;
  double label_smoothing;      /* for cross entropy; in [0, 1) */
  const double *class_weights; /* for cross entropy, one per class, copied; NULL: all count 1 */
  size_t class_weight_count;
  bool balance_classes; /* instead of class_weights: samples / (classes * samples of the class) in the training set */
  double mixup, label_noise; /* as in braid_loader_options; the loss is that of both labels, by their shares */
  braid_optimizer optimizer;
  double learning_rate, momentum, weight_decay;
  bool nesterov;
  double beta1, beta2, epsilon;        /* Adam, AdamW */
  bool no_bias_decay;                  /* no weight decay for biases and for scales and shifts of normalizations */
  const braid_parameter_group *groups; /* copied; NOT_FOUND if one matches no parameter */
  size_t group_count;
  int64_t accumulate;   /* batches per step: their gradients' mean is one update. 1: every batch is a step */
  double clip_value;    /* every element of a gradient is limited to [-clip_value, clip_value]; 0: no limit */
  double clip_norm;     /* the norm of all gradients together is limited to this, after clip_value; 0: no limit */
  double average_decay; /* in [0, 1): the exponential moving average of the parameters is evaluated and saved instead
                           of the parameters themselves. 0: no average */
  braid_schedule schedule;
  int64_t warmup_steps;
  int64_t step_epochs; /* BRAID_STEP: the learning rate is multiplied by step_gamma every step_epochs epochs */
  double step_gamma;
  int64_t plateau_epochs;    /* BRAID_PLATEAU: the learning rate is multiplied by step_gamma after more than this many
                                epochs in a row that were no better than the best before them by 1e-4 of it (PyTorch's
                                ReduceLROnPlateau) */
  braid_monitor monitor;     /* of plateau_epochs, patience and keep_best */
  int64_t patience;          /* training ends after this many epochs in a row without a new best one; 0: it does not */
  bool keep_best;            /* best.onnx in out_directory is the model of the best epoch so far */
  const char *out_directory; /* checkpoints, model.onnx, event files, report; locked by the trainer. NULL: none */
  bool resume;               /* continue from the newest valid checkpoint in out_directory, if there is one */
  int64_t checkpoint_steps;  /* steps between checkpoints; 0: at the end of every epoch only */
  int64_t log_steps;         /* steps between points in the event file; 0: at the end of every epoch only */
  const char *trace;         /* path of a Chrome/Perfetto trace; NULL: none */
} braid_train_options;
/* Sets the defaults: batch 128, 10 epochs, SGD with momentum 0.9, weight decay 5e-4, learning rate 0.05 with cosine
 * schedule, cross entropy. */
BRAID_API void braid_train_options_init(braid_train_options *options);
/* The group that a parameter of this name is in; NULL: none. */
BRAID_API const braid_parameter_group *braid_train_group(const braid_train_options *options, const char *parameter);

/* A trainable copy of `model`, as the trainer makes it (braid_graph_make_trainable). The loss is computed from the
 * first output; parameters that only other outputs depend on are not trained. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainable_copy(const braid_graph *model, braid_graph **out);

/* A copy of `model` that gives one score for each of the data set's classes, for fine-tuning: the last layer with
 * weights (Gemm, MatMul or Conv) and its bias are replaced, drawn by `seed`; all before it stays. UNSUPPORTED says
 * which node stands in the way. */
BRAID_API BRAID_MUST_CHECK braid_status braid_replace_head(const braid_graph *model, const braid_dataset *dataset,
                                                           uint64_t seed, braid_graph **out);

typedef struct braid_train_progress {
  int64_t epoch, epochs, step, steps; /* step: number of steps done in this epoch */
  double loss, accuracy;              /* averages over the epoch so far */
  double learning_rate, images_per_second, seconds_left;
  bool epoch_done;
  double test_loss, test_accuracy; /* NAN unless epoch_done and there is a test set */
  int64_t best_epoch;              /* 1-based, by options.monitor; 0: none is done */
  bool ends_early;                 /* epoch_done, and options.patience is used up: this epoch is the last */
  int64_t tested, to_test;         /* samples, while the evaluation at the end of an epoch runs; else 0 */
} braid_train_progress;
/* Called after every step, during evaluation, and after every epoch. If it returns false, the trainer writes a
 * checkpoint and returns CANCELLED. */
typedef bool braid_train_callback(void *context, const braid_train_progress *progress);

typedef struct braid_trainer braid_trainer;
/* `model` is a forward graph, resolved or not, with one image input and one output of scores (batch, classes); its
 * batch dimension is set to options->batch. With cross entropy, a Softmax at the output is merged into the loss. `test`
 * may be NULL. Fails if the output directory is used by another run, is not a directory, or cannot be written. When
 * resuming, INVALID_ARGUMENT names the setting that differs from the checkpoint (docs/training.md). The data sets must
 * outlive the trainer. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_create(const braid_graph *model, braid_dataset *train,
                                                             braid_dataset *test, const braid_train_options *options,
                                                             braid_trainer **out);
BRAID_API void braid_trainer_destroy(braid_trainer *trainer);
/* Trains to the end of the last epoch, or as long as options.patience allows. NOT_FINITE names the step and the first
 * layer whose values are not finite. If an evaluation, a report or a checkpoint fails, training continues: the failure
 * is logged, and the first one is returned at the end. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_run(braid_trainer *trainer, braid_train_callback *callback,
                                                          void *context);
/* The model with its current parameters, as a forward graph. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_model(braid_trainer *trainer, braid_graph **out);

/* Of one class against all others. What would be divided by zero is 0. */
typedef struct braid_class_result {
  int64_t samples, guessed; /* of this class; taken for it */
  double precision, recall, f1;
  double auc; /* area under the ROC curve of the class's probability; NAN: all samples are of one kind, or they are too
                 many (more than 2^24 scores) */
} braid_class_result;

typedef struct braid_test_result {
  int64_t samples;
  int classes;
  double loss, accuracy, top5;       /* top5: NAN with up to five classes */
  double precision, recall, f1, auc; /* means over the classes that occur (scikit-learn's "macro"); auc: over those
                                        that have one */
  braid_class_result *per_class;     /* classes; owned by the result, as all below */
  int64_t *ranks;                    /* classes: how many samples have this many classes with a higher score than
                                        their own */
  int64_t *confusion;  /* classes x classes, row: true class, column: predicted class; owned by the result */
  int64_t worst_count; /* misclassified samples, highest loss first */
  int64_t *worst_index;
  int32_t *worst_guess, *worst_label;
  double *worst_loss;
} braid_test_result;
/* Called after every batch with the number of samples done. If it returns false, braid_test returns CANCELLED. */
typedef bool braid_test_callback(void *context, int64_t done, int64_t total);
/* Evaluates a forward graph on a data set. `callback` may be NULL. Call braid_test_result_deinit also after a failure.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_test(const braid_graph *model, braid_dataset *dataset, int64_t batch,
                                                   const braid_session_options *options, braid_test_callback *callback,
                                                   void *context, braid_test_result *result);
/* The share of samples whose class is among those with the k highest scores. */
BRAID_API double braid_test_top(const braid_test_result *result, int k);
BRAID_API void braid_test_result_deinit(braid_test_result *result);

#endif
