/* A card of the overlay that the daemon shares: which cores a run has, who runs next and with how many
 * (docs/serving.md; sections 4.2, 5.2 and 6.3 of Zeng et al. 2021).
 *
 * Private: all cores are everybody's. Algorithm 1 in its corrected form, with equations 12 and 13 by an exact dynamic
 * program (overlay/share), says how many cores each run and each waiting request is to have; runs take and give back
 * cores at the ends of layers. A run keeps one core at least until it ends, so that nothing waits on the card with its
 * memory, and a request that has waited for BRAID_SERVE_CARD_PATIENCE is given a core before all that have not: the
 * policy alone has no such bound.
 * Public: cores are a tenant's alone, who has its requests run on all of them, one after the other (line 15).
 *
 * No clock and no device is touched: whoever calls says the time, so that tests drive it in virtual time. One thread at
 * a time. */
#ifndef BRAID_SERVE_SHARED_CARD_H
#define BRAID_SERVE_SHARED_CARD_H

#include "overlay/share/card.h"

enum { BRAID_SERVE_CARD_RUNS = 16 }; /* side by side: no more tenants can have cores of a public card */
#define BRAID_SERVE_CARD_PATIENCE INT64_C(1000000000) /* nanoseconds */

/* A request, from when it waits until it has ended. */
typedef struct braid_serve_card_job {
  /* --- set by the caller before it waits --- */
  const braid_share_model *model; /* modelled seconds on 1, 2, ... cores */
  const void *tenant;
  double priority;                 /* > 0, greater is more urgent */
  int64_t arrived_ns, deadline_ns; /* 0: no deadline */
  /* --- the card's; the caller may read them --- */
  double kept[BRAID_SHARE_KEPT]; /* the policy's; the first are its tokens */
  uint64_t number;               /* 0: it has not been seen yet */
  double arrived;                /* by the card's clock, seconds */
  int target;                    /* cores that it is to have */
  bool overdue;                  /* it has been given a core for its patience's sake */
  uint64_t cores;                /* a bit for each that it has */
  double progress;               /* the share of the run that is done */
  double seconds, core_seconds;  /* modelled: it ran; times its cores */
  unsigned switches;             /* changes of its cores within the run */
  int begun_with;                /* cores */
} braid_serve_card_job;

/* What a tenant has used of the card, modelled. */
typedef struct braid_serve_card_usage {
  const void *tenant;
  braid_share_counters counters;
} braid_serve_card_usage;

enum { BRAID_SERVE_CARD_TENANTS = 256 };
typedef struct braid_serve_card {
  const braid_overlay_design *design;            /* owned */
  int cores, runs;                               /* runs: that may be side by side */
  bool elastic;                                  /* private; else public */
  const void *holders[BRAID_OVERLAY_MOST_CORES]; /* public: whose core it is; NULL: nobody's */
  uint64_t busy;                                 /* cores that runs have */
  braid_serve_card_job *running[BRAID_SERVE_CARD_RUNS];
  int running_count;
  bool stale;        /* something came, ended or was held since the last decision */
  uint64_t numbered; /* jobs seen */
  /* The card's clock: modelled seconds. What simulates the card is slower than the card, by `pace` (measured: of runs,
   * over what they take by the model), so that waiting and running are counted alike. */
  double clock, pace;
  bool paced; /* else no run has ended: 1 */
  int64_t clock_ns;
  uint64_t decisions, switches, compiles;
  double compile_microseconds; /* measured: of the dynamic compiler, all together */
  braid_serve_card_usage usage[BRAID_SERVE_CARD_TENANTS];
  size_t usage_count;
  /* --- of a decision --- */
  braid_share_job *view;
  braid_share_answer *answers;
  braid_serve_card_job **order;
  size_t *numbers, room;
} braid_serve_card;

/* `spec` as for --device: "overlay[:design=NAME or FILE][,cores=N]". INVALID_ARGUMENT: another one; a design of
 * recurrent cores is UNSUPPORTED. */
BRAID_MUST_CHECK braid_status braid_serve_card_create(const char *spec, bool elastic, int64_t now_ns,
                                                      braid_serve_card **out);
void braid_serve_card_destroy(braid_serve_card *card); /* NULL is allowed */

/* Says of all that runs and of `count` waiting jobs, the most urgent first, how many cores each is to have (`target`).
 * NO_MEMORY: targets are as they were. */
BRAID_MUST_CHECK braid_status braid_serve_card_decide(braid_serve_card *card, braid_serve_card_job *const *waiting,
                                                      size_t count, int64_t now_ns);
/* Of these the one that can begin now, SIZE_MAX: none. Overdue ones first, then in their order. */
size_t braid_serve_card_next(const braid_serve_card *card, braid_serve_card_job *const *waiting, size_t count);
/* It begins, with those cores of its target that are free; returns how many. After braid_serve_card_next. */
int braid_serve_card_begin(braid_serve_card *card, braid_serve_card_job *job, int64_t now_ns);
/* It has come to the end of a layer: `progress` is done, in `seconds` (modelled) since the last place. Gives back and
 * takes cores as the last decision says; returns how many it has now, at least 1. *given_back: others may look. */
int braid_serve_card_place(braid_serve_card *card, braid_serve_card_job *job, double progress, double seconds,
                           bool *given_back);
/* It has ended, `took_ns` (measured) after it began; 0: it did not run. */
typedef enum braid_serve_card_end_kind {
  BRAID_SERVE_CARD_DONE,
  BRAID_SERVE_CARD_ERROR,
  BRAID_SERVE_CARD_LATE,
  BRAID_SERVE_CARD_DROPPED
} braid_serve_card_end_kind;
void braid_serve_card_end(braid_serve_card *card, braid_serve_card_job *job, braid_serve_card_end_kind kind,
                          int64_t took_ns, int64_t now_ns);

/* Public cores. False: there are not `count` free ones (a core that was given back while a run had it is free when that
 * run leaves it), or as many tenants have cores as can run side by side. */
bool braid_serve_card_hold(braid_serve_card *card, const void *tenant, int count);
void braid_serve_card_unhold(braid_serve_card *card, const void *tenant, int count);
int braid_serve_card_held(const braid_serve_card *card, const void *tenant); /* NULL: by all */
/* That runs of the tenant have now. */
int braid_serve_card_used(const braid_serve_card *card, const void *tenant);

/* The card's clock at this time. */
double braid_serve_card_clock(braid_serve_card *card, int64_t now_ns);
/* What the tenant has used, in the words of Linux's fdinfo (braid_share_fdinfo), all modelled: by the card's clock.
 * `client`: drm-client-id; returns the length as snprintf does. */
int braid_serve_card_fdinfo(braid_serve_card *card, const void *tenant, size_t client, double priority, int64_t now_ns,
                            char *text, size_t bytes);

#endif
