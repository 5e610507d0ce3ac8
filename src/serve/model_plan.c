/* Plans of a served model, and the runs of requests by them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/try.h"
#include "serve/model_parts.h"
#include "serve/serving_policy.h"
#include "serve/tenant.h"
#include "serve/trace/tracer.h"

enum { kWatched = 20000000, kSlice = 5000000 }; /* runs that take longer are watched, at these intervals; nanoseconds */

/* --- plans ---------------------------------------------------------------------------------------------------------
 */
braid_status braid_serve_plan_make(braid_serve_model *model, int64_t batch, const int64_t dims[][BRAID_MAX_RANK],
                                   braid_serve_plan **out) {
  braid_graph *graph = NULL;
  *out = NULL;
  braid_serve_plan *plan = braid_zalloc(NULL, sizeof *plan);
  if (!plan) return BRAID_NO_MEMORY;
  plan->batch = batch;
  plan->used_ns = braid_now_ns();
  braid_status status = braid_graph_clone(model->graph, &graph);
  for (size_t i = 0; i < model->input_count && status == BRAID_OK; i++) {
    memcpy(plan->dims[i], dims[i], sizeof plan->dims[i]);
    plan->ranks[i] = model->inputs[i].rank;
    status = braid_graph_set_input_shape(graph, braid_graph_input(graph, i), plan->ranks[i], dims[i]);
  }
  braid_plan_options options = {.callers_thread = true};
  for (size_t i = 0; i < model->device->instance_count && status == BRAID_OK; i++)
    status = braid_plan_create(model->device->machines[i], graph, &options, &plan->plans[i]);
  braid_graph_destroy(graph);
  if (status == BRAID_OK)
    *out = plan;
  else
    braid_serve_plan_free(plan);
  return status;
}

/* Memory for rows that are gathered, and for their results. */
static braid_status prepare_staging(braid_serve_model *model, braid_serve_plan *plan, size_t instance) {
  for (size_t i = 0; i < model->input_count; i++) {
    if (!plan->inputs[instance][i])
      plan->inputs[instance][i] = braid_zalloc(NULL, braid_desc_bytes(braid_plan_input(plan->plans[instance], i)));
    if (!plan->inputs[instance][i]) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < model->output_count; i++) {
    if (!plan->outputs[instance][i])
      plan->outputs[instance][i] = braid_zalloc(NULL, braid_desc_bytes(braid_plan_output(plan->plans[instance], i)));
    if (!plan->outputs[instance][i]) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

braid_status braid_serve_plan_prepare(braid_serve_model *model, braid_serve_plan *plan, size_t instance) {
  if (plan->executions[instance]) return BRAID_OK;
  if (model->batched) BRAID_TRY(prepare_staging(model, plan, instance));
  return braid_execution_create(plan->plans[instance], model->weights[instance], &plan->executions[instance]);
}

void braid_serve_plan_free(braid_serve_plan *plan) {
  if (!plan) return;
  for (size_t i = 0; i < BRAID_SERVE_INSTANCES; i++) {
    braid_execution_destroy(plan->executions[i]);
    braid_plan_release(plan->plans[i]);
    for (size_t k = 0; k < BRAID_SERVE_PORTS; k++) {
      braid_free(NULL, plan->inputs[i][k]);
      braid_free(NULL, plan->outputs[i][k]);
    }
  }
  braid_free(NULL, plan);
}

size_t braid_serve_plan_bytes(const braid_serve_plan *plan) {
  size_t bytes = 0;
  for (size_t i = 0; i < BRAID_SERVE_INSTANCES; i++)
    if (plan->executions[i]) bytes += braid_plan_arena_bytes(plan->plans[i]);
  return bytes;
}

void braid_serve_plan_keep(braid_serve_model *model, braid_serve_plan *plan) {
  if (model->plan_count < BRAID_SERVE_PLANS) {
    model->plans[model->plan_count++] = plan;
    return;
  }
  size_t oldest = BRAID_SERVE_PLANS;
  for (size_t i = 0; i < model->plan_count; i++)
    if (!model->plans[i]->users &&
        (oldest == BRAID_SERVE_PLANS || model->plans[i]->used_ns < model->plans[oldest]->used_ns))
      oldest = i;
  BRAID_ASSERT(oldest < BRAID_SERVE_PLANS); /* there are fewer instances than plans */
  braid_serve_plan_free(model->plans[oldest]);
  model->plans[oldest] = plan;
}

void braid_serve_plan_measure(braid_serve_plan *plan, double ns) {
  braid_serve_times *times = &plan->times;
  times->last_ns[times->runs++ % BRAID_SERVE_TIMES] = (float)ns;
  size_t count = times->runs < BRAID_SERVE_TIMES ? (size_t)times->runs : BRAID_SERVE_TIMES;
  float longest[BRAID_SERVE_OUTLIERS + 1] = {0}; /* in falling order */
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    float time = times->last_ns[i];
    sum += (double)time;
    for (size_t k = 0; k <= BRAID_SERVE_OUTLIERS; k++) {
      if (time <= longest[k]) continue;
      float shorter = longest[k];
      longest[k] = time;
      time = shorter;
    }
  }
  size_t left_out = count > 4 * BRAID_SERVE_OUTLIERS ? BRAID_SERVE_OUTLIERS : 0;
  for (size_t k = 0; k < left_out; k++) sum -= (double)longest[k];
  times->mean_ns = sum / (double)(count - left_out);
  times->deviation_ns = ((double)longest[left_out] - times->mean_ns) / BRAID_SERVE_DEVIATIONS;
}

/* --- the plan for a request ----------------------------------------------------------------------------------------
 */
static bool plan_fits(const braid_serve_model *model, const braid_serve_plan *plan, const braid_serve_request *request,
                      int64_t batch) {
  if (plan->batch != batch) return false;
  for (size_t i = 0; i < model->input_count; i++) {
    const braid_serve_tensor *input = braid_serve_input_of(request, i);
    for (int k = model->batched; k < input->rank; k++)
      if (plan->dims[i][k] != input->dims[k]) return false;
  }
  return true;
}

static braid_serve_plan *find_plan(const braid_serve_model *model, const braid_serve_request *request, int64_t batch) {
  for (size_t i = 0; i < model->plan_count; i++)
    if (plan_fits(model, model->plans[i], request, batch)) return model->plans[i];
  return NULL;
}

/* The plan if it is there, in use from now on. The model is locked. */
static braid_serve_plan *use_plan(const braid_serve_model *model, const braid_serve_request *request, int64_t batch) {
  braid_serve_plan *plan = find_plan(model, request, batch);
  if (!plan) return NULL;
  plan->users++;
  plan->used_ns = braid_now_ns();
  return plan;
}

static braid_status make_plan_of(braid_serve_model *model, const braid_serve_request *request, int64_t batch,
                                 braid_serve_plan **out) {
  int64_t dims[BRAID_SERVE_PORTS][BRAID_MAX_RANK] = {{0}};
  for (size_t i = 0; i < model->input_count; i++) {
    const braid_serve_tensor *input = braid_serve_input_of(request, i);
    memcpy(dims[i], input->dims, (size_t)input->rank * sizeof *dims[i]);
    if (model->batched) dims[i][0] = batch;
  }
  return braid_serve_plan_make(model, batch, (const int64_t(*)[BRAID_MAX_RANK])dims, out);
}

braid_serve_verdict braid_serve_plan_get(braid_serve_model *model, braid_serve_request *request, int64_t batch,
                                         braid_serve_plan **out) {
  pthread_mutex_lock(&model->lock);
  *out = use_plan(model, request, batch);
  pthread_mutex_unlock(&model->lock);
  if (*out) return BRAID_SERVE_DONE;
  braid_serve_plan *made; /* without the lock, for which forecasts for other requests wait */
  braid_status status = make_plan_of(model, request, batch, &made);
  if (status == BRAID_OK) {
    pthread_mutex_lock(&model->lock);
    if (!find_plan(model, request, batch)) { /* nobody made it meanwhile */
      braid_serve_plan_keep(model, made);
      made = NULL;
    }
    *out = use_plan(model, request, batch);
    pthread_mutex_unlock(&model->lock);
    braid_serve_plan_free(made);
    return BRAID_SERVE_DONE;
  }
  bool ours = status == BRAID_NO_MEMORY || status == BRAID_INTERNAL || status == BRAID_DEVICE_LOST;
  return braid_serve_refuse(request, ours ? BRAID_SERVE_FAILED : BRAID_SERVE_INVALID, "inputs of these shapes: %s",
                            braid_error_detail());
}

void braid_serve_plan_drop(braid_serve_model *model, braid_serve_plan *plan) {
  pthread_mutex_lock(&model->lock);
  plan->users--;
  pthread_mutex_unlock(&model->lock);
}

braid_serve_times braid_serve_model_times(braid_serve_model *model, const braid_serve_request *like, int64_t rows) {
  braid_serve_times times = {0};
  int64_t batch = model->batched ? braid_serve_model_batch(model, rows) : 1;
  pthread_mutex_lock(&model->lock);
  const braid_serve_plan *plan = find_plan(model, like, batch);
  if (plan) times = plan->times;
  for (size_t i = 0; !times.runs && i < model->plan_count; i++) /* the nearest that is known, by rows */
    if (model->batched && plan_fits(model, model->plans[i], like, model->plans[i]->batch) &&
        model->plans[i]->times.runs) {
      double scale = (double)batch / (double)model->plans[i]->batch;
      times = model->plans[i]->times;
      times.mean_ns *= scale;
      times.deviation_ns *= scale;
    }
  pthread_mutex_unlock(&model->lock);
  return times;
}

bool braid_serve_model_is_short(braid_serve_model *model, const braid_serve_request *like, int64_t most_ns) {
  int64_t batch = model->batched ? braid_serve_model_batch(model, like->rows) : 1;
  pthread_mutex_lock(&model->lock);
  const braid_serve_plan *plan = find_plan(model, like, batch);
  bool is_short = plan && plan->times.runs && plan->times.mean_ns + plan->times.deviation_ns < (double)most_ns;
  pthread_mutex_unlock(&model->lock);
  return is_short;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static void refuse_all(braid_serve_request *requests, braid_serve_verdict verdict, const char *why) {
  for (braid_serve_request *request = requests; request; request = request->next)
    braid_serve_refuse(request, verdict, "%s", why);
}

/* Gives a request memory for its outputs: its rows of the plan's. */
static bool make_outputs(const braid_serve_model *model, const braid_plan *plan, int64_t batch,
                         braid_serve_request *request) {
  for (size_t port = 0; port < model->output_count; port++) {
    if (!(request->wanted >> port & 1)) continue;
    const braid_desc *desc = braid_plan_output(plan, port);
    braid_serve_tensor *tensor = &request->outputs[request->output_count];
    *tensor =
        (braid_serve_tensor){.port = port, .dtype = desc->dtype, .rank = desc->rank, .bytes = braid_desc_bytes(desc)};
    memcpy(tensor->dims, desc->dims, (size_t)desc->rank * sizeof *tensor->dims);
    if (model->batched) {
      tensor->dims[0] = request->rows;
      tensor->bytes = tensor->bytes / (size_t)batch * (size_t)request->rows;
    }
    if (braid_serve_tenant_take(request->tenant, request, tensor->bytes) != BRAID_SERVE_DONE) return false;
    tensor->data = braid_alloc(NULL, tensor->bytes);
    if (!tensor->data) {
      braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for output %s of %zu bytes", model->outputs[port].name,
                         tensor->bytes);
      return false;
    }
    request->output_count++;
  }
  return true;
}

/* Puts the rows one after the other; rows that nobody asked for are zeros. */
static void gather(const braid_serve_model *model, braid_serve_plan *plan, size_t instance,
                   const braid_serve_request *requests) {
  for (size_t port = 0; port < model->input_count; port++) {
    uint8_t *to = plan->inputs[instance][port];
    size_t bytes = braid_desc_bytes(braid_plan_input(plan->plans[instance], port)), used = 0;
    for (const braid_serve_request *request = requests; request; request = request->next) {
      const braid_serve_tensor *tensor = braid_serve_input_of(request, port);
      memcpy(to + used, tensor->data, tensor->bytes);
      used += tensor->bytes;
    }
    memset(to + used, 0, bytes - used);
  }
}

static void scatter(const braid_serve_model *model, const braid_serve_plan *plan, size_t instance,
                    braid_serve_request *requests) {
  size_t used[BRAID_SERVE_PORTS] = {0};
  for (braid_serve_request *request = requests; request; request = request->next) {
    for (size_t i = 0; i < request->output_count; i++) {
      braid_serve_tensor *tensor = &request->outputs[i];
      memcpy(tensor->data, (uint8_t *)plan->outputs[instance][tensor->port] + used[tensor->port], tensor->bytes);
    }
    for (size_t port = 0; port < model->output_count; port++)
      used[port] += braid_desc_bytes(braid_plan_output(plan->plans[instance], port)) / (size_t)plan->batch *
                    (size_t)request->rows;
  }
}

bool braid_serve_is_abandoned(const braid_serve_request *requests, const int *stop) {
  if (__atomic_load_n(stop, __ATOMIC_ACQUIRE)) return true;
  int64_t now = braid_now_ns();
  for (const braid_serve_request *request = requests; request; request = request->next) {
    bool late = request->deadline_ns && now > request->deadline_ns;
    bool gone = request->is_gone && request->is_gone((braid_serve_request *)request);
    if (!late && !gone) return false;
  }
  return true;
}

static braid_status run_watched(braid_execution *execution, const void *const *inputs, void *const *outputs,
                                const braid_serve_request *requests, const int *stop) {
  BRAID_TRY(braid_execution_submit(execution, inputs, outputs, NULL, NULL));
  bool cancelled = false;
  for (;;) {
    braid_status status = braid_execution_wait(execution, kSlice);
    if (status != BRAID_TIMEOUT) return status;
    if (cancelled || !braid_serve_is_abandoned(requests, stop)) continue;
    braid_execution_cancel(execution);
    cancelled = true;
  }
}

/* Whether a run failed for what an input contains. */
static bool is_theirs(braid_status status) {
  return status == BRAID_OUT_OF_RANGE || status == BRAID_INVALID_ARGUMENT || status == BRAID_NOT_FINITE;
}

void braid_serve_judge(braid_serve_request *request, braid_status status, const char *detail, const int *stop) {
  if (status == BRAID_OK) {
    request->verdict = BRAID_SERVE_DONE;
  } else if (status != BRAID_CANCELLED) {
    braid_serve_refuse(request, is_theirs(status) ? BRAID_SERVE_INVALID : BRAID_SERVE_FAILED, "%s", detail);
  } else if (__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
    braid_serve_refuse(request, BRAID_SERVE_UNAVAILABLE, "the daemon stops; the run was cancelled");
  } else if (request->deadline_ns && request->ended_ns > request->deadline_ns) {
    braid_serve_refuse(request, BRAID_SERVE_LATE, "the run was cancelled at its deadline");
  } else {
    braid_serve_refuse(request, BRAID_SERVE_CANCELLED, "the client has gone; the run was cancelled");
  }
}

static braid_status run_once(braid_serve_model *model, braid_serve_plan *plan, size_t instance,
                             braid_serve_request *requests, bool direct, const int *stop) {
  const void *inputs[BRAID_SERVE_PORTS];
  void *outputs[BRAID_SERVE_PORTS] = {NULL};
  for (size_t i = 0; i < model->input_count; i++)
    inputs[i] = direct ? braid_serve_input_of(requests, i)->data : plan->inputs[instance][i];
  for (size_t i = 0; i < model->output_count && !direct; i++) outputs[i] = plan->outputs[instance][i];
  for (size_t i = 0; i < requests->output_count && direct; i++)
    outputs[requests->outputs[i].port] = requests->outputs[i].data;
  braid_execution *execution = plan->executions[instance];
  pthread_mutex_lock(&model->lock); /* other instances measure, too */
  bool watched = !plan->times.runs || plan->times.mean_ns >= kWatched;
  pthread_mutex_unlock(&model->lock);
  int64_t began = braid_now_ns();
  braid_status status = watched ? run_watched(execution, inputs, outputs, requests, stop)
                                : braid_execution_run(execution, inputs, outputs);
  if (status != BRAID_OK) return status;
  int64_t took = braid_now_ns() - began;
  braid_serve_trace_device(requests, began, began + took);
  pthread_mutex_lock(&model->lock);
  braid_serve_plan_measure(plan, (double)took);
  pthread_mutex_unlock(&model->lock);
  return BRAID_OK;
}

/* Gives back what make_outputs took: the request will run again. */
static void drop_outputs(braid_serve_request *request) {
  for (size_t i = 0; i < request->output_count; i++) {
    braid_free(NULL, request->outputs[i].data);
    braid_serve_tenant_return(request->tenant, request->outputs[i].bytes);
    request->bytes -= request->outputs[i].bytes;
  }
  request->output_count = 0;
}

/* Takes out, and refuses, those whose tenants may not have their results; returns how many are left. */
static size_t make_all_outputs(const braid_serve_model *model, const braid_serve_plan *plan, size_t instance,
                               braid_serve_request *requests) {
  size_t left = 0;
  for (braid_serve_request *request = requests; request; request = request->next) {
    request->verdict = BRAID_SERVE_DONE;
    left += make_outputs(model, plan->plans[instance], plan->batch, request);
  }
  return left;
}

bool braid_serve_plan_run(braid_serve_model *model, braid_serve_plan *plan, size_t instance,
                          braid_serve_request *requests, const int *stop) {
  bool direct = !requests->next && (!model->batched || requests->rows == plan->batch);
  if (braid_serve_plan_prepare(model, plan, instance) != BRAID_OK) {
    refuse_all(requests, BRAID_SERVE_FAILED, braid_error_detail());
    return true;
  }
  if (!make_all_outputs(model, plan, instance, requests)) return true;
  if (!direct) gather(model, plan, instance, requests);
  braid_status status = run_once(model, plan, instance, requests, direct, stop);
  if (requests->next && is_theirs(status)) {
    for (braid_serve_request *request = requests; request; request = request->next) drop_outputs(request);
    return false;
  }
  char detail[BRAID_SERVE_DETAIL] = "";
  if (status != BRAID_OK) snprintf(detail, sizeof detail, "%s", braid_error_detail());
  if (status == BRAID_OK && !direct) scatter(model, plan, instance, requests);
  int64_t ended = braid_now_ns();
  for (braid_serve_request *request = requests; request; request = request->next) {
    request->ended_ns = ended;
    request->batch = plan->batch;
    if (request->verdict == BRAID_SERVE_DONE) braid_serve_judge(request, status, detail, stop);
  }
  return true;
}
