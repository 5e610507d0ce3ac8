/* Events to come, earliest first; of one instant, in the order in which they were added. Those of the next cycles are
 * in a ring of lists, one for each cycle; later ones in a heap, until the ring comes to them. */
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
  BRAID_EVENT_GATE,     /* the gate of port `index` opens */
  BRAID_EVENT_BURST     /* a burst of port `index` is done */
} braid_event_kind;

typedef struct braid_event {
  uint64_t at, order;
  uint16_t kind, index;
  uint32_t epoch; /* of the core: an event of a task that was taken from it means nothing */
} braid_event;

enum { BRAID_EVENT_RING = 1024 }; /* cycles */

typedef struct braid_event_node {
  braid_event event;
  uint32_t next; /* of its list, or of free ones: its number, less one its place; 0: none */
} braid_event_node;

typedef struct braid_event_queue {
  const braid_allocator *allocator;
  uint64_t now; /* the last event taken; the ring has what is less than BRAID_EVENT_RING later */
  uint32_t first[BRAID_EVENT_RING], last[BRAID_EVENT_RING];
  uint64_t some[BRAID_EVENT_RING / 64]; /* bits of lists that are not empty */
  braid_event_node *nodes;
  size_t node_count, node_capacity;
  uint32_t unused;
  braid_event *later; /* a heap */
  size_t later_count, later_capacity;
  uint64_t added;
  bool failed; /* no memory: an event is lost */
} braid_event_queue;

void braid_event_queue_deinit(braid_event_queue *queue);
/* `at` is no earlier than the last event taken. */
void braid_event_queue_add(braid_event_queue *queue, uint64_t at, braid_event_kind kind, uint32_t index,
                           uint32_t epoch);
/* When the next one is; UINT64_MAX: there is none. */
uint64_t braid_event_queue_next(const braid_event_queue *queue);
/* There must be one. */
braid_event braid_event_queue_take(braid_event_queue *queue);

#endif
