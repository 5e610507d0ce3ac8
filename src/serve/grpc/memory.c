/* Methods of shared memory. */
#include <string.h>

#include "inference.pb-c.h"
#include "serve/grpc/call.h"

typedef Inference__SystemSharedMemoryStatusResponse__RegionsEntry region_entry;
typedef Inference__SystemSharedMemoryStatusResponse__RegionStatus region_status;

static region_entry *make_region(braid_arena *arena, const braid_serve_region_info *info) {
  region_entry *entry = braid_arena_alloc(arena, sizeof *entry);
  region_status *status = braid_arena_alloc(arena, sizeof *status);
  char *name = braid_arena_text(arena, info->name, strlen(info->name));
  char *key = braid_arena_text(arena, info->key, strlen(info->key));
  if (!entry || !status || !name || !key) return NULL;
  inference__system_shared_memory_status_response__regions_entry__init(entry);
  inference__system_shared_memory_status_response__region_status__init(status);
  status->name = name;
  status->key = key;
  status->offset = info->offset;
  status->byte_size = info->bytes;
  entry->key = name;
  entry->value = status;
  return entry;
}

void braid_grpc_memory_status(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RegionNameRequest *request = asked->message;
  braid_serve_regions *regions = asked->server->regions;
  braid_serve_region_info info;
  braid_serve_tenant *tenant = asked->tenant;
  size_t most = 0, count = 0;
  while (braid_serve_region_get(regions, tenant, most, &info)) most++;
  Inference__SystemSharedMemoryStatusResponse *response = braid_arena_alloc(asked->arena, sizeof *response);
  region_entry **list = braid_arena_alloc(asked->arena, (most + 1) * sizeof *list);
  bool good = response && list;
  for (size_t i = 0; good && i < most && braid_serve_region_get(regions, tenant, i, &info); i++)
    if (!*request->name || !strcmp(request->name, info.name)) {
      list[count] = make_region(asked->arena, &info);
      good = list[count++];
    }
  if (!good) {
    braid_grpc_refuse(reply, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  inference__system_shared_memory_status_response__init(response);
  response->regions = list;
  response->n_regions = count;
  reply->message = response;
  if (*request->name && !count)
    braid_grpc_refuse(reply, GRPC_STATUS_NOT_FOUND, "there is no region \"%.100s\"", request->name);
}

void braid_grpc_memory_register(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__SystemSharedMemoryRegisterRequest *request = asked->message;
  braid_serve_region_info info = {.offset = request->offset, .bytes = request->byte_size};
  braid_serve_tenant *tenant = asked->tenant;
  if (strlen(request->name) >= sizeof info.name || strlen(request->key) >= sizeof info.key || !*request->name) {
    braid_grpc_refuse(reply, GRPC_STATUS_INVALID_ARGUMENT, "names and keys of regions have 1 to %zu bytes",
                      sizeof info.name - 1);
    return;
  }
  memcpy(info.name, request->name, strlen(request->name));
  memcpy(info.key, request->key, strlen(request->key));
  reply->code = braid_grpc_code(
      braid_serve_region_register(asked->server->regions, tenant, tenant->config->shared_memory, &info, reply->detail));
}

void braid_grpc_memory_unregister(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RegionNameRequest *request = asked->message;
  braid_serve_tenant *tenant = asked->tenant;
  reply->code = braid_grpc_code(braid_serve_region_unregister(asked->server->regions, tenant,
                                                              *request->name ? request->name : NULL, reply->detail));
}

/* There are no regions of CUDA's memory: to ask for all of them is no fault, to name one is. */
void braid_grpc_cuda_status(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Inference__RegionNameRequest *request = asked->message;
  if (*request->name)
    braid_grpc_refuse(reply, GRPC_STATUS_NOT_FOUND, "there is no region \"%.100s\" of CUDA's memory", request->name);
}

void braid_grpc_cuda_register(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  (void)asked;
  braid_grpc_refuse(reply, GRPC_STATUS_UNIMPLEMENTED,
                    "CUDA's memory cannot be shared with the daemon; system shared memory can");
}

void braid_grpc_cuda_unregister(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  braid_grpc_cuda_status(asked, reply);
}
