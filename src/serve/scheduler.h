/* The daemon's scheduler: requests wait here, are admitted, batched and run, on each device by its instances' threads.
 */
#ifndef BRAID_SERVE_SCHEDULER_H
#define BRAID_SERVE_SCHEDULER_H

#include "serve/decisions.h"
#include "serve/harvest.h"
#include "serve/model.h"
#include "serve/tenant.h"
#include "serve/trace/tracer.h"

typedef struct braid_serve_scheduler braid_serve_scheduler;

typedef struct braid_serve_load {
  int64_t waiting, waiting_rows, running;
  double margin_ms;            /* of deadlines, beyond forecasts */
  double busy;                 /* of late, 0 to 1, a second's average over instances */
  uint64_t runs, rows, filled; /* since the beginning; `filled`: rows of runs that nobody asked for */
} braid_serve_load;

/* What it is given must outlive it. */
braid_status braid_serve_scheduler_create(braid_serve_device *devices, size_t device_count, braid_serve_supply *supply,
                                          braid_serve_harvest *harvest, braid_serve_scheduler **out);
/* Refuses what comes, lets what waits and runs end within `grace_ns`, cancels the rest, and joins the threads. Every
 * request has its answer after it, and those that still come are refused: front ends may be stopped then. NULL is
 * allowed. */
void braid_serve_scheduler_end(braid_serve_scheduler *scheduler, int64_t grace_ns);
/* Ends it, if that has not been done. When no front end knows it any more. */
void braid_serve_scheduler_destroy(braid_serve_scheduler *scheduler);
/* The line's view of a card under its lock: `look` is called with the card, which is locked meanwhile. False: the
 * device is none. */
bool braid_serve_look_at_card(braid_serve_scheduler *scheduler, size_t device,
                              void (*look)(braid_serve_card *card, void *context), void *context);
/* Gives `count` instances of a device to a tenant alone: their threads run only its requests from now on, beside what
 * others of its requests get elsewhere. OVER_QUOTA: it would hold more than its share of the instances, rounded down.
 * UNAVAILABLE: one that nobody holds would not be left. Of a public card the same of cores, beside those of the
 * configuration; of these all may be held. INVALID: a private card. *out_held: held by all tenants, after this. */
braid_serve_verdict braid_serve_hold(braid_serve_scheduler *scheduler, size_t device, const braid_serve_tenant *tenant,
                                     size_t count, size_t *out_held);
void braid_serve_unhold(braid_serve_scheduler *scheduler, size_t device, const braid_serve_tenant *tenant,
                        size_t count);
/* Checks, admits and queues the request; request->done is called once, by this thread if it is refused. */
void braid_serve_submit(braid_serve_scheduler *scheduler, braid_serve_request *request);
/* The same, by a thread that may be kept for a while: where the request would begin at once, and runs of it have taken
 * less than BRAID_SERVE_SHORT_NS, this thread runs it, and request->done is called before the function returns. That
 * spares waking another thread, which on a machine that sleeps takes as long as a small run. Only on devices of one
 * instance and one thread, and of models whose requests do not share runs. */
enum { BRAID_SERVE_SHORT_NS = 250000 };
void braid_serve_submit_here(braid_serve_scheduler *scheduler, braid_serve_request *request);
/* Who takes requests for models of other nodes (model->remote), checked and counted: it ends each by
 * braid_serve_finish, or, where the model is here meanwhile, gives it back by braid_serve_resubmit, with that model in
 * it. */
typedef struct braid_serve_forwarder {
  void (*take)(void *context, braid_serve_request *request);
  void *context;
} braid_serve_forwarder;
void braid_serve_scheduler_set_forwarder(braid_serve_scheduler *scheduler, const braid_serve_forwarder *forwarder);
/* Who records what requests go through; NULL: nobody. Before the first request. */
void braid_serve_scheduler_set_tracer(braid_serve_scheduler *scheduler, braid_serve_tracer *tracer);
/* The request has its verdict: request->done is called. */
void braid_serve_finish(braid_serve_scheduler *scheduler, braid_serve_request *request);
void braid_serve_resubmit(braid_serve_scheduler *scheduler, braid_serve_request *request);
/* Power of something else than its runs is free: whoever waits for the cap looks again. */
void braid_serve_scheduler_power_freed(braid_serve_scheduler *scheduler);
/* What it has decided. */
braid_serve_decisions *braid_serve_scheduler_decisions(braid_serve_scheduler *scheduler);
braid_serve_load braid_serve_scheduler_load(braid_serve_scheduler *scheduler, size_t device);
/* No more requests from now on (UNAVAILABLE): a daemon that stops. */
void braid_serve_scheduler_close(braid_serve_scheduler *scheduler);

#endif
