#include "overlay/share/policy.h"

#include <string.h>

static const braid_share_policy *const kPolicies[] = {
    &braid_share_fcfs,    &braid_share_prema,     &braid_share_seed_token,      &braid_share_seed_token_corrected,
    &braid_share_spatial, &braid_share_lookahead, &braid_share_lookahead_urgent};

size_t braid_share_policy_count(void) {
  return sizeof kPolicies / sizeof *kPolicies;
}

const braid_share_policy *braid_share_policy_at(size_t index) {
  return kPolicies[index];
}

const braid_share_policy *braid_share_policy_find(const char *name) {
  for (size_t i = 0; i < braid_share_policy_count(); i++)
    if (strcmp(kPolicies[i]->name, name) == 0) return kPolicies[i];
  return NULL;
}

int braid_share_fastest(const braid_share_model *model, int cores) {
  int best = 1;
  for (int k = 2; k <= cores; k++)
    if (model->seconds[k - 1] < model->seconds[best - 1]) best = k;
  return best;
}

double braid_share_isolated(const braid_share_model *model, int cores) {
  return model->seconds[braid_share_fastest(model, cores) - 1];
}

int braid_share_best(const braid_share_job *job, int cores) {
  int best = 0;
  for (int k = job->least; k <= job->most && k <= cores; k++)
    if (!best || job->model->seconds[k - 1] < job->model->seconds[best - 1]) best = k;
  return best;
}

double braid_share_left(const braid_share_job *job, int k) {
  return braid_share_between(job->model, k, job->progress, 1);
}

double braid_share_switch(const braid_share_job *job, int k) {
  const braid_share_model *model = job->model;
  return (model->switch_seconds ? model->switch_seconds[k - 1] : 0) + (job->progress > 0 ? model->vector_seconds : 0);
}

void braid_share_fill(const braid_share_view *view, braid_share_answer *answers) {
  int left = view->cores;
  for (size_t j = 0; j < view->count; j++) left -= answers[j].cores;
  for (size_t j = 0; j < view->count && left > 0; j++) {
    if (answers[j].cores) continue;
    answers[j].cores = braid_share_best(&view->jobs[j], left);
    left -= answers[j].cores;
  }
}
