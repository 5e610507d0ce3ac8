#include "overlay/sim/events.h"

#include <assert.h>

#include "base/vector.h"

enum { kWords = BRAID_EVENT_RING / 64 };

void braid_event_queue_deinit(braid_event_queue *queue) {
  braid_free(queue->allocator, queue->nodes);
  braid_free(queue->allocator, queue->later);
}

/* --- the heap ------------------------------------------------------------------------------------------------------
 */
static bool before(const braid_event *a, const braid_event *b) {
  return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void add_later(braid_event_queue *queue, const braid_event *made) {
  braid_event *items =
      braid_grow(queue->allocator, queue->later, queue->later_count, &queue->later_capacity, sizeof *items);
  if (!items) {
    queue->failed = true;
    return;
  }
  queue->later = items;
  size_t i = queue->later_count++;
  for (; i && before(made, &items[(i - 1) / 2]); i = (i - 1) / 2) items[i] = items[(i - 1) / 2];
  items[i] = *made;
}

static braid_event take_later(braid_event_queue *queue) {
  braid_event *items = queue->later, first = items[0], last = items[--queue->later_count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < queue->later_count; i = child) {
    if (child + 1 < queue->later_count && before(&items[child + 1], &items[child])) child++;
    if (!before(&items[child], &last)) break;
    items[i] = items[child];
  }
  items[i] = last;
  return first;
}

/* --- the ring ------------------------------------------------------------------------------------------------------
 */
static uint32_t get_node(braid_event_queue *queue) {
  uint32_t number = queue->unused;
  if (number) {
    queue->unused = queue->nodes[number - 1].next;
    return number;
  }
  braid_event_node *nodes =
      braid_grow(queue->allocator, queue->nodes, queue->node_count, &queue->node_capacity, sizeof *nodes);
  if (!nodes) return 0;
  queue->nodes = nodes;
  return (uint32_t)++queue->node_count;
}

static void add_soon(braid_event_queue *queue, const braid_event *made) {
  uint32_t number = get_node(queue);
  if (!number) {
    queue->failed = true;
    return;
  }
  size_t list = made->at % BRAID_EVENT_RING;
  queue->nodes[number - 1] = (braid_event_node){*made, 0};
  if (queue->first[list])
    queue->nodes[queue->last[list] - 1].next = number;
  else
    queue->first[list] = number;
  queue->last[list] = number;
  queue->some[list / 64] |= (uint64_t)1 << list % 64;
}

/* The first list from that of `now` on that is not empty; BRAID_EVENT_RING: all are. */
static size_t find_list(const braid_event_queue *queue) {
  size_t start = queue->now % BRAID_EVENT_RING;
  uint64_t word = queue->some[start / 64] >> start % 64;
  if (word) return start + (size_t)__builtin_ctzll(word);
  for (size_t i = 1; i <= kWords; i++) { /* the last one is the first one again, where what wrapped around is */
    size_t at = (start / 64 + i) % kWords;
    if (queue->some[at]) return at * 64 + (size_t)__builtin_ctzll(queue->some[at]);
  }
  return BRAID_EVENT_RING;
}

void braid_event_queue_add(braid_event_queue *queue, uint64_t at, braid_event_kind kind, uint32_t index,
                           uint32_t epoch) {
  assert(at >= queue->now && index <= UINT16_MAX);
  braid_event made = {at, queue->added++, (uint16_t)kind, (uint16_t)index, epoch};
  if (at - queue->now < BRAID_EVENT_RING)
    add_soon(queue, &made);
  else
    add_later(queue, &made);
}

uint64_t braid_event_queue_next(const braid_event_queue *queue) {
  size_t list = find_list(queue);
  if (list < BRAID_EVENT_RING) return queue->nodes[queue->first[list] - 1].event.at;
  return queue->later_count ? queue->later[0].at : UINT64_MAX;
}

braid_event braid_event_queue_take(braid_event_queue *queue) {
  size_t list = find_list(queue);
  queue->now = list < BRAID_EVENT_RING ? queue->nodes[queue->first[list] - 1].event.at : queue->later[0].at;
  /* Before anything is added to the lists that the ring comes to now: what is later was added earlier. */
  while (queue->later_count && queue->later[0].at - queue->now < BRAID_EVENT_RING) {
    braid_event moved = take_later(queue);
    add_soon(queue, &moved);
  }
  list = queue->now % BRAID_EVENT_RING;
  uint32_t number = queue->first[list];
  if (!number) return (braid_event){0}; /* there was no memory for it */
  braid_event_node *node = &queue->nodes[number - 1];
  queue->first[list] = node->next;
  if (!node->next) queue->some[list / 64] &= ~((uint64_t)1 << list % 64);
  node->next = queue->unused;
  queue->unused = number;
  return node->event;
}
