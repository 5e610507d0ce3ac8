/* What a schedule takes and costs, several times as fast as by the simulator: for searches that look at many thousands
 * of schedules and simulate only what they keep. Every device runs, of what has its operands there, the task with the
 * longest path to the end. The result is a sequence that the simulator plays in the same time, but where values wait
 * for each other on a link: they go there in the order of the graph, and not in that of the sequence; and for ties.
 *
 * It does not know caps and interference: a problem that has them, or is so large that its tables would be, has no
 * estimator. */
#ifndef BRAID_SCHEDULE_ESTIMATE_H
#define BRAID_SCHEDULE_ESTIMATE_H

#include "schedule/policies/improve.h"

/* A task is named by its place in a topological order, which stays. */
typedef struct braid_estimator {
  const braid_problem *problem;
  size_t count;        /* tasks */
  const int32_t *task; /* per place: by its last node */
  double idle_watts;   /* of all devices */
  double *own;         /* per offer: joules beyond what its devices draw when idle */
  /* Per place: what it reads of others and of the host, what of its results others read or the host wants, and by what
   * it may run: reads[first_read[i]] to reads[first_read[i + 1]], and so on. */
  size_t *first_read, *first_result, *first_way;
  int32_t *reads, *results, *ways;
  size_t *first_reader; /* per value: places */
  int32_t *readers;
  int32_t *producer; /* per value: its place; -1: the host */
  /* Of the last run: */
  int32_t *sequence; /* places by their starts */
  double *tail;      /* per place: the longest path from its start to the end of the step */
  double seconds, joules;
  size_t work; /* of all runs: paths of tasks that were found; a task that was played counts as several */
  struct braid_estimating *running; /* working memory */
} braid_estimator;

/* For choices that have an order; NULL in *out: there is none for this problem. In the arena. */
BRAID_MUST_CHECK braid_status braid_estimator_create(const braid_improving *improving, braid_estimator **out);
/* Runs every place by its offer. False: it takes longer than `seconds`, or costs more than `joules`; what the last run
 * left is then undefined. `own`: the sum of what the offers cost beyond the idle power. */
bool braid_estimator_run(braid_estimator *estimator, const int32_t *offers, double own, double seconds, double joules);

#endif
