#include "simulate/agenda.h"

#include "base/vector.h"

static bool is_before(const braid_agenda_item *a, const braid_agenda_item *b) {
  return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

braid_status braid_agenda_note(braid_agenda *agenda, int64_t at_ns, braid_agenda_what what, uint32_t a, uint32_t b,
                               uint32_t life) {
  braid_agenda_item *items =
      braid_grow(agenda->allocator, agenda->items, agenda->count, &agenda->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  braid_agenda_item item = {at_ns, agenda->order++, what, a, b, life};
  size_t at = agenda->count++;
  agenda->items = items;
  for (; at && is_before(&item, &items[(at - 1) / 2]); at = (at - 1) / 2) items[at] = items[(at - 1) / 2];
  items[at] = item;
  return BRAID_OK;
}

bool braid_agenda_next(braid_agenda *agenda, braid_agenda_item *out) {
  if (!agenda->count) return false;
  braid_agenda_item *items = agenda->items, last = items[--agenda->count];
  size_t at = 0, count = agenda->count;
  *out = items[0];
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && is_before(&items[child + 1], &items[child])) child++;
    if (!is_before(&items[child], &last)) break;
    items[at] = items[child];
    at = child;
  }
  items[at] = last;
  return true;
}

void braid_agenda_deinit(braid_agenda *agenda) {
  braid_free(agenda->allocator, agenda->items);
  agenda->items = NULL;
  agenda->count = agenda->capacity = 0;
}
