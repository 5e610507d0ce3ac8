#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "braid/group.h"
#include "braid/model.h"
#include "graph/trainable.h"
#include "model/model.h"
#include "runtime/surface/session.h"
#include "train/checkpoint/aside.h"
#include "train/checkpoint/settings.h"
#include "train/data/dataset.h"
#include "train/diagnose.h"
#include "train/integer/network.h"
#include "train/integer/run.h"
#include "train/ledger/header.h"
#include "train/ledger/recorder.h"
#include "train/ledger/writer.h"
#include "train/loss.h"
#include "train/monitor.h"
#include "train/options.h"
#include "train/own_loss.h"
#include "train/parallel/peers.h"
#include "train/report/report.h"
#include "train/schedule.h"
#include "train/update.h"

/* --- creation ------------------------------------------------------------------------------------------------------
 */
braid_session_options braid_trainer_place(const braid_trainer *trainer) {
  const braid_train_options *o = &trainer->options;
  return (braid_session_options){.devices = o->devices,
                                 .place = o->place,
                                 .loose_place = true, /* they may name nodes of the backward pass */
                                 .threads = o->threads,
                                 .registry = o->registry};
}

/* What cannot be written is said before the first step. */
static braid_status check_savable(braid_trainer *trainer) {
  braid_status status = braid_onnx_check_save(trainer->model);
  trainer->savable = status == BRAID_OK;
  if (trainer->savable || status == BRAID_NO_MEMORY) return status;
  braid_log_write(trainer->log, BRAID_LOG_WARNING,
                  "the trained model can't be written as ONNX: %s; what is trained stays in the checkpoints in %s",
                  braid_error_detail(), trainer->options.out_directory);
  return BRAID_OK;
}

static braid_status settings_describe(braid_trainer *trainer) {
  braid_text text;
  braid_text_init(&text, trainer->allocator);
  braid_status status = braid_settings_write(trainer, &text);
  if (status == BRAID_OK) {
    trainer->settings = braid_strdup(trainer->allocator, text.data);
    if (!trainer->settings) status = BRAID_NO_MEMORY;
  }
  braid_text_deinit(&text);
  return status;
}

/* A test that can't run is said before the first step. */
static braid_status check_own_test(const braid_trainer *trainer) {
  const braid_train_options *o = &trainer->options;
  if (!trainer->test || o->loss != BRAID_OUTPUT_LOSS) return BRAID_OK;
  braid_dataset_info info = braid_dataset_get_info(trainer->test);
  return braid_own_loss_check(trainer->model, o->loss_output, &info, o->batch);
}

/* Before the session is made, which takes longer. */
static braid_status open_output(braid_trainer *trainer) {
  if (trainer->options.out_directory || trainer->slice.group) BRAID_TRY(settings_describe(trainer));
  if (!trainer->options.out_directory) return BRAID_OK;
  BRAID_TRY(braid_trainer_check_names(trainer));
  BRAID_TRY(check_savable(trainer));
  return braid_output_open(trainer->allocator, trainer->log, trainer->options.out_directory, &trainer->output);
}

static braid_status begin_ledger(braid_trainer *trainer) {
  const braid_train_options *o = &trainer->options;
  braid_ledger_now now = {.done = braid_trainer_steps_done(trainer)};
  if (!trainer->recorded) return BRAID_OK;
  BRAID_TRY(braid_recorder_create(trainer, &trainer->recorder));
  if (!o->ledger) return BRAID_OK;
  braid_text head;
  braid_text_init(&head, trainer->allocator);
  braid_status status = braid_ledger_write_head(trainer, o->ledger_model, &head);
  if (status == BRAID_OK) status = braid_recorder_state(trainer->recorder, &now.state);
  if (status == BRAID_OK) status = braid_recorder_momentums(trainer->recorder, &now.momentums);
  if (status == BRAID_OK)
    status = braid_ledger_writer_open(trainer->allocator, o->ledger, head.data, &now, o->resume, &trainer->ledger);
  braid_text_deinit(&head);
  return status;
}

/* From the newest checkpoint, or from the start: then a checkpoint of the start shows that the folder takes one. */
static braid_status begin_output(braid_trainer *trainer) {
  if (trainer->output && trainer->options.resume) BRAID_TRY(braid_trainer_load(trainer, &trainer->resumed));
  BRAID_TRY(begin_ledger(trainer));
  if (!trainer->output) return braid_trainer_seek(trainer);
  if (!trainer->resumed) BRAID_TRY(braid_output_set_aside(trainer->output));
  BRAID_TRY(braid_trainer_seek(trainer));
  if (!trainer->resumed) BRAID_TRY(braid_trainer_save(trainer));
  return braid_events_open(trainer->allocator, trainer->options.out_directory, braid_trainer_steps_done(trainer),
                           &trainer->events);
}

/* As scikit-learn's "balanced"; labels that a sample has weigh together as much as those it has not. A class without
 * samples has no weight. */
static braid_status balance_classes(braid_trainer *trainer) {
  braid_train_options *o = &trainer->options;
  if (!o->balance_classes) return BRAID_OK;
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  bool labels = info.target == BRAID_TARGET_LABELS;
  size_t classes = (size_t)info.classes;
  double *weights = braid_zalloc_array(trainer->allocator, classes, sizeof *weights);
  *(labels ? &o->positive_weights : &o->class_weights) = weights;
  *(labels ? &o->positive_weight_count : &o->class_weight_count) = classes;
  int64_t *counts = braid_zalloc_array(trainer->allocator, classes, sizeof *counts);
  braid_status status = weights && counts ? braid_dataset_count_classes(trainer->train, counts) : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < classes; i++) {
    double of_class = (double)counts[i], samples = (double)info.samples;
    double weight = labels ? (samples - of_class) / of_class : samples / ((double)classes * of_class);
    weights[i] = counts[i] ? weight : 0;
  }
  braid_free(trainer->allocator, counts);
  return status;
}

static braid_status check_test(const braid_trainer *trainer) {
  if (!trainer->test || braid_dataset_get_info(trainer->test).target == braid_dataset_get_info(trainer->train).target)
    return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "the test set %.200s has targets of another kind than the training set",
                    braid_dataset_get_info(trainer->test).spec);
}

static braid_status trainer_build(braid_trainer *trainer, const braid_graph *model) {
  const braid_train_options *o = &trainer->options;
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  BRAID_TRY(braid_slice_check(o));
  trainer->slice = braid_slice_of(o);
  trainer->steps = info.samples / o->batch / o->accumulate;
  if (trainer->steps < 1 && o->accumulate == 1)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the data set has %lld samples, fewer than a batch of %lld",
                      (long long)info.samples, (long long)o->batch);
  if (trainer->steps < 1)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "the data set has %lld samples, fewer than a step of %lld batches of %lld",
                      (long long)info.samples, (long long)o->accumulate, (long long)o->batch);
  if (o->steps) trainer->options.epochs = (o->steps - 1) / trainer->steps + 1;
  BRAID_TRY(braid_schedule_check(o, o->epochs, braid_trainer_total_steps(trainer)));
  BRAID_TRY(braid_loss_check(o, &info));
  BRAID_TRY(check_test(trainer));
  BRAID_TRY(balance_classes(trainer));
  BRAID_TRY(braid_graph_clone(model, &trainer->model));
  BRAID_TRY(braid_graph_prepare_training(trainer->model));
  if (o->precision != BRAID_INT8 && o->precision != BRAID_FLOAT32)
    BRAID_TRY(braid_graph_set_precision(trainer->model, o->precision));
  BRAID_TRY(o->precision == BRAID_INT8 ? braid_integer_build(trainer)
                                       : braid_step_graph(trainer->model, &info, o, &trainer->step));
  BRAID_TRY(check_own_test(trainer));
  BRAID_TRY(braid_trainer_make_room(trainer));
  BRAID_TRY(open_output(trainer));
  braid_session_options session = braid_trainer_place(trainer);
  session.training = true;
  session.loose_place = false;
  session.trace = o->trace;
  BRAID_TRY(braid_session_create(trainer->step, &session, &trainer->session));
  braid_trainer_pin_all(trainer);
  return BRAID_OK;
}

/* Where processes train together, all others write nothing. */
enum { kAsideBytes = 8 << 20 };

static void trainer_init(braid_trainer *trainer, const braid_allocator *allocator, const braid_train_options *options,
                         int rank) {
  trainer->allocator = allocator;
  trainer->options = *options;
  trainer->digests.allocator = allocator;
  trainer->aside_bytes = kAsideBytes;
  trainer->log = rank ? NULL : braid_registry_get_log(options->registry);
  if (rank) trainer->options.out_directory = trainer->options.ledger = trainer->options.trace = NULL;
}

/* The end of the first epoch does not wait for memory, which takes longer to get and to pin than to copy to. */
static braid_status make_state_copy(braid_trainer *trainer) {
  if (!trainer->slice.group && !braid_aside_suits(trainer)) return BRAID_OK;
  braid_status status = braid_state_copy_take(trainer);
  if (status != BRAID_NO_MEMORY) return status;
  braid_clear_detail();
  return BRAID_OK;
}

/* Once all processes are there. */
static braid_status trainer_begin(braid_trainer *trainer) {
  BRAID_TRY(braid_peers_check(trainer));
  BRAID_TRY(braid_peers_status(trainer, begin_output(trainer)));
  BRAID_TRY(braid_peers_state(trainer));
  return braid_peers_status(trainer, make_state_copy(trainer));
}

braid_status braid_trainer_create(const braid_graph *model, braid_dataset *train, braid_dataset *test,
                                  const braid_train_options *options, braid_trainer **out) {
  return braid_trainer_make(model, train, test, options, options->ledger != NULL, out);
}

braid_status braid_trainer_make(const braid_graph *model, braid_dataset *train, braid_dataset *test,
                                const braid_train_options *options, bool recorded, braid_trainer **out) {
  braid_group *group = braid_registry_get_group(options->registry);
  *out = NULL;
  braid_train_options own = *options;
  if (braid_group_rank(group)) own.resume = own.keep_best = false; /* what process 0 does with its folder */
  braid_status together = braid_peers_devices(group, options->devices);
  braid_status status = braid_train_options_check(&own);
  if (status == BRAID_OK) status = together;
  braid_trainer *trainer = status == BRAID_OK ? braid_zalloc(model->allocator, sizeof *trainer) : NULL;
  if (status == BRAID_OK && !trainer) status = BRAID_NO_MEMORY;
  if (trainer) {
    trainer_init(trainer, model->allocator, options, braid_group_rank(group));
    trainer->recorded = recorded;
    trainer->train = train;
    trainer->test = test;
    status = braid_train_options_own(trainer->allocator, &trainer->options);
    if (status == BRAID_OK) status = trainer_build(trainer, model);
  }
  status = braid_group_agree(group, status);
  if (status == BRAID_OK) status = trainer_begin(trainer);
  if (status == BRAID_OK)
    *out = trainer;
  else
    braid_trainer_destroy(trainer);
  return status;
}

bool braid_trainer_resumed(const braid_trainer *trainer) {
  return trainer->resumed;
}

braid_status braid_trainer_parameters(const braid_trainer *trainer, braid_graph **out) {
  *out = NULL;
  if (trainer->integers) return braid_integer_parameters(trainer, out);
  return braid_trainable_copy_for(trainer->model, &trainer->options, out);
}

void braid_trainer_destroy(braid_trainer *trainer) {
  if (!trainer) return;
  const braid_allocator *allocator = trainer->allocator;
  trainer->ending = true;
  braid_aside_end(trainer);
  braid_trainer_drop_feed(trainer);
  braid_events_close(trainer->events);
  braid_ledger_writer_close(trainer->ledger);
  braid_recorder_destroy(trainer->recorder);
  braid_integer_digests_deinit(&trainer->digests);
  braid_session_destroy(trainer->session);
  braid_state_copy_deinit(trainer);
  braid_free(allocator, trainer->room);
  braid_graph_destroy(trainer->step);
  braid_integer_network_destroy(trainer->integers);
  braid_graph_destroy(trainer->model);
  braid_output_close(trainer->output);
  braid_free(allocator, trainer->settings);
  braid_free(allocator, trainer->record.rows);
  braid_train_options_release(allocator, &trainer->options);
  braid_free(allocator, trainer);
}

static double accuracy_of(int64_t correct, int64_t seen) {
  return seen ? (double)correct / (double)seen : NAN;
}

/* --- the end of an epoch -------------------------------------------------------------------------------------------
 */
/* The caller's callback, while a test runs. */
typedef struct watcher {
  braid_train_callback *callback;
  void *context;
  braid_train_progress progress;
  braid_test_result result; /* of the epoch's test */
} watcher;

static bool on_tested(void *context, int64_t done, int64_t total) {
  watcher *w = context;
  w->progress.tested = done;
  w->progress.to_test = total;
  return w->callback(w->context, &w->progress);
}

static braid_status trainer_evaluate(braid_trainer *trainer, watcher *w, braid_test_result *result) {
  braid_graph *model;
  BRAID_TRY(braid_trainer_model(trainer, &model));
  braid_session_options options = braid_trainer_place(trainer);
  options.machine = trainer->session->plan->machine; /* opening devices again may take longer than the test */
  const braid_train_options *o = &trainer->options;
  braid_test_callback *callback = w->callback ? on_tested : NULL;
  braid_status status =
      o->loss == BRAID_OUTPUT_LOSS
          ? braid_test_loss(model, o->loss_output, trainer->test, o->batch, &options, callback, w, result)
          : braid_test(model, trainer->test, o->batch, &options, callback, w, result);
  braid_graph_destroy(model);
  if (status == BRAID_OK && result->unscored)
    braid_log_write(trainer->log, BRAID_LOG_WARNING,
                    "epoch %lld: scores of %lld of %lld samples of the test, the first of them sample %lld, are NaN",
                    (long long)trainer->epoch + 1, (long long)result->unscored, (long long)result->samples,
                    (long long)result->first_unscored);
  return status;
}

static braid_status log_epoch(braid_trainer *trainer, const braid_test_result *result) {
  static const char *const kTags[BRAID_RECORD_COLUMNS] = {"loss/train",    "accuracy/train", "loss/test",
                                                          "accuracy/test", "learning_rate",  "seconds_per_epoch"};
  const braid_test_result none = {.exact_match = NAN, .mae = NAN, .r2 = NAN}, *r = result ? result : &none;
  const struct {
    const char *tag;
    double value;
  } measured[] = {{"exact_match/test", r->exact_match},
                  {"mean_average_precision/test", r->exact_match >= 0 ? r->average_precision : NAN},
                  {"mean_absolute_error/test", r->mae},
                  {"r2/test", r->r2}};
  const double *row = trainer->record.rows[trainer->record.count - 1];
  int64_t step = braid_trainer_steps_done(trainer);
  for (int i = 0; i < BRAID_RECORD_COLUMNS; i++)
    if (isfinite(row[i])) BRAID_TRY(braid_events_scalar(trainer->events, step, kTags[i], row[i]));
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
    if (isfinite(measured[i].value))
      BRAID_TRY(braid_events_scalar(trainer->events, step, measured[i].tag, measured[i].value));
  return braid_events_flush(trainer->events);
}

/* A point in the event file for one step, at every log_steps-th. */
static braid_status log_step(braid_trainer *trainer, double rate) {
  int64_t every = trainer->options.log_steps, step = braid_trainer_steps_done(trainer);
  if (!trainer->events || every < 1 || step % every != 0) return BRAID_OK;
  BRAID_TRY(braid_events_scalar(trainer->events, step, "loss/step", trainer->step_loss));
  if (trainer->step_seen)
    BRAID_TRY(braid_events_scalar(trainer->events, step, "accuracy/step",
                                  accuracy_of(trainer->step_correct, trainer->step_seen)));
  BRAID_TRY(braid_events_scalar(trainer->events, step, "learning_rate/step", rate));
  return braid_events_flush(trainer->events);
}

static int64_t parameter_count(const braid_trainer *trainer) {
  int64_t count = 0;
  for (size_t i = 0; i < trainer->step->value_count; i++)
    if (trainer->step->values[i].kind == BRAID_VALUE_PARAMETER)
      count += braid_desc_count(&trainer->step->values[i].desc);
  return count;
}

static braid_status write_report(braid_trainer *trainer, const braid_test_result *result) {
  char title[256], path[4096];
  snprintf(title, sizeof title, "Training of %.120s", braid_graph_name(trainer->model));
  snprintf(path, sizeof path, "%s/report.html", trainer->options.out_directory);
  braid_report report = {.title = title,
                         .options = &trainer->options,
                         .record = &trainer->record,
                         .test = trainer->test,
                         .result = result,
                         .parameters = parameter_count(trainer)};
  return braid_report_write(trainer->allocator, path, &report);
}

static braid_status add_row(braid_trainer *trainer, const braid_train_progress *progress) {
  braid_record *record = &trainer->record;
  void *rows = braid_grow(trainer->allocator, record->rows, record->count, &record->capacity, sizeof *record->rows);
  if (!rows) return BRAID_NO_MEMORY;
  record->rows = rows;
  double *row = record->rows[record->count++];
  row[BRAID_RECORD_LOSS] = progress->loss;
  row[BRAID_RECORD_ACCURACY] = progress->accuracy;
  row[BRAID_RECORD_TEST_LOSS] = progress->test_loss;
  row[BRAID_RECORD_TEST_ACCURACY] = progress->test_accuracy;
  row[BRAID_RECORD_RATE] = progress->learning_rate;
  row[BRAID_RECORD_SECONDS] = trainer->epoch_seconds;
  return BRAID_OK;
}

static void show_epoch(braid_trainer *trainer, const braid_test_result *result) {
  if (!trainer->output) return;
  braid_trainer_note_failure(trainer, log_epoch(trainer, result), "its numbers were not written");
  braid_trainer_note_failure(trainer, write_report(trainer, result), "the report was not written");
}

/* After the epoch's row is there. */
static void judge_epoch(braid_trainer *trainer, braid_train_progress *progress) {
  const braid_train_options *o = &trainer->options;
  progress->best_epoch = braid_monitor_best(o, &trainer->record) + 1;
  progress->ends_early = braid_monitor_ends(o, &trainer->record);
  if (!o->keep_best || !trainer->savable || progress->best_epoch != (int64_t)trainer->record.count) return;
  bool looked_at = trainer->looked_at == braid_trainer_steps_done(trainer);
  braid_status status = looked_at ? BRAID_OK : braid_trainer_check_finite(trainer);
  if (status == BRAID_OK) status = braid_trainer_save_model(trainer, "best.onnx");
  braid_trainer_note_failure(trainer, status, "the best model was not written");
}

/* Where all scores are 0 no error is left: no step changes anything then, whatever the samples. */
static void warn_of_same_losses(const braid_trainer *trainer) {
  bool same = trainer->step_loss > 0 && trainer->loss_sum == trainer->step_loss * (double)trainer->epoch_step;
  if (trainer->integers && trainer->epoch_step > 1 && same)
    braid_log_write(trainer->log, BRAID_LOG_WARNING,
                    "every step of epoch %lld had the same loss: in integers all scores are 0, and nothing is learned "
                    "(see \"Where it does not learn\" in docs/integer-training.md)",
                    (long long)trainer->epoch + 1);
}

/* Everything trained is on disk before anything is tested or reported, but for what is written aside, and the epoch is
 * over only when that is done too: a run that is killed in between goes on with the test and the report. */
static braid_status finish_epoch(braid_trainer *trainer, watcher *w) {
  braid_train_progress *progress = &w->progress;
  bool tests = trainer->test && !trainer->slice.rank;
  braid_trainer_keep(trainer, true);
  braid_status tested = tests ? trainer_evaluate(trainer, w, &w->result) : BRAID_UNSUPPORTED;
  BRAID_TRY(braid_peers_status(trainer, tested == BRAID_CANCELLED ? tested : BRAID_OK));
  progress->tested = progress->to_test = 0;
  progress->epoch_done = true;
  progress->test_loss = tested == BRAID_OK ? w->result.loss : NAN;
  progress->test_accuracy = tested == BRAID_OK ? w->result.accuracy : NAN;
  braid_status status = add_row(trainer, progress);
  if (status == BRAID_OK) status = braid_peers_row(trainer);
  if (tests) braid_trainer_note_failure(trainer, tested, "the test failed");
  if (status == BRAID_OK) {
    judge_epoch(trainer, progress);
    warn_of_same_losses(trainer);
    progress->test = tested == BRAID_OK ? &w->result : NULL;
    show_epoch(trainer, progress->test);
    trainer->epoch++;
    trainer->epoch_step = 0;
    trainer->loss_sum = trainer->epoch_seconds = 0;
    trainer->correct = trainer->seen = 0;
    braid_trainer_keep(trainer, false);
  }
  return status;
}

/* --- the loop ------------------------------------------------------------------------------------------------------
 */
static braid_train_progress progress_of(const braid_trainer *trainer, double rate, double seconds, int64_t timed) {
  double per_step = timed > 0 ? seconds / (double)timed : 0;
  int64_t left = braid_trainer_total_steps(trainer) - braid_trainer_steps_done(trainer);
  return (braid_train_progress){
      .epoch = trainer->epoch + 1,
      .epochs = trainer->options.epochs,
      .step = trainer->epoch_step,
      .steps = braid_trainer_epoch_steps(trainer),
      .loss = trainer->loss_sum / (double)trainer->epoch_step,
      .accuracy = accuracy_of(trainer->correct, trainer->seen),
      .learning_rate = rate,
      .images_per_second = per_step > 0 ? (double)(trainer->options.batch * trainer->options.accumulate) / per_step : 0,
      .seconds = seconds,
      .seconds_left = per_step * (double)left,
      .test_loss = NAN,
      .test_accuracy = NAN,
      .best_epoch = braid_monitor_best(&trainer->options, &trainer->record) + 1,
  };
}

/* After the user asked to stop: what was done is kept. */
static braid_status cancelled(braid_trainer *trainer) {
  trainer->ending = true;
  braid_aside_end(trainer);
  BRAID_TRY(braid_trainer_check_finite(trainer));
  if (trainer->output) BRAID_TRY(braid_trainer_save(trainer));
  braid_trainer_write_model(trainer);
  return braid_fail(BRAID_CANCELLED, "stopped after epoch %lld, step %lld%s", (long long)trainer->epoch + 1,
                    (long long)trainer->epoch_step, trainer->options.out_directory ? "; resume goes on from here" : "");
}

static bool is_checkpoint_due(const braid_trainer *trainer) {
  int64_t every = trainer->options.checkpoint_steps;
  return trainer->output && every > 0 && trainer->epoch_step < braid_trainer_epoch_steps(trainer) &&
         braid_trainer_steps_done(trainer) % every == 0;
}

/* Before what is trained is kept: it is finite, and at the end of an epoch the same in all processes. While a thread
 * still writes what was before (of process 0, which has the folder) it is not kept, and nobody reads all of it. */
static braid_status look_at_state(braid_trainer *trainer, bool together) {
  bool looks = !braid_aside_is_busy(trainer);
  if (together) BRAID_TRY(braid_peers_choose(trainer, &looks));
  if (!looks) return BRAID_OK;
  trainer->looked_at = braid_trainer_steps_done(trainer);
  BRAID_TRY(braid_trainer_look(trainer));
  return together ? braid_peers_compare(trainer) : BRAID_OK;
}

static bool is_over(const braid_trainer *trainer) {
  return trainer->epoch >= trainer->options.epochs || braid_monitor_ends(&trainer->options, &trainer->record);
}

braid_status braid_trainer_run(braid_trainer *trainer, braid_train_callback *callback, void *context) {
  double seconds = 0; /* of training alone, for the rate */
  int64_t timed = 0;
  trainer->ending = false;
  /* A run that is over, of which the model may not have been written. */
  if (is_over(trainer) && trainer->output && trainer->savable)
    BRAID_TRY(braid_trainer_save_model(trainer, "model.onnx"));
  while (!is_over(trainer)) {
    /* A run that was stopped between an epoch's last step and its end goes on with the test. */
    bool only_test = trainer->epoch_step == braid_trainer_epoch_steps(trainer);
    int64_t start = braid_now_ns();
    double rate = braid_learning_rate(&trainer->options, &trainer->record,
                                      braid_trainer_steps_done(trainer) - only_test, trainer->steps);
    braid_status ran = only_test ? BRAID_OK : braid_trainer_run_step(trainer, rate);
    if (ran == BRAID_CANCELLED) return cancelled(trainer); /* a process was told to stop after the step before */
    if (ran != BRAID_OK) return ran;
    double took = (double)(braid_now_ns() - start) * 1e-9;
    trainer->step_seconds = only_test ? 0 : took;
    trainer->epoch_seconds += took;
    seconds += took;
    timed += !only_test;
    if (!only_test) braid_trainer_note_failure(trainer, log_step(trainer, rate), "a step's numbers were not written");
    watcher w = {.callback = callback, .context = context, .progress = progress_of(trainer, rate, seconds, timed)};
    braid_status status = BRAID_OK;
    bool ends_epoch = trainer->epoch_step == braid_trainer_epoch_steps(trainer), due = is_checkpoint_due(trainer);
    if (ends_epoch || due) BRAID_TRY(look_at_state(trainer, ends_epoch));
    if (ends_epoch)
      status = finish_epoch(trainer, &w);
    else if (due)
      braid_trainer_keep(trainer, false);
    if (status == BRAID_OK && callback && !callback(context, &w.progress) && !is_over(trainer)) {
      trainer->stopping = trainer->slice.group != NULL;
      if (!trainer->stopping) status = BRAID_CANCELLED;
    }
    braid_test_result_deinit(&w.result);
    if (status == BRAID_CANCELLED) return cancelled(trainer);
    if (status != BRAID_OK) return status;
  }
  if (trainer->slice.group && timed && trainer->looked_at != braid_trainer_steps_done(trainer)) {
    braid_aside_end(trainer);
    BRAID_TRY(look_at_state(trainer, true));
  }
  BRAID_TRY(braid_trainer_keep_all(trainer));
  if (trainer->ledger) BRAID_TRY(braid_ledger_writer_sync(trainer->ledger));
  braid_status status = braid_session_save_trace(trainer->session);
  if (status != BRAID_OK) return status;
  if (trainer->side_failure == BRAID_OK) return BRAID_OK;
  return braid_fail(trainer->side_failure, "trained to the end, but not all went well: %s",
                    trainer->side_failure_detail);
}
