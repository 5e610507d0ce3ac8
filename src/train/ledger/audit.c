/* Steps of a ledger, computed again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "train/integer/network.h"
#include "train/ledger/file.h"
#include "train/ledger/header.h"
#include "train/ledger/recorder.h"
#include "train/schedule.h"
#include "train/trainer.h"

typedef struct audit {
  braid_ledger *ledger;
  braid_trainer *trainer;
  const braid_audit_options *options;
  int64_t first, last;
  braid_audit_result *result;
} audit;

/* --- what differs --------------------------------------------------------------------------------------------------
 */
static void name_difference(audit *a, const braid_ledger_line *line, const char *layer, const char *operation) {
  braid_audit_result *r = a->result;
  r->agrees = r->steps_agree = false;
  r->step = line->step;
  r->line = line->number;
  snprintf(r->layer, sizeof r->layer, "%s", layer);
  snprintf(r->operation, sizeof r->operation, "%s", operation);
}

static bool is_named(const braid_integer_network *net, braid_value_id id, const char *name) {
  return id >= 0 && strcmp(net->graph->values[id].name, name) == 0;
}

/* The node that computes the next contents of a parameter or state; NULL: it is frozen. */
static const braid_node *update_of(const braid_graph *step, const braid_value *value) {
  return value->next >= 0 ? &step->nodes[step->values[value->next].producer] : NULL;
}

/* The layer that a parameter or statistic belongs to. */
static const char *layer_of(const braid_integer_network *net, const char *name) {
  for (size_t i = 0; i < net->layer_count; i++) {
    const braid_integer_layer *l = &net->layers[i];
    if (is_named(net, l->weight, name)) return net->graph->nodes[l->node].name;
    if (is_named(net, l->gamma, name) || is_named(net, l->beta, name) || is_named(net, l->mean, name) ||
        is_named(net, l->variance, name))
      return net->graph->nodes[l->norm_node].name;
  }
  return "";
}

/* Parameter or state `index` of those that the ledger hashes. */
static const braid_value *kept_value(const audit *a, size_t index) {
  const braid_graph *step = a->trainer->step;
  for (size_t i = 0; i < step->value_count; i++)
    if (braid_ledger_hashes(a->trainer, &step->values[i]) && index-- == 0) return &step->values[i];
  return NULL;
}

static void tell_parameter(audit *a, const braid_ledger_line *line, const braid_ledger_parts *was,
                           const braid_ledger_parts *now, bool computed, const char *where) {
  braid_audit_result *r = a->result;
  size_t count = a->ledger->parameters, at = braid_ledger_other_number(was->parameters, now->parameters, count),
         others = 0;
  const braid_value *value = at < count ? kept_value(a, at) : NULL;
  if (!value) {
    name_difference(a, line, "", "state");
    snprintf(r->what, sizeof r->what,
             "the hash of all parameters %s differs, though the first digits of each agree: the line was made up",
             where);
    return;
  }
  const braid_node *update = update_of(a->trainer->step, value);
  bool statistic = update && strcmp(update->op->name, "IntegerBatchNormalization") == 0;
  name_difference(a, line, layer_of(a->trainer->integers, value->name),
                  computed && update ? update->op->name : "parameters");
  for (size_t i = at + 1; i < count; i++)
    others += braid_ledger_other_number(was->parameters + i * BRAID_LEDGER_NUMBER,
                                        now->parameters + i * BRAID_LEDGER_NUMBER, 1) == 0;
  char more[64] = "";
  if (others) snprintf(more, sizeof more, ", and %zu more parameters do", others);
  snprintf(r->what, sizeof r->what, "%s %.100s %s differs%s%s", statistic ? "statistic" : "parameter", value->name,
           where, more,
           !computed || statistic ? ""
           : update               ? "; all results before the update agree (of the gradient's sums their magnitude)"
                                  : "; it is frozen, so that no step changes it");
}

static void tell_value(audit *a, const braid_ledger_line *line, size_t index) {
  braid_audit_result *r = a->result;
  const braid_integer_digest *d = &a->trainer->digests.items[index];
  name_difference(a, line, d->layer, d->op);
  bool samples = strcmp(d->op, "IntegerInput") == 0,
       rounds = strcmp(d->op, "IntegerScaleError") == 0 || strcmp(d->op, "IntegerMomentum") == 0;
  if (samples)
    snprintf(r->what, sizeof r->what,
             "the step's samples hold other numbers, though the same samples were drawn: the data differ, or their "
             "augmentation");
  else
    snprintf(r->what, sizeof r->what, "result %zu of %s in layer %.100s differs; all results before it agree%s",
             d->output, d->op, d->layer,
             rounds ? " (of the sums that it rounds their magnitude, so these may differ, too)" : "");
}

static bool same_token(const char *a, size_t a_length, const char *b, size_t b_length) {
  return a_length == b_length && memcmp(a, b, a_length) == 0;
}

/* In the order in which a step computes. */
static void tell_step(audit *a, const braid_ledger_line *line, const braid_ledger_parts *was,
                      const braid_ledger_parts *now) {
  char *what = a->result->what;
  size_t room = sizeof a->result->what, value = braid_ledger_other_number(was->values, now->values, a->ledger->values);
  if (memcmp(was->order, now->order, BRAID_LEDGER_ORDER) != 0) {
    name_difference(a, line, "samples", "order");
    snprintf(what, room, "other samples were drawn, or in another order");
  } else if (memcmp(was->labels, now->labels, BRAID_LEDGER_ORDER) != 0) {
    name_difference(a, line, "samples", "labels");
    snprintf(what, room, "the same samples were drawn, and their classes differ");
  } else if (!same_token(was->rate, was->rate_length, now->rate, now->rate_length)) {
    name_difference(a, line, "", "rate");
    snprintf(what, room, "the learning rate was %.*s; by the schedule it is %.*s", (int)was->rate_length, was->rate,
             (int)now->rate_length, now->rate);
  } else if (value < a->ledger->values) {
    tell_value(a, line, value);
  } else if (!same_token(was->loss, was->loss_length, now->loss, now->loss_length)) {
    name_difference(a, line, "loss", "Mul");
    snprintf(what, room, "the loss is %.*s in the ledger, and %.*s computed again; its integer agrees",
             was->loss_length < 40 ? (int)was->loss_length : 40, was->loss, (int)now->loss_length, now->loss);
  } else {
    tell_parameter(a, line, was, now, true, "after the step");
  }
}

static braid_status split_both(const audit *a, const char *was, const char *now, braid_ledger_parts parts[2]) {
  int64_t step;
  const braid_ledger *l = a->ledger;
  if (braid_ledger_split(was, l->values, l->parameters, &step, &parts[0]) &&
      braid_ledger_split(now, l->values, l->parameters, &step, &parts[1]))
    return BRAID_OK;
  return braid_fail(BRAID_INTERNAL, "a line of the audit is none of a ledger");
}

/* --- where it begins -----------------------------------------------------------------------------------------------
 */
static braid_status restore(audit *a) {
  const braid_audit_options *o = a->options;
  braid_checkpoint_file *file = NULL;
  int64_t step = 0;
  if (!o->checkpoints) return BRAID_OK;
  braid_status status = braid_checkpoint_newest(a->trainer->allocator, a->trainer->log, o->checkpoints,
                                                a->first > 0 ? a->first - 1 : 0, &step, &file);
  if (status != BRAID_OK && status != BRAID_INVALID_FILE) return status;
  if (!file) {
    braid_log_write(a->trainer->log, status == BRAID_OK ? BRAID_LOG_INFO : BRAID_LOG_WARNING,
                    "%s%s holds no checkpoint before step %" PRId64 ": the audit begins at the start of training",
                    status == BRAID_OK ? "" : braid_error_detail(),
                    status == BRAID_OK ? o->checkpoints : "; the folder", a->first);
    return BRAID_OK;
  }
  status = braid_trainer_restore(a->trainer, file);
  braid_checkpoint_close(file);
  if (status != BRAID_OK) return braid_fail_prefix(status, "%s: the checkpoint of step %" PRId64, o->checkpoints, step);
  if (braid_trainer_steps_done(a->trainer) != step)
    return braid_fail(BRAID_INVALID_FILE, "%s: the checkpoint named for step %" PRId64 " is of step %" PRId64,
                      o->checkpoints, step, braid_trainer_steps_done(a->trainer));
  a->result->from = step;
  return braid_trainer_seek(a->trainer);
}

static braid_status check_parameters(audit *a, const braid_ledger_line *line) {
  const char *state;
  braid_ledger_parts parts[2];
  char where[64] = "that training begins with";
  BRAID_TRY(braid_recorder_state(a->trainer->recorder, &state));
  size_t length = strlen(line->text), tail = strlen(state);
  if (length >= tail && strcmp(line->text + length - tail, state) == 0) return BRAID_OK;
  braid_text now;
  braid_text_init(&now, a->trainer->allocator);
  braid_text_printf(&now, "%.*s%s", (int)(length - tail), line->text, state);
  braid_status status = now.failed ? BRAID_NO_MEMORY : split_both(a, line->text, now.data, parts);
  if (a->result->from) snprintf(where, sizeof where, "of the checkpoint of step %" PRId64, a->result->from);
  if (status == BRAID_OK) tell_parameter(a, line, &parts[0], &parts[1], false, where);
  braid_text_deinit(&now);
  return status;
}

/* Those of a checkpoint are the ones that the step before it left. */
static braid_status check_momentums(audit *a, const braid_ledger_line *line) {
  const char *momentums;
  braid_ledger_parts parts;
  int64_t step;
  size_t count = a->ledger->values;
  if (!a->result->from || !braid_ledger_split(line->text, count, a->ledger->parameters, &step, &parts)) return BRAID_OK;
  BRAID_TRY(braid_recorder_momentums(a->trainer->recorder, &momentums));
  size_t at = braid_ledger_other_number(parts.values, momentums, count);
  if (at == count) return BRAID_OK;
  name_difference(a, line, a->trainer->digests.items[at].layer, "momentum");
  snprintf(a->result->what, sizeof a->result->what,
           "a momentum of the checkpoint of step %" PRId64 " is another than that the step left", a->result->from);
  return BRAID_OK;
}

/* The state that the audit begins with is that of the ledger. */
static braid_status check_beginning(audit *a) {
  const braid_ledger_line *line = &a->ledger->lines[a->result->from];
  BRAID_TRY(check_parameters(a, line));
  return a->result->steps_agree ? check_momentums(a, line) : BRAID_OK;
}

/* --- the steps -----------------------------------------------------------------------------------------------------
 */
static braid_status check_step(audit *a, const braid_ledger_line *line) {
  braid_trainer *t = a->trainer;
  braid_ledger_parts parts[2];
  double loss;
  double rate = braid_learning_rate(&t->options, &t->record, braid_trainer_steps_done(t), t->steps);
  braid_status status = braid_trainer_step(t, rate, &loss);
  if (status != BRAID_OK) return braid_fail_prefix(status, "step %" PRId64, line->step);
  const char *now = braid_recorder_line(t->recorder);
  if (strcmp(now, line->text) == 0) return BRAID_OK;
  BRAID_TRY(split_both(a, line->text, now, parts));
  tell_step(a, line, &parts[0], &parts[1]);
  return BRAID_OK;
}

static braid_status check_range(audit *a) {
  int64_t steps = (int64_t)a->ledger->line_count - 1;
  a->first = a->options->first ? a->options->first : 1;
  a->last = a->options->last ? a->options->last : steps;
  bool given = a->options->first || a->options->last;
  if (a->first >= 1 && a->first <= a->last && a->last <= steps) return BRAID_OK;
  if (!given && steps == 0) return BRAID_OK;
  char range[64] = "";
  if (a->options->last && a->first != a->last) snprintf(range, sizeof range, " to %" PRId64, a->last);
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s: has steps 1 to %" PRId64 ", not %" PRId64 "%s", a->ledger->path, steps,
                    a->first, range);
}

static braid_status audit_steps(audit *a, braid_audit_callback *callback, void *context) {
  braid_audit_result *r = a->result;
  BRAID_TRY(braid_ledger_compare_head(a->ledger, a->trainer, r->other_data, sizeof r->other_data));
  r->agrees = !r->other_data[0];
  if (a->ledger->values != a->trainer->digests.count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: is of another network", a->ledger->path);
  int64_t whole = a->trainer->options.epochs * a->trainer->steps;
  if ((int64_t)a->ledger->line_count - 1 > whole)
    return braid_fail(BRAID_INVALID_FILE, "%s: line %zu: is of step %" PRId64 " of a run of %" PRId64, a->ledger->path,
                      a->ledger->lines[whole + 1].number, whole + 1, whole);
  BRAID_TRY(restore(a));
  BRAID_TRY(check_beginning(a));
  for (int64_t step = r->from + 1; r->steps_agree && step <= a->last; step++) {
    BRAID_TRY(check_step(a, &a->ledger->lines[step]));
    r->checked++;
    if (callback && !callback(context, step - r->from, a->last - r->from))
      return braid_fail(BRAID_CANCELLED, "stopped after step %" PRId64 " of %" PRId64, step, a->last);
  }
  return BRAID_OK;
}

braid_status braid_audit(braid_ledger *ledger, const braid_graph *model, braid_dataset *data,
                         const braid_audit_options *options, braid_audit_callback *callback, void *context,
                         braid_audit_result *result) {
  static const braid_audit_options kDefaults = {.devices = NULL};
  *result = (braid_audit_result){.agrees = true, .steps_agree = true};
  audit a = {.ledger = ledger, .options = options ? options : &kDefaults, .result = result};
  braid_train_options training;
  BRAID_TRY(check_range(&a));
  BRAID_TRY(braid_ledger_options(ledger, &training));
  training.devices = a.options->devices;
  training.place = a.options->place;
  training.threads = a.options->threads;
  training.registry = a.options->registry;
  training.trace = a.options->trace;
  BRAID_TRY(braid_trainer_make(model, data, NULL, &training, true, &a.trainer));
  braid_status status = audit_steps(&a, callback, context);
  braid_trainer_destroy(a.trainer);
  return status;
}
