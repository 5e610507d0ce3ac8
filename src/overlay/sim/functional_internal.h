/* The functional simulator's own: functional_create.c makes it, functional.c runs it. */
#ifndef BRAID_OVERLAY_FUNCTIONAL_INTERNAL_H
#define BRAID_OVERLAY_FUNCTIONAL_INTERNAL_H

#include "overlay/sim/core.h"
#include "overlay/sim/functional.h"
#include "overlay/sim/race.h"

/* A module's queue: instructions that dispatch handed to it and that have not begun. */
typedef struct braid_functional_queue {
  uint32_t head; /* step; the next to come where none waits */
  int32_t waiting;
} braid_functional_queue;

/* Where a core's program is. */
typedef struct braid_functional_place {
  uint32_t dispatch; /* the step that is handed out next; at SYSTEM, while the core is at it */
  uint32_t stop;     /* the step that it does not come to */
  braid_functional_queue queues[BRAID_ISA_MODULES];
  uint8_t tokens[BRAID_ISA_MODULES][BRAID_ISA_MODULES]; /* from, to */
  enum { kUndecided, kPasses, kStops } stops;           /* at a tile */
  bool stands;                                          /* has raised sync_local */
  bool ended;
  uint32_t tile;  /* behind the last tile, since a SYSTEM that waits; 0: there was none, or it was gone back to */
  uint32_t saved; /* behind the last SAVE that has begun */
  uint32_t priorities[BRAID_ISA_MODULES]; /* in the adversarial order: the highest goes first */
} braid_functional_place;

struct braid_functional {
  const braid_allocator *allocator;
  braid_overlay_design design;
  int count;
  braid_overlay_program *programs;
  braid_overlay_core *cores;
  braid_functional_place *places;
  uint8_t *vectors;
  int16_t tangents[BRAID_OVERLAY_TANGENTS];
  /* of a run */
  const braid_overlay_image *image;
  braid_functional_options options;
  braid_functional_counts counts;
  braid_overlay_races *races; /* NULL: not looked for */
  uint64_t done, work, drawn;
  uint32_t shuffle; /* priorities are drawn anew once in so many instructions; 0: never */
};

#endif
