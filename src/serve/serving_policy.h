/* What the daemon decides, over plain numbers: it touches no device and no clock, so the cluster's simulator and tests
 * drive the same code in virtual time. Times in nanoseconds on one clock. */
#ifndef BRAID_SERVE_SERVING_POLICY_H
#define BRAID_SERVE_SERVING_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request that waits. */
typedef struct braid_serve_waiting {
  int64_t arrived_ns;
  int64_t deadline_ns; /* 0: none */
  int64_t due_ns;      /* the deadline, or when it would be due without one: what equals are ordered by */
  int rank;            /* 1 is the most urgent; tenants that are over their share come behind all others (rank + 10) */
  int64_t rows;
  size_t group;      /* only requests of one group (model and shapes) share a run */
  int64_t most_rows; /* that a run of its group has */
  double delay_ns;   /* how long it may wait for others */
} braid_serve_waiting;

/* What a run of `rows` rows of a group takes: mean and standard deviation; both 0 where nothing is known. */
typedef struct braid_serve_span {
  double mean_ns, deviation_ns;
} braid_serve_span;
typedef braid_serve_span braid_serve_forecast(const void *context, size_t group, int64_t rows);
/* Deviations that few runs exceed. */
enum { BRAID_SERVE_DEVIATIONS = 4 };

/* Whether `a` goes before `b`: by rank, then by what is due first, then by arrival. */
bool braid_serve_before(const braid_serve_waiting *a, const braid_serve_waiting *b);

typedef struct braid_serve_admission {
  bool admitted;
  int64_t end_ns; /* when it is expected to end at the latest */
} braid_serve_admission;
/* Whether waiting[newest] may stay, which came just now: everything that waits is run in order, those of a group
 * together, on instances that are free at free_ns[]; it must end by its deadline and nothing that was admitted before
 * it and is as urgent may miss its own that it would meet without it. `waiting` is in order (braid_serve_before). */
braid_serve_admission braid_serve_admit(const braid_serve_waiting *waiting, size_t count, size_t newest, int64_t now_ns,
                                        const int64_t *free_ns, size_t instances, braid_serve_forecast *forecast,
                                        const void *context);

/* Requests of a run; and those that are looked at for an admission: what is behind them comes too late to matter. */
enum { BRAID_SERVE_TOGETHER = 64, BRAID_SERVE_LOOKED_AT = 512 };
typedef struct braid_serve_choice {
  size_t count;                         /* 0: nothing to run now */
  size_t members[BRAID_SERVE_TOGETHER]; /* indices of waiting requests, the first decides */
  int64_t rows;
  int64_t wake_ns; /* with nothing to run: when to ask again; 0: when something comes */
} braid_serve_choice;
/* The run to start now on a free instance; `waiting` is in order. Requests whose deadline cannot be met any more are to
 * be taken out before (braid_serve_is_late). The most urgent one's run takes in others of its group, in their order, as
 * long as no deadline in the run is missed for it. */
braid_serve_choice braid_serve_choose(const braid_serve_waiting *waiting, size_t count, int64_t now_ns,
                                      braid_serve_forecast *forecast, const void *context);
/* Whether a run of it alone that starts now would, on average, end after the deadline. */
bool braid_serve_is_late(const braid_serve_waiting *waiting, int64_t now_ns, braid_serve_forecast *forecast,
                         const void *context);

/* --- margin --------------------------------------------------------------------------------------------------------
 * What admission keeps of a deadline beyond the forecast, because forecasts are wrong at times: it grows with each
 * admitted request that missed its deadline and shrinks with each that did not, so that in the long run about one in
 * BRAID_SERVE_MISSES misses, whatever the forecasts are like (Gibbs and Candes, "Adaptive conformal inference under
 * distribution shift", NeurIPS 2021, equation 2). It is halved each minute besides, so that what a bad time has left
 * does not refuse requests for ever. It is for requests that wait behind others: one that can begin at once gains
 * nothing by being refused. All zero at the beginning. */
enum { BRAID_SERVE_MISSES = 2000 };
typedef struct braid_serve_margin {
  double ns;
  int64_t at_ns;
} braid_serve_margin;
double braid_serve_margin_now(const braid_serve_margin *margin, int64_t now_ns);
/* An admitted request has ended, `late_ns` after its deadline (0: it was not run in time; less: before), in a group
 * whose runs take `mean_ns`. Those that a more urgent one has pushed back are not to be noted. */
void braid_serve_margin_note(braid_serve_margin *margin, int64_t now_ns, bool missed, double late_ns, double mean_ns);

#endif
