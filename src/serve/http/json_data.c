/* Tensors as JSON's arrays of numbers. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "serve/http/call.h"

/* --- reading -------------------------------------------------------------------------------------------------------
 */
typedef struct sink {
  braid_serve_request *request;
  const braid_serve_tensor *tensor;
  const char *name;
  size_t size, used;
} sink;

static bool refuse_number(const sink *s, const char *expected) {
  braid_serve_refuse(s->request, BRAID_SERVE_INVALID, "input %s, element %zu of data: %s is expected", s->name,
                     s->used / s->size, expected);
  return false;
}

static bool put_integer(const sink *s, void *to, const json_t *value) {
  static const struct {
    int64_t least, most;
  } kRange[BRAID_DTYPE_COUNT] = {
      [BRAID_I8] = {INT8_MIN, INT8_MAX},    [BRAID_I16] = {INT16_MIN, INT16_MAX}, [BRAID_I32] = {INT32_MIN, INT32_MAX},
      [BRAID_I64] = {INT64_MIN, INT64_MAX}, [BRAID_U8] = {0, UINT8_MAX},          [BRAID_U16] = {0, UINT16_MAX},
      [BRAID_U32] = {0, UINT32_MAX},        [BRAID_U64] = {0, INT64_MAX},
  };
  if (!json_is_integer(value)) return refuse_number(s, "a whole number");
  int64_t number = json_integer_value(value);
  if (number < kRange[s->tensor->dtype].least || number > kRange[s->tensor->dtype].most)
    return refuse_number(s, "a number in the range of the type");
  memcpy(to, &number, s->size); /* little-endian, as all that is served on */
  return true;
}

static bool put_number(sink *s, const json_t *value) {
  uint8_t *to = (uint8_t *)s->tensor->data + s->used;
  if (s->used >= s->tensor->bytes) {
    braid_serve_refuse(s->request, BRAID_SERVE_INVALID, "input %s: data has more than the %zu numbers of its shape",
                       s->name, s->tensor->bytes / s->size);
    return false;
  }
  double wide = json_number_value(value);
  float narrow = (float)wide;
  switch (s->tensor->dtype) {
  case BRAID_BOOL:
    if (!json_is_boolean(value) && !(json_is_integer(value) && (json_integer_value(value) & ~1) == 0))
      return refuse_number(s, "true or false");
    *to = json_is_true(value) || json_integer_value(value) == 1;
    break;
  case BRAID_F32:
    if (!json_is_number(value)) return refuse_number(s, "a number");
    memcpy(to, &narrow, sizeof narrow);
    break;
  case BRAID_F64:
    if (!json_is_number(value)) return refuse_number(s, "a number");
    memcpy(to, &wide, sizeof wide);
    break;
  default:
    if (!put_integer(s, to, value)) return false;
  }
  s->used += s->size;
  return true;
}

static bool put_values(sink *s, const json_t *data, int depth) {
  if (!json_is_array(data)) return put_number(s, data);
  if (depth > s->tensor->rank) {
    braid_serve_refuse(s->request, BRAID_SERVE_INVALID, "input %s: data is nested deeper than its shape", s->name);
    return false;
  }
  size_t index;
  json_t *item;
  json_array_foreach(data, index, item) if (!put_values(s, item, depth + 1)) return false;
  return true;
}

bool braid_http_read_data(braid_serve_request *request, const braid_serve_tensor *tensor, const json_t *data) {
  const char *name = request->model->inputs[tensor->port].name;
  sink s = {request, tensor, name, braid_dtype_size(tensor->dtype), 0};
  if (tensor->dtype == BRAID_F16 || tensor->dtype == BRAID_BF16) {
    braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: %s has no JSON form; send it as binary data", name,
                       braid_serve_dtype_name(tensor->dtype));
    return false;
  }
  if (!json_is_array(data)) {
    braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: data is an array of numbers", name);
    return false;
  }
  if (!put_values(&s, data, tensor->rank ? 1 : 0)) return false;
  if (s.used == tensor->bytes) return true;
  braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: data has %zu numbers; its shape has %zu", name,
                     s.used / s.size, tensor->bytes / s.size);
  return false;
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static bool write_number(braid_text *text, braid_dtype dtype, const uint8_t *at) {
  union {
    float narrow;
    double wide;
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
  } value;
  memcpy(&value, at, braid_dtype_size(dtype));
  switch (dtype) {
  case BRAID_F32:
    braid_text_printf(text, "%.9g", (double)value.narrow);
    return isfinite(value.narrow);
  case BRAID_F64:
    braid_text_printf(text, "%.17g", value.wide);
    return isfinite(value.wide);
  case BRAID_BOOL:
    braid_text_add(text, value.u8 ? "true" : "false");
    return true;
  case BRAID_U8:
    braid_text_printf(text, "%u", value.u8);
    return true;
  case BRAID_U16:
    braid_text_printf(text, "%u", value.u16);
    return true;
  case BRAID_U32:
    braid_text_printf(text, "%" PRIu32, value.u32);
    return true;
  case BRAID_U64:
    braid_text_printf(text, "%" PRIu64, value.u64);
    return true;
  case BRAID_I8:
    braid_text_printf(text, "%d", value.i8);
    return true;
  case BRAID_I16:
    braid_text_printf(text, "%d", value.i16);
    return true;
  case BRAID_I32:
    braid_text_printf(text, "%" PRId32, value.i32);
    return true;
  case BRAID_I64:
    braid_text_printf(text, "%" PRId64, value.i64);
    return true;
  default:
    return false;
  }
}

bool braid_http_write_data(braid_text *text, const braid_serve_tensor *tensor) {
  size_t size = braid_dtype_size(tensor->dtype);
  bool whole = true;
  braid_text_add(text, "[");
  for (size_t at = 0; at < tensor->bytes && whole; at += size) {
    if (at) braid_text_add(text, ",");
    whole = write_number(text, tensor->dtype, (const uint8_t *)tensor->data + at);
  }
  braid_text_add(text, "]");
  return whole;
}
