/* One step of a trainer: its batches, what they count, and the ledger's line. */
#include <math.h>
#include <stdio.h>

#include "base/try.h"
#include "train/checkpoint/aside.h"
#include "train/data/dataset.h"
#include "train/diagnose.h"
#include "train/integer/network.h"
#include "train/ledger/recorder.h"
#include "train/ledger/writer.h"
#include "train/parallel/peers.h"
#include "train/schedule.h"
#include "train/trainer.h"

static int64_t count_classes(const float *scores, const int32_t *labels, int64_t batch, int classes) {
  int64_t correct = 0;
  for (int64_t i = 0; i < batch; i++) {
    int guess = 0;
    for (int c = 1; c < classes; c++)
      if (scores[i * classes + c] > scores[i * classes + guess]) guess = c;
    correct += guess == labels[i];
  }
  return correct;
}

static int64_t count_labels(const float *scores, const float *targets, int64_t count) {
  int64_t correct = 0;
  for (int64_t i = 0; i < count; i++) correct += (scores[i] > 0) == (targets[i] >= 0.5f);
  return correct;
}

/* What is right of a batch, and how many could be: samples, or decisions about labels; numbers have neither. */
static void count_batch(braid_trainer *trainer, const braid_batch *batch) {
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  if (trainer->options.loss == BRAID_OUTPUT_LOSS) return; /* there are no scores */
  const void *targets = batch->mix < 0.5f ? batch->mixed_targets : batch->targets;
  int64_t samples = trainer->slice.count, labels = samples * info.classes;
  if (info.target == BRAID_TARGET_CLASS) {
    trainer->step_correct += count_classes(trainer->scores, targets, samples, info.classes);
    trainer->step_seen += samples;
  } else if (info.target == BRAID_TARGET_LABELS) {
    trainer->step_correct += count_labels(trainer->scores, targets, labels);
    trainer->step_seen += labels;
  }
}

static int64_t sample_count(const braid_trainer *trainer) {
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  return (int64_t)info.channels * info.height * info.width;
}

/* In integers: one would stand for what is no number. */
static braid_status check_samples(braid_trainer *trainer, const braid_batch *batch) {
  if (!trainer->integers || braid_dataset_is_finite(trainer->train)) return BRAID_OK;
  bool finite = braid_all_finite(batch->images, trainer->slice.count * sample_count(trainer));
  return finite ? BRAID_OK : braid_trainer_diagnose(trainer, batch);
}

/* What an epoch has beyond whole steps is passed over. Training stops between steps, not between the parts of one. */
static braid_status fetch_batch(braid_trainer *trainer, bool begins) {
  do BRAID_TRY(braid_loader_next(trainer->loader, &trainer->batch));
  while (trainer->batch.epoch != trainer->epoch);
  if (begins && trainer->stopping) return braid_fail(BRAID_CANCELLED, "told to stop");
  return check_samples(trainer, &trainer->batch);
}

/* Data that cannot be read end the run; what was trained before is kept. Of several processes the data of one end that
 * of all, and so does one that was told to stop. */
static braid_status next_batch(braid_trainer *trainer, bool begins) {
  bool told = trainer->fetched;
  trainer->fetched = false;
  braid_status status = braid_peers_begin_step(trainer, told, told ? BRAID_OK : fetch_batch(trainer, begins));
  if (status == BRAID_OK || status == BRAID_CANCELLED || !trainer->output) return status;
  char detail[1024];
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  trainer->ending = true;
  braid_aside_end(trainer);
  bool kept = braid_trainer_check_finite(trainer) == BRAID_OK && braid_trainer_save(trainer) == BRAID_OK;
  if (!kept) return braid_fail(status, "%.800s; and no checkpoint could be written", detail);
  return braid_fail(status, "%.800s; a checkpoint of what was trained before is in %s", detail,
                    trainer->options.out_directory);
}

/* A step of integers, of one batch, as a line of the ledger. */
static braid_status record_step(braid_trainer *trainer, const braid_batch *batch, const braid_step_numbers *numbers,
                                float loss) {
  const char *line;
  BRAID_TRY(braid_recorder_step(trainer->recorder, batch, numbers, loss, &line));
  return trainer->ledger ? braid_ledger_writer_add(trainer->ledger, line) : BRAID_OK;
}

/* The loss of all processes is not finite: the first that finds a reason among its samples says it. */
static braid_status explain_loss(braid_trainer *trainer, const braid_batch *batch) {
  BRAID_TRY(braid_peers_status(trainer, braid_trainer_diagnose(trainer, batch)));
  return braid_trainer_blame_loss(trainer);
}

/* Part `part` of the step: one batch. */
static braid_status run_part(braid_trainer *trainer, int64_t part, double rate) {
  const braid_train_options *o = &trainer->options;
  const braid_batch *batch = &trainer->batch;
  if (trainer->integers && !braid_integer_rate_is_valid(o->optimizer, rate))
    return braid_fail(BRAID_INVALID_ARGUMENT, "in integers a learning rate is a power of two from 2^%d to 2^8, not %g",
                      o->optimizer == BRAID_WAGE ? -8 : -16, rate);
  BRAID_TRY(next_batch(trainer, part == 0));
  int64_t update = braid_trainer_steps_done(trainer) + 1, total = braid_trainer_total_steps(trainer);
  bool last = part + 1 == o->accumulate;
  braid_step_numbers *numbers = &trainer->room->numbers;
  *numbers = (braid_step_numbers){.rate = (float)rate,
                                  .rate_exponent = ilogb(rate),
                                  .batch = (update - 1) * o->accumulate + part + 1,
                                  .update = update,
                                  .kept = part > 0,
                                  .last = last,
                                  .mix = batch->mix,
                                  .mixed_targets = batch->mixed_targets,
                                  .average = last ? (float)braid_kept_weight(o, update, total) : 0};
  const void *inputs[BRAID_STEP_MOST_INPUTS] = {batch->images, batch->targets};
  braid_step_bind(o, numbers, inputs);
  void *outputs[BRAID_STEP_OUTPUTS] = {&trainer->room->loss, trainer->scores};
  if (trainer->recorder) outputs[2] = braid_recorder_digests(trainer->recorder);
  BRAID_TRY(braid_session_run(trainer->session, inputs, outputs));
  float loss = trainer->room->loss;
  if (!isfinite(loss)) return explain_loss(trainer, batch);
  if (trainer->recorder) BRAID_TRY(record_step(trainer, batch, numbers, loss));
  trainer->step_loss += (double)loss / (double)o->accumulate;
  count_batch(trainer, batch);
  return BRAID_OK;
}

/* The next batch within the epoch is fetched before processes say what they have counted, so that both are one message.
 */
static braid_status look_ahead(braid_trainer *trainer) {
  if (!trainer->slice.group) return BRAID_OK;
  trainer->fetched = trainer->epoch_step < braid_trainer_epoch_steps(trainer);
  return braid_peers_end_step(trainer, trainer->fetched ? fetch_batch(trainer, true) : BRAID_OK);
}

braid_status braid_trainer_run_step(braid_trainer *trainer, double rate) {
  trainer->step_loss = 0;
  trainer->step_correct = trainer->step_seen = 0;
  for (int64_t part = 0; part < trainer->options.accumulate; part++) BRAID_TRY(run_part(trainer, part, rate));
  trainer->epoch_step++;
  BRAID_TRY(look_ahead(trainer));
  trainer->loss_sum += trainer->step_loss;
  trainer->correct += trainer->step_correct;
  trainer->seen += trainer->step_seen;
  return BRAID_OK;
}

braid_status braid_trainer_step(braid_trainer *trainer, double rate, double *loss) {
  if (trainer->epoch_step == trainer->steps) {
    trainer->epoch++;
    trainer->epoch_step = 0;
  }
  BRAID_TRY(braid_trainer_run_step(trainer, rate));
  *loss = trainer->step_loss;
  return BRAID_OK;
}
