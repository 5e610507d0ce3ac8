/* What is asked of the server and its models: KServe v2's metadata, and Triton's configuration, statistics and index.
 */
#include <string.h>

#include "braid/version.h"
#include "serve/http/call.h"

void braid_http_server_metadata(braid_http_call *call) {
  braid_text_printf(
      &call->text,
      "{\"name\":\"braid\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\",\"model_repository\","
      "\"model_repository(unload_dependents)\",\"schedule_policy\",\"model_configuration\","
      "\"system_shared_memory\",\"statistics\"]}",
      BRAID_VERSION);
  call->status = 200;
}

/* The model of this name and version, a reference; NULL: the answer is a refusal. */
static braid_serve_model *acquire(braid_http_call *call, const char *name, const char *version) {
  braid_serve_model *model;
  braid_status status = braid_serve_registry_acquire(call->server->registry, name, version, &model);
  if (status == BRAID_OK) return model;
  braid_http_refuse(call, status == BRAID_NOT_FOUND ? BRAID_SERVE_UNKNOWN : BRAID_SERVE_UNAVAILABLE, "%s",
                    braid_error_detail());
  return NULL;
}

static void add_ports(braid_text *text, const braid_serve_port *ports, size_t count) {
  braid_text_add(text, "[");
  for (size_t i = 0; i < count; i++) {
    braid_text_add(text, i ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(text, ports[i].name);
    braid_text_printf(text, ",\"datatype\":\"%s\",\"shape\":[", braid_serve_dtype_name(ports[i].dtype));
    for (int k = 0; k < ports[i].rank; k++)
      braid_text_printf(text, "%s%lld", k ? "," : "", (long long)ports[i].dims[k]);
    braid_text_add(text, "]}");
  }
  braid_text_add(text, "]");
}

void braid_http_model_metadata(braid_http_call *call, const char *name, const char *version) {
  braid_serve_model *model = acquire(call, name, version);
  if (!model) return;
  braid_text *text = &call->text;
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, name);
  braid_text_add(text, ",\"versions\":[");
  braid_text_add_json(text, model->config->version);
  braid_text_add(text, "],\"platform\":\"braid\",\"inputs\":");
  add_ports(text, model->inputs, model->input_count);
  braid_text_add(text, ",\"outputs\":");
  add_ports(text, model->outputs, model->output_count);
  braid_text_add(text, ",\"properties\":{\"batching\":");
  braid_text_add_json(text, model->batching);
  if (model->random) braid_text_add(text, ",\"weights\":\"random\"");
  braid_text_add(text, "}}");
  call->status = 200;
  braid_serve_model_release(model);
}

static void add_config_ports(braid_text *text, const braid_serve_port *ports, size_t count, bool batched) {
  braid_text_add(text, "[");
  for (size_t i = 0; i < count; i++) {
    braid_text_add(text, i ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(text, ports[i].name);
    braid_text_printf(text, ",\"data_type\":\"TYPE_%s\",\"dims\":[", braid_serve_dtype_name(ports[i].dtype));
    for (int k = batched; k < ports[i].rank; k++)
      braid_text_printf(text, "%s%lld", k > batched ? "," : "", (long long)ports[i].dims[k]);
    braid_text_add(text, "]}");
  }
  braid_text_add(text, "]");
}

void braid_http_model_config(braid_http_call *call, const char *name, const char *version) {
  braid_serve_model *model = acquire(call, name, version);
  if (!model) return;
  braid_text *text = &call->text;
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, name);
  braid_text_printf(text, ",\"platform\":\"braid\",\"backend\":\"braid\",\"max_batch_size\":%lld,\"input\":",
                    (long long)(model->batched ? model->max_batch : 0));
  add_config_ports(text, model->inputs, model->input_count, model->batched);
  braid_text_add(text, ",\"output\":");
  add_config_ports(text, model->outputs, model->output_count, model->batched);
  braid_text_printf(text, ",\"dynamic_batching\":{\"max_queue_delay_microseconds\":%lld}}",
                    (long long)(model->config->delay_ms * 1e3));
  call->status = 200;
  braid_serve_model_release(model);
}

void braid_http_model_ready(braid_http_call *call, const char *name, const char *version) {
  braid_serve_entry entry;
  bool found = braid_serve_registry_find(call->server->registry, name, &entry);
  if (!found || (version && strcmp(version, entry.config->version) != 0)) {
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is no model \"%.100s\"%s%.40s", name,
                      version ? " of version " : "", version ? version : "");
    return;
  }
  bool ready = entry.state == BRAID_SERVE_READY;
  braid_text_add(&call->text, "{\"name\":");
  braid_text_add_json(&call->text, name);
  braid_text_printf(&call->text, ",\"ready\":%s}", ready ? "true" : "false");
  call->status = ready ? 200 : 400;
}

static void add_duration(braid_text *text, const char *name, uint64_t count, uint64_t ns) {
  braid_text_printf(text, "\"%s\":{\"count\":%llu,\"ns\":%llu}", name, (unsigned long long)count,
                    (unsigned long long)ns);
}

static void add_statistics(braid_text *text, const braid_serve_entry *entry) {
  const braid_serve_statistics *counts = &entry->statistics;
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, entry->config->name);
  braid_text_add(text, ",\"version\":");
  braid_text_add_json(text, entry->config->version);
  braid_text_printf(
      text, ",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,\"inference_stats\":{",
      (unsigned long long)counts->last_ms, (unsigned long long)counts->rows, (unsigned long long)counts->runs);
  add_duration(text, "success", counts->done, counts->total_ns);
  braid_text_add(text, ",");
  add_duration(text, "fail", counts->failed, 0);
  braid_text_add(text, ",");
  add_duration(text, "queue", counts->done, counts->queue_ns);
  braid_text_add(text, ",");
  add_duration(text, "compute_input", counts->done, 0);
  braid_text_add(text, ",");
  add_duration(text, "compute_infer", counts->done, counts->compute_ns);
  braid_text_add(text, ",");
  add_duration(text, "compute_output", counts->done, 0);
  braid_text_add(text, ",");
  add_duration(text, "cache_hit", 0, 0);
  braid_text_add(text, ",");
  add_duration(text, "cache_miss", 0, 0);
  braid_text_add(text, "},\"batch_stats\":[]}");
}

void braid_http_statistics(braid_http_call *call, const char *name) {
  braid_serve_entry entry;
  bool any = false;
  braid_text_add(&call->text, "{\"model_stats\":[");
  for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++) {
    if ((name && strcmp(entry.config->name, name) != 0) || !braid_serve_tenant_may(call->tenant, entry.config->name))
      continue;
    if (any) braid_text_add(&call->text, ",");
    add_statistics(&call->text, &entry);
    any = true;
  }
  braid_text_add(&call->text, "]}");
  call->status = 200;
  if (name && !any) braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is no model \"%.100s\"", name);
}

void braid_http_index(braid_http_call *call) {
  static const char *const kStates[] = {[BRAID_SERVE_UNLOADED] = "UNAVAILABLE",
                                        [BRAID_SERVE_LOADING] = "LOADING",
                                        [BRAID_SERVE_READY] = "READY",
                                        [BRAID_SERVE_BROKEN] = "UNAVAILABLE"};
  json_t *asked =
      call->bytes && call->bytes <= BRAID_JSON_MOST ? json_loadb((const char *)call->body, call->bytes, 0, NULL) : NULL;
  bool ready_only = json_is_true(json_object_get(asked, "ready")), any = false;
  json_decref(asked);
  braid_serve_entry entry;
  braid_text_add(&call->text, "[");
  for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++) {
    if ((ready_only && entry.state != BRAID_SERVE_READY) || !braid_serve_tenant_may(call->tenant, entry.config->name))
      continue;
    braid_text_add(&call->text, any ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(&call->text, entry.config->name);
    braid_text_add(&call->text, ",\"version\":");
    braid_text_add_json(&call->text, entry.config->version);
    braid_text_printf(&call->text, ",\"state\":\"%s\",\"reason\":", kStates[entry.state]);
    braid_text_add_json(&call->text, entry.reason);
    braid_text_add(&call->text, "}");
    any = true;
  }
  braid_text_add(&call->text, "]");
  call->status = 200;
}
