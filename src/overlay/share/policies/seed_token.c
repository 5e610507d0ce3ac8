/* Algorithm 1 of Zeng et al. 2021 (section 6.3), literally and corrected.
 *
 * Literally: token = priority x (QoS - Latency(k, 1)) when a task arrives, and priority x slowdown more whenever the
 * scheduler runs (slowdown: what it waited over its latency alone); tasks with more tokens than a threshold share the
 * idle cores for most total performance (equations 12 and 13); tasks that run keep theirs. Threshold and deadlines of
 * tasks without one are not published: 0 here, and a slack of 0.
 *
 * Corrected: more slack gave more tokens, of the unit of time, and equation 12 favours small models. Here
 * token = priority x Latency(k, 1) / QoS, less slack gives more; slowdown counts once, not at each run of the
 * scheduler; the threshold is PREMA's, the greatest number rounded down to 9, 3, 1 (else 0); performance is relative to
 * the task's alone, times its priority; and cores of tasks that run are shared anew as well. */
#include <math.h>

#include "base/try.h"
#include "overlay/share/allocate.h"
#include "overlay/share/policy.h"

enum { TOKENS = BRAID_SHARE_TOKENS, WAITED = BRAID_SHARE_WAITED, SEEN = WAITED };

typedef struct shares {
  braid_demand demands[BRAID_OVERLAY_MOST_CORES]; /* of candidates, of which no more than cores have any */
  double performance[BRAID_OVERLAY_MOST_CORES][BRAID_OVERLAY_MOST_CORES];
  size_t jobs[BRAID_OVERLAY_MOST_CORES];
  size_t count;
} shares;

static void add_candidate(shares *s, const braid_share_view *view, size_t index, double weight) {
  const braid_share_job *job = &view->jobs[index];
  if (s->count == BRAID_OVERLAY_MOST_CORES) return; /* in the order of arrival */
  double *performance = s->performance[s->count];
  int most = job->most < view->cores ? job->most : view->cores;
  for (int k = 1; k <= most; k++) performance[k - 1] = k < job->least ? 0 : 1 / job->model->seconds[k - 1];
  s->demands[s->count] = (braid_demand){.weight = weight, .performance = performance, .most = most};
  s->jobs[s->count++] = index;
}

static braid_status share(const shares *s, const braid_share_view *view, int cores, braid_share_answer *answers) {
  int given[BRAID_OVERLAY_MOST_CORES];
  BRAID_TRY(braid_allocate(s->demands, s->count, cores, view->allocator, given, NULL));
  for (size_t i = 0; i < s->count; i++)
    if (given[i] >= view->jobs[s->jobs[i]].least) answers[s->jobs[i]].cores = given[i];
  return BRAID_OK;
}

static double isolated(const braid_share_view *view, const braid_share_job *job) {
  return braid_share_isolated(job->model, view->cores);
}

static braid_status decide(const braid_share_view *view, braid_share_answer *answers) {
  shares s;
  int idle = view->cores;
  bool busy = false;
  s.count = 0;
  for (size_t j = 0; j < view->count; j++) {
    const braid_share_job *job = &view->jobs[j];
    if (job->kept[SEEN] == 0 && isfinite(job->deadline))
      job->kept[TOKENS] = job->priority * (job->deadline - job->arrival - job->model->seconds[0]);
    job->kept[SEEN] = 1;
    job->kept[TOKENS] += job->priority * job->waited / isolated(view, job);
    answers[j].cores = job->cores;
    idle -= job->cores;
    busy |= job->cores > 0;
    if (!job->cores && job->kept[TOKENS] > 0) add_candidate(&s, view, j, 1);
  }
  if (!busy && !s.count) add_candidate(&s, view, 0, 1); /* else nothing would ever run */
  return share(&s, view, idle, answers);
}

static braid_status decide_corrected(const braid_share_view *view, braid_share_answer *answers) {
  shares s;
  double most = 0;
  s.count = 0;
  for (size_t j = 0; j < view->count; j++) {
    const braid_share_job *job = &view->jobs[j];
    double allowed = job->deadline - job->arrival;
    if (job->kept[TOKENS] == 0) job->kept[TOKENS] = job->priority * job->model->seconds[0] / allowed;
    job->kept[TOKENS] += job->priority * (job->waited - job->kept[WAITED]) / isolated(view, job);
    job->kept[WAITED] = job->waited;
    most = fmax(most, job->kept[TOKENS]);
  }
  double threshold = most >= 9 ? 9 : most >= 3 ? 3 : most >= 1 ? 1 : 0;
  for (size_t j = 0; j < view->count; j++)
    if (view->jobs[j].kept[TOKENS] >= threshold)
      add_candidate(&s, view, j, view->jobs[j].priority * isolated(view, &view->jobs[j]));
  BRAID_TRY(share(&s, view, view->cores, answers));
  braid_share_fill(view, answers);
  return BRAID_OK;
}

const braid_share_policy braid_share_seed_token = {
    .name = "seed-token", .summary = "Algorithm 1 of Zeng et al. as it is written", .decide = decide};
const braid_share_policy braid_share_seed_token_corrected = {
    .name = "seed-token-corrected",
    .summary = "Algorithm 1 where less slack gives more tokens, and performance is relative to the task's alone",
    .decide = decide_corrected};
