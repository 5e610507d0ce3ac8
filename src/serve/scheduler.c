#include "serve/scheduler.h"

#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "serve/line.h"

static const int64_t kLinger = 200000, kCapLook = 1000000; /* between looks at training that is to rest: nanoseconds */
static const int64_t kPatience = 1000000000; /* when a request without a deadline is due after it came: nanoseconds */

typedef struct worker {
  braid_serve_scheduler *scheduler;
  braid_serve_line *line;
  size_t instance;
  braid_thread thread;
  bool started;
} worker;

struct braid_serve_scheduler {
  braid_serve_line *lines;
  size_t line_count;
  worker *workers;
  size_t worker_count;
  int closed, stop; /* atomic: nothing new is taken; runs are cancelled and what waits is refused */
  braid_serve_supply *supply;
  braid_serve_harvest *harvest;
  braid_serve_decisions *decisions;
  braid_thread sweeper;
  bool sweeps;                     /* its thread is there */
  uint32_t awake;                  /* atomic, a futex: the sweeper is, or is to be */
  braid_serve_tracer *tracer;      /* NULL: none */
  braid_serve_forwarder forwarder; /* set before the first request comes */
};

/* --- ends of requests ----------------------------------------------------------------------------------------------
 */
static int64_t epoch_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void count_statistics(const braid_serve_request *request) {
  braid_serve_statistics *counts = request->model->statistics;
  if (request->verdict != BRAID_SERVE_DONE) {
    __atomic_fetch_add(&counts->failed, 1, __ATOMIC_RELAXED);
    return;
  }
  __atomic_fetch_add(&counts->done, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->rows, (uint64_t)request->rows, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->queue_ns, (uint64_t)(request->started_ns - request->arrived_ns), __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->compute_ns, (uint64_t)(request->ended_ns - request->started_ns), __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->total_ns, (uint64_t)(request->ended_ns - request->arrived_ns), __ATOMIC_RELAXED);
  __atomic_store_n(&counts->last_ms, (uint64_t)(epoch_ns() / 1000000), __ATOMIC_RELAXED);
}

/* No lock is held. */
static void request_end(braid_serve_scheduler *scheduler, braid_serve_request *request, int64_t device_ns) {
  if (!request->ended_ns) request->ended_ns = braid_now_ns();
  braid_serve_tenant_leave(request->tenant, request, device_ns, request->model->device->config->run_watts);
  count_statistics(request);
  braid_serve_decisions_note(scheduler->decisions, request);
  braid_serve_trace_end(scheduler->tracer, request);
  request->done(request);
}

/* The same of one that training made way for. */
static void request_finish(braid_serve_scheduler *scheduler, braid_serve_request *request, int64_t device_ns) {
  request_end(scheduler, request, device_ns);
  braid_serve_harvest_leave(scheduler->harvest);
}

static void requests_finish(braid_serve_scheduler *scheduler, braid_serve_request *requests) {
  while (requests) {
    braid_serve_request *request = requests;
    requests = request->next;
    request->next = NULL;
    request_finish(scheduler, request, 0);
  }
}

static braid_serve_line *line_of(braid_serve_scheduler *scheduler, const braid_serve_request *request) {
  braid_serve_line *l = scheduler->lines;
  while (l->device != request->model->device) l++;
  return l;
}

/* Nothing of the line waits for the power cap. */
static void leave_cap(braid_serve_scheduler *scheduler, const braid_serve_line *l) {
  if (braid_serve_supply_has_cap(scheduler->supply)) braid_serve_supply_withdraw(scheduler->supply, l->index);
}

static void wake_sweeper(braid_serve_scheduler *scheduler) {
  if (!__atomic_exchange_n(&scheduler->awake, 1, __ATOMIC_SEQ_CST)) braid_futex_wake_all(&scheduler->awake);
}

void braid_serve_scheduler_set_forwarder(braid_serve_scheduler *scheduler, const braid_serve_forwarder *forwarder) {
  scheduler->forwarder = *forwarder;
}

void braid_serve_scheduler_set_tracer(braid_serve_scheduler *scheduler, braid_serve_tracer *tracer) {
  scheduler->tracer = tracer;
}

void braid_serve_finish(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  request_end(scheduler, request, 0);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* Takes out those whose clients have gone. */
static braid_serve_request *drop_gone(braid_serve_request **requests) {
  braid_serve_request *gone = NULL;
  for (braid_serve_request **link = requests; *link;) {
    braid_serve_request *request = *link;
    if (!request->is_gone || !request->is_gone(request)) {
      link = &request->next;
      continue;
    }
    *link = request->next;
    request->next = gone;
    request->started_ns = 0;
    gone = request;
    braid_serve_refuse(request, BRAID_SERVE_CANCELLED, "the client went before the request ran");
  }
  return gone;
}

/* Runs these, which are of `rows` rows together. False: each has to run by itself. */
static bool run_rows(worker *w, braid_serve_request *requests, int64_t rows) {
  braid_serve_model *model = requests->model;
  braid_serve_plan *plan = NULL;
  bool judged = true;
  if (w->line->card) {
    braid_serve_card_run(w->line, requests, &w->scheduler->stop);
    __atomic_fetch_add(&model->statistics->runs, 1, __ATOMIC_RELAXED);
  } else if (braid_serve_plan_get(model, requests, model->batched ? braid_serve_model_batch(model, rows) : 1, &plan) ==
             BRAID_SERVE_DONE) {
    judged = braid_serve_plan_run(model, plan, w->instance, requests, &w->scheduler->stop);
    braid_serve_plan_drop(model, plan);
    __atomic_fetch_add(&model->statistics->runs, 1, __ATOMIC_RELAXED);
  } else {
    for (braid_serve_request *other = requests->next; other; other = other->next)
      braid_serve_refuse(other, requests->verdict, "%s", requests->detail);
  }
  return judged;
}

/* What one request contains must not fail the others. */
static void run_each(worker *w, braid_serve_request *requests) {
  for (braid_serve_request *request = requests; request; request = request->next) {
    braid_serve_request *next = request->next;
    request->next = NULL;
    (void)run_rows(w, request, request->rows);
    request->next = next;
  }
}

static void wake_all(braid_serve_scheduler *scheduler) {
  for (size_t i = 0; i < scheduler->line_count; i++) {
    pthread_mutex_lock(&scheduler->lines[i].lock);
    pthread_cond_broadcast(&scheduler->lines[i].changed);
    pthread_mutex_unlock(&scheduler->lines[i].lock);
  }
}

void braid_serve_scheduler_power_freed(braid_serve_scheduler *scheduler) {
  if (braid_serve_supply_has_cap(scheduler->supply)) wake_all(scheduler);
}

static void wait_for_change(braid_serve_line *l, int64_t wake_ns) {
  if (!wake_ns) {
    pthread_cond_wait(&l->changed, &l->lock);
    return;
  }
  struct timespec until = {wake_ns / 1000000000, wake_ns % 1000000000};
  (void)pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

/* What is to run now, or NULL and when to look again (0: when something changes). *ended: what is late. */
static braid_serve_request *begin_run(worker *w, int64_t now, int64_t *wake, braid_serve_request **ended) {
  braid_serve_line *l = w->line;
  braid_serve_supply *supply = w->scheduler->supply;
  *wake = 0;
  if (l->count && braid_serve_line_look(l, now, l->holders[w->instance]) != BRAID_OK) {
    *wake = now + 10000000; /* no memory to look with: later */
    return NULL;
  }
  if (l->count) *ended = braid_serve_line_take_late(l, now);
  if (l->lent) return NULL;
  braid_serve_choice choice = {0};
  if (l->count && l->card)
    choice = braid_serve_line_choose_cores(l, now);
  else if (l->count)
    choice = braid_serve_choose(l->numbers, l->seen_count, now, braid_serve_line_forecast, l);
  *wake = choice.wake_ns;
  if (!choice.count) {
    if (!l->count || !l->holders[w->instance]) leave_cap(w->scheduler, l); /* a holder's instance sees its own alone */
    return NULL;
  }
  const braid_serve_waiting *first = &l->numbers[choice.members[0]];
  bool lingers = braid_serve_supply_has_cap(supply) && braid_serve_harvest_lingers(w->scheduler->harvest);
  if (!braid_serve_supply_begin(supply, l->index, first->rank, first->due_ns)) {
    *wake = now + (lingers ? kLinger : kCapLook); /* whoever is before it may leave, sensors may show less */
    return NULL;
  }
  braid_serve_span span = braid_serve_line_forecast(l, first->group, choice.rows);
  braid_serve_request *run = braid_serve_line_take(l, &choice, now);
  l->free_ns[w->instance] = now + (int64_t)span.mean_ns;
  l->load.running++;
  l->runs_for[w->instance] = run->tenant;
  for (braid_serve_request *request = run; request; request = request->next) request->why.instance = w->instance;
  if (l->card) braid_serve_line_begin_cores(l, run, now);
  if (l->count) pthread_cond_broadcast(&l->changed); /* what is left may be for an instance that sleeps */
  return run;
}

/* What an instance used is free; under a cap whoever waits for that, on any device, looks again. No lock is held. */
static void give_power_back(worker *w, int64_t ran_ns) {
  braid_serve_scheduler *scheduler = w->scheduler;
  braid_serve_supply_end(scheduler->supply, w->line->index, ran_ns);
  if (braid_serve_supply_has_cap(scheduler->supply)) wake_all(scheduler);
}

static void run_together(worker *w, braid_serve_request *requests) {
  braid_serve_line *l = w->line;
  braid_serve_model *model = requests->model;
  int64_t rows = 0, began = requests->started_ns;
  for (const braid_serve_request *request = requests; request; request = request->next) rows += request->rows;
  int64_t batch = model->batched ? braid_serve_model_batch(model, rows) : 1;
  braid_serve_trace_run(w->scheduler->tracer, requests);
  if (!run_rows(w, requests, rows)) run_each(w, requests);
  int64_t took = braid_now_ns() - began;
  braid_serve_trace_ran(w->scheduler->tracer, requests);
  pthread_mutex_lock(&l->lock);
  int64_t now = braid_now_ns();
  if (l->card) braid_serve_line_end_cores(l, requests, took, now);
  l->free_ns[w->instance] = 0;
  l->runs_for[w->instance] = NULL;
  l->load.running--;
  l->load.runs++;
  l->load.rows += (uint64_t)rows;
  l->load.filled += (uint64_t)(batch > rows ? batch - rows : 0);
  l->busy_ns = l->busy_ns * exp2(-1e-9 * (double)(now - l->busy_at_ns)) + (double)took;
  l->busy_at_ns = now;
  for (const braid_serve_request *request = requests; request; request = request->next)
    braid_serve_line_note(l, request, now);
  pthread_mutex_unlock(&l->lock);
  give_power_back(w, took);
  while (requests) { /* whoever has its answer may free the request */
    braid_serve_request *request = requests;
    requests = request->next;
    request->next = NULL;
    request_finish(w->scheduler, request, (int64_t)((double)took * (double)request->rows / (double)(rows ? rows : 1)));
  }
}

/* Of a request that is not run, since its client has gone; a card runs one at a time. */
static void drop_cores(braid_serve_line *l, braid_serve_request *gone) {
  pthread_mutex_lock(&l->lock);
  braid_serve_line_end_cores(l, gone, 0, braid_now_ns());
  pthread_mutex_unlock(&l->lock);
}

/* The next run, or NULL: the daemon stops. The line is locked; not while requests are finished. */
static braid_serve_request *next_run(worker *w) {
  braid_serve_line *l = w->line;
  for (;;) {
    int64_t wake = 0;
    if (!l->count && __atomic_load_n(&w->scheduler->closed, __ATOMIC_ACQUIRE)) return NULL;
    braid_serve_request *run = NULL, *ended = NULL;
    if (__atomic_load_n(&w->scheduler->stop, __ATOMIC_ACQUIRE))
      ended = braid_serve_line_take_all(l);
    else
      run = begin_run(w, braid_now_ns(), &wake, &ended);
    if (!ended && !run) {
      wait_for_change(l, wake);
      continue;
    }
    bool begun = run != NULL;
    pthread_mutex_unlock(&l->lock);
    requests_finish(w->scheduler, ended);
    braid_serve_request *gone = drop_gone(&run);
    if (l->card && gone) drop_cores(l, gone);
    requests_finish(w->scheduler, gone);
    if (run) return run;
    if (begun) give_power_back(w, 0);
    pthread_mutex_lock(&l->lock);
    if (begun) l->load.running--;
    l->free_ns[w->instance] = 0;
    l->runs_for[w->instance] = NULL;
  }
}

static void *worker_main(void *context) {
  worker *w = context;
  for (;;) {
    pthread_mutex_lock(&w->line->lock);
    braid_serve_request *run = next_run(w);
    if (!run) break;
    run_together(w, run);
  }
  pthread_mutex_unlock(&w->line->lock);
  return NULL;
}

/* --- requests that come --------------------------------------------------------------------------------------------
 */
/* The line is locked, and the request waits in it alone. NULL: it is the workers'. */
static braid_serve_request *borrow_instance(braid_serve_scheduler *scheduler, braid_serve_line *l,
                                            braid_serve_request *request) {
  if (l->card || l->lent || !l->device->prompt || l->device->instance_count > 1 || l->device->config->threads != 1 ||
      request->model->max_batch > 1 || !braid_serve_model_is_short(request->model, request, BRAID_SERVE_SHORT_NS))
    return NULL;
  worker *w = scheduler->workers;
  while (w->line != l) w++;
  int64_t wake;
  braid_serve_request *late = NULL; /* nothing, or the request, whose verdict then says so */
  braid_serve_request *run = begin_run(w, braid_now_ns(), &wake, &late);
  l->lent = run != NULL;
  return run;
}

static void run_borrowed(braid_serve_scheduler *scheduler, braid_serve_request *run) {
  worker *w = scheduler->workers;
  braid_serve_line *l = line_of(scheduler, run);
  while (w->line != l) w++;
  run_together(w, run);
  pthread_mutex_lock(&l->lock);
  l->lent = false;
  if (l->count || __atomic_load_n(&scheduler->closed, __ATOMIC_ACQUIRE)) pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}

/* *out_run: what this thread is to run now, where it may run something (`here`); else NULL. */
static braid_serve_verdict enqueue(braid_serve_scheduler *scheduler, braid_serve_request *request, bool here,
                                   braid_serve_request **out_run) {
  braid_serve_line *l = line_of(scheduler, request);
  *out_run = NULL;
  pthread_mutex_lock(&l->lock);
  braid_serve_verdict verdict = __atomic_load_n(&scheduler->closed, __ATOMIC_ACQUIRE)
                                    ? braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops")
                                    : braid_serve_line_add(l, request);
  bool busy = l->count > 1 || l->holds || l->load.running >= (int64_t)l->device->instance_count ||
              braid_serve_supply_has_cap(scheduler->supply);
  bool stays = verdict == BRAID_SERVE_DONE && request->deadline_ns && busy;
  if (verdict == BRAID_SERVE_DONE && here && !busy) *out_run = borrow_instance(scheduler, l, request);
  if (*out_run || request->verdict != BRAID_SERVE_DONE) {
    pthread_mutex_unlock(&l->lock);
    return *out_run ? BRAID_SERVE_DONE : request->verdict;
  }
  if (verdict == BRAID_SERVE_DONE && l->holds)
    pthread_cond_broadcast(&l->changed); /* not any thread may run it */
  else if (verdict == BRAID_SERVE_DONE)
    pthread_cond_signal(&l->changed);
  pthread_mutex_unlock(&l->lock);
  if (stays) wake_sweeper(scheduler); /* the request is its runner's by now */
  return verdict;
}

static void request_submit(braid_serve_scheduler *scheduler, braid_serve_request *request, bool here) {
  braid_serve_request *run = NULL;
  request->arrived_ns = braid_now_ns();
  if (!request->model->remote) braid_serve_harvest_enter(scheduler->harvest);
  if (!request->deadline_ns && request->model->config->deadline_ms > 0)
    request->deadline_ns = request->arrived_ns + (int64_t)(request->model->config->deadline_ms * 1e6);
  request->due_ns = request->deadline_ns ? request->deadline_ns : request->arrived_ns + kPatience;
  braid_serve_verdict verdict = braid_serve_model_check(request->model, request);
  if (verdict == BRAID_SERVE_DONE) verdict = braid_serve_tenant_enter(request->tenant, request);
  if (request->model->remote) {
    if (verdict == BRAID_SERVE_DONE)
      scheduler->forwarder.take(scheduler->forwarder.context, request);
    else
      request_end(scheduler, request, 0);
    return;
  }
  if (verdict == BRAID_SERVE_DONE) verdict = enqueue(scheduler, request, here, &run);
  if (verdict != BRAID_SERVE_DONE) request_finish(scheduler, request, 0);
  if (run) run_borrowed(scheduler, run);
}

void braid_serve_submit(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  request_submit(scheduler, request, false);
}

void braid_serve_submit_here(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  request_submit(scheduler, request, true);
}

void braid_serve_resubmit(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  braid_serve_request *none;
  braid_serve_harvest_enter(scheduler->harvest);
  braid_serve_verdict verdict = braid_serve_model_check(request->model, request);
  if (verdict == BRAID_SERVE_DONE) verdict = enqueue(scheduler, request, false, &none);
  if (verdict != BRAID_SERVE_DONE) request_finish(scheduler, request, 0);
}

/* --- what is late while all instances run --------------------------------------------------------------------------
 */
static const int64_t kSweepNs = 10000000;

/* Refuses what cannot be in time any more. Returns whether requests are left. */
static bool sweep(braid_serve_scheduler *scheduler) {
  bool left = false;
  for (size_t i = 0; i < scheduler->line_count; i++) {
    braid_serve_line *l = &scheduler->lines[i];
    braid_serve_request *late = NULL;
    int64_t now = braid_now_ns();
    pthread_mutex_lock(&l->lock);
    if (l->count && braid_serve_line_look(l, now, NULL) == BRAID_OK) late = braid_serve_line_take_late(l, now);
    if (!l->count) leave_cap(scheduler, l);
    left |= l->count > 0;
    pthread_mutex_unlock(&l->lock);
    requests_finish(scheduler, late);
  }
  return left;
}

static void *sweep_main(void *context) {
  braid_serve_scheduler *scheduler = context;
  for (;;) {
    __atomic_store_n(&scheduler->awake, 0, __ATOMIC_SEQ_CST); /* before it looks: whoever changes something sets it */
    if (__atomic_load_n(&scheduler->stop, __ATOMIC_SEQ_CST)) break;
    bool left = sweep(scheduler);
    (void)braid_futex_wait(&scheduler->awake, 0, left ? kSweepNs : -1);
  }
  return NULL;
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_serve_scheduler_create(braid_serve_device *devices, size_t device_count, braid_serve_supply *supply,
                                          braid_serve_harvest *harvest, braid_serve_scheduler **out) {
  *out = NULL;
  size_t workers = 0;
  for (size_t i = 0; i < device_count; i++) workers += devices[i].instance_count;
  braid_serve_scheduler *scheduler = braid_zalloc(NULL, sizeof *scheduler);
  if (!scheduler) return BRAID_NO_MEMORY;
  scheduler->supply = supply;
  scheduler->harvest = harvest;
  scheduler->lines = braid_zalloc_array(NULL, device_count, sizeof *scheduler->lines);
  scheduler->workers = braid_zalloc_array(NULL, workers, sizeof *scheduler->workers);
  braid_status status = scheduler->lines && scheduler->workers ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_serve_decisions_create(&scheduler->decisions);
  for (size_t i = 0; i < device_count && status == BRAID_OK; i++) {
    braid_serve_line_init(&scheduler->lines[scheduler->line_count++], &devices[i], i, workers, supply);
    for (size_t k = 0; k < devices[i].instance_count && status == BRAID_OK; k++) {
      worker *w = &scheduler->workers[scheduler->worker_count++];
      *w = (worker){.scheduler = scheduler, .line = &scheduler->lines[i], .instance = k};
      status = braid_thread_start(&w->thread, "braid-serve", worker_main, w);
      w->started = status == BRAID_OK;
    }
  }
  if (status == BRAID_OK) status = braid_thread_start(&scheduler->sweeper, "braid-late", sweep_main, scheduler);
  scheduler->sweeps = status == BRAID_OK;
  if (status == BRAID_OK)
    *out = scheduler;
  else
    braid_serve_scheduler_destroy(scheduler);
  return status;
}

void braid_serve_scheduler_close(braid_serve_scheduler *scheduler) {
  __atomic_store_n(&scheduler->closed, 1, __ATOMIC_RELEASE);
  wake_all(scheduler);
}

static bool is_idle(braid_serve_scheduler *scheduler) {
  bool idle = true;
  for (size_t i = 0; i < scheduler->line_count; i++) {
    braid_serve_load load = braid_serve_scheduler_load(scheduler, i);
    idle &= !load.waiting && !load.running;
  }
  return idle;
}

/* Whoever has borrowed its instance gives it back within moments. */
static void await_lent(braid_serve_line *l) {
  pthread_mutex_lock(&l->lock);
  while (l->lent) pthread_cond_wait(&l->changed, &l->lock);
  pthread_mutex_unlock(&l->lock);
}

void braid_serve_scheduler_end(braid_serve_scheduler *scheduler, int64_t grace_ns) {
  if (!scheduler) return;
  braid_serve_scheduler_close(scheduler);
  int64_t until = braid_now_ns() + grace_ns;
  while (!is_idle(scheduler) && braid_now_ns() < until) nanosleep(&(struct timespec){0, 2000000}, NULL);
  __atomic_store_n(&scheduler->stop, 1, __ATOMIC_SEQ_CST);
  wake_all(scheduler);
  for (size_t i = 0; i < scheduler->worker_count; i++) {
    if (scheduler->workers[i].started) braid_thread_join(&scheduler->workers[i].thread);
    scheduler->workers[i].started = false;
  }
  for (size_t i = 0; i < scheduler->line_count; i++) await_lent(&scheduler->lines[i]);
  wake_sweeper(scheduler);
  if (scheduler->sweeps) braid_thread_join(&scheduler->sweeper);
  scheduler->sweeps = false;
}

void braid_serve_scheduler_destroy(braid_serve_scheduler *scheduler) {
  if (!scheduler) return;
  braid_serve_scheduler_end(scheduler, 0);
  for (size_t i = 0; i < scheduler->line_count; i++) braid_serve_line_deinit(&scheduler->lines[i]);
  braid_serve_decisions_destroy(scheduler->decisions);
  braid_free(NULL, scheduler->lines);
  braid_free(NULL, scheduler->workers);
  braid_free(NULL, scheduler);
}

/* --- instances for a tenant alone ----------------------------------------------------------------------------------
 */
/* Beside those of the configuration a tenant may ask for its share of a public card's cores. */
static braid_serve_verdict hold_cores(braid_serve_line *l, const braid_serve_tenant *tenant, size_t count,
                                      size_t *out_held) {
  braid_serve_card *card = l->card;
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  pthread_mutex_lock(&l->lock);
  double most = (double)braid_serve_share_of(tenant, (size_t)card->cores);
  double asked = braid_serve_card_held(card, tenant) - (double)tenant->config->cores;
  if (card->elastic)
    verdict = BRAID_SERVE_INVALID;
  else if (asked + (double)count > most)
    verdict = BRAID_SERVE_OVER_QUOTA;
  else if (!braid_serve_card_hold(card, tenant, (int)count))
    verdict = BRAID_SERVE_UNAVAILABLE;
  *out_held = (size_t)braid_serve_card_held(card, NULL);
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return verdict;
}

braid_serve_verdict braid_serve_hold(braid_serve_scheduler *scheduler, size_t device, const braid_serve_tenant *tenant,
                                     size_t count, size_t *out_held) {
  braid_serve_line *l = &scheduler->lines[device];
  size_t instances = l->device->instance_count, own = 0;
  if (l->card) return hold_cores(l, tenant, count, out_held);
  pthread_mutex_lock(&l->lock);
  for (size_t i = 0; i < instances; i++) own += l->holders[i] == tenant;
  size_t most = braid_serve_share_of(tenant, instances);
  braid_serve_verdict verdict = count > most || own > most - count                       ? BRAID_SERVE_OVER_QUOTA
                                : count >= instances || l->holds > instances - 1 - count ? BRAID_SERVE_UNAVAILABLE
                                                                                         : BRAID_SERVE_DONE;
  for (size_t i = instances; verdict == BRAID_SERVE_DONE && count && i-- > 0;) {
    if (l->holders[i]) continue;
    l->holders[i] = tenant;
    l->holds++;
    count--;
  }
  *out_held = l->holds;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return verdict;
}

void braid_serve_unhold(braid_serve_scheduler *scheduler, size_t device, const braid_serve_tenant *tenant,
                        size_t count) {
  braid_serve_line *l = &scheduler->lines[device];
  pthread_mutex_lock(&l->lock);
  if (l->card) braid_serve_card_unhold(l->card, tenant, (int)count);
  for (size_t i = 0; i < l->device->instance_count && count && !l->card; i++) {
    if (l->holders[i] != tenant) continue;
    l->holders[i] = NULL;
    l->holds--;
    count--;
  }
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}

bool braid_serve_look_at_card(braid_serve_scheduler *scheduler, size_t device,
                              void (*look)(braid_serve_card *card, void *context), void *context) {
  braid_serve_line *l = &scheduler->lines[device];
  if (!l->card) return false;
  pthread_mutex_lock(&l->lock);
  look(l->card, context);
  pthread_mutex_unlock(&l->lock);
  return true;
}

braid_serve_load braid_serve_scheduler_load(braid_serve_scheduler *scheduler, size_t device) {
  braid_serve_line *l = &scheduler->lines[device];
  pthread_mutex_lock(&l->lock);
  braid_serve_load load = l->load;
  load.margin_ms = 1e-6 * braid_serve_margin_now(&l->margin, braid_now_ns());
  double recent = l->busy_ns * exp2(-1e-9 * (double)(braid_now_ns() - l->busy_at_ns)) * M_LN2;
  load.busy = fmin(1, recent / (1e9 * (double)l->device->instance_count));
  pthread_mutex_unlock(&l->lock);
  return load;
}

braid_serve_decisions *braid_serve_scheduler_decisions(braid_serve_scheduler *scheduler) {
  return scheduler->decisions;
}
