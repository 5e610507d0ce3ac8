/* Requests for models of others, on their way to them, and where a node is lost before its answer, to the next.
 * Inference may be run twice; its answer is given once. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "serve/cluster/node.h"
#include "serve/wire/wire.h"

enum { LOOK_MS = 20, OVERTIME_MS = 200 };
static const int64_t kMs = 1000000;

/* A request, and what has been tried. */
typedef struct journey {
  braid_serve_cluster *cluster;
  braid_serve_request *request;
  int64_t wait_until_ns; /* for a node that holds it */
  cluster_refusals refusals;
  cluster_errand errand; /* where it goes */
  char node[BRAID_CLUSTER_NAME];
  char last[BRAID_SERVE_DETAIL]; /* why the last one did not answer */
  int64_t there_ns;              /* that its answer says that it waited and ran there; -1: none has come */
  bool sent;
} journey;

typedef enum result { ENDED, ELSEWHERE } result;

static bool is_gone(const braid_serve_request *request) {
  return request->is_gone && request->is_gone((braid_serve_request *)request);
}

static bool is_ending(const braid_serve_cluster *cluster) {
  int64_t end = __atomic_load_n(&cluster->end_ns, __ATOMIC_ACQUIRE);
  return end && braid_now_ns() >= end;
}

/* --- who gets it ---------------------------------------------------------------------------------------------------
 */
static const braid_cluster_member *find_best(const journey *j) {
  return braid_cluster_choose_node(j->cluster, j->request->model->config->name, &j->refusals);
}

/* Chooses a node, and is on the way there then. */
static bool journey_choose(journey *j) {
  braid_serve_cluster *cluster = j->cluster;
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_member *best = find_best(j);
  if (best) {
    snprintf(j->errand.address, sizeof j->errand.address, "%s", best->address);
    snprintf(j->node, sizeof j->node, "%s", best->name);
    braid_cluster_errand_begin(cluster, &j->errand);
  }
  pthread_mutex_unlock(&cluster->lock);
  return best;
}

/* Whether the node is in the cluster still, as far as we know: one that is not is not waited for, nor one that is
 * silent where another would do. */
static bool is_there(const journey *j) {
  pthread_mutex_lock(&j->cluster->lock);
  const braid_cluster_member *member = braid_cluster_roster_member(&j->cluster->roster, j->node), *best;
  bool there = member && strcmp(member->address, j->errand.address) == 0;
  if (there && braid_cluster_is_silent(j->cluster, member)) {
    best = find_best(j);
    there = !best || best == member || braid_cluster_is_silent(j->cluster, best);
  }
  pthread_mutex_unlock(&j->cluster->lock);
  return there;
}

/* --- the launch ----------------------------------------------------------------------------------------------------
 */
static size_t find_output(const braid_serve_model *model, const char *name) {
  size_t port = 0;
  while (port < model->output_count && strcmp(model->outputs[port].name, name) != 0) port++;
  return port;
}

/* An output of the answer becomes the request's; false: refused. */
static bool take_output(braid_serve_request *request, const braid_client_tensor *from) {
  const braid_serve_model *model = request->model;
  size_t port = find_output(model, from->name), bytes = 0;
  braid_serve_tensor *tensor = &request->outputs[request->output_count];
  *tensor = (braid_serve_tensor){.port = port, .dtype = braid_wire_dtype_of((unsigned)from->dtype), .rank = from->rank};
  bytes = braid_dtype_size(tensor->dtype);
  bool fits = port < model->output_count && bytes && (request->wanted >> port & 1) && from->rank >= 0 &&
              from->rank <= BRAID_MAX_RANK;
  for (int i = 0; fits && i < from->rank; i++) {
    tensor->dims[i] = from->dims[i];
    fits = from->dims[i] >= 0 && braid_mul_size(bytes, (size_t)from->dims[i], &bytes);
  }
  if (!fits || bytes != from->bytes) {
    braid_serve_refuse(request, BRAID_SERVE_FAILED, "the other node's output %.100s is not one that was asked for",
                       from->name);
    return false;
  }
  tensor->bytes = bytes;
  if (braid_serve_tenant_take(request->tenant, request, bytes) != BRAID_SERVE_DONE) return false;
  tensor->data = braid_alloc(NULL, bytes);
  if (!tensor->data) {
    braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for output %.100s of %zu bytes", from->name, bytes);
    return false;
  }
  if (bytes) memcpy(tensor->data, from->data, bytes);
  request->output_count++;
  return true;
}

static void take_answer(journey *j, const braid_client_call *call) {
  braid_serve_request *request = j->request;
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  braid_client_times times = braid_client_call_times(call);
  bool whole = count == (size_t)__builtin_popcountll(request->wanted);
  if (!whole) braid_serve_refuse(request, BRAID_SERVE_FAILED, "the other node's answer lacks outputs");
  for (size_t i = 0; i < count && whole; i++) whole = take_output(request, &outputs[i]);
  if (!whole) return;
  j->there_ns = (int64_t)(times.waited_ns + times.ran_ns);
  request->verdict = BRAID_SERVE_DONE;
  request->batch = times.batch < INT32_MAX ? (int64_t)times.batch : 0;
  request->why = (braid_serve_why){.waiting = 1,
                                   .together = 1,
                                   .rows = request->batch,
                                   .rank = braid_serve_request_priority(request),
                                   .device = "another node"};
}

/* What an end of a launch means: another node may do better, or it is the request's own. */
static result journey_judge(journey *j, braid_client_status status) {
  braid_serve_request *request = j->request;
  braid_serve_verdict verdict = BRAID_SERVE_FAILED;
  switch (status) {
  case BRAID_CLIENT_INVALID:
  case BRAID_CLIENT_ARGUMENT:
    verdict = BRAID_SERVE_INVALID;
    break;
  case BRAID_CLIENT_TOO_LARGE:
    verdict = BRAID_SERVE_TOO_LARGE;
    break;
  case BRAID_CLIENT_LATE:
    verdict = BRAID_SERVE_LATE;
    break;
  case BRAID_CLIENT_CANCELLED:
    verdict = BRAID_SERVE_CANCELLED;
    break;
  case BRAID_CLIENT_FAILED:
  case BRAID_CLIENT_NO_MEMORY:
    break;
  default: /* lost, not loaded there any more, busy, of another configuration or token */
    snprintf(j->last, sizeof j->last, "node %.100s: %.380s", j->node, braid_client_error());
    return ELSEWHERE;
  }
  braid_serve_refuse(request, verdict, "node %.100s: %.380s", j->node, braid_client_error());
  return ENDED;
}

/* Waits for the answer, for the client to go, the deadline to pass or the node to be lost. */
static result journey_await(journey *j, braid_client_call *call, bool *out_broken) {
  braid_serve_request *request = j->request;
  for (;;) {
    braid_client_status status = braid_client_wait(call, LOOK_MS);
    if (status == BRAID_CLIENT_OK) {
      take_answer(j, call);
      return ENDED;
    }
    if (status != BRAID_CLIENT_TIMEOUT) {
      *out_broken = status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL;
      return journey_judge(j, status);
    }
    if (is_gone(request)) {
      braid_serve_refuse(request, BRAID_SERVE_CANCELLED, "the client has gone");
      return ENDED;
    }
    if (request->deadline_ns && braid_now_ns() > request->deadline_ns + OVERTIME_MS * kMs) {
      braid_serve_refuse(request, BRAID_SERVE_LATE, "node %.100s did not answer within the deadline", j->node);
      return ENDED;
    }
    if (is_ending(j->cluster)) {
      braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops");
      return ENDED;
    }
    if (!is_there(j)) {
      *out_broken = true;
      snprintf(j->last, sizeof j->last, "node %.100s left the cluster, or fell silent, before it answered", j->node);
      return ELSEWHERE;
    }
  }
}

static void note_forward(const journey *j, const braid_trace_forward *forward, result r) {
  const braid_serve_request *request = j->request;
  const char *failure = r == ELSEWHERE ? j->last : request->verdict == BRAID_SERVE_DONE ? NULL : request->detail;
  braid_serve_trace_forward_end(j->cluster->server->tracer, request, forward, j->node, j->errand.address, failure);
}

static result journey_launch(journey *j, cluster_link *link, bool *out_broken) {
  braid_serve_request *request = j->request;
  const braid_serve_model *model = request->model;
  braid_client_tensor inputs[BRAID_SERVE_PORTS], outputs[BRAID_SERVE_PORTS];
  braid_client_launch_options options = {.model = model->config->name,
                                         .inputs = inputs,
                                         .outputs = outputs,
                                         .input_count = request->input_count,
                                         .priority = request->priority};
  for (size_t i = 0; i < request->input_count; i++) {
    const braid_serve_tensor *tensor = &request->inputs[i];
    inputs[i] = (braid_client_tensor){.name = model->inputs[tensor->port].name,
                                      .dtype = (braid_client_dtype)braid_wire_dtype(tensor->dtype),
                                      .rank = tensor->rank,
                                      .data = tensor->data,
                                      .bytes = tensor->bytes};
    memcpy(inputs[i].dims, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
  }
  for (size_t port = 0; port < model->output_count; port++)
    if (request->wanted >> port & 1)
      outputs[options.output_count++] = (braid_client_tensor){.name = model->outputs[port].name};
  if (request->deadline_ns) {
    options.deadline_us = (request->deadline_ns - braid_now_ns()) / 1000;
    if (options.deadline_us < 1) {
      braid_serve_refuse(request, BRAID_SERVE_LATE, "its deadline passed on the way to another node");
      return ENDED;
    }
  }
  braid_client_call *call;
  braid_trace_forward forward;
  braid_serve_trace_forward_begin(request, &forward);
  options.traceparent = forward.parent[0] ? forward.parent : NULL;
  options.tracestate = forward.state;
  braid_client_status status = braid_client_submit(link->client, &options, &call);
  if (status != BRAID_CLIENT_OK) {
    *out_broken = status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL;
    result judged = journey_judge(j, status);
    note_forward(j, &forward, judged);
    return judged;
  }
  if (!request->started_ns) request->started_ns = braid_now_ns();
  j->sent = true;
  result r = journey_await(j, call, out_broken);
  note_forward(j, &forward, r);
  braid_client_release(call);
  return r;
}

static result journey_send(journey *j) {
  braid_serve_cluster *cluster = j->cluster;
  bool broken = false;
  result r = ELSEWHERE;
  j->there_ns = -1;
  cluster_link *link = braid_cluster_link(cluster, j->errand.address, j->request->tenant);
  if (link) {
    r = journey_launch(j, link, &broken);
    braid_cluster_unlink(cluster, link, broken);
  } else {
    broken = true;
    snprintf(j->last, sizeof j->last, "node %.100s: %.380s", j->node, braid_client_error());
  }
  pthread_mutex_lock(&cluster->lock);
  braid_cluster_errand_end(cluster, &j->errand, j->there_ns);
  pthread_mutex_unlock(&cluster->lock);
  if (r == ENDED) return r;
  if (broken) braid_cluster_set_down(cluster, j->errand.address);
  if (j->refusals.count < BRAID_CLUSTER_COPIES)
    memcpy(j->refusals.addresses[j->refusals.count++], j->errand.address, sizeof j->errand.address);
  pthread_mutex_lock(&cluster->lock);
  cluster->counters.retried++;
  pthread_mutex_unlock(&cluster->lock);
  return r;
}

/* --- the model is here now -----------------------------------------------------------------------------------------
 */
/* Whether what was read for the other node's model is what ours takes. */
static bool fits_here(const braid_serve_request *request, const braid_serve_model *here) {
  const braid_serve_model *there = request->model;
  bool same = here->input_count == there->input_count && here->output_count == there->output_count;
  for (size_t i = 0; i < there->output_count && same; i++)
    same = strcmp(here->outputs[i].name, there->outputs[i].name) == 0;
  for (size_t i = 0; i < request->input_count && same; i++) {
    const braid_serve_tensor *tensor = &request->inputs[i];
    const braid_serve_port *port = &here->inputs[tensor->port];
    same = port->dtype == tensor->dtype && port->rank == tensor->rank &&
           strcmp(port->name, there->inputs[tensor->port].name) == 0;
    for (int k = 0; same && k < port->rank; k++) same = port->dims[k] < 0 || port->dims[k] == tensor->dims[k];
  }
  return same;
}

/* True: this daemon has the model meanwhile, and the request. */
static bool journey_take_back(journey *j) {
  braid_serve_cluster *cluster = j->cluster;
  braid_serve_request *request = j->request;
  braid_serve_model *here;
  if (braid_serve_registry_acquire_local(cluster->server->registry, request->model->config->name, &here) != BRAID_OK)
    return false;
  if (!fits_here(request, here)) {
    braid_serve_model_release(here);
    return false;
  }
  braid_serve_model_release(request->model);
  request->model = here;
  request->started_ns = 0;
  pthread_mutex_lock(&cluster->lock);
  cluster->counters.taken_back++;
  pthread_mutex_unlock(&cluster->lock);
  braid_serve_resubmit(cluster->server->scheduler, request);
  return true;
}

/* Until something changes, for a moment. */
static void pause_for(braid_serve_cluster *cluster, int ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ms * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&cluster->lock);
  (void)pthread_cond_timedwait(&cluster->changed, &cluster->lock, &until);
  pthread_mutex_unlock(&cluster->lock);
}

/* Why it has no answer: what the last node said, or why nobody holds the model. */
static void journey_explain(const journey *j, char *text) {
  bool able;
  if (j->last[0]) {
    memcpy(text, j->last, sizeof j->last);
    return;
  }
  braid_serve_model_release(braid_cluster_find_elsewhere(j->cluster, j->request->model->config->name, text, &able));
  if (!*text) snprintf(text, BRAID_SERVE_DETAIL, "none holds the model");
}

/* The request has its end, here or there. */
static void journey_make(braid_serve_cluster *cluster, braid_serve_request *request) {
  journey j = {.cluster = cluster,
               .request = request,
               .wait_until_ns = request->arrived_ns + (int64_t)(cluster->config->wait_ms * 1e6)};
  for (;;) {
    if (is_gone(request)) {
      braid_serve_refuse(request, BRAID_SERVE_CANCELLED, "the client has gone");
      break;
    }
    if (is_ending(cluster)) {
      braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops");
      break;
    }
    if (journey_take_back(&j)) return;
    if (journey_choose(&j)) {
      if (journey_send(&j) == ENDED) break;
      continue;
    }
    int64_t now = braid_now_ns();
    char why[BRAID_SERVE_DETAIL];
    if (request->deadline_ns && now > request->deadline_ns) {
      journey_explain(&j, why);
      braid_serve_refuse(request, j.sent ? BRAID_SERVE_LATE : BRAID_SERVE_UNAVAILABLE,
                         "no node could run it within its deadline; %.400s", why);
      break;
    }
    if (now > j.wait_until_ns) {
      journey_explain(&j, why);
      braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "no node runs it; %.400s", why);
      break;
    }
    j.refusals.count = 0; /* all have refused: once more, after a moment */
    pause_for(cluster, LOOK_MS);
  }
  pthread_mutex_lock(&cluster->lock);
  if (request->verdict == BRAID_SERVE_DONE)
    cluster->counters.forwarded++;
  else
    cluster->counters.failed++;
  pthread_mutex_unlock(&cluster->lock);
  braid_serve_finish(cluster->server->scheduler, request);
}

/* --- workers -------------------------------------------------------------------------------------------------------
 */
static void *worker_main(void *context) {
  braid_serve_cluster *cluster = context;
  pthread_mutex_lock(&cluster->lock);
  for (;;) {
    while (!cluster->queue && !__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE)) {
      cluster->idle++;
      pthread_cond_wait(&cluster->changed, &cluster->lock);
      cluster->idle--;
    }
    braid_serve_request *request = cluster->queue;
    if (!request) break;
    cluster->queue = request->next;
    if (!cluster->queue) cluster->queue_end = &cluster->queue;
    cluster->queued--;
    request->next = NULL;
    pthread_mutex_unlock(&cluster->lock);
    journey_make(cluster, request);
    pthread_mutex_lock(&cluster->lock);
  }
  pthread_mutex_unlock(&cluster->lock);
  return NULL;
}

void braid_cluster_forward(void *context, braid_serve_request *request) {
  braid_serve_cluster *cluster = context;
  pthread_mutex_lock(&cluster->lock);
  bool taken = !__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE); /* with the lock: workers look at it so too */
  if (taken && cluster->queued >= cluster->idle && cluster->worker_count < BRAID_CLUSTER_WORKERS) {
    braid_status status =
        braid_thread_start(&cluster->threads[cluster->worker_count], "braid-forward", worker_main, cluster);
    cluster->worker_count += status == BRAID_OK;
    taken = cluster->worker_count > 0;
  }
  if (taken) {
    request->next = NULL;
    *cluster->queue_end = request;
    cluster->queue_end = &request->next;
    cluster->queued++;
    pthread_cond_broadcast(&cluster->changed);
  }
  pthread_mutex_unlock(&cluster->lock);
  if (taken) return;
  braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops, or has no threads to ask others by");
  braid_serve_finish(cluster->server->scheduler, request);
}
