/* Methods of the model repository: which models there are, loading and unloading. */
#include <string.h>

#include "inference.pb-c.h"
#include "serve/grpc/call.h"

static const char *state_name(braid_serve_state state) {
  switch (state) {
  case BRAID_SERVE_LOADING:
    return "LOADING";
  case BRAID_SERVE_READY:
    return "READY";
  case BRAID_SERVE_UNLOADED:
  case BRAID_SERVE_BROKEN:
    break;
  }
  return "UNAVAILABLE";
}

static Inference__RepositoryIndexResponse__ModelIndex *make_index(const braid_grpc_asked *asked,
                                                                  const braid_serve_entry *entry) {
  Inference__RepositoryIndexResponse__ModelIndex *index = braid_arena_alloc(asked->arena, sizeof *index);
  char *reason = braid_arena_text(asked->arena, entry->reason, strlen(entry->reason));
  if (!index || !reason) return NULL;
  inference__repository_index_response__model_index__init(index);
  index->name = entry->config->name;
  index->version = entry->config->version ? entry->config->version : "1";
  index->state = (char *)state_name(entry->state);
  index->reason = entry->state == BRAID_SERVE_UNLOADED && !*reason ? "unloaded" : reason;
  return index;
}

void braid_grpc_repository_index(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RepositoryIndexRequest *request = asked->message;
  braid_serve_registry *registry = asked->server->registry;
  braid_serve_tenant *tenant = asked->tenant;
  size_t most = braid_serve_registry_count(registry);
  Inference__RepositoryIndexResponse *response = braid_arena_alloc(asked->arena, sizeof *response);
  Inference__RepositoryIndexResponse__ModelIndex **list = braid_arena_alloc(asked->arena, (most + 1) * sizeof *list);
  bool good = response && list;
  if (good) {
    inference__repository_index_response__init(response);
    response->models = list;
  }
  braid_serve_entry entry;
  for (size_t i = 0; good && i < most && braid_serve_registry_entry(registry, i, &entry); i++) {
    if (!braid_serve_tenant_may(tenant, entry.config->name)) continue;
    if (request->ready && entry.state != BRAID_SERVE_READY) continue;
    list[response->n_models] = make_index(asked, &entry);
    good = list[response->n_models++];
  }
  if (!good) braid_grpc_refuse(reply, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
  reply->message = response;
}

/* The name of the model to load or unload, where the tenant may; else NULL and a sentence. */
static const char *repository_model(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RepositoryModelRequest *request = asked->message;
  const char *name = *request->model_name ? request->model_name : request->repository_name;
  braid_serve_entry entry;
  braid_serve_tenant *tenant = asked->tenant;
  if (!tenant->config->admin) {
    braid_grpc_refuse(reply, GRPC_STATUS_PERMISSION_DENIED, "tenant %s may not load or unload models",
                      tenant->config->name);
    return NULL;
  }
  if (!braid_serve_registry_find(asked->server->registry, name, &entry)) {
    braid_grpc_refuse(reply, GRPC_STATUS_NOT_FOUND, "there is no model \"%.100s\" in the configuration", name);
    return NULL;
  }
  return name;
}

static void repository_answer(const braid_grpc_asked *asked, braid_grpc_reply *reply, const char *name,
                              braid_status status) {
  if (status != BRAID_OK) {
    grpc_status_code code = status == BRAID_NOT_FOUND ? GRPC_STATUS_NOT_FOUND
                            : status == BRAID_BUSY    ? GRPC_STATUS_UNAVAILABLE
                                                      : GRPC_STATUS_INTERNAL;
    braid_grpc_refuse(reply, code, "%s", *braid_error_detail() ? braid_error_detail() : braid_status_text(status));
    return;
  }
  Inference__RepositoryModelResponse *response = braid_arena_alloc(asked->arena, sizeof *response);
  if (!response) {
    braid_grpc_refuse(reply, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  inference__repository_model_response__init(response);
  response->model_name = (char *)name;
  response->is_done = true;
  reply->message = response;
}

void braid_grpc_model_load(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RepositoryModelRequest *request = asked->message;
  const char *name = repository_model(asked, reply);
  if (!name) return;
  if (request->n_parameters) {
    braid_grpc_refuse(reply, GRPC_STATUS_INVALID_ARGUMENT,
                      "parameter \"%.60s\": models are loaded as the daemon's configuration has them",
                      request->parameters[0]->key);
    return;
  }
  repository_answer(asked, reply, name, braid_serve_registry_load(asked->server->registry, name));
}

/* The one parameter that clients send, unload_dependents, is about ensembles, which there are none of. */
void braid_grpc_model_unload(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const char *name = repository_model(asked, reply);
  if (name) repository_answer(asked, reply, name, braid_serve_registry_unload(asked->server->registry, name));
}

/* Tracing and logging are of the daemon's command line and configuration. */
void braid_grpc_no_settings(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  (void)asked;
  braid_grpc_refuse(reply, GRPC_STATUS_UNIMPLEMENTED, "settings of traces and logs cannot be changed by clients");
}
