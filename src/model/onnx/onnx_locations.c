/* Which files beside an ONNX file belong to it: those that its tensors name, wherever in the file the tensors are. */
#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "model/model.h"
#include "model/onnx/onnx_source.h"
#include "model/onnx/onnx_wire.h"

typedef struct locations_search {
  const braid_allocator *allocator;
  braid_name_map *known;
  braid_model_locations *out;
} locations_search;

static braid_status add_location(locations_search *search, const char *name) {
  int64_t index;
  braid_model_locations *out = search->out;
  if (braid_name_map_get(search->known, name, &index)) return BRAID_OK;
  if (out->count == BRAID_MODEL_MOST_LOCATIONS)
    return braid_fail(BRAID_INVALID_FILE, "external data in more than %d files", BRAID_MODEL_MOST_LOCATIONS);
  char **grown = braid_grow(search->allocator, out->names, out->count, &out->capacity, sizeof *grown);
  if (!grown) return BRAID_NO_MEMORY;
  out->names = grown;
  BRAID_TRY(braid_name_map_set(search->known, name, (int64_t)out->count));
  out->names[out->count] = braid_strdup(search->allocator, name);
  if (!out->names[out->count]) return BRAID_NO_MEMORY;
  out->count++;
  return BRAID_OK;
}

static braid_status search_tensor(locations_search *search, const Onnx__TensorProto *tensor) {
  if (!tensor->has_data_location || tensor->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return BRAID_OK;
  const char *location = NULL; /* the last one counts, as for who loads it */
  for (size_t i = 0; i < tensor->n_external_data; i++) {
    const char *key = tensor->external_data[i]->key, *value = tensor->external_data[i]->value;
    if (key && value && strcmp(key, "location") == 0) location = value;
  }
  if (!location) return BRAID_OK; /* who loads it says what is wrong */
  braid_text name;
  braid_text_init(&name, search->allocator);
  braid_status status = braid_onnx_normalize_location(location, &name);
  if (status == BRAID_OK) status = add_location(search, name.data);
  braid_text_deinit(&name);
  return status;
}

/* As deep as messages are nested, which unpacking has bounded (ONNX_MAX_DEPTH). */
static braid_status search_message(locations_search *search, const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  if (type == &onnx__tensor_proto__descriptor) return search_tensor(search, (const Onnx__TensorProto *)message);
  for (unsigned i = 0; i < type->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) continue;
    const char *member = (const char *)message + field->offset;
    size_t count = 1;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
      memcpy(&count, (const char *)message + field->quantifier_offset, sizeof count);
    const ProtobufCMessage *const *nested = (const void *)member;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) memcpy(&nested, member, sizeof nested);
    for (size_t k = 0; k < count; k++)
      if (nested[k]) BRAID_TRY(search_message(search, nested[k]));
  }
  return BRAID_OK;
}

braid_status braid_onnx_locations(const braid_allocator *allocator, const char *path, braid_model_locations *out) {
  locations_search search = {.allocator = allocator, .out = out};
  braid_onnx_source source;
  ProtobufCMessage *message = NULL;
  *out = (braid_model_locations){0};
  BRAID_TRY(braid_onnx_source_open(allocator, path, &source));
  braid_status status = braid_onnx_unpack(allocator, &onnx__model_proto__descriptor, source.file, &message);
  if (status == BRAID_OK) status = braid_name_map_create(allocator, &search.known);
  if (status == BRAID_OK) status = search_message(&search, message);
  if (status == BRAID_OK) status = braid_onnx_source_check(&source);
  braid_name_map_destroy(search.known);
  if (message) {
    ProtobufCAllocator own = braid_onnx_allocator(allocator);
    protobuf_c_message_free_unpacked(message, &own);
  }
  braid_onnx_source_close(&source);
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail_prefix(status, "%s", path);
}

void braid_model_locations_deinit(const braid_allocator *allocator, braid_model_locations *locations) {
  for (size_t i = 0; i < locations->count; i++) braid_free(allocator, locations->names[i]);
  braid_free(allocator, locations->names);
  *locations = (braid_model_locations){0};
}
