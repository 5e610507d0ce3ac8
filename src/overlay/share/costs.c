/* Latencies of a package by its number of cores, as the timing simulator has them. */
#include "overlay/share/costs.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "overlay/card/card.h"
#include "overlay/recurrent/rnn.h"
#include "overlay/sim/package_time.h"

_Static_assert((int)BRAID_OVERLAY_COMPILE_US == (int)BRAID_CARD_COMPILE_US, "the card's");

/* --- ends of layers -------------------------------------------------------------------------------------------------
 * All cores synchronize where a layer ends, or a step of a recurrent network (within a step too, then the next one says
 * that it is of the same step). The stretch that ends there has ended when its last instruction has, on any core. */
typedef struct stretches {
  const braid_allocator *allocator;
  uint32_t *of[BRAID_OVERLAY_MOST_CORES]; /* of each instruction, its stretch */
  uint64_t *ends;                         /* cycles */
  size_t count;
} stretches;

static bool synchronizes(const braid_instruction *instruction) {
  return instruction->opcode == BRAID_ISA_OP_SYSTEM && instruction->system.sync;
}

/* The stretch of each instruction, counted from the last one; how many there are. */
static size_t number_stretches(const braid_timing_program *p, uint32_t *of) {
  uint32_t at = 0;
  int32_t layer = -1;
  for (size_t i = p->count; i-- > 0;) {
    if (synchronizes(&p->instructions[i])) {
      at += layer >= 0 && p->instructions[i].system.layer != layer;
      layer = p->instructions[i].system.layer;
    }
    of[i] = at;
  }
  return (size_t)at + 1;
}

static braid_status begin_stretches(void *user, const braid_timing_program *programs, int cores) {
  stretches *s = user;
  for (int c = 0; c < cores; c++) {
    const braid_timing_program *p = &programs[c];
    s->of[c] = braid_zalloc_array(s->allocator, p->count + 1, sizeof *s->of[c]);
    if (!s->of[c]) return BRAID_NO_MEMORY;
    size_t count = number_stretches(p, s->of[c]);
    if (c && count != s->count)
      return braid_fail(BRAID_INTERNAL, "core %d has %zu layers, and core 0 %zu", c, count, s->count);
    s->count = count;
    for (size_t i = 0; i < p->count; i++) s->of[c][i] = (uint32_t)count - 1 - s->of[c][i];
  }
  s->ends = braid_zalloc_array(s->allocator, s->count, sizeof *s->ends);
  return s->ends ? BRAID_OK : BRAID_NO_MEMORY;
}

static void hear_stretches(void *user, const braid_timing_span *span) {
  stretches *s = user;
  if (span->kind != BRAID_TIMING_SPAN_RAN) return;
  uint64_t *end = &s->ends[s->of[span->index][span->instruction]];
  if (span->to > *end) *end = span->to;
}

static void free_stretches(stretches *s) {
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) braid_free(s->allocator, s->of[c]);
  braid_free(s->allocator, s->ends);
}

/* --- one number of cores --------------------------------------------------------------------------------------------
 */
/* Of all numbers of cores; ends by number of cores, then by stretch. */
typedef struct measured {
  double *ends;
  size_t count; /* of stretches; 0: not known yet */
} measured;

static braid_status keep_ends(braid_overlay_costs *costs, int k, double hertz, const stretches *s, measured *m) {
  if (!m->count) {
    m->count = s->count;
    m->ends = braid_zalloc_array(costs->allocator, m->count * (size_t)costs->cores, sizeof *m->ends);
    if (!m->ends) return BRAID_NO_MEMORY;
  }
  if (s->count != m->count)
    return braid_fail(BRAID_INTERNAL, "%s has %zu layers on %d cores, and %zu on one", costs->name, s->count, k,
                      m->count);
  for (size_t i = 0; i < s->count; i++) m->ends[(size_t)(k - 1) * m->count + i] = (double)s->ends[i] / hertz;
  return BRAID_OK;
}

static braid_status measure(const braid_package *package, const braid_overlay_design *design, int k,
                            braid_overlay_costs *costs, measured *m) {
  stretches s = {.allocator = costs->allocator};
  const braid_package_watch watch = {begin_stretches, hear_stretches, &s};
  braid_overlay_simulated simulated;
  braid_status status = braid_package_time(package, design, k, &watch, &simulated);
  if (status == BRAID_OK) {
    costs->seconds[k - 1] = simulated.seconds;
    costs->switch_seconds[k - 1] = BRAID_OVERLAY_COMPILE_US * 1e-6 + simulated.transfer_seconds;
    status = keep_ends(costs, k, design->clock_mhz * 1e6, &s, m);
  }
  free_stretches(&s);
  return status;
}

/* --- places --------------------------------------------------------------------------------------------------------
 */
/* Whether the stretch takes time on each number of cores. The last one ends with the run. */
static bool is_place(const braid_overlay_costs *costs, const measured *m, size_t stretch, const double *before) {
  for (int k = 0; k < costs->cores; k++) {
    double end = m->ends[(size_t)k * m->count + stretch];
    if (!(end > before[k] && end < costs->seconds[k])) return false;
  }
  return stretch + 1 < m->count;
}

/* A place's share of the run is the mean of its shares of the times, over the numbers of cores. */
static braid_status make_places(braid_overlay_costs *costs, const measured *m) {
  double before[BRAID_OVERLAY_MOST_CORES] = {0};
  size_t cores = (size_t)costs->cores, count = 0;
  size_t *stretch = braid_zalloc_array(costs->allocator, m->count, sizeof *stretch);
  if (!stretch) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < m->count; i++) {
    if (!is_place(costs, m, i, before)) continue;
    for (size_t k = 0; k < cores; k++) before[k] = m->ends[k * m->count + i];
    stretch[count++] = i;
  }
  costs->places = braid_zalloc_array(costs->allocator, count + 1, sizeof *costs->places);
  costs->place_seconds = braid_zalloc_array(costs->allocator, count * cores + 1, sizeof *costs->place_seconds);
  bool fits = costs->places && costs->place_seconds;
  for (size_t p = 0; p < count && fits; p++) {
    for (size_t k = 0; k < cores; k++) {
      double end = m->ends[k * m->count + stretch[p]];
      costs->place_seconds[k * count + p] = end;
      costs->places[p] += end / costs->seconds[k] / (double)cores;
    }
  }
  costs->model.place_count = count;
  braid_free(costs->allocator, stretch);
  return fits ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static void tell(const braid_progress *progress, const char *what, int done, int total) {
  if (progress && progress->report) progress->report(progress->context, what, (size_t)done, (size_t)total);
}

static braid_status measure_all(const braid_package *package, const braid_overlay_design *design,
                                const braid_progress *progress, braid_overlay_costs *costs) {
  measured m = {0};
  braid_status status = BRAID_OK;
  for (int k = 1; status == BRAID_OK && k <= costs->cores; k++) {
    tell(progress, costs->name, k - 1, costs->cores);
    status = measure(package, design, k, costs, &m);
  }
  if (status == BRAID_OK) status = make_places(costs, &m);
  if (status == BRAID_OK) tell(progress, costs->name, costs->cores, costs->cores);
  braid_free(costs->allocator, m.ends);
  return status;
}

braid_status braid_overlay_costs_create(const braid_overlay_package *package, const braid_overlay_design *design,
                                        const char *name, const braid_progress *progress,
                                        const braid_allocator *allocator, braid_overlay_costs **out) {
  *out = NULL;
  braid_overlay_costs *costs = braid_zalloc(allocator, sizeof *costs);
  if (!costs) return BRAID_NO_MEMORY;
  costs->allocator = allocator;
  costs->cores = design->cores;
  costs->name = braid_zalloc(allocator, strlen(name) + 1);
  braid_status status = costs->name ? BRAID_OK : BRAID_NO_MEMORY;
  if (costs->name) memcpy(costs->name, name, strlen(name));
  if (status == BRAID_OK) status = measure_all(package, design, progress, costs);
  costs->model = (braid_share_model){.name = costs->name,
                                     .seconds = costs->seconds,
                                     .switch_seconds = costs->switch_seconds,
                                     .places = costs->places,
                                     .place_count = costs->model.place_count,
                                     .place_seconds = costs->place_seconds};
  if (package->rnn)
    costs->model.vector_seconds = design->host_latency_us * 1e-6 + (double)braid_rnn_context_bytes(package->rnn) /
                                                                       (design->host_gigabytes_per_second * 1e9);
  if (status == BRAID_OK)
    *out = costs;
  else
    braid_overlay_costs_destroy(costs);
  return status;
}

void braid_overlay_costs_destroy(braid_overlay_costs *costs) {
  if (!costs) return;
  braid_free(costs->allocator, costs->name);
  braid_free(costs->allocator, costs->places);
  braid_free(costs->allocator, costs->place_seconds);
  braid_free(costs->allocator, costs);
}

braid_overlay_costs_info braid_overlay_costs_get_info(const braid_overlay_costs *costs) {
  return (braid_overlay_costs_info){costs->name,
                                    costs->cores,
                                    costs->seconds,
                                    costs->switch_seconds,
                                    costs->model.vector_seconds,
                                    costs->model.place_count};
}
