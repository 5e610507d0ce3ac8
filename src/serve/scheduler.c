#include "serve/scheduler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/try.h"
#include "base/vector.h"
#include "serve/serving_policy.h"

enum { kDecisions = 256, kOverShare = 10 };
static const int64_t kPatience = 1000000000; /* when a request without a deadline is due after it came: nanoseconds */

/* What waits for a device, in no order, and what the policy sees of it. */
typedef struct line {
  struct braid_serve_scheduler *scheduler;
  braid_serve_device *device;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  braid_serve_request **waiting;
  size_t count, capacity;
  /* Of the last look: waiting requests in the policy's order, with their numbers, and one request of each group. */
  struct seen {
    braid_serve_waiting numbers;
    braid_serve_request *request;
  } * seen;
  braid_serve_waiting *numbers;
  braid_serve_request **groups;
  size_t seen_count, room;
  const braid_serve_tenant *holders[BRAID_SERVE_INSTANCES]; /* who has the instance alone; NULL: nobody */
  size_t holds;                                             /* instances that somebody has alone */
  int64_t free_ns[BRAID_SERVE_INSTANCES];                   /* when an instance is expected to be free; 0: it is */
  double busy_ns;                                           /* of late, decaying by half each second */
  int64_t busy_at_ns;
  braid_serve_load load;
} line;

typedef struct worker {
  line *line;
  size_t instance;
  braid_thread thread;
  bool started;
} worker;

struct braid_serve_scheduler {
  line *lines;
  size_t line_count;
  worker *workers;
  size_t worker_count;
  int closed, stop;     /* atomic: nothing new is taken; runs are cancelled and what waits is refused */
  pthread_mutex_t lock; /* of the decisions */
  braid_serve_decision decisions[kDecisions];
  uint64_t decision_count;
  braid_serve_forwarder forwarder; /* set before the first request comes */
};

/* --- ends of requests ----------------------------------------------------------------------------------------------
 */
static int64_t epoch_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note_decision(braid_serve_scheduler *scheduler, const braid_serve_request *request) {
  bool ran = request->started_ns != 0;
  pthread_mutex_lock(&scheduler->lock);
  braid_serve_decision *decision = &scheduler->decisions[scheduler->decision_count % kDecisions];
  *decision = (braid_serve_decision){.number = ++scheduler->decision_count,
                                     .at_ns = epoch_ns(),
                                     .verdict = request->verdict,
                                     .rows = request->rows,
                                     .batch = request->batch,
                                     .waited_ns = (ran ? request->started_ns : request->ended_ns) - request->arrived_ns,
                                     .ran_ns = ran ? request->ended_ns - request->started_ns : 0,
                                     .predicted_ns = request->predicted_ns};
  snprintf(decision->model, sizeof decision->model, "%s", request->model->config->name);
  snprintf(decision->tenant, sizeof decision->tenant, "%s", request->tenant->config->name);
  decision->why = request->why;
  if (request->verdict != BRAID_SERVE_DONE) memcpy(decision->refusal, request->detail, sizeof decision->refusal);
  pthread_mutex_unlock(&scheduler->lock);
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
static void request_finish(braid_serve_scheduler *scheduler, braid_serve_request *request, int64_t device_ns) {
  if (!request->ended_ns) request->ended_ns = braid_now_ns();
  braid_serve_tenant_leave(request->tenant, request, device_ns);
  count_statistics(request);
  note_decision(scheduler, request);
  request->done(request);
}

static void requests_finish(braid_serve_scheduler *scheduler, braid_serve_request *requests) {
  while (requests) {
    braid_serve_request *request = requests;
    requests = request->next;
    request->next = NULL;
    request_finish(scheduler, request, 0);
  }
}

/* --- what the policy sees ------------------------------------------------------------------------------------------
 */
static braid_serve_span forecast(const void *context, size_t group, int64_t rows) {
  const line *l = context;
  const braid_serve_request *like = l->groups[group];
  braid_serve_times times = braid_serve_model_times(like->model, like, rows);
  return (braid_serve_span){times.mean_ns, times.deviation_ns};
}

static int compare_seen(const void *a, const void *b) {
  const struct seen *x = a, *y = b;
  return braid_serve_before(&x->numbers, &y->numbers) ? -1 : braid_serve_before(&y->numbers, &x->numbers);
}

static braid_status make_room(line *l) {
  if (l->room >= l->count) return BRAID_OK;
  size_t room = 2 * l->count;
  struct seen *seen = realloc(l->seen, room * sizeof *seen);
  if (seen) l->seen = seen;
  braid_serve_waiting *numbers = seen ? realloc(l->numbers, room * sizeof *numbers) : NULL;
  if (numbers) l->numbers = numbers;
  braid_serve_request **groups = numbers ? realloc(l->groups, room * sizeof *groups) : NULL;
  if (!groups) return BRAID_NO_MEMORY;
  l->groups = groups;
  l->room = room;
  return BRAID_OK;
}

/* A tenant that has used more than its share of the device of late comes behind those that have not. */
static int rank_of(const line *l, const braid_serve_request *request, int64_t now) {
  int priority = (int)request->tenant->config->priority;
  if (request->priority > priority) priority = request->priority;
  double allowed = request->tenant->config->share * 1e9 * (double)l->scheduler->worker_count; /* of all devices */
  return priority + (braid_serve_tenant_recent(request->tenant, now) > allowed ? kOverShare : 0);
}

/* Brings l->seen and l->numbers up to date: what an instance whose holder is `holder` may run. */
static braid_status line_look(line *l, int64_t now, const braid_serve_tenant *holder) {
  size_t groups = 0, count = 0;
  BRAID_TRY(make_room(l));
  for (size_t i = 0; i < l->count; i++) {
    braid_serve_request *request = l->waiting[i];
    size_t group = 0;
    if (holder && request->tenant != holder) continue;
    while (group < groups && !braid_serve_same_shapes(l->groups[group], request)) group++;
    if (group == groups) l->groups[groups++] = request;
    l->seen[count].request = request;
    l->seen[count++].numbers = (braid_serve_waiting){
        .arrived_ns = request->arrived_ns,
        .deadline_ns = request->deadline_ns,
        .due_ns = request->due_ns,
        .rank = rank_of(l, request, now),
        .rows = request->rows,
        .group = group,
        .most_rows = request->model->max_batch,
        .delay_ns = request->model->config->delay_ms * 1e6,
    };
  }
  if (count > 1) qsort(l->seen, count, sizeof *l->seen, compare_seen);
  for (size_t i = 0; i < count; i++) l->numbers[i] = l->seen[i].numbers;
  l->seen_count = count;
  return BRAID_OK;
}

static void line_take_out(line *l, const braid_serve_request *request) {
  size_t at = 0;
  while (l->waiting[at] != request) at++;
  l->waiting[at] = l->waiting[--l->count];
  l->load.waiting--;
  l->load.waiting_rows -= request->rows;
}

/* --- admission -----------------------------------------------------------------------------------------------------
 */
/* Judges the request, which waits already. */
static braid_serve_verdict line_admit(line *l, braid_serve_request *request, int64_t now) {
  bool deadlines = false;
  size_t newest = 0;
  for (size_t i = 0; i < l->count && !deadlines; i++) deadlines = l->waiting[i]->deadline_ns != 0;
  if (!deadlines) return BRAID_SERVE_DONE;
  if (line_look(l, now, NULL) != BRAID_OK)
    return braid_serve_refuse(request, BRAID_SERVE_FAILED, "%s", braid_error_detail());
  int64_t free_ns[BRAID_SERVE_INSTANCES];
  size_t instances = 0; /* that may run it */
  for (size_t i = 0; i < l->device->instance_count; i++)
    if (!l->holders[i] || l->holders[i] == request->tenant) free_ns[instances++] = l->free_ns[i];
  while (l->seen[newest].request != request) newest++;
  braid_serve_admission admission =
      braid_serve_admit(l->numbers, l->count, newest, now, free_ns, instances, forecast, l);
  request->predicted_ns = admission.end_ns ? admission.end_ns - now : 0;
  if (admission.admitted) return BRAID_SERVE_DONE;
  if (!admission.end_ns)
    return braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "%zu requests go before it: too many for a deadline",
                              newest);
  if (request->deadline_ns && admission.end_ns > request->deadline_ns)
    return braid_serve_refuse(
        request, BRAID_SERVE_UNAVAILABLE,
        "the deadline cannot be met: %.3f ms are left, and behind %zu requests it would take up to "
        "%.3f ms",
        (double)(request->deadline_ns - now) * 1e-6, newest, (double)request->predicted_ns * 1e-6);
  return braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE,
                            "a request that was admitted before would miss its deadline for this one");
}

static line *line_of(braid_serve_scheduler *scheduler, const braid_serve_request *request) {
  line *l = scheduler->lines;
  while (l->device != request->model->device) l++;
  return l;
}

static braid_serve_verdict line_enqueue(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  line *l = line_of(scheduler, request);
  pthread_mutex_lock(&l->lock);
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  braid_serve_request **waiting = braid_grow(NULL, l->waiting, l->count, &l->capacity, sizeof *waiting);
  if (__atomic_load_n(&scheduler->closed, __ATOMIC_ACQUIRE)) {
    verdict = braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops");
  } else if (!waiting) {
    verdict = braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for one more request");
  } else {
    l->waiting = waiting;
    waiting[l->count++] = request;
    l->load.waiting++;
    l->load.waiting_rows += request->rows;
    verdict = line_admit(l, request, request->arrived_ns);
    if (verdict != BRAID_SERVE_DONE) line_take_out(l, request);
  }
  if (waiting) l->waiting = waiting;
  if (verdict == BRAID_SERVE_DONE && l->holds)
    pthread_cond_broadcast(&l->changed); /* not any thread may run it */
  else if (verdict == BRAID_SERVE_DONE)
    pthread_cond_signal(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return verdict;
}

void braid_serve_submit(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  request->arrived_ns = braid_now_ns();
  if (!request->deadline_ns && request->model->config->deadline_ms > 0)
    request->deadline_ns = request->arrived_ns + (int64_t)(request->model->config->deadline_ms * 1e6);
  request->due_ns = request->deadline_ns ? request->deadline_ns : request->arrived_ns + kPatience;
  braid_serve_verdict verdict = braid_serve_model_check(request->model, request);
  if (verdict == BRAID_SERVE_DONE) verdict = braid_serve_tenant_enter(request->tenant, request);
  if (verdict == BRAID_SERVE_DONE && request->model->remote) {
    scheduler->forwarder.take(scheduler->forwarder.context, request);
    return;
  }
  if (verdict == BRAID_SERVE_DONE) verdict = line_enqueue(scheduler, request);
  if (verdict != BRAID_SERVE_DONE) request_finish(scheduler, request, 0);
}

void braid_serve_scheduler_set_forwarder(braid_serve_scheduler *scheduler, const braid_serve_forwarder *forwarder) {
  scheduler->forwarder = *forwarder;
}

void braid_serve_finish(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  request_finish(scheduler, request, 0);
}

void braid_serve_resubmit(braid_serve_scheduler *scheduler, braid_serve_request *request) {
  braid_serve_verdict verdict = braid_serve_model_check(request->model, request);
  if (verdict == BRAID_SERVE_DONE) verdict = line_enqueue(scheduler, request);
  if (verdict != BRAID_SERVE_DONE) request_finish(scheduler, request, 0);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* Takes out what cannot be in time any more, and returns it, linked. */
static braid_serve_request *take_late(line *l, int64_t now) {
  braid_serve_request *late = NULL;
  size_t kept = 0;
  for (size_t i = 0; i < l->seen_count; i++) {
    braid_serve_request *request = l->seen[i].request;
    if (!braid_serve_is_late(&l->numbers[i], now, forecast, l)) {
      l->seen[kept] = l->seen[i];
      l->numbers[kept++] = l->numbers[i];
      continue;
    }
    braid_serve_refuse(request, BRAID_SERVE_LATE, "%.3f ms before its deadline a run could not end in time any more",
                       (double)(request->deadline_ns - now) * 1e-6);
    request->next = late;
    late = request;
  }
  l->seen_count = kept;
  for (braid_serve_request *request = late; request; request = request->next) line_take_out(l, request);
  return late;
}

/* Links the requests of the choice, and says of each why it runs now. */
static braid_serve_request *take_chosen(line *l, const braid_serve_choice *choice, int64_t now) {
  braid_serve_request *first = NULL, **link = &first;
  size_t waiting = l->count;
  for (size_t i = 0; i < choice->count; i++) {
    braid_serve_request *request = l->seen[choice->members[i]].request;
    const braid_serve_waiting *numbers = &l->numbers[choice->members[i]];
    request->started_ns = now;
    request->why = (braid_serve_why){.waiting = waiting,
                                     .together = choice->count,
                                     .rows = choice->rows,
                                     .rank = numbers->rank % kOverShare,
                                     .along = i > 0,
                                     .over_share = numbers->rank > kOverShare,
                                     .device = l->device->config->name};
    *link = request;
    link = &request->next;
    *link = NULL;
    line_take_out(l, request);
  }
  return first;
}

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
  if (braid_serve_plan_get(model, requests, model->batched ? braid_serve_model_batch(model, rows) : 1, &plan) ==
      BRAID_SERVE_DONE) {
    judged = braid_serve_plan_run(model, plan, w->instance, requests, &w->line->scheduler->stop);
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

static void run_together(worker *w, braid_serve_request *requests) {
  line *l = w->line;
  braid_serve_model *model = requests->model;
  int64_t rows = 0, began = requests->started_ns;
  for (const braid_serve_request *request = requests; request; request = request->next) rows += request->rows;
  int64_t batch = model->batched ? braid_serve_model_batch(model, rows) : 1;
  if (!run_rows(w, requests, rows)) run_each(w, requests);
  int64_t took = braid_now_ns() - began;
  pthread_mutex_lock(&l->lock);
  int64_t now = braid_now_ns();
  l->free_ns[w->instance] = 0;
  l->load.running--;
  l->load.runs++;
  l->load.rows += (uint64_t)rows;
  l->load.filled += (uint64_t)(batch > rows ? batch - rows : 0);
  l->busy_ns = l->busy_ns * exp2(-1e-9 * (double)(now - l->busy_at_ns)) + (double)took;
  l->busy_at_ns = now;
  pthread_mutex_unlock(&l->lock);
  while (requests) { /* whoever has its answer may free the request */
    braid_serve_request *request = requests;
    requests = request->next;
    request->next = NULL;
    request_finish(l->scheduler, request, (int64_t)((double)took * (double)request->rows / (double)(rows ? rows : 1)));
  }
}

static void wait_for_change(line *l, int64_t wake_ns) {
  if (!wake_ns) {
    pthread_cond_wait(&l->changed, &l->lock);
    return;
  }
  struct timespec until = {wake_ns / 1000000000, wake_ns % 1000000000};
  (void)pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

/* The next run, or NULL: the daemon stops. The line is locked; not while requests are finished. */
static braid_serve_request *next_run(worker *w) {
  line *l = w->line;
  for (;;) {
    int64_t now = braid_now_ns(), wake = 0;
    bool stop = __atomic_load_n(&l->scheduler->stop, __ATOMIC_ACQUIRE);
    if (!l->count && __atomic_load_n(&l->scheduler->closed, __ATOMIC_ACQUIRE)) return NULL;
    braid_serve_request *run = NULL, *ended = NULL;
    if (stop) {
      while (l->count) {
        braid_serve_request *request = l->waiting[0];
        braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops; the request was still waiting");
        line_take_out(l, request);
        request->next = ended;
        ended = request;
      }
    } else if (l->count && line_look(l, now, l->holders[w->instance]) == BRAID_OK) {
      ended = take_late(l, now);
      braid_serve_choice choice = braid_serve_choose(l->numbers, l->seen_count, now, forecast, l);
      wake = choice.wake_ns;
      if (choice.count) {
        braid_serve_span span = forecast(l, l->numbers[choice.members[0]].group, choice.rows);
        run = take_chosen(l, &choice, now);
        l->free_ns[w->instance] = now + (int64_t)span.mean_ns;
        l->load.running++;
        if (l->count) pthread_cond_broadcast(&l->changed); /* what is left may be for an instance that sleeps */
      }
    } else if (l->count) {
      wake = now + 10000000; /* no memory to look with: later */
    }
    if (ended || run) {
      pthread_mutex_unlock(&l->lock);
      requests_finish(l->scheduler, ended);
      requests_finish(l->scheduler, drop_gone(&run));
      if (run) return run;
      pthread_mutex_lock(&l->lock);
      if (l->free_ns[w->instance]) l->load.running--;
      l->free_ns[w->instance] = 0;
      continue;
    }
    wait_for_change(l, wake);
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

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static void line_init(line *l, braid_serve_scheduler *scheduler, braid_serve_device *device) {
  pthread_condattr_t monotonic;
  *l = (line){.scheduler = scheduler, .device = device, .busy_at_ns = braid_now_ns()};
  pthread_mutex_init(&l->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&l->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

braid_status braid_serve_scheduler_create(braid_serve_device *devices, size_t device_count,
                                          braid_serve_scheduler **out) {
  *out = NULL;
  size_t workers = 0;
  for (size_t i = 0; i < device_count; i++) workers += devices[i].instance_count;
  braid_serve_scheduler *scheduler = braid_zalloc(NULL, sizeof *scheduler);
  if (!scheduler) return BRAID_NO_MEMORY;
  pthread_mutex_init(&scheduler->lock, NULL);
  scheduler->lines = braid_zalloc_array(NULL, device_count, sizeof *scheduler->lines);
  scheduler->workers = braid_zalloc_array(NULL, workers, sizeof *scheduler->workers);
  braid_status status = scheduler->lines && scheduler->workers ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; i < device_count && status == BRAID_OK; i++) {
    line_init(&scheduler->lines[scheduler->line_count++], scheduler, &devices[i]);
    for (size_t k = 0; k < devices[i].instance_count && status == BRAID_OK; k++) {
      worker *w = &scheduler->workers[scheduler->worker_count++];
      *w = (worker){.line = &scheduler->lines[i], .instance = k};
      status = braid_thread_start(&w->thread, "braid-serve", worker_main, w);
      w->started = status == BRAID_OK;
    }
  }
  if (status == BRAID_OK)
    *out = scheduler;
  else
    braid_serve_scheduler_destroy(scheduler);
  return status;
}

static void wake_all(braid_serve_scheduler *scheduler) {
  for (size_t i = 0; i < scheduler->line_count; i++) {
    pthread_mutex_lock(&scheduler->lines[i].lock);
    pthread_cond_broadcast(&scheduler->lines[i].changed);
    pthread_mutex_unlock(&scheduler->lines[i].lock);
  }
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

void braid_serve_scheduler_end(braid_serve_scheduler *scheduler, int64_t grace_ns) {
  if (!scheduler) return;
  braid_serve_scheduler_close(scheduler);
  int64_t until = braid_now_ns() + grace_ns;
  while (!is_idle(scheduler) && braid_now_ns() < until) nanosleep(&(struct timespec){0, 2000000}, NULL);
  __atomic_store_n(&scheduler->stop, 1, __ATOMIC_RELEASE);
  wake_all(scheduler);
  for (size_t i = 0; i < scheduler->worker_count; i++) {
    if (scheduler->workers[i].started) braid_thread_join(&scheduler->workers[i].thread);
    scheduler->workers[i].started = false;
  }
}

void braid_serve_scheduler_destroy(braid_serve_scheduler *scheduler) {
  if (!scheduler) return;
  braid_serve_scheduler_end(scheduler, 0);
  for (size_t i = 0; i < scheduler->line_count; i++) {
    line *l = &scheduler->lines[i];
    braid_free(NULL, l->waiting);
    free(l->seen);
    free(l->numbers);
    free(l->groups);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
  }
  pthread_mutex_destroy(&scheduler->lock);
  braid_free(NULL, scheduler->lines);
  braid_free(NULL, scheduler->workers);
  braid_free(NULL, scheduler);
}

/* --- instances for a tenant alone ----------------------------------------------------------------------------------
 */
braid_serve_verdict braid_serve_hold(braid_serve_scheduler *scheduler, size_t device, const braid_serve_tenant *tenant,
                                     size_t count, size_t *out_held) {
  line *l = &scheduler->lines[device];
  size_t instances = l->device->instance_count, own = 0;
  pthread_mutex_lock(&l->lock);
  for (size_t i = 0; i < instances; i++) own += l->holders[i] == tenant;
  size_t most = (size_t)(tenant->config->share * (double)instances + 1e-9);
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
  line *l = &scheduler->lines[device];
  pthread_mutex_lock(&l->lock);
  for (size_t i = 0; i < l->device->instance_count && count; i++) {
    if (l->holders[i] != tenant) continue;
    l->holders[i] = NULL;
    l->holds--;
    count--;
  }
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}

braid_serve_load braid_serve_scheduler_load(braid_serve_scheduler *scheduler, size_t device) {
  line *l = &scheduler->lines[device];
  pthread_mutex_lock(&l->lock);
  braid_serve_load load = l->load;
  double recent = l->busy_ns * exp2(-1e-9 * (double)(braid_now_ns() - l->busy_at_ns)) * M_LN2;
  load.busy = fmin(1, recent / (1e9 * (double)l->device->instance_count));
  pthread_mutex_unlock(&l->lock);
  return load;
}

size_t braid_serve_decisions(braid_serve_scheduler *scheduler, braid_serve_decision *out, size_t most) {
  pthread_mutex_lock(&scheduler->lock);
  size_t count = scheduler->decision_count < kDecisions ? (size_t)scheduler->decision_count : kDecisions;
  if (count > most) count = most;
  for (size_t i = 0; i < count; i++) out[i] = scheduler->decisions[(scheduler->decision_count - 1 - i) % kDecisions];
  pthread_mutex_unlock(&scheduler->lock);
  return count;
}
