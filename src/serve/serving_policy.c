#include "serve/serving_policy.h"

#include <math.h>

bool braid_serve_before(const braid_serve_waiting *a, const braid_serve_waiting *b) {
  if (a->rank != b->rank) return a->rank < b->rank;
  if (a->due_ns != b->due_ns) return a->due_ns < b->due_ns;
  return a->arrived_ns < b->arrived_ns;
}

bool braid_serve_is_late(const braid_serve_waiting *waiting, int64_t now_ns, braid_serve_forecast *forecast,
                         const void *context) {
  if (!waiting->deadline_ns) return false;
  return (double)(waiting->deadline_ns - now_ns) < forecast(context, waiting->group, waiting->rows).mean_ns;
}

/* An instance in the plan of what waits: when it is free, on average, and the variance of that. */
typedef struct lane {
  double free_ns, variance;
} lane;

static lane *first_free(lane *lanes, size_t count) {
  lane *first = lanes;
  for (size_t i = 1; i < count; i++)
    if (lanes[i].free_ns < first->free_ns) first = &lanes[i];
  return first;
}

/* Takes the run that begins with waiting[first] on a lane: those of its group that have room and make no deadline of
 * the run be missed. Returns the rows. */
static int64_t take_group(const braid_serve_waiting *waiting, size_t count, size_t first, bool *taken, bool *in_run,
                          const lane *on, braid_serve_forecast *forecast, const void *context) {
  int64_t rows = 0, earliest = INT64_MAX;
  for (size_t i = first; i < count; i++) {
    const braid_serve_waiting *one = &waiting[i];
    in_run[i] = false;
    if (taken[i] || one->group != waiting[first].group) continue;
    int64_t deadline = one->deadline_ns && one->deadline_ns < earliest ? one->deadline_ns : earliest;
    if (i != first) {
      if (rows + one->rows > waiting[first].most_rows) continue;
      braid_serve_span span = forecast(context, one->group, rows + one->rows);
      double variance = on->variance + span.deviation_ns * span.deviation_ns;
      if (on->free_ns + span.mean_ns + BRAID_SERVE_DEVIATIONS * sqrt(variance) > (double)deadline) continue;
    }
    in_run[i] = taken[i] = true;
    rows += one->rows;
    earliest = deadline;
  }
  return rows;
}

/* When everything that waits would end at the latest, if waiting[skip] did not (count: all do), and when it would begin
 * on average. */
typedef struct expected {
  double begin_ns, end_ns;
} expected;

static void expect_all(const braid_serve_waiting *waiting, size_t count, size_t skip, int64_t now_ns,
                       const int64_t *free_ns, size_t instances, braid_serve_forecast *forecast, const void *context,
                       expected *out) {
  enum { LANES = 64 };
  lane lanes[LANES];
  bool taken[BRAID_SERVE_LOOKED_AT] = {false}, in_run[BRAID_SERVE_LOOKED_AT];
  if (instances > LANES) instances = LANES;
  for (size_t i = 0; i < instances; i++) lanes[i] = (lane){fmax((double)free_ns[i], (double)now_ns), 0};
  if (skip < count) taken[skip] = true;
  for (size_t first = 0; first < count; first++) {
    if (taken[first]) continue;
    lane *on = first_free(lanes, instances);
    double begin = on->free_ns;
    int64_t rows = take_group(waiting, count, first, taken, in_run, on, forecast, context);
    braid_serve_span span = forecast(context, waiting[first].group, rows);
    on->free_ns += span.mean_ns;
    on->variance += span.deviation_ns * span.deviation_ns;
    double end = on->free_ns + BRAID_SERVE_DEVIATIONS * sqrt(on->variance);
    for (size_t i = first; i < count; i++)
      if (in_run[i]) out[i] = (expected){begin, end};
  }
}

static bool in_time(const braid_serve_waiting *one, const expected *when) {
  return !one->deadline_ns || when->end_ns <= (double)one->deadline_ns;
}

braid_serve_admission braid_serve_admit(const braid_serve_waiting *waiting, size_t count, size_t newest, int64_t now_ns,
                                        const int64_t *free_ns, size_t instances, braid_serve_forecast *forecast,
                                        const void *context) {
  expected with[BRAID_SERVE_LOOKED_AT], without[BRAID_SERVE_LOOKED_AT];
  const braid_serve_waiting *request = &waiting[newest];
  braid_serve_admission result = {.admitted = !request->deadline_ns};
  if (count > BRAID_SERVE_LOOKED_AT) count = BRAID_SERVE_LOOKED_AT;
  if (newest >= count) return result;
  expect_all(waiting, count, count, now_ns, free_ns, instances, forecast, context, with);
  expect_all(waiting, count, newest, now_ns, free_ns, instances, forecast, context, without);
  result.end_ns = (int64_t)with[newest].end_ns;
  result.admitted = in_time(request, &with[newest]);
  if (!result.admitted && with[newest].begin_ns <= (double)now_ns) { /* at once, and on average in time: or a forecast
                                                                        that is too long would never be corrected */
    braid_serve_span span = forecast(context, request->group, request->rows);
    result.admitted = (double)now_ns + span.mean_ns <= (double)request->deadline_ns;
  }
  for (size_t i = 0; i < count; i++) /* what would be late anyway is not for this one to be refused */
    if (i != newest && waiting[i].rank <= request->rank && in_time(&waiting[i], &without[i]) &&
        !in_time(&waiting[i], &with[i]))
      result.admitted = false;
  return result;
}

/* Whether what comes next, and is not in the run, can still end in time behind a run of `span`, if it could behind one
 * of `least`. */
static bool leaves_time(const braid_serve_waiting *next, int64_t now_ns, braid_serve_span span, braid_serve_span least,
                        braid_serve_forecast *forecast, const void *context) {
  if (!next || !next->deadline_ns) return true;
  braid_serve_span own = forecast(context, next->group, next->rows);
  double room = (double)(next->deadline_ns - now_ns) - own.mean_ns - BRAID_SERVE_DEVIATIONS * own.deviation_ns;
  return span.mean_ns <= room || least.mean_ns > room;
}

braid_serve_choice braid_serve_choose(const braid_serve_waiting *waiting, size_t count, int64_t now_ns,
                                      braid_serve_forecast *forecast, const void *context) {
  braid_serve_choice choice = {0};
  if (!count) return choice;
  const braid_serve_waiting *first = waiting, *other = NULL;
  braid_serve_span alone = forecast(context, first->group, first->rows);
  int64_t earliest = first->deadline_ns ? first->deadline_ns : INT64_MAX;
  choice.members[choice.count++] = 0;
  choice.rows = first->rows;
  for (size_t i = 1; i < count && choice.count < BRAID_SERVE_TOGETHER && choice.rows < first->most_rows; i++) {
    const braid_serve_waiting *more = &waiting[i];
    if (more->group != first->group) {
      if (!other) other = more;
      continue;
    }
    int64_t rows = choice.rows + more->rows;
    if (rows > first->most_rows) continue;
    braid_serve_span span = forecast(context, first->group, rows);
    double end = (double)now_ns + span.mean_ns + BRAID_SERVE_DEVIATIONS * span.deviation_ns;
    int64_t deadline = more->deadline_ns && more->deadline_ns < earliest ? more->deadline_ns : earliest;
    if (end > (double)deadline || !leaves_time(other, now_ns, span, alone, forecast, context)) continue;
    earliest = deadline;
    choice.rows = rows;
    choice.members[choice.count++] = i;
  }
  int64_t until = first->arrived_ns + (int64_t)first->delay_ns;
  if (earliest != INT64_MAX) {
    braid_serve_span full = forecast(context, first->group, first->most_rows);
    int64_t latest = earliest - (int64_t)(full.mean_ns + BRAID_SERVE_DEVIATIONS * full.deviation_ns);
    if (latest < until) until = latest;
  }
  if (choice.rows < first->most_rows && choice.count == count && until > now_ns)
    choice = (braid_serve_choice){.wake_ns = until};
  return choice;
}

/* --- margin --------------------------------------------------------------------------------------------------------
 */
static const double kMarginHalf = 60e9; /* nanoseconds */

double braid_serve_margin_now(const braid_serve_margin *margin, int64_t now_ns) {
  return margin->ns * exp2(-(double)(now_ns - margin->at_ns) / kMarginHalf);
}

void braid_serve_margin_note(braid_serve_margin *margin, int64_t now_ns, bool missed, double late_ns, double mean_ns) {
  double step = mean_ns / 2, ns = braid_serve_margin_now(margin, now_ns);
  ns += missed ? fmax(step, late_ns) : -step / BRAID_SERVE_MISSES;
  *margin = (braid_serve_margin){fmax(0, ns), now_ns};
}
