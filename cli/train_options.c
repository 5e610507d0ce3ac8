#include "train_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train_values.h"

static const char doc[] =
    "Trains MODEL (a .cfg with random weights, or a .onnx) on a data set, evaluates it after every epoch, and writes "
    "the trained model (model.onnx), checkpoints, TensorBoard event files and a report (report.html) to DIR."
    "\vSPEC is KIND:PATH[,key=value...], with KIND one of cifar10, cifar100, idx, images, npy, csv, coco "
    "and builtin (builtin:glyphs needs no files). Keys: mean std scale order size channels limit seed, "
    "of csv and of images with labels=FILE.csv target columns "
    "targets header, of coco images, augment (crop resized-crop flip alternating-flip colour cutout, with + between) "
    "with pad border area jitter hole, and, for tests, views (flip shift).\n"
    "\nCtrl-C writes a checkpoint and stops; --resume continues from it, with results that are bit-identical to those "
    "of "
    "an uninterrupted run (but with --policy, which goes by measured times). It needs the same options; only --epochs, "
    "--lr, --patience (where the run already goes by a "
    "best epoch), the path of the data set, the execution "
    "options (--device, --place, --threads, --trace), --checkpoint-steps, --keep-checkpoints, --log-steps, and a test "
    "set that nothing "
    "goes by "
    "(--best, --patience, --schedule plateau) may differ.\n"
    "\nStarted by mpirun or srun, the processes train together: each takes its part of every batch, of which --batch "
    "is the size for all of them, and process 0 writes and prints. In integers the bits are those of one process. A "
    "device's name without its number "
    "(--device cuda) is each process's own.\n"
    "\nExamples:\n"
    "  braid train models/glyphs.cfg --data builtin:glyphs --epochs 5 --out glyphs\n"
    "  braid train vgg.cfg --data cifar10:DIR,augment=crop+flip --epochs 20 \\\n"
    "    --lr 0.1 --schedule one-cycle --label-smoothing 0.1 --out vgg\n"
    "  (with --resume the same command continues after an interruption)\n"
    "  braid train resnet18.onnx --data images:DIR,size=224x224 --replace-head \\\n"
    "    --group 'fc.*:lr=1' --freeze '*' --out mine\n"
    "  braid train mlp.onnx --data csv:iris.csv,target=species --batch 16\n"
    "  braid train mlp.cfg --data idx:DIR --optimizer adamw --lr 0.001 --json\n"
    "  braid train lenet.cfg --data idx:DIR --precision int8 --ledger lenet.ledger\n"
    "  mpirun -n 2 braid train vgg.cfg --data cifar10:DIR --batch 128 --out vgg\n"
    "  mpirun -n 4 braid train vgg.cfg --data cifar10:DIR --batch 512 --device \"cuda cpu\" --precision bf16\n";

enum {
  KEY_DATA = CLI_FIRST_KEY,
  KEY_TENANT,
  KEY_TOKEN,
  KEY_TEST,
  KEY_NO_TEST,
  KEY_EPOCHS,
  KEY_STEPS,
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
  KEY_LOOKAHEAD,
  KEY_PLATEAU,
  KEY_MONITOR,
  KEY_BEST,
  KEY_PATIENCE,
  KEY_LOG,
  KEY_HEAD,
  KEY_WHITEN,
  KEY_WEIGHTS,
  KEY_FIND,
  KEY_RAW,
  KEY_POSITIVE,
  KEY_DELTA,
  KEY_MIXUP,
  KEY_NOISE,
  KEY_PRECISION,
  KEY_BITS,
  KEY_OUT,
  KEY_RESUME,
  KEY_LEDGER,
  KEY_KEEP,
  KEY_CHECKPOINT,
  KEY_PLAN,
  KEY_IDLE,
};

static const struct argp_option table[] = {
    {"data", KEY_DATA, "SPEC", 0, "The data set to train on", 1},
    {"test", KEY_TEST, "SPEC", 0, "The data set to test on (default: the test part of --data)", 1},
    {"no-test", KEY_NO_TEST, NULL, 0, "Do not evaluate after each epoch", 1},
    {"plan", KEY_PLAN, "FILE", 0,
     "Run operations where the plan has them that `braid plan --train --save FILE` made with the same batch", 1},
    {"out", KEY_OUT, "DIR", 0,
     "Folder for the model, checkpoints, event files and report (default: a new folder named after the model and the "
     "date); results of an earlier run in it are moved to DIR/earlier, DIR/earlier-2 ...",
     1},
    {"resume", KEY_RESUME, NULL, 0, "Continue from the newest checkpoint in DIR", 1},
    {"checkpoint-steps", KEY_CHECKPOINT, "N", 0, "Write a checkpoint every N steps, in addition to each epoch", 1},
    {"keep-checkpoints", KEY_KEEP, "N", 0, "Keep the N newest checkpoints (default 2; 0: all)", 1},
    {"ledger", KEY_LEDGER, "FILE", 0,
     "With --precision int8: write what every step computed to FILE, as a chain of hashes, for braid audit "
     "(docs/audit.md)",
     1},
    {"idle", KEY_IDLE, NULL, 0,
     "Take only the CPU time that nothing else wants (Linux's SCHED_IDLE), as beside braid serve: whoever else has "
     "work gets the CPU at once",
     1},
    {"tenant", KEY_TENANT, "ADDRESS", 0,
     "Train as a tenant of the daemon at ADDRESS, unix:PATH: compute only while no request waits or runs there, and as "
     "--idle says, on all CPUs but one unless --threads says how many (docs/serving.md)",
     1},
    {"token", KEY_TOKEN, "TOKEN", 0,
     "With --tenant: the tenant's (default: BRAID_TOKEN of the environment, which others do not see)", 1},
    {"best", KEY_BEST, NULL, 0, "Also write best.onnx, the model of the best epoch", 1},
    {"log-steps", KEY_LOG, "N", 0, "Write loss, accuracy and rate to the event file every N steps", 1},
    {"epochs", KEY_EPOCHS, "N", 0, "Passes over the data (default 10)", 2},
    {"steps", KEY_STEPS, "N", 0, "Instead of --epochs: end after N steps, also within an epoch", 2},
    {"batch", KEY_BATCH, "N", 0, "Samples per step (default 128)", 2},
    {"replace-head", KEY_HEAD, NULL, 0,
     "Fine-tuning: replace the last layer by one for the classes of --data, with random weights", 2},
    {"whiten", KEY_WHITEN, NULL, 0,
     "Begin with filters of the first convolution that whiten patches of --data, in place of the model's; --freeze "
     "keeps "
     "them",
     2},
    {"no-standardize", KEY_RAW, NULL, 0,
     "Of csv: do not put (column - mean) / deviation, of the training part, at the model's start", 2},
    {"seed", KEY_SEED, "N", 0, "Seed of initial weights, order of samples and augmentation (default 1)", 2},
    {"loss", KEY_LOSS, "NAME", 0,
     "cross-entropy (for classes), binary-cross-entropy (labels), squared-error, absolute-error or huber (numbers); "
     "default: by the targets of --data, squared-error for numbers. output, or output:NAME: an output of the model is "
     "the loss, and its second input takes the targets. With --precision int8: squared-error (default) or "
     "squared-hinge "
     "(scores of wrong classes below their target cost nothing)",
     2},
    {"label-smoothing", KEY_SMOOTHING, "X", 0, "Label smoothing factor (0..1, default 0)", 2},
    {"class-weights", KEY_WEIGHTS, "A/B/...", 0,
     "How much each class counts in cross-entropy and binary-cross-entropy; balanced: the rarer the more", 2},
    {"positive-weights", KEY_POSITIVE, "A/B/...", 0,
     "How much each label counts where a sample has it, in binary-cross-entropy", 2},
    {"huber-delta", KEY_DELTA, "X", 0, "Differences above it count linearly (default 1)", 2},
    {"mixup", KEY_MIXUP, "A", 0, "Mix pairs of samples and their labels, by a share of Beta(A, A) for each batch", 2},
    {"label-noise", KEY_NOISE, "P", 0, "Replace a label by any with probability P, anew in each epoch", 2},
    {"optimizer", KEY_OPTIMIZER, "NAME", 0, "sgd (default), adam or adamw; with --precision int8 sgd or wage", 3},
    {"precision", KEY_PRECISION, "NAME", 0,
     "float32 (default); tf32: products of float32 may round to 10 bits of fraction, on devices that can; bf16 or "
     "fp16: "
     "products and what passes their results on in 16 bits, parameters and losses in float32; or int8: training in "
     "integers, the same bits on every device, with losses, rules of updates "
     "and a schedule of its own (docs/integer-training.md); --lr is then a power of two (default 0.125; with "
     "--optimizer wage 8)",
     3},
    {"bits", KEY_BITS, "W,A,G,E", 0,
     "With --precision int8, four numbers: bits of weights, activations and errors (2 to 8), and of gradients and the "
     "weights that "
     "they change (8 to 16; default 8,8,8,8)",
     3},
    {"lr", KEY_LR, "X", 0, "Learning rate; the maximum of the schedule (default 0.05)", 3},
    {"find-lr", KEY_FIND, "MIN..MAX", OPTION_ARG_OPTIONAL,
     "Find a learning rate instead of training: 100 steps at rates from MIN to MAX (1e-7..10) that stop where the loss "
     "diverges; writes learning-rate.csv and learning-rate.html to DIR, and changes nothing else there",
     3},
    {"momentum", KEY_MOMENTUM, "X", 0, "Momentum of sgd (default 0.9; with --precision int8 sgd has 15/16)", 3},
    {"nesterov", KEY_NESTEROV, NULL, 0, "Nesterov's momentum", 3},
    {"weight-decay", KEY_DECAY, "X", 0,
     "Default 0.0005; with --precision int8 and sgd the nearest power of two from 2^-30 to 1/2, or 0 (default "
     "2^-13, 0.000122)",
     3},
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
    {"lookahead", KEY_LOOKAHEAD, "N[:A[..B]]", 0,
     "After every N steps go back to the part A (default 0.5; from A to B during the run) of the way from where the "
     "parameters were left so before; test and save these places",
     3},
    {"beta1", KEY_BETA1, "X", 0, "Of adam and adamw (default 0.9)", 3},
    {"beta2", KEY_BETA2, "X", 0, "Of adam and adamw (default 0.999)", 3},
    {"epsilon", KEY_EPSILON, "X", 0, "Of adam and adamw (default 1e-8)", 3},
    {"schedule", KEY_SCHEDULE, "NAME", 0,
     "constant, step, linear, cosine (default), one-cycle or plateau; with --warmup linear is a triangle", 4},
    {"warmup", KEY_WARMUP, "N", 0, "Steps of linear warm-up of the learning rate from 0", 4},
    {"step-epochs", KEY_STEP_EPOCHS, "N", 0, "Schedule step: epochs between decays (default 30)", 4},
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

/* Options that are one number each, and where it goes. */
static error_t parse_numbers(int key, const char *argument, struct argp_state *state, braid_train_options *t) {
  static const struct {
    int key;
    const char *option;
    size_t field;
    int64_t least, most;
  } kWhole[] = {
      {KEY_EPOCHS, "--epochs", offsetof(braid_train_options, epochs), 1, 1000000},
      {KEY_STEPS, "--steps", offsetof(braid_train_options, steps), 1, INT64_MAX / 2},
      {KEY_BATCH, "--batch", offsetof(braid_train_options, batch), 1, 1 << 20},
      {KEY_ACCUMULATE, "--accumulate", offsetof(braid_train_options, accumulate), 1, 1 << 20},
      {KEY_WARMUP, "--warmup", offsetof(braid_train_options, warmup_steps), 0, INT32_MAX},
      {KEY_STEP_EPOCHS, "--step-epochs", offsetof(braid_train_options, step_epochs), 1, 1000000},
      {KEY_PLATEAU, "--plateau-epochs", offsetof(braid_train_options, plateau_epochs), 0, 1000000},
      {KEY_PATIENCE, "--patience", offsetof(braid_train_options, patience), 1, 1000000},
      {KEY_LOG, "--log-steps", offsetof(braid_train_options, log_steps), 1, INT64_MAX},
      {KEY_CHECKPOINT, "--checkpoint-steps", offsetof(braid_train_options, checkpoint_steps), 1, INT64_MAX},
      {KEY_KEEP, "--keep-checkpoints", offsetof(braid_train_options, keep_checkpoints), 0, INT64_MAX},
  };
  static const struct {
    int key;
    const char *option;
    size_t field;
    double least, most;
  } kReal[] = {
      {KEY_SMOOTHING, "--label-smoothing", offsetof(braid_train_options, label_smoothing), 0, 0.999},
      {KEY_LR, "--lr", offsetof(braid_train_options, learning_rate), 0, INFINITY},
      {KEY_MOMENTUM, "--momentum", offsetof(braid_train_options, momentum), 0, 1},
      {KEY_DECAY, "--weight-decay", offsetof(braid_train_options, weight_decay), 0, INFINITY},
      {KEY_BETA1, "--beta1", offsetof(braid_train_options, beta1), 0, 1},
      {KEY_BETA2, "--beta2", offsetof(braid_train_options, beta2), 0, 1},
      {KEY_EPSILON, "--epsilon", offsetof(braid_train_options, epsilon), 0, 1},
      {KEY_MIXUP, "--mixup", offsetof(braid_train_options, mixup), 0, 1e6},
      {KEY_DELTA, "--huber-delta", offsetof(braid_train_options, huber_delta), 0, INFINITY},
      {KEY_NOISE, "--label-noise", offsetof(braid_train_options, label_noise), 0, 1},
      {KEY_CLIP_NORM, "--clip-norm", offsetof(braid_train_options, clip_norm), 0, INFINITY},
      {KEY_CLIP_VALUE, "--clip-value", offsetof(braid_train_options, clip_value), 0, INFINITY},
      {KEY_AVERAGE, "--average", offsetof(braid_train_options, average_decay), 0, 1},
      {KEY_STEP_GAMMA, "--step-gamma", offsetof(braid_train_options, step_gamma), 0, 1},
  };
  for (size_t i = 0; i < sizeof kWhole / sizeof *kWhole; i++) {
    if (kWhole[i].key != key) continue;
    int64_t *field = (int64_t *)((char *)t + kWhole[i].field);
    *field = cli_integer(state, kWhole[i].option, argument, kWhole[i].least, kWhole[i].most);
    return 0;
  }
  for (size_t i = 0; i < sizeof kReal / sizeof *kReal; i++) {
    if (kReal[i].key != key) continue;
    double *field = (double *)((char *)t + kReal[i].field);
    *field = cli_number(state, kReal[i].option, argument, kReal[i].least, kReal[i].most);
    return 0;
  }
  if (key != KEY_SEED) return ARGP_ERR_UNKNOWN;
  t->seed = (uint64_t)cli_integer(state, "--seed", argument, 0, INT64_MAX);
  return 0;
}

static bool is_given(const train_options *o, int key) {
  _Static_assert(KEY_CHECKPOINT - KEY_DATA < 64, "one bit for each option");
  return o->given >> (key - KEY_DATA) & 1;
}

/* Training in integers has its own losses, optimizers and schedule. */
static void check_integers(struct argp_state *state, train_options *o) {
  static const char kSchedule[] = ", which has a schedule of its own",
                    kRule[] = ", which has rules of updates of its own";
  static const struct {
    int key;
    const char *option, *instead;
  } kOthers[] = {{KEY_SMOOTHING, "--label-smoothing", ""},
                 {KEY_MOMENTUM, "--momentum", ", where sgd has 15/16"},
                 {KEY_NESTEROV, "--nesterov", kRule},
                 {KEY_SCHEDULE, "--schedule", kSchedule},
                 {KEY_STEPS, "--steps", ", whose schedules count --epochs"},
                 {KEY_WARMUP, "--warmup", kSchedule},
                 {KEY_STEP_EPOCHS, "--step-epochs", kSchedule},
                 {KEY_STEP_GAMMA, "--step-gamma", kSchedule},
                 {KEY_PLATEAU, "--plateau-epochs", kSchedule},
                 {KEY_BETA1, "--beta1", kRule},
                 {KEY_BETA2, "--beta2", kRule},
                 {KEY_EPSILON, "--epsilon", kRule},
                 {KEY_NO_BIAS_DECAY, "--no-bias-decay", ""},
                 {KEY_ACCUMULATE, "--accumulate", ""},
                 {KEY_CLIP_NORM, "--clip-norm", ""},
                 {KEY_CLIP_VALUE, "--clip-value", ""},
                 {KEY_AVERAGE, "--average", ""},
                 {KEY_LOOKAHEAD, "--lookahead", ""},
                 {KEY_WEIGHTS, "--class-weights", ""},
                 {KEY_POSITIVE, "--positive-weights", ""},
                 {KEY_MIXUP, "--mixup", ""},
                 {KEY_WHITEN, "--whiten", ", whose first weights are of few bits"},
                 {KEY_FIND, "--find-lr", ""}};
  bool wage = o->train.optimizer == BRAID_WAGE;
  if (o->train.precision != BRAID_INT8) {
    if (wage) argp_error(state, "--optimizer wage is of --precision int8");
    if (is_given(o, KEY_BITS)) argp_error(state, "--bits has no effect without --precision int8");
    if (o->train.ledger)
      argp_error(state,
                 "--ledger is of --precision int8: bits of floating point depend on processors, kernels and devices, "
                 "so nobody else could compute them again");
    return;
  }
  if (o->loss_given && o->train.loss != BRAID_SQUARED_ERROR && o->train.loss != BRAID_SQUARED_HINGE)
    argp_error(state, "--precision int8 has the losses squared-error and squared-hinge, not %s",
               braid_loss_name(o->train.loss));
  if (o->train.optimizer == BRAID_ADAM || o->train.optimizer == BRAID_ADAMW)
    argp_error(state, "--precision int8 has the optimizers sgd and wage");
  if (wage && is_given(o, KEY_DECAY)) argp_error(state, "--weight-decay has no effect with --optimizer wage");
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++)
    if (is_given(o, kOthers[i].key))
      argp_error(state, "%s has no effect with --precision int8%s", kOthers[i].option, kOthers[i].instead);
  for (size_t i = 0; i < o->train.group_count; i++)
    if (!isnan(o->groups[i].weight_decay))
      argp_error(state, "--group %s: decay= has no effect with --precision int8", o->groups[i].pattern);
  if (o->train.ledger && o->replace_head)
    argp_error(state, "--ledger is of a model that an audit reads as it is; --replace-head changes it");
  if (!is_given(o, KEY_LR)) o->train.learning_rate = wage ? 8 : 0.125;
  if (!is_given(o, KEY_DECAY)) o->train.weight_decay = 0x1p-13;
  o->train.ledger_model = o->source.path;
  size_t length = strlen(o->source.path ? o->source.path : "");
  o->train.draw_weights = length > 4 && strcmp(o->source.path + length - 4, ".cfg") == 0 && !o->source.options.weights;
}

/* Options without effect on this run are refused, since they are probably mistakes. */
static void check_effects(struct argp_state *state, const train_options *o) {
  const braid_train_options *t = &o->train;
  bool sgd = t->optimizer == BRAID_SGD, step = t->schedule == BRAID_STEP, plateau = t->schedule == BRAID_PLATEAU;
  const struct {
    int key;
    bool without;
    const char *option, *why;
  } rules[] = {
      {KEY_TEST, o->no_test, "--test", "with --no-test"},
      {KEY_SMOOTHING, o->loss_given && t->loss != BRAID_CROSS_ENTROPY, "--label-smoothing",
       "without --loss cross-entropy"},
      {KEY_WEIGHTS, o->loss_given && t->loss != BRAID_CROSS_ENTROPY && t->loss != BRAID_BINARY_CROSS_ENTROPY,
       "--class-weights", "without --loss cross-entropy or binary-cross-entropy"},
      {KEY_POSITIVE, o->loss_given && t->loss != BRAID_BINARY_CROSS_ENTROPY, "--positive-weights",
       "without --loss binary-cross-entropy"},
      {KEY_LR, o->find_rate, "--lr", "with --find-lr"},
      {KEY_EPOCHS, o->find_rate, "--epochs", "with --find-lr"},
      {KEY_EPOCHS, t->steps > 0, "--epochs", "with --steps"},
      {KEY_STEPS, o->find_rate, "--steps", "with --find-lr"},
      {KEY_SCHEDULE, o->find_rate, "--schedule", "with --find-lr"},
      {KEY_WARMUP, o->find_rate, "--warmup", "with --find-lr"},
      {KEY_RESUME, o->find_rate, "--resume", "with --find-lr"},
      {KEY_TEST, o->find_rate, "--test", "with --find-lr"},
      {KEY_BEST, o->find_rate, "--best", "with --find-lr"},
      {KEY_PATIENCE, o->find_rate, "--patience", "with --find-lr"},
      {KEY_DELTA, t->loss != BRAID_HUBER, "--huber-delta", "without --loss huber"},
      {KEY_MOMENTUM, !sgd, "--momentum", "with --optimizer adam and adamw, which have --beta1"},
      {KEY_NESTEROV, !sgd, "--nesterov", "with --optimizer adam and adamw"},
      {KEY_NESTEROV, t->momentum <= 0, "--nesterov", "with --momentum 0"},
      {KEY_BETA1, sgd, "--beta1", "with sgd, only with --optimizer adam or adamw"},
      {KEY_BETA2, sgd, "--beta2", "with sgd, only with --optimizer adam or adamw"},
      {KEY_EPSILON, sgd, "--epsilon", "with sgd, only with --optimizer adam or adamw"},
      {KEY_STEP_EPOCHS, !step, "--step-epochs", "without --schedule step"},
      {KEY_STEP_GAMMA, !step && !plateau, "--step-gamma", "without --schedule step or plateau"},
      {KEY_PLATEAU, !plateau, "--plateau-epochs", "without --schedule plateau"},
      {KEY_AVERAGE, t->lookahead_steps > 0, "--average", "with --lookahead, whose places are tested and saved"},
      {KEY_TOKEN, !o->tenant, "--token", "without --tenant"},
      {KEY_MONITOR, !plateau && !t->patience && !t->keep_best, "--monitor",
       "without --best, --patience or --schedule plateau"},
  };
  if (o->replace_head && t->loss == BRAID_OUTPUT_LOSS)
    argp_error(state, "--replace-head fits scores to the classes of the data, which a loss (--loss output) has not");
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].without && is_given(o, rules[i].key))
      argp_error(state, "%s has no effect %s", rules[i].option, rules[i].why);
}

/* A policy places nodes, of steps in floating point. */
static void check_steering(struct argp_state *state, const train_options *o) {
  const struct {
    bool given;
    const char *option;
  } others[] = {{o->place.patterns != NULL, "--place"},
                {o->place.plan != NULL, "--plan"},
                {o->place.trace != NULL, "--trace"},
                {o->find_rate, "--find-lr"},
                {o->train.precision == BRAID_INT8, "--precision int8"}};
  for (size_t i = 0; o->steering.given && i < sizeof others / sizeof *others; i++)
    if (others[i].given) argp_error(state, "--policy and --power-cap cannot be combined with %s", others[i].option);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  static const char *const losses[] = {"cross-entropy", "squared-error", "binary-cross-entropy", "absolute-error",
                                       "huber",         "output",        "squared-hinge",        NULL};
  static const char *const optimizers[] = {"sgd", "adam", "adamw", "wage", NULL};
  static const char *const schedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", "linear", NULL};
  static const char *const precisions[] = {"float32", "int8", "tf32", "bf16", "fp16", NULL};
  static const char *const monitors[] = {"loss", "accuracy", NULL};
  train_options *o = state->input;
  braid_train_options *t = &o->train;
  if (key >= KEY_DATA && key <= KEY_CHECKPOINT) o->given |= UINT64_C(1) << (key - KEY_DATA);
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    state->child_inputs[3] = &o->steering;
    return 0;
  case KEY_DATA:
    o->data = argument;
    return 0;
  case KEY_PLAN:
    if (cli_why_unreadable(argument))
      argp_error(state, "--plan: %s can't be read: %s", argument, cli_why_unreadable(argument));
    if (!cli_is_placement(argument))
      argp_error(state, "--plan: %s is no plan of `braid plan --train --save`", argument);
    o->place.plan = argument;
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
  case KEY_IDLE:
    o->idle = true;
    return 0;
  case KEY_TENANT:
    if (strncmp(argument, "unix:", 5) != 0)
      argp_error(state, "--tenant: %s: expected unix:PATH, the socket of a daemon on this machine", argument);
    o->tenant = argument;
    o->idle = true;
    return 0;
  case KEY_TOKEN:
    o->token = argument;
    return 0;
  case KEY_LEDGER:
    if (strcmp(argument, "-") == 0)
      argp_error(state, "--ledger: a file is expected, which --resume reads again, not standard output");
    t->ledger = argument;
    return 0;
  case KEY_NESTEROV:
    t->nesterov = true;
    return 0;
  case KEY_HEAD:
    o->replace_head = true;
    return 0;
  case KEY_LOOKAHEAD:
    train_parse_lookahead(state, t, argument);
    return 0;
  case KEY_WHITEN:
    o->whiten = true;
    return 0;
  case KEY_WEIGHTS:
    t->balance_classes = strcmp(argument, "balanced") == 0;
    t->class_weights = t->balance_classes ? NULL : o->class_weights;
    if (!t->balance_classes)
      t->class_weight_count = train_parse_weights(state, "--class-weights", argument, o->class_weights);
    return 0;
  case KEY_POSITIVE:
    t->positive_weights = o->positive_weights;
    t->positive_weight_count = train_parse_weights(state, "--positive-weights", argument, o->positive_weights);
    return 0;
  case KEY_FIND:
    o->find_rate = true;
    if (argument) train_parse_range(state, argument, &o->rates);
    return 0;
  case KEY_RAW:
    o->raw_columns = true;
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
    train_parse_group(state, o, argument);
    return 0;
  case KEY_FREEZE:
    train_add_group(state, o, argument)->rate = 0;
    return 0;
  case KEY_LOSS:
    o->loss_given = true;
    t->loss = cli_output_loss(state, argument, &t->loss_output) ? BRAID_OUTPUT_LOSS
                                                                : (braid_loss)choose(state, "--loss", argument, losses);
    return 0;
  case KEY_OPTIMIZER:
    t->optimizer = (braid_optimizer)choose(state, "--optimizer", argument, optimizers);
    return 0;
  case KEY_PRECISION:
    t->precision = (braid_precision)choose(state, "--precision", argument, precisions);
    return 0;
  case KEY_BITS:
    train_parse_bits(state, t, argument);
    return 0;
  case KEY_SCHEDULE:
    t->schedule = (braid_schedule)choose(state, "--schedule", argument, schedules);
    return 0;
  case ARGP_KEY_END:
    if (!o->data) argp_error(state, "--data SPEC is expected, for instance --data builtin:glyphs");
    if (t->resume && !t->out_directory) argp_error(state, "--resume needs --out DIR, where the checkpoints are");
    if (o->place.plan && o->place.patterns)
      argp_error(state, "--plan cannot be combined with --place: placement is part of the plan");
    check_integers(state, o);
    check_effects(state, o);
    check_steering(state, o);
    return 0;
  default:
    return parse_numbers(key, argument, state, t);
  }
}

static const struct argp_child children[] = {{&cli_source_argp, 0, NULL, 0},
                                             {&cli_place_argp, 0, NULL, 0},
                                             {&cli_common_argp, 0, NULL, 0},
                                             {&cli_steering_argp, 0, NULL, 0},
                                             {0}};
const struct argp train_argp = {table, parse, "MODEL", doc, children, NULL, NULL};
