/* KServe v2's inference over HTTP, with Triton's extensions for binary tensors and system shared memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "serve/http/call.h"

/* --- reading -------------------------------------------------------------------------------------------------------
 */
/* A member of an object's "parameters"; NULL: it has none. */
static const json_t *parameter(const json_t *object, const char *name) {
  return json_object_get(json_object_get(object, "parameters"), name);
}

static bool invalid(braid_http_call *call, const char *what) {
  braid_http_refuse(call, BRAID_SERVE_INVALID, "%s", what);
  return false;
}

/* A whole number of at least 0 in the parameters; false: it is something else. */
static bool read_size(const json_t *object, const char *name, uint64_t otherwise, uint64_t *out) {
  const json_t *value = parameter(object, name);
  *out = otherwise;
  if (!value) return true;
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *out = (uint64_t)json_integer_value(value);
  return true;
}

static bool read_shape(braid_http_call *call, const json_t *input, const char *name, int64_t *dims, int *rank) {
  const json_t *shape = json_object_get(input, "shape");
  if (!json_is_array(shape) || json_array_size(shape) > BRAID_MAX_RANK) {
    braid_http_refuse(call, BRAID_SERVE_INVALID, "input %.100s: shape is an array of up to %d whole numbers", name,
                      BRAID_MAX_RANK);
    return false;
  }
  *rank = (int)json_array_size(shape);
  for (int i = 0; i < *rank; i++) {
    const json_t *dim = json_array_get(shape, (size_t)i);
    dims[i] = json_is_integer(dim) ? json_integer_value(dim) : -1;
    if (dims[i] < 0) {
      braid_http_refuse(call, BRAID_SERVE_INVALID, "input %.100s: shape has whole numbers of at least 0", name);
      return false;
    }
  }
  return true;
}

/* The body: arrays of numbers that were taken out of the JSON, and the bytes behind it, of which inputs take theirs one
 * after the other. */
typedef struct binary {
  const uint8_t *data;
  size_t bytes, used;
  braid_json_arrays arrays;
} binary;

static bool fill_input(braid_http_call *call, const json_t *input, braid_serve_tensor *tensor, binary *rest) {
  braid_serve_request *request = call->request;
  const char *name = request->model->inputs[tensor->port].name;
  const json_t *region = parameter(input, "shared_memory_region"), *data = json_object_get(input, "data");
  uint64_t offset, size;
  char detail[BRAID_SERVE_DETAIL];
  if (!read_size(input, "shared_memory_offset", 0, &offset) ||
      !read_size(input, region ? "shared_memory_byte_size" : "binary_data_size", UINT64_MAX, &size))
    return invalid(call, "sizes and offsets of an input's parameters are whole numbers of at least 0");
  if (!region && size == UINT64_MAX) {
    if (!data) {
      braid_http_refuse(call, BRAID_SERVE_INVALID,
                        "input %s has neither data nor binary_data_size nor shared_memory_region", name);
      return false;
    }
    if (braid_http_read_data(request, tensor, &rest->arrays, data)) return true;
    braid_http_refuse(call, request->verdict, "%s", request->detail);
    return false;
  }
  if (size != tensor->bytes) {
    braid_http_refuse(call, BRAID_SERVE_INVALID, "input %s: %llu bytes are sent; its shape has %zu", name,
                      size == UINT64_MAX ? 0 : (unsigned long long)size, tensor->bytes);
    return false;
  }
  if (region) {
    if (!json_is_string(region)) return invalid(call, "shared_memory_region is the name of a region");
    braid_serve_verdict verdict = braid_serve_region_read(
        call->server->regions, call->tenant, json_string_value(region), offset, tensor->data, tensor->bytes, detail);
    if (verdict != BRAID_SERVE_DONE) braid_http_refuse(call, verdict, "input %s: %s", name, detail);
    return verdict == BRAID_SERVE_DONE;
  }
  if (size > rest->bytes - rest->used) {
    braid_http_refuse(call, BRAID_SERVE_INVALID, "input %s: the body ends before its %zu bytes of binary data", name,
                      tensor->bytes);
    return false;
  }
  memcpy(tensor->data, rest->data + rest->used, tensor->bytes);
  rest->used += tensor->bytes;
  return true;
}

static bool check_bools(braid_http_call *call, const braid_serve_tensor *tensor) {
  const uint8_t *at = tensor->data;
  if (tensor->dtype != BRAID_BOOL) return true;
  for (size_t i = 0; i < tensor->bytes; i++)
    if (at[i] > 1) return invalid(call, "a byte of a BOOL is 0 or 1");
  return true;
}

static bool read_input(braid_http_call *call, const json_t *input, binary *rest) {
  const char *name = json_string_value(json_object_get(input, "name"));
  const char *type = json_string_value(json_object_get(input, "datatype"));
  int64_t dims[BRAID_MAX_RANK];
  int rank;
  braid_dtype dtype;
  braid_serve_tensor *tensor;
  if (!name || !type) return invalid(call, "an input has a name, a datatype and a shape");
  if (!braid_serve_dtype_find(type, &dtype)) {
    braid_http_refuse(call, BRAID_SERVE_INVALID,
                      "input %.100s: datatype %.40s is not known; BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, "
                      "FP64 and BF16 are",
                      name, type);
    return false;
  }
  if (!read_shape(call, input, name, dims, &rank)) return false;
  braid_serve_verdict verdict = braid_serve_request_input(call->request, name, dtype, rank, dims, &tensor);
  if (verdict != BRAID_SERVE_DONE) {
    braid_http_refuse(call, verdict, "%s", call->request->detail);
    return false;
  }
  return fill_input(call, input, tensor, rest) && check_bools(call, tensor);
}

static bool read_output(braid_http_call *call, const json_t *output) {
  const char *name = json_string_value(json_object_get(output, "name"));
  const json_t *region = parameter(output, "shared_memory_region"), *in_binary = parameter(output, "binary_data");
  uint64_t classes;
  if (!name) return invalid(call, "an output has a name");
  if (call->output_count == BRAID_SERVE_PORTS) return invalid(call, "an output is asked for twice");
  braid_http_output *wanted = &call->outputs[call->output_count];
  if (braid_serve_request_output(call->request, name, &wanted->port) != BRAID_SERVE_DONE) {
    braid_http_refuse(call, call->request->verdict, "%s", call->request->detail);
    return false;
  }
  for (size_t i = 0; i < call->output_count; i++)
    if (call->outputs[i].port == wanted->port) return invalid(call, "an output is asked for twice");
  if (!read_size(output, "classification", 0, &classes) || classes)
    return invalid(call, "classification is not offered: labels are not part of a model here");
  if (!read_size(output, "shared_memory_offset", 0, &wanted->offset) ||
      !read_size(output, "shared_memory_byte_size", 0, &wanted->bytes))
    return invalid(call, "sizes and offsets of an output's parameters are whole numbers of at least 0");
  if (region &&
      (!json_is_string(region) || json_string_length(region) >= sizeof wanted->region || !json_string_length(region)))
    return invalid(call, "shared_memory_region is the name of a region");
  snprintf(wanted->region, sizeof wanted->region, "%s", region ? json_string_value(region) : "");
  wanted->binary = in_binary ? json_is_true(in_binary) : call->binary_outputs;
  call->output_count++;
  return true;
}

static bool read_parameters(braid_http_call *call, const json_t *root) {
  uint64_t timeout_us, priority, sequence;
  const json_t *id = json_object_get(root, "id");
  if (id && (!json_is_string(id) || json_string_length(id) >= sizeof call->id))
    return invalid(call, "id is a text of up to 127 bytes");
  snprintf(call->id, sizeof call->id, "%s", id ? json_string_value(id) : "");
  if (!read_size(root, "timeout", 0, &timeout_us) || !read_size(root, "priority", 0, &priority) || priority > 9 ||
      timeout_us > (uint64_t)INT64_MAX / 2000)
    return invalid(call, "timeout is in microseconds, priority from 1 to 9 (0: as they are configured)");
  if (!read_size(root, "sequence_id", 0, &sequence) || sequence)
    return invalid(call, "sequences are not offered: models keep no state between requests");
  if (timeout_us) call->request->deadline_ns = call->began_ns + (int64_t)timeout_us * 1000;
  call->request->priority = (int)priority;
  call->binary_outputs = json_is_true(parameter(root, "binary_data_output"));
  call->explain = json_is_true(parameter(root, "explain"));
  return true;
}

static bool read_request(braid_http_call *call, const json_t *root, binary *rest) {
  const json_t *inputs = json_object_get(root, "inputs"), *outputs = json_object_get(root, "outputs"), *item;
  size_t index;
  if (!json_is_object(root) || !json_is_array(inputs))
    return invalid(call, "an object with an array \"inputs\" is expected");
  if (outputs && !json_is_array(outputs)) return invalid(call, "\"outputs\" is an array");
  if (!read_parameters(call, root)) return false;
  json_array_foreach(inputs, index, item) if (!read_input(call, item, rest)) return false;
  json_array_foreach(outputs, index, item) if (!read_output(call, item)) return false;
  if (rest->used == rest->bytes) return true;
  braid_http_refuse(call, BRAID_SERVE_INVALID, "%zu bytes of binary data belong to no input", rest->bytes - rest->used);
  return false;
}

/* The JSON's bytes of the body; false: the header that says so is wrong. */
static bool find_json(braid_http_call *call, size_t *out) {
  const char *text = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Inference-Header-Content-Length");
  int64_t bytes = (int64_t)call->bytes;
  if (text && (!braid_parse_i64(text, &bytes) || bytes < 0 || (uint64_t)bytes > call->bytes))
    return invalid(call, "Inference-Header-Content-Length is a number of bytes of the body");
  *out = (size_t)bytes;
  return true;
}

bool braid_http_read_request(braid_http_call *call, size_t json_bytes) {
  json_error_t error;
  braid_text skeleton;
  const uint8_t *body = call->body ? call->body : (const uint8_t *)"";
  binary rest = {.data = body + json_bytes, .bytes = call->bytes - json_bytes};
  braid_text_init(&skeleton, NULL);
  if (!braid_json_take_arrays((const char *)body, json_bytes, &skeleton, &rest.arrays)) {
    braid_text_deinit(&skeleton);
    braid_http_refuse(
        call, BRAID_SERVE_INVALID,
        "a key of the body has an escape, it has more than %d arrays of data, or there is no memory for it",
        BRAID_JSON_ARRAYS);
    return false;
  }
  if (skeleton.length > BRAID_JSON_MOST) {
    braid_text_deinit(&skeleton);
    braid_http_refuse(call, BRAID_SERVE_TOO_LARGE, "the JSON without arrays of data has more than %d bytes",
                      BRAID_JSON_MOST);
    return false;
  }
  json_t *root = json_loadb(skeleton.data, skeleton.length, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    braid_http_refuse(call, BRAID_SERVE_INVALID,
                      "the body is not JSON: line %d, column %d (without arrays of data): %s", error.line, error.column,
                      error.text);
  bool read = root && read_request(call, root, &rest);
  json_decref(root);
  braid_text_deinit(&skeleton);
  return read;
}

/* Undoes the body's Content-Encoding. */
static bool decode_body(braid_http_call *call) {
  const char *encoding = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Content-Encoding");
  if (!encoding || strcmp(encoding, "identity") == 0) return true;
  if (strcmp(encoding, "gzip") == 0 || strcmp(encoding, "deflate") == 0) return braid_http_inflate(call);
  return invalid(call, "the Content-Encoding is gzip, deflate or identity");
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static void on_done(braid_serve_request *request) {
  braid_http_call *call = request->context;
  MHD_resume_connection(call->connection);
}

static bool is_gone(braid_serve_request *request) {
  const braid_http_call *call = request->context;
  char byte;
  ssize_t count = recv(call->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Trace context (W3C) of the header. Two traceparents are none; several tracestates are one list. */
typedef struct trace_reader {
  braid_trace_headers headers;
  size_t parents;
  braid_text state;
} trace_reader;

static enum MHD_Result read_trace_header(void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
  trace_reader *reader = context;
  (void)kind;
  if (!value || (key[0] | 0x20) != 't') return MHD_YES;
  if (strcasecmp(key, "traceparent") == 0) {
    reader->headers.parent = reader->parents++ ? NULL : value;
    reader->headers.parent_bytes = strlen(value);
  } else if (strcasecmp(key, "tracestate") == 0) {
    braid_text_printf(&reader->state, "%s%s", reader->state.length ? "," : "", value);
  }
  return MHD_YES;
}

static braid_serve_trace *begin_trace(braid_http_call *call) {
  trace_reader reader = {0};
  braid_text_init(&reader.state, NULL);
  MHD_get_connection_values(call->connection, MHD_HEADER_KIND, read_trace_header, &reader);
  reader.headers.state = reader.state.data;
  reader.headers.state_bytes = reader.state.length;
  braid_serve_trace *trace =
      braid_serve_trace_begin(call->server->tracer, BRAID_TRACE_HTTP, &reader.headers, call->began_ns);
  braid_text_deinit(&reader.state);
  return trace;
}

/* Makes the call's request of the body; false: refused. */
static bool make_request(braid_http_call *call, const char *model, const char *version) {
  char detail[BRAID_SERVE_DETAIL];
  size_t json_bytes;
  braid_serve_verdict verdict = braid_serve_begin(call->server, call->tenant, model, version, &call->request, detail);
  if (verdict == BRAID_SERVE_DONE)
    return decode_body(call) && find_json(call, &json_bytes) && braid_http_read_request(call, json_bytes);
  braid_http_refuse(call, verdict, "%s", detail);
  return false;
}

bool braid_http_infer(braid_http_call *call, const char *model, const char *version) {
  braid_serve_trace *trace = begin_trace(call);
  if (!make_request(call, model, version)) {
    braid_serve_trace_refuse(call->server->tracer, trace, model, call->tenant->config->name, call->status,
                             call->detail);
    braid_free(NULL, trace);
    return false;
  }
  call->request->trace = trace;
  call->request->context = call;
  call->request->done = on_done;
  call->request->is_gone = is_gone;
  call->waiting = true;
  MHD_suspend_connection(call->connection);
  braid_serve_submit(call->server->scheduler, call->request);
  return true;
}

/* --- the answer ----------------------------------------------------------------------------------------------------
 */
static braid_http_output wanted_output(const braid_http_call *call, size_t port) {
  for (size_t i = 0; i < call->output_count; i++)
    if (call->outputs[i].port == port) return call->outputs[i];
  return (braid_http_output){.port = port, .binary = call->binary_outputs};
}

static bool write_to_region(braid_http_call *call, const braid_serve_tensor *tensor, const braid_http_output *wanted) {
  char detail[BRAID_SERVE_DETAIL];
  const char *name = call->request->model->outputs[tensor->port].name;
  braid_serve_verdict verdict = BRAID_SERVE_INVALID;
  if (tensor->bytes > wanted->bytes)
    snprintf(detail, sizeof detail, "it has %zu bytes; shared_memory_byte_size is %llu", tensor->bytes,
             (unsigned long long)wanted->bytes);
  else
    verdict = braid_serve_region_write(call->server->regions, call->tenant, wanted->region, wanted->offset,
                                       tensor->data, tensor->bytes, detail);
  if (verdict != BRAID_SERVE_DONE) braid_http_refuse(call, verdict, "output %s: %s", name, detail);
  return verdict == BRAID_SERVE_DONE;
}

static bool write_output(braid_http_call *call, const braid_serve_tensor *tensor) {
  const char *name = call->request->model->outputs[tensor->port].name;
  braid_http_output wanted = wanted_output(call, tensor->port);
  braid_text *text = &call->text;
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, name);
  braid_text_printf(text, ",\"datatype\":\"%s\",\"shape\":[", braid_serve_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) braid_text_printf(text, "%s%lld", i ? "," : "", (long long)tensor->dims[i]);
  braid_text_add(text, "]");
  if (wanted.region[0]) {
    braid_text_add(text, ",\"parameters\":{\"shared_memory_region\":");
    braid_text_add_json(text, wanted.region);
    braid_text_printf(text, ",\"shared_memory_offset\":%llu,\"shared_memory_byte_size\":%zu}}",
                      (unsigned long long)wanted.offset, tensor->bytes);
    return write_to_region(call, tensor, &wanted);
  }
  if (wanted.binary) {
    braid_text_printf(text, ",\"parameters\":{\"binary_data_size\":%zu}}", tensor->bytes);
    return true;
  }
  braid_text_add(text, ",\"data\":");
  bool whole = braid_http_write_data(text, tensor);
  braid_text_add(text, "}");
  if (!whole)
    braid_http_refuse(call, BRAID_SERVE_INVALID,
                      "output %s has NaN, infinity or %s, which JSON has not: ask for binary data", name,
                      "16-bit numbers");
  return whole;
}

static void write_explanation(braid_http_call *call) {
  const braid_serve_request *request = call->request;
  char why[BRAID_SERVE_DETAIL];
  braid_serve_why_text(&request->why, request->started_ns - request->arrived_ns, why);
  braid_text_add(&call->text, ",\"parameters\":{\"decision\":");
  braid_text_add_json(&call->text, why);
  braid_text_printf(&call->text, ",\"waited_us\":%lld,\"ran_us\":%lld,\"predicted_us\":%lld,\"batch\":%lld}",
                    (long long)(request->started_ns - request->arrived_ns) / 1000,
                    (long long)(request->ended_ns - request->started_ns) / 1000,
                    (long long)request->predicted_ns / 1000, (long long)request->batch);
}

void braid_http_answer_inference(braid_http_call *call) {
  const braid_serve_request *request = call->request;
  if (request->verdict != BRAID_SERVE_DONE) {
    braid_http_refuse(call, request->verdict, "%s", request->detail);
    return;
  }
  braid_text *text = &call->text;
  braid_text_add(text, "{\"model_name\":");
  braid_text_add_json(text, request->model->config->name);
  braid_text_add(text, ",\"model_version\":");
  braid_text_add_json(text, request->model->config->version);
  if (call->id[0]) {
    braid_text_add(text, ",\"id\":");
    braid_text_add_json(text, call->id);
  }
  if (call->explain) write_explanation(call);
  braid_text_add(text, ",\"outputs\":[");
  bool in_binary = false;
  for (size_t i = 0; i < request->output_count; i++) {
    if (i) braid_text_add(text, ",");
    if (!write_output(call, &request->outputs[i])) return;
    braid_http_output wanted = wanted_output(call, request->outputs[i].port);
    in_binary |= wanted.binary && !wanted.region[0];
  }
  braid_text_add(text, "]}");
  call->status = 200;
  if (!in_binary) return;
  call->header_bytes = text->length;
  call->content_type = "application/octet-stream";
  for (size_t i = 0; i < request->output_count; i++) {
    braid_http_output wanted = wanted_output(call, request->outputs[i].port);
    if (wanted.binary && !wanted.region[0])
      braid_text_add_bytes(text, request->outputs[i].data, request->outputs[i].bytes);
  }
}
