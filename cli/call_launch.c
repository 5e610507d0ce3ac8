/* braid call: a launch, once or many times, with what goes in and comes out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "statistics.h"

enum { SHOWN = 8, WARM_UP = 10, ALIGNED = 64 };

typedef cli_call_state launch;

bool cli_call_writes_output(const call_options *o) {
  for (size_t i = 0; i < o->outputs.count; i++)
    if (strcmp(o->outputs.values[i], "-") == 0) return true;
  return false;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
#define DTYPES(X) X(BOOL) X(U8) X(U16) X(U32) X(U64) X(I8) X(I16) X(I32) X(I64) X(F16) X(F32) X(F64) X(BF16)

static braid_client_dtype client_dtype(braid_dtype dtype) {
  switch (dtype) {
#define TO_CLIENT(id)                                                                                                  \
  case BRAID_##id:                                                                                                     \
    return BRAID_CLIENT_##id;
    DTYPES(TO_CLIENT)
#undef TO_CLIENT
  default:
    return (braid_client_dtype)0;
  }
}

static braid_dtype tensor_dtype(braid_client_dtype dtype) {
  switch (dtype) {
#define TO_TENSOR(id)                                                                                                  \
  case BRAID_CLIENT_##id:                                                                                              \
    return BRAID_##id;
    DTYPES(TO_TENSOR)
#undef TO_TENSOR
  }
  return BRAID_NONE;
}

/* --- inputs --------------------------------------------------------------------------------------------------------
 */
static const braid_client_port *find_port(const braid_client_port *ports, size_t count, const char *name) {
  if (!name && count == 1) return ports;
  for (size_t i = 0; name && i < count; i++)
    if (strcmp(ports[i].name, name) == 0) return &ports[i];
  return NULL;
}

/* The array's shape, with leading dimensions of 1 that it leaves out. */
static void set_shape(braid_client_tensor *input, const braid_desc *desc, const braid_client_port *port) {
  int more = port->rank > desc->rank ? port->rank - desc->rank : 0;
  input->rank = desc->rank + more;
  for (int i = 0; i < input->rank; i++) input->dims[i] = i < more ? 1 : desc->dims[i - more];
}

braid_status cli_call_read_input(launch *l, const char *name, const char *path) {
  size_t at = l->options.input_count;
  const braid_client_port *port = find_port(l->model->inputs, l->model->input_count, name);
  if (!port && name) return braid_fail(BRAID_NOT_FOUND, "--input: the model has no input named \"%s\"", name);
  if (!port)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--input %s: the model has %zu inputs, say which: NAME=%s", path,
                      l->model->input_count, path);
  braid_status status = braid_npy_load(NULL, path, &l->arrays[at]);
  if (status != BRAID_OK) return status;
  const braid_desc *desc = braid_tensor_desc(l->arrays[at]);
  braid_client_tensor *input = &l->inputs[l->options.input_count++];
  *input = (braid_client_tensor){.name = port->name,
                                 .dtype = client_dtype(desc->dtype),
                                 .data = braid_tensor_const_data(l->arrays[at]),
                                 .bytes = braid_desc_bytes(desc)};
  set_shape(input, desc, port);
  return BRAID_OK;
}

static braid_status read_file(const char *path, void **out, size_t *out_bytes) {
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  size_t used = 0, room = 1 << 16;
  if (!file) return braid_fail(BRAID_NOT_FOUND, "%s cannot be opened", path);
  for (;;) {
    char *grown = realloc(data, room);
    if (!grown) break;
    data = grown;
    size_t count = fread(data + used, 1, room - used, file);
    used += count;
    if (used < room) break;
    room *= 2;
  }
  bool whole = data && feof(file) && !ferror(file);
  fclose(file);
  *out = data;
  *out_bytes = used;
  return whole ? BRAID_OK : braid_fail(BRAID_IO, "%s cannot be read", path);
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* A model that is not loaded is loaded by a request for it, which has no inputs here and is refused; then it is waited
 * for, as long as an answer is. */
static braid_status wake_model(const call_options *o, launch *l) {
  double until = now_ms() + (double)o->timeout_ms;
  braid_client_call *call;
  braid_client_launch_options nothing = {.model = o->model};
  if (braid_client_launch(l->client, &nothing, &call) == BRAID_CLIENT_OK) braid_client_release(call);
  char refusal[512];
  snprintf(refusal, sizeof refusal, "%s", braid_client_error());
  for (;;) {
    size_t count;
    free(l->model);
    l->model = NULL;
    braid_status status = cli_call_status(braid_client_models(l->client, o->model, &l->model, &count));
    if (status != BRAID_OK || l->model->state == BRAID_CLIENT_READY) return status;
    if (l->model->state != BRAID_CLIENT_LOADING || now_ms() > until) break;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
  return braid_fail(BRAID_BUSY, "model %s is not ready: %s", o->model,
                    l->model->reason[0] ? l->model->reason : refusal);
}

/* The model's description, which names its ports. */
braid_status cli_call_find_model(const call_options *o, launch *l) {
  size_t count;
  if (!o->compile) {
    l->options.model = o->model;
    braid_status status = cli_call_status(braid_client_models(l->client, o->model, &l->model, &count));
    return status != BRAID_OK || l->model->state == BRAID_CLIENT_READY ? status : wake_model(o, l);
  }
  void *data = NULL;
  size_t bytes;
  braid_status status = read_file(o->model, &data, &bytes);
  if (status == BRAID_OK)
    status = cli_call_status(braid_client_compile(l->client, basename(o->model), data, bytes, NULL, 0, &l->model));
  free(data);
  if (status == BRAID_OK) l->options.compiled = l->model->handle;
  return status;
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
static braid_status launch_once(launch *l) {
  braid_client_release(l->call);
  l->call = NULL;
  return cli_call_status(braid_client_launch(l->client, &l->options, &l->call));
}

static size_t aligned(size_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Puts inputs, and room for outputs as large as those of the launch that has been, into shared memory. */
static braid_status share(launch *l) {
  size_t count, total = 0, at = 0;
  const braid_client_tensor *before = braid_client_outputs(l->call, &count);
  for (size_t i = 0; i < l->options.input_count; i++) total += aligned(l->inputs[i].bytes);
  for (size_t i = 0; i < count; i++) total += aligned(before[i].bytes);
  if (!total) return BRAID_OK;
  braid_status status = cli_call_status(braid_client_memory_create(l->client, total, &l->memory));
  if (status != BRAID_OK) return status;
  char *data = braid_client_memory_data(l->memory);
  for (size_t i = 0; i < l->options.input_count; i++) {
    if (l->inputs[i].bytes) memcpy(data + at, l->inputs[i].data, l->inputs[i].bytes);
    l->inputs[i].memory = l->memory;
    l->inputs[i].offset = at;
    at += aligned(l->inputs[i].bytes);
  }
  for (size_t i = 0; i < count; i++) {
    const char *name = find_port(l->model->outputs, l->model->output_count, before[i].name)->name;
    l->outputs[i] = (braid_client_tensor){.name = name, .bytes = before[i].bytes, .memory = l->memory, .offset = at};
    at += aligned(before[i].bytes);
  }
  l->options.outputs = l->outputs;
  l->options.output_count = count;
  l->shared = true;
  return BRAID_OK;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static braid_status repeat(const call_options *o, launch *l) {
  l->times = calloc((size_t)o->repeat, sizeof *l->times);
  if (!l->times) return cli_no_memory();
  braid_status status = braid_client_has_memory(l->client) && !o->in_line ? share(l) : BRAID_OK;
  for (int i = 0; i < WARM_UP && status == BRAID_OK; i++) status = launch_once(l);
  braid_client_counters before = braid_client_count(l->client);
  cli_progress progress;
  cli_progress_begin(&progress, "launches");
  for (; l->runs < o->repeat && status == BRAID_OK; l->runs++) {
    double began = now_ms();
    status = launch_once(l);
    l->times[l->runs] = now_ms() - began;
    cli_progress_update(&progress, l->runs + 1, o->repeat, NULL);
  }
  cli_progress_end(&progress);
  if (status != BRAID_OK) return status;
  braid_client_counters after = braid_client_count(l->client);
  l->calls_per_inference = (double)(after.messages - before.messages) / (double)(after.launches - before.launches);
  qsort(l->times, (size_t)l->runs, sizeof *l->times, compare_times);
  return BRAID_OK;
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
static braid_status wrap_output(const braid_client_tensor *output, braid_tensor **out) {
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, tensor_dtype(output->dtype), output->rank, output->dims);
  return status == BRAID_OK ? braid_tensor_wrap(NULL, &desc, (void *)output->data, NULL, NULL, out) : status;
}

braid_status cli_call_save_outputs(const call_options *o, const braid_client_tensor *outputs, size_t count) {
  for (size_t k = 0; k < o->outputs.count; k++) {
    const char *name = o->outputs.names[k];
    size_t at = 0;
    if (!name && count != 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "--output %s: the model has %zu outputs, say which: NAME=%s",
                        o->outputs.values[k], count, o->outputs.values[k]);
    while (name && at < count && strcmp(outputs[at].name, name) != 0) at++;
    if (at == count) return braid_fail(BRAID_NOT_FOUND, "--output: the model has no output named \"%s\"", name);
    braid_tensor *tensor;
    braid_status status = wrap_output(&outputs[at], &tensor);
    if (status != BRAID_OK) return status;
    status = braid_npy_save(o->outputs.values[k], tensor);
    braid_tensor_release(tensor);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

braid_status cli_call_show_output(FILE *file, cli_json *json, const braid_client_tensor *output) {
  braid_tensor *tensor;
  char text[128];
  braid_status status = wrap_output(output, &tensor);
  if (status != BRAID_OK) return status;
  const braid_desc *desc = braid_tensor_desc(tensor);
  int64_t count = braid_desc_count(desc), shown = count < SHOWN ? count : SHOWN;
  if (json) {
    cli_json_object(json, NULL);
    cli_json_string(json, "name", output->name);
    cli_json_string(json, "datatype", braid_client_dtype_name(output->dtype));
    cli_json_dims(json, "shape", desc);
    cli_json_array(json, "first");
    for (int64_t i = 0; i < shown; i++) cli_json_number(json, NULL, braid_tensor_get_f64(tensor, i));
    cli_json_close(json, ']');
    cli_json_close(json, '}');
  } else {
    cli_print_escaped(file, output->name);
    fprintf(file, " %s:", braid_desc_format(desc, text, sizeof text));
    for (int64_t i = 0; i < shown; i++) fprintf(file, " %g", braid_tensor_get_f64(tensor, i));
    fputs(shown < count ? " ...\n" : "\n", file);
  }
  braid_tensor_release(tensor);
  return BRAID_OK;
}

static void show_latency(FILE *file, cli_json *json, const launch *l) {
  static const double kPercents[] = {0, 50, 90, 99, 99.9, 100};
  static const char *const kNames[] = {"least", "p50", "p90", "p99", "p99.9", "most"};
  const char *way = l->shared ? "shared memory" : "inline";
  double sum = 0;
  for (int i = 0; i < l->runs; i++) sum += l->times[i];
  if (json) {
    cli_json_object(json, "measured_ms");
    cli_json_integer(json, "launches", l->runs);
    cli_json_string(json, "tensors", way);
    cli_json_number(json, "mean", sum / l->runs);
  } else {
    fprintf(file, "%d launches, %s, %g messages each; ms:", l->runs, way, l->calls_per_inference);
  }
  for (size_t i = 0; i < sizeof kPercents / sizeof *kPercents; i++) {
    double value = cli_percentile(l->times, (size_t)l->runs, kPercents[i]);
    if (json)
      cli_json_number(json, kNames[i], value);
    else
      fprintf(file, " %s %.3f", kNames[i], value);
  }
  if (!json) {
    fputc('\n', file);
    return;
  }
  cli_json_close(json, '}');
  cli_json_number(json, "calls_per_inference", l->calls_per_inference);
}

static braid_status show(const call_options *o, const launch *l) {
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(l->call, &count);
  braid_client_times times = braid_client_call_times(l->call);
  FILE *file = cli_call_writes_output(o) ? stderr : stdout;
  cli_json document, *json = o->common.json ? &document : NULL;
  braid_status status = BRAID_OK;
  if (json && !cli_json_begin(json)) return cli_no_memory();
  if (json) {
    cli_json_string(json, "model", o->model);
    cli_json_string(json, "tenant", braid_client_tenant(l->client));
    cli_json_integer(json, "waited_us", (int64_t)times.waited_ns / 1000);
    cli_json_integer(json, "ran_us", (int64_t)times.ran_ns / 1000);
    cli_json_integer(json, "batch", (int64_t)times.batch);
    if (o->cores) cli_json_integer(json, "cores", l->cores.granted);
    cli_json_array(json, "outputs");
  }
  for (size_t i = 0; i < count && status == BRAID_OK; i++) status = cli_call_show_output(file, json, &outputs[i]);
  if (json) cli_json_close(json, ']');
  if (l->runs && status == BRAID_OK) show_latency(file, json, l);
  if (json && status == BRAID_OK && !cli_json_end(json))
    return braid_fail(BRAID_IO, "standard output cannot be written");
  if (json && status != BRAID_OK) cli_json_discard(json);
  return status;
}

/* They go back when the connection ends. */
static braid_status ask_for_cores(const call_options *o, launch *l) {
  if (!o->cores) return BRAID_OK;
  const char *device = o->cores_device[0] ? o->cores_device : NULL;
  braid_status status = cli_call_status(braid_client_request_cores(l->client, device, o->cores, &l->cores));
  if (status == BRAID_OK && l->cores.note[0]) braid_log_write(cli_log(), BRAID_LOG_INFO, "%s", l->cores.note);
  return status;
}

braid_status cli_call_launch(const call_options *o, braid_client *client) {
  launch l = {.client = client};
  braid_status status = ask_for_cores(o, &l);
  if (status == BRAID_OK) status = cli_call_find_model(o, &l);
  for (size_t i = 0; i < o->inputs.count && status == BRAID_OK; i++)
    status = cli_call_read_input(&l, o->inputs.names[i], o->inputs.values[i]);
  l.options.inputs = l.inputs;
  l.options.deadline_us = o->deadline_us;
  l.options.priority = o->priority;
  l.options.traceparent = getenv("TRACEPARENT"); /* of the environment, as OpenTelemetry says for commands */
  l.options.tracestate = getenv("TRACESTATE");
  if (status == BRAID_OK) status = launch_once(&l);
  if (status == BRAID_OK && o->repeat) status = repeat(o, &l);
  size_t count = 0;
  const braid_client_tensor *outputs = status == BRAID_OK ? braid_client_outputs(l.call, &count) : NULL;
  if (status == BRAID_OK) status = cli_call_save_outputs(o, outputs, count);
  if (status == BRAID_OK) status = show(o, &l);
  braid_client_release(l.call);
  braid_client_memory_destroy(l.memory);
  for (size_t i = 0; i < CLI_MAX_ASSIGNMENTS; i++) braid_tensor_release(l.arrays[i]);
  free(l.model);
  free(l.times);
  return status;
}
