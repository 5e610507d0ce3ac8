/* What became of jobs that shared a card. The definitions of Eyerman and Eeckhout (IEEE Micro 2008), as PREMA uses
 * them: a job's slowdown is its time from arrival to end over its time alone (on the whole card, on the cores that run
 * it fastest, without a switch). */
#ifndef BRAID_OVERLAY_SHARE_METRICS_H
#define BRAID_OVERLAY_SHARE_METRICS_H

#include "overlay/share/card.h"

enum { BRAID_SHARE_LEVELS = 10 };
/* Multiples of the time alone that count as service levels: 2, 4, ... 20. */
double braid_share_level(size_t index);

typedef struct braid_share_metrics {
  size_t jobs;        /* that ended well; all else is of these */
  size_t failed;      /* errors and time-outs */
  double antt;        /* average normalized turnaround time: the mean slowdown, >= 1; less is better */
  double urgent_antt; /* of the jobs with the greatest priority */
  double stp;         /* system throughput: the sum of 1 / slowdown, <= jobs; more is better */
  /* The least over the greatest normalized progress, 1 / slowdown over the job's share of all priorities: 1 is fair */
  double fairness;
  double satisfied[BRAID_SHARE_LEVELS]; /* the share of jobs with a slowdown of at most the level */
  double deadlines;                     /* the share of jobs with a deadline that met it; NAN: none has one */
  /* 99th percentiles by nearest rank: the least value that at least 99% of the jobs do not exceed */
  double p99_slowdown, p99_seconds;
  double worst_slowdown;
  double longest_wait; /* seconds in a row without cores, the most of any job: starvation */
} braid_share_metrics;

/* results: of braid_share_run of the card. */
BRAID_MUST_CHECK braid_status braid_share_measure(const braid_share_card *card, const braid_share_result *results,
                                                  const braid_allocator *allocator, braid_share_metrics *out);

/* The value at rank ceil(percent / 100 x count) of ascending values; count > 0, 0 < percent <= 100. */
double braid_share_percentile(const double *ascending, size_t count, double percent);

#endif
