#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "training.h"

static const char doc[] =
    "Trains MODEL (a .cfg with random weights, or a .onnx) on a data set, evaluates it after every epoch, and writes "
    "the trained model (model.onnx), checkpoints, TensorBoard event files and a report (report.html) to DIR."
    "\vSPEC is KIND:PATH[,key=value...], with KIND one of cifar10, cifar100, idx, images, npy and builtin "
    "(builtin:glyphs needs no files). Keys: mean std scale order size channels limit seed, "
    "and augment (crop resized-crop flip colour cutout, with + between) with pad area jitter hole.\n"
    "\nCtrl-C writes a checkpoint and stops; --resume continues from it, with results that are bit-identical to those "
    "of "
    "an uninterrupted run. It needs the same options; only --epochs, --lr, --patience, the path of the data set, the "
    "execution "
    "options (--device, --place, --threads, --trace), --checkpoint-steps, --log-steps, and a test set that nothing "
    "goes by "
    "(--best, --patience, --schedule plateau) may differ.\n"
    "\nExamples:\n"
    "  braid train models/glyphs.cfg --data builtin:glyphs --epochs 5 --out glyphs\n"
    "  braid train vgg.cfg --data cifar10:DIR,augment=crop+flip --epochs 20 \\\n"
    "    --lr 0.1 --schedule one-cycle --label-smoothing 0.1 --out vgg\n"
    "  (with --resume the same command continues after an interruption)\n"
    "  braid train resnet18.onnx --data images:DIR,size=224x224 --replace-head \\\n"
    "    --group 'fc.*:lr=1' --freeze '*' --out mine\n"
    "  braid train mlp.cfg --data idx:DIR --optimizer adamw --lr 0.001 --json\n";

enum { MOST_GROUPS = 64, MOST_CLASSES = 1000 };

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  const char *data, *test;
  braid_train_options train;
  bool no_test, replace_head;
  braid_parameter_group groups[MOST_GROUPS];
  double class_weights[MOST_CLASSES];
  uint64_t given; /* one bit for each of the keys below */
  char *made_out; /* the default folder, removed if training does not start */
} options;

enum {
  KEY_DATA = 1,
  KEY_TEST,
  KEY_NO_TEST,
  KEY_EPOCHS,
  KEY_BATCH,
  KEY_SEED,
  KEY_LOSS,
  KEY_SMOOTHING,
  KEY_OPTIMIZER,
  KEY_LR,
  KEY_MOMENTUM,
  KEY_NESTEROV,
  KEY_DECAY,
  KEY_BETA1,
  KEY_BETA2,
  KEY_EPSILON,
  KEY_SCHEDULE,
  KEY_WARMUP,
  KEY_STEP_EPOCHS,
  KEY_STEP_GAMMA,
  KEY_NO_BIAS_DECAY,
  KEY_GROUP,
  KEY_FREEZE,
  KEY_ACCUMULATE,
  KEY_CLIP_NORM,
  KEY_CLIP_VALUE,
  KEY_AVERAGE,
  KEY_PLATEAU,
  KEY_MONITOR,
  KEY_BEST,
  KEY_PATIENCE,
  KEY_LOG,
  KEY_HEAD,
  KEY_WEIGHTS,
  KEY_MIXUP,
  KEY_NOISE,
  KEY_OUT,
  KEY_RESUME,
  KEY_CHECKPOINT,
};

static const struct argp_option table[] = {
    {"data", KEY_DATA, "SPEC", 0, "The data set to train on", 1},
    {"test", KEY_TEST, "SPEC", 0, "The data set to test on (default: the test part of --data)", 1},
    {"no-test", KEY_NO_TEST, NULL, 0, "Do not evaluate after each epoch", 1},
    {"out", KEY_OUT, "DIR", 0,
     "Folder for the model, checkpoints, event files and report (default: a new folder named after the model and the "
     "date); results of an earlier run in it are moved to DIR/earlier, DIR/earlier-2 ...",
     1},
    {"resume", KEY_RESUME, NULL, 0, "Continue from the newest checkpoint in DIR", 1},
    {"checkpoint-steps", KEY_CHECKPOINT, "N", 0, "Write a checkpoint every N steps, in addition to each epoch", 1},
    {"best", KEY_BEST, NULL, 0, "Also write best.onnx, the model of the best epoch", 1},
    {"log-steps", KEY_LOG, "N", 0, "Write loss, accuracy and rate to the event file every N steps", 1},
    {"epochs", KEY_EPOCHS, "N", 0, "Passes over the data (default 10)", 2},
    {"batch", KEY_BATCH, "N", 0, "Samples per step (default 128)", 2},
    {"replace-head", KEY_HEAD, NULL, 0,
     "Fine-tuning: replace the last layer by one for the classes of --data, with random weights", 2},
    {"seed", KEY_SEED, "N", 0, "Seed of initial weights, order of samples and augmentation (default 1)", 2},
    {"loss", KEY_LOSS, "NAME", 0, "cross-entropy (default) or squared-error", 2},
    {"label-smoothing", KEY_SMOOTHING, "X", 0, "Label smoothing factor (0..1, default 0)", 2},
    {"class-weights", KEY_WEIGHTS, "A/B/...", 0,
     "How much each class counts in cross-entropy; balanced: the rarer the more", 2},
    {"mixup", KEY_MIXUP, "A", 0, "Mix pairs of samples and their labels, by a share of Beta(A, A) for each batch", 2},
    {"label-noise", KEY_NOISE, "P", 0, "Replace a label by any with probability P, anew in each epoch", 2},
    {"optimizer", KEY_OPTIMIZER, "NAME", 0, "sgd (default), adam or adamw", 3},
    {"lr", KEY_LR, "X", 0, "Learning rate; the maximum of the schedule (default 0.05)", 3},
    {"momentum", KEY_MOMENTUM, "X", 0, "Momentum of sgd (default 0.9)", 3},
    {"nesterov", KEY_NESTEROV, NULL, 0, "Nesterov's momentum", 3},
    {"weight-decay", KEY_DECAY, "X", 0, "Default 0.0005", 3},
    {"no-bias-decay", KEY_NO_BIAS_DECAY, NULL, 0,
     "No weight decay for biases and for scales and shifts of normalizations", 3},
    {"group", KEY_GROUP, "PATTERN:KEY=X[,KEY=X]", 0,
     "Parameters whose names match (* any text, ? any character) have lr= times the learning rate, and their own "
     "decay=; repeatable, the first that matches counts",
     3},
    {"freeze", KEY_FREEZE, "PATTERN", 0, "Parameters that stay as they are; like --group PATTERN:lr=0", 3},
    {"accumulate", KEY_ACCUMULATE, "N", 0, "Batches per step: one update by the mean of their gradients (default 1)",
     3},
    {"clip-norm", KEY_CLIP_NORM, "X", 0, "Limit the norm of all gradients together", 3},
    {"clip-value", KEY_CLIP_VALUE, "X", 0, "Limit every element of the gradients to [-X, X]", 3},
    {"average", KEY_AVERAGE, "D", 0,
     "Test and save the exponential moving average of the parameters: D * average + (1 - D) * parameter after every "
     "step",
     3},
    {"beta1", KEY_BETA1, "X", 0, "Of adam and adamw (default 0.9)", 3},
    {"beta2", KEY_BETA2, "X", 0, "Of adam and adamw (default 0.999)", 3},
    {"epsilon", KEY_EPSILON, "X", 0, "Of adam and adamw (default 1e-8)", 3},
    {"schedule", KEY_SCHEDULE, "NAME", 0, "constant, step, cosine (default), one-cycle or plateau", 4},
    {"warmup", KEY_WARMUP, "N", 0, "Steps of linear warm-up of the learning rate from 0", 4},
    {"step-epochs", KEY_STEP_EPOCHS, "N", 0, "Schedule step: epochs between decays", 4},
    {"plateau-epochs", KEY_PLATEAU, "N", 0,
     "Schedule plateau: decay after more than N epochs without improvement (default 10)", 4},
    {"step-gamma", KEY_STEP_GAMMA, "X", 0, "Schedules step and plateau: decay factor (default 0.1)", 4},
    {"patience", KEY_PATIENCE, "N", 0, "End after N epochs in a row without a new best one", 4},
    {"monitor", KEY_MONITOR, "NAME", 0,
     "What makes an epoch the best: loss (default) or accuracy, of the test or, with --no-test, of training", 4},
    {0}};

/* The index of `text` among `names` (ended by NULL), or a usage error that lists them. */
static int choose(struct argp_state *state, const char *option, const char *text, const char *const *names) {
  char all[128] = "";
  for (int i = 0; names[i]; i++) {
    if (strcmp(text, names[i]) == 0) return i;
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
  }
  argp_error(state, "%s: one of %s is expected, not \"%s\"", option, all, text);
  return 0;
}

static error_t parse_numbers(int key, const char *a, struct argp_state *state, braid_train_options *t) {
  switch (key) {
  case KEY_EPOCHS:
    t->epochs = cli_integer(state, "--epochs", a, 1, 1000000);
    return 0;
  case KEY_BATCH:
    t->batch = cli_integer(state, "--batch", a, 1, 1 << 20);
    return 0;
  case KEY_SEED:
    t->seed = (uint64_t)cli_integer(state, "--seed", a, 0, INT64_MAX);
    return 0;
  case KEY_SMOOTHING:
    t->label_smoothing = cli_number(state, "--label-smoothing", a, 0, 0.999);
    return 0;
  case KEY_LR:
    t->learning_rate = cli_number(state, "--lr", a, 0, INFINITY);
    return 0;
  case KEY_MOMENTUM:
    t->momentum = cli_number(state, "--momentum", a, 0, 1);
    return 0;
  case KEY_DECAY:
    t->weight_decay = cli_number(state, "--weight-decay", a, 0, INFINITY);
    return 0;
  case KEY_BETA1:
    t->beta1 = cli_number(state, "--beta1", a, 0, 1);
    return 0;
  case KEY_BETA2:
    t->beta2 = cli_number(state, "--beta2", a, 0, 1);
    return 0;
  case KEY_EPSILON:
    t->epsilon = cli_number(state, "--epsilon", a, 0, 1);
    return 0;
  case KEY_MIXUP:
    t->mixup = cli_number(state, "--mixup", a, 0, 1e6);
    return 0;
  case KEY_NOISE:
    t->label_noise = cli_number(state, "--label-noise", a, 0, 1);
    return 0;
  case KEY_ACCUMULATE:
    t->accumulate = cli_integer(state, "--accumulate", a, 1, 1 << 20);
    return 0;
  case KEY_CLIP_NORM:
    t->clip_norm = cli_number(state, "--clip-norm", a, 0, INFINITY);
    return 0;
  case KEY_CLIP_VALUE:
    t->clip_value = cli_number(state, "--clip-value", a, 0, INFINITY);
    return 0;
  case KEY_AVERAGE:
    t->average_decay = cli_number(state, "--average", a, 0, 1);
    return 0;
  case KEY_WARMUP:
    t->warmup_steps = cli_integer(state, "--warmup", a, 0, INT32_MAX);
    return 0;
  case KEY_STEP_EPOCHS:
    t->step_epochs = cli_integer(state, "--step-epochs", a, 1, 1000000);
    return 0;
  case KEY_STEP_GAMMA:
    t->step_gamma = cli_number(state, "--step-gamma", a, 0, 1);
    return 0;
  case KEY_PLATEAU:
    t->plateau_epochs = cli_integer(state, "--plateau-epochs", a, 0, 1000000);
    return 0;
  case KEY_PATIENCE:
    t->patience = cli_integer(state, "--patience", a, 1, 1000000);
    return 0;
  case KEY_LOG:
    t->log_steps = cli_integer(state, "--log-steps", a, 1, INT64_MAX);
    return 0;
  case KEY_CHECKPOINT:
    t->checkpoint_steps = cli_integer(state, "--checkpoint-steps", a, 1, INT64_MAX);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static braid_parameter_group *add_group(struct argp_state *state, options *o, const char *pattern) {
  if (o->train.group_count == MOST_GROUPS) argp_error(state, "at most %d of --group and --freeze", MOST_GROUPS);
  braid_parameter_group *group = &o->groups[o->train.group_count++];
  *group = (braid_parameter_group){pattern, 1, NAN};
  o->train.groups = o->groups;
  return group;
}

/* One number per class, or "balanced". */
static void parse_weights(struct argp_state *state, options *o, char *text) {
  o->train.balance_classes = strcmp(text, "balanced") == 0;
  if (o->train.balance_classes) return;
  o->train.class_weights = o->class_weights;
  for (char *next; text; text = next) {
    next = strchr(text, '/');
    if (next) *next++ = 0;
    if (o->train.class_weight_count == MOST_CLASSES) argp_error(state, "--class-weights: at most %d", MOST_CLASSES);
    o->class_weights[o->train.class_weight_count++] = cli_number(state, "--class-weights", text, 0, INFINITY);
  }
}

/* PATTERN:lr=X,decay=Y. Names may have colons: the last one ends the pattern. */
static void parse_group(struct argp_state *state, options *o, char *text) {
  enum { LR, DECAY };
  char *const keys[] = {[LR] = "lr", [DECAY] = "decay", NULL};
  char *values = strrchr(text, ':'), *value;
  if (!values || values == text || !values[1]) {
    argp_error(state, "--group: PATTERN:lr=X,decay=X is expected, not \"%s\"", text);
    return;
  }
  *values++ = 0;
  braid_parameter_group *group = add_group(state, o, text);
  while (*values) {
    const char *key = values;
    switch (getsubopt(&values, keys, &value)) {
    case LR:
      group->rate = cli_number(state, "--group lr", value ? value : "", 0, INFINITY);
      break;
    case DECAY:
      group->weight_decay = cli_number(state, "--group decay", value ? value : "", 0, INFINITY);
      break;
    default:
      argp_error(state, "--group %s: lr= and decay= are known, not \"%s\"", text, key);
      return;
    }
  }
}

/* Options without effect on this run are refused, since they are probably mistakes. */
static void check_effects(struct argp_state *state, const options *o) {
  const braid_train_options *t = &o->train;
  bool sgd = t->optimizer == BRAID_SGD, step = t->schedule == BRAID_STEP, plateau = t->schedule == BRAID_PLATEAU;
  const struct {
    int key;
    bool without;
    const char *option, *why;
  } rules[] = {
      {KEY_TEST, o->no_test, "--test", "with --no-test"},
      {KEY_SMOOTHING, t->loss != BRAID_CROSS_ENTROPY, "--label-smoothing", "with --loss squared-error"},
      {KEY_WEIGHTS, t->loss != BRAID_CROSS_ENTROPY, "--class-weights", "with --loss squared-error"},
      {KEY_MOMENTUM, !sgd, "--momentum", "with --optimizer adam and adamw, which have --beta1"},
      {KEY_NESTEROV, !sgd, "--nesterov", "with --optimizer adam and adamw"},
      {KEY_NESTEROV, t->momentum <= 0, "--nesterov", "with --momentum 0"},
      {KEY_BETA1, sgd, "--beta1", "with sgd, only with --optimizer adam or adamw"},
      {KEY_BETA2, sgd, "--beta2", "with sgd, only with --optimizer adam or adamw"},
      {KEY_EPSILON, sgd, "--epsilon", "with sgd, only with --optimizer adam or adamw"},
      {KEY_STEP_EPOCHS, !step, "--step-epochs", "without --schedule step"},
      {KEY_STEP_GAMMA, !step && !plateau, "--step-gamma", "without --schedule step or plateau"},
      {KEY_PLATEAU, !plateau, "--plateau-epochs", "without --schedule plateau"},
      {KEY_MONITOR, !plateau && !t->patience && !t->keep_best, "--monitor",
       "without --best, --patience or --schedule plateau"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].without && o->given >> rules[i].key & 1)
      argp_error(state, "%s has no effect %s", rules[i].option, rules[i].why);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  static const char *const losses[] = {"cross-entropy", "squared-error", NULL};
  static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
  static const char *const schedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", NULL};
  static const char *const monitors[] = {"loss", "accuracy", NULL};
  options *o = state->input;
  braid_train_options *t = &o->train;
  if (key > 0 && key <= KEY_CHECKPOINT) o->given |= UINT64_C(1) << key;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    return 0;
  case KEY_DATA:
    o->data = argument;
    return 0;
  case KEY_TEST:
    o->test = argument;
    return 0;
  case KEY_NO_TEST:
    o->no_test = true;
    return 0;
  case KEY_OUT:
    t->out_directory = argument;
    return 0;
  case KEY_RESUME:
    t->resume = true;
    return 0;
  case KEY_NESTEROV:
    t->nesterov = true;
    return 0;
  case KEY_HEAD:
    o->replace_head = true;
    return 0;
  case KEY_WEIGHTS:
    parse_weights(state, o, argument);
    return 0;
  case KEY_BEST:
    t->keep_best = true;
    return 0;
  case KEY_MONITOR:
    t->monitor = (braid_monitor)choose(state, "--monitor", argument, monitors);
    return 0;
  case KEY_NO_BIAS_DECAY:
    t->no_bias_decay = true;
    return 0;
  case KEY_GROUP:
    parse_group(state, o, argument);
    return 0;
  case KEY_FREEZE:
    add_group(state, o, argument)->rate = 0;
    return 0;
  case KEY_LOSS:
    t->loss = (braid_loss)choose(state, "--loss", argument, losses);
    return 0;
  case KEY_OPTIMIZER:
    t->optimizer = (braid_optimizer)choose(state, "--optimizer", argument, optimizers);
    return 0;
  case KEY_SCHEDULE:
    t->schedule = (braid_schedule)choose(state, "--schedule", argument, schedules);
    return 0;
  case ARGP_KEY_END:
    if (!o->data) argp_error(state, "--data SPEC is expected, for instance --data builtin:glyphs");
    if (t->resume && !t->out_directory) argp_error(state, "--resume needs --out DIR, where the checkpoints are");
    check_effects(state, o);
    return 0;
  default:
    return parse_numbers(key, argument, state, t);
  }
}

/* State of the progress callback. */
typedef struct watch {
  const options *options;
  cli_progress progress;
  cli_json *json; /* one object per epoch */
  braid_train_progress last;
} watch;

static void print_epoch(const watch *w, const braid_train_progress *p) {
  char tested[80] = "", took[32];
  if (!isnan(p->test_accuracy)) {
    snprintf(tested, sizeof tested, ", test loss %.4f accuracy %.2f%%", p->test_loss, p->test_accuracy * 100);
  }
  fprintf(w->json ? stderr : stdout,
          "epoch %" PRId64 "/%" PRId64 "  loss %.4f accuracy %.2f%%%s  %.0f images/s, %s left\n", p->epoch, p->epochs,
          p->loss, p->accuracy * 100, tested, p->images_per_second,
          cli_format_seconds(p->ends_early ? 0 : p->seconds_left, took, sizeof took));
  if (p->ends_early)
    fprintf(w->json ? stderr : stdout, "ends early: no epoch since %" PRId64 " was better\n", p->best_epoch);
  fflush(stdout);
}

static bool on_step(void *context, const braid_train_progress *p) {
  watch *w = context;
  w->last = *p;
  if (p->epoch_done) {
    cli_progress_end(&w->progress);
    print_epoch(w, p);
    if (w->json) {
      cli_json_object(w->json, NULL);
      cli_json_integer(w->json, "epoch", p->epoch);
      cli_json_number(w->json, "loss", p->loss);
      cli_json_number(w->json, "accuracy", p->accuracy);
      cli_json_number(w->json, "test_loss", p->test_loss);
      cli_json_number(w->json, "test_accuracy", p->test_accuracy);
      cli_json_number(w->json, "learning_rate", p->learning_rate);
      cli_json_number(w->json, "measured_images_per_second", p->images_per_second);
      cli_json_close(w->json, '}');
    }
  } else if (p->tested) {
    w->progress.label = "testing";
    cli_progress_update(&w->progress, p->tested, p->to_test, "");
  } else {
    char note[128], left[32];
    w->progress.label = "training";
    snprintf(note, sizeof note, "loss %.3f  accuracy %.1f%%  %.0f images/s  %s left", p->loss, p->accuracy * 100,
             p->images_per_second, cli_format_seconds(p->seconds_left, left, sizeof left));
    cli_progress_update(&w->progress, p->step, p->steps, note);
  }
  return !cli_interrupted();
}

/* DIR/name, allocated. */
static char *path_in(const char *directory, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static void tell_results(const options *o) {
  FILE *file = o->common.json ? stderr : stdout;
  char *model = path_in(o->train.out_directory, "model.onnx"), *report = path_in(o->train.out_directory, "report.html");
  if (model && access(model, R_OK) == 0) fprintf(file, "trained model: %s\n", model);
  if (report && access(report, R_OK) == 0) fprintf(file, "report: %s\n", report);
  free(model);
  free(report);
}

/* --- output folder --------------------------------------------------------------------------------------------------
 * The default output folder is a new one: MODEL-DATE, MODEL-DATE-2 ... */
enum { MOST_RUNS = 100000 };

static braid_status choose_out(options *o) {
  const char *slash = strrchr(o->source.path, '/'), *name = slash ? slash + 1 : o->source.path;
  const char *dot = strrchr(name, '.');
  int length = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
  char day[16];
  time_t now = time(NULL);
  struct tm local;
  if (!localtime_r(&now, &local) || !strftime(day, sizeof day, "%Y-%m-%d", &local)) strcpy(day, "run");
  for (int i = 1; i <= MOST_RUNS; i++) {
    char number[16] = "", *path;
    if (i > 1) snprintf(number, sizeof number, "-%d", i);
    if (asprintf(&path, "%.*s-%s%s", length, name, day, number) < 0) return cli_no_memory();
    if (mkdir(path, 0777) == 0) {
      o->train.out_directory = o->made_out = path;
      return BRAID_OK;
    }
    int error = errno;
    if (error != EEXIST) {
      braid_status status =
          braid_fail(BRAID_IO, "%s: cannot create the folder: %s; choose one with --out", path, strerror(error));
      free(path);
      return status;
    }
    free(path);
  }
  return braid_fail(BRAID_IO, "%.*s-%s: %d folders with this name exist; choose one with --out", length, name, day,
                    MOST_RUNS);
}

static braid_status run_trainer(const options *o, braid_trainer *trainer) {
  cli_json json;
  watch w = {.options = o, .json = NULL};
  if (o->common.json) {
    if (!cli_json_begin(&json)) return cli_no_memory();
    w.json = &json;
    cli_json_string(&json, "model", o->source.path);
    cli_json_string(&json, "data", o->data);
    cli_json_array(&json, "epochs");
  }
  if (o->made_out)
    fprintf(o->common.json ? stderr : stdout, "results are written to %s (change with --out)\n", o->made_out);
  cli_progress_begin(&w.progress, "training");
  braid_status status = braid_trainer_run(trainer, on_step, &w);
  cli_progress_end(&w.progress);
  if (status == BRAID_CANCELLED) {
    status = braid_fail(BRAID_CANCELLED,
                        "interrupted in epoch %" PRId64 " after step %" PRId64
                        "; a checkpoint is in %s, --resume --out %s goes on from it",
                        w.last.epoch, w.last.step, o->train.out_directory, o->train.out_directory);
  }
  if (status != BRAID_CANCELLED) tell_results(o);
  if (!w.json) return status;
  if (status != BRAID_OK) {
    cli_json_discard(&json);
    return status;
  }
  cli_json_close(&json, ']');
  cli_json_integer(&json, "best_epoch", w.last.best_epoch);
  cli_json_string(&json, "out", o->train.out_directory);
  cli_json_end(&json);
  return status;
}

/* The default is the test split of the training data; npy has none. */
static braid_status open_test(const options *o, const braid_dataset *data, braid_dataset **test) {
  if (!o->test && braid_dataset_get_info(data).one_part)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--data %s has no test split: give one with --test, or use --no-test",
                      o->data);
  braid_status status = braid_dataset_open(NULL, o->test ? o->test : o->data, "test", test);
  if (status == BRAID_OK && o->test && braid_dataset_get_info(*test).augments)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--test %s: augment is for training only", o->test);
  return status;
}

/* *began: training has started, so later failures are not errors of the arguments. */
static braid_status train(options *o, const braid_graph *model, bool *began) {
  braid_dataset *data = NULL, *test = NULL;
  braid_trainer *trainer = NULL;
  braid_graph *fitted = NULL;
  braid_status status = braid_dataset_open(NULL, o->data, "train", &data);
  if (status == BRAID_OK && o->replace_head) status = braid_replace_head(model, data, o->train.seed, &fitted);
  if (fitted) model = fitted;
  if (status == BRAID_OK && !o->no_test) status = open_test(o, data, &test);
  if (status == BRAID_OK && !o->train.out_directory) status = choose_out(o);
  if (status == BRAID_OK) status = braid_trainer_create(model, data, test, &o->train, &trainer);
  if (status == BRAID_OK) status = training_summarize(model, &o->train);
  *began = status == BRAID_OK;
  if (status == BRAID_OK) status = run_trainer(o, trainer);
  if (trainer) braid_trainer_destroy(trainer);
  if (test) braid_dataset_close(test);
  if (data) braid_dataset_close(data);
  braid_graph_destroy(fitted);
  if (o->made_out && !*began) rmdir(o->made_out); /* unless something is in it */
  return status;
}

int cli_train(int argc, char **argv) {
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_place_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.data = NULL};
  braid_train_options_init(&o.train);
  o.train.seed = 1;
  cli_parse(&argp, argc, argv, &o);
  o.train.devices = o.place.devices;
  o.train.place = o.place.patterns;
  o.train.threads = o.place.threads;
  o.train.trace = o.place.trace;
  o.source.options.seed = o.source.options.seed ? o.source.options.seed : o.train.seed;
  cli_catch_interrupt();
  braid_graph *model = NULL;
  braid_status status = cli_open_registry(&o.place);
  o.train.registry = o.place.registry;
  if (status == BRAID_OK) status = cli_load(&o.source, &model);
  bool began = false;
  if (status == BRAID_OK) {
    status = train(&o, model, &began);
    braid_graph_destroy(model);
  }
  cli_close_registry(&o.place);
  free(o.made_out);
  if (status == BRAID_OK) return CLI_OK;
  int code = cli_fail(&o.common, "train", status);
  return began && code == CLI_USAGE ? CLI_FAILED : code;
}
