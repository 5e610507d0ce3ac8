/* Events to come, earliest first; of one instant, in the order in which they were added. */
#ifndef BRAID_OVERLAY_EVENTS_H
#define BRAID_OVERLAY_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef enum braid_event_kind {
  BRAID_EVENT_DISPATCH, /* the card's decoder is free */
  BRAID_EVENT_CORE,     /* something of core `index` may go on */
  BRAID_EVENT_MODULE,   /* module index % 4 of core index / 4 is done */
  BRAID_EVENT_BANK,     /* bank `index` is free */
  BRAID_EVENT_BURST,    /* a burst of port `index` is done */
  BRAID_EVENT_LIMIT     /* task `index` has had its time */
} braid_event_kind;

typedef struct braid_event {
  uint64_t at, order;
  uint16_t kind;
  uint16_t epoch; /* of the core: an event of a task that was taken from it means nothing */
  uint32_t index;
} braid_event;

typedef struct braid_event_heap {
  const braid_allocator *allocator;
  braid_event *items;
  size_t count, capacity;
  uint64_t added;
  bool failed; /* no memory: an event is lost */
} braid_event_heap;

void braid_event_heap_add(braid_event_heap *heap, uint64_t at, braid_event_kind kind, uint32_t index, uint16_t epoch);
/* The heap must not be empty. */
braid_event braid_event_heap_take(braid_event_heap *heap);

#endif
