#include "overlay/share/card.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"

typedef enum phase { WAITING, SWITCHING, RUNNING } phase;

/* A job that has arrived and is the next of its context. */
typedef struct active {
  size_t id;
  phase phase;
  uint64_t cores, last_cores; /* that it holds; that it held last */
  int target;
  double since;    /* of the phase, or of what was counted of it last */
  double progress; /* at `since` */
  double until;    /* the end of the switch */
  double waiting_since;
  double kept[BRAID_SHARE_KEPT];
} active;

/* The instructions that a core holds. */
typedef struct loaded {
  size_t tenant, model;
  uint64_t cores; /* of the program; 0: none */
} loaded;

typedef struct simulation {
  const braid_share_card *card;
  const braid_share_policy *policy;
  const braid_allocator *allocator;
  braid_share_result *results;
  braid_share_counters *counters;
  braid_share_totals totals;
  double now, next_quantum;
  uint64_t free; /* cores */
  loaded loaded[BRAID_OVERLAY_MOST_CORES];
  active *jobs; /* by arrival, then by id */
  size_t count;
  size_t arrived, tenants;
  size_t *next;     /* per job: the next one of its context that has arrived; SIZE_MAX: none */
  size_t *tail;     /* per context: its last job that has arrived; SIZE_MAX: none is left */
  uint64_t *public; /* per context: its cores */
  braid_share_job *view;
  braid_share_answer *answers;
  size_t *order;
} simulation;

static int count_of(uint64_t cores) {
  return __builtin_popcountll(cores);
}

static uint64_t all_of(int cores) {
  return cores == 64 ? UINT64_MAX : (UINT64_C(1) << cores) - 1;
}

static const braid_share_submission *job_of(const simulation *s, const active *a) {
  return &s->card->jobs[a->id];
}

static const braid_share_context *context_of(const simulation *s, const active *a) {
  return &s->card->contexts[job_of(s, a)->context];
}

static const braid_share_model *model_of(const simulation *s, const active *a) {
  return &s->card->models[job_of(s, a)->model];
}

static braid_share_result *result_of(const simulation *s, const active *a) {
  return &s->results[a->id];
}

static double stretch_of(const simulation *s, const active *a) {
  double stretch = job_of(s, a)->stretch;
  return stretch > 0 ? stretch : 1;
}

/* Seconds until it has done so much of its run, on the cores that it holds. */
static double seconds_to(const simulation *s, const active *a, double share) {
  return braid_share_between(model_of(s, a), count_of(a->cores), a->progress, share) * stretch_of(s, a);
}

/* The next place after what is done; 1: the end. */
static double next_place(const simulation *s, const active *a) {
  return braid_share_next_place(model_of(s, a), a->progress);
}

/* How far it goes before something has to be done about it. */
static double next_stop(const simulation *s, const active *a) {
  double stop = a->target == count_of(a->cores) ? 1 : next_place(s, a), fails = job_of(s, a)->fails_at;
  return fails > 0 && fails < stop ? fmax(fails, a->progress) : stop;
}

static double time_out_at(const simulation *s, const active *a) {
  double most = context_of(s, a)->time_out_seconds;
  return most > 0 ? a->since + fmax(most - result_of(s, a)->executed, 0) : INFINITY;
}

static double next_event(const simulation *s, const active *a) {
  if (a->phase == WAITING) return INFINITY;
  if (a->phase == SWITCHING) return a->until;
  double stop = next_stop(s, a); /* 0 x INFINITY is none: a job that never ends stops nowhere */
  return fmin(stop > a->progress ? a->since + seconds_to(s, a, stop) : a->since, time_out_at(s, a));
}

/* --- what is counted -----------------------------------------------------------------------------------------------
 */
/* Counts what it did until now, of which `progress` was made. */
static void count_span(simulation *s, active *a, double progress) {
  braid_share_result *result = result_of(s, a);
  double seconds = s->now - a->since, core_seconds = seconds * count_of(a->cores);
  bool switching = a->phase == SWITCHING;
  if (a->phase == WAITING) {
    result->waited += seconds;
  } else {
    *(switching ? &result->switched : &result->executed) += seconds;
    *(switching ? &s->totals.switch_core_seconds : &s->totals.progress_core_seconds) += core_seconds;
    result->core_seconds += core_seconds;
    result->work += progress;
    if (s->card->on_span && seconds > 0) {
      braid_share_span span = {a->id, a->cores, switching, a->since, s->now, progress};
      s->card->on_span(&span, s->card->on_span_context);
    }
  }
  a->progress += progress;
  a->since = s->now;
}

static double progress_now(const simulation *s, const active *a) {
  if (a->phase != RUNNING) return 0;
  double seconds = (s->now - a->since) / stretch_of(s, a);
  return braid_share_made(model_of(s, a), count_of(a->cores), a->progress, seconds);
}

static void end_wait(simulation *s, active *a) {
  braid_share_result *result = result_of(s, a);
  if (result->start == INFINITY) result->start = s->now;
  result->longest_wait = fmax(result->longest_wait, s->now - a->waiting_since);
}

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
static bool holds(const simulation *s, const active *a, uint64_t cores) {
  for (int c = 0; c < s->card->cores; c++) {
    const loaded *l = &s->loaded[c];
    if (!(cores >> c & 1)) continue;
    if (l->cores != cores || l->tenant != context_of(s, a)->tenant || l->model != job_of(s, a)->model) return false;
  }
  return true;
}

static uint64_t take_lowest(uint64_t from, int count) {
  uint64_t taken = 0;
  while (count-- > 0) {
    uint64_t lowest = from & (~from + 1);
    taken |= lowest;
    from ^= lowest;
  }
  return taken;
}

/* `count` of its own and the free cores: those that hold its instructions, else those that it has, or had last. */
static uint64_t choose_cores(const simulation *s, const active *a, int count) {
  uint64_t at_hand = s->free | a->cores;
  if (s->card->is_public) return s->public[job_of(s, a)->context];
  for (int c = 0; c < s->card->cores; c++) {
    uint64_t cores = s->loaded[c].cores;
    if (count_of(cores) == count && !(cores & ~at_hand) && holds(s, a, cores)) return cores;
  }
  uint64_t own = (a->cores ? a->cores : a->last_cores) & at_hand,
           taken = take_lowest(own, count < count_of(own) ? count : count_of(own));
  return taken | take_lowest(at_hand & ~taken, count - count_of(taken));
}

/* Gives it `count` cores, at a place or when it starts. */
static void give_cores(simulation *s, active *a, int count) {
  const braid_share_model *model = model_of(s, a);
  braid_share_result *result = result_of(s, a);
  uint64_t cores = choose_cores(s, a, count), before = a->cores ? a->cores : a->last_cores;
  if (a->phase == WAITING) end_wait(s, a);
  if (a->progress > 0 && before & ~cores && count_of(before & cores) < count) {
    result->migrations++; /* it goes on on a core that it did not have, and lacks one that it had */
    s->counters[job_of(s, a)->context].migrations++;
  }
  double cost = a->progress > 0 ? model->vector_seconds : 0;
  if (!holds(s, a, cores)) {
    if (model->switch_seconds) cost += model->switch_seconds[count - 1];
    for (int c = 0; c < s->card->cores; c++)
      if (cores >> c & 1) s->loaded[c] = (loaded){context_of(s, a)->tenant, job_of(s, a)->model, cores};
    result->switches++;
  }
  s->free = (s->free | a->cores) & ~cores;
  a->cores = cores;
  a->phase = cost > 0 ? SWITCHING : RUNNING;
  a->since = s->now;
  a->until = s->now + cost;
}

static void take_cores(simulation *s, active *a) {
  s->free |= a->cores;
  if (a->cores) a->last_cores = a->cores;
  a->cores = 0;
  a->phase = WAITING;
  a->since = a->waiting_since = s->now;
}

/* It is at a place, and shall have other cores. */
static void change_cores(simulation *s, active *a) {
  int have = count_of(a->cores);
  if (a->target == 0) {
    result_of(s, a)->preemptions++;
    s->counters[job_of(s, a)->context].preemptions++;
    take_cores(s, a);
  } else if (a->target < have || a->target - have <= count_of(s->free)) {
    give_cores(s, a, a->target);
  }
}

/* --- arrivals and ends ---------------------------------------------------------------------------------------------
 */
/* Puts a job among those that the policy sees, which are ordered by arrival and id. */
static void activate(simulation *s, size_t id) {
  size_t at = s->count++;
  for (; at > 0 && s->jobs[at - 1].id > id; at--) s->jobs[at] = s->jobs[at - 1];
  s->jobs[at] = (active){.id = id, .since = s->now, .waiting_since = s->now};
  s->results[id].waited = s->now - s->card->jobs[id].arrival; /* for those before it in its context */
  s->jobs[at].waiting_since = s->card->jobs[id].arrival;
}

static bool arrive(simulation *s) {
  bool any = false;
  for (; s->arrived < s->card->job_count && s->card->jobs[s->arrived].arrival <= s->now; s->arrived++) {
    size_t id = s->arrived, context = s->card->jobs[id].context;
    s->results[id] = (braid_share_result){.sequence = ++s->counters[context].command_submissions, .start = INFINITY};
    s->next[id] = SIZE_MAX;
    if (s->tail[context] == SIZE_MAX)
      activate(s, id);
    else
      s->next[s->tail[context]] = id;
    s->tail[context] = id;
    any = true;
  }
  return any;
}

static void finish(simulation *s, active *a, braid_status status) {
  braid_share_result *result = result_of(s, a);
  size_t id = a->id, context = job_of(s, a)->context, next = s->next[id];
  braid_share_counters *counters = &s->counters[context];
  result->status = status;
  result->end = s->now;
  counters->command_completions++;
  counters->core_seconds += result->core_seconds;
  if (status != BRAID_OK) {
    *(status == BRAID_TIMEOUT ? &counters->time_outs : &counters->errors) += 1;
    for (int c = 0; c < s->card->cores; c++) /* nothing of it is left to the next one */
      if (a->cores >> c & 1) s->loaded[c].cores = 0;
  }
  s->free |= a->cores;
  s->totals.seconds = s->now;
  size_t at = (size_t)(a - s->jobs);
  memmove(a, a + 1, (--s->count - at) * sizeof *a);
  if (s->tail[context] == id) s->tail[context] = SIZE_MAX;
  if (next != SIZE_MAX) activate(s, next);
}

/* Something is due of this job. True: it ended, and is gone. */
static bool advance(simulation *s, active *a) {
  if (a->phase == SWITCHING) {
    count_span(s, a, 0);
    a->phase = RUNNING;
    return false;
  }
  double stop = next_stop(s, a), fails = job_of(s, a)->fails_at;
  if (time_out_at(s, a) <= s->now) {
    count_span(s, a, progress_now(s, a));
    finish(s, a, BRAID_TIMEOUT);
    return true;
  }
  count_span(s, a, stop - a->progress);
  a->progress = stop; /* exactly, whatever the sum was rounded to */
  if (stop >= 1 || (fails > 0 && stop >= fails)) {
    finish(s, a, stop >= 1 ? BRAID_OK : BRAID_DEVICE_LOST);
    return true;
  }
  change_cores(s, a);
  return false;
}

/* --- the policy ----------------------------------------------------------------------------------------------------
 */
static void show(const simulation *s, active *a, braid_share_job *view) {
  const braid_share_submission *job = job_of(s, a);
  const braid_share_context *context = context_of(s, a);
  const braid_share_result *result = result_of(s, a);
  double allowed = job->latency_seconds > 0 ? job->latency_seconds : context->latency_seconds;
  double progress = progress_now(s, a), seconds = s->now - a->since, place = 0;
  if (a->phase != WAITING) {
    double from = a->progress + progress;
    place = fmax(braid_share_between(model_of(s, a), count_of(a->cores), from, next_place(s, a)), 0);
    if (a->phase == SWITCHING) place += a->until - s->now;
  }
  *view = (braid_share_job){.id = a->id,
                            .model = model_of(s, a),
                            .tenant = context->tenant,
                            .priority = context->priority,
                            .arrival = job->arrival,
                            .deadline = allowed > 0 ? job->arrival + allowed : INFINITY,
                            .progress = a->progress + progress,
                            .cores = count_of(a->cores),
                            .target = a->target,
                            .least = context->least ? context->least : 1,
                            .most = context->most ? context->most : s->card->cores,
                            .switching = a->phase == SWITCHING,
                            .executed = result->executed + (a->phase == RUNNING ? seconds : 0),
                            .waited = result->waited + (a->phase == WAITING ? seconds : 0),
                            .waiting_since = a->waiting_since,
                            .to_place = place,
                            .kept = a->kept};
}

static void kill_job(simulation *s, active *a) {
  count_span(s, a, progress_now(s, a));
  result_of(s, a)->kills++;
  a->progress = 0;
  take_cores(s, a);
}

static braid_status ask_policy(simulation *s) {
  int given = 0;
  if (s->card->is_public) {
    for (size_t j = 0; j < s->count; j++) s->jobs[j].target = context_of(s, &s->jobs[j])->most;
    return BRAID_OK;
  }
  for (size_t j = 0; j < s->count; j++) show(s, &s->jobs[j], &s->view[j]);
  memset(s->answers, 0, s->count * sizeof *s->answers);
  braid_share_view view = {s->now, s->card->cores, s->tenants, s->view, s->count, s->order, s->allocator};
  BRAID_TRY(s->policy->decide(&view, s->answers));
  s->totals.asked++;
  for (size_t j = 0; j < s->count; j++) {
    const braid_share_job *job = &s->view[j];
    int cores = s->answers[j].cores;
    given += cores;
    if (cores && (cores < job->least || cores > job->most))
      return braid_fail(BRAID_INTERNAL, "%s gives job %zu %d cores; allowed: %d to %d", s->policy->name, job->id, cores,
                        job->least, job->most);
    if (s->answers[j].kill && s->jobs[j].phase != WAITING) kill_job(s, &s->jobs[j]);
    if (s->jobs[j].phase == RUNNING && cores != s->jobs[j].target) /* its next place is after what it has done by now */
      count_span(s, &s->jobs[j], progress_now(s, &s->jobs[j]));
    s->jobs[j].target = cores;
  }
  if (given > s->card->cores)
    return braid_fail(BRAID_INTERNAL, "%s gives %d cores, of %d", s->policy->name, given, s->card->cores);
  return BRAID_OK;
}

static void start_waiting(simulation *s) {
  for (size_t j = 0; j < s->count; j++) {
    active *a = &s->jobs[j];
    if (a->phase != WAITING || !a->target || a->target > count_of(s->free)) continue;
    count_span(s, a, 0);
    give_cores(s, a, a->target);
  }
}

/* --- the run -------------------------------------------------------------------------------------------------------
 */
static double next_time(const simulation *s) {
  double next = s->arrived < s->card->job_count ? s->card->jobs[s->arrived].arrival : INFINITY;
  for (size_t j = 0; j < s->count; j++) next = fmin(next, next_event(s, &s->jobs[j]));
  if (s->policy->quantum_seconds > 0 && s->count > 1 && !s->card->is_public) next = fmin(next, s->next_quantum);
  return fmax(next, s->now);
}

static braid_status simulate(simulation *s) {
  while (s->arrived < s->card->job_count || s->count) {
    double next = next_time(s);
    if (isinf(next))
      return braid_fail(BRAID_INTERNAL, "%s gives no core to any of %zu jobs that wait", s->policy->name, s->count);
    s->now = next;
    bool changed = arrive(s);
    for (size_t j = 0; j < s->count;) {
      active *a = &s->jobs[j];
      if (next_event(s, a) > s->now)
        j++;
      else if (advance(s, a))
        changed = true, j = 0; /* another one may have come before it */
    }
    bool quantum = s->policy->quantum_seconds > 0 && s->now >= s->next_quantum;
    if (changed || quantum) {
      BRAID_TRY(ask_policy(s));
      s->next_quantum = s->now + s->policy->quantum_seconds;
    }
    start_waiting(s);
  }
  return BRAID_OK;
}

static void give_public(simulation *s) {
  int from = 0;
  for (size_t c = 0; c < s->card->context_count && s->card->is_public; c++) {
    s->public[c] = all_of(s->card->contexts[c].most) << from;
    from += s->card->contexts[c].most;
  }
}

braid_status braid_share_run(const braid_share_card *card, const braid_share_policy *policy,
                             const braid_allocator *allocator, braid_share_result *results,
                             braid_share_counters *counters, braid_share_totals *totals) {
  memset(totals, 0, sizeof *totals);
  BRAID_TRY(braid_share_check(card));
  simulation s = {.card = card, .policy = policy, .allocator = allocator, .results = results, .counters = counters};
  s.free = all_of(card->cores);
  s.jobs = braid_zalloc_array(allocator, card->job_count, sizeof *s.jobs);
  s.view = braid_zalloc_array(allocator, card->job_count, sizeof *s.view);
  s.answers = braid_zalloc_array(allocator, card->job_count, sizeof *s.answers);
  s.order = braid_zalloc_array(allocator, card->job_count, sizeof *s.order);
  s.next = braid_zalloc_array(allocator, card->job_count, sizeof *s.next);
  s.tail = braid_zalloc_array(allocator, card->context_count, sizeof *s.tail);
  s.public = braid_zalloc_array(allocator, card->context_count, sizeof *s.public);
  braid_status status = BRAID_NO_MEMORY;
  if (s.jobs && s.view && s.answers && s.order && s.next && s.tail && s.public) {
    memset(counters, 0, card->context_count * sizeof *counters);
    for (size_t c = 0; c < card->context_count; c++) {
      s.tail[c] = SIZE_MAX;
      if (card->contexts[c].tenant >= s.tenants) s.tenants = card->contexts[c].tenant + 1;
    }
    give_public(&s);
    status = simulate(&s);
    BRAID_ASSERT(status != BRAID_OK || s.free == all_of(card->cores));
  }
  *totals = s.totals;
  braid_free(allocator, s.jobs);
  braid_free(allocator, s.view);
  braid_free(allocator, s.answers);
  braid_free(allocator, s.order);
  braid_free(allocator, s.next);
  braid_free(allocator, s.tail);
  braid_free(allocator, s.public);
  return status;
}
