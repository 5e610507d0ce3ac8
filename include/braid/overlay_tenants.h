/* Tenants of a card of the overlay (docs/sharing.md, docs/overlay.md): trials of their isolation with real programs on
 * the simulated card, and policies that share it, compared on traces with times that the simulator measured of
 * packages. All times are modelled. */
#ifndef BRAID_OVERLAY_TENANTS_H
#define BRAID_OVERLAY_TENANTS_H

#include "braid/overlay.h"

/* --- isolation ------------------------------------------------------------------------------------------------------
 * A tenant runs a package again and again, alone on its cores and beside an offender; its results are to be the same
 * bits, and its cycles the same within 1 %. */
typedef enum braid_overlay_beside {
  BRAID_OVERLAY_OWN_BANKS,   /* the cores of both are at different banks */
  BRAID_OVERLAY_GATED_BANK,  /* at one bank, where the gate of each core lets an equal part of it pass */
  BRAID_OVERLAY_SHARED_BANK, /* at one bank, ports taking turns */
  BRAID_OVERLAY_BESIDES
} braid_overlay_beside;
BRAID_API const char *braid_overlay_beside_name(braid_overlay_beside beside);

typedef struct braid_overlay_offence {
  const char *name, *text;
  bool fails; /* it is to get an error; else it does nothing wrong, but a lot */
} braid_overlay_offence;
BRAID_API size_t braid_overlay_offence_count(void);
BRAID_API braid_overlay_offence braid_overlay_offence_at(size_t index); /* `index` below the count */

typedef struct braid_overlay_trial {
  int cores, offender_cores;
  int64_t offences;    /* jobs of the offender that ended meanwhile */
  braid_status status; /* of the last of them */
  char why[256];       /* "": it ended well */
  int64_t cycles;      /* of the tenant's last job, alone */
  double deviation;    /* of the tenant's jobs beside the offender: the greatest |cycles / alone - 1| */
  double gate_cost;    /* what the gates cost the tenant when it is alone: share of its cycles; else 0 */
  bool same_bits;      /* of its results */
  bool clean;          /* when the offender is gone: memory and cores are free, and the next one finds 0 in both */
} braid_overlay_trial;
/* package NULL: one of six convolutions. INVALID_ARGUMENT: a package of other cores; UNSUPPORTED: the design has not
 * two cores at each of two banks. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_try_isolation(const braid_overlay_design *design,
                                                                    const braid_overlay_package *package,
                                                                    size_t offence, braid_overlay_beside beside,
                                                                    braid_overlay_trial *out);

#endif
