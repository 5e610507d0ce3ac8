#include "model/onnx/onnx_source.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"
#include "base/try.h"
#include "base/vector.h"
#include "graph/onnx_dtype.h"
#include "tensor/narrow.h"
#include "tensor/read.h"

enum { BRAID_ONNX_MAX_SPARSE_BYTES = 1 << 30 }; /* of the dense form: the file bounds the others, not this one */

braid_status braid_onnx_source_open(const braid_allocator *allocator, const char *path, braid_onnx_source *out) {
  *out = (braid_onnx_source){.allocator = allocator, .path = path};
  return braid_reader_open(allocator, path, BRAID_ONNX_MAX_FILE_BYTES, &out->file);
}

braid_status braid_onnx_source_wrap(const braid_allocator *allocator, const braid_model_memory *memory,
                                    braid_onnx_source *out) {
  *out = (braid_onnx_source){.allocator = allocator, .path = memory->name, .memory = memory};
  if (memory->bytes > BRAID_ONNX_MAX_FILE_BYTES)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s: larger than the %llu bytes allowed", memory->name,
                      BRAID_ONNX_MAX_FILE_BYTES);
  return braid_reader_wrap(allocator, memory->name, memory->data, memory->bytes, &out->file);
}

braid_status braid_onnx_source_check(const braid_onnx_source *source) {
  BRAID_TRY(braid_reader_check(source->file));
  return source->current ? braid_reader_check(source->current) : BRAID_OK; /* the others were, when they were parked */
}

void braid_onnx_source_close(braid_onnx_source *source) {
  braid_reader_close(source->file);
  for (size_t i = 0; i < source->external_count; i++) braid_reader_close(source->external[i]);
  braid_free(source->allocator, source->external);
  braid_name_map_destroy(source->external_names);
  *source = (braid_onnx_source){0};
}

/* --- external data ------------------------------------------------------------------------------------------------ */
/* Where a symbolic link inside leads is the business of whoever made it, as for the model itself. */
braid_status braid_onnx_normalize_location(const char *location, braid_text *path) {
  if (!*location || *location == '/')
    return braid_fail(BRAID_INVALID_FILE, "external data at \"%.200s\": expected a path relative to the model",
                      location);
  for (const char *part = location; *part;) {
    size_t length = strcspn(part, "/");
    if (length == 2 && memcmp(part, "..", 2) == 0) {
      if (path->length == 0)
        return braid_fail(BRAID_INVALID_FILE, "external data at \"%.200s\" leaves the model's folder", location);
      do path->length--;
      while (path->length > 0 && path->data[path->length - 1] != '/');
      if (path->length > 0) path->length--;
      path->data[path->length] = '\0';
    } else if (length && !(length == 1 && *part == '.')) {
      if (path->length > 0) braid_text_add(path, "/");
      braid_text_add_bytes(path, part, length);
      if (path->failed) return BRAID_NO_MEMORY;
    }
    part += length + (part[length] == '/');
  }
  if (!path->length)
    return braid_fail(BRAID_INVALID_FILE, "external data at \"%.200s\" is a folder, expected a file beside the model",
                      location);
  return BRAID_OK;
}

static braid_status open_in_memory(const braid_onnx_source *source, const char *location, braid_reader **out) {
  const braid_model_memory *memory = source->memory;
  const void *data = NULL;
  size_t bytes = 0;
  if (!memory->external)
    return braid_fail(BRAID_UNSUPPORTED,
                      "external data at \"%.200s\": a model in memory has no folder, give its data by a callback",
                      location);
  braid_clear_detail();
  braid_status status = memory->external(memory->context, location, &data, &bytes);
  if (status != BRAID_OK && !braid_error_detail()[0])
    return braid_fail(status, "external data at \"%.200s\": %s", location, braid_status_text(status));
  BRAID_TRY(status);
  if (!data && bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "external data at \"%.200s\": %zu bytes and no memory", location, bytes);
  if (bytes > BRAID_ONNX_MAX_FILE_BYTES)
    return braid_fail(BRAID_OUT_OF_RANGE, "external data at \"%.200s\": larger than the %llu bytes allowed", location,
                      BRAID_ONNX_MAX_FILE_BYTES);
  return braid_reader_wrap(source->allocator, location, data, bytes, out);
}

static braid_status open_beside(const braid_onnx_source *source, const char *model, const char *location,
                                braid_reader **out) {
  const char *slash = strrchr(model, '/');
  braid_text path;
  braid_text_init(&path, source->allocator);
  braid_text_add_bytes(&path, model, slash ? (size_t)(slash - model) + 1 : 0);
  braid_text_add(&path, location);
  braid_status status = path.failed ? BRAID_NO_MEMORY : BRAID_OK;
  if (status == BRAID_OK) status = braid_reader_open(source->allocator, path.data, BRAID_ONNX_MAX_FILE_BYTES, out);
  braid_text_deinit(&path);
  return status;
}

/* In the folder of the path that was given, or else in that of the file which this path links to. */
static braid_status open_location(const braid_onnx_source *source, const char *location, braid_reader **out) {
  char target[PATH_MAX];
  if (source->memory) return open_in_memory(source, location, out);
  braid_status status = open_beside(source, source->path, location, out);
  if (status == BRAID_NOT_FOUND && realpath(source->path, target)) status = open_beside(source, target, location, out);
  if (status != BRAID_NOT_FOUND) return status;
  return braid_fail(BRAID_NOT_FOUND, "external data at \"%.200s\": no such file beside the model", location);
}

/* `location` is normalized. */
static braid_status open_external(braid_onnx_source *source, const char *location, braid_reader **out) {
  int64_t index;
  if (!source->external_names) BRAID_TRY(braid_name_map_create(source->allocator, &source->external_names));
  bool known = braid_name_map_get(source->external_names, location, &index);
  if (source->current && !(known && source->current == source->external[index]))
    BRAID_TRY(braid_reader_park(source->current));
  if (!known) {
    braid_reader **grown = braid_grow(source->allocator, source->external, source->external_count,
                                      &source->external_capacity, sizeof *grown);
    if (!grown) return BRAID_NO_MEMORY;
    source->external = grown;
    index = (int64_t)source->external_count;
    BRAID_TRY(open_location(source, location, &source->external[index]));
    source->external_count++;
    BRAID_TRY(braid_name_map_set(source->external_names, location, index));
  }
  *out = source->current = source->external[index];
  return BRAID_OK;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */
static braid_status check_bytes(size_t bytes, const braid_desc *desc) {
  char shape[128];
  if (bytes == braid_packed_bytes(desc)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "holds %zu bytes, %s takes %zu", bytes,
                    braid_desc_format(desc, shape, sizeof shape), braid_packed_bytes(desc));
}

static braid_status from_raw(braid_onnx_source *source, const uint8_t *data, const braid_desc *desc,
                             braid_tensor **out) {
  BRAID_TRY(braid_tensor_create(source->allocator, desc, out));
  uint8_t *to = braid_tensor_data(*out);
  size_t bytes = braid_desc_bytes(desc);
  if (desc->dtype == BRAID_BOOL) /* 0 or 1, wherever C reads it */
    for (size_t i = 0; i < bytes; i++) to[i] = data[i] != 0;
  else if (braid_dtype_bits(desc->dtype) < 8)
    braid_narrow_unpack(desc->dtype, data, braid_desc_count(desc), to);
  else if (bytes)
    memcpy(to, data, bytes);
  return BRAID_OK;
}

static braid_status from_external(braid_onnx_source *source, const Onnx__TensorProto *proto, const braid_desc *desc,
                                  braid_tensor **out) {
  const char *location = NULL;
  int64_t offset = 0, length = -1;
  for (size_t i = 0; i < proto->n_external_data; i++) {
    const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
    if (!key || !value) continue;
    bool good = true;
    if (strcmp(key, "location") == 0)
      location = value;
    else if (strcmp(key, "offset") == 0)
      good = braid_parse_i64(value, &offset) && offset >= 0;
    else if (strcmp(key, "length") == 0)
      good = braid_parse_i64(value, &length) && length >= 0;
    if (!good)
      return braid_fail(BRAID_INVALID_FILE, "external data: %s is \"%.80s\", expected a number of bytes", key, value);
  }
  if (!location) return braid_fail(BRAID_INVALID_FILE, "external data without a location");
  braid_reader *file;
  braid_text name;
  braid_text_init(&name, source->allocator);
  braid_status status = braid_onnx_normalize_location(location, &name);
  if (status == BRAID_OK) status = open_external(source, name.data, &file);
  braid_text_deinit(&name);
  BRAID_TRY(status);
  size_t bytes = braid_reader_bytes(file);
  size_t left = (uint64_t)offset <= bytes ? bytes - (size_t)offset : 0;
  size_t take = length < 0 ? braid_packed_bytes(desc) : (size_t)length;
  if ((uint64_t)offset > bytes || take > left)
    return braid_fail(BRAID_INVALID_FILE, "external data: %zu bytes at offset %lld of \"%.200s\", which has %zu", take,
                      (long long)offset, location, bytes);
  BRAID_TRY(check_bytes(take, desc));
  return braid_tensor_read(source->allocator, file, (size_t)offset, desc, out);
}

static braid_status check_count(size_t given, int64_t expected, const char *member) {
  if ((uint64_t)expected == given) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s holds %zu values, the shape takes %lld", member, given,
                    (long long)expected);
}

/* Types that ONNX keeps in int32_data, each in its range; floats of 16 bits and less as their bits, and what is packed
 * as packed bytes. */
static braid_status from_int32(const Onnx__TensorProto *proto, braid_dtype dtype, int64_t count, void *to) {
  BRAID_TRY(check_count(proto->n_int32_data, count, "int32_data"));
  int64_t low = 0, high = UINT16_MAX;
  switch (dtype) {
  case BRAID_I32:
    low = INT32_MIN, high = INT32_MAX;
    break;
  case BRAID_I16:
    low = INT16_MIN, high = INT16_MAX;
    break;
  case BRAID_I8:
    low = INT8_MIN, high = INT8_MAX;
    break;
  case BRAID_U8:
    high = UINT8_MAX;
    break;
  case BRAID_BOOL:
    high = 1;
    break;
  default:
    if (braid_dtype_is_narrow(dtype)) high = UINT8_MAX;
    break;
  }
  for (int64_t i = 0; i < count; i++) {
    int32_t value = proto->int32_data[i];
    if (value < low || value > high)
      return braid_fail(BRAID_INVALID_FILE, "element %lld is %d, %s holds %lld to %lld", (long long)i, value,
                        braid_dtype_name(dtype), (long long)low, (long long)high);
    switch (braid_dtype_size(dtype)) {
    case 4:
      ((int32_t *)to)[i] = value;
      break;
    case 2:
      ((uint16_t *)to)[i] = (uint16_t)value;
      break;
    default:
      ((uint8_t *)to)[i] = (uint8_t)value;
      break;
    }
  }
  return BRAID_OK;
}

static braid_status from_uint64(const Onnx__TensorProto *proto, braid_dtype dtype, int64_t count, void *to) {
  BRAID_TRY(check_count(proto->n_uint64_data, count, "uint64_data"));
  for (int64_t i = 0; i < count; i++) {
    uint64_t value = proto->uint64_data[i];
    if (dtype == BRAID_U64) {
      ((uint64_t *)to)[i] = value;
      continue;
    }
    if (value > UINT32_MAX)
      return braid_fail(BRAID_INVALID_FILE, "element %lld is %llu, uint32 holds 0 to %u", (long long)i,
                        (unsigned long long)value, UINT32_MAX);
    ((uint32_t *)to)[i] = (uint32_t)value;
  }
  return BRAID_OK;
}

static braid_status copy_field(size_t given, const void *from, const char *member, const braid_desc *desc, void *to) {
  BRAID_TRY(check_count(given, braid_desc_count(desc), member));
  if (given) memcpy(to, from, braid_desc_bytes(desc));
  return BRAID_OK;
}

static size_t typed_count(const Onnx__TensorProto *proto, braid_dtype dtype) {
  switch (dtype) {
  case BRAID_F32:
    return proto->n_float_data;
  case BRAID_F64:
    return proto->n_double_data;
  case BRAID_I64:
    return proto->n_int64_data;
  case BRAID_U32:
  case BRAID_U64:
    return proto->n_uint64_data;
  default:
    return proto->n_int32_data;
  }
}

static braid_status from_typed(braid_onnx_source *source, const Onnx__TensorProto *proto, const braid_desc *desc,
                               braid_tensor **out) {
  bool packed = braid_dtype_bits(desc->dtype) < 8;
  int64_t count = packed ? (int64_t)braid_packed_bytes(desc) : braid_desc_count(desc);
  if ((uint64_t)count != typed_count(proto, desc->dtype)) /* before anything is allocated for it */
    return check_count(typed_count(proto, desc->dtype), count, "the field of its type");
  BRAID_TRY(braid_tensor_create(source->allocator, desc, out));
  uint8_t *to = braid_tensor_data(*out);
  braid_status status;
  if (packed) to += braid_desc_bytes(desc) - (size_t)count; /* unpacked in place */
  switch (desc->dtype) {
  case BRAID_F32:
    status = copy_field(proto->n_float_data, proto->float_data, "float_data", desc, to);
    break;
  case BRAID_F64:
    status = copy_field(proto->n_double_data, proto->double_data, "double_data", desc, to);
    break;
  case BRAID_I64:
    status = copy_field(proto->n_int64_data, proto->int64_data, "int64_data", desc, to);
    break;
  case BRAID_U32:
  case BRAID_U64:
    status = from_uint64(proto, desc->dtype, count, to);
    break;
  default:
    status = from_int32(proto, desc->dtype, count, to);
    break;
  }
  if (status == BRAID_OK && packed)
    braid_narrow_unpack(desc->dtype, to, braid_desc_count(desc), braid_tensor_data(*out));
  if (status != BRAID_OK) {
    braid_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

static braid_status tensor_desc(int32_t type, size_t rank, const int64_t *dims, braid_desc *desc) {
  braid_dtype dtype = braid_dtype_from_onnx(type);
  if (dtype == BRAID_NONE && strcmp(braid_onnx_dtype_name(type), "unknown") == 0)
    return braid_fail(BRAID_INVALID_FILE, "element type %d is none that ONNX defines", type);
  if (dtype == BRAID_NONE) return braid_fail(BRAID_UNSUPPORTED, "element type %s", braid_onnx_dtype_name(type));
  if (rank > BRAID_MAX_RANK)
    return braid_fail(BRAID_UNSUPPORTED, "%zu dimensions, at most %d are carried", rank, BRAID_MAX_RANK);
  braid_status status = braid_desc_init(desc, dtype, (int)rank, dims);
  return status == BRAID_OUT_OF_RANGE ? BRAID_INVALID_FILE : status;
}

static braid_status import_tensor(braid_onnx_source *source, const Onnx__TensorProto *proto, braid_tensor **out) {
  braid_desc desc;
  BRAID_TRY(tensor_desc(proto->data_type, proto->n_dims, proto->dims, &desc));
  if (proto->has_data_location && proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return from_external(source, proto, &desc, out);
  if (proto->segment) {
    BRAID_TRY(check_bytes((size_t)(proto->segment->end - proto->segment->begin), &desc));
    return braid_tensor_read(source->allocator, source->file, (size_t)proto->segment->begin, &desc, out);
  }
  if (proto->has_raw_data) {
    BRAID_TRY(check_bytes(proto->raw_data.len, &desc));
    return from_raw(source, proto->raw_data.data, &desc, out);
  }
  return from_typed(source, proto, &desc, out);
}

braid_status braid_onnx_tensor(braid_onnx_source *source, const Onnx__TensorProto *proto, braid_tensor **out) {
  *out = NULL;
  braid_status status = import_tensor(source, proto, out);
  if (status == BRAID_OK || status == BRAID_NO_MEMORY) return status;
  return braid_fail_prefix(status, "tensor \"%.120s\"", proto->name ? proto->name : "");
}

/* --- sparse tensors ----------------------------------------------------------------------------------------------- */
/* Indices are linear [NNZ] or coordinates [NNZ, rank]. */
static braid_status scatter(const braid_tensor *values, const braid_tensor *indices, braid_tensor *dense) {
  const braid_desc *desc = braid_tensor_desc(dense), *places = braid_tensor_desc(indices);
  int64_t count = braid_desc_count(braid_tensor_desc(values)), total = braid_desc_count(desc);
  bool linear = places->rank == 1;
  if (places->dtype != BRAID_I64 || (!linear && (places->rank != 2 || places->dims[1] != desc->rank)) ||
      (places->rank >= 1 && places->dims[0] != count))
    return braid_fail(BRAID_INVALID_FILE, "sparse tensor: indices do not fit its values and dimensions");
  size_t size = braid_dtype_size(desc->dtype);
  uint8_t *to = braid_tensor_data(dense);
  const uint8_t *from = braid_tensor_const_data(values);
  memset(to, 0, braid_desc_bytes(desc));
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    bool inside = true;
    if (linear) at = braid_tensor_get_i64(indices, i);
    for (int d = 0; !linear && d < desc->rank; d++) {
      int64_t index = braid_tensor_get_i64(indices, i * desc->rank + d);
      inside = inside && index >= 0 && index < desc->dims[d];
      at = inside ? at * desc->dims[d] + index : -1;
    }
    if (at < 0 || at >= total)
      return braid_fail(BRAID_INVALID_FILE, "sparse tensor: index of value %lld is out of bounds", (long long)i);
    memcpy(to + (size_t)at * size, from + (size_t)i * size, size);
  }
  return BRAID_OK;
}

braid_status braid_onnx_sparse_tensor(braid_onnx_source *source, const Onnx__SparseTensorProto *proto,
                                      braid_tensor **out) {
  *out = NULL;
  if (!proto->values || !proto->indices)
    return braid_fail(BRAID_INVALID_FILE, "sparse tensor without values or indices");
  braid_tensor *values = NULL, *indices = NULL, *dense = NULL;
  braid_desc desc;
  braid_status status = tensor_desc(proto->values->data_type, proto->n_dims, proto->dims, &desc);
  if (status == BRAID_OK) status = braid_onnx_tensor(source, proto->values, &values);
  if (status == BRAID_OK) status = braid_onnx_tensor(source, proto->indices, &indices);
  if (status == BRAID_OK && braid_desc_bytes(&desc) > BRAID_ONNX_MAX_SPARSE_BYTES)
    status = braid_fail(BRAID_UNSUPPORTED, "sparse tensor of more than %zu bytes when dense",
                        (size_t)BRAID_ONNX_MAX_SPARSE_BYTES);
  if (status == BRAID_OK) status = braid_tensor_create(source->allocator, &desc, &dense);
  if (status == BRAID_OK) status = scatter(values, indices, dense);
  braid_tensor_release(values);
  braid_tensor_release(indices);
  if (status == BRAID_OK)
    *out = dense;
  else
    braid_tensor_release(dense);
  return status;
}
