/* Times of packages: what is behind braid_overlay_simulate and braid_overlay_record_make. */
#ifndef BRAID_OVERLAY_PACKAGE_TIME_H
#define BRAID_OVERLAY_PACKAGE_TIME_H

#include "overlay/compiler/package.h"
#include "overlay/sim/timing.h"

/* INVALID_ARGUMENT: the package is for other cores than the design's, needs more memory than the card has, or the
 * design has no such number of cores. */
BRAID_MUST_CHECK braid_status braid_package_fits(const braid_package *package, const braid_overlay_design *design,
                                                 int cores);

/* Who wants to know more: `begin` (may be NULL) is told the programs before they run; they are gone when the function
 * below returns. */
typedef struct braid_package_watch {
  braid_status (*begin)(void *user, const braid_timing_program *programs, int cores);
  braid_timing_listener *listener;
  void *user;
} braid_package_watch;
/* As braid_overlay_simulate; `watch` may be NULL. */
BRAID_MUST_CHECK braid_status braid_package_time(const braid_package *package, const braid_overlay_design *design,
                                                 int cores, const braid_package_watch *watch,
                                                 braid_overlay_simulated *out);

#endif
