/* What networks take on a card, and jobs that run them, behind braid/overlay_tenants.h: costs.c asks the timing
 * simulator, traffic.c the policies. */
#ifndef BRAID_OVERLAY_SHARE_COSTS_H
#define BRAID_OVERLAY_SHARE_COSTS_H

#include "braid/overlay_tenants.h"
#include "overlay/share/policy.h"

struct braid_overlay_costs {
  const braid_allocator *allocator;
  char *name;
  int cores;
  double seconds[BRAID_OVERLAY_MOST_CORES], switch_seconds[BRAID_OVERLAY_MOST_CORES];
  double *places, *place_seconds; /* NULL: there are none */
  braid_share_model model;        /* points to these */
};

#endif
