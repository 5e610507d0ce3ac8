/* Spatial sharing with harvesting, in the manner of Neu10 (Xue et al., MICRO 2024): every tenant owns an equal share of
 * the cores, and runs its jobs in the order of arrival; cores of tenants without a job are harvested by those that have
 * one, each by turns, and given back at the next place when the owner returns. With more tenants than cores, the oldest
 * jobs have one core each. */
#include "overlay/share/policy.h"

/* The first jobs of all tenants, by arrival; at most as many as there are cores. */
static size_t find_heads(const braid_share_view *view) {
  size_t heads = 0;
  for (size_t j = 0; j < view->count && heads < (size_t)view->cores; j++) {
    bool first = true;
    for (size_t h = 0; h < heads && first; h++) first = view->jobs[view->order[h]].tenant != view->jobs[j].tenant;
    if (first) view->order[heads++] = j;
  }
  return heads;
}

static braid_status decide(const braid_share_view *view, braid_share_answer *answers) {
  size_t heads = find_heads(view);
  int own = view->cores / (int)(view->tenants < (size_t)view->cores ? view->tenants : (size_t)view->cores);
  int left = view->cores;
  for (size_t h = 0; h < heads; h++) {
    size_t j = view->order[h];
    int cores = braid_share_best(&view->jobs[j], own < left ? own : left);
    if (!cores && view->jobs[j].least <= left) cores = view->jobs[j].least;
    answers[j].cores = cores;
    left -= cores;
  }
  for (bool grew = true; left > 0 && grew;) {
    grew = false;
    for (size_t h = 0; h < heads && left > 0; h++) {
      size_t j = view->order[h];
      const braid_share_job *job = &view->jobs[j];
      int cores = answers[j].cores;
      if (!cores || cores >= job->most || braid_share_best(job, cores + left) <= cores) continue;
      answers[j].cores++;
      left--;
      grew = true;
    }
  }
  for (size_t h = 0; h < heads; h++) { /* a switch that gains nothing is not made */
    size_t j = view->order[h];
    const braid_share_job *job = &view->jobs[j];
    int cores = answers[j].cores;
    if (job->cores && cores > job->cores &&
        braid_share_left(job, job->cores) - braid_share_left(job, cores) <= braid_share_switch(job, cores))
      answers[j].cores = job->cores;
  }
  return BRAID_OK;
}

const braid_share_policy braid_share_spatial = {.name = "spatial",
                                                .summary = "an equal share for each tenant, idle cores are harvested",
                                                .bounded_wait = true,
                                                .decide = decide};
