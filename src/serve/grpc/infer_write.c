#include "serve/grpc/infer_write.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <string.h>

#include "inference.pb-c.h"
#include "serve/model.h"

enum {
  RAW_FIELD = 6,       /* raw_output_contents of ModelInferResponse */
  RESPONSE_FIELD = 2,  /* infer_response of ModelStreamInferResponse */
  COPIED_BYTES = 1024, /* smaller tensors are copied into the head */
  FIELD_BYTES = 11,    /* a tag and a length, at most */
  PARAMETERS = 8       /* of a message or an output, at most */
};

typedef Inference__ModelInferResponse__InferOutputTensor output_message;

/* A request that slices refer to. */
typedef struct sent_request {
  int references; /* atomic */
  braid_serve_request *request;
} sent_request;

static void sent_release(void *context) {
  sent_request *sent = context;
  if (__atomic_sub_fetch(&sent->references, 1, __ATOMIC_ACQ_REL)) return;
  braid_serve_request_destroy(sent->request);
  braid_free(NULL, sent);
}

grpc_byte_buffer *braid_grpc_write(const void *message) {
  size_t bytes = protobuf_c_message_get_packed_size(message);
  grpc_slice slice = grpc_slice_malloc(bytes);
  protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

grpc_byte_buffer *braid_grpc_infer_write_error(const char *id, const char *detail) {
  Inference__ModelInferResponse response = INFERENCE__MODEL_INFER_RESPONSE__INIT;
  Inference__ModelStreamInferResponse message = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
  response.id = (char *)id;
  message.error_message = (char *)(*detail ? detail : "the request failed");
  message.infer_response = &response;
  return braid_grpc_write(&message);
}

/* --- which outputs --------------------------------------------------------------------------------------------------
 */
static size_t output_count(const braid_grpc_infer *infer, const braid_serve_request *request) {
  return infer->output_count ? infer->output_count : request->output_count;
}

/* In the order in which they were asked for. NULL: the scheduler gave none, which it must. */
static const braid_serve_tensor *output_tensor(const braid_grpc_infer *infer, const braid_serve_request *request,
                                               size_t index) {
  if (!infer->output_count) return &request->outputs[index];
  for (size_t i = 0; i < request->output_count; i++)
    if (request->outputs[i].port == infer->outputs[index].port) return &request->outputs[i];
  return NULL;
}

static const braid_grpc_memory *output_memory(const braid_grpc_infer *infer, size_t index) {
  return infer->output_count && infer->outputs[index].memory.given ? &infer->outputs[index].memory : NULL;
}

braid_serve_verdict braid_grpc_infer_share(const braid_grpc_infer *infer, braid_serve_regions *regions,
                                           braid_serve_request *request) {
  for (size_t i = 0; i < output_count(infer, request); i++) {
    const braid_serve_tensor *tensor = output_tensor(infer, request, i);
    const braid_grpc_memory *memory = output_memory(infer, i);
    if (!tensor) return braid_serve_refuse(request, BRAID_SERVE_FAILED, "output %s is missing", infer->outputs[i].name);
    if (!memory) continue;
    if (memory->bytes < tensor->bytes)
      return braid_serve_refuse(request, BRAID_SERVE_INVALID,
                                "output %s has %zu bytes, and a shared_memory_byte_size of %llu",
                                infer->outputs[i].name, tensor->bytes, (unsigned long long)memory->bytes);
    request->verdict = braid_serve_region_write(regions, request->tenant, memory->region, memory->offset, tensor->data,
                                                tensor->bytes, request->detail);
    if (request->verdict != BRAID_SERVE_DONE) break;
  }
  return request->verdict;
}

/* --- the head -------------------------------------------------------------------------------------------------------
 */
/* A list of parameters that grows. */
typedef struct parameter_list {
  braid_arena *arena;
  Inference__ParameterEntry *entries[PARAMETERS];
  size_t count;
  bool failed; /* out of memory */
} parameter_list;

static Inference__InferParameter *add_parameter(parameter_list *list, const char *key) {
  Inference__ParameterEntry *entry = braid_arena_alloc(list->arena, sizeof *entry);
  Inference__InferParameter *value = braid_arena_alloc(list->arena, sizeof *value);
  list->failed |= !entry || !value;
  if (list->failed) return NULL;
  inference__parameter_entry__init(entry);
  inference__infer_parameter__init(value);
  entry->key = (char *)key;
  entry->value = value;
  list->entries[list->count++] = entry;
  return value;
}

static void add_number(parameter_list *list, const char *key, int64_t number) {
  Inference__InferParameter *value = add_parameter(list, key);
  if (!value) return;
  value->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
  value->int64_param = number;
}

static void add_text(parameter_list *list, const char *key, const char *text) {
  Inference__InferParameter *value = add_parameter(list, key);
  if (!value) return;
  value->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
  value->string_param = (char *)text;
}

/* What the message has of the list; false: out of memory. */
static bool take_parameters(const parameter_list *list, Inference__ParameterEntry ***out, size_t *out_count) {
  *out = braid_arena_alloc(list->arena, sizeof list->entries);
  if (!*out || list->failed) return false;
  memcpy(*out, list->entries, sizeof list->entries);
  *out_count = list->count;
  return true;
}

static output_message *make_output(braid_arena *arena, const braid_serve_request *request,
                                   const braid_serve_tensor *tensor, const braid_grpc_memory *memory) {
  output_message *output = braid_arena_alloc(arena, sizeof *output);
  if (!output) return NULL;
  inference__model_infer_response__infer_output_tensor__init(output);
  output->name = (char *)request->model->outputs[tensor->port].name;
  output->datatype = (char *)braid_serve_dtype_name(tensor->dtype);
  output->n_shape = (size_t)tensor->rank;
  output->shape = (int64_t *)tensor->dims;
  if (!memory) return output;
  parameter_list list = {.arena = arena};
  add_text(&list, "shared_memory_region", memory->region);
  add_number(&list, "shared_memory_offset", (int64_t)memory->offset);
  add_number(&list, "shared_memory_byte_size", (int64_t)tensor->bytes);
  return take_parameters(&list, &output->parameters, &output->n_parameters) ? output : NULL;
}

static bool head_parameters(braid_arena *arena, const braid_grpc_infer *infer, const braid_serve_request *request,
                            bool streamed, Inference__ModelInferResponse *head) {
  parameter_list list = {.arena = arena};
  if (streamed) { /* each request has one answer, so this is its last */
    Inference__InferParameter *value = add_parameter(&list, "triton_final_response");
    if (!value) return false;
    value->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    value->bool_param = true;
  }
  if (infer->explain) {
    char *why = braid_arena_alloc(arena, BRAID_SERVE_DETAIL); /* until the message is packed */
    if (!why) return false;
    braid_serve_why_text(&request->why, request->started_ns - request->arrived_ns, why);
    add_text(&list, "decision", why);
    add_number(&list, "waited_us", (request->started_ns - request->arrived_ns) / 1000);
    add_number(&list, "ran_us", (request->ended_ns - request->started_ns) / 1000);
    add_number(&list, "predicted_us", request->predicted_ns / 1000);
    add_number(&list, "batch", request->batch);
  }
  return take_parameters(&list, &head->parameters, &head->n_parameters);
}

/* ModelInferResponse without its raw_output_contents. */
static Inference__ModelInferResponse *make_head(braid_arena *arena, const braid_grpc_infer *infer,
                                                const braid_serve_request *request, bool streamed) {
  size_t count = output_count(infer, request);
  Inference__ModelInferResponse *head = braid_arena_alloc(arena, sizeof *head);
  output_message **outputs = braid_arena_alloc(arena, (count + 1) * sizeof *outputs);
  if (!head || !outputs) return NULL;
  inference__model_infer_response__init(head);
  head->model_name = (char *)request->model->config->name;
  head->model_version = (char *)(request->model->config->version ? request->model->config->version : "1");
  head->id = (char *)infer->id;
  head->outputs = outputs;
  head->n_outputs = count;
  if (!head_parameters(arena, infer, request, streamed, head)) return NULL;
  for (size_t i = 0; i < count; i++) {
    outputs[i] = make_output(arena, request, output_tensor(infer, request, i), output_memory(infer, i));
    if (!outputs[i]) return NULL;
  }
  return head;
}

/* --- the message ----------------------------------------------------------------------------------------------------
 */
static size_t varint_bytes(uint64_t value) {
  size_t bytes = 1;
  while (value >>= 7) bytes++;
  return bytes;
}

/* A tag and the length of what follows; returns how many bytes. */
static size_t put_field(uint8_t *to, unsigned field, uint64_t length) {
  size_t bytes = 0;
  to[bytes++] = (uint8_t)(field << 3 | BRAID_WIRE_PART);
  for (; length >> 7; length >>= 7) to[bytes++] = (uint8_t)(length | 0x80);
  to[bytes++] = (uint8_t)length;
  return bytes;
}

/* Bytes that an output has in raw_output_contents: none where they are in shared memory, but its entry is there, since
 * clients count entries. */
static size_t raw_bytes(const braid_grpc_infer *infer, const braid_serve_request *request, size_t index) {
  return output_memory(infer, index) ? 0 : output_tensor(infer, request, index)->bytes;
}

/* The head with small tensors, and slices of large ones; returns how many. */
static size_t make_slices(const braid_grpc_infer *infer, sent_request *sent, const Inference__ModelInferResponse *head,
                          bool streamed, grpc_slice *slices) {
  const braid_serve_request *request = sent->request;
  uint8_t field[FIELD_BYTES];
  size_t count = 0, packed = inference__model_infer_response__get_packed_size(head), small = packed + FIELD_BYTES;
  uint64_t all = packed;
  for (size_t i = 0; i < head->n_outputs; i++) {
    size_t bytes = raw_bytes(infer, request, i);
    all += 1 + varint_bytes(bytes) + bytes;
    small += FIELD_BYTES + (bytes <= COPIED_BYTES ? bytes : 0);
  }
  grpc_slice room = grpc_slice_malloc(small);
  uint8_t *begin = GRPC_SLICE_START_PTR(room), *at = begin, *last = begin;
  if (streamed) at += put_field(at, RESPONSE_FIELD, all);
  at += inference__model_infer_response__pack(head, at);
  for (size_t i = 0; i < head->n_outputs; i++) {
    size_t bytes = raw_bytes(infer, request, i), length = put_field(field, RAW_FIELD, bytes);
    void *data = output_tensor(infer, request, i)->data;
    memcpy(at, field, length);
    at += length;
    if (bytes <= COPIED_BYTES) {
      if (bytes) memcpy(at, data, bytes);
      at += bytes;
      continue;
    }
    slices[count++] = grpc_slice_sub(room, (size_t)(last - begin), (size_t)(at - begin));
    last = at;
    __atomic_add_fetch(&sent->references, 1, __ATOMIC_RELAXED);
    slices[count++] = grpc_slice_new_with_user_data(data, bytes, sent_release, sent);
  }
  if (last < at) slices[count++] = grpc_slice_sub(room, (size_t)(last - begin), (size_t)(at - begin));
  grpc_slice_unref(room);
  return count;
}

grpc_byte_buffer *braid_grpc_infer_write(const braid_grpc_infer *infer, braid_serve_request *request, bool streamed) {
  grpc_byte_buffer *buffer = NULL;
  braid_arena *arena = NULL;
  grpc_slice slices[2 * BRAID_SERVE_PORTS + 1];
  sent_request *sent = braid_zalloc(NULL, sizeof *sent);
  if (!sent) {
    braid_serve_request_destroy(request);
    return NULL;
  }
  *sent = (sent_request){1, request};
  Inference__ModelInferResponse *head = NULL;
  if (braid_arena_create(NULL, &arena) == BRAID_OK) head = make_head(arena, infer, request, streamed);
  if (head) {
    size_t count = make_slices(infer, sent, head, streamed, slices);
    buffer = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++) grpc_slice_unref(slices[i]);
  }
  braid_arena_destroy(arena);
  sent_release(sent);
  return buffer;
}
