#include "serve/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "serve/model.h"
#include "serve/tenant.h"

static const struct {
  braid_dtype dtype;
  const char *name;
} kTypes[] = {
    {BRAID_BOOL, "BOOL"}, {BRAID_U8, "UINT8"},  {BRAID_U16, "UINT16"}, {BRAID_U32, "UINT32"}, {BRAID_U64, "UINT64"},
    {BRAID_I8, "INT8"},   {BRAID_I16, "INT16"}, {BRAID_I32, "INT32"},  {BRAID_I64, "INT64"},  {BRAID_F16, "FP16"},
    {BRAID_F32, "FP32"},  {BRAID_F64, "FP64"},  {BRAID_BF16, "BF16"},
};

const char *braid_serve_dtype_name(braid_dtype dtype) {
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; i++)
    if (kTypes[i].dtype == dtype) return kTypes[i].name;
  return NULL;
}

bool braid_serve_dtype_find(const char *name, braid_dtype *out) {
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; i++) {
    if (strcmp(kTypes[i].name, name) != 0) continue;
    *out = kTypes[i].dtype;
    return true;
  }
  return false;
}

int braid_serve_http_status(braid_serve_verdict verdict) {
  static const int kStatus[] = {
      [BRAID_SERVE_DONE] = 200,        [BRAID_SERVE_INVALID] = 400,   [BRAID_SERVE_UNAUTHORIZED] = 401,
      [BRAID_SERVE_FORBIDDEN] = 403,   [BRAID_SERVE_UNKNOWN] = 404,   [BRAID_SERVE_TOO_LARGE] = 413,
      [BRAID_SERVE_OVER_QUOTA] = 429,  [BRAID_SERVE_CANCELLED] = 499, [BRAID_SERVE_FAILED] = 500,
      [BRAID_SERVE_UNAVAILABLE] = 503, [BRAID_SERVE_LATE] = 504,
  };
  return kStatus[verdict];
}

braid_serve_request *braid_serve_request_create(braid_serve_model *model, braid_serve_tenant *tenant) {
  braid_serve_request *request = braid_zalloc(NULL, sizeof *request);
  if (!request) return NULL;
  braid_serve_model_retain(model);
  request->model = model;
  request->tenant = tenant;
  return request;
}

void braid_serve_request_destroy(braid_serve_request *request) {
  if (!request) return;
  for (size_t i = 0; i < request->input_count; i++) braid_free(NULL, request->inputs[i].data);
  for (size_t i = 0; i < request->output_count; i++) braid_free(NULL, request->outputs[i].data);
  braid_free(NULL, request->trace);
  braid_serve_tenant_return(request->tenant, request->bytes);
  braid_serve_model_release(request->model);
  braid_free(NULL, request);
}

braid_serve_verdict braid_serve_refuse(braid_serve_request *request, braid_serve_verdict verdict, const char *format,
                                       ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(request->detail, sizeof request->detail, format, arguments);
  va_end(arguments);
  return request->verdict = verdict;
}

static void add_cores(const braid_serve_why *why, char *out, size_t bytes) {
  int used = snprintf(out, bytes, ", on %d of its %d cores beside %d other runs%s", why->cores, why->card_cores,
                      why->running - 1, why->overdue ? ", for having waited long" : "");
  if (used < 0 || (size_t)used >= bytes) return;
  if (why->alone)
    used += snprintf(out + used, bytes - (size_t)used, ", which are its tenant's alone");
  else
    used += snprintf(out + used, bytes - (size_t)used, ", by %.3g tokens", why->tokens);
  if ((size_t)used >= bytes) return;
  snprintf(out + used, bytes - (size_t)used,
           "; %u changes of cores; %.3f ms of the card and %.3f ms for programs to it, modelled; %.1f us to compile "
           "them, measured",
           why->switches, why->card_ms, why->transfer_ms, why->compile_us);
}

int braid_serve_request_priority(const braid_serve_request *request) {
  int priority = (int)request->tenant->config->priority;
  return request->priority > priority ? request->priority : priority;
}

void braid_serve_why_text(const braid_serve_why *why, int64_t waited_ns, char out[BRAID_SERVE_DETAIL]) {
  int used = snprintf(out, BRAID_SERVE_DETAIL, "%s of %zu waiting, rank %d%s, waited %.3f ms; ",
                      why->along ? "taken along with the first" : "first", why->waiting, why->rank,
                      why->over_share ? " (its tenant is over its share)" : "", (double)waited_ns * 1e-6);
  snprintf(out + used, BRAID_SERVE_DETAIL - (size_t)used,
           why->together > 1 ? "%zu requests of %lld rows run together on %s" : "%zu request of %lld rows runs on %s",
           why->together, (long long)why->rows, why->device);
  used = (int)strlen(out);
  if (why->card_cores && used < BRAID_SERVE_DETAIL - 1) add_cores(why, out + used, BRAID_SERVE_DETAIL - (size_t)used);
}

static size_t find_port(const braid_serve_port *ports, size_t count, const char *name) {
  size_t port = 0;
  while (port < count && strcmp(ports[port].name, name) != 0) port++;
  return port;
}

/* "[-1, 3, 224, 224]" */
static const char *format_dims(const int64_t *dims, int rank, char *text, size_t bytes) {
  size_t used = (size_t)snprintf(text, bytes, "[");
  for (int i = 0; i < rank && used + 24 < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? ", " : "", (long long)dims[i]);
  snprintf(text + used, bytes - used, "]");
  return text;
}

static bool fits(const braid_serve_port *port, int rank, const int64_t *dims) {
  bool same = rank == port->rank;
  for (int i = 0; same && i < rank; i++) same = dims[i] >= 0 && (port->dims[i] < 0 || port->dims[i] == dims[i]);
  return same;
}

braid_serve_verdict braid_serve_request_input(braid_serve_request *request, const char *name, braid_dtype dtype,
                                              int rank, const int64_t *dims, braid_serve_tensor **out) {
  const braid_serve_model *model = request->model;
  size_t port = find_port(model->inputs, model->input_count, name), bytes = braid_dtype_size(dtype);
  *out = NULL;
  if (port == model->input_count)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "model %s has no input \"%.100s\"; its first is \"%s\"",
                              model->config->name, name, port ? model->inputs[0].name : "");
  const braid_serve_port *expected = &model->inputs[port];
  for (size_t i = 0; i < request->input_count; i++)
    if (request->inputs[i].port == port)
      return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s comes twice", expected->name);
  if (dtype != expected->dtype && (!expected->other || dtype != expected->other))
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s is of type %s, not %s", expected->name,
                              braid_serve_dtype_name(expected->dtype), braid_serve_dtype_name(dtype));
  char allowed[200], given[200];
  if (!fits(expected, rank, dims))
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s has the shape %s, not %s", expected->name,
                              format_dims(expected->dims, expected->rank, allowed, sizeof allowed),
                              format_dims(dims, rank, given, sizeof given));
  for (int i = 0; i < rank; i++)
    if (!braid_mul_size(bytes, (size_t)dims[i], &bytes) || bytes > SIZE_MAX / 2)
      return braid_serve_refuse(request, BRAID_SERVE_TOO_LARGE, "input %s is too large", expected->name);
  braid_serve_verdict verdict = braid_serve_tenant_take(request->tenant, request, bytes);
  if (verdict != BRAID_SERVE_DONE) return verdict;
  braid_serve_tensor *tensor = &request->inputs[request->input_count];
  *tensor = (braid_serve_tensor){.port = port, .dtype = dtype, .rank = rank, .bytes = bytes};
  memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
  tensor->data = braid_alloc(NULL, bytes);
  if (!tensor->data)
    return braid_serve_refuse(request, BRAID_SERVE_FAILED, "no memory for input %s of %zu bytes", expected->name,
                              bytes);
  request->input_count++;
  *out = tensor;
  return BRAID_SERVE_DONE;
}

braid_serve_verdict braid_serve_request_output(braid_serve_request *request, const char *name, size_t *out_port) {
  const braid_serve_model *model = request->model;
  size_t port = find_port(model->outputs, model->output_count, name);
  *out_port = port;
  if (port == model->output_count)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "model %s has no output \"%.100s\"; its first is \"%s\"",
                              model->config->name, name, port ? model->outputs[0].name : "");
  request->wanted |= UINT64_C(1) << port;
  return BRAID_SERVE_DONE;
}
