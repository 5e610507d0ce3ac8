/* PREMA (Choi and Rhu, HPCA 2020): one job at a time on the whole card. A job has as many tokens as its priority when
 * it arrives, and gets priority x slowdown more while it waits; slowdown is the time that it waited since the scheduler
 * ran last over its estimated time alone. Those with at least the greatest number of tokens, rounded down to a priority
 * of theirs (1, 3, 9), are candidates; the one with the shortest estimated rest is next. If another job runs, the
 * mechanism is chosen by what each would lose: DRAIN, if the candidate's rest relative to the running job's estimate is
 * more than the running job's rest relative to the candidate's; else CHECKPOINT. KILL is not chosen, as in their
 * dynamic choice. The quantum is their 0.25 ms. */
#include <math.h>

#include "overlay/share/policy.h"

enum { TOKENS, WAITED };

static double rounded_down(double tokens) {
  return tokens >= 9 ? 9 : tokens >= 3 ? 3 : tokens >= 1 ? 1 : 0;
}

static double estimate(const braid_share_view *view, const braid_share_job *job) {
  return job->model->seconds[braid_share_best(job, view->cores) - 1];
}

static double rest(const braid_share_view *view, const braid_share_job *job) {
  return braid_share_left(job, braid_share_best(job, view->cores));
}

/* Tokens; the greatest number of them. */
static double give_tokens(const braid_share_view *view) {
  double most = 0;
  for (size_t j = 0; j < view->count; j++) {
    const braid_share_job *job = &view->jobs[j];
    if (job->kept[TOKENS] == 0) job->kept[TOKENS] = job->priority;
    job->kept[TOKENS] += job->priority * (job->waited - job->kept[WAITED]) / estimate(view, job);
    job->kept[WAITED] = job->waited;
    most = fmax(most, job->kept[TOKENS]);
  }
  return most;
}

static braid_status decide(const braid_share_view *view, braid_share_answer *answers) {
  double threshold = rounded_down(give_tokens(view));
  size_t next = SIZE_MAX, runs = SIZE_MAX;
  for (size_t j = 0; j < view->count; j++) {
    const braid_share_job *job = &view->jobs[j];
    if (job->cores) runs = j;
    if (job->kept[TOKENS] < threshold) continue;
    if (next == SIZE_MAX || rest(view, job) < rest(view, &view->jobs[next])) next = j;
  }
  if (next == SIZE_MAX) next = 0; /* priorities below 1 */
  if (runs != SIZE_MAX && runs != next) {
    const braid_share_job *current = &view->jobs[runs], *candidate = &view->jobs[next];
    bool drain = rest(view, candidate) / estimate(view, current) > rest(view, current) / estimate(view, candidate);
    if (drain) next = runs;
  }
  answers[next].cores = braid_share_best(&view->jobs[next], view->cores);
  return BRAID_OK;
}

const braid_share_policy braid_share_prema = {.name = "prema",
                                              .summary = "tokens by priority and slowdown, the shortest candidate next",
                                              .quantum_seconds = 0.25e-3,
                                              .decide = decide};
