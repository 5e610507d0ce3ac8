/* First come, first served: one job at a time, on the cores that run it fastest, to its end. PREMA's baseline
 * (NP-FCFS). */
#include "overlay/share/policy.h"

static braid_status decide(const braid_share_view *view, braid_share_answer *answers) {
  size_t first = 0;
  for (size_t j = 0; j < view->count; j++)
    if (view->jobs[j].cores) first = j; /* it has begun */
  answers[first].cores =
      view->jobs[first].cores ? view->jobs[first].cores : braid_share_best(&view->jobs[first], view->cores);
  return BRAID_OK;
}

const braid_share_policy braid_share_fcfs = {
    .name = "fcfs", .summary = "one job at a time, in the order of arrival", .bounded_wait = true, .decide = decide};
