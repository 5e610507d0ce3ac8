#include "serve/serving_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "braid/overlay.h"
#include "device/yaml.h"

static const int64_t kLeastTrace = 1 << 20; /* a line of many spans fits */
enum { kMost = 256, kText = 4096, kName = 100, kAddress = 260, kUrl = 1000 };

#define TEXT(type, name, least, most)                                                                                  \
  CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, name, least, most)
#define INTEGER(type, name) CYAML_FIELD_INT(#name, CYAML_FLAG_OPTIONAL, type, name)
#define NUMBER(type, name) CYAML_FIELD_FLOAT(#name, CYAML_FLAG_OPTIONAL, type, name)
/* libcyaml's own takes every word that is not one of no's for yes. */
static const cyaml_strval_t kFlags[] = {{"false", 0}, {"no", 0}, {"off", 0}, {"true", 1}, {"yes", 1}, {"on", 1}};
#define FLAG(type, name)                                                                                               \
  CYAML_FIELD_ENUM(#name, CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, type, name, kFlags, sizeof kFlags / sizeof *kFlags)

static const cyaml_schema_field_t kDeviceFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_serve_device_config, name, 1, kName),
    TEXT(braid_serve_device_config, device, 1, kText),
    TEXT(braid_serve_device_config, cores, 1, kName),
    INTEGER(braid_serve_device_config, threads),
    INTEGER(braid_serve_device_config, instances),
    NUMBER(braid_serve_device_config, idle_watts),
    NUMBER(braid_serve_device_config, run_watts),
    FLAG(braid_serve_device_config, remote),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kDevice = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_serve_device_config, kDeviceFields)};

static const cyaml_schema_field_t kModelFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_serve_model_config, name, 1, kName),
    CYAML_FIELD_STRING_PTR("path", CYAML_FLAG_POINTER, braid_serve_model_config, path, 1, kText),
    TEXT(braid_serve_model_config, weights, 1, kText),
    TEXT(braid_serve_model_config, version, 1, kName),
    TEXT(braid_serve_model_config, device, 1, kName),
    INTEGER(braid_serve_model_config, max_batch),
    TEXT(braid_serve_model_config, batch_bits, 1, kName),
    NUMBER(braid_serve_model_config, deadline_ms),
    NUMBER(braid_serve_model_config, delay_ms),
    NUMBER(braid_serve_model_config, reserve_ms),
    FLAG(braid_serve_model_config, lazy),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kModel = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_serve_model_config, kModelFields)};

static const cyaml_schema_field_t kTenantFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_serve_tenant_config, name, 1, kName),
    TEXT(braid_serve_tenant_config, token, 1, kText),
    TEXT(braid_serve_tenant_config, token_sha256, 1, kName),
    INTEGER(braid_serve_tenant_config, priority),
    NUMBER(braid_serve_tenant_config, share),
    CYAML_FIELD_INT_PTR("max_requests", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_tenant_config,
                        given_requests),
    CYAML_FIELD_INT_PTR("max_bytes", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_tenant_config, given_bytes),
    INTEGER(braid_serve_tenant_config, cores),
    NUMBER(braid_serve_tenant_config, rate),
    TEXT(braid_serve_tenant_config, models, 1, kText),
    TEXT(braid_serve_tenant_config, shared_memory, 1, kName),
    FLAG(braid_serve_tenant_config, admin),
    FLAG(braid_serve_tenant_config, compile),
    FLAG(braid_serve_tenant_config, train),
    FLAG(braid_serve_tenant_config, remote),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kTenant = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_serve_tenant_config, kTenantFields)};

static const cyaml_schema_field_t kClusterFields[] = {
    TEXT(braid_serve_cluster_config, etcd, 1, kText),
    TEXT(braid_serve_cluster_config, name, 1, kName),
    TEXT(braid_serve_cluster_config, node, 1, kName),
    TEXT(braid_serve_cluster_config, address, 1, kAddress),
    TEXT(braid_serve_cluster_config, token, 1, kName),
    TEXT(braid_serve_cluster_config, authority, 1, kText),
    TEXT(braid_serve_cluster_config, certificate, 1, kText),
    TEXT(braid_serve_cluster_config, key, 1, kText),
    TEXT(braid_serve_cluster_config, node_authority, 1, kText),
    TEXT(braid_serve_cluster_config, bulk, 1, kName),
    INTEGER(braid_serve_cluster_config, copies),
    INTEGER(braid_serve_cluster_config, fetch_max_bytes),
    NUMBER(braid_serve_cluster_config, wait_ms),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kTraceFields[] = {
    TEXT(braid_serve_trace_config, endpoint, 1, kUrl),
    TEXT(braid_serve_trace_config, file, 1, kText),
    INTEGER(braid_serve_trace_config, file_max_bytes),
    CYAML_FIELD_FLOAT_PTR("sample", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_trace_config, sample),
    TEXT(braid_serve_trace_config, service, 1, kName),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_MAPPING_PTR("trace", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_config, trace, kTraceFields),
    CYAML_FIELD_MAPPING_PTR("cluster", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_config, cluster,
                            kClusterFields),
    TEXT(braid_serve_config, address, 1, kName),
    INTEGER(braid_serve_config, port),
    INTEGER(braid_serve_config, grpc_port),
    TEXT(braid_serve_config, socket, 1, kText),
    INTEGER(braid_serve_config, wire_port),
    INTEGER(braid_serve_config, spin_us),
    INTEGER(braid_serve_config, http_threads),
    TEXT(braid_serve_config, certificate, 1, kText),
    TEXT(braid_serve_config, key, 1, kText),
    TEXT(braid_serve_config, wire_authority, 1, kText),
    INTEGER(braid_serve_config, max_request_bytes),
    INTEGER(braid_serve_config, max_connections),
    INTEGER(braid_serve_config, max_memory_bytes),
    NUMBER(braid_serve_config, receive_ms),
    NUMBER(braid_serve_config, power_cap_watts),
    NUMBER(braid_serve_config, training_watts),
    TEXT(braid_serve_config, state, 1, kText),
    CYAML_FIELD_SEQUENCE("devices", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_config, devices, &kDevice, 0,
                         16),
    CYAML_FIELD_SEQUENCE("models", CYAML_FLAG_POINTER, braid_serve_config, models, &kModel, 1, kMost),
    CYAML_FIELD_SEQUENCE("tenants", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_serve_config, tenants, &kTenant, 0,
                         kMost),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kConfig = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_serve_config, kFields)};

/* --- what the schema cannot say ------------------------------------------------------------------------------------
 * Each check returns its refusal and leaves in `at` the path of what is wrong. */
typedef struct place {
  char path[96];
} place;

static void set_place(place *at, const char *list, unsigned index, const char *key) {
  if (list)
    snprintf(at->path, sizeof at->path, "%s/%u/%s", list, index, key);
  else
    snprintf(at->path, sizeof at->path, "%s", key);
}

static braid_status check_range(int64_t value, const char *key, int64_t most) {
  if (value >= 0 && value <= most) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s is %lld, expected 0 (the default) to %lld", key, (long long)value,
                    (long long)most);
}

/* Of a limit under which nothing could be served with 0. */
static braid_status check_positive(int64_t value, const char *key, int64_t most) {
  if (value > 0 && value <= most) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s is %lld, expected 1 to %lld; without it the default holds", key,
                    (long long)value, (long long)most);
}

static braid_status check_number(double value, const char *key, double most) {
  if (value >= 0 && value <= most) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s is %g, expected 0 (the default) to %g", key, value, most);
}

static braid_status check_name(const char *name) {
  static const char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (name[0] != '.' && name[strspn(name, kLetters)] == '\0') return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE,
                    "the name \"%s\": expected letters, digits, '_', '-' and '.', which is not first", name);
}

static bool is_overlay(const char *spec) {
  return strncmp(spec, "overlay", 7) == 0 && (!spec[7] || spec[7] == ':');
}

/* A card: what it says of CPUs would mean nothing. */
static braid_status check_card(const braid_serve_device_config *device, unsigned index, place *at) {
  set_place(at, "devices", index, "cores");
  if (strcmp(device->cores, "private") != 0 && strcmp(device->cores, "public") != 0)
    return braid_fail(BRAID_INVALID_FILE, "cores is %.100s, expected private or public", device->cores);
  set_place(at, "devices", index, "device");
  if (!is_overlay(device->device))
    return braid_fail(BRAID_INVALID_FILE,
                      "device %s has cores to share, so that it is a card: expected \"overlay\" or "
                      "\"overlay:design=NAME\", not \"%.100s\"",
                      device->name, device->device);
  set_place(at, "devices", index, "instances");
  if (device->instances > 1)
    return braid_fail(BRAID_INVALID_FILE, "instances is %lld: runs of a card share its cores, as many as there are",
                      (long long)device->instances);
  set_place(at, "devices", index, "threads");
  if (device->threads)
    return braid_fail(BRAID_INVALID_FILE, "threads is %lld: a card has none", (long long)device->threads);
  set_place(at, "devices", index, "remote");
  if (device->remote)
    return braid_fail(BRAID_INVALID_FILE, "remote is true: the cores of a card are for runs of the daemon's models");
  return BRAID_OK;
}

static braid_status check_devices(const braid_serve_config *config, place *at) {
  for (unsigned i = 0; i < config->devices_count; i++) {
    const braid_serve_device_config *device = &config->devices[i];
    set_place(at, "devices", i, "name");
    BRAID_TRY(check_name(device->name));
    for (unsigned k = 0; k < i; k++)
      if (strcmp(config->devices[k].name, device->name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two devices named %s", device->name);
    if (device->cores) BRAID_TRY(check_card(device, i, at));
    set_place(at, "devices", i, "remote");
    if (device->remote && (is_overlay(device->device) || strncmp(device->device, "overlay,", 8) == 0))
      return braid_fail(
          BRAID_INVALID_FILE,
          "remote is true: device %s is of the overlay, which cannot be offered, since it has to prepare a "
          "kernel to say what it needs",
          device->name);
    set_place(at, "devices", i, "threads");
    BRAID_TRY(check_range(device->threads, "threads", 4096));
    set_place(at, "devices", i, "instances");
    BRAID_TRY(check_range(device->instances, "instances", 16));
    set_place(at, "devices", i, "idle_watts");
    BRAID_TRY(check_number(device->idle_watts, "idle_watts", 1e6));
    set_place(at, "devices", i, "run_watts");
    BRAID_TRY(check_number(device->run_watts, "run_watts", 1e6));
  }
  return BRAID_OK;
}

static braid_status check_models(const braid_serve_config *config, place *at) {
  for (unsigned i = 0; i < config->models_count; i++) {
    const braid_serve_model_config *model = &config->models[i];
    set_place(at, "models", i, "name");
    BRAID_TRY(check_name(model->name));
    for (unsigned k = 0; k < i; k++)
      if (strcmp(config->models[k].name, model->name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two models named %s", model->name);
    set_place(at, "models", i, "version");
    BRAID_TRY(check_name(model->version));
    set_place(at, "models", i, "device");
    unsigned device = 0;
    while (model->device && device < config->devices_count && strcmp(config->devices[device].name, model->device) != 0)
      device++;
    if (model->device && device == config->devices_count)
      return braid_fail(BRAID_INVALID_FILE, "model %s: there is no device named %s under `devices`", model->name,
                        model->device);
    set_place(at, "models", i, "max_batch");
    BRAID_TRY(check_range(model->max_batch, "max_batch", 64));
    set_place(at, "models", i, "batch_bits");
    if (strcmp(model->batch_bits, "same") != 0 && strcmp(model->batch_bits, "any") != 0)
      return braid_fail(BRAID_INVALID_FILE, "batch_bits is %s, expected same or any", model->batch_bits);
    set_place(at, "models", i, "deadline_ms");
    BRAID_TRY(check_number(model->deadline_ms, "deadline_ms", 1e7));
    set_place(at, "models", i, "delay_ms");
    BRAID_TRY(check_number(model->delay_ms, "delay_ms", 1e4));
    set_place(at, "models", i, "reserve_ms");
    BRAID_TRY(check_number(model->reserve_ms, "reserve_ms", 1e4));
  }
  return BRAID_OK;
}

static braid_status check_token(const braid_serve_config *config, unsigned index) {
  const braid_serve_tenant_config *tenant = &config->tenants[index];
  if (tenant->token && tenant->token_sha256)
    return braid_fail(BRAID_INVALID_FILE, "tenant %s has both token and token_sha256", tenant->name);
  if (tenant->token_sha256 &&
      (strlen(tenant->token_sha256) != 64 || strspn(tenant->token_sha256, "0123456789abcdef") != 64))
    return braid_fail(BRAID_INVALID_FILE, "tenant %s: token_sha256 has 64 lower-case hexadecimal digits", tenant->name);
  for (unsigned k = 0; k < index; k++) {
    const braid_serve_tenant_config *other = &config->tenants[k];
    bool both_open = !tenant->token && !tenant->token_sha256 && !other->token && !other->token_sha256;
    bool same = tenant->token && other->token && strcmp(tenant->token, other->token) == 0;
    same |= tenant->token_sha256 && other->token_sha256 && strcmp(tenant->token_sha256, other->token_sha256) == 0;
    if (both_open || same)
      return braid_fail(BRAID_INVALID_FILE, "tenants %s and %s have the same token, or both none", other->name,
                        tenant->name);
  }
  return BRAID_OK;
}

static bool has_public_card(const braid_serve_config *config) {
  for (unsigned i = 0; i < config->devices_count; i++)
    if (config->devices[i].cores && strcmp(config->devices[i].cores, "public") == 0) return true;
  return false;
}

static braid_status check_tenants(const braid_serve_config *config, place *at) {
  double shares = 0;
  for (unsigned i = 0; i < config->tenants_count; i++) {
    const braid_serve_tenant_config *tenant = &config->tenants[i];
    set_place(at, "tenants", i, "name");
    BRAID_TRY(check_name(tenant->name));
    for (unsigned k = 0; k < i; k++)
      if (strcmp(config->tenants[k].name, tenant->name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two tenants named %s", tenant->name);
    set_place(at, "tenants", i, "token");
    BRAID_TRY(check_token(config, i));
    set_place(at, "tenants", i, "priority");
    BRAID_TRY(check_range(tenant->priority, "priority", 9));
    set_place(at, "tenants", i, "max_requests");
    BRAID_TRY(check_positive(tenant->max_requests, "max_requests", 1 << 20));
    set_place(at, "tenants", i, "max_bytes");
    BRAID_TRY(check_positive(tenant->max_bytes, "max_bytes", INT64_C(1) << 40));
    set_place(at, "tenants", i, "rate");
    BRAID_TRY(check_number(tenant->rate, "rate", 1e9));
    set_place(at, "tenants", i, "share");
    BRAID_TRY(check_number(tenant->share, "share", 1));
    set_place(at, "tenants", i, "cores");
    BRAID_TRY(check_range(tenant->cores, "cores", BRAID_OVERLAY_MOST_CORES));
    if (tenant->cores && !has_public_card(config))
      return braid_fail(BRAID_INVALID_FILE, "cores is %lld, and no device has cores: public", (long long)tenant->cores);
    set_place(at, "tenants", i, "share");
    shares += tenant->share;
    if (shares > 1 + 1e-9) return braid_fail(BRAID_INVALID_FILE, "the shares of the tenants are %g together", shares);
  }
  return BRAID_OK;
}

static braid_status check_cluster(const braid_serve_config *config, place *at) {
  const braid_serve_cluster_config *cluster = config->cluster;
  if (!cluster) return BRAID_OK;
  set_place(at, NULL, 0, "cluster");
  BRAID_TRY(check_name(cluster->name));
  if (cluster->node) BRAID_TRY(check_name(cluster->node));
  BRAID_TRY(check_range(cluster->copies, "copies", 16));
  BRAID_TRY(check_range(cluster->fetch_max_bytes, "fetch_max_bytes", INT64_C(1) << 50));
  BRAID_TRY(check_number(cluster->wait_ms, "wait_ms", 1e6));
  if (strcmp(cluster->bulk, "auto") != 0 && strcmp(cluster->bulk, "ucx") != 0 && strcmp(cluster->bulk, "wire") != 0)
    return braid_fail(BRAID_INVALID_FILE, "bulk is %s, expected auto, ucx or wire", cluster->bulk);
  if (cluster->token && strlen(cluster->token) < 16)
    return braid_fail(BRAID_INVALID_FILE, "the cluster's token has %zu bytes, expected at least 16",
                      strlen(cluster->token));
  if (!cluster->certificate != !cluster->key || (cluster->certificate && !cluster->authority))
    return braid_fail(BRAID_INVALID_FILE, "TLS to etcd takes an authority, and both certificate and key or none");
  if (cluster->node_authority && !config->certificate)
    return braid_fail(
        BRAID_INVALID_FILE,
        "the cluster's node_authority is of nodes over TLS, which takes the daemon's certificate and key");
  return BRAID_OK;
}

static braid_status check_trace(const braid_serve_config *config, place *at) {
  const braid_serve_trace_config *trace = config->trace;
  if (!trace) return BRAID_OK;
  set_place(at, NULL, 0, "trace/endpoint");
  if (trace->endpoint && strncmp(trace->endpoint, "http://", 7) != 0 && strncmp(trace->endpoint, "https://", 8) != 0)
    return braid_fail(BRAID_INVALID_FILE, "endpoint is \"%.200s\", expected http://HOST:PORT/v1/traces or https://...",
                      trace->endpoint);
  set_place(at, NULL, 0, "trace/file_max_bytes");
  if (trace->file_max_bytes && (trace->file_max_bytes < kLeastTrace || trace->file_max_bytes > INT64_C(1) << 50))
    return braid_fail(BRAID_INVALID_FILE, "file_max_bytes is %lld, expected 0 (the default) or %lld to 2^50",
                      (long long)trace->file_max_bytes, (long long)kLeastTrace);
  set_place(at, NULL, 0, "trace/sample");
  if (trace->sample && !(*trace->sample >= 0 && *trace->sample <= 1))
    return braid_fail(BRAID_INVALID_FILE, "sample is %g, expected 0 to 1", *trace->sample);
  return BRAID_OK;
}

/* What the cap leaves has to be enough for each device to run at all, one run at a time. */
static braid_status check_power(const braid_serve_config *config, place *at) {
  double idle = 0, cap = config->power_cap_watts;
  set_place(at, NULL, 0, "training_watts");
  BRAID_TRY(check_number(config->training_watts, "training_watts", 1e6));
  set_place(at, NULL, 0, "power_cap_watts");
  BRAID_TRY(check_number(cap, "power_cap_watts", 1e7));
  if (cap == 0) return BRAID_OK;
  for (unsigned i = 0; i < config->devices_count; i++) idle += config->devices[i].idle_watts;
  if (idle + config->training_watts > cap)
    return braid_fail(BRAID_INVALID_FILE,
                      "power_cap_watts is %g, under which training beside could never compute: all devices idle take "
                      "%g, and training_watts is %g",
                      cap, idle, config->training_watts);
  for (unsigned i = 0; i < config->devices_count; i++) {
    const braid_serve_device_config *device = &config->devices[i];
    if (device->run_watts == 0)
      return braid_fail(BRAID_INVALID_FILE,
                        "power_cap_watts takes run_watts of every device, and its idle_watts; device %s has none "
                        "(braid profile measures them where there is a sensor)",
                        device->name);
    if (idle + device->run_watts > cap)
      return braid_fail(BRAID_INVALID_FILE,
                        "power_cap_watts is %g, under which device %s cannot run: all devices idle take %g, and a run "
                        "of it %g more",
                        cap, device->name, idle, device->run_watts);
  }
  return BRAID_OK;
}

static braid_status check_daemon(const braid_serve_config *config, place *at) {
  set_place(at, NULL, 0, "port");
  BRAID_TRY(check_range(config->port, "port", 65535));
  set_place(at, NULL, 0, "grpc_port");
  BRAID_TRY(check_range(config->grpc_port, "grpc_port", 65535));
  set_place(at, NULL, 0, "wire_port");
  BRAID_TRY(check_range(config->wire_port, "wire_port", 65535));
  set_place(at, NULL, 0, "spin_us");
  BRAID_TRY(check_range(config->spin_us, "spin_us", 1000));
  set_place(at, NULL, 0, "http_threads");
  BRAID_TRY(check_range(config->http_threads, "http_threads", 64));
  set_place(at, NULL, 0, "max_request_bytes");
  BRAID_TRY(check_range(config->max_request_bytes, "max_request_bytes", INT64_C(1) << 31));
  set_place(at, NULL, 0, "max_connections");
  BRAID_TRY(check_range(config->max_connections, "max_connections", 65536));
  set_place(at, NULL, 0, "max_memory_bytes");
  BRAID_TRY(check_range(config->max_memory_bytes, "max_memory_bytes", INT64_C(1) << 50));
  set_place(at, NULL, 0, "receive_ms");
  BRAID_TRY(check_number(config->receive_ms, "receive_ms", 1e7));
  set_place(at, NULL, 0, config->certificate ? "certificate" : "key");
  if (!config->certificate != !config->key) return braid_fail(BRAID_INVALID_FILE, "TLS takes both certificate and key");
  set_place(at, NULL, 0, "wire_authority");
  if (config->wire_authority && !config->certificate)
    return braid_fail(BRAID_INVALID_FILE, "wire_authority is of clients over TLS, which takes certificate and key");
  return BRAID_OK;
}

/* --- defaults ------------------------------------------------------------------------------------------------------
 */
static braid_status set_text(char **text, const char *value) {
  if (*text) return BRAID_OK;
  *text = strdup(value); /* libcyaml frees it by free */
  return *text ? BRAID_OK : braid_fail(BRAID_NO_MEMORY, "no memory for the configuration");
}

static void set_integer(int64_t *number, int64_t value) {
  if (!*number) *number = value;
}

static braid_status set_lists(braid_serve_config *config) {
  if (!config->devices_count) {
    free(config->devices);
    config->devices = calloc(1, sizeof *config->devices);
    if (!config->devices) return braid_fail(BRAID_NO_MEMORY, "no memory for the configuration");
    config->devices_count = 1;
    BRAID_TRY(set_text(&config->devices[0].name, "cpu"));
  }
  if (!config->tenants_count) { /* then whoever reaches the port may do everything */
    free(config->tenants);
    config->tenants = calloc(1, sizeof *config->tenants);
    if (!config->tenants) return braid_fail(BRAID_NO_MEMORY, "no memory for the configuration");
    config->tenants_count = 1;
    BRAID_TRY(set_text(&config->tenants[0].name, "anyone"));
    BRAID_TRY(set_text(&config->tenants[0].shared_memory, "/"));
    config->tenants[0].admin = config->tenants[0].train = config->tenants[0].any = true;
  }
  return BRAID_OK;
}

static braid_status set_cluster(braid_serve_cluster_config *cluster) {
  set_integer(&cluster->copies, 2);
  if (cluster->wait_ms == 0) cluster->wait_ms = 5000;
  BRAID_TRY(set_text(&cluster->bulk, "auto"));
  return set_text(&cluster->name, "default");
}

static braid_status set_defaults(braid_serve_config *config) {
  BRAID_TRY(set_lists(config));
  BRAID_TRY(set_text(&config->address, "127.0.0.1"));
  set_integer(&config->port, 8000);
  set_integer(&config->http_threads, 2);
  set_integer(&config->max_request_bytes, 64 << 20);
  set_integer(&config->max_connections, 1024);
  if (config->receive_ms == 0) config->receive_ms = 10000;
  if (config->cluster) BRAID_TRY(set_cluster(config->cluster));
  for (unsigned i = 0; i < config->devices_count; i++) {
    BRAID_TRY(set_text(&config->devices[i].device, "cpu"));
    set_integer(&config->devices[i].instances, 1);
  }
  for (unsigned i = 0; i < config->models_count; i++) {
    BRAID_TRY(set_text(&config->models[i].version, "1"));
    BRAID_TRY(set_text(&config->models[i].device, config->devices[0].name));
    BRAID_TRY(set_text(&config->models[i].batch_bits, "same"));
  }
  double shares = 0;
  unsigned without = 0;
  for (unsigned i = 0; i < config->tenants_count; i++) {
    braid_serve_tenant_config *tenant = &config->tenants[i];
    set_integer(&tenant->priority, 5);
    tenant->max_requests = tenant->given_requests ? *tenant->given_requests : 256;
    tenant->max_bytes = tenant->given_bytes ? *tenant->given_bytes : 256 << 20;
    BRAID_TRY(set_text(&tenant->models, "*"));
    shares += tenant->share;
    without += tenant->share == 0;
  }
  for (unsigned i = 0; i < config->tenants_count; i++)
    if (config->tenants[i].share == 0) config->tenants[i].share = shares < 1 ? (1 - shares) / without : 0;
  return BRAID_OK;
}

braid_status braid_serve_config_parse(const char *name, const void *text, size_t bytes, braid_serve_config **out) {
  void *document;
  place at = {""};
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kConfig, &document));
  braid_serve_config *config = document;
  braid_status status = set_defaults(config);
  if (status == BRAID_OK) status = check_daemon(config, &at);
  if (status == BRAID_OK) status = check_cluster(config, &at);
  if (status == BRAID_OK) status = check_trace(config, &at);
  if (status == BRAID_OK) status = check_devices(config, &at);
  if (status == BRAID_OK) status = check_power(config, &at);
  if (status == BRAID_OK) status = check_models(config, &at);
  if (status == BRAID_OK) status = check_tenants(config, &at);
  if (status == BRAID_OK) {
    *out = config;
    return BRAID_OK;
  }
  if (status == BRAID_INVALID_FILE)
    status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, at.path));
  braid_serve_config_free(config);
  return status;
}

braid_status braid_serve_config_add_cluster(braid_serve_config *config) {
  config->cluster = calloc(1, sizeof *config->cluster);
  if (!config->cluster) return braid_fail(BRAID_NO_MEMORY, "no memory for the configuration");
  return set_cluster(config->cluster);
}

braid_status braid_serve_config_check_cluster(const braid_serve_config *config) {
  place at;
  return check_cluster(config, &at);
}

void braid_serve_config_drop_cluster(braid_serve_config *config) {
  braid_serve_cluster_config *cluster = config->cluster;
  if (!cluster) return;
  char *texts[] = {cluster->etcd,      cluster->name,        cluster->node, cluster->address,        cluster->token,
                   cluster->authority, cluster->certificate, cluster->key,  cluster->node_authority, cluster->bulk};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]);
  free(cluster);
  config->cluster = NULL;
}

braid_status braid_serve_config_load(const char *path, braid_serve_config **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(NULL, path, BRAID_YAML_BYTES, &view));
  braid_status status = braid_serve_config_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

void braid_serve_config_free(braid_serve_config *config) {
  braid_yaml_free(&kConfig, config);
}
