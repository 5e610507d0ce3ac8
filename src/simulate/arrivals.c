#include "simulate/arrivals.h"

#include <math.h>

#include "base/philox.h"

braid_arrivals braid_arrivals_begin(const braid_scenario_tenant *tenant, const braid_share_recorded *trace,
                                    size_t trace_count, uint64_t seed, uint32_t stream) {
  braid_arrivals a = {.tenant = tenant,
                      .trace = trace,
                      .trace_count = trace_count,
                      .stretch = 1,
                      .seed = seed,
                      .stream = stream,
                      .rate = tenant->rate};
  if (tenant->arrivals != BRAID_ARRIVALS_TRACE) return a;
  double seconds = trace_count ? trace[trace_count - 1].seconds : 0;
  double recorded = seconds > 0 ? (double)trace_count / seconds : 0;
  if (a.rate > 0) a.stretch = recorded / a.rate;
  if (a.rate == 0) a.rate = recorded;
  return a;
}

/* Uniform in (0, 1), 48 bits: a gap may be long. */
static double draw(const braid_arrivals *a, uint32_t kind) {
  double high = (double)braid_random_uniform(a->seed, kind, a->stream, 2 * a->count);
  double low = (double)braid_random_uniform(a->seed, kind, a->stream, 2 * a->count + 1);
  return (high + low * 0x1p-24) + 0x1p-49;
}

/* Two exponential distributions with balanced means: each makes up half of the time (Whitt 1982). */
static double bursty_gap(const braid_arrivals *a) {
  double squared = a->tenant->burstiness * a->tenant->burstiness;
  double often = 0.5 * (1 + sqrt((squared - 1) / (squared + 1)));
  double part = draw(a, 1) < often ? often : 1 - often;
  return -log(draw(a, 0)) / (2 * part * a->rate);
}

double braid_arrivals_next(braid_arrivals *a) {
  switch (a->tenant->arrivals) {
  case BRAID_ARRIVALS_TRACE:
    a->at_s = a->count < a->trace_count ? a->trace[a->count].seconds * a->stretch : (double)INFINITY;
    break;
  case BRAID_ARRIVALS_EVEN:
    a->at_s += 1 / a->rate;
    break;
  case BRAID_ARRIVALS_BURSTY:
    a->at_s += bursty_gap(a);
    break;
  case BRAID_ARRIVALS_POISSON:
    a->at_s += -log(draw(a, 0)) / a->rate;
    break;
  }
  a->count++;
  return a->at_s;
}
