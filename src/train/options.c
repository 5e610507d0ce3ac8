#include "train/options.h"

#include <math.h>

#include "base/text.h"
#include "base/try.h"
#include "train/integer/network.h"

void braid_train_options_init(braid_train_options *options) {
  *options = (braid_train_options){.batch = 128,
                                   .epochs = 10,
                                   .loss = BRAID_CROSS_ENTROPY,
                                   .optimizer = BRAID_SGD,
                                   .learning_rate = 0.05,
                                   .momentum = 0.9,
                                   .weight_decay = 5e-4,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .accumulate = 1,
                                   .schedule = BRAID_COSINE,
                                   .step_epochs = 30,
                                   .step_gamma = 0.1,
                                   .plateau_epochs = 10,
                                   .weight_bits = 8,
                                   .activation_bits = 8,
                                   .error_bits = 8,
                                   .gradient_bits = 8,
                                   .huber_delta = 1,
                                   .keep_checkpoints = 2,
                                   .lookahead_share = 0.5,
                                   .lookahead_end = 0.5};
}

/* --- checks ---------------------------------------------------------------------------------------------------------
 */
static bool within(double value, double low, double high) {
  return value >= low && value < high;
}

static bool are_zeros(const double *weights, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (weights[i] != 0) return false;
  return true;
}

static bool are_weights(const double *weights, size_t count) {
  for (size_t i = 0; weights && i < count; i++)
    if (!(weights[i] >= 0) || !isfinite(weights[i])) return false;
  return true;
}

static bool is_share(double share) {
  return share > 0 && share <= 1;
}

static bool is_width(int bits, int least, int most) {
  return bits >= least && bits <= most;
}

/* Training in integers has losses and rules of updates of its own. */
static const char *check_integers(const braid_train_options *o) {
  int exponent;
  if (!is_width(o->weight_bits, 2, 8) || !is_width(o->activation_bits, 2, 8) || !is_width(o->error_bits, 2, 8))
    return "weights, activations and errors have 2 to 8 bits";
  if (!is_width(o->gradient_bits, 8, 16)) return "gradients have 8 to 16 bits";
  if (o->optimizer != BRAID_SGD && o->optimizer != BRAID_WAGE) return "in integers the optimizer is sgd or wage";
  if (frexp(o->learning_rate, &exponent) != 0.5 || !is_width(exponent - 1, -8, 8))
    return "in integers the learning rate is a power of two from 2^-8 to 2^8";
  if (o->accumulate > 1 || o->clip_value > 0 || o->clip_norm > 0 || o->average_decay > 0 || o->lookahead_steps ||
      o->mixup > 0)
    return "in integers there are no accumulation, limits of gradients, averages and mixup";
  if (o->class_weights || o->balance_classes || o->label_smoothing > 0)
    return "in integers there are no class weights and no label smoothing";
  if (o->loss == BRAID_OUTPUT_LOSS) return "in integers no output of the model is the loss";
  if (o->steps) return "in integers training ends with an epoch, since its schedules count them";
  for (size_t i = 0; i < o->group_count; i++)
    if (!isnan(o->groups[i].weight_decay)) return "in integers a group has no weight decay of its own";
  return NULL;
}

braid_status braid_train_options_check(const braid_train_options *o) {
  const char *wrong = NULL;
  if (o->batch < 1)
    wrong = "the batch must be at least 1";
  else if (o->epochs < 1)
    wrong = "epochs must be at least 1";
  else if (o->steps < 0)
    wrong = "the number of steps must be at least 0";
  else if (!(o->learning_rate > 0) || !isfinite(o->learning_rate))
    wrong = "the learning rate must be above 0";
  else if (o->precision != BRAID_INT8 && !within(o->momentum, 0, 1))
    wrong = "the momentum must be in [0, 1)";
  else if (!(o->weight_decay >= 0) || !isfinite(o->weight_decay))
    wrong = "the weight decay must be at least 0";
  else if (!within(o->label_smoothing, 0, 1))
    wrong = "label smoothing must be in [0, 1)";
  else if (!within(o->beta1, 0, 1) || !within(o->beta2, 0, 1))
    wrong = "beta1 and beta2 must be in [0, 1)";
  else if (!(o->epsilon > 0))
    wrong = "epsilon must be above 0";
  else if ((unsigned)o->precision > BRAID_FLOAT16)
    wrong = "an unknown precision";
  else if ((unsigned)o->loss > BRAID_SQUARED_HINGE)
    wrong = "an unknown loss";
  else if (o->loss == BRAID_SQUARED_HINGE && o->precision != BRAID_INT8)
    wrong = "the loss squared-hinge is of training in integers";
  else if ((unsigned)o->optimizer > BRAID_WAGE)
    wrong = "an unknown optimizer";
  else if (o->optimizer == BRAID_WAGE && o->precision != BRAID_INT8)
    wrong = "the optimizer wage is of training in integers";
  else if ((o->class_weights || o->balance_classes) && o->loss != BRAID_CROSS_ENTROPY &&
           o->loss != BRAID_BINARY_CROSS_ENTROPY)
    wrong = "class weights are for cross entropy and binary cross entropy";
  else if (o->positive_weights && o->loss != BRAID_BINARY_CROSS_ENTROPY)
    wrong = "positive weights are for binary cross entropy";
  else if (o->balance_classes && (o->loss == BRAID_CROSS_ENTROPY ? o->class_weights : o->positive_weights))
    wrong = "classes are either balanced or given weights";
  else if (o->label_smoothing > 0 && o->loss != BRAID_CROSS_ENTROPY && o->loss != BRAID_SQUARED_ERROR)
    wrong = "label smoothing is for cross entropy";
  else if (o->loss == BRAID_HUBER && (!(o->huber_delta > 0) || !isfinite(o->huber_delta)))
    wrong = "Huber's delta must be above 0";
  else if (o->mixup > 0 && o->loss == BRAID_OUTPUT_LOSS)
    wrong = "mixup needs the loss of two labels, where an output is the loss of one";
  else if (!(o->mixup >= 0) || o->mixup > 1e6 || !(o->label_noise >= 0 && o->label_noise <= 1))
    wrong = "mixup must be from 0 to 1e6, label noise from 0 to 1";
  else if (o->accumulate < 1)
    wrong = "a step has at least 1 batch";
  else if (!(o->clip_value >= 0) || !(o->clip_norm >= 0))
    wrong = "limits of gradients must be at least 0";
  else if (!within(o->average_decay, 0, 1))
    wrong = "the decay of the average must be in [0, 1)";
  else if (o->lookahead_steps < 0)
    wrong = "the steps of a lookahead must be at least 0";
  else if (o->lookahead_steps && !(is_share(o->lookahead_share) && is_share(o->lookahead_end)))
    wrong = "the shares of a lookahead must be above 0 and at most 1";
  else if (o->lookahead_steps && o->average_decay > 0)
    wrong = "what is evaluated and saved is either an average or what a lookahead keeps";
  else if (o->warmup_steps < 0)
    wrong = "warm-up steps must be at least 0";
  else if (o->schedule == BRAID_STEP && (o->step_epochs < 1 || !(o->step_gamma > 0)))
    wrong = "the step schedule needs step_epochs of at least 1 and step_gamma above 0";
  else if (o->schedule == BRAID_PLATEAU && (o->plateau_epochs < 0 || !(o->step_gamma > 0)))
    wrong = "the plateau schedule needs plateau_epochs of at least 0 and step_gamma above 0";
  else if (o->patience < 0)
    wrong = "the patience must be at least 0";
  else if (o->keep_best && !o->out_directory)
    wrong = "the best model needs an output directory";
  else if (o->precision != BRAID_INT8 && o->nesterov && o->momentum == 0)
    wrong = "Nesterov needs a momentum above 0";
  else if (o->resume && !o->out_directory)
    wrong = "resuming needs an output directory";
  else if (o->ledger && o->precision != BRAID_INT8)
    wrong = "a ledger is of training in integers: bits of floating point depend on processors, kernels and devices, so "
            "nobody else could compute them again";
  else if (o->keep_checkpoints < 0)
    wrong = "the number of checkpoints to keep must be at least 0";
  if (!wrong && !are_weights(o->class_weights, o->class_weight_count)) wrong = "class weights must be at least 0";
  if (!wrong && o->class_weights && are_zeros(o->class_weights, o->class_weight_count))
    wrong = "class weights of 0 alone leave nothing to train on";
  if (!wrong && !are_weights(o->positive_weights, o->positive_weight_count))
    wrong = "positive weights must be at least 0";
  for (size_t i = 0; !wrong && i < o->group_count; i++)
    if (!o->groups[i].pattern || !(o->groups[i].rate >= 0) || !isfinite(o->groups[i].rate) ||
        !(isnan(o->groups[i].weight_decay) || (o->groups[i].weight_decay >= 0 && isfinite(o->groups[i].weight_decay))))
      wrong = "a group of parameters needs a pattern, a rate and a weight decay of at least 0";
  if (!wrong && o->precision == BRAID_INT8) wrong = check_integers(o);
  return wrong ? braid_fail(BRAID_INVALID_ARGUMENT, "%s", wrong) : BRAID_OK;
}

static braid_status options_copy_text(const braid_allocator *allocator, const char **text) {
  if (!*text) return BRAID_OK;
  *text = braid_strdup(allocator, *text);
  return *text ? BRAID_OK : BRAID_NO_MEMORY;
}

const braid_parameter_group *braid_train_group(const braid_train_options *options, const char *parameter) {
  for (size_t i = 0; i < options->group_count; i++)
    if (braid_text_fits(options->groups[i].pattern, parameter)) return &options->groups[i];
  return NULL;
}

/* --- copies ---------------------------------------------------------------------------------------------------------
 */
enum { kTexts = 7 };

static void list_texts(braid_train_options *options, const char **texts[kTexts]) {
  texts[0] = &options->devices;
  texts[1] = &options->place;
  texts[2] = &options->out_directory;
  texts[3] = &options->trace;
  texts[4] = &options->loss_output;
  texts[5] = &options->ledger;
  texts[6] = &options->ledger_model;
}

static braid_status own_groups(const braid_allocator *allocator, braid_train_options *o) {
  const braid_parameter_group *given = o->groups;
  size_t count = o->group_count;
  o->groups = NULL;
  o->group_count = 0;
  if (!count) return BRAID_OK;
  braid_parameter_group *groups = braid_zalloc_array(allocator, count, sizeof *groups);
  if (!groups) return BRAID_NO_MEMORY;
  o->groups = groups;
  for (; o->group_count < count; o->group_count++) {
    braid_parameter_group *group = &groups[o->group_count];
    *group = given[o->group_count];
    group->pattern = braid_strdup(allocator, group->pattern);
    if (!group->pattern) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static braid_status copy_weights(const braid_allocator *allocator, const double *given, size_t count,
                                 const double **out) {
  if (!given) return BRAID_OK;
  double *weights = braid_zalloc_array(allocator, count, sizeof *weights);
  if (!weights) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) weights[i] = given[i];
  *out = weights;
  return BRAID_OK;
}

static braid_status own_weights(const braid_allocator *allocator, braid_train_options *o) {
  const double *classes = o->class_weights, *positive = o->positive_weights;
  o->class_weights = o->positive_weights = NULL;
  BRAID_TRY(copy_weights(allocator, classes, o->class_weight_count, &o->class_weights));
  return copy_weights(allocator, positive, o->positive_weight_count, &o->positive_weights);
}

/* What training in integers takes of the options, as checkpoints and reports say it. */
static void take_integers(braid_train_options *o) {
  bool sgd = o->optimizer == BRAID_SGD;
  int decay = sgd ? braid_integer_decay(o->weight_decay) : 0;
  if (o->loss != BRAID_SQUARED_HINGE) o->loss = BRAID_SQUARED_ERROR;
  o->momentum = sgd ? 15.0 / 16 : 0;
  o->weight_decay = decay ? ldexp(1, -decay) : 0;
  o->nesterov = false;
  o->schedule = BRAID_COSINE;
}

braid_status braid_train_options_own(const braid_allocator *allocator, braid_train_options *options) {
  const char **texts[kTexts];
  list_texts(options, texts);
  if (options->precision == BRAID_INT8) take_integers(options);
  braid_status status = own_groups(allocator, options);
  if (status == BRAID_OK)
    status = own_weights(allocator, options);
  else
    options->class_weights = options->positive_weights = NULL;
  for (size_t i = 0; i < kTexts; i++) {
    if (status == BRAID_OK) status = options_copy_text(allocator, texts[i]);
    if (status != BRAID_OK) *texts[i] = NULL;
  }
  return status;
}

void braid_train_options_release(const braid_allocator *allocator, braid_train_options *options) {
  const char **texts[kTexts];
  list_texts(options, texts);
  for (size_t i = 0; i < kTexts; i++) braid_free(allocator, (void *)*texts[i]);
  for (size_t i = 0; i < options->group_count; i++) braid_free(allocator, (void *)options->groups[i].pattern);
  braid_free(allocator, (void *)options->groups);
  braid_free(allocator, (void *)options->class_weights);
  braid_free(allocator, (void *)options->positive_weights);
}
