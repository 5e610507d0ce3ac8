/* What a trainer keeps on disk, and finding it again. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/try.h"
#include "base/vector.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

/* The counters of a run, one section of float64: exact up to 2^53. */
enum {
  kEpoch,
  kEpochStep,
  kLossSum,
  kCorrect,
  kSeen,
  kSeconds,
  kStepsPerEpoch,
  kBatch,
  kSeedLow,
  kSeedHigh,
  kCounters
};
static const char kCountersName[] = "trainer/counters", kRecordName[] = "trainer/record",
                  kOptionsName[] = "trainer/options";
enum { kOwnSections = 3 }; /* those, beside one for each value */

/* What a run may be resumed with another value of, though not to the same bits: X(field, name). */
#define OTHER_OPTIONS(X)                                                                                               \
  X(epochs, "number of epochs")                                                                                        \
  X(label_smoothing, "label smoothing")                                                                                \
  X(learning_rate, "learning rate")                                                                                    \
  X(momentum, "momentum")                                                                                              \
  X(weight_decay, "weight decay")                                                                                      \
  X(beta1, "beta1")                                                                                                    \
  X(beta2, "beta2")                                                                                                    \
  X(epsilon, "epsilon")                                                                                                \
  X(nesterov, "choice of Nesterov's momentum")                                                                         \
  X(schedule, "schedule")                                                                                              \
  X(warmup_steps, "number of warm-up steps")                                                                           \
  X(step_epochs, "number of epochs between drops")                                                                     \
  X(step_gamma, "factor of a drop")
#define NAME(field, name) name,
static const char *const kOptionNames[] = {OTHER_OPTIONS(NAME)};
#undef NAME
enum { kOptions = sizeof kOptionNames / sizeof *kOptionNames };

static void read_options(const braid_trainer *trainer, double options[kOptions]) {
#define VALUE(field, name) *options++ = (double)trainer->options.field;
  OTHER_OPTIONS(VALUE)
#undef VALUE
}

static bool is_kept(const braid_value *value) {
  return value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
}

static void read_counters(const braid_trainer *trainer, double counters[kCounters]) {
  counters[kEpoch] = (double)trainer->epoch;
  counters[kEpochStep] = (double)trainer->epoch_step;
  counters[kLossSum] = trainer->loss_sum;
  counters[kCorrect] = (double)trainer->correct;
  counters[kSeen] = (double)trainer->seen;
  counters[kSeconds] = trainer->epoch_seconds;
  counters[kStepsPerEpoch] = (double)trainer->steps;
  counters[kBatch] = (double)trainer->options.batch;
  counters[kSeedLow] = (double)(uint32_t)trainer->options.seed;
  counters[kSeedHigh] = (double)(trainer->options.seed >> 32);
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static braid_status put_values(braid_trainer *trainer, braid_checkpoint *checkpoint) {
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (!is_kept(value)) continue;
    braid_tensor *tensor;
    BRAID_TRY(braid_tensor_create(trainer->allocator, &value->desc, &tensor));
    braid_status status = braid_session_read(trainer->session, value->name, tensor);
    if (status == BRAID_OK)
      status = braid_checkpoint_put(checkpoint, value->name, &value->desc, braid_tensor_const_data(tensor));
    braid_tensor_release(tensor);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status put_all(braid_trainer *trainer, braid_checkpoint *checkpoint) {
  double counters[kCounters];
  read_counters(trainer, counters);
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F64, 1, (int64_t[]){kCounters}));
  BRAID_TRY(braid_checkpoint_put(checkpoint, kCountersName, &desc, counters));
  double options[kOptions];
  read_options(trainer, options);
  BRAID_TRY(braid_desc_init(&desc, BRAID_F64, 1, (int64_t[]){kOptions}));
  BRAID_TRY(braid_checkpoint_put(checkpoint, kOptionsName, &desc, options));
  BRAID_TRY(braid_desc_init(&desc, BRAID_F64, 2, (int64_t[]){(int64_t)trainer->record.count, BRAID_RECORD_COLUMNS}));
  BRAID_TRY(braid_checkpoint_put(checkpoint, kRecordName, &desc, trainer->record.rows));
  return put_values(trainer, checkpoint);
}

braid_status braid_trainer_save(braid_trainer *trainer) {
  size_t sections = kOwnSections;
  for (size_t i = 0; i < trainer->step->value_count; i++) sections += is_kept(&trainer->step->values[i]);
  char path[4096];
  snprintf(path, sizeof path, "%s/checkpoint-%010" PRId64 ".braid", trainer->options.out_directory,
           trainer->epoch * trainer->steps + trainer->epoch_step);
  braid_checkpoint *checkpoint;
  BRAID_TRY(braid_checkpoint_create(trainer->allocator, path, sections, &checkpoint));
  braid_status status = put_all(trainer, checkpoint);
  if (status == BRAID_OK) {
    status = braid_checkpoint_commit(checkpoint);
  } else {
    braid_checkpoint_abort(checkpoint);
  }
  if (status == BRAID_OK) braid_checkpoint_prune(trainer->allocator, trainer->options.out_directory, 2);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status other_run(const char *what) {
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the checkpoint is of another run: its %s differs; resume with the same model, data, batch and "
                    "seed, or give another output directory",
                    what);
}

static braid_status get_counters(braid_trainer *trainer, const braid_checkpoint_file *file) {
  double counters[kCounters], ours[kCounters];
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, kCountersName, &desc);
  if (!data || desc.dtype != BRAID_F64 || braid_desc_count(&desc) != kCounters) return other_run("kind");
  memcpy(counters, data, sizeof counters);
  read_counters(trainer, ours);
  static const struct {
    int index;
    const char *name;
  } kSame[] = {
      {kStepsPerEpoch, "number of steps an epoch"}, {kBatch, "batch"}, {kSeedLow, "seed"}, {kSeedHigh, "seed"}};
  for (size_t i = 0; i < sizeof kSame / sizeof *kSame; i++)
    if (counters[kSame[i].index] != ours[kSame[i].index]) return other_run(kSame[i].name);
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

/* Options may differ, and then the run is another one from here on: that is said. */
static braid_status compare_options(const braid_trainer *trainer, const braid_checkpoint_file *file) {
  double before[kOptions], now[kOptions];
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, kOptionsName, &desc);
  if (!data || desc.dtype != BRAID_F64 || braid_desc_count(&desc) != kOptions) return other_run("kind");
  memcpy(before, data, sizeof before);
  read_options(trainer, now);
  for (int i = 0; i < kOptions; i++)
    if (before[i] != now[i])
      braid_log_write(BRAID_LOG_WARNING, "resuming with another %s: %g, it was %g", kOptionNames[i], now[i], before[i]);
  return BRAID_OK;
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

static braid_status get_all(braid_trainer *trainer, const braid_checkpoint_file *file) {
  size_t kept = 0;
  for (size_t i = 0; i < trainer->step->value_count; i++) kept += is_kept(&trainer->step->values[i]);
  if (braid_checkpoint_count(file) != kept + kOwnSections) return other_run("set of parameters");
  BRAID_TRY(get_counters(trainer, file));
  BRAID_TRY(compare_options(trainer, file));
  BRAID_TRY(get_record(trainer, file));
  for (size_t i = 0; i < trainer->step->value_count; i++)
    if (is_kept(&trainer->step->values[i])) BRAID_TRY(get_value(trainer, file, &trainer->step->values[i]));
  return BRAID_OK;
}

braid_status braid_trainer_load(braid_trainer *trainer) {
  braid_checkpoint_file *file;
  BRAID_TRY(braid_checkpoint_newest(trainer->allocator, trainer->options.out_directory, &file));
  if (!file) {
    braid_log_write(BRAID_LOG_WARNING, "%s holds no checkpoint: training starts from the beginning",
                    trainer->options.out_directory);
    return BRAID_OK;
  }
  braid_status status = get_all(trainer, file);
  if (status == BRAID_OK)
    braid_log_write(BRAID_LOG_INFO, "going on after epoch %lld, step %lld of %lld", (long long)trainer->epoch + 1,
                    (long long)trainer->epoch_step, (long long)trainer->steps);
  braid_checkpoint_close(file);
  return status;
}
