/* Programs of tenants that mean harm, for trials of isolation. */
#ifndef BRAID_OVERLAY_CARD_OFFENCES_H
#define BRAID_OVERLAY_CARD_OFFENCES_H

#include "braid/overlay_tenants.h"
#include "overlay/card/card.h"

typedef struct card_offender {
  const braid_allocator *allocator;
  int cores;
  bool uses_package;    /* it runs the tenant's package, and is cut short or resized */
  uint64_t most_cycles; /* 0: no limit */
  uint8_t *bytes[BRAID_OVERLAY_MOST_CORES];
  size_t capacity[BRAID_OVERLAY_MOST_CORES];
  braid_overlay_code programs[BRAID_OVERLAY_MOST_CORES];
  braid_card_code code;
  bool failed; /* no memory */
} card_offender;

typedef enum card_offence {
  CARD_FOREIGN_READ,
  CARD_FOREIGN_WRITE,
  CARD_READ_ONLY,
  CARD_CORRUPTED,
  CARD_NO_SYNC,
  CARD_NO_TOKEN,
  CARD_OVERRUN,
  CARD_CUT,
  CARD_FLOOD,
  CARD_TRICKLE,
  CARD_CHATTER,
  CARD_RESIZED,
  CARD_CROWD,
  CARD_OFFENCES
} card_offence;

/* The caller frees it, also after a failure. `alone`: cycles of the tenant's package. */
braid_status card_offender_make(card_offender *offender, card_offence offence, const braid_overlay_design *design,
                                int cores, uint64_t alone, const braid_allocator *allocator);
/* What the next one finds: its outputs are its own maps in DDR and the memories of its cores as they were. */
braid_status card_finder_make(card_offender *finder, const braid_overlay_design *design, int cores,
                              const braid_allocator *allocator);
void card_offender_free(card_offender *offender);

#endif
