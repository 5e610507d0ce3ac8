/* Training: optimizers, schedules, the trainer, evaluation, checkpoints. */
#ifndef BRAID_TRAIN_H
#define BRAID_TRAIN_H

#include "braid/data.h"
#include "braid/session.h"

typedef enum braid_optimizer {
  BRAID_SGD,
  BRAID_ADAM,
  BRAID_ADAMW,
  BRAID_WAGE /* BRAID_INT8 alone: steps of a size relative to the largest gradient, without momentum */
} braid_optimizer;
typedef enum braid_schedule {
  BRAID_CONSTANT,
  BRAID_STEP,
  BRAID_COSINE,
  BRAID_ONE_CYCLE,
  BRAID_PLATEAU,
  BRAID_LINEAR /* down to 0 after the last step; with warm-up steps a triangle */
} braid_schedule;
/* Of the targets that are classes, labels or numbers (braid_target_kind). */
typedef enum braid_loss {
  BRAID_CROSS_ENTROPY,        /* classes */
  BRAID_SQUARED_ERROR,        /* classes: half the sum of squares by sample; numbers: the mean of all squares (PyTorch's
                                 MSELoss) */
  BRAID_BINARY_CROSS_ENTROPY, /* labels: the mean over samples and classes (PyTorch's BCEWithLogitsLoss) */
  BRAID_ABSOLUTE_ERROR,       /* numbers: the mean (PyTorch's L1Loss) */
  BRAID_HUBER,                /* numbers: the mean (PyTorch's HuberLoss) */
  BRAID_OUTPUT_LOSS,   /* any: an output of the model (loss_output), one floating-point number, as exported with a
                          loss of one's own. The model's second input takes the targets: classes as int64 or
                          int32 of the batch, labels and numbers as float32 of the batch and their number */
  BRAID_SQUARED_HINGE, /* classes, with BRAID_INT8 only: squared error, but scores of wrong classes below their target
                          cost nothing (the L2-SVM loss of Tang, 2013) */
} braid_loss;
/* What is usual for targets of this kind: cross entropy, binary cross entropy, squared error. */
BRAID_API braid_loss braid_loss_of(braid_target_kind target);
BRAID_API const char *braid_loss_name(braid_loss loss); /* "cross-entropy" ... */

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
  int64_t batch, epochs;    /* batch: of all processes together, where the registry has a group (braid/group.h) */
  uint64_t seed;
  braid_loss loss;
  double label_smoothing; /* for cross entropy; in [0, 1) */
  const double
      *class_weights; /* for cross entropy and binary cross entropy, one per class, copied; NULL: all count 1 */
  size_t class_weight_count;
  bool balance_classes; /* by the training set, instead of class_weights: samples / (classes * samples of the class); of
                           labels instead of positive_weights: samples without the label / samples with it */
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
  int64_t warmup_steps; /* from 0 up to all steps of the training; BRAID_INT8 has none */
  int64_t step_epochs;  /* BRAID_STEP: the learning rate is multiplied by step_gamma every step_epochs epochs, of which
                           the training has more */
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
  braid_precision precision; /* BRAID_INT8: the loss is squared error if it is not BRAID_SQUARED_HINGE, the optimizer
                                is BRAID_SGD, with a momentum of 15/16 and the power of two from 2^-30 to 1/2 next to
                                weight_decay (or 0), or BRAID_WAGE, the schedule a cosine in powers of two, or WAGE's;
                                fields of others say nothing. learning_rate is a power of two from 2^-8 to 2^8 */
  int weight_bits, activation_bits, error_bits; /* BRAID_INT8: 2 to 8 */
  int gradient_bits;                            /* BRAID_INT8: 8 to 16, also of the weights that are updated */
  bool draw_weights;              /* BRAID_INT8: the first weights are drawn over their whole range, not the model's */
  const double *positive_weights; /* for binary cross entropy, one per class, copied: the weight of the labels that a
                                     sample has against those it has not (PyTorch's pos_weight); NULL: 1 */
  size_t positive_weight_count;
  double huber_delta;      /* BRAID_HUBER: differences beyond it count linearly */
  const char *loss_output; /* BRAID_OUTPUT_LOSS: the output's name; NULL: the only one */
  const char *ledger; /* BRAID_INT8: path of the ledger (braid/ledger.h), a file that is not there unless `resume`; one
                         that is goes on with `resume`, from the checkpoint's step. NULL: none */
  const char *ledger_model; /* where the model is, for whoever audits the ledger; NULL: not said */
  int64_t keep_checkpoints; /* how many stay, the newest; 0: all */
  int64_t steps; /* training ends after so many, instead of `epochs`: with its last epoch where that has fewer than the
                    others. 0: after `epochs`. Not in BRAID_INT8, whose schedules count epochs */
  int64_t lookahead_steps; /* Lookahead (Zhang et al., 2019): after so many steps (at most all of the training) the
                              parameters go back to the part lookahead_share of the way from where they last did, and
                              these places are evaluated and saved. 0: none */
  double lookahead_share;  /* in (0, 1] */
  double lookahead_end;    /* the share at the end, in (0, 1]; it goes there by the cube of the steps done over all */
} braid_train_options;
/* Sets the defaults: batch 128, 10 epochs, SGD with momentum 0.9, weight decay 5e-4, learning rate 0.05 with cosine
 * schedule, cross entropy. */
BRAID_API void braid_train_options_init(braid_train_options *options);
/* The group that a parameter of this name is in; NULL: none. */
BRAID_API const braid_parameter_group *braid_train_group(const braid_train_options *options, const char *parameter);

/* A trainable copy of `model`, as the trainer makes it (braid_graph_make_trainable). The loss is computed from the
 * first output; parameters that only other outputs depend on are not trained. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainable_copy(const braid_graph *model, braid_graph **out);

/* The same for a training by these options: with BRAID_OUTPUT_LOSS the loss is that output. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainable_copy_for(const braid_graph *model,
                                                                 const braid_train_options *options, braid_graph **out);

/* A copy of `model` that gives one score for each of the data set's classes, for fine-tuning: the last layer with
 * weights (Gemm, MatMul or Conv) and its bias are replaced, drawn by `seed`; all before it stays. UNSUPPORTED says
 * which node stands in the way. */
BRAID_API BRAID_MUST_CHECK braid_status braid_replace_head(const braid_graph *model, const braid_dataset *dataset,
                                                           uint64_t seed, braid_graph **out);

/* A copy of `model` that first takes each number of a sample less its mean over the data set, divided by its standard
 * deviation (1 where all are equal): for the training part of a table, whose columns have scales of their own. Both are
 * constants of the model, so that it takes the columns as they are wherever it runs. A model that begins with such a
 * subtraction or division stays as it is. */
BRAID_API BRAID_MUST_CHECK braid_status braid_standardize_input(const braid_graph *model, braid_dataset *dataset,
                                                                braid_graph **out);

/* A copy of `model` whose first convolution whitens the data: its filters become the principal directions of patches of
 * the data set's samples, without augmentation, in the order of falling variance, each followed by its opposite, and
 * scaled so that over the data set its result has a variance of 1 (a little less where it hardly varies). Filters
 * beyond twice the numbers of a patch stay. UNSUPPORTED if the samples are not read by one Conv of one group alone. */
BRAID_API BRAID_MUST_CHECK braid_status braid_whiten_filters(const braid_graph *model, braid_dataset *dataset,
                                                             braid_graph **out);

typedef struct braid_train_progress {
  int64_t epoch, epochs, step, steps; /* step: number of steps done in this epoch */
  double loss, accuracy;              /* averages over the epoch so far; the accuracy as in braid_test_result */
  double learning_rate, images_per_second, seconds_left;
  bool epoch_done;
  double test_loss, test_accuracy;      /* NAN unless epoch_done and there is a test set */
  int64_t best_epoch;                   /* 1-based, by options.monitor; 0: none is done */
  bool ends_early;                      /* epoch_done, and options.patience is used up: this epoch is the last */
  int64_t tested, to_test;              /* samples, while the evaluation at the end of an epoch runs; else 0 */
  const struct braid_test_result *test; /* all that the test measured, until the callback returns; NULL unless
                                           epoch_done and there is a test set */
  double seconds; /* of all steps of this run so far, with waiting for their samples; without tests and files */
} braid_train_progress;
/* Called after every step, during evaluation, and after every epoch. If it returns false, the trainer writes a
 * checkpoint and returns CANCELLED; of several processes all do, one step later. */
typedef bool braid_train_callback(void *context, const braid_train_progress *progress);

typedef struct braid_trainer braid_trainer;
/* `model` is a forward graph, resolved or not, with one input, the samples, and scores (batch, classes) as its first
 * output; with BRAID_OUTPUT_LOSS it has two inputs, the samples and their targets, and options->loss_output is the
 * loss. Its batch dimension is set to options->batch. With cross entropy, a Softmax at the output is merged into the
 * loss, with binary cross entropy a Sigmoid. `test` may be NULL; with BRAID_OUTPUT_LOSS the model is to take its last
 * batch too, of the samples that are left. INVALID_ARGUMENT if a warm-up, the epochs of the step schedule or the steps
 * of a lookahead reach beyond the training, with both numbers. Fails if the output directory is used by another run, is
 * not a directory, or cannot be written. When resuming, INVALID_ARGUMENT names the setting that differs from the
 * checkpoint (docs/training.md). The data sets must outlive the trainer.
 * With a group all of its processes create the trainer and run it, with the same model, data and options; a failure of
 * one before or between steps is returned by all (braid_group_failed_together). Process 0 writes and tests. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_create(const braid_graph *model, braid_dataset *train,
                                                             braid_dataset *test, const braid_train_options *options,
                                                             braid_trainer **out);
/* Whether it goes on from a checkpoint, whose parameters are in place of the model's. */
BRAID_API bool braid_trainer_resumed(const braid_trainer *trainer);
BRAID_API void braid_trainer_destroy(braid_trainer *trainer);
/* A graph whose values are what this training changes (BRAID_VALUE_PARAMETER; those of a group with a rate of 0 stay),
 * running statistics (BRAID_VALUE_STATE), and constants that stay as they are, with the reason (`fixed`). Of training
 * in integers the parameters are those integers, and biases, which it leaves out, stay fixed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_parameters(const braid_trainer *trainer, braid_graph **out);
/* Trains to the end of the last epoch, or as long as options.patience allows. NOT_FINITE names the step and the first
 * layer whose values are not finite. If an evaluation, a report or a checkpoint fails, training continues: the failure
 * is logged, once where the same fails again within an epoch, and the first one is returned at the end. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_run(braid_trainer *trainer, braid_train_callback *callback,
                                                          void *context);
/* The model with its current parameters, as a forward graph. */
BRAID_API BRAID_MUST_CHECK braid_status braid_trainer_model(braid_trainer *trainer, braid_graph **out);

/* --- which learning rate -------------------------------------------------------------------------------------------
 * Smith, "Cyclical Learning Rates for Training Neural Networks", 2017: a training whose rate grows geometrically from
 * step to step, until the loss diverges. */
typedef struct braid_rate_options {
  double least, most;
  int64_t steps; /* at least 11 */
} braid_rate_options;
BRAID_API void braid_rate_options_init(braid_rate_options *options); /* 1e-7 to 10 in 100 steps */

typedef struct braid_rate_point {
  double rate, loss, smoothed; /* smoothed: exponential average of the losses with a decay of 0.9, bias-corrected */
} braid_rate_point;
typedef struct braid_rate_search {
  braid_rate_point *points;
  size_t count;
  double suggested; /* where the loss falls most steeply over the rate's logarithm: the middle of the tenth of all steps
                       to both sides through which the least-squares line falls most, by more than twice the slope's
                       standard error. NAN: there is none */
  double lowest;    /* where the smoothed loss is least */
  bool diverged;    /* the smoothed loss ended above 4 times its least value, or in numbers that are not finite */
} braid_rate_search;
/* Called after every step. If it returns false, the search returns CANCELLED. */
typedef bool braid_rate_callback(void *context, int64_t done, int64_t total, const braid_rate_point *point);
/* `options` as for a trainer; of epochs, steps, schedule, warm-up, learning rate and output directory nothing is used,
 * nor of a lookahead beyond the search: neither `model` nor any file changes. `callback` may be NULL. Release `out`
 * with braid_rate_search_deinit after a success. */
BRAID_API BRAID_MUST_CHECK braid_status braid_find_rate(const braid_graph *model, braid_dataset *train,
                                                        const braid_train_options *options,
                                                        const braid_rate_options *rates, braid_rate_callback *callback,
                                                        void *context, braid_rate_search *out);
/* Writes learning-rate.csv and learning-rate.html, with a plot, to a folder, which is made. */
BRAID_API BRAID_MUST_CHECK braid_status braid_rate_search_save(const braid_rate_search *search, const char *directory);
BRAID_API void braid_rate_search_deinit(braid_rate_search *search);

/* Of one class against all others; of labels, where the probability is above 1/2 against where it is not. What would be
 * divided by zero is 0. */
typedef struct braid_class_result {
  int64_t samples, guessed; /* of this class; taken for it */
  double precision, recall, f1;
  double auc; /* area under the ROC curve of the class's probability; NAN: all samples are of one kind, or they are too
                 many (more than 2^24 scores) */
  int64_t right;            /* of this class and taken for it */
  double average_precision; /* the sum over falling thresholds of (recall gained) * precision (scikit-learn's
                               average_precision_score); NAN: no sample is of the class, or there are too many */
  int64_t unscored;         /* samples of the class of which a score is NaN: taken for none, so never right */
} braid_class_result;

/* Of one of the numbers that are predicted. */
typedef struct braid_number_result {
  double squared_error, absolute_error; /* means */
  double r2; /* 1 - squared error / variance of the target; of a constant target 1 or 0 (scikit-learn's r2_score) */
} braid_number_result;

/* By the targets (braid_target_kind): labels have no confusion, ranks and top5; numbers have neither these nor classes
 * and accuracy. What is not there is NAN or NULL. */
typedef struct braid_test_result {
  int64_t samples;
  int classes;
  double loss, accuracy, top5;       /* loss: that of braid_loss_of, without weights. accuracy: of labels, the share of
                                        right decisions over samples and classes. top5: NAN with up to five classes */
  double precision, recall, f1, auc; /* means over the classes that occur (scikit-learn's "macro"); auc: over those
                                        that have one */
  braid_class_result *per_class;     /* classes; owned by the result, as all below */
  int64_t *ranks;                    /* classes: how many samples have this many classes with a higher score than
                                        their own */
  int64_t *confusion;  /* classes x classes, row: true class, column: predicted class; owned by the result */
  int64_t worst_count; /* samples that are not right (of numbers: any), highest loss first */
  int64_t *worst_index;
  int32_t *worst_guess, *worst_label; /* -1 where targets are not classes */
  double *worst_loss;
  braid_target_kind target;
  double average_precision;         /* mean over the classes that have one */
  double exact_match;               /* labels: share of the samples of which every label is right */
  double mse, mae, r2;              /* numbers: means over all of them */
  braid_number_result *per_number;  /* numbers: `classes` */
  int64_t unscored, first_unscored; /* samples of which a score is NaN (never right; their labels with a score may be),
                                       and the index of the first */
} braid_test_result;
/* Called after every batch with the number of samples done. If it returns false, braid_test returns CANCELLED. */
typedef bool braid_test_callback(void *context, int64_t done, int64_t total);
/* Evaluates a forward graph on a data set. `callback` may be NULL. Call braid_test_result_deinit also after a failure.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_test(const braid_graph *model, braid_dataset *dataset, int64_t batch,
                                                   const braid_session_options *options, braid_test_callback *callback,
                                                   void *context, braid_test_result *result);
/* The same of a model whose output is its loss (BRAID_OUTPUT_LOSS; `output` NULL: the only one). `result` has the mean
 * loss, each batch's counted by its samples, and nothing else: `classes` is 0. */
BRAID_API BRAID_MUST_CHECK braid_status braid_test_loss(const braid_graph *model, const char *output,
                                                        braid_dataset *dataset, int64_t batch,
                                                        const braid_session_options *options,
                                                        braid_test_callback *callback, void *context,
                                                        braid_test_result *result);
/* The share of samples whose class is among those with the k highest scores; NAN where targets are not classes. */
BRAID_API double braid_test_top(const braid_test_result *result, int k);
BRAID_API void braid_test_result_deinit(braid_test_result *result);

#endif
