#include <grpc/byte_buffer.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "health.pb-c.h"
#include "inference.pb-c.h"
#include "serve/grpc/call.h"
#include "serve/grpc/infer_write.h"

enum { UNPACKED_BYTES = 1 << 20 }; /* of memory for what a small message says */

#define INFERENCE(name) "/inference.GRPCInferenceService/" name
#define HEALTH(name) "/grpc.health.v1.Health/" name

static const braid_grpc_method kMethods[] = {
    {INFERENCE("ModelInfer"), BRAID_GRPC_INFERRED, false, NULL, NULL},
    {INFERENCE("ModelStreamInfer"), BRAID_GRPC_STREAM, false, NULL, NULL},
    {INFERENCE("ServerLive"), BRAID_GRPC_ANSWERED, true, braid_grpc_server_live, NULL},
    {INFERENCE("ServerReady"), BRAID_GRPC_ANSWERED, true, braid_grpc_server_ready, NULL},
    {INFERENCE("ServerMetadata"), BRAID_GRPC_ANSWERED, true, braid_grpc_server_metadata, NULL},
    {INFERENCE("ModelReady"), BRAID_GRPC_ANSWERED, false, braid_grpc_model_ready,
     &inference__model_name_request__descriptor},
    {INFERENCE("ModelMetadata"), BRAID_GRPC_ANSWERED, false, braid_grpc_model_metadata,
     &inference__model_name_request__descriptor},
    {INFERENCE("ModelConfig"), BRAID_GRPC_ANSWERED, false, braid_grpc_model_config,
     &inference__model_name_request__descriptor},
    {INFERENCE("ModelStatistics"), BRAID_GRPC_ANSWERED, false, braid_grpc_model_statistics,
     &inference__model_name_request__descriptor},
    {INFERENCE("RepositoryIndex"), BRAID_GRPC_ANSWERED, false, braid_grpc_repository_index,
     &inference__repository_index_request__descriptor},
    {INFERENCE("RepositoryModelLoad"), BRAID_GRPC_WORKED, false, braid_grpc_model_load,
     &inference__repository_model_request__descriptor},
    {INFERENCE("RepositoryModelUnload"), BRAID_GRPC_WORKED, false, braid_grpc_model_unload,
     &inference__repository_model_request__descriptor},
    {INFERENCE("SystemSharedMemoryStatus"), BRAID_GRPC_ANSWERED, false, braid_grpc_memory_status,
     &inference__region_name_request__descriptor},
    {INFERENCE("SystemSharedMemoryRegister"), BRAID_GRPC_ANSWERED, false, braid_grpc_memory_register,
     &inference__system_shared_memory_register_request__descriptor},
    {INFERENCE("SystemSharedMemoryUnregister"), BRAID_GRPC_ANSWERED, false, braid_grpc_memory_unregister,
     &inference__region_name_request__descriptor},
    {INFERENCE("CudaSharedMemoryStatus"), BRAID_GRPC_ANSWERED, false, braid_grpc_cuda_status,
     &inference__region_name_request__descriptor},
    {INFERENCE("CudaSharedMemoryRegister"), BRAID_GRPC_ANSWERED, false, braid_grpc_cuda_register, NULL},
    {INFERENCE("CudaSharedMemoryUnregister"), BRAID_GRPC_ANSWERED, false, braid_grpc_cuda_unregister,
     &inference__region_name_request__descriptor},
    {INFERENCE("TraceSetting"), BRAID_GRPC_ANSWERED, false, braid_grpc_no_settings, NULL},
    {INFERENCE("LogSettings"), BRAID_GRPC_ANSWERED, false, braid_grpc_no_settings, NULL},
    {HEALTH("Check"), BRAID_GRPC_ANSWERED, true, braid_grpc_health,
     &grpc__health__v1__health_check_request__descriptor},
    {HEALTH("Watch"), BRAID_GRPC_WATCHED, true, braid_grpc_health, &grpc__health__v1__health_check_request__descriptor},
};

const braid_grpc_method *braid_grpc_method_find(const char *path, size_t length) {
  for (size_t i = 0; i < sizeof kMethods / sizeof *kMethods; i++)
    if (strlen(kMethods[i].path) == length && !memcmp(kMethods[i].path, path, length)) return &kMethods[i];
  return NULL;
}

grpc_status_code braid_grpc_code(braid_serve_verdict verdict) {
  switch (verdict) {
  case BRAID_SERVE_DONE:
    return GRPC_STATUS_OK;
  case BRAID_SERVE_INVALID:
    return GRPC_STATUS_INVALID_ARGUMENT;
  case BRAID_SERVE_UNAUTHORIZED:
    return GRPC_STATUS_UNAUTHENTICATED;
  case BRAID_SERVE_FORBIDDEN:
    return GRPC_STATUS_PERMISSION_DENIED;
  case BRAID_SERVE_UNKNOWN:
    return GRPC_STATUS_NOT_FOUND;
  case BRAID_SERVE_TOO_LARGE:
  case BRAID_SERVE_OVER_QUOTA:
    return GRPC_STATUS_RESOURCE_EXHAUSTED;
  case BRAID_SERVE_CANCELLED:
    return GRPC_STATUS_CANCELLED;
  case BRAID_SERVE_FAILED:
    return GRPC_STATUS_INTERNAL;
  case BRAID_SERVE_UNAVAILABLE:
    return GRPC_STATUS_UNAVAILABLE;
  case BRAID_SERVE_LATE:
    return GRPC_STATUS_DEADLINE_EXCEEDED;
  }
  return GRPC_STATUS_INTERNAL;
}

void braid_grpc_refuse(braid_grpc_reply *reply, grpc_status_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reply->detail, sizeof reply->detail, format, arguments);
  va_end(arguments);
  reply->code = code;
}

/* --- asking ---------------------------------------------------------------------------------------------------------
 */
/* protobuf-c takes what it unpacks from the arena, up to a limit: a message of few bytes may ask for many. */
typedef struct unpack_room {
  braid_arena *arena;
  size_t left;
} unpack_room;

static void *unpack_allocate(void *context, size_t bytes) {
  unpack_room *room = context;
  if (bytes > room->left) return NULL;
  room->left -= bytes;
  return braid_arena_alloc(room->arena, bytes);
}

static void unpack_release(void *context, void *pointer) {
  (void)context;
  (void)pointer;
}

/* The message of a call as the method takes it. False: the reply says why. */
static bool unpack(const braid_grpc_method *method, grpc_byte_buffer *buffer, braid_grpc_asked *asked,
                   braid_grpc_reply *reply) {
  braid_grpc_message message;
  braid_serve_verdict verdict = braid_grpc_message_open(buffer, BRAID_GRPC_SMALL_BYTES, &message, reply->detail);
  reply->code = braid_grpc_code(verdict);
  if (verdict != BRAID_SERVE_DONE) return false;
  if (method->request) {
    unpack_room room = {asked->arena, UNPACKED_BYTES};
    ProtobufCAllocator own = {unpack_allocate, unpack_release, &room};
    size_t bytes = message.wire.left;
    uint8_t *copy = braid_arena_alloc(asked->arena, bytes + 1);
    if (copy && braid_wire_copy(&message.wire, copy, bytes))
      asked->message = protobuf_c_message_unpack(method->request, &own, bytes, copy);
    if (!asked->message)
      braid_grpc_refuse(reply, GRPC_STATUS_INVALID_ARGUMENT, "the message is not as the protocol has it");
  }
  braid_grpc_message_close(&message);
  return reply->code == GRPC_STATUS_OK;
}

static void watch_begin(braid_grpc_call *call, const Grpc__Health__V1__HealthCheckRequest *request) {
  size_t bytes = strlen(request->service) + 1;
  char *service = braid_alloc(NULL, bytes);
  if (!service) {
    braid_grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  memcpy(service, request->service, bytes);
  pthread_mutex_lock(&call->lock);
  call->watched_service = service;
  call->watched = -1;
  call->watching = true;
  pthread_mutex_unlock(&call->lock);
  braid_grpc_method_watch(call);
}

static void reply_send(braid_grpc_call *call, const braid_grpc_reply *reply) {
  if (reply->code == GRPC_STATUS_OK)
    braid_grpc_call_send(call,
                         reply->message ? braid_grpc_write(reply->message) : grpc_raw_byte_buffer_create(NULL, 0));
  braid_grpc_call_finish(call, reply->code, reply->detail);
}

void braid_grpc_method_ask(braid_grpc_call *call, grpc_byte_buffer *buffer) {
  const braid_grpc_method *method = call->method;
  braid_grpc_asked asked = {.server = call->grpc->server, .tenant = call->tenant};
  braid_grpc_reply reply = {.code = GRPC_STATUS_OK};
  if (braid_arena_create(NULL, &asked.arena) != BRAID_OK) {
    grpc_byte_buffer_destroy(buffer);
    braid_grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  bool good = unpack(method, buffer, &asked, &reply);
  if (good && method->kind == BRAID_GRPC_WATCHED) {
    watch_begin(call, asked.message);
  } else {
    if (good) method->answer(&asked, &reply);
    reply_send(call, &reply);
  }
  braid_arena_destroy(asked.arena);
}

/* --- health ---------------------------------------------------------------------------------------------------------
 */
static Grpc__Health__V1__HealthCheckResponse__ServingStatus health_status(struct braid_server *server,
                                                                          const char *service) {
  if (*service && strcmp(service, "inference.GRPCInferenceService") != 0)
    return GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
  return braid_server_is_ready(server) ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

void braid_grpc_health(const braid_grpc_asked *asked, braid_grpc_reply *reply) {
  const Grpc__Health__V1__HealthCheckRequest *request = asked->message;
  Grpc__Health__V1__HealthCheckResponse *response = braid_arena_alloc(asked->arena, sizeof *response);
  if (!response) {
    braid_grpc_refuse(reply, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  grpc__health__v1__health_check_response__init(response);
  response->status = health_status(asked->server, request->service);
  if (response->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN)
    braid_grpc_refuse(reply, GRPC_STATUS_NOT_FOUND, "there is no service \"%.100s\"", request->service);
  reply->message = response;
}

void braid_grpc_method_watch(braid_grpc_call *call) {
  Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
  response.status = health_status(call->grpc->server, call->watched_service);
  pthread_mutex_lock(&call->lock);
  bool changed = call->watched != (int)response.status;
  call->watched = (int)response.status;
  pthread_mutex_unlock(&call->lock);
  if (changed) braid_grpc_call_send(call, braid_grpc_write(&response));
}
