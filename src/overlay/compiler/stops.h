/* Places within a tile at which its core may be given away: what is to be loaded again where the task goes on, and how
 * long it takes until a core stands there. */
#ifndef BRAID_OVERLAY_COMPILER_STOPS_H
#define BRAID_OVERLAY_COMPILER_STOPS_H

#include "overlay/compiler/emit.h"

/* Sets what the SYSTEM instructions among a tile's say, and takes out those that could not be gone on from, and the
 * first one, with which the tile begins, unless it is gone back to. What a place repeats are the LOADs of slots that
 * are still read behind it. Where going on to the next place could take longer than `limit` cycles a core goes back.
 * *cycles: no core takes longer to stand, from when it is to be given away, while each bank serves the ports of all
 * cores alike, all of which want it. NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_stops_place(braid_emitter *emitter, const braid_overlay_design *design,
                                                int64_t limit, int64_t *cycles);

#endif
