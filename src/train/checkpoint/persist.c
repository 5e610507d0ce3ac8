/* What a trainer keeps on disk, and finding it again. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fnv.h"
#include "base/try.h"
#include "base/vector.h"
#include "braid/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/persist.h"
#include "train/checkpoint/settings.h"
#include "train/ledger/writer.h"
#include "train/monitor.h"
#include "train/trainer.h"

/* The counters of a run, one section of float64: exact up to 2^53. */
enum { kEpoch, kEpochStep, kLossSum, kCorrect, kSeen, kSeconds, kCounters = BRAID_KEPT_COUNTERS };
static const char kCountersName[] = "trainer/counters", kRecordName[] = "trainer/record",
                  kSettingsName[] = "trainer/settings";
enum { kOwnSections = 3 }; /* those, beside one for each value */

braid_status braid_trainer_check_names(const braid_trainer *trainer) {
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (!braid_value_is_kept(value)) continue;
    BRAID_TRY(braid_checkpoint_check_name(value->name));
    if (strcmp(value->name, kCountersName) == 0 || strcmp(value->name, kRecordName) == 0 ||
        strcmp(value->name, kSettingsName) == 0)
      return braid_fail(BRAID_INVALID_GRAPH, "parameter %s has the name of something else in checkpoints: rename it",
                        value->name);
  }
  return BRAID_OK;
}

static void read_counters(const braid_trainer *trainer, double counters[kCounters]) {
  counters[kEpoch] = (double)trainer->epoch;
  counters[kEpochStep] = (double)trainer->epoch_step;
  counters[kLossSum] = trainer->loss_sum;
  counters[kCorrect] = (double)trainer->correct;
  counters[kSeen] = (double)trainer->seen;
  counters[kSeconds] = trainer->epoch_seconds;
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
braid_status braid_kept_path(const braid_trainer *trainer, char path[BRAID_KEPT_PATH]) {
  int64_t step = braid_trainer_steps_done(trainer);
  int length =
      snprintf(path, BRAID_KEPT_PATH, "%s/checkpoint-%010" PRId64 ".braid", trainer->options.out_directory, step);
  return length < BRAID_KEPT_PATH ? BRAID_OK : braid_fail(BRAID_OUT_OF_RANGE, "the name of a checkpoint is too long");
}

void braid_kept_head(const braid_trainer *trainer, braid_kept *kept) {
  *kept = (braid_kept){.settings = trainer->settings, .rows = trainer->record.rows, .row_count = trainer->record.count};
  read_counters(trainer, kept->counters);
  for (size_t i = 0; i < trainer->step->value_count; i++)
    kept->values += braid_value_is_kept(&trainer->step->values[i]);
}

braid_status braid_kept_begin(const braid_allocator *allocator, const char *path, const braid_kept *kept,
                              braid_checkpoint **out) {
  braid_desc desc;
  BRAID_TRY(braid_checkpoint_create(allocator, path, kept->values + kOwnSections, out));
  braid_status status = braid_desc_init(&desc, BRAID_F64, 1, (int64_t[]){kCounters});
  if (status == BRAID_OK) status = braid_checkpoint_put(*out, kCountersName, &desc, kept->counters);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_U8, 1, (int64_t[]){(int64_t)strlen(kept->settings)});
  if (status == BRAID_OK) status = braid_checkpoint_put(*out, kSettingsName, &desc, kept->settings);
  if (status == BRAID_OK)
    status = braid_desc_init(&desc, BRAID_F64, 2, (int64_t[]){(int64_t)kept->row_count, BRAID_RECORD_COLUMNS});
  if (status == BRAID_OK) status = braid_checkpoint_put(*out, kRecordName, &desc, kept->rows);
  if (status == BRAID_OK) return BRAID_OK;
  braid_checkpoint_abort(*out);
  *out = NULL;
  return status;
}

braid_status braid_kept_read(const braid_trainer *trainer, const braid_value *value, braid_tensor **out) {
  BRAID_TRY(braid_tensor_create(trainer->allocator, &value->desc, out));
  braid_status status = braid_session_read(trainer->session, value->name, *out);
  if (status == BRAID_OK) return BRAID_OK;
  braid_tensor_release(*out);
  *out = NULL;
  return status;
}

/* One after the other, so that one at a time is in memory. */
static braid_status put_values(const braid_trainer *trainer, braid_checkpoint *checkpoint) {
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (!braid_value_is_kept(value)) continue;
    braid_tensor *tensor;
    BRAID_TRY(braid_kept_read(trainer, value, &tensor));
    braid_status status = braid_checkpoint_put(checkpoint, value->name, &value->desc, braid_tensor_const_data(tensor));
    braid_tensor_release(tensor);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

braid_status braid_trainer_save(braid_trainer *trainer) {
  char path[BRAID_KEPT_PATH];
  braid_kept kept;
  braid_checkpoint *checkpoint;
  /* A checkpoint is never ahead of the ledger. */
  if (trainer->ledger) BRAID_TRY(braid_ledger_writer_sync(trainer->ledger));
  BRAID_TRY(braid_kept_path(trainer, path));
  braid_kept_head(trainer, &kept);
  BRAID_TRY(braid_kept_begin(trainer->allocator, path, &kept, &checkpoint));
  braid_status status = put_values(trainer, checkpoint);
  if (status == BRAID_OK) {
    status = braid_checkpoint_commit(checkpoint);
  } else {
    braid_checkpoint_abort(checkpoint);
  }
  size_t most = (size_t)trainer->options.keep_checkpoints;
  if (status == BRAID_OK && most)
    braid_checkpoint_prune(trainer->allocator, trainer->log, trainer->options.out_directory, most);
  return status;
}

braid_status braid_trainer_save_model(braid_trainer *trainer, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", trainer->options.out_directory, name);
  braid_graph *model;
  BRAID_TRY(braid_trainer_model(trainer, &model));
  braid_status status = braid_model_save_onnx(model, path);
  braid_graph_destroy(model);
  return status;
}

/* --- failures beside training --------------------------------------------------------------------------------------
 */
/* Whether steps follow for certain: an epoch that is still to be tested may be the last by options.patience. */
static bool steps_follow(const braid_trainer *trainer) {
  const braid_train_options *o = &trainer->options;
  if (trainer->ending || braid_trainer_steps_done(trainer) >= braid_trainer_total_steps(trainer)) return false;
  int64_t ended = trainer->epoch + (trainer->epoch_step == braid_trainer_epoch_steps(trainer));
  return o->patience < 1 || ended - 1 - braid_monitor_best(o, &trainer->record) < o->patience;
}

/* Of one epoch, whatever file it is: each checkpoint has another name. */
static bool was_told(braid_trainer *trainer, int64_t epoch, braid_status status, const char *what) {
  uint64_t hash = braid_fnv_mix(BRAID_FNV_START, what, strlen(what));
  hash = braid_fnv_mix(hash, &epoch, sizeof epoch);
  hash = braid_fnv_mix(hash, &status, sizeof status);
  for (size_t i = 0; i < BRAID_TOLD && i < trainer->told_count; i++)
    if (trainer->told[i] == hash) return true;
  trainer->told[trainer->told_count++ % BRAID_TOLD] = hash;
  return false;
}

void braid_trainer_note_failure_of(braid_trainer *trainer, int64_t epoch, braid_status status, const char *what,
                                   const char *detail) {
  char text[sizeof trainer->side_failure_detail];
  if (status == BRAID_OK) return;
  snprintf(text, sizeof text, "epoch %lld: %s: %s", (long long)epoch, what,
           detail[0] ? detail : braid_status_text(status));
  if (!was_told(trainer, epoch, status, what))
    braid_log_write(trainer->log, BRAID_LOG_WARNING, "%s%s", text, steps_follow(trainer) ? "; training goes on" : "");
  if (trainer->side_failure != BRAID_OK) return;
  trainer->side_failure = status;
  memcpy(trainer->side_failure_detail, text, strlen(text) + 1);
}

void braid_trainer_note_failure(braid_trainer *trainer, braid_status status, const char *what) {
  braid_trainer_note_failure_of(trainer, braid_trainer_epoch_begun(trainer), status, what, braid_error_detail());
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status other_run(const char *what) {
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the checkpoint is of another run: its %s differs; resume with what it was, or give another output "
                    "directory",
                    what);
}

static braid_status get_counters(braid_trainer *trainer, const braid_checkpoint_file *file) {
  double counters[kCounters];
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, kCountersName, &desc);
  if (!data || desc.dtype != BRAID_F64 || braid_desc_count(&desc) != kCounters) return other_run("kind");
  memcpy(counters, data, sizeof counters);
  if (!(counters[kEpoch] >= 0 && counters[kEpoch] < 0x1p31) ||
      !(counters[kEpochStep] >= 0 && counters[kEpochStep] <= (double)trainer->steps))
    return other_run("position");
  trainer->epoch = (int64_t)counters[kEpoch];
  trainer->epoch_step = (int64_t)counters[kEpochStep];
  trainer->loss_sum = counters[kLossSum];
  trainer->correct = (int64_t)counters[kCorrect];
  trainer->seen = (int64_t)counters[kSeen];
  trainer->epoch_seconds = counters[kSeconds];
  return BRAID_OK;
}

static braid_status compare_settings(const braid_trainer *trainer, const braid_checkpoint_file *file) {
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, kSettingsName, &desc);
  if (!data || desc.dtype != BRAID_U8 || desc.rank != 1) return other_run("kind");
  char *before = braid_zalloc(trainer->allocator, (size_t)desc.dims[0] + 1);
  if (!before) return BRAID_NO_MEMORY;
  memcpy(before, data, (size_t)desc.dims[0]);
  braid_status status = braid_settings_compare(trainer->log, before, trainer->settings);
  braid_free(trainer->allocator, before);
  return status;
}

static braid_status get_record(braid_trainer *trainer, const braid_checkpoint_file *file) {
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, kRecordName, &desc);
  if (!data || desc.dtype != BRAID_F64 || desc.rank != 2 || desc.dims[1] != BRAID_RECORD_COLUMNS)
    return other_run("record");
  void *rows = braid_zalloc(trainer->allocator, braid_desc_bytes(&desc));
  if (!rows) return BRAID_NO_MEMORY;
  memcpy(rows, data, braid_desc_bytes(&desc));
  braid_free(trainer->allocator, trainer->record.rows);
  trainer->record = (braid_record){rows, (size_t)desc.dims[0], (size_t)desc.dims[0]};
  return BRAID_OK;
}

static braid_status get_value(braid_trainer *trainer, const braid_checkpoint_file *file, const braid_value *value) {
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, value->name, &desc);
  if (!data || desc.dtype != value->desc.dtype || !braid_desc_same_shape(&desc, &value->desc))
    return other_run(value->name);
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(trainer->allocator, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  braid_status status = braid_session_write(trainer->session, value->name, tensor);
  braid_tensor_release(tensor);
  return status;
}

/* Of a scale of the loss that is 0 or not finite no step would come out right, nor the next. */
static braid_status check_loss_scale(const braid_trainer *trainer, const braid_checkpoint_file *file) {
  const braid_graph *step = trainer->step;
  for (size_t i = 0; i < step->node_count; i++) {
    if (strcmp(step->nodes[i].op->name, "LossScaleUpdate") != 0) continue;
    const char *name = step->values[step->nodes[i].inputs[0]].name;
    braid_desc desc;
    const void *data = braid_checkpoint_find(file, name, &desc);
    float scale;
    if (!data || desc.dtype != BRAID_F32 || braid_desc_count(&desc) != 1) return other_run(name);
    memcpy(&scale, data, sizeof scale);
    if (!(scale > 0 && isfinite(scale)))
      return braid_fail(BRAID_INVALID_ARGUMENT, "the checkpoint's %s is %g, expected a positive number", name,
                        (double)scale);
  }
  return BRAID_OK;
}

braid_status braid_trainer_restore(braid_trainer *trainer, const braid_checkpoint_file *file) {
  size_t kept = 0;
  for (size_t i = 0; i < trainer->step->value_count; i++) kept += braid_value_is_kept(&trainer->step->values[i]);
  if (braid_checkpoint_count(file) != kept + kOwnSections) return other_run("set of parameters");
  BRAID_TRY(check_loss_scale(trainer, file));
  BRAID_TRY(get_counters(trainer, file));
  BRAID_TRY(get_record(trainer, file));
  for (size_t i = 0; i < trainer->step->value_count; i++)
    if (braid_value_is_kept(&trainer->step->values[i])) BRAID_TRY(get_value(trainer, file, &trainer->step->values[i]));
  return BRAID_OK;
}

braid_status braid_trainer_load(braid_trainer *trainer, bool *found) {
  braid_checkpoint_file *file;
  int64_t step;
  *found = false;
  BRAID_TRY(braid_checkpoint_newest(trainer->allocator, trainer->log, trainer->options.out_directory, INT64_MAX, &step,
                                    &file));
  if (!file) {
    braid_log_write(trainer->log, BRAID_LOG_WARNING, "%s holds no checkpoint: training starts from the beginning",
                    trainer->options.out_directory);
    return BRAID_OK;
  }
  *found = true;
  braid_status status = compare_settings(trainer, file);
  if (status == BRAID_OK) status = braid_trainer_restore(trainer, file);
  if (status == BRAID_OK)
    braid_log_write(trainer->log, BRAID_LOG_INFO, "going on after epoch %lld, step %lld of %lld",
                    (long long)trainer->epoch + 1, (long long)trainer->epoch_step, (long long)trainer->steps);
  braid_checkpoint_close(file);
  return status;
}
