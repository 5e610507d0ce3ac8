#include "serve/model.h"
#include "runtime/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/model.h"
#include "braid/session.h"
#include "runtime/machine.h"
#include "serve/harvest.h"
#include "serve/model_parts.h"

enum { kTrialDim = 16 };

static braid_status open_card(const braid_serve_device_config *config, braid_serve_device *out) {
  bool elastic = strcmp(config->cores, "private") == 0;
  braid_status status = braid_serve_card_create(config->device, elastic, braid_now_ns(), &out->card);
  if (status != BRAID_OK) return braid_fail_prefix(status, "device %s", config->name);
  out->instance_count = (size_t)out->card->runs;
  return BRAID_OK;
}

braid_status braid_serve_device_open(const braid_serve_device_config *config, braid_serve_device *out) {
  *out = (braid_serve_device){.config = config};
  if (config->cores) return open_card(config, out);
  BRAID_TRY(braid_registry_create(NULL, &out->registry));
  braid_machine_options options = {
      .devices = config->device, .threads = (int)config->threads, .registry = out->registry};
  for (int64_t i = 0; i < config->instances; i++) {
    braid_status status = braid_machine_create(NULL, &options, &out->machines[i]);
    if (status != BRAID_OK) {
      braid_fail_prefix(status, "device %s", config->name);
      braid_serve_device_close(out);
      return status;
    }
    out->instance_count++;
  }
  out->prompt = out->instance_count > 0;
  for (size_t i = 0; out->prompt && i < out->machines[0]->device_count; i++)
    out->prompt = strcmp(out->machines[0]->devices[i].backend->name, "cpu") == 0;
  return BRAID_OK;
}

void braid_serve_device_close(braid_serve_device *device) {
  for (size_t i = 0; i < device->instance_count; i++) braid_machine_release(device->machines[i]);
  if (device->registry) braid_registry_destroy(device->registry);
  braid_serve_card_destroy(device->card);
  *device = (braid_serve_device){0};
}

/* --- ports ---------------------------------------------------------------------------------------------------------
 */
static braid_status port_of(const braid_graph *graph, braid_value_id value, const char *kind, braid_serve_port *out) {
  braid_value_info info = braid_graph_value(graph, value);
  if (strlen(info.name) >= sizeof out->name)
    return braid_fail(BRAID_UNSUPPORTED, "%s \"%.40s...\" has a name of more than %d bytes", kind, info.name,
                      BRAID_SERVE_NAME - 1);
  strcpy(out->name, info.name);
  out->dtype = info.desc.dtype;
  out->rank = info.desc.rank;
  if (out->rank > 0) memcpy(out->dims, info.desc.dims, (size_t)out->rank * sizeof *out->dims);
  if (out->dtype != BRAID_NONE && !braid_serve_dtype_name(out->dtype))
    return braid_fail(BRAID_UNSUPPORTED, "%s %s is of type %s, which KServe's protocol does not have", kind, out->name,
                      braid_dtype_name(out->dtype));
  return BRAID_OK;
}

static braid_status read_inputs(braid_serve_model *model) {
  model->input_count = braid_graph_input_count(model->graph);
  model->output_count = braid_graph_output_count(model->graph);
  if (model->input_count > BRAID_SERVE_PORTS || model->output_count > BRAID_SERVE_PORTS || !model->output_count)
    return braid_fail(BRAID_UNSUPPORTED, "%zu inputs and %zu outputs; up to %d inputs and 1 to %d outputs are served",
                      model->input_count, model->output_count, BRAID_SERVE_PORTS, BRAID_SERVE_PORTS);
  for (size_t i = 0; i < model->input_count; i++) {
    braid_serve_port *port = &model->inputs[i];
    BRAID_TRY(port_of(model->graph, braid_graph_input(model->graph, i), "input", port));
    if (port->rank < 0) return braid_fail(BRAID_UNSUPPORTED, "input %s is of any rank", port->name);
  }
  return BRAID_OK;
}

/* A copy of the graph for inputs of these dims; what is dynamic becomes `free_dim`, the batch `rows` (0: as it is). */
static braid_status resolve_trial(const braid_serve_model *model, int64_t rows, int64_t free_dim, braid_graph **out) {
  BRAID_TRY(braid_graph_clone(model->graph, out));
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < model->input_count && status == BRAID_OK; i++) {
    int64_t dims[BRAID_MAX_RANK];
    braid_serve_trial_dims(&model->inputs[i], rows, free_dim, dims);
    status = braid_graph_set_input_shape(*out, braid_graph_input(*out, i), model->inputs[i].rank, dims);
  }
  if (status == BRAID_OK) status = braid_resolve(*out);
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(*out);
  *out = NULL;
  return status;
}

void braid_serve_trial_dims(const braid_serve_port *port, int64_t rows, int64_t free_dim, int64_t *out) {
  for (int i = 0; i < port->rank; i++) out[i] = port->dims[i] < 0 ? free_dim : port->dims[i];
  if (rows && port->rank > 0) out[0] = rows;
}

/* Types of outputs, and which of their dimensions change with what is dynamic. */
static braid_status read_outputs(braid_serve_model *model, const braid_graph *small, const braid_graph *large) {
  for (size_t i = 0; i < model->output_count; i++) {
    braid_serve_port *port = &model->outputs[i], other;
    BRAID_TRY(port_of(small, braid_graph_output(small, i), "output", port));
    BRAID_TRY(port_of(large, braid_graph_output(large, i), "output", &other));
    for (int k = 0; k < port->rank; k++)
      if (port->rank != other.rank || port->dims[k] != other.dims[k]) port->dims[k] = -1;
  }
  return BRAID_OK;
}

/* Whether the first dimension of every input is dynamic or 1. */
static bool has_rows(const braid_serve_model *model) {
  for (size_t i = 0; i < model->input_count; i++)
    if (model->inputs[i].rank < 1 || model->inputs[i].dims[0] > 1) return false;
  return true;
}

static bool may_batch(const braid_serve_model *model) {
  bool dynamic = model->input_count > 0, wide = model->input_count > 0;
  for (size_t i = 0; i < model->input_count; i++) {
    wide &= model->inputs[i].rank > 0;
    dynamic &= model->inputs[i].rank > 0 && model->inputs[i].dims[0] < 0;
  }
  return dynamic || (wide && model->config->max_batch > 1 && has_rows(model));
}

/* Whether the first dimension of every output follows that of the inputs. */
static bool rows_come_out(const braid_graph *one, const braid_graph *three) {
  for (size_t i = 0; i < braid_graph_output_count(one); i++) {
    braid_desc a = braid_graph_value(one, braid_graph_output(one, i)).desc;
    braid_desc b = braid_graph_value(three, braid_graph_output(three, i)).desc;
    if (a.rank < 1 || b.rank != a.rank || a.dims[0] != 1 || b.dims[0] != 3) return false;
    for (int k = 1; k < a.rank; k++)
      if (a.dims[k] != b.dims[k]) return false;
  }
  return true;
}

static braid_status find_ports(braid_serve_model *model) {
  static const int64_t kFree[] = {kTrialDim, 1};
  braid_graph *small = NULL, *large = NULL;
  BRAID_TRY(read_inputs(model));
  bool batches = may_batch(model);
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < sizeof kFree / sizeof *kFree && !small; i++) {
    model->trial_dim = kFree[i];
    status = resolve_trial(model, batches, kFree[i], &small);
  }
  if (!small) return status;
  if (batches && resolve_trial(model, 3, model->trial_dim, &large) == BRAID_OK)
    model->batched = rows_come_out(small, large);
  if (batches && !model->batched)
    snprintf(model->batching, sizeof model->batching,
             "requests do not share runs: the outputs' first dimension does not follow the inputs'");
  if (!batches)
    snprintf(model->batching, sizeof model->batching,
             "requests do not share runs: not all inputs have a first dimension that is dynamic");
  braid_graph_destroy(large);
  large = NULL;
  if (resolve_trial(model, model->batched ? 2 : 0, model->trial_dim + 8, &large) != BRAID_OK)
    status = braid_graph_clone(small, &large);
  if (status == BRAID_OK) status = read_outputs(model, small, large);
  for (size_t i = 0; i < model->output_count && model->batched; i++) model->outputs[i].dims[0] = -1;
  for (size_t i = 0; i < model->input_count && model->batched; i++) model->inputs[i].dims[0] = -1;
  braid_graph_destroy(small);
  braid_graph_destroy(large);
  return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------
 */
static braid_status prepare_model(braid_serve_model *model) {
  const braid_serve_device *device = model->device;
  for (size_t i = 0; i < device->instance_count; i++)
    BRAID_TRY(braid_weights_create(device->machines[i], &model->weights[i]));
  BRAID_TRY(find_ports(model));
  model->max_batch = model->batched && model->config->max_batch ? model->config->max_batch : 1;
  return braid_serve_model_try(model);
}

braid_status braid_serve_model_make(const braid_serve_model_config *config, braid_serve_device *device,
                                    braid_serve_statistics *statistics, braid_graph *graph, braid_serve_model **out) {
  *out = NULL;
  braid_serve_model *model = braid_zalloc(NULL, sizeof *model);
  if (!model) {
    braid_graph_destroy(graph);
    return BRAID_NO_MEMORY;
  }
  model->config = config;
  model->device = device;
  model->references = 1;
  model->statistics = statistics;
  model->graph = graph;
  pthread_mutex_init(&model->lock, NULL);
  /* It is tried on the device, beside what the scheduler runs. */
  bool turn = device->harvest && braid_serve_harvest_turn_begin(device->harvest, device->index, NULL, NULL);
  int64_t began = braid_now_ns();
  braid_status status = device->card ? braid_serve_model_card(model) : prepare_model(model);
  if (turn) braid_serve_harvest_turn_end(device->harvest, device->index, braid_now_ns() - began);
  if (status != BRAID_OK) {
    braid_serve_model_release(model);
    return status;
  }
  *out = model;
  return BRAID_OK;
}

braid_status braid_serve_model_load(const braid_serve_model_config *config, braid_serve_device *device,
                                    braid_serve_statistics *statistics, braid_serve_model **out) {
  braid_model_options options = {.weights = config->weights};
  braid_graph *graph = NULL;
  const char *dot = strrchr(config->path, '.');
  bool packaged = dot && strcmp(dot, ".bpk") == 0;
  *out = NULL;
  if (packaged && !device->card)
    return braid_fail(BRAID_UNSUPPORTED, "a package runs on a card, a device with `cores:`, which %s is not",
                      device->config->name);
  if (!packaged) BRAID_TRY(braid_model_load(NULL, config->path, &options, &graph));
  braid_status status = braid_serve_model_make(config, device, statistics, graph, out);
  if (*out) (*out)->random = !config->weights && dot && strcmp(dot, ".cfg") == 0;
  return status;
}

void braid_serve_model_retain(braid_serve_model *model) {
  __atomic_fetch_add(&model->references, 1, __ATOMIC_RELAXED);
}

void braid_serve_model_release(braid_serve_model *model) {
  if (!model || __atomic_sub_fetch(&model->references, 1, __ATOMIC_ACQ_REL)) return;
  for (size_t i = 0; i < model->plan_count; i++) braid_serve_plan_free(model->plans[i]);
  for (size_t i = 0; i < BRAID_SERVE_INSTANCES; i++) braid_weights_release(model->weights[i]);
  braid_graph_destroy(model->graph);
  braid_serve_packaged_destroy(model->packaged);
  pthread_mutex_destroy(&model->lock);
  braid_free(NULL, model);
}

size_t braid_serve_model_bytes(braid_serve_model *model) {
  size_t bytes = model->packaged ? braid_serve_packaged_bytes(model->packaged) : 0;
  for (size_t i = 0; i < model->device->instance_count && !model->packaged; i++)
    bytes += braid_weights_bytes(model->weights[i]);
  pthread_mutex_lock(&model->lock);
  for (size_t i = 0; i < model->plan_count; i++) bytes += braid_serve_plan_bytes(model->plans[i]);
  pthread_mutex_unlock(&model->lock);
  return bytes;
}

int64_t braid_serve_model_batch(const braid_serve_model *model, int64_t rows) {
  if (!model->batched) return rows;
  if (rows > model->max_batch) return rows; /* one request's own */
  int64_t batch = 1;
  while (batch < rows) batch *= 2;
  return batch < model->max_batch ? batch : model->max_batch;
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */
braid_serve_verdict braid_serve_model_check(braid_serve_model *model, braid_serve_request *request) {
  bool given[BRAID_SERVE_PORTS] = {false};
  for (size_t i = 0; i < request->input_count; i++) given[request->inputs[i].port] = true;
  for (size_t i = 0; i < model->input_count; i++)
    if (!given[i])
      return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s of model %s is missing", model->inputs[i].name,
                                model->config->name);
  if (!request->wanted)
    request->wanted = model->output_count == 64 ? UINT64_MAX : (UINT64_C(1) << model->output_count) - 1;
  request->rows = 1;
  if (!model->batched) return BRAID_SERVE_DONE;
  request->rows = request->inputs[0].dims[0];
  for (size_t i = 0; i < request->input_count; i++)
    if (request->inputs[i].dims[0] != request->rows)
      return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s has %lld rows, and input %s has %lld",
                                model->inputs[request->inputs[i].port].name, (long long)request->inputs[i].dims[0],
                                model->inputs[request->inputs[0].port].name, (long long)request->rows);
  return BRAID_SERVE_DONE;
}

const braid_serve_tensor *braid_serve_input_of(const braid_serve_request *request, size_t port) {
  for (size_t i = 0; i < request->input_count; i++)
    if (request->inputs[i].port == port) return &request->inputs[i];
  return NULL;
}

bool braid_serve_same_shapes(const braid_serve_request *a, const braid_serve_request *b) {
  if (a->model != b->model) return false;
  for (size_t i = 0; i < a->model->input_count; i++) {
    const braid_serve_tensor *x = braid_serve_input_of(a, i), *y = braid_serve_input_of(b, i);
    for (int k = a->model->batched; k < x->rank; k++)
      if (x->dims[k] != y->dims[k]) return false;
  }
  return true;
}
