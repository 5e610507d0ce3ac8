/* Methods that say what the daemon and its models are. */
#include <string.h>

#include "braid/version.h"
#include "inference.pb-c.h"
#include "serve/grpc/call.h"

static void refuse_memory(braid_grpc_reply *reply) {
  braid_grpc_refuse(reply, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* A message of protobuf-c in the arena; NULL, with the reply's sentence, when out of memory. */
static void *make_message(const braid_grpc_asked *asked, braid_grpc_reply *reply,
                          const ProtobufCMessageDescriptor *type) {
  void *message = braid_arena_alloc(asked->arena, type->sizeof_message);
  if (message)
    protobuf_c_message_init(type, message);
  else
    refuse_memory(reply);
  return message;
}

/* As many, and the list of them. */
static void *make_list(const braid_grpc_asked *asked, braid_grpc_reply *reply, const ProtobufCMessageDescriptor *type,
                       size_t count) {
  void **list = braid_arena_alloc(asked->arena, (count + 1) * sizeof *list);
  if (!list) refuse_memory(reply);
  for (size_t i = 0; list && i < count; i++) {
    list[i] = make_message(asked, reply, type);
    if (!list[i]) list = NULL;
  }
  return list;
}

static const char *version_of(const braid_serve_model_config *config) {
  return config->version ? config->version : "1";
}

/* A reference to the model that is asked for, where the tenant may use it and it is ready; else NULL and a sentence. */
static braid_serve_model *find_model(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__ModelNameRequest *request = asked->message;
  braid_serve_model *model = NULL;
  braid_serve_tenant *tenant = asked->tenant;
  if (!braid_serve_tenant_may(tenant, request->name)) {
    braid_grpc_refuse(reply, GRPC_STATUS_PERMISSION_DENIED, "tenant %s may not use model \"%.100s\"",
                      tenant->config->name, request->name);
    return NULL;
  }
  braid_status status = braid_serve_registry_acquire(asked->server->registry, request->name, request->version, &model);
  if (status == BRAID_OK) return model;
  grpc_status_code code = status == BRAID_NOT_FOUND ? GRPC_STATUS_NOT_FOUND
                          : status == BRAID_BUSY    ? GRPC_STATUS_UNAVAILABLE
                                                    : GRPC_STATUS_INTERNAL;
  braid_grpc_refuse(reply, code, "%s", braid_error_detail());
  return NULL;
}

/* Texts of a model outlive the reference to it: the answer has copies. */
static char *copy_text(const braid_grpc_asked *asked, const char *text) {
  return text ? braid_arena_text(asked->arena, text, strlen(text)) : NULL;
}

void braid_grpc_server_live(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  Inference__ServerLiveResponse *response = make_message(asked, reply, &inference__server_live_response__descriptor);
  if (response) response->live = true;
  reply->message = response;
}

void braid_grpc_server_ready(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  Inference__ServerReadyResponse *response = make_message(asked, reply, &inference__server_ready_response__descriptor);
  if (response) response->ready = braid_server_is_ready(asked->server);
  reply->message = response;
}

void braid_grpc_server_metadata(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  static char *kExtensions[] = {"model_repository",     "model_configuration", "statistics",
                                "system_shared_memory", "binary_tensor_data",  "schedule_policy"};
  Inference__ServerMetadataResponse *response =
      make_message(asked, reply, &inference__server_metadata_response__descriptor);
  if (!response) return;
  response->name = "braid";
  response->version = BRAID_VERSION;
  response->extensions = kExtensions;
  response->n_extensions = sizeof kExtensions / sizeof *kExtensions;
  reply->message = response;
}

/* Models that are not there are not ready; the protocol has no other answer for them. */
void braid_grpc_model_ready(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__ModelNameRequest *request = asked->message;
  braid_serve_entry entry;
  braid_serve_tenant *tenant = asked->tenant;
  Inference__ModelReadyResponse *response = make_message(asked, reply, &inference__model_ready_response__descriptor);
  if (!response) return;
  response->ready = braid_serve_tenant_may(tenant, request->name) &&
                    braid_serve_registry_find(asked->server->registry, request->name, &entry) &&
                    entry.state == BRAID_SERVE_READY &&
                    (!*request->version || !strcmp(request->version, version_of(entry.config)));
  reply->message = response;
}

/* --- metadata -------------------------------------------------------------------------------------------------------
 */
static Inference__ModelMetadataResponse__TensorMetadata **
describe_ports(const braid_grpc_asked *asked, braid_grpc_reply *reply, const braid_serve_port *ports, size_t count) {
  Inference__ModelMetadataResponse__TensorMetadata **list =
      make_list(asked, reply, &inference__model_metadata_response__tensor_metadata__descriptor, count);
  for (size_t i = 0; list && i < count; i++) {
    list[i]->name = copy_text(asked, ports[i].name);
    list[i]->datatype = (char *)braid_serve_dtype_name(ports[i].dtype);
    list[i]->n_shape = (size_t)ports[i].rank;
    list[i]->shape = braid_arena_alloc(asked->arena, sizeof ports[i].dims);
    if (!list[i]->shape || !list[i]->name || !list[i]->datatype) {
      refuse_memory(reply);
      return NULL;
    }
    memcpy(list[i]->shape, ports[i].dims, sizeof ports[i].dims);
  }
  return list;
}

void braid_grpc_model_metadata(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  Inference__ModelMetadataResponse *response =
      make_message(asked, reply, &inference__model_metadata_response__descriptor);
  char **versions = braid_arena_alloc(asked->arena, sizeof *versions);
  braid_serve_model *model = response && versions ? find_model(asked, reply) : NULL;
  if (!model) {
    if (response && !versions) refuse_memory(reply);
    return;
  }
  versions[0] = copy_text(asked, version_of(model->config));
  response->name = copy_text(asked, model->config->name);
  response->versions = versions;
  response->n_versions = 1;
  response->platform = "braid";
  response->inputs = describe_ports(asked, reply, model->inputs, model->input_count);
  response->outputs = describe_ports(asked, reply, model->outputs, model->output_count);
  response->n_inputs = model->input_count;
  response->n_outputs = model->output_count;
  braid_serve_model_release(model);
  if (!versions[0] || !response->name) refuse_memory(reply);
  reply->message = response;
}

/* --- configuration --------------------------------------------------------------------------------------------------
 */
static Inference__DataType config_type(braid_dtype dtype) {
  static const Inference__DataType kTypes[BRAID_DTYPE_COUNT] = {
      [BRAID_BOOL] = INFERENCE__DATA_TYPE__TYPE_BOOL,  [BRAID_U8] = INFERENCE__DATA_TYPE__TYPE_UINT8,
      [BRAID_U16] = INFERENCE__DATA_TYPE__TYPE_UINT16, [BRAID_U32] = INFERENCE__DATA_TYPE__TYPE_UINT32,
      [BRAID_U64] = INFERENCE__DATA_TYPE__TYPE_UINT64, [BRAID_I8] = INFERENCE__DATA_TYPE__TYPE_INT8,
      [BRAID_I16] = INFERENCE__DATA_TYPE__TYPE_INT16,  [BRAID_I32] = INFERENCE__DATA_TYPE__TYPE_INT32,
      [BRAID_I64] = INFERENCE__DATA_TYPE__TYPE_INT64,  [BRAID_F16] = INFERENCE__DATA_TYPE__TYPE_FP16,
      [BRAID_F32] = INFERENCE__DATA_TYPE__TYPE_FP32,   [BRAID_F64] = INFERENCE__DATA_TYPE__TYPE_FP64,
      [BRAID_BF16] = INFERENCE__DATA_TYPE__TYPE_BF16};
  return kTypes[dtype];
}

/* Without the batch, which max_batch_size says. */
static int64_t *config_dims(const braid_grpc_asked *asked, const braid_serve_model *model, const braid_serve_port *port,
                            size_t *out_count) {
  int first = model->batched && port->rank > 0;
  int64_t *dims = braid_arena_alloc(asked->arena, sizeof port->dims);
  *out_count = dims ? (size_t)(port->rank - first) : 0;
  if (dims) memcpy(dims, port->dims + first, *out_count * sizeof *dims);
  return dims;
}

static bool config_ports(const braid_grpc_asked *asked, braid_grpc_reply *reply, const braid_serve_model *model,
                         Inference__ModelConfig *config) {
  config->input = make_list(asked, reply, &inference__model_input__descriptor, model->input_count);
  config->output = make_list(asked, reply, &inference__model_output__descriptor, model->output_count);
  if (!config->input || !config->output) return false;
  config->n_input = model->input_count;
  config->n_output = model->output_count;
  bool good = true;
  for (size_t i = 0; i < model->input_count; i++) {
    Inference__ModelInput *input = config->input[i];
    input->name = copy_text(asked, model->inputs[i].name);
    input->data_type = config_type(model->inputs[i].dtype);
    input->dims = config_dims(asked, model, &model->inputs[i], &input->n_dims);
    good = good && input->name && input->dims;
  }
  for (size_t i = 0; i < model->output_count; i++) {
    Inference__ModelOutput *output = config->output[i];
    output->name = copy_text(asked, model->outputs[i].name);
    output->data_type = config_type(model->outputs[i].dtype);
    output->dims = config_dims(asked, model, &model->outputs[i], &output->n_dims);
    good = good && output->name && output->dims;
  }
  if (!good) refuse_memory(reply);
  return good;
}

/* How the daemon runs it: a group of instances, batching and why. */
static bool config_running(const braid_grpc_asked *asked, braid_grpc_reply *reply, const braid_serve_model *model,
                           Inference__ModelConfig *config) {
  config->instance_group = make_list(asked, reply, &inference__model_instance_group__descriptor, 1);
  config->parameters = make_list(asked, reply, &inference__model_config__parameters_entry__descriptor, 1);
  config->dynamic_batching = make_message(asked, reply, &inference__model_dynamic_batching__descriptor);
  Inference__ModelParameter *batching = make_message(asked, reply, &inference__model_parameter__descriptor);
  if (!config->instance_group || !config->parameters || !config->dynamic_batching || !batching) return false;
  config->n_instance_group = config->n_parameters = 1;
  const braid_serve_device *device = model->device;
  Inference__ModelInstanceGroup *group = config->instance_group[0];
  bool cpu = !strncmp(device->config->device, "cpu", 3), gpu = !strncmp(device->config->device, "cuda", 4);
  group->name = copy_text(asked, device->config->name);
  group->count = (int32_t)device->instance_count;
  group->kind = cpu   ? INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU
                : gpu ? INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU
                      : INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO;
  batching->string_value = copy_text(asked, model->batching);
  config->parameters[0]->key = "batching";
  config->parameters[0]->value = batching;
  config->dynamic_batching->max_queue_delay_microseconds = (uint64_t)(model->config->delay_ms * 1000);
  bool good = group->name && batching->string_value;
  if (!good) refuse_memory(reply);
  return good;
}

void braid_grpc_model_config(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  Inference__ModelConfigResponse *response = make_message(asked, reply, &inference__model_config_response__descriptor);
  Inference__ModelConfig *config = make_message(asked, reply, &inference__model_config__descriptor);
  braid_serve_model *model = response && config ? find_model(asked, reply) : NULL;
  if (!model) return;
  response->config = config;
  config->name = copy_text(asked, model->config->name);
  config->platform = config->backend = "braid";
  config->max_batch_size = model->batched ? (int32_t)model->max_batch : 0;
  if (config_ports(asked, reply, model, config) && config_running(asked, reply, model, config)) {
    if (config->name)
      reply->message = response;
    else
      refuse_memory(reply);
  }
  braid_serve_model_release(model);
}

/* --- statistics -----------------------------------------------------------------------------------------------------
 */
static Inference__StatisticDuration *make_duration(const braid_grpc_asked *asked, braid_grpc_reply *reply,
                                                   uint64_t count, uint64_t ns) {
  Inference__StatisticDuration *duration = make_message(asked, reply, &inference__statistic_duration__descriptor);
  if (!duration) return NULL;
  duration->count = count;
  duration->ns = ns;
  return duration;
}

static Inference__ModelStatistics *make_statistics(const braid_grpc_asked *asked, braid_grpc_reply *reply,
                                                   const braid_serve_entry *entry) {
  const braid_serve_statistics *counted = &entry->statistics;
  Inference__ModelStatistics *statistics = make_message(asked, reply, &inference__model_statistics__descriptor);
  Inference__InferStatistics *infer = make_message(asked, reply, &inference__infer_statistics__descriptor);
  if (!statistics || !infer) return NULL;
  statistics->name = entry->config->name;
  statistics->version = (char *)version_of(entry->config);
  statistics->last_inference = counted->last_ms;
  statistics->inference_count = counted->rows;
  statistics->execution_count = counted->runs;
  statistics->inference_stats = infer;
  infer->success = make_duration(asked, reply, counted->done, counted->total_ns);
  infer->fail = make_duration(asked, reply, counted->failed, 0);
  infer->queue = make_duration(asked, reply, counted->done, counted->queue_ns);
  infer->compute_input = make_duration(asked, reply, counted->done, 0);
  infer->compute_infer = make_duration(asked, reply, counted->done, counted->compute_ns);
  infer->compute_output = make_duration(asked, reply, counted->done, 0);
  return statistics;
}

void braid_grpc_model_statistics(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__ModelNameRequest *request = asked->message;
  braid_serve_registry *registry = asked->server->registry;
  braid_serve_tenant *tenant = asked->tenant;
  size_t most = braid_serve_registry_count(registry);
  Inference__ModelStatisticsResponse *response =
      make_message(asked, reply, &inference__model_statistics_response__descriptor);
  Inference__ModelStatistics **list = braid_arena_alloc(asked->arena, (most + 1) * sizeof *list);
  if (!response || !list) {
    refuse_memory(reply);
    return;
  }
  response->model_stats = list;
  braid_serve_entry entry;
  for (size_t i = 0; i < most && braid_serve_registry_entry(registry, i, &entry); i++) {
    bool asked_for = !*request->name || !strcmp(request->name, entry.config->name);
    if (asked_for && *request->version) asked_for = !strcmp(request->version, version_of(entry.config));
    if (!asked_for || !braid_serve_tenant_may(tenant, entry.config->name)) continue;
    list[response->n_model_stats] = make_statistics(asked, reply, &entry);
    if (!list[response->n_model_stats++]) return;
  }
  if (*request->name && !response->n_model_stats)
    braid_grpc_refuse(reply, GRPC_STATUS_NOT_FOUND, "there is no model \"%.100s\" with this version", request->name);
  reply->message = response;
}
