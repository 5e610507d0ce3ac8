/* Ours: plans are played forward with what is known of the jobs that are there (their rest on k cores, the way to the
 * next place, switches), as if no other came, and the one with the least cost is taken. The cost of a plan is the sum
 * over jobs of a power of slowdown, the time from arrival to end over the job's time alone on the card, and of priority
 * for each deadline that is missed. Jobs that wait and are not played wait for the cores' time that the plan takes:
 * that counts by their weights, so that a card with many jobs is not given to few who gain little by more cores. A
 * weight is what a second more costs: it grows as a job waits.
 *
 * The power is 1 plus the square of the share of the waiting jobs that are played. Where all are, slowdowns are
 * squared: the average is small, and the few jobs that have waited long are not left behind, which are the 99th
 * percentile. Where the queue is much longer, serving in turn those who have waited long would only make all who come
 * next wait as long: there slowdowns count as they are, and who is quick goes first.
 *
 * A plan is an order of the jobs and a width: the first `width` of them share the cores by braid_allocate, for the
 * greatest sum of weight over remaining time, with one core each at least; what is left goes to the next ones. Orders:
 * by weight over remaining time (the rule of Smith for weighted completion times), by deadline, by arrival. One more
 * plan takes no cores from anybody, and gives only those that are idle. When a job ends in the play, the same rule
 * shares anew. As on the card, a job keeps its cores until its next place, and who is to have them waits.
 *
 * lookahead-urgent: slowdowns count priority times as well. What has a high priority ends sooner, at the expense of the
 * average.
 *
 * Neither promises a bound of waiting: a large job waits while small ones keep the whole card busy. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "overlay/share/allocate.h"
#include "overlay/share/policy.h"

/* Jobs that are played: those that hold cores, and the best of the others. */
enum { kOthers = 8, kMost = BRAID_OVERLAY_MOST_CORES + kOthers };

typedef enum rule { BY_WEIGHT, BY_DEADLINE, BY_ARRIVAL, ORDERS } rule;

typedef struct player {
  const braid_share_job *job;
  size_t index;  /* in the view */
  double scale;  /* of slowdown: 1, or the priority */
  double alone;  /* seconds */
  double weight; /* what a second more costs, at the end that it has if it gets the whole card now */
} player;

typedef struct played {
  double made;  /* the share of its run that is done */
  double delay; /* seconds until it makes progress */
  int cores;
  bool done;
} played;

typedef struct play {
  const braid_share_view *view;
  bool urgent; /* slowdowns count by priority */
  player players[kMost];
  size_t count;
  double power;  /* of slowdowns */
  double others; /* the weight of all that wait and are not played */
  uint8_t orders[ORDERS][kMost];
} play;

typedef struct plan {
  rule by;
  size_t width; /* 0: nobody loses cores */
} plan;

static double rest_of(const braid_share_view *view, const braid_share_job *job) {
  return braid_share_left(job, braid_share_best(job, view->cores));
}

static bool is_before(const play *p, rule by, size_t a, size_t b) {
  const player *x = &p->players[a], *y = &p->players[b];
  if (by == BY_DEADLINE && x->job->deadline != y->job->deadline) return x->job->deadline < y->job->deadline;
  if (by == BY_WEIGHT) {
    double of_x = x->weight / rest_of(p->view, x->job), of_y = y->weight / rest_of(p->view, y->job);
    if (of_x != of_y) return of_x > of_y;
  }
  return x->index < y->index; /* by arrival */
}

static void sort_players(play *p) {
  for (int by = 0; by < ORDERS; by++)
    for (size_t i = 0; i < p->count; i++) {
      size_t at = i;
      for (; at > 0 && is_before(p, (rule)by, i, p->orders[by][at - 1]); at--)
        p->orders[by][at] = p->orders[by][at - 1];
      p->orders[by][at] = (uint8_t)i;
    }
}

static player player_of(const play *p, size_t index) {
  const braid_share_job *job = &p->view->jobs[index];
  player one = {job, index, p->urgent ? job->priority : 1, braid_share_isolated(job->model, p->view->cores), 0};
  double slowdown = (p->view->now + rest_of(p->view, job) - job->arrival) / one.alone;
  one.weight = one.scale / one.alone * p->power * pow(slowdown, p->power - 1);
  return one;
}

static bool is_better(const braid_share_view *view, const player *x, const player *y) {
  return x->weight / rest_of(view, x->job) > y->weight / rest_of(view, y->job);
}

static double power_of(const braid_share_view *view) {
  size_t waiting = 0;
  for (size_t j = 0; j < view->count; j++) waiting += !view->jobs[j].cores;
  double share = waiting > kOthers ? (double)kOthers / (double)waiting : 1;
  return 1 + share * share;
}

/* Those that hold cores, then the best of the others; of equal ones the oldest. */
static void find_players(play *p) {
  const braid_share_view *view = p->view;
  p->power = power_of(view);
  p->count = 0;
  for (size_t j = 0; j < view->count; j++)
    if (view->jobs[j].cores) p->players[p->count++] = player_of(p, j);
  size_t held = p->count;
  p->others = 0;
  for (size_t j = 0; j < view->count; j++) {
    if (view->jobs[j].cores) continue;
    player new = player_of(p, j);
    p->others += new.weight;
    size_t at = p->count;
    while (at > held && is_better(view, &new, &p->players[at - 1])) at--;
    if (at == held + kOthers) continue;
    if (p->count < held + kOthers) p->count++;
    memmove(&p->players[at + 1], &p->players[at], (p->count - 1 - at) * sizeof new);
    p->players[at] = new;
  }
  for (size_t i = held; i < p->count; i++) p->others -= p->players[i].weight;
  if (p->count < held + kOthers) p->others = 0; /* exactly */
}

/* --- sharing -------------------------------------------------------------------------------------------------------
 */
/* The cores for each player: of those not done, in the order. */
static braid_status share(const play *p, const plan *how, const played *state, int *cores) {
  const uint8_t *order = p->orders[how->by];
  double performance[kMost][BRAID_OVERLAY_MOST_CORES];
  braid_demand demands[kMost];
  size_t who[kMost], width = 0, from = 0;
  int left = p->view->cores, given[kMost];
  memset(cores, 0, p->count * sizeof *cores);
  for (size_t i = 0; i < p->count && !how->width; i++)
    if (!state[i].done) left -= cores[i] = state[i].cores;
  for (; from < p->count && width < how->width; from++) {
    size_t i = order[from];
    const braid_share_job *job = p->players[i].job;
    if (state[i].done || job->least > left) continue;
    int most = job->most < p->view->cores ? job->most : p->view->cores;
    for (int k = 1; k <= most; k++) {
      double seconds = braid_share_between(job->model, k, state[i].made, 1);
      if (k != state[i].cores) seconds += braid_share_switch(job, k);
      performance[width][k - 1] = 1 / fmax(seconds, 1e-12);
    }
    demands[width] = (braid_demand){p->players[i].weight, performance[width], job->least, most};
    who[width++] = i;
    left -= job->least;
  }
  for (size_t w = 0; w < width; w++) left += demands[w].least;
  BRAID_TRY(braid_allocate(demands, width, left, p->view->allocator, given, NULL));
  for (size_t w = 0; w < width; w++) left -= cores[who[w]] = given[w];
  for (size_t o = 0; o < p->count && left > 0; o++) {
    size_t i = order[o];
    if (state[i].done || cores[i]) continue;
    cores[i] = braid_share_best(p->players[i].job, left);
    left -= cores[i];
  }
  return BRAID_OK;
}

/* --- playing -------------------------------------------------------------------------------------------------------
 */
/* Cores that become free, and when: those of jobs that lose some are free at the job's next place. */
typedef struct release {
  double seconds;
  int cores;
} release;
typedef struct releases {
  release of[kMost + 1]; /* by time */
  size_t count, next;
} releases;

static void add_release(releases *r, double seconds, int cores) {
  size_t at = r->count++;
  for (; at > 0 && r->of[at - 1].seconds > seconds; at--) r->of[at] = r->of[at - 1];
  r->of[at] = (release){seconds, cores};
}

/* Takes so many; the seconds until all of them are free. */
static double take_released(releases *r, int cores) {
  double seconds = 0;
  while (cores > 0 && r->next < r->count) {
    release *from = &r->of[r->next];
    int taken = from->cores < cores ? from->cores : cores;
    seconds = fmax(seconds, from->seconds);
    from->cores -= taken;
    cores -= taken;
    r->next += from->cores == 0;
  }
  return seconds;
}

/* Seconds until its cores can change. */
static double wait_for_place(const play *p, const played *state, size_t i, bool first) {
  const braid_share_job *job = p->players[i].job;
  if (!state[i].cores) return state[i].delay;
  if (first) return job->to_place;
  double place = braid_share_next_place(job->model, state[i].made);
  return state[i].delay + braid_share_between(job->model, state[i].cores, state[i].made, place);
}

/* It goes on as it is for so long, then it has `cores`; after a switch, if there are any. */
static void change_cores(const play *p, played *state, size_t i, double seconds, int cores) {
  const braid_share_job *job = p->players[i].job;
  double runs = fmax(seconds - state[i].delay, 0);
  if (state[i].cores) state[i].made += braid_share_made(job->model, state[i].cores, state[i].made, runs);
  state[i].delay = fmax(seconds, state[i].delay) + (cores ? braid_share_switch(job, cores) : 0);
  state[i].cores = cores;
}

/* As the card does it: cores are given back at places, and taken when they are free. */
static void set_cores(const play *p, played *state, const int *cores, bool first) {
  releases r = {.count = 0, .next = 0};
  int idle = p->view->cores;
  for (size_t i = 0; i < p->count; i++) idle -= state[i].cores;
  if (idle > 0) add_release(&r, 0, idle);
  for (size_t i = 0; i < p->count; i++) {
    int lost = state[i].cores - cores[i];
    if (state[i].done || lost <= 0) continue;
    double seconds = wait_for_place(p, state, i, first);
    add_release(&r, seconds, lost);
    change_cores(p, state, i, seconds, cores[i]);
  }
  for (size_t o = 0; o < p->count; o++) {
    size_t i = p->orders[BY_ARRIVAL][o];
    int more = cores[i] - state[i].cores;
    if (state[i].done || more <= 0) continue;
    double seconds = fmax(take_released(&r, more), wait_for_place(p, state, i, first));
    change_cores(p, state, i, seconds, cores[i]);
  }
}

static double end_of(const play *p, const played *state, size_t i) {
  if (state[i].done || !state[i].cores) return INFINITY;
  return state[i].delay + braid_share_between(p->players[i].job->model, state[i].cores, state[i].made, 1);
}

static double cost_of(const play *p, size_t i, double end) {
  const player *one = &p->players[i];
  double slowdown = (end - one->job->arrival) / one->alone;
  return one->scale * pow(slowdown, p->power) + (end > one->job->deadline ? one->job->priority : 0);
}

/* The cost of a plan, INFINITY if it is not less than `least`; first: the cores that it gives now. */
static braid_status play_forward(const play *p, const plan *how, double least, int *first, double *cost) {
  played state[kMost] = {0};
  double now = p->view->now;
  size_t open = p->count;
  *cost = 0;
  for (size_t i = 0; i < p->count; i++) {
    const braid_share_job *job = p->players[i].job;
    state[i] = (played){.made = job->progress, .cores = job->cores};
  }
  for (bool begins = true; open && *cost < least; begins = false) {
    int cores[kMost];
    BRAID_TRY(share(p, how, state, cores));
    if (begins) memcpy(first, cores, p->count * sizeof *cores);
    set_cores(p, state, cores, begins);
    size_t next = 0;
    for (size_t i = 1; i < p->count; i++)
      if (end_of(p, state, i) < end_of(p, state, next)) next = i;
    double seconds = end_of(p, state, next);
    if (isinf(seconds)) break; /* those that are left may not have so few cores */
    for (size_t i = 0; i < p->count; i++) {
      if (state[i].done) continue;
      *cost += p->others * seconds * state[i].cores / p->view->cores;
      double runs = fmax(seconds - state[i].delay, 0);
      state[i].delay = fmax(state[i].delay - seconds, 0);
      if (state[i].cores)
        state[i].made += braid_share_made(p->players[i].job->model, state[i].cores, state[i].made, runs);
    }
    now += seconds;
    state[next].done = true;
    state[next].cores = 0;
    *cost += cost_of(p, next, now);
    open--;
  }
  if (open) *cost = INFINITY;
  return BRAID_OK;
}

static braid_status choose(const braid_share_view *view, bool urgent, braid_share_answer *answers) {
  static const plan kPlans[] = {{BY_WEIGHT, 0},   {BY_WEIGHT, 1},   {BY_WEIGHT, 2},  {BY_WEIGHT, 3},   {BY_WEIGHT, 4},
                                {BY_WEIGHT, 6},   {BY_WEIGHT, 8},   {BY_WEIGHT, 16}, {BY_DEADLINE, 1}, {BY_DEADLINE, 2},
                                {BY_DEADLINE, 4}, {BY_DEADLINE, 8}, {BY_ARRIVAL, 1}, {BY_ARRIVAL, 2},  {BY_ARRIVAL, 4}};
  play p;
  p.view = view;
  p.urgent = urgent;
  find_players(&p);
  sort_players(&p);
  double least = INFINITY;
  int best[kMost] = {0};
  for (size_t n = 0; n < sizeof kPlans / sizeof *kPlans; n++) {
    int first[kMost];
    double cost;
    if (kPlans[n].width > 1 && kPlans[n].width > p.count) continue; /* the same as a narrower one */
    BRAID_TRY(play_forward(&p, &kPlans[n], least, first, &cost));
    if (n && !(cost < least)) continue;
    least = cost;
    memcpy(best, first, p.count * sizeof *first);
  }
  for (size_t i = 0; i < p.count; i++) answers[p.players[i].index].cores = best[i];
  braid_share_fill(view, answers);
  return BRAID_OK;
}

static braid_status decide(const braid_share_view *view, braid_share_answer *answers) {
  return choose(view, false, answers);
}

static braid_status decide_urgent(const braid_share_view *view, braid_share_answer *answers) {
  return choose(view, true, answers);
}

const braid_share_policy braid_share_lookahead = {
    .name = "lookahead",
    .summary = "plays plans forward: least powers of slowdown and missed deadlines, cores shared by remaining work",
    .decide = decide};
const braid_share_policy braid_share_lookahead_urgent = {
    .name = "lookahead-urgent", .summary = "lookahead, slowdowns by priority", .decide = decide_urgent};
