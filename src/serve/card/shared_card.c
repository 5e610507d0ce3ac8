#include "serve/card/shared_card.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "launch/options.h"

static const char kPolicy[] = "seed-token-corrected";
static const char kDefaultDesign[] = "cnn-16x512";

/* --- life ----------------------------------------------------------------------------------------------------------
 */
typedef struct card_options {
  char design[192];
  uint32_t cores; /* 0: all */
} card_options;

static const braid_launch_option kOptions[] = {
    {"design", braid_launch_parse_path, offsetof(card_options, design), 0, sizeof((card_options *)NULL)->design},
    {"cores", braid_launch_parse_number, offsetof(card_options, cores), 1, BRAID_OVERLAY_MOST_CORES},
};

static braid_status card_open(braid_serve_card *card, const char *spec) {
  card_options options = {.cores = 0};
  snprintf(options.design, sizeof options.design, "%s", kDefaultDesign);
  const braid_launch_option_table table = {kOptions, sizeof kOptions / sizeof *kOptions, &options};
  if (strncmp(spec, "overlay", 7) != 0 || (spec[7] && spec[7] != ':'))
    return braid_fail(BRAID_INVALID_ARGUMENT, "\"%.100s\" is no card: expected overlay:design=NAME", spec);
  BRAID_TRY(braid_launch_parse_options(spec[7] ? spec + 8 : "", &table, 1));
  BRAID_TRY(braid_overlay_design_load(NULL, options.design, &card->design));
  const braid_overlay_design *design = card->design;
  if (design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "design=%s: its cores are for recurrent networks, which are not served",
                      options.design);
  if ((int)options.cores > design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "cores=%u: %s has 1 to %d", options.cores, design->name, design->cores);
  card->cores = options.cores ? (int)options.cores : design->cores;
  card->runs = card->cores < BRAID_SERVE_CARD_RUNS ? card->cores : BRAID_SERVE_CARD_RUNS;
  return BRAID_OK;
}

braid_status braid_serve_card_create(const char *spec, bool elastic, int64_t now_ns, braid_serve_card **out) {
  *out = NULL;
  braid_serve_card *card = braid_zalloc(NULL, sizeof *card);
  if (!card) return BRAID_NO_MEMORY;
  card->elastic = elastic;
  card->pace = 1;
  card->clock_ns = now_ns;
  braid_status status = card_open(card, spec);
  if (status == BRAID_OK)
    *out = card;
  else
    braid_serve_card_destroy(card);
  return status;
}

void braid_serve_card_destroy(braid_serve_card *card) {
  if (!card) return;
  braid_overlay_design_destroy(card->design);
  free(card->view);
  free(card->answers);
  free(card->order);
  free(card->numbers);
  braid_free(NULL, card);
}

double braid_serve_card_clock(braid_serve_card *card, int64_t now_ns) {
  if (now_ns > card->clock_ns) {
    card->clock += (double)(now_ns - card->clock_ns) * 1e-9 / card->pace;
    card->clock_ns = now_ns;
  }
  return card->clock;
}

static braid_share_counters *counters_of(braid_serve_card *card, const void *tenant) {
  static braid_share_counters nobody; /* of tenants beyond those that a configuration may have */
  size_t i = 0;
  while (i < card->usage_count && card->usage[i].tenant != tenant) i++;
  if (i == BRAID_SERVE_CARD_TENANTS) return &nobody;
  if (i == card->usage_count) card->usage[card->usage_count++] = (braid_serve_card_usage){.tenant = tenant};
  return &card->usage[i].counters;
}

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
static int count_cores(uint64_t cores) {
  return __builtin_popcountll(cores);
}

static uint64_t cores_lowest(uint64_t cores, int count) {
  uint64_t some = 0;
  for (; count > 0 && cores; count--) {
    some |= cores & -cores;
    cores &= cores - 1;
  }
  return some;
}

/* Those that a run of the tenant may have, busy or not. */
static uint64_t cores_of(const braid_serve_card *card, const void *tenant) {
  uint64_t all = 0;
  for (int c = 0; c < card->cores; c++)
    if (card->elastic || card->holders[c] == tenant) all |= UINT64_C(1) << c;
  return all;
}

/* No core is ever given twice. */
static void cores_take(braid_serve_card *card, braid_serve_card_job *job, uint64_t cores) {
  BRAID_ASSERT(!(card->busy & cores) && !(job->cores & cores));
  card->busy |= cores;
  job->cores |= cores;
}

static void cores_give_back(braid_serve_card *card, braid_serve_card_job *job, uint64_t cores) {
  BRAID_ASSERT((card->busy & cores) == cores && (job->cores & cores) == cores);
  card->busy &= ~cores;
  job->cores &= ~cores;
}

/* --- decisions -----------------------------------------------------------------------------------------------------
 */
static braid_status make_room(braid_serve_card *card, size_t count) {
  if (card->room >= count) return BRAID_OK;
  size_t room = 2 * count;
  void *view = realloc(card->view, room * sizeof *card->view);
  if (view) card->view = view;
  void *answers = view ? realloc(card->answers, room * sizeof *card->answers) : NULL;
  if (answers) card->answers = answers;
  void *order = answers ? realloc(card->order, room * sizeof *card->order) : NULL;
  if (order) card->order = order;
  void *numbers = order ? realloc(card->numbers, room * sizeof *card->numbers) : NULL;
  if (!numbers) return BRAID_NO_MEMORY;
  card->numbers = numbers;
  card->room = room;
  return BRAID_OK;
}

static int compare_jobs(const void *a, const void *b) {
  const braid_serve_card_job *x = *(braid_serve_card_job *const *)a, *y = *(braid_serve_card_job *const *)b;
  if (x->arrived != y->arrived) return x->arrived < y->arrived ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static void job_enter(braid_serve_card *card, braid_serve_card_job *job, int64_t now_ns) {
  double clock = braid_serve_card_clock(card, now_ns);
  if (job->number) return;
  job->number = ++card->numbered;
  job->arrived = clock - (double)(now_ns - job->arrived_ns) * 1e-9 / card->pace;
}

/* As the policy sees it. A deadline is as far away, by the card's clock, as it was when the job came. */
static braid_share_job job_show(const braid_serve_card *card, braid_serve_card_job *job) {
  double allowed = job->deadline_ns ? (double)(job->deadline_ns - job->arrived_ns) * 1e-9 / card->pace : INFINITY;
  int cores = count_cores(job->cores);
  double waited = card->clock - job->arrived - job->seconds;
  return (braid_share_job){.id = (size_t)job->number,
                           .model = job->model,
                           .priority = job->priority,
                           .arrival = job->arrived,
                           .deadline = job->arrived + fmax(allowed, 1e-9),
                           .progress = job->progress,
                           .cores = cores,
                           .target = job->target,
                           .least = 1,
                           .most = card->cores,
                           .executed = job->seconds,
                           .waited = cores ? job->kept[BRAID_SHARE_WAITED]
                                           : fmax(0, waited), /* tokens of a run do not grow */
                           .waiting_since = job->arrived,
                           .kept = job->kept};
}

/* What the policy does not promise: who runs keeps a core, who has waited for long gets one, and no more begin than can
 * run side by side. */
static void bound_answers(braid_serve_card *card, size_t count, int64_t now_ns) {
  braid_share_answer *answers = card->answers;
  int all = 0, entitled = card->running_count, begin = 0;
  for (size_t i = 0; i < count; i++) {
    braid_serve_card_job *job = card->order[i];
    bool runs = job->cores != 0;
    job->overdue = !runs && now_ns - job->arrived_ns >= BRAID_SERVE_CARD_PATIENCE && entitled < card->cores &&
                   entitled < card->runs;
    entitled += job->overdue;
    if ((runs || job->overdue) && !answers[i].cores) answers[i].cores = 1;
  }
  int others = card->runs - entitled; /* that may begin beside these */
  for (size_t i = 0; i < count; i++) {
    const braid_serve_card_job *job = card->order[i];
    bool other = !job->cores && !job->overdue && answers[i].cores > 0;
    if (other && ++begin > others) answers[i].cores = 0;
    all += answers[i].cores;
  }
  for (; all > card->cores; all--) {
    size_t greatest = count;
    for (size_t i = count; i-- > 0;) {
      const braid_serve_card_job *job = card->order[i];
      int least = job->cores || job->overdue;
      if (answers[i].cores > least && (greatest == count || answers[i].cores > answers[greatest].cores)) greatest = i;
    }
    BRAID_ASSERT(greatest < count);
    answers[greatest].cores--;
  }
}

static braid_status decide_elastic(braid_serve_card *card, braid_serve_card_job *const *waiting, size_t waits,
                                   int64_t now_ns) {
  size_t count = (size_t)card->running_count + waits;
  BRAID_TRY(make_room(card, count));
  for (size_t i = 0; i < waits; i++) job_enter(card, waiting[i], now_ns);
  for (size_t i = 0; i < count; i++) card->order[i] = i < waits ? waiting[i] : card->running[i - waits];
  if (count > 1) qsort(card->order, count, sizeof *card->order, compare_jobs);
  for (size_t i = 0; i < count; i++) card->view[i] = job_show(card, card->order[i]);
  memset(card->answers, 0, count * sizeof *card->answers);
  const braid_share_view view = {.now = card->clock,
                                 .cores = card->cores,
                                 .tenants = 1,
                                 .jobs = card->view,
                                 .count = count,
                                 .order = card->numbers};
  BRAID_TRY(braid_share_policy_find(kPolicy)->decide(&view, card->answers));
  bound_answers(card, count, now_ns);
  for (size_t i = 0; i < count; i++) card->order[i]->target = card->answers[i].cores;
  return BRAID_OK;
}

/* Line 15 of Algorithm 1: k.cores = user.cores. */
static void decide_public(braid_serve_card *card, braid_serve_card_job *const *waiting, size_t count, int64_t now_ns) {
  const void *running[BRAID_SERVE_CARD_RUNS];
  int runs = 0;
  for (int i = 0; i < card->running_count; i++) {
    int held = braid_serve_card_held(card, card->running[i]->tenant);
    running[runs++] = card->running[i]->tenant;
    card->running[i]->target = held ? held : 1;
  }
  for (size_t i = 0; i < count; i++) {
    bool first = runs < card->runs;
    job_enter(card, waiting[i], now_ns);
    for (int r = 0; r < runs; r++) first &= running[r] != waiting[i]->tenant;
    waiting[i]->target = first ? braid_serve_card_held(card, waiting[i]->tenant) : 0;
    if (waiting[i]->target) running[runs++] = waiting[i]->tenant;
  }
}

braid_status braid_serve_card_decide(braid_serve_card *card, braid_serve_card_job *const *waiting, size_t count,
                                     int64_t now_ns) {
  (void)braid_serve_card_clock(card, now_ns);
  if (!count && !card->running_count) return BRAID_OK;
  if (card->elastic)
    BRAID_TRY(decide_elastic(card, waiting, count, now_ns));
  else
    decide_public(card, waiting, count, now_ns);
  card->decisions++;
  card->stale = false;
  return BRAID_OK;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
size_t braid_serve_card_next(const braid_serve_card *card, braid_serve_card_job *const *waiting, size_t count) {
  size_t next = SIZE_MAX;
  if (card->running_count == card->runs) return next;
  for (size_t i = 0; i < count; i++) {
    const braid_serve_card_job *job = waiting[i];
    if (!job->target || !(cores_of(card, job->tenant) & ~card->busy)) continue;
    if (next == SIZE_MAX || (job->overdue && !waiting[next]->overdue) ||
        (job->overdue && waiting[next]->overdue && job->number < waiting[next]->number))
      next = i;
  }
  return next;
}

int braid_serve_card_begin(braid_serve_card *card, braid_serve_card_job *job, int64_t now_ns) {
  BRAID_ASSERT(card->running_count < card->runs && !job->cores);
  (void)braid_serve_card_clock(card, now_ns);
  cores_take(card, job, cores_lowest(cores_of(card, job->tenant) & ~card->busy, job->target));
  job->begun_with = count_cores(job->cores);
  card->running[card->running_count++] = job;
  card->stale = true;
  counters_of(card, job->tenant)->command_submissions++;
  BRAID_ASSERT(job->begun_with > 0);
  return job->begun_with;
}

static void job_account(braid_serve_card *card, braid_serve_card_job *job, double seconds) {
  double core_seconds = seconds * count_cores(job->cores);
  job->seconds += seconds;
  job->core_seconds += core_seconds;
  counters_of(card, job->tenant)->core_seconds += core_seconds;
}

int braid_serve_card_place(braid_serve_card *card, braid_serve_card_job *job, double progress, double seconds,
                           bool *given_back) {
  job_account(card, job, seconds);
  job->progress = progress;
  uint64_t before = job->cores, may = cores_of(card, job->tenant), own = before & may;
  if (!own && !(may & ~card->busy))
    own = cores_lowest(before, 1); /* all were given away: one stays until the run ends */
  uint64_t keep = cores_lowest(own, job->target);
  uint64_t more = cores_lowest(may & ~card->busy, job->target - count_cores(keep));
  cores_give_back(card, job, before & ~keep);
  cores_take(card, job, more);
  *given_back = before & ~keep;
  if (job->cores != before) {
    braid_share_counters *counters = counters_of(card, job->tenant);
    job->switches++;
    card->switches++;
    counters->preemptions += (before & ~keep) != 0;
    counters->migrations++;
  }
  return count_cores(job->cores);
}

/* The share of the newest run in the measured pace. */
static const double kNewest = 0.1;

void braid_serve_card_end(braid_serve_card *card, braid_serve_card_job *job, braid_serve_card_end_kind kind,
                          int64_t took_ns, int64_t now_ns) {
  braid_share_counters *counters = counters_of(card, job->tenant);
  int at = 0;
  (void)braid_serve_card_clock(card, now_ns);
  while (card->running[at] != job) at++;
  card->running[at] = card->running[--card->running_count];
  cores_give_back(card, job, job->cores);
  card->stale = true;
  counters->command_completions += kind == BRAID_SERVE_CARD_DONE;
  counters->errors += kind == BRAID_SERVE_CARD_ERROR;
  counters->time_outs += kind == BRAID_SERVE_CARD_LATE;
  if (kind != BRAID_SERVE_CARD_DONE || took_ns <= 0 || job->seconds <= 0) return;
  double pace = (double)took_ns * 1e-9 / job->seconds;
  card->pace += (card->paced ? kNewest : 1) * (pace - card->pace);
  card->paced = true;
}

/* --- public cores --------------------------------------------------------------------------------------------------
 */
int braid_serve_card_held(const braid_serve_card *card, const void *tenant) {
  int held = 0;
  for (int c = 0; c < card->cores; c++) held += card->holders[c] && (!tenant || card->holders[c] == tenant);
  return held;
}

int braid_serve_card_used(const braid_serve_card *card, const void *tenant) {
  int used = 0;
  for (int i = 0; i < card->running_count; i++)
    if (card->running[i]->tenant == tenant) used += count_cores(card->running[i]->cores);
  return used;
}

bool braid_serve_card_hold(braid_serve_card *card, const void *tenant, int count) {
  uint64_t nobodys = 0;
  int tenants = 0;
  for (int c = 0; c < card->cores; c++) {
    bool first = card->holders[c] != NULL;
    if (!card->holders[c]) nobodys |= UINT64_C(1) << c;
    for (int k = 0; k < c; k++) first &= card->holders[k] != card->holders[c];
    tenants += first;
  }
  nobodys &= ~card->busy;
  if (card->elastic || count < 1 || count > count_cores(nobodys)) return false;
  if (!braid_serve_card_held(card, tenant) && tenants >= card->runs) return false;
  uint64_t given = cores_lowest(nobodys, count);
  for (int c = 0; c < card->cores; c++)
    if (given >> c & 1) card->holders[c] = tenant;
  card->stale = true;
  return true;
}

/* Idle ones first, then the last: a run of it keeps what it can. */
void braid_serve_card_unhold(braid_serve_card *card, const void *tenant, int count) {
  for (int busy = 0; busy < 2; busy++)
    for (int c = card->cores - 1; c >= 0 && count > 0; c--) {
      if (card->holders[c] != tenant || (int)(card->busy >> c & 1) != busy) continue;
      card->holders[c] = NULL;
      count--;
    }
  card->stale = true;
}

int braid_serve_card_fdinfo(braid_serve_card *card, const void *tenant, size_t client, double priority, int64_t now_ns,
                            char *text, size_t bytes) {
  return braid_share_fdinfo_of(client, card->cores, priority, counters_of(card, tenant),
                               braid_serve_card_clock(card, now_ns), card->design->clock_mhz, text, bytes);
}
