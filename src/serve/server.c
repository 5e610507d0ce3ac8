#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "serve/remote/remote.h"

static braid_status open_devices(braid_server *server) {
  const braid_serve_config *config = server->config;
  server->devices = braid_zalloc_array(NULL, config->devices_count, sizeof *server->devices);
  if (!server->devices) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < config->devices_count; i++) {
    BRAID_TRY(braid_serve_device_open(&config->devices[i], &server->devices[i]));
    server->device_count++;
  }
  return BRAID_OK;
}

/* Tenants' own cores of public cards. */
static braid_status give_cores(braid_server *server) {
  for (size_t d = 0; d < server->device_count; d++) {
    braid_serve_card *card = server->devices[d].card;
    for (size_t t = 0; card && !card->elastic && t < server->tenant_count; t++) {
      const braid_serve_tenant_config *tenant = server->tenants[t].config;
      if (!tenant->cores || braid_serve_card_hold(card, &server->tenants[t], (int)tenant->cores)) continue;
      int held = braid_serve_card_held(card, NULL);
      return braid_fail(BRAID_INVALID_ARGUMENT,
                        "tenant %s is to have %lld cores of %s, which has %d, for at most %d tenants; those before it "
                        "have %d",
                        tenant->name, (long long)tenant->cores, server->devices[d].config->name, card->cores,
                        card->runs, held);
    }
  }
  return BRAID_OK;
}

static int chosen_port(int given, int64_t configured) {
  return given < 0 ? 0 : given ? given : (int)configured;
}

/* Where the configuration has a certificate, wire_port has TLS as HTTP and gRPC have. */
static braid_status open_relay(braid_server *server) {
  const braid_serve_config *config = server->config;
  braid_tls_files files = {config->wire_authority, config->certificate, config->key};
  if (server->wire_port < 0 || !config->certificate) return BRAID_OK;
  return braid_tls_relay_create(&files, (int64_t)(config->receive_ms * 1e6), &server->relay);
}

static void prepare_trial(braid_serve_config *config) {
  free(config->state); /* libcyaml's */
  config->state = NULL;
  braid_serve_config_drop_cluster(config);
  for (unsigned i = 0; i < config->models_count; i++) config->models[i].lazy = false;
}

/* What the command line says of the cluster goes before the file. */
static braid_status set_cluster(const braid_server_options *options, braid_serve_config *config) {
  static const char kScheme[] = "etcd:";
  const char *etcd = options->cluster;
  if (etcd && strncmp(etcd, kScheme, sizeof kScheme - 1) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "cluster \"%.200s\": etcd:HOST:PORT[,HOST:PORT...] is expected", etcd);
  if (!config->cluster && (options->node || options->node_address) && !etcd)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a node's name and address go with a cluster, and there is none");
  if (!config->cluster && etcd) BRAID_TRY(braid_serve_config_add_cluster(config));
  if (!config->cluster) return BRAID_OK;
  const struct {
    const char *given;
    char **to;
  } kTexts[] = {{etcd ? etcd + sizeof kScheme - 1 : NULL, &config->cluster->etcd},
                {options->node, &config->cluster->node},
                {options->node_address, &config->cluster->address}};
  for (size_t i = 0; i < sizeof kTexts / sizeof *kTexts; i++) {
    if (!kTexts[i].given) continue;
    char *text = strdup(kTexts[i].given);
    if (!text) return BRAID_NO_MEMORY;
    free(*kTexts[i].to); /* libcyaml's */
    *kTexts[i].to = text;
  }
  return braid_serve_config_check_cluster(config);
}

static braid_status open_server(const braid_server_options *options, braid_server *server) {
  server->log = options->log;
  BRAID_TRY(braid_serve_config_load(options->config, &server->config));
  if (options->trial) prepare_trial(server->config);
  if (!options->trial) BRAID_TRY(set_cluster(options, server->config));
  server->ports[0] = chosen_port(options->port, server->config->port);
  server->ports[1] = chosen_port(options->grpc_port, server->config->grpc_port);
  server->socket = options->socket ? options->socket : server->config->socket;
  server->wire_port =
      options->wire_port || server->config->wire_port ? chosen_port(options->wire_port, server->config->wire_port) : -1;
  BRAID_TRY(open_relay(server));
  BRAID_TRY(open_devices(server));
  BRAID_TRY(braid_serve_tenants_create(server->config, &server->tenants, &server->tenant_count));
  BRAID_TRY(give_cores(server));
  BRAID_TRY(braid_serve_regions_create(&server->regions));
  BRAID_TRY(braid_serve_supply_create(server->config, server->devices, server->device_count, &server->supply));
  BRAID_TRY(braid_serve_harvest_create(server->supply, &server->harvest));
  for (size_t i = 0; i < server->device_count; i++) {
    server->devices[i].harvest = server->harvest;
    server->devices[i].index = i;
  }
  BRAID_TRY(braid_serve_scheduler_create(server->devices, server->device_count, server->supply, server->harvest,
                                         &server->scheduler));
  BRAID_TRY(braid_serve_tracer_create(server->config, server->log, &server->tracer));
  braid_serve_scheduler_set_tracer(server->scheduler, server->tracer);
  BRAID_TRY(braid_serve_registry_create(server->config, server->devices, &server->registry));
  if (options->trial) return BRAID_OK;
  if (server->config->cluster) BRAID_TRY(braid_serve_cluster_create(server, &server->cluster));
  BRAID_TRY(braid_serve_http_start(server, &server->http));
  if (options->grpc_port || server->config->grpc_port) BRAID_TRY(braid_serve_grpc_start(server, &server->grpc));
  if (server->socket || server->wire_port >= 0) {
    BRAID_TRY(braid_serve_remote_start(server, &server->remote));
    BRAID_TRY(braid_serve_wire_start(server, &server->wire));
  }
  if (server->config->cluster) BRAID_TRY(braid_serve_cluster_start(server->cluster));
  return BRAID_OK;
}

braid_status braid_server_create(const braid_server_options *options, braid_server **out) {
  *out = NULL;
  braid_server *server = braid_zalloc(NULL, sizeof *server);
  if (!server) return BRAID_NO_MEMORY;
  braid_status status = open_server(options, server);
  if (status == BRAID_OK)
    *out = server;
  else
    braid_server_destroy(server, 0);
  return status;
}

int braid_server_port(const braid_server *server) {
  return server->http ? braid_serve_http_port(server->http) : 0;
}

int braid_server_grpc_port(const braid_server *server) {
  return server->grpc ? braid_serve_grpc_port(server->grpc) : 0;
}

int braid_server_wire_port(const braid_server *server) {
  return server->wire ? braid_serve_wire_port(server->wire) : 0;
}

const char *braid_server_socket(const braid_server *server) {
  return server->wire ? braid_serve_wire_path(server->wire) : NULL;
}

void braid_server_models(braid_server *server, size_t *out_loading, size_t *out_ready, size_t *out_broken) {
  *out_loading = *out_ready = *out_broken = 0;
  braid_serve_entry entry;
  for (size_t i = 0; braid_serve_registry_entry(server->registry, i, &entry); i++) {
    *out_loading += entry.state == BRAID_SERVE_LOADING;
    *out_ready += entry.state == BRAID_SERVE_READY;
    *out_broken += entry.state == BRAID_SERVE_BROKEN;
  }
}

bool braid_server_model(braid_server *server, size_t index, const char **out_name, bool *out_loaded, char *out_note,
                        size_t note_bytes) {
  braid_serve_entry entry;
  if (!braid_serve_registry_entry(server->registry, index, &entry)) return false;
  *out_name = entry.config->name;
  *out_loaded = entry.state == BRAID_SERVE_READY;
  snprintf(out_note, note_bytes, "%s", *out_loaded || entry.state == BRAID_SERVE_BROKEN ? entry.reason : "");
  return true;
}

bool braid_server_is_ready(braid_server *server) {
  if (__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) return false;
  if (server->cluster && !braid_serve_cluster_is_settled(server->cluster)) return false;
  return braid_serve_registry_is_settled(server->registry);
}

void braid_server_destroy(braid_server *server, int64_t grace_ns) {
  if (!server) return;
  braid_serve_cluster_leave(server->cluster); /* first: others send nothing that would be refused */
  __atomic_store_n(&server->stopping, 1, __ATOMIC_RELEASE);
  int64_t until = braid_now_ns() + grace_ns;
  braid_serve_scheduler_end(server->scheduler, grace_ns);
  int64_t left = until - braid_now_ns();
  braid_serve_cluster_end(server->cluster, left > 0 ? left : 0); /* every request has its answer now */
  if (server->registry) braid_serve_registry_close(server->registry);
  braid_serve_grpc_stop(server->grpc);
  braid_serve_http_stop(server->http);
  braid_serve_wire_stop(server->wire);
  braid_serve_cluster_destroy(server->cluster);
  braid_serve_remote_stop(server->remote);
  braid_tls_relay_destroy(server->relay);           /* what the last two had to say goes out */
  braid_serve_scheduler_destroy(server->scheduler); /* calls that came late have asked it until now */
  braid_serve_registry_destroy(server->registry);   /* its thread may still try a model, in a turn of the harvest */
  braid_serve_tracer_destroy(server->tracer);       /* exports the last spans */
  braid_serve_harvest_destroy(server->harvest);
  braid_serve_supply_destroy(server->supply);
  braid_serve_regions_destroy(server->regions);
  braid_serve_tenants_destroy(server->tenants, server->tenant_count);
  for (size_t i = 0; i < server->device_count; i++) braid_serve_device_close(&server->devices[i]);
  braid_free(NULL, server->devices);
  braid_serve_config_free(server->config);
  braid_free(NULL, server);
}

braid_serve_verdict braid_serve_begin(braid_server *server, braid_serve_tenant *tenant, const char *model,
                                      const char *version, braid_serve_request **out, char *detail) {
  *out = NULL;
  if (!braid_serve_tenant_may(tenant, model)) {
    snprintf(detail, BRAID_SERVE_DETAIL, "tenant %s may not use model \"%.100s\"", tenant->config->name, model);
    return BRAID_SERVE_FORBIDDEN;
  }
  if (__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) {
    snprintf(detail, BRAID_SERVE_DETAIL, "the daemon stops");
    return BRAID_SERVE_UNAVAILABLE;
  }
  braid_serve_model *acquired;
  braid_status status = braid_serve_registry_acquire(server->registry, model, version, &acquired);
  if (status != BRAID_OK) {
    snprintf(detail, BRAID_SERVE_DETAIL, "%s", braid_error_detail());
    return status == BRAID_NOT_FOUND ? BRAID_SERVE_UNKNOWN : BRAID_SERVE_UNAVAILABLE;
  }
  *out = braid_serve_request_create(acquired, tenant);
  braid_serve_model_release(acquired);
  if (*out) return BRAID_SERVE_DONE;
  snprintf(detail, BRAID_SERVE_DETAIL, "no memory for a request");
  return BRAID_SERVE_FAILED;
}
