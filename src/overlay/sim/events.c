#include "overlay/sim/events.h"

#include "base/vector.h"

static bool before(const braid_event *a, const braid_event *b) {
  return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void braid_event_heap_add(braid_event_heap *heap, uint64_t at, braid_event_kind kind, uint32_t index, uint16_t epoch) {
  braid_event *items = braid_grow(heap->allocator, heap->items, heap->count, &heap->capacity, sizeof *items);
  if (!items) {
    heap->failed = true;
    return;
  }
  heap->items = items;
  braid_event made = {at, heap->added++, (uint16_t)kind, epoch, index};
  size_t i = heap->count++;
  for (; i && before(&made, &items[(i - 1) / 2]); i = (i - 1) / 2) items[i] = items[(i - 1) / 2];
  items[i] = made;
}

braid_event braid_event_heap_take(braid_event_heap *heap) {
  braid_event first = heap->items[0], last = heap->items[--heap->count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
    if (child + 1 < heap->count && before(&heap->items[child + 1], &heap->items[child])) child++;
    if (!before(&heap->items[child], &last)) break;
    heap->items[i] = heap->items[child];
  }
  heap->items[i] = last;
  return first;
}
