/* braid call: a model of a daemon, by hand, over Braid's own protocol. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/client.h"
#include "call.h"

static const char doc[] = "Launches MODEL of the daemon at ADDRESS (unix:PATH, HOST:PORT, or tls:HOST:PORT) once on "
                          "arrays (.npy), and prints or saves the "
                          "outputs. ADDRESS alone with --list prints the daemon's models."
                          "\vExamples:\n"
                          "  braid call unix:/run/braid.sock --list\n"
                          "  braid call unix:/run/braid.sock lenet --input data=x.npy --output y.npy\n"
                          "  braid call 127.0.0.1:8002 lenet --input x.npy --deadline 20 --repeat 1000\n"
                          "  braid call unix:/run/braid.sock model.onnx --compile --input x.npy\n"
                          "  braid call tls:gpu.example:8002 lenet --authority ca.pem --input x.npy\n"
                          "  braid call 10.0.0.1:8002,10.0.0.2:8002 resnet --batch 8 --input many.npy --output y.npy\n";

enum {
  KEY_LIST = CLI_FIRST_KEY,
  KEY_TOKEN,
  KEY_DEADLINE,
  KEY_PRIORITY,
  KEY_REPEAT,
  KEY_INLINE,
  KEY_COMPILE,
  KEY_TIMEOUT,
  KEY_BATCH,
  KEY_AUTHORITY,
  KEY_CERTIFICATE,
  KEY_PRIVATE,
  KEY_CORES
};

/* [DEVICE=]N */
static void parse_cores(call_options *o, struct argp_state *state, const char *argument) {
  const char *equals = strrchr(argument, '=');
  size_t length = equals ? (size_t)(equals - argument) : 0;
  if (length >= sizeof o->cores_device || (equals && !length))
    argp_error(state, "--cores: \"%s\" is not [DEVICE=]N", argument);
  snprintf(o->cores_device, sizeof o->cores_device, "%.*s", (int)length, argument);
  o->cores = (uint32_t)cli_integer(state, "--cores", equals ? equals + 1 : argument, 1, 4096);
}

static void check_batch(const call_options *o, struct argp_state *state) {
  const char *other = o->list      ? "--list"
                      : o->repeat  ? "--repeat"
                      : o->compile ? "--compile"
                      : o->in_line ? "--inline"
                      : o->cores   ? "--cores"
                                   : NULL;
  if (o->batch && other)
    argp_error(state, "--batch cannot be combined with %s: it goes with inputs and outputs of a daemon's model alone",
               other);
  bool is_path = strncmp(o->address, "unix:", 5) == 0 && access(o->address + 5, F_OK) == 0;
  if (!o->batch && strchr(o->address, ',') && !is_path)
    argp_error(state, "%s: several addresses go with --batch", o->address);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  call_options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case 'i':
    cli_assign(state, &o->inputs, argument);
    return 0;
  case 'o':
    cli_assign(state, &o->outputs, argument);
    return 0;
  case KEY_LIST:
    o->list = true;
    return 0;
  case KEY_TOKEN:
    o->token = argument;
    return 0;
  case KEY_DEADLINE:
    o->deadline_us = (int64_t)(cli_number(state, "--deadline", argument, 0.001, 1e7) * 1e3);
    return 0;
  case KEY_PRIORITY:
    o->priority = (int)cli_integer(state, "--priority", argument, 1, 9);
    return 0;
  case KEY_REPEAT:
    o->repeat = (int)cli_integer(state, "--repeat", argument, 1, 10000000);
    return 0;
  case KEY_TIMEOUT:
    o->timeout_ms = (int64_t)(cli_number(state, "--timeout", argument, 0.001, 1e6) * 1e3);
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, 1 << 20);
    return 0;
  case KEY_AUTHORITY:
    o->authority = argument;
    return 0;
  case KEY_CERTIFICATE:
    o->certificate = argument;
    return 0;
  case KEY_PRIVATE:
    o->key = argument;
    return 0;
  case KEY_CORES:
    parse_cores(o, state, argument);
    return 0;
  case KEY_INLINE:
    o->in_line = true;
    return 0;
  case KEY_COMPILE:
    o->compile = true;
    return 0;
  case ARGP_KEY_ARG:
    if (o->model) argp_error(state, "one address and one model are expected, \"%s\" is one more", argument);
    *(o->address ? &o->model : &o->address) = argument;
    return 0;
  case ARGP_KEY_END:
    if (!o->address) argp_error(state, "an address is expected: unix:PATH, HOST:PORT or tls:HOST:PORT");
    if (!o->model && !o->list) argp_error(state, "a model is expected, or --list");
    if (o->list && (o->inputs.count || o->outputs.count || o->repeat || o->compile || o->cores))
      argp_error(state, "--list launches nothing");
    check_batch(o, state);
    if (o->common.json && cli_call_writes_output(o))
      argp_error(state, "--output - cannot be combined with --json: both use standard output");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option options[] = {
    {"input", 'i', "[NAME=]FILE", 0, "An input (.npy; - is standard input); NAME may be left out of one", 1},
    {"output", 'o', "[NAME=]FILE", 0, "Save an output as .npy (- is standard output); NAME may be left out of one", 1},
    {"list", KEY_LIST, NULL, 0, "Print the models, or what MODEL takes and gives", 1},
    {"token", KEY_TOKEN, "TOKEN", 0, "The tenant's (default: BRAID_TOKEN of the environment, which others do not see)",
     2},
    {"authority", KEY_AUTHORITY, "FILE", 0,
     "PEM file of who signs for the daemon of tls:HOST:PORT (default: the system's authorities)", 2},
    {"certificate", KEY_CERTIFICATE, "FILE", 0, "PEM file: our certificate, where that daemon asks for one", 2},
    {"key", KEY_PRIVATE, "FILE", 0, "PEM file: the certificate's key", 2},
    {"deadline", KEY_DEADLINE, "MS", 0, "The daemon refuses a launch that would take longer, and cancels it then", 2},
    {"priority", KEY_PRIORITY, "N", 0, "1, the most urgent, to 9, and no better than the tenant's", 2},
    {"repeat", KEY_REPEAT, "N", 0, "Launch it N times and print percentiles of the latency", 2},
    {"batch", KEY_BATCH, "ROWS", 0,
     "The first dimension of the inputs counts rows: launch so many at a time, spread over the daemons of "
     "ADDRESS,ADDRESS...; what a lost one had goes to the others; the outputs are put together in order",
     2},
    {"inline", KEY_INLINE, NULL, 0, "With --repeat: send arrays over the socket where memory could be shared", 2},
    {"cores", KEY_CORES, "[DEVICE=]N", 0,
     "For the time of the call N cores of a public card, or N instances of another device, are the tenant's alone; "
     "DEVICE is the daemon's name for it (default: its first)",
     2},
    {"compile", KEY_COMPILE, NULL, 0, "MODEL is an ONNX file that the daemon compiles for this call", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "How long to wait for the connection and for an answer (default 60)", 2},
    {0}};
static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "ADDRESS [MODEL]", doc, children, NULL, NULL};

braid_status cli_call_status(braid_client_status status) {
  static const struct {
    braid_client_status from;
    braid_status to;
  } kMap[] = {
      {BRAID_CLIENT_ARGUMENT, BRAID_INVALID_ARGUMENT},
      {BRAID_CLIENT_INVALID, BRAID_INVALID_ARGUMENT},
      {BRAID_CLIENT_UNAUTHORIZED, BRAID_INVALID_ARGUMENT},
      {BRAID_CLIENT_FORBIDDEN, BRAID_INVALID_ARGUMENT},
      {BRAID_CLIENT_TOO_LARGE, BRAID_INVALID_ARGUMENT},
      {BRAID_CLIENT_UNKNOWN, BRAID_NOT_FOUND},
      {BRAID_CLIENT_NO_MEMORY, BRAID_NO_MEMORY},
      {BRAID_CLIENT_LOST, BRAID_IO},
      {BRAID_CLIENT_PROTOCOL, BRAID_IO},
      {BRAID_CLIENT_TIMEOUT, BRAID_TIMEOUT},
      {BRAID_CLIENT_LATE, BRAID_TIMEOUT},
      {BRAID_CLIENT_OVER_QUOTA, BRAID_BUSY},
      {BRAID_CLIENT_UNAVAILABLE, BRAID_BUSY},
  };
  if (status == BRAID_CLIENT_OK) return BRAID_OK;
  for (size_t i = 0; i < sizeof kMap / sizeof *kMap; i++)
    if (kMap[i].from == status) return braid_fail(kMap[i].to, "%s", braid_client_error());
  return braid_fail(BRAID_INTERNAL, "%s", braid_client_error());
}

/* --- --list --------------------------------------------------------------------------------------------------------
 */
static const char *format_port(const braid_client_port *port, char *text, size_t bytes) {
  size_t used = (size_t)snprintf(text, bytes, "%s[", braid_client_dtype_name(port->dtype));
  for (int i = 0; i < port->rank && used + 24 < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i ? "," : "", port->dims[i]);
  snprintf(text + used, bytes - used, "]");
  return text;
}

static const char *const kStates[] = {"not loaded", "loading", "ready", "broken"};

static void print_ports(const char *kind, const braid_client_port *ports, size_t count) {
  char text[256];
  for (size_t i = 0; i < count; i++) {
    printf("  %s ", kind);
    cli_print_escaped(stdout, ports[i].name);
    printf(" %s\n", format_port(&ports[i], text, sizeof text));
  }
}

static void json_ports(cli_json *json, const char *key, const braid_client_port *ports, size_t count) {
  cli_json_array(json, key);
  for (size_t i = 0; i < count; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "name", ports[i].name);
    cli_json_string(json, "datatype", braid_client_dtype_name(ports[i].dtype));
    cli_json_array(json, "shape");
    for (int k = 0; k < ports[i].rank; k++) cli_json_integer(json, NULL, ports[i].dims[k]);
    cli_json_close(json, ']');
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_model(const braid_client_model *model) {
  cli_print_escaped(stdout, model->name);
  printf(", version %s, %s", model->version, kStates[model->state]);
  if (model->max_batch > 1) printf(", up to %" PRIu64 " rows in a run", model->max_batch);
  if (model->reason[0]) printf(": %s", model->reason);
  putchar('\n');
  print_ports("input ", model->inputs, model->input_count);
  print_ports("output", model->outputs, model->output_count);
}

static void json_model(cli_json *json, const braid_client_model *model) {
  cli_json_object(json, NULL);
  cli_json_string(json, "name", model->name);
  cli_json_string(json, "version", model->version);
  cli_json_string(json, "state", kStates[model->state]);
  cli_json_string(json, "reason", model->reason);
  cli_json_integer(json, "max_batch", (int64_t)model->max_batch);
  json_ports(json, "inputs", model->inputs, model->input_count);
  json_ports(json, "outputs", model->outputs, model->output_count);
  cli_json_close(json, '}');
}

static braid_status list_models(const call_options *o, braid_client *client) {
  braid_client_model *models;
  size_t count;
  cli_json json;
  braid_status status = cli_call_status(braid_client_models(client, o->model, &models, &count));
  if (status != BRAID_OK) return status;
  if (!o->common.json) {
    for (size_t i = 0; i < count; i++) print_model(&models[i]);
  } else if (cli_json_begin(&json)) {
    cli_json_string(&json, "server", braid_client_server(client));
    cli_json_string(&json, "tenant", braid_client_tenant(client));
    cli_json_array(&json, "models");
    for (size_t i = 0; i < count; i++) json_model(&json, &models[i]);
    cli_json_close(&json, ']');
    if (!cli_json_end(&json)) status = braid_fail(BRAID_IO, "standard output cannot be written");
  } else {
    status = cli_no_memory();
  }
  free(models);
  return status;
}

int cli_call(int argc, char **argv) {
  call_options o = {.timeout_ms = 60000};
  cli_parse(&argp, argc, argv, &o);
  cli_end_on_interrupt(&o.common, "call");
  const char *token = o.token ? o.token : getenv("BRAID_TOKEN");
  braid_client_options connection = {.token = token && *token ? token : NULL,
                                     .name = "braid call",
                                     .connect_ms = o.timeout_ms,
                                     .call_ms = o.timeout_ms,
                                     .authority = o.authority,
                                     .certificate = o.certificate,
                                     .key = o.key};
  if (o.batch) {
    braid_status spread = cli_call_batch(&o, &connection);
    return spread == BRAID_OK ? CLI_OK : cli_fail(&o.common, "call", spread);
  }
  braid_client *client;
  braid_status status = cli_call_status(braid_client_connect(o.address, &connection, &client));
  if (status != BRAID_OK) return cli_fail(&o.common, "call", status);
  status = o.list ? list_models(&o, client) : cli_call_launch(&o, client);
  braid_client_close(client);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "call", status);
}
