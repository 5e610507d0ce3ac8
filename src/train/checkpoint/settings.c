#include "train/checkpoint/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/try.h"
#include "graph/graph.h"
#include "train/data/dataset.h"
#include "train/integer/network.h"

/* Not to the same bits, but to a purpose: these may be changed on the way. */
static const char kEpochs[] = "number of epochs", kRate[] = "learning rate", kSpec[] = "data set",
                  kPatience[] = "patience";
/* With it stand all lines of what compares epochs. */
static const char kCompared[] = "what epochs are compared by", kKept[] = "model of the best epoch",
                  kTest[] = "test set, ";
static const char *const kMayDiffer[] = {kEpochs, kRate, kSpec, kPatience};

enum { kMostShown = 4 };

/* --- lines ---------------------------------------------------------------------------------------------------------
 */
static void add_text(braid_text *out, const char *name, const char *value) {
  braid_text_printf(out, "%s: ", name);
  for (; *value; value++) braid_text_add_bytes(out, (unsigned char)*value < ' ' ? "?" : value, 1);
  braid_text_add(out, "\n");
}

static void add_integer(braid_text *out, const char *name, int64_t value) {
  braid_text_printf(out, "%s: %" PRId64 "\n", name, value);
}

/* As short as it is still exact. */
static void add_number(braid_text *out, const char *name, double value) {
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  add_text(out, name, text);
}

static void add_sum(braid_text *out, const char *name, uint32_t sum) {
  braid_text_printf(out, "%s: %08" PRIx32 "\n", name, sum);
}

static uint32_t sum_bytes(uint32_t sum, const void *data, size_t bytes) {
  return (uint32_t)crc32_z(sum, data, bytes);
}

static uint32_t sum_text(uint32_t sum, const char *text) {
  return sum_bytes(sum, text, strlen(text) + 1);
}

/* --- the model -----------------------------------------------------------------------------------------------------
 */
static uint32_t sum_desc(uint32_t sum, const braid_desc *desc) {
  sum = sum_text(sum, braid_dtype_name(desc->dtype));
  sum = sum_bytes(sum, &desc->rank, sizeof desc->rank);
  return desc->rank > 0 ? sum_bytes(sum, desc->dims, (size_t)desc->rank * sizeof *desc->dims) : sum;
}

static uint32_t sum_tensor(uint32_t sum, const braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  return sum_bytes(sum_desc(sum, desc), braid_tensor_const_data(tensor), braid_desc_bytes(desc));
}

static uint32_t sum_attr(uint32_t sum, const braid_attr *attr) {
  sum = sum_text(sum, attr->name);
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    return sum_bytes(sum, &attr->i, sizeof attr->i);
  case BRAID_ATTR_FLOAT:
    return sum_bytes(sum, &attr->f, sizeof attr->f);
  case BRAID_ATTR_STRING:
    return sum_text(sum, attr->s);
  case BRAID_ATTR_INTS:
    return sum_bytes(sum, attr->ints, attr->count * sizeof *attr->ints);
  case BRAID_ATTR_FLOATS:
    return sum_bytes(sum, attr->floats, attr->count * sizeof *attr->floats);
  case BRAID_ATTR_STRINGS:
    for (size_t i = 0; i < attr->count; i++) sum = sum_text(sum, attr->strings[i]);
    return sum;
  case BRAID_ATTR_TENSOR:
    return sum_tensor(sum, attr->tensor);
  }
  return sum;
}

static bool is_trained(const braid_trainer *trainer, const braid_value *value) {
  braid_value_id id = braid_graph_find_value(trainer->step, value->name);
  if (id < 0) return false;
  braid_value_kind kind = trainer->step->values[id].kind;
  return kind == BRAID_VALUE_PARAMETER || kind == BRAID_VALUE_STATE;
}

/* The structure, and the numbers that training does not change: those it changes come from the checkpoint. */
static uint32_t sum_model(const braid_trainer *trainer) {
  const braid_graph *model = trainer->model;
  uint32_t sum = 0;
  for (size_t i = 0; i < model->value_count; i++) {
    const braid_value *value = &model->values[i];
    if (value->kind != BRAID_VALUE_RESULT) sum = sum_desc(sum_text(sum, value->name), &value->desc);
    if (value->kind != BRAID_VALUE_RESULT && value->tensor && !is_trained(trainer, value))
      sum = sum_tensor(sum, value->tensor);
  }
  for (size_t i = 0; i < model->node_count; i++) {
    const braid_node *node = &model->nodes[i];
    sum = sum_text(sum, node->op->name);
    sum = sum_bytes(sum, node->inputs, node->input_count * sizeof *node->inputs);
    sum = sum_bytes(sum, node->outputs, node->output_count * sizeof *node->outputs);
    for (size_t a = 0; a < node->attrs.count; a++) sum = sum_attr(sum, &node->attrs.items[a]);
  }
  return sum_bytes(sum, model->outputs, model->output_count * sizeof *model->outputs);
}

/* --- reading lines --------------------------------------------------------------------------------------------------
 */
typedef struct setting {
  const char *name, *value; /* not terminated; value NULL: it is not there */
  int name_length, value_length;
} setting;

/* The line at *at, which moves on; false at the end. */
static bool next_setting(const char **at, setting *out) {
  const char *line = *at, *end = strchr(line, '\n'), *colon = strstr(line, ": ");
  if (!end || !colon || colon > end) return false;
  *out = (setting){line, colon + 2, (int)(colon - line), (int)(end - colon - 2)};
  *at = end + 1;
  return true;
}

static setting find_setting(const char *text, const setting *like) {
  for (setting found; next_setting(&text, &found);)
    if (found.name_length == like->name_length && memcmp(found.name, like->name, (size_t)like->name_length) == 0)
      return found;
  return (setting){like->name, NULL, like->name_length, 0};
}

static bool is_named(const setting *s, const char *name) {
  return (size_t)s->name_length == strlen(name) && memcmp(s->name, name, (size_t)s->name_length) == 0;
}

/* --- the data ------------------------------------------------------------------------------------------------------
 */
static void add_channels(braid_text *out, const char *name, const float *values, int count) {
  char text[100] = "none";
  for (int i = 0, used = 0; i < count; i++)
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%.9g", i ? "/" : "", (double)values[i]);
  add_text(out, name, text);
}

static void add_augmentation(const braid_spec *spec, braid_text *out) {
  const struct {
    const char *name;
    bool used;
  } parts[] = {{"crop", spec->crop},     {"resized-crop", spec->resized_crop},
               {"flip", spec->flip},     {"alternating-flip", spec->alternating_flip},
               {"colour", spec->colour}, {"cutout", spec->cutout}};
  const char *between = "augmentation: ";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!parts[i].used) continue;
    braid_text_printf(out, "%s%s", between, parts[i].name);
    between = "+";
  }
  braid_text_printf(out, "%s\n", between[0] == '+' ? "" : "augmentation: none");
  if (spec->crop) add_integer(out, "pad", spec->pad);
  if (spec->crop && spec->reflect) add_text(out, "border", "reflect");
  if (spec->resized_crop) add_channels(out, "area of a crop", spec->area, 2);
  if (spec->colour) add_channels(out, "jitter of colours", spec->jitter, spec->jitter[3] > 0 ? 4 : 3);
  if (spec->cutout) add_integer(out, "side of a hole", spec->hole);
}

braid_status braid_settings_write_data(const braid_dataset *data, braid_text *out) {
  braid_dataset_info info = braid_dataset_get_info(data);
  const braid_spec *spec = braid_dataset_spec(data);
  uint32_t names = 0, stored;
  for (int i = 0; i < info.classes; i++) names = sum_text(names, info.class_names[i]);
  BRAID_TRY(braid_dataset_sum(data, &stored));
  add_integer(out, "number of samples", info.samples);
  add_integer(out, "number of classes", info.classes);
  if (info.target != BRAID_TARGET_CLASS)
    add_text(out, "targets", info.target == BRAID_TARGET_LABELS ? "labels" : "numbers");
  braid_text_printf(out, "size of a sample: %dx%dx%d\n", info.channels, info.height, info.width);
  add_text(out, "order of channels", spec->bgr ? "bgr" : "rgb");
  add_number(out, "scale", spec->scale);
  add_channels(out, "mean", spec->mean, spec->means);
  add_channels(out, "std", spec->std, spec->stds);
  add_augmentation(spec, out);
  add_sum(out, "names of the classes", names);
  add_sum(out, "checksum of the data set", stored);
  return BRAID_OK;
}

static braid_status add_data(const braid_dataset *data, braid_text *out) {
  add_text(out, kSpec, braid_dataset_get_info(data).spec);
  return braid_settings_write_data(data, out);
}

/* --- the optimizer -------------------------------------------------------------------------------------------------
 */
static void add_optimizer(const braid_train_options *o, braid_text *out) {
  static const char *const kOptimizers[] = {"sgd", "adam", "adamw", "wage"};
  add_text(out, "optimizer", kOptimizers[o->optimizer]);
  add_number(out, kRate, o->learning_rate);
  if (o->optimizer == BRAID_SGD) {
    add_number(out, "momentum", o->momentum);
    add_text(out, "Nesterov's momentum", o->nesterov ? "yes" : "no");
  } else if (o->optimizer != BRAID_WAGE) {
    add_number(out, "beta1", o->beta1);
    add_number(out, "beta2", o->beta2);
    add_number(out, "epsilon", o->epsilon);
  }
  add_number(out, "weight decay", o->weight_decay);
  if (o->no_bias_decay) add_text(out, "weight decay of biases", "no");
}

/* What a run does without is left out, so that checkpoints from before it was there can be resumed. */
static void add_update(const braid_train_options *o, braid_text *out) {
  for (size_t i = 0; i < o->group_count; i++) {
    char name[48];
    snprintf(name, sizeof name, "group %zu", i + 1);
    add_text(out, name, o->groups[i].pattern);
    snprintf(name, sizeof name, "rate of group %zu", i + 1);
    add_number(out, name, o->groups[i].rate);
    snprintf(name, sizeof name, "weight decay of group %zu", i + 1);
    if (!isnan(o->groups[i].weight_decay)) add_number(out, name, o->groups[i].weight_decay);
  }
  if (o->accumulate > 1) add_integer(out, "batches per step", o->accumulate);
  if (o->clip_value > 0) add_number(out, "limit of a gradient's elements", o->clip_value);
  if (o->clip_norm > 0) add_number(out, "limit of the gradients' norm", o->clip_norm);
  if (o->average_decay > 0) add_number(out, "decay of the average", o->average_decay);
  if (!o->lookahead_steps) return;
  add_integer(out, "steps of a lookahead", o->lookahead_steps);
  add_number(out, "share of a lookahead", o->lookahead_share);
  add_number(out, "share of a lookahead at the end", o->lookahead_end);
}

static void add_weights(const char *what, const double *weights, size_t count, braid_text *out) {
  for (size_t i = 0; weights && i < count; i++) {
    char name[48];
    snprintf(name, sizeof name, "%s %zu", what, i);
    add_number(out, name, weights[i]);
  }
}

static void add_schedule(const braid_train_options *o, braid_text *out) {
  static const char *const kSchedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", "linear"};
  add_text(out, "schedule", o->optimizer == BRAID_WAGE ? "wage" : kSchedules[o->schedule]);
  if (o->schedule == BRAID_STEP) {
    add_integer(out, "epochs between drops", o->step_epochs);
    add_number(out, "factor of a drop", o->step_gamma);
  }
  if (o->schedule == BRAID_PLATEAU) {
    add_integer(out, "epochs of a plateau", o->plateau_epochs);
    add_number(out, "factor of a drop", o->step_gamma);
  }
  add_integer(out, "warm-up steps", o->warmup_steps);
}

/* What a run goes by, it may not find changed: of the test set all but its path. */
static braid_status add_test_data(const braid_trainer *trainer, braid_text *out) {
  if (!trainer->test) return BRAID_OK;
  braid_text lines;
  braid_text_init(&lines, trainer->allocator);
  braid_status status = add_data(trainer->test, &lines);
  const char *at = lines.data;
  for (setting s; status == BRAID_OK && !lines.failed && next_setting(&at, &s);)
    if (!is_named(&s, kSpec))
      braid_text_printf(out, "%s%.*s: %.*s\n", kTest, s.name_length, s.name, s.value_length, s.value);
  if (lines.failed) status = BRAID_NO_MEMORY;
  braid_text_deinit(&lines);
  const braid_spec *spec = braid_dataset_spec(trainer->test);
  const char *views = spec->view_flipped && spec->view_shifted ? "flip+shift" : spec->view_flipped ? "flip" : "shift";
  if (braid_dataset_get_info(trainer->test).views) braid_text_printf(out, "%sviews: %s\n", kTest, views);
  return status;
}

static braid_status add_monitor(const braid_trainer *trainer, braid_text *out) {
  const braid_train_options *o = &trainer->options;
  if (o->schedule != BRAID_PLATEAU && o->patience < 1 && !o->keep_best) return BRAID_OK;
  add_text(out, kCompared, o->monitor == BRAID_MONITOR_LOSS ? "loss" : "accuracy");
  add_integer(out, kPatience, o->patience);
  if (o->keep_best) add_text(out, kKept, "kept"); /* begun later, there is none until an epoch is better */
  return add_test_data(trainer, out);
}

/* As the model names it, whether it was asked for by name or not. */
static const char *loss_name(const braid_trainer *trainer) {
  const char *name = trainer->options.loss_output;
  return name ? name : trainer->model->values[trainer->model->outputs[0]].name;
}

void braid_settings_write_model(const braid_trainer *trainer, braid_text *out) {
  add_integer(out, "nodes of the model", (int64_t)trainer->model->node_count);
  add_sum(out, "structure of the model", sum_model(trainer));
}

braid_status braid_settings_write(const braid_trainer *trainer, braid_text *out) {
  const braid_train_options *o = &trainer->options;
  BRAID_TRY(add_data(trainer->train, out));
  add_integer(out, "batch", o->batch);
  add_integer(out, kEpochs, o->epochs);
  if (o->steps) add_integer(out, "number of steps", o->steps);
  braid_text_printf(out, "seed: %" PRIu64 "\n", o->seed);
  add_text(out, "loss", braid_loss_name(o->loss));
  if (o->loss == BRAID_OUTPUT_LOSS) add_text(out, "output that is the loss", loss_name(trainer));
  if (o->loss == BRAID_HUBER) add_number(out, "delta", o->huber_delta);
  if (o->loss == BRAID_CROSS_ENTROPY) add_number(out, "label smoothing", o->label_smoothing);
  add_weights("weight of class", o->class_weights, o->class_weight_count, out);
  add_weights("positive weight of class", o->positive_weights, o->positive_weight_count, out);
  if (o->mixup > 0) add_number(out, "mixup", o->mixup);
  if (o->label_noise > 0) add_number(out, "label noise", o->label_noise);
  if (o->precision != BRAID_INT8 && o->precision != BRAID_FLOAT32)
    add_text(out, "precision", braid_precision_name(o->precision));
  if (o->precision == BRAID_INT8)
    braid_text_printf(out,
                      "contract: integer training %d\nbits of weights, activations, gradients, errors: %d/%d/%d/%d\n",
                      BRAID_INTEGER_CONTRACT, o->weight_bits, o->activation_bits, o->gradient_bits, o->error_bits);
  add_optimizer(o, out);
  add_update(o, out);
  add_schedule(o, out);
  BRAID_TRY(add_monitor(trainer, out));
  braid_settings_write_model(trainer, out);
  return out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* --- comparing -----------------------------------------------------------------------------------------------------
 */
static bool may_differ(const setting *s) {
  for (size_t i = 0; i < sizeof kMayDiffer / sizeof *kMayDiffer; i++)
    if (is_named(s, kMayDiffer[i])) return true;
  return false;
}

typedef struct differences {
  char shown[900];
  size_t used;
  int count;         /* those that tell something about the refusal */
  int refused;       /* those that may not be */
  bool one_compares; /* epochs, of both runs; its line comes before those of the test set */
} differences;

static void show_difference(differences *d, const char *format, ...) BRAID_PRINTF(2, 3);
static void show_difference(differences *d, const char *format, ...) {
  if (d->count++ >= kMostShown) return;
  va_list values;
  va_start(values, format);
  size_t room = sizeof d->shown - d->used;
  int start = snprintf(d->shown + d->used, room, "%s", d->used ? "; " : "");
  d->used += (size_t)start < room ? (size_t)start : room - 1;
  room = sizeof d->shown - d->used;
  int length = vsnprintf(d->shown + d->used, room, format, values);
  d->used += (size_t)length < room ? (size_t)length : room - 1;
  va_end(values);
}

/* Where one of both runs compares epochs, this is told, and not each of the lines that it has more. */
static bool show_monitor(differences *d, const setting *was, const setting *is) {
  bool compared = is_named(was, kCompared);
  if (compared && !was->value)
    show_difference(d, "it compared no epochs, which --patience, --best and --schedule plateau do from a run's start");
  else if (compared && !is->value)
    show_difference(d, "it compared epochs, for --patience, --best or --schedule plateau, none of which is given");
  d->one_compares |= compared && (!was->value || !is->value);
  return d->one_compares && (compared || is_named(was, kKept) || strncmp(was->name, kTest, strlen(kTest)) == 0);
}

static void add_difference(differences *d, const setting *was, const setting *is) {
  d->refused += !may_differ(was);
  if ((may_differ(was) && !is_named(was, kSpec)) || show_monitor(d, was, is)) return;
  setting a = was->value ? *was : (setting){.value = "not set", .value_length = 7};
  setting b = is->value ? *is : (setting){.value = "not set", .value_length = 7};
  int most = 100;
  show_difference(d, "%.*s was %.*s, is %.*s", was->name_length, was->name,
                  a.value_length < most ? a.value_length : most, a.value, b.value_length < most ? b.value_length : most,
                  b.value);
}

static bool differs(const setting *was, const setting *is) {
  return !was->value || !is->value || was->value_length != is->value_length ||
         memcmp(was->value, is->value, (size_t)is->value_length) != 0;
}

static void log_differences(const braid_log *log, const char *before, const char *now) {
  for (setting is; next_setting(&now, &is);) {
    setting was = find_setting(before, &is);
    if (differs(&was, &is))
      braid_log_write(log, BRAID_LOG_WARNING, "resuming with another %.*s: %.*s, it was %.*s", is.name_length, is.name,
                      is.value_length, is.value, was.value ? was.value_length : 7, was.value ? was.value : "not set");
  }
}

braid_status braid_settings_compare(const braid_log *log, const char *before, const char *now) {
  differences d = {.count = 0};
  const char *at = now;
  for (setting is; next_setting(&at, &is);) {
    setting was = find_setting(before, &is);
    if (differs(&was, &is)) add_difference(&d, &was, &is);
  }
  at = before;
  for (setting was; next_setting(&at, &was);) {
    setting is = find_setting(now, &was);
    if (!is.value) add_difference(&d, &was, &is);
  }
  if (!d.refused) {
    log_differences(log, before, now);
    return BRAID_OK;
  }
  char more[40] = "";
  if (d.count > kMostShown) snprintf(more, sizeof more, "; and %d more", d.count - kMostShown);
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the checkpoint is of another run: %s%s; resume with what it was, or give another output directory",
                    d.shown, more);
}
