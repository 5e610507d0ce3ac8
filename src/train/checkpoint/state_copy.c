#include "train/checkpoint/state_copy.h"

#include <string.h>

#include "base/checked.h"
#include "base/detail.h"
#include "base/pages.h"
#include "base/try.h"
#include "runtime/surface/session.h"
#include "tensor/layout.h"
#include "train/trainer.h"

enum { kAlignment = 64 };

/* --- taking --------------------------------------------------------------------------------------------------------
 */
/* Where each value goes; a plan that replaced another may keep values in other layouts. */
static braid_status describe_items(braid_trainer *trainer, size_t *bytes) {
  braid_state_copy *copy = &trainer->state_copy;
  const braid_graph *step = trainer->step;
  copy->count = *bytes = 0;
  if (!copy->items) copy->items = braid_zalloc_array(trainer->allocator, step->value_count, sizeof *copy->items);
  if (!copy->items) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < step->value_count; i++) {
    if (!braid_value_is_kept(&step->values[i])) continue;
    braid_state_item *item = &copy->items[copy->count++];
    *item = (braid_state_item){.value = &step->values[i], .offset = *bytes};
    BRAID_TRY(braid_session_describe_kept(trainer->session, item->value->name, &item->desc, &item->bytes));
    if (!braid_add_size(*bytes, item->bytes, bytes) || !braid_add_size(*bytes, kAlignment - 1, bytes))
      return BRAID_NO_MEMORY;
    *bytes &= ~(size_t)(kAlignment - 1);
  }
  return BRAID_OK;
}

/* Memory that all of it was refused may be there for less. */
static braid_status state_room(braid_trainer *trainer, size_t bytes) {
  braid_state_copy *copy = &trainer->state_copy;
  if (copy->memory && bytes <= copy->bytes) return BRAID_OK;
  braid_trainer_unpin(trainer, copy->memory);
  braid_free(trainer->allocator, copy->memory);
  copy->bytes = bytes;
  copy->memory = braid_zalloc_pages(trainer->allocator, bytes);
  if (!copy->memory) return BRAID_NO_MEMORY;
  braid_trainer_pin(trainer, copy->memory, bytes);
  return BRAID_OK;
}

braid_status braid_state_copy_take(braid_trainer *trainer) {
  braid_state_copy *copy = &trainer->state_copy;
  size_t bytes;
  copy->whole = false;
  BRAID_TRY(describe_items(trainer, &bytes));
  BRAID_TRY(state_room(trainer, bytes));
  for (size_t i = 0; i < copy->count; i++)
    BRAID_TRY(
        braid_session_fetch_kept(trainer->session, copy->items[i].value->name, copy->memory + copy->items[i].offset));
  copy->whole = true;
  return BRAID_OK;
}

void braid_state_copy_deinit(braid_trainer *trainer) {
  braid_free(trainer->allocator, trainer->state_copy.memory);
  braid_free(trainer->allocator, trainer->state_copy.items);
  trainer->state_copy = (braid_state_copy){0};
}

braid_status braid_state_copy_visit(braid_trainer *trainer, braid_state_visit *visit, void *context) {
  braid_state_copy *copy = &trainer->state_copy;
  bool whole = copy->whole;
  size_t bytes, most = 0;
  if (!whole) BRAID_TRY(describe_items(trainer, &bytes));
  for (size_t i = 0; i < copy->count; i++) most = copy->items[i].bytes > most ? copy->items[i].bytes : most;
  if (!whole) BRAID_TRY(state_room(trainer, most));
  for (size_t i = 0; i < copy->count; i++) {
    const braid_state_item *item = &copy->items[i];
    if (!whole) BRAID_TRY(braid_session_fetch_kept(trainer->session, item->value->name, copy->memory));
    BRAID_TRY(visit(context, item, whole ? copy->memory + item->offset : copy->memory));
  }
  return BRAID_OK;
}

/* --- what it holds -------------------------------------------------------------------------------------------------
 */
braid_status braid_state_copy_tensor(const braid_allocator *allocator, const braid_state_copy *copy, size_t index,
                                     braid_tensor **out) {
  const braid_state_item *item = &copy->items[index];
  BRAID_TRY(braid_tensor_create(allocator, &item->value->desc, out));
  braid_layout_unpack(&item->desc, copy->memory + item->offset, braid_tensor_data(*out));
  return BRAID_OK;
}

braid_status braid_state_copy_find(const braid_allocator *allocator, const braid_state_copy *copy, const char *name,
                                   braid_tensor **out) {
  *out = NULL;
  for (size_t i = 0; i < copy->count; i++)
    if (strcmp(copy->items[i].value->name, name) == 0) return braid_state_copy_tensor(allocator, copy, i, out);
  return braid_fail(BRAID_NOT_FOUND, "%.120s is not in the training graph", name);
}
