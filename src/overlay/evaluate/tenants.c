/* Tasks side by side on a card, and tasks that are told to stop. */
#include <string.h>

#include "base/try.h"
#include "overlay/evaluate/evaluate.h"

/* --- tenants -------------------------------------------------------------------------------------------------------
 */
typedef struct tenant_state {
  braid_placed_task placed;
  size_t id; /* of the run under way */
  int runs;  /* that have ended */
} tenant_state;

static braid_status check_tenant(const braid_overlay_design *design, const braid_overlay_tenant *tenant, size_t index,
                                 bool taken[BRAID_OVERLAY_MOST_CORES]) {
  uint8_t fingerprint[BRAID_SHA256_BYTES];
  int cores = tenant->task->info.cores;
  braid_design_fingerprint(design, fingerprint);
  if (memcmp(fingerprint, tenant->task->design, sizeof fingerprint) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the task of tenant %zu is compiled for other cores than those of %s",
                      index, design->name);
  if (tenant->core < 0 || tenant->core > design->cores - cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "tenant %zu has cores %d to %d; %s has 0 to %d", index, tenant->core,
                      tenant->core + cores - 1, design->name, design->cores - 1);
  for (int c = tenant->core; c < tenant->core + cores; c++) {
    if (taken[c]) return braid_fail(BRAID_INVALID_ARGUMENT, "two tenants have core %d", c);
    taken[c] = true;
  }
  return BRAID_OK;
}

static braid_status check_tenants(const braid_overlay_design *design, const braid_overlay_tenant *tenants,
                                  size_t count) {
  bool taken[BRAID_OVERLAY_MOST_CORES] = {false};
  bool any = false;
  for (size_t t = 0; t < count; t++) {
    BRAID_TRY(check_tenant(design, &tenants[t], t, taken));
    any |= tenants[t].runs > 0;
  }
  return any ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "%zu tenants, none of which has a run to be timed", count);
}

static braid_status check_memory(const braid_overlay_design *design, uint64_t lines) {
  if (lines <= (uint64_t)(design->bank_bytes * design->banks) / BRAID_ISA_WORD) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "the tenants need more memory than a card of %s has", design->name);
}

static braid_status has_ended(const braid_timing_result *result) {
  if (result->state == BRAID_TIMING_ENDED) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "the card refuses the programs: %s", result->why ? result->why : "no end");
}

/* Adds a run; shares of the time are divided at the end. */
static void add_run(const braid_timing_result *result, braid_overlay_timed *out) {
  out->cycles += (double)(result->ended - result->began);
  for (size_t c = 0; c < result->core_count; c++) {
    const braid_timing_core *core = &result->cores[c];
    double cores = (double)result->core_count;
    for (int m = 0; m < BRAID_OVERLAY_UNITS; m++) {
      out->busy[m] += (double)core->modules[m].busy / cores;
      out->waits[m] += (double)core->modules[m].waits / cores;
    }
    out->synchronizing += (double)core->synchronizing / cores;
    out->read_bytes += (double)core->modules[BRAID_ISA_IN].bytes;
    out->written_bytes += (double)core->modules[BRAID_ISA_OUT].bytes;
  }
}

static void finish(const braid_overlay_design *design, int runs, braid_overlay_timed *out) {
  if (runs < 1) return;
  for (int m = 0; out->cycles > 0 && m < BRAID_OVERLAY_UNITS; m++) {
    out->busy[m] /= out->cycles;
    out->waits[m] /= out->cycles;
  }
  if (out->cycles > 0) out->synchronizing /= out->cycles;
  out->cycles /= runs;
  out->read_bytes /= runs;
  out->written_bytes /= runs;
  out->seconds = out->cycles / (design->clock_mhz * 1e6);
}

static braid_status run_tenants(braid_timing *timing, const braid_overlay_tenant *tenants, tenant_state *states,
                                size_t count, braid_overlay_timed *out) {
  size_t left = 0, id;
  for (size_t t = 0; t < count; t++) {
    left += tenants[t].runs > 0;
    BRAID_TRY(braid_timing_submit(timing, &states[t].placed.task, &states[t].id));
  }
  while (left) {
    BRAID_TRY(braid_timing_advance(timing, UINT64_MAX, &id));
    size_t t = 0;
    while (t < count && states[t].id != id) t++;
    if (t == count) return braid_fail(BRAID_INTERNAL, "a task that nobody submitted has ended");
    braid_timing_result result = braid_timing_get(timing, id);
    BRAID_TRY(has_ended(&result));
    if (states[t].runs < tenants[t].runs) {
      add_run(&result, &out[t]);
      if (++states[t].runs == tenants[t].runs) left--;
    }
    if (left) BRAID_TRY(braid_timing_submit(timing, &states[t].placed.task, &states[t].id));
  }
  return BRAID_OK;
}

braid_status braid_overlay_time_tenants(const braid_overlay_design *design, const braid_overlay_tenant *tenants,
                                        size_t count, braid_overlay_timed *out) {
  braid_timing *timing = NULL;
  uint64_t line = 0;
  for (size_t t = 0; t < count; t++) out[t] = (braid_overlay_timed){0};
  BRAID_TRY(check_tenants(design, tenants, count));
  tenant_state *states = braid_zalloc_array(NULL, count, sizeof *states);
  braid_status status = states ? braid_timing_create(design, NULL, &timing) : BRAID_NO_MEMORY;
  for (size_t t = 0; status == BRAID_OK && t < count; t++)
    braid_overlay_task_place(tenants[t].task, design, tenants[t].core, &line, &states[t].placed);
  if (status == BRAID_OK) status = check_memory(design, line);
  if (status == BRAID_OK) status = run_tenants(timing, tenants, states, count, out);
  for (size_t t = 0; status == BRAID_OK && t < count; t++) finish(design, tenants[t].runs, &out[t]);
  braid_timing_destroy(timing);
  braid_free(NULL, states);
  return status;
}

/* --- stops ---------------------------------------------------------------------------------------------------------
 */
typedef struct stop_trial {
  braid_timing *timing;
  braid_placed_task placed;
  uint64_t period;
  uint64_t cycles; /* of the last stop */
  bool advanced;   /* before it was told to stop */
  bool ended;      /* it came to its end before */
} stop_trial;

/* Goes on, `waits` until the task has come further, and is stopped after the period. */
static braid_status stop_once(stop_trial *s, bool waits) {
  size_t id, done;
  BRAID_TRY(braid_timing_submit(s->timing, &s->placed.task, &id));
  do {
    s->advanced = braid_timing_has_advanced(s->timing, id);
    BRAID_TRY(braid_timing_advance(s->timing, braid_timing_now(s->timing) + s->period, &done));
  } while (waits && !s->advanced && done == SIZE_MAX);
  uint64_t asked = braid_timing_now(s->timing);
  if (done == SIZE_MAX) {
    s->advanced = braid_timing_has_advanced(s->timing, id);
    braid_timing_stop(s->timing, id, BRAID_TIMING_AT_TILE);
    BRAID_TRY(braid_timing_advance(s->timing, UINT64_MAX, &done));
  }
  braid_timing_result result = braid_timing_get(s->timing, id);
  s->ended = result.state != BRAID_TIMING_STOPPED;
  if (s->ended) return has_ended(&result);
  s->cycles = result.ended > asked ? result.ended - asked : 0;
  for (size_t c = 0; c < result.core_count; c++) s->placed.programs[c].first = result.cores[c].stopped_at;
  return BRAID_OK;
}

static void add_stop(double us, size_t *count, double *mean, double *worst) {
  *mean += (us - *mean) / (double)++*count;
  if (us > *worst) *worst = us;
}

braid_status braid_overlay_time_stops(const braid_overlay_design *design, const braid_overlay_task *task,
                                      uint64_t period_cycles, braid_overlay_stops *out) {
  const braid_overlay_tenant alone = {task, 0, 1};
  stop_trial s = {.period = period_cycles};
  uint64_t line = 0;
  *out = (braid_overlay_stops){0};
  BRAID_TRY(check_tenants(design, &alone, 1));
  if (!period_cycles) return braid_fail(BRAID_INVALID_ARGUMENT, "a period of 0 cycles");
  braid_overlay_task_place(task, design, 0, &line, &s.placed);
  braid_status status = check_memory(design, line);
  if (status == BRAID_OK) status = braid_timing_create(design, NULL, &s.timing);
  for (bool waits = true; status == BRAID_OK && !s.ended; waits = !waits) {
    status = stop_once(&s, waits);
    if (status != BRAID_OK || s.ended) break;
    double us = (double)s.cycles / design->clock_mhz;
    if (s.advanced)
      add_stop(us, &out->count, &out->mean_us, &out->worst_us);
    else
      add_stop(us, &out->again_count, &out->again_mean_us, &out->again_worst_us);
  }
  braid_timing_destroy(s.timing);
  return status;
}
