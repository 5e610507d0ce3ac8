#include "serve/line.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/try.h"
#include "base/vector.h"

void braid_serve_line_init(braid_serve_line *l, braid_serve_device *device, size_t index, size_t all_instances,
                           braid_serve_supply *supply) {
  pthread_condattr_t monotonic;
  *l = (braid_serve_line){.device = device,
                          .card = device->card,
                          .index = index,
                          .all_instances = all_instances,
                          .supply = supply,
                          .busy_at_ns = braid_now_ns()};
  pthread_mutex_init(&l->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&l->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

void braid_serve_line_deinit(braid_serve_line *l) {
  braid_free(NULL, l->waiting);
  free(l->seen);
  free(l->numbers);
  free(l->groups);
  free(l->jobs);
  pthread_mutex_destroy(&l->lock);
  pthread_cond_destroy(&l->changed);
}

/* --- what the policy sees ------------------------------------------------------------------------------------------
 */
braid_serve_span braid_serve_line_forecast(const void *context, size_t group, int64_t rows) {
  const braid_serve_line *l = context;
  const braid_serve_request *like = l->groups[group];
  braid_serve_times times = braid_serve_model_times(like->model, like, rows);
  return (braid_serve_span){times.mean_ns, times.deviation_ns};
}

static int compare_seen(const void *a, const void *b) {
  const struct seen *x = a, *y = b;
  return braid_serve_before(&x->numbers, &y->numbers) ? -1 : braid_serve_before(&y->numbers, &x->numbers);
}

static braid_status make_room(braid_serve_line *l) {
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
static int rank_of(const braid_serve_line *l, const braid_serve_request *request, int64_t now) {
  double allowed = request->tenant->config->share * 1e9 * (double)l->all_instances; /* of all devices */
  return braid_serve_request_priority(request) +
         (braid_serve_tenant_recent(request->tenant, now) > allowed ? BRAID_SERVE_OVER_SHARE : 0);
}

/* When a run has to end for the answer to be there in time; 0: no deadline. */
static int64_t promised_ns(const braid_serve_request *request) {
  return request->deadline_ns ? request->deadline_ns - (int64_t)(request->model->config->reserve_ms * 1e6) : 0;
}

braid_status braid_serve_line_look(braid_serve_line *l, int64_t now, const braid_serve_tenant *holder) {
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
        .deadline_ns = promised_ns(request),
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

static void line_take_out(braid_serve_line *l, const braid_serve_request *request) {
  size_t at = 0;
  while (l->waiting[at] != request) at++;
  l->waiting[at] = l->waiting[--l->count];
  l->load.waiting--;
  l->load.waiting_rows -= request->rows;
}

/* --- admission -----------------------------------------------------------------------------------------------------
 */
/* Under a power cap fewer instances run at a time: those that are free last decide when the next run can begin. */
static size_t keep_latest(int64_t *free_ns, size_t count, size_t most) {
  for (; count > most; count--) {
    size_t earliest = 0;
    for (size_t i = 1; i < count; i++)
      if (free_ns[i] < free_ns[earliest]) earliest = i;
    free_ns[earliest] = free_ns[count - 1];
  }
  return count;
}

/* When the instances that may run the request are free; how many there are. On a public card a tenant's requests run
 * one after the other, on a private one side by side. */
static size_t find_lanes(const braid_serve_line *l, const braid_serve_request *request, int64_t *free_ns) {
  size_t instances = 0;
  if (l->card && !l->card->elastic) {
    free_ns[0] = 0;
    for (size_t i = 0; i < l->device->instance_count; i++)
      if (l->runs_for[i] == request->tenant) free_ns[0] = l->free_ns[i];
    return 1;
  }
  for (size_t i = 0; i < l->device->instance_count; i++)
    if (!l->holders[i] || l->holders[i] == request->tenant) free_ns[instances++] = l->free_ns[i];
  return keep_latest(free_ns, instances, braid_serve_supply_fit(l->supply, l->index));
}

/* Judges the request, which waits already. */
static braid_serve_verdict line_admit(braid_serve_line *l, braid_serve_request *request, int64_t now) {
  bool deadlines = false;
  size_t newest = 0;
  for (size_t i = 0; i < l->count && !deadlines; i++) deadlines = l->waiting[i]->deadline_ns != 0;
  if (!deadlines) return BRAID_SERVE_DONE;
  if (braid_serve_line_look(l, now, l->card && !l->card->elastic ? request->tenant : NULL) != BRAID_OK)
    return braid_serve_refuse(request, BRAID_SERVE_FAILED, "%s", braid_error_detail());
  int64_t free_ns[BRAID_SERVE_INSTANCES];
  size_t instances = find_lanes(l, request, free_ns);
  while (l->seen[newest].request != request) newest++;
  int64_t promised = l->numbers[newest].deadline_ns, earliest = free_ns[0];
  for (size_t i = 1; i < instances; i++) earliest = free_ns[i] < earliest ? free_ns[i] : earliest;
  int64_t margin = newest || earliest > now ? (int64_t)braid_serve_margin_now(&l->margin, now) : 0;
  if (promised) l->numbers[newest].deadline_ns -= margin;
  braid_serve_admission admission =
      braid_serve_admit(l->numbers, l->seen_count, newest, now, free_ns, instances, braid_serve_line_forecast, l);
  request->predicted_ns = admission.end_ns ? admission.end_ns - now : 0;
  if (admission.admitted) {
    for (size_t i = newest + 1; i < l->seen_count; i++)
      l->seen[i].request->pushed |= l->numbers[i].rank > l->numbers[newest].rank;
    return BRAID_SERVE_DONE;
  }
  if (!admission.end_ns)
    return braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "%zu requests go before it: too many for a deadline",
                              newest);
  if (promised && admission.end_ns > promised - margin)
    return braid_serve_refuse(
        request, BRAID_SERVE_UNAVAILABLE,
        "the deadline cannot be met: %.3f ms are left, and behind %zu requests it would take up to "
        "%.3f ms, and %.3f ms are kept for forecasts that are wrong",
        (double)(promised - now) * 1e-6, newest, (double)request->predicted_ns * 1e-6, (double)margin * 1e-6);
  return braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE,
                            "a request that was admitted before would miss its deadline for this one");
}

braid_serve_verdict braid_serve_line_add(braid_serve_line *l, braid_serve_request *request) {
  if (l->card && !l->card->elastic && !braid_serve_card_held(l->card, request->tenant))
    return braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE,
                              "tenant %s has no cores of %s: `cores:` of the tenant in the configuration, or a request "
                              "for cores over Braid's protocol, gives it some",
                              request->tenant->config->name, l->device->config->name);
  braid_serve_request **waiting = braid_grow(NULL, l->waiting, l->count, &l->capacity, sizeof *waiting);
  if (!waiting) return braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for one more request");
  l->waiting = waiting;
  waiting[l->count++] = request;
  l->load.waiting++;
  l->load.waiting_rows += request->rows;
  if (l->card) l->card->stale = true;
  braid_serve_verdict verdict = line_admit(l, request, braid_now_ns());
  if (verdict != BRAID_SERVE_DONE) line_take_out(l, request);
  return verdict;
}

/* --- what leaves ---------------------------------------------------------------------------------------------------
 */
void braid_serve_line_note(braid_serve_line *l, const braid_serve_request *request, int64_t now) {
  if (!request->deadline_ns || request->pushed) return;
  if (request->verdict != BRAID_SERVE_DONE && request->verdict != BRAID_SERVE_LATE) return;
  double late = request->verdict == BRAID_SERVE_LATE ? 0 : (double)(now - promised_ns(request));
  bool missed = request->verdict == BRAID_SERVE_LATE || late > 0;
  double mean = braid_serve_model_times(request->model, request, request->rows).mean_ns;
  braid_serve_margin_note(&l->margin, now, missed, late, mean);
}

braid_serve_request *braid_serve_line_take_late(braid_serve_line *l, int64_t now) {
  braid_serve_request *late = NULL;
  size_t kept = 0;
  for (size_t i = 0; i < l->seen_count; i++) {
    braid_serve_request *request = l->seen[i].request;
    bool coreless = l->card && !l->card->elastic && !braid_serve_card_held(l->card, request->tenant);
    if (!coreless && !braid_serve_is_late(&l->numbers[i], now, braid_serve_line_forecast, l)) {
      l->seen[kept] = l->seen[i];
      l->numbers[kept++] = l->numbers[i];
      continue;
    }
    if (coreless)
      braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "tenant %s gave its cores of %s back before the request ran",
                         request->tenant->config->name, l->device->config->name);
    else
      braid_serve_refuse(request, BRAID_SERVE_LATE, "%.3f ms before its deadline a run could not end in time any more",
                         (double)(request->deadline_ns - now) * 1e-6);
    braid_serve_line_note(l, request, now);
    request->next = late;
    late = request;
  }
  l->seen_count = kept;
  for (braid_serve_request *request = late; request; request = request->next) line_take_out(l, request);
  return late;
}

braid_serve_request *braid_serve_line_take(braid_serve_line *l, const braid_serve_choice *choice, int64_t now) {
  braid_serve_request *first = NULL, **link = &first;
  size_t waiting = l->count;
  for (size_t i = 0; i < choice->count; i++) {
    braid_serve_request *request = l->seen[choice->members[i]].request;
    const braid_serve_waiting *numbers = &l->numbers[choice->members[i]];
    request->started_ns = now;
    request->why = (braid_serve_why){.waiting = waiting,
                                     .together = choice->count,
                                     .rows = choice->rows,
                                     .rank = numbers->rank % BRAID_SERVE_OVER_SHARE,
                                     .along = i > 0,
                                     .over_share = numbers->rank > BRAID_SERVE_OVER_SHARE,
                                     .device = l->device->config->name};
    *link = request;
    link = &request->next;
    *link = NULL;
    line_take_out(l, request);
  }
  return first;
}

braid_serve_request *braid_serve_line_take_all(braid_serve_line *l) {
  braid_serve_request *ended = NULL;
  while (l->count) {
    braid_serve_request *request = l->waiting[0];
    braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops; the request was still waiting");
    line_take_out(l, request);
    request->next = ended;
    ended = request;
  }
  return ended;
}
