/* Models of a card: loaded as packages, tried, and run a layer at a time. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/try.h"
#include "braid/model.h"
#include "braid/session.h"
#include "serve/line.h"
#include "serve/model_parts.h"
#include "serve/tenant.h"

/* --- loading -------------------------------------------------------------------------------------------------------
 */
static braid_status card_port(const braid_overlay_port_info *info, const char *kind, braid_serve_port *out) {
  if (strlen(info->name) >= sizeof out->name)
    return braid_fail(BRAID_UNSUPPORTED, "%s \"%.40s...\" has a name of more than %d bytes", kind, info->name,
                      BRAID_SERVE_NAME - 1);
  *out = (braid_serve_port){.dtype = info->real ? BRAID_F32 : BRAID_I8,
                            .other = info->real ? BRAID_I8 : BRAID_NONE,
                            .rank = 4,
                            .dims = {1, info->channels, info->rows, info->columns}};
  strcpy(out->name, info->name);
  return BRAID_OK;
}

static braid_status card_ports(const braid_serve_packaged *packaged, bool outputs, braid_serve_port *ports,
                               size_t *out_count) {
  size_t count = braid_overlay_package_port_count(packaged->package, outputs);
  const char *kind = outputs ? "output" : "input";
  if (count > BRAID_SERVE_PORTS || !count)
    return braid_fail(BRAID_UNSUPPORTED, "%zu %ss; 1 to %d are served", count, kind, BRAID_SERVE_PORTS);
  for (size_t i = 0; i < count; i++) {
    braid_overlay_port_info info = braid_overlay_package_get_port(packaged->package, outputs, i);
    BRAID_TRY(card_port(&info, kind, &ports[i]));
    if (outputs) ports[i].other = BRAID_NONE;
  }
  *out_count = count;
  return BRAID_OK;
}

/* Where the graph has another shape for the same numbers, clients see that one. */
static void graph_shape(const braid_graph *graph, braid_value_id value, braid_serve_port *port) {
  braid_value_info info = braid_graph_value(graph, value);
  int64_t count = port->dims[1] * port->dims[2] * port->dims[3];
  if (strcmp(info.name, port->name) != 0 || info.desc.rank < 0 || braid_desc_count(&info.desc) != count) return;
  port->rank = info.desc.rank;
  memcpy(port->dims, info.desc.dims, sizeof port->dims);
}

/* One image: what the graph leaves open is 1. */
static braid_status close_shapes(braid_graph *graph) {
  for (size_t i = 0; i < braid_graph_input_count(graph); i++) {
    braid_value_id input = braid_graph_input(graph, i);
    braid_desc desc = braid_graph_value(graph, input).desc;
    for (int k = 0; k < desc.rank; k++)
      if (desc.dims[k] < 0 || k == 0) desc.dims[k] = 1;
    if (desc.rank >= 0) BRAID_TRY(braid_graph_set_input_shape(graph, input, desc.rank, desc.dims));
  }
  return braid_resolve(graph);
}

static braid_status card_compile(braid_serve_model *model) {
  const braid_serve_card *card = model->device->card;
  braid_status status = close_shapes(model->graph);
  if (status == BRAID_OK)
    status = braid_serve_packaged_compile(model->graph, card->design, card->cores, &model->packaged);
  return status == BRAID_OK ? status : braid_fail_prefix(status, "for the card %s", card->design->name);
}

static braid_tensor *draw_input(const braid_serve_port *port, size_t index) {
  braid_desc desc;
  braid_tensor *tensor;
  if (braid_desc_init(&desc, BRAID_I8, port->rank, port->dims) != BRAID_OK) return NULL;
  if (braid_tensor_create(NULL, &desc, &tensor) != BRAID_OK) return NULL;
  int8_t *numbers = braid_tensor_data(tensor);
  for (size_t i = 0; i < braid_desc_bytes(&desc); i++) numbers[i] = (int8_t)braid_random_u32(1, 0, (uint32_t)index, i);
  return tensor;
}

static braid_status run_trial(braid_serve_packaged *packaged, int cores, braid_tensor *const *inputs,
                              braid_serve_task *task) {
  double seconds;
  BRAID_TRY(braid_serve_task_begin(packaged, cores, inputs, task));
  while (task->layer < task->layers) BRAID_TRY(braid_serve_task_step(task, &seconds));
  return BRAID_OK;
}

/* One core and all of them have the same bits; the second run is measured. */
static braid_status card_try(braid_serve_model *model, braid_serve_plan *plan) {
  braid_serve_packaged *packaged = model->packaged;
  braid_tensor *inputs[BRAID_SERVE_PORTS] = {NULL};
  braid_serve_task one = {.packaged = packaged}, all = {.packaged = packaged};
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < model->input_count && status == BRAID_OK; i++) {
    inputs[i] = draw_input(&model->inputs[i], i);
    if (!inputs[i]) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = run_trial(packaged, 1, inputs, &one);
  int64_t began = braid_now_ns();
  if (status == BRAID_OK) status = run_trial(packaged, packaged->cores, inputs, &all);
  if (status == BRAID_OK) braid_serve_plan_measure(plan, (double)(braid_now_ns() - began));
  const braid_overlay_segment *outputs = &all.image.segments[BRAID_SEGMENT_OUTPUTS];
  if (status == BRAID_OK &&
      memcmp(one.image.ddr + outputs->first, all.image.ddr + outputs->first, (size_t)outputs->bytes) != 0)
    status = braid_fail(BRAID_INVALID_FILE, "1 core and %d compute other bits: the package is wrong", packaged->cores);
  braid_serve_task_end(&one);
  braid_serve_task_end(&all);
  for (size_t i = 0; i < model->input_count; i++) braid_tensor_release(inputs[i]);
  return status;
}

braid_status braid_serve_model_card(braid_serve_model *model) {
  const braid_serve_card *card = model->device->card;
  if (model->config->max_batch > 1)
    return braid_fail(BRAID_UNSUPPORTED, "max_batch is %lld: a card runs one image at a time",
                      (long long)model->config->max_batch);
  if (model->graph)
    BRAID_TRY(card_compile(model));
  else
    BRAID_TRY(braid_serve_packaged_open(model->config->path, card->design, card->cores, &model->packaged));
  BRAID_TRY(card_ports(model->packaged, false, model->inputs, &model->input_count));
  BRAID_TRY(card_ports(model->packaged, true, model->outputs, &model->output_count));
  for (size_t i = 0; model->graph && i < model->input_count && i < braid_graph_input_count(model->graph); i++)
    graph_shape(model->graph, braid_graph_input(model->graph, i), &model->inputs[i]);
  for (size_t i = 0; model->graph && i < model->output_count && i < braid_graph_output_count(model->graph); i++)
    graph_shape(model->graph, braid_graph_output(model->graph, i), &model->outputs[i]);
  model->max_batch = 1;
  snprintf(
      model->batching, sizeof model->batching,
      "requests do not share runs: a card runs one image at a time, on 1 to %d cores in %.3f to %.3f ms (modelled)",
      card->cores, model->packaged->seconds[0] * 1e3, braid_share_isolated(&model->packaged->model, card->cores) * 1e3);
  braid_serve_plan *plan = braid_zalloc(NULL, sizeof *plan); /* it has the measured times; programs are elsewhere */
  if (!plan) return BRAID_NO_MEMORY;
  plan->batch = 1;
  for (size_t i = 0; i < model->input_count; i++) {
    plan->ranks[i] = model->inputs[i].rank;
    memcpy(plan->dims[i], model->inputs[i].dims, sizeof plan->dims[i]);
  }
  braid_serve_plan_keep(model, plan);
  braid_status status = card_try(model, plan);
  braid_graph_destroy(model->graph); /* the package has all of it */
  model->graph = NULL;
  return status;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
/* At the end of a layer: what the last decision says, with the programs for it. */
static braid_status pass_place(braid_serve_line *l, braid_serve_request *request, braid_serve_task *task,
                               double seconds) {
  bool given_back = false;
  pthread_mutex_lock(&l->lock);
  if (l->card->stale && braid_serve_line_decide(l, braid_now_ns()) != BRAID_OK) l->card->stale = true; /* later */
  int cores = braid_serve_card_place(l->card, &request->card, braid_serve_task_progress(task), seconds, &given_back);
  if (given_back) pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return task->layer < task->layers ? braid_serve_task_switch(task, cores) : BRAID_OK;
}

static braid_status run_layers(braid_serve_line *l, braid_serve_request *request, braid_serve_task *task,
                               const int *stop) {
  while (task->layer < task->layers) {
    double seconds = 0;
    if (braid_serve_is_abandoned(request, stop)) return BRAID_CANCELLED;
    BRAID_TRY(braid_serve_task_step(task, &seconds));
    BRAID_TRY(pass_place(l, request, task, seconds));
  }
  return BRAID_OK;
}

static braid_status begin_task(const braid_serve_model *model, const braid_serve_request *request,
                               braid_serve_task *task) {
  braid_tensor *inputs[BRAID_SERVE_PORTS] = {NULL};
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < model->input_count && status == BRAID_OK; i++) {
    const braid_serve_tensor *tensor = braid_serve_input_of(request, i);
    braid_desc desc;
    status = braid_desc_init(&desc, tensor->dtype, tensor->rank, tensor->dims);
    if (status == BRAID_OK) status = braid_tensor_wrap(NULL, &desc, tensor->data, NULL, NULL, &inputs[i]);
  }
  *task = (braid_serve_task){.packaged = model->packaged};
  if (status == BRAID_OK) status = braid_serve_task_begin(model->packaged, request->card.begun_with, inputs, task);
  for (size_t i = 0; i < model->input_count; i++) braid_tensor_release(inputs[i]);
  return status;
}

/* False: the request has its verdict. */
static bool take_output(const braid_serve_model *model, const braid_serve_task *task, size_t port,
                        braid_serve_request *request) {
  const braid_serve_port *of = &model->outputs[port];
  braid_tensor *tensor = NULL;
  braid_serve_tensor *out = &request->outputs[request->output_count];
  if (braid_package_get_output(model->packaged->package, port, &task->image, NULL, &tensor) != BRAID_OK) {
    braid_serve_refuse(request, BRAID_SERVE_FAILED, "%s", braid_error_detail());
    return false;
  }
  *out = (braid_serve_tensor){
      .port = port, .dtype = of->dtype, .rank = of->rank, .bytes = braid_desc_bytes(braid_tensor_desc(tensor))};
  memcpy(out->dims, of->dims, sizeof out->dims);
  bool taken = braid_serve_tenant_take(request->tenant, request, out->bytes) == BRAID_SERVE_DONE;
  if (taken) out->data = braid_alloc(NULL, out->bytes);
  if (taken && !out->data)
    braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for output %s of %zu bytes", of->name, out->bytes);
  if (out->data) {
    memcpy(out->data, braid_tensor_const_data(tensor), out->bytes);
    request->output_count++;
  }
  braid_tensor_release(tensor);
  return out->data != NULL;
}

/* What the card did, for whoever asks why. */
static void note_run(const braid_serve_task *task, braid_serve_request *request) {
  request->why.switches = request->card.switches;
  request->why.card_ms = request->card.seconds * 1e3;
  request->why.transfer_ms = task->transfer_seconds * 1e3;
  request->why.compile_us = task->compile_microseconds;
}

void braid_serve_card_run(braid_serve_line *l, braid_serve_request *request, const int *stop) {
  braid_serve_model *model = request->model;
  braid_serve_task task;
  int64_t began = braid_now_ns();
  braid_status status = begin_task(model, request, &task);
  if (status == BRAID_OK) status = run_layers(l, request, &task, stop);
  char detail[BRAID_SERVE_DETAIL];
  snprintf(detail, sizeof detail, "%s", status == BRAID_OK ? "" : braid_error_detail());
  request->verdict = BRAID_SERVE_DONE;
  for (size_t port = 0; status == BRAID_OK && port < model->output_count && request->verdict == BRAID_SERVE_DONE;
       port++)
    if (request->wanted >> port & 1) (void)take_output(model, &task, port, request);
  int64_t took = braid_now_ns() - began;
  request->batch = 1;
  note_run(&task, request);
  pthread_mutex_lock(&l->lock);
  l->card->compiles += task.compiles;
  l->card->compile_microseconds += task.compile_microseconds;
  pthread_mutex_unlock(&l->lock);
  braid_serve_task_end(&task);
  request->ended_ns = braid_now_ns();
  if (request->verdict == BRAID_SERVE_DONE) braid_serve_judge(request, status, detail, stop);
  if (status != BRAID_OK) return;
  pthread_mutex_lock(&model->lock);
  braid_serve_plan_measure(model->plans[0], (double)took);
  pthread_mutex_unlock(&model->lock);
}
