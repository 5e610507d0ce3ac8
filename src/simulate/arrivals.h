/* When a tenant's requests come. */
#ifndef BRAID_SIMULATE_ARRIVALS_H
#define BRAID_SIMULATE_ARRIVALS_H

#include "overlay/share/recorded.h"
#include "simulate/scenario.h"

typedef struct braid_arrivals {
  const braid_scenario_tenant *tenant;
  const braid_share_recorded *trace; /* of tenants whose requests were recorded */
  size_t trace_count;
  double stretch; /* of the trace's times */
  uint64_t seed;
  uint32_t stream;
  uint64_t count; /* requests that have come */
  double rate;    /* requests a second, now */
  double at_s;    /* when the last one came */
} braid_arrivals;

/* Streams of random numbers are told apart by `stream`. */
braid_arrivals braid_arrivals_begin(const braid_scenario_tenant *tenant, const braid_share_recorded *trace,
                                    size_t trace_count, uint64_t seed, uint32_t stream);
/* Seconds until which nothing comes; INFINITY: nothing comes any more. */
double braid_arrivals_next(braid_arrivals *arrivals);

#endif
