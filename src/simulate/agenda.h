/* What is to happen, by virtual time; of equal times what was noted first. */
#ifndef BRAID_SIMULATE_AGENDA_H
#define BRAID_SIMULATE_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef enum braid_agenda_what {
  BRAID_AGENDA_ARRIVAL,  /* a: tenant */
  BRAID_AGENDA_REACH,    /* a: job; it comes to its node */
  BRAID_AGENDA_REFUSED,  /* a: job; the gateway hears that its node refused it */
  BRAID_AGENDA_RUN_END,  /* a: node, b: instance */
  BRAID_AGENDA_WAKE,     /* a: node; a request has waited long enough for others */
  BRAID_AGENDA_LOADED,   /* a: node, b: model */
  BRAID_AGENDA_DETECT,   /* a: node; that it is lost is noticed */
  BRAID_AGENDA_SCENARIO, /* a: event of the scenario */
  BRAID_AGENDA_NOTICE,   /* a: event of the scenario, a cap that will hold soon */
  BRAID_AGENDA_CONTROL,  /* the placement is looked at */
} braid_agenda_what;

typedef struct braid_agenda_item {
  int64_t at_ns;
  uint64_t order;
  braid_agenda_what what;
  uint32_t a, b;
  uint32_t life; /* of the node; events of an earlier one are void */
} braid_agenda_item;

typedef struct braid_agenda {
  braid_agenda_item *items;
  size_t count, capacity;
  uint64_t order;
  const braid_allocator *allocator;
} braid_agenda;

BRAID_MUST_CHECK braid_status braid_agenda_note(braid_agenda *agenda, int64_t at_ns, braid_agenda_what what, uint32_t a,
                                                uint32_t b, uint32_t life);
/* False: nothing is left. */
bool braid_agenda_next(braid_agenda *agenda, braid_agenda_item *out);
void braid_agenda_deinit(braid_agenda *agenda);

#endif
