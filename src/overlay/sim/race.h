/* Finds two accesses to a line, one of them a write, that nothing orders. Within a core, vector clocks (Mattern 1989)
 * follow tokens: the n-th taken was the n-th given, since modules run in order. Across cores only sync_global orders.
 * For each line the last write is kept, and the last read of each module (as FastTrack does, Flanagan and Freund 2009).
 * A read of what was written before a `tile` is reported too. What is ordered does not depend on the order of the
 * simulation, so any one will do. */
#ifndef BRAID_OVERLAY_SIM_RACE_H
#define BRAID_OVERLAY_SIM_RACE_H

#include "overlay/sim/program.h"

typedef struct braid_overlay_races braid_overlay_races;

/* For the programs of so many cores and so many lines of DDR. Programs stay the caller's and outlive it. NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_overlay_races_create(const braid_overlay_design *design, int cores,
                                                         const braid_overlay_program *programs, int64_t ddr_lines,
                                                         const braid_allocator *allocator, braid_overlay_races **out);
void braid_overlay_races_destroy(braid_overlay_races *races);

/* Step `step` of core `core` begins: it has the tokens of its `wait`, and accesses what it does. DDR's lines count from
 * `segment`, a line of the image. INVALID_FILE names the line, both accesses and where they are. */
BRAID_MUST_CHECK braid_status braid_overlay_races_begin(braid_overlay_races *races, int core, uint32_t step,
                                                        int64_t segment);
/* The same step is done, and gives its tokens. */
void braid_overlay_races_end(braid_overlay_races *races, int core, uint32_t step);
/* SYSTEM that waits: all that its core did comes before all that it does. */
void braid_overlay_races_system(braid_overlay_races *races, int core);
/* sync_global. */
void braid_overlay_races_sync(braid_overlay_races *races);

#endif
