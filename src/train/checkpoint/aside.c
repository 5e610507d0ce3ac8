#include "train/checkpoint/aside.h"

#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/thread.h"
#include "base/try.h"
#include "braid/model.h"
#include "train/checkpoint/persist.h"
#include "train/diagnose.h"
#include "train/ledger/writer.h"

static const char kNotWritten[] = "the checkpoint was not written", kModelNotWritten[] = "the model was not written";

/* What is written, beside the trainer's copy of its state. The thread reads nothing else of the trainer that changes.
 */
struct braid_aside {
  const braid_allocator *allocator;
  const braid_trainer *trainer;
  braid_kept kept;
  void *rows;
  bool model; /* model.onnx too */
  char path[BRAID_KEPT_PATH], model_path[BRAID_KEPT_PATH];
  braid_thread thread;
  uint32_t done; /* atomic */
  braid_status status;
  int64_t epoch;    /* that it is of */
  const char *what; /* is said of a failure */
  char detail[1024];
};

bool braid_aside_suits(const braid_trainer *trainer) {
  size_t bytes = 0;
  if (!trainer->output) return false;
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (braid_value_is_kept(value)) bytes += braid_desc_bytes(&value->desc);
  }
  return bytes >= trainer->aside_bytes;
}

bool braid_aside_is_busy(const braid_trainer *trainer) {
  return trainer->aside && !__atomic_load_n(&trainer->aside->done, __ATOMIC_ACQUIRE);
}

static void aside_destroy(braid_aside *aside) {
  braid_free(aside->allocator, aside->rows);
  braid_free(aside->allocator, aside);
}

/* --- the thread ----------------------------------------------------------------------------------------------------
 */
static braid_status put_value(const braid_aside *aside, size_t index, braid_checkpoint *checkpoint) {
  braid_tensor *tensor;
  BRAID_TRY(braid_state_copy_tensor(aside->allocator, &aside->trainer->state_copy, index, &tensor));
  braid_status status = braid_checkpoint_put(checkpoint, aside->trainer->state_copy.items[index].value->name,
                                             braid_tensor_desc(tensor), braid_tensor_const_data(tensor));
  braid_tensor_release(tensor);
  return status;
}

static braid_status write_checkpoint(const braid_aside *aside) {
  const braid_trainer *trainer = aside->trainer;
  size_t most = (size_t)trainer->options.keep_checkpoints;
  braid_checkpoint *checkpoint;
  BRAID_TRY(braid_kept_begin(aside->allocator, aside->path, &aside->kept, &checkpoint));
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < aside->kept.values; i++) status = put_value(aside, i, checkpoint);
  if (status == BRAID_OK)
    status = braid_checkpoint_commit(checkpoint);
  else
    braid_checkpoint_abort(checkpoint);
  if (status == BRAID_OK && most)
    braid_checkpoint_prune(aside->allocator, trainer->log, trainer->options.out_directory, most);
  return status;
}

static braid_status read_copied(void *context, const char *name, braid_tensor **out) {
  const braid_aside *aside = context;
  return braid_state_copy_find(aside->allocator, &aside->trainer->state_copy, name, out);
}

static braid_status write_model(braid_aside *aside) {
  braid_graph *model;
  BRAID_TRY(braid_trainer_model_of(aside->trainer, read_copied, aside, &model));
  braid_status status = braid_model_save_onnx(model, aside->model_path);
  braid_graph_destroy(model);
  return status;
}

static void *aside_main(void *context) {
  braid_aside *aside = context;
  aside->status = write_checkpoint(aside);
  if (aside->status == BRAID_OK && aside->model) {
    aside->what = kModelNotWritten;
    aside->status = write_model(aside);
  }
  if (aside->status != BRAID_OK) snprintf(aside->detail, sizeof aside->detail, "%s", braid_error_detail());
  __atomic_store_n(&aside->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* --- the trainer's side --------------------------------------------------------------------------------------------
 */
/* Beside the state, of which there is a copy. */
static braid_status copy_head(const braid_trainer *trainer, braid_aside *aside) {
  size_t bytes = trainer->record.count * sizeof *trainer->record.rows;
  BRAID_TRY(braid_kept_path(trainer, aside->path));
  braid_kept_head(trainer, &aside->kept);
  aside->rows = braid_zalloc(aside->allocator, bytes + 1);
  if (!aside->rows) return BRAID_NO_MEMORY;
  if (bytes) memcpy(aside->rows, trainer->record.rows, bytes);
  aside->kept.rows = aside->rows;
  snprintf(aside->model_path, sizeof aside->model_path, "%s/model.onnx", trainer->options.out_directory);
  return BRAID_OK;
}

braid_status braid_aside_begin(braid_trainer *trainer, bool model) {
  if (!trainer->state_copy.whole) return BRAID_NO_MEMORY;
  if (trainer->ledger) BRAID_TRY(braid_ledger_writer_sync(trainer->ledger)); /* no checkpoint is ahead of it */
  braid_aside *aside = braid_zalloc(trainer->allocator, sizeof *aside);
  if (!aside) return BRAID_NO_MEMORY;
  *aside = (braid_aside){.allocator = trainer->allocator,
                         .trainer = trainer,
                         .model = model,
                         .epoch = braid_trainer_epoch_begun(trainer),
                         .what = kNotWritten};
  braid_status status = copy_head(trainer, aside);
  if (status == BRAID_OK) status = braid_thread_start(&aside->thread, "braid keeps", aside_main, aside);
  if (status == BRAID_OK)
    trainer->aside = aside;
  else
    aside_destroy(aside);
  return status;
}

void braid_aside_end(braid_trainer *trainer) {
  braid_aside *aside = trainer->aside;
  if (!aside) return;
  braid_thread_join(&aside->thread);
  trainer->aside = NULL;
  braid_trainer_note_failure_of(trainer, aside->epoch, aside->status, aside->what, aside->detail);
  trainer->model_owed |= aside->model && aside->status != BRAID_OK;
  aside_destroy(aside);
}

/* What is large is written aside; then what comes while that goes on is not kept. Memory that is too short for a copy
 * is enough for one value after the other. */
void braid_trainer_keep(braid_trainer *trainer, bool model) {
  if (!trainer->output) return;
  bool aside = braid_aside_suits(trainer);
  bool looked_at = trainer->looked_at == braid_trainer_steps_done(trainer);
  trainer->model_owed |= model && trainer->savable;
  if (aside && (!looked_at || braid_aside_is_busy(trainer))) return;
  braid_aside_end(trainer);
  braid_status status = aside ? braid_aside_begin(trainer, trainer->model_owed) : BRAID_NO_MEMORY;
  if (status != BRAID_NO_MEMORY) {
    braid_trainer_note_failure(trainer, status, kNotWritten);
    if (status == BRAID_OK) trainer->model_owed = false;
    return;
  }
  braid_clear_detail();
  braid_trainer_note_failure(trainer, braid_trainer_save(trainer), kNotWritten);
  braid_trainer_write_model(trainer);
}

void braid_trainer_write_model(braid_trainer *trainer) {
  if (!trainer->model_owed) return;
  trainer->model_owed = false;
  braid_trainer_note_failure(trainer, braid_trainer_save_model(trainer, "model.onnx"), kModelNotWritten);
}

braid_status braid_trainer_keep_all(braid_trainer *trainer) {
  if (!trainer->output || !braid_aside_suits(trainer)) return BRAID_OK;
  if (trainer->looked_at != braid_trainer_steps_done(trainer)) BRAID_TRY(braid_trainer_check_finite(trainer));
  braid_aside_end(trainer);
  braid_trainer_note_failure(trainer, braid_trainer_save(trainer), kNotWritten);
  braid_trainer_write_model(trainer);
  return BRAID_OK;
}
