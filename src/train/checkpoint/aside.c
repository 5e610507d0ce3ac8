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

/* Copies of all that is written; `names` and descriptors are the graph's. */
struct braid_aside {
  const braid_allocator *allocator;
  const braid_log *log;
  const char *directory;
  size_t most; /* checkpoints to keep; 0: all */
  braid_kept kept;
  void *rows;
  const braid_value **values;
  braid_tensor **tensors;
  braid_graph *model; /* NULL: none */
  char path[BRAID_KEPT_PATH], model_path[BRAID_KEPT_PATH];
  braid_thread thread;
  uint32_t done; /* atomic */
  braid_status status;
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
  for (size_t i = 0; aside->tensors && i < aside->kept.values; i++) braid_tensor_release(aside->tensors[i]);
  braid_graph_destroy(aside->model);
  braid_free(aside->allocator, aside->tensors);
  braid_free(aside->allocator, aside->values);
  braid_free(aside->allocator, aside->rows);
  braid_free(aside->allocator, aside);
}

/* --- the thread ----------------------------------------------------------------------------------------------------
 */
static braid_status write_checkpoint(const braid_aside *aside) {
  braid_checkpoint *checkpoint;
  BRAID_TRY(braid_kept_begin(aside->allocator, aside->path, &aside->kept, &checkpoint));
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < aside->kept.values; i++)
    status = braid_checkpoint_put(checkpoint, aside->values[i]->name, &aside->values[i]->desc,
                                  braid_tensor_const_data(aside->tensors[i]));
  if (status == BRAID_OK)
    status = braid_checkpoint_commit(checkpoint);
  else
    braid_checkpoint_abort(checkpoint);
  if (status == BRAID_OK && aside->most)
    braid_checkpoint_prune(aside->allocator, aside->log, aside->directory, aside->most);
  return status;
}

static void *aside_main(void *context) {
  braid_aside *aside = context;
  aside->status = write_checkpoint(aside);
  const char *what = aside->path;
  if (aside->status == BRAID_OK && aside->model) {
    what = aside->model_path;
    aside->status = braid_model_save_onnx(aside->model, aside->model_path);
  }
  if (aside->status != BRAID_OK)
    snprintf(aside->detail, sizeof aside->detail, "%.300s: %.600s", what,
             braid_error_detail()[0] ? braid_error_detail() : braid_status_text(aside->status));
  __atomic_store_n(&aside->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* --- the trainer's side --------------------------------------------------------------------------------------------
 */
static braid_status copy_values(const braid_trainer *trainer, braid_aside *aside) {
  size_t count = 0;
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (!braid_value_is_kept(value)) continue;
    aside->values[count] = value;
    BRAID_TRY(braid_kept_read(trainer, value, &aside->tensors[count++]));
  }
  return BRAID_OK;
}

static braid_status copy_all(braid_trainer *trainer, bool model, braid_aside *aside) {
  size_t bytes = trainer->record.count * sizeof *trainer->record.rows;
  BRAID_TRY(braid_kept_path(trainer, aside->path));
  braid_kept_head(trainer, &aside->kept);
  aside->rows = braid_zalloc(aside->allocator, bytes + 1);
  aside->values = braid_zalloc_array(aside->allocator, aside->kept.values, sizeof *aside->values);
  aside->tensors = braid_zalloc_array(aside->allocator, aside->kept.values, sizeof *aside->tensors);
  if (!aside->rows || !aside->values || !aside->tensors) return BRAID_NO_MEMORY;
  if (bytes) memcpy(aside->rows, trainer->record.rows, bytes);
  aside->kept.rows = aside->rows;
  if (model) {
    snprintf(aside->model_path, sizeof aside->model_path, "%s/model.onnx", aside->directory);
    BRAID_TRY(braid_trainer_model(trainer, &aside->model));
  }
  return copy_values(trainer, aside);
}

braid_status braid_aside_begin(braid_trainer *trainer, bool model) {
  if (trainer->ledger) BRAID_TRY(braid_ledger_writer_sync(trainer->ledger)); /* no checkpoint is ahead of it */
  braid_aside *aside = braid_zalloc(trainer->allocator, sizeof *aside);
  if (!aside) return BRAID_NO_MEMORY;
  *aside = (braid_aside){.allocator = trainer->allocator,
                         .log = trainer->log,
                         .directory = trainer->options.out_directory,
                         .most = (size_t)trainer->options.keep_checkpoints};
  braid_status status = copy_all(trainer, model, aside);
  if (status == BRAID_OK) status = braid_thread_start(&aside->thread, "braid keeps", aside_main, aside);
  if (status == BRAID_OK)
    trainer->aside = aside;
  else
    aside_destroy(aside);
  return status;
}

braid_status braid_aside_end(braid_trainer *trainer) {
  braid_aside *aside = trainer->aside;
  if (!aside) return BRAID_OK;
  braid_thread_join(&aside->thread);
  trainer->aside = NULL;
  braid_status status = aside->status == BRAID_OK ? BRAID_OK : braid_fail(aside->status, "%s", aside->detail);
  aside_destroy(aside);
  return status;
}

static const char kNotWrittenAside[] = "what a thread was writing is lost";
static const char kNotWritten[] = "the checkpoint was not written";

/* What is large is written aside; then what comes while that goes on is not kept. Memory that is too short for a copy
 * is enough for one value after the other. */
void braid_trainer_keep(braid_trainer *trainer, bool model) {
  if (!trainer->output) return;
  bool aside = braid_aside_suits(trainer);
  bool looked_at = trainer->looked_at == braid_trainer_steps_done(trainer);
  trainer->model_owed |= model && trainer->savable;
  if (aside && (!looked_at || braid_aside_is_busy(trainer))) return;
  braid_trainer_note_failure(trainer, braid_aside_end(trainer), kNotWrittenAside);
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
  braid_trainer_note_failure(trainer, braid_trainer_save_model(trainer, "model.onnx"), "the model was not written");
}

braid_status braid_trainer_keep_all(braid_trainer *trainer) {
  if (!trainer->output || !braid_aside_suits(trainer)) return BRAID_OK;
  BRAID_TRY(braid_trainer_check_finite(trainer));
  braid_trainer_note_failure(trainer, braid_aside_end(trainer), kNotWrittenAside);
  braid_trainer_note_failure(trainer, braid_trainer_save(trainer), kNotWritten);
  trainer->model_owed |= trainer->savable;
  braid_trainer_write_model(trainer);
  return BRAID_OK;
}
