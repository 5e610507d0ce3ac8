/* Tensors as JSON's arrays of numbers. */
#include <inttypes.h>
#include <string.h>

#include "serve/http/call.h"

/* --- reading -------------------------------------------------------------------------------------------------------
 */
bool braid_http_read_data(braid_serve_request *request, const braid_serve_tensor *tensor,
                          const braid_json_arrays *arrays, const json_t *data) {
  const char *name = request->model->inputs[tensor->port].name;
  const json_t *place = json_array_get(data, 0);
  size_t index, at = (size_t)json_integer_value(place);
  if (tensor->dtype == BRAID_F16 || tensor->dtype == BRAID_BF16) {
    braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: %s has no JSON form; send it as binary data", name,
                       braid_serve_dtype_name(tensor->dtype));
    return false;
  }
  if (json_array_size(data) != 1 || !json_is_integer(place) || at >= arrays->count) {
    braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: data is an array of numbers", name);
    return false;
  }
  size_t count = tensor->bytes / braid_dtype_size(tensor->dtype);
  const char *wrong = braid_json_read_array(arrays->items[at].text, arrays->items[at].bytes, tensor->dtype,
                                            tensor->rank ? tensor->rank : 1, tensor->data, count, &index);
  if (wrong)
    braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s, element %zu of data (the shape has %zu): %s", name,
                       index, count, wrong);
  return !wrong;
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static bool write_number(braid_text *text, braid_dtype dtype, const uint8_t *at) {
  union {
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
  case BRAID_F64:
    return braid_json_add_double(text, value.wide);
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
  bool whole = true, floats = tensor->dtype == BRAID_F32;
  braid_text_add(text, "[");
  if (floats) whole = braid_json_add_floats(text, tensor->data, tensor->bytes / size);
  for (size_t at = 0; at < tensor->bytes && whole && !floats; at += size) {
    if (at) braid_text_add(text, ",");
    whole = write_number(text, tensor->dtype, (const uint8_t *)tensor->data + at);
  }
  braid_text_add(text, "]");
  return whole;
}
