/* What a trainer's steps are given and give: batches of the loader, numbers and scores, in memory that devices copy
 * from and to by themselves. */
#include "base/detail.h"
#include "base/pages.h"
#include "base/try.h"
#include "train/data/dataset.h"
#include "train/trainer.h"

/* --- pinned memory -------------------------------------------------------------------------------------------------
 */
void braid_trainer_pin(braid_trainer *trainer, void *memory, size_t bytes) {
  if (memory && braid_session_pin(trainer->session, memory, bytes) != BRAID_OK) braid_clear_detail();
}

void braid_trainer_unpin(braid_trainer *trainer, void *memory) {
  if (memory && trainer->session && braid_session_unpin(trainer->session, memory) != BRAID_OK) braid_clear_detail();
}

static void pin_loader(braid_trainer *trainer) {
  size_t bytes;
  if (!trainer->loader) return;
  void *memory = braid_loader_memory(trainer->loader, &bytes);
  braid_trainer_pin(trainer, memory, bytes);
}

static void drop_loader(braid_trainer *trainer) {
  size_t bytes;
  if (!trainer->loader) return;
  braid_trainer_unpin(trainer, braid_loader_memory(trainer->loader, &bytes));
  braid_loader_destroy(trainer->loader);
  trainer->loader = NULL;
  trainer->fetched = false;
}

/* Devices take no less: pinning takes longer than copying it. */
enum { kLeastRoom = 1 << 16 };

static size_t room_bytes(const braid_trainer *trainer) {
  size_t scores = (size_t)trainer->slice.count * (size_t)braid_dataset_get_info(trainer->train).classes;
  size_t bytes = sizeof *trainer->room + scores * sizeof *trainer->scores;
  return bytes < kLeastRoom ? kLeastRoom : bytes;
}

braid_status braid_trainer_make_room(braid_trainer *trainer) {
  trainer->room = braid_zalloc_pages(trainer->allocator, room_bytes(trainer));
  if (!trainer->room) return BRAID_NO_MEMORY;
  trainer->scores = (float *)(void *)(trainer->room + 1);
  return BRAID_OK;
}

void braid_trainer_pin_all(braid_trainer *trainer) {
  braid_trainer_pin(trainer, trainer->room, room_bytes(trainer));
  braid_trainer_pin(trainer, trainer->state_copy.memory, trainer->state_copy.bytes);
  pin_loader(trainer);
}

void braid_trainer_drop_feed(braid_trainer *trainer) {
  drop_loader(trainer);
  braid_trainer_unpin(trainer, trainer->room);
  braid_trainer_unpin(trainer, trainer->state_copy.memory);
}

/* --- batches -------------------------------------------------------------------------------------------------------
 */
braid_status braid_trainer_seek(braid_trainer *trainer) {
  drop_loader(trainer);
  braid_loader_options loading = {.batch = trainer->options.batch,
                                  .seed = trainer->options.seed,
                                  .shuffle = true,
                                  .augment = true,
                                  .mixup = trainer->options.mixup,
                                  .label_noise = trainer->options.label_noise,
                                  .threads = braid_loader_usual_threads(),
                                  .slice_first = trainer->slice.first,
                                  .slice_count = trainer->slice.group ? trainer->slice.count : 0};
  bool at_end = trainer->epoch_step == braid_trainer_epoch_steps(trainer);
  int64_t first = at_end ? 0 : trainer->epoch_step * trainer->options.accumulate;
  BRAID_TRY(braid_loader_create(trainer->train, &loading, trainer->epoch + at_end, first, &trainer->loader));
  pin_loader(trainer);
  return BRAID_OK;
}
