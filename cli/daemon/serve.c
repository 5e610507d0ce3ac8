/* braid serve: the daemon, in a program of its own (braid-serve), so that other commands need not load what it stands
 * on. */
#include <time.h>

#include "braid/serve.h"
#include "cli.h"

typedef struct arguments {
  cli_common common;
  braid_server_options options;
  double grace_s;
  bool check;
} arguments;

enum {
  KEY_CONFIG = CLI_FIRST_KEY,
  KEY_PORT,
  KEY_GRPC_PORT,
  KEY_SOCKET,
  KEY_WIRE_PORT,
  KEY_CLUSTER,
  KEY_NODE,
  KEY_NODE_ADDRESS,
  KEY_GRACE,
  KEY_CHECK
};

static error_t parse(int key, char *argument, struct argp_state *state) {
  arguments *args = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &args->common;
    return 0;
  case 'c':
    args->options.config = argument;
    return 0;
  case KEY_PORT:
    args->options.port = (int)cli_integer(state, "--port", argument, 0, 65535);
    if (!args->options.port) args->options.port = -1;
    return 0;
  case KEY_GRPC_PORT:
    args->options.grpc_port = (int)cli_integer(state, "--grpc-port", argument, 0, 65535);
    if (!args->options.grpc_port) args->options.grpc_port = -1;
    return 0;
  case KEY_SOCKET:
    args->options.socket = argument;
    return 0;
  case KEY_WIRE_PORT:
    args->options.wire_port = (int)cli_integer(state, "--wire-port", argument, 0, 65535);
    if (!args->options.wire_port) args->options.wire_port = -1;
    return 0;
  case KEY_CLUSTER:
    args->options.cluster = argument;
    return 0;
  case KEY_NODE:
    args->options.node = argument;
    return 0;
  case KEY_NODE_ADDRESS:
    args->options.node_address = argument;
    return 0;
  case KEY_GRACE:
    args->grace_s = cli_number(state, "--grace", argument, 0, 86400);
    return 0;
  case KEY_CHECK:
    args->check = true;
    return 0;
  case ARGP_KEY_END:
    if (!args->options.config) argp_error(state, "--config FILE is expected");
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "\"%s\" is not expected: models stand in the configuration", argument);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "The configuration (YAML): devices, models, tenants; docs/serving.md has all keys", 1},
    {"port", KEY_PORT, "N", 0, "Port of HTTP, in place of the configuration's (0: any that is free)", 1},
    {"grpc-port", KEY_GRPC_PORT, "N", 0, "Port of gRPC, in place of the configuration's (0: any that is free)", 1},
    {"socket", KEY_SOCKET, "PATH", 0,
     "Unix socket for `braid call` and libbraid-client, in place of the configuration's", 1},
    {"wire-port", KEY_WIRE_PORT, "N", 0,
     "Port of the same protocol over TCP, with TLS where the file has a certificate (0: any that is free)", 1},
    {"cluster", KEY_CLUSTER, "etcd:HOST:PORT[,...]", 0,
     "One of several daemons that etcd at these endpoints keeps together (docs/cluster.md); needs --wire-port", 1},
    {"node", KEY_NODE, "NAME", 0, "The cluster's name for this daemon (default: the host's name)", 1},
    {"node-address", KEY_NODE_ADDRESS, "HOST[:PORT]", 0, "Where the cluster's other daemons reach --wire-port", 1},
    {"grace", KEY_GRACE, "SECONDS", 0,
     "How long requests may go on after SIGTERM or Ctrl-C before they are cancelled (default 10)", 1},
    {"check", KEY_CHECK, NULL, 0, "Load everything, say what could not be loaded, and end", 1},
    {0}};
static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "--config FILE",
    "Serves models to tenants: KServe's protocol, version 2, over HTTP and gRPC, with deadlines, batches and quotas.\v"
    "Examples:\n"
    "  braid serve --config serve.yaml\n"
    "  curl http://127.0.0.1:8000/v2/models/resnet\n",
    children,
    NULL,
    NULL};

static void report_models(braid_server *server) {
  const char *name;
  bool loaded;
  char note[512];
  for (size_t i = 0; braid_server_model(server, i, &name, &loaded, note, sizeof note); i++)
    if (note[0])
      braid_log_write(cli_log(), loaded ? BRAID_LOG_INFO : BRAID_LOG_WARNING, "model %s%s: %s", name,
                      loaded ? "" : " could not be loaded", note);
}

/* Of --check: what was found. */
static void report_check(const arguments *args, braid_server *server) {
  const char *name;
  bool loaded;
  char note[512];
  cli_json json;
  if (!args->common.json) {
    for (size_t i = 0; braid_server_model(server, i, &name, &loaded, note, sizeof note); i++)
      printf("%s: %s%s%s\n", name, loaded ? "loaded" : "not loaded", note[0] ? "; " : "", note);
    return;
  }
  if (!cli_json_begin(&json)) return;
  cli_json_array(&json, "models");
  for (size_t i = 0; braid_server_model(server, i, &name, &loaded, note, sizeof note); i++) {
    cli_json_object(&json, NULL);
    cli_json_string(&json, "name", name);
    cli_json_bool(&json, "loaded", loaded);
    if (note[0]) cli_json_string(&json, "note", note);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  (void)cli_json_end(&json);
}

/* Until all models are loaded or not, or Ctrl-C. Returns how many could not be. */
static size_t wait_for_models(braid_server *server) {
  size_t loading = 1, ready, broken = 0;
  while (loading && !cli_interrupted()) {
    braid_server_models(server, &loading, &ready, &broken);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  }
  return broken;
}

/* Where it listens. */
static void report_places(const arguments *args, const braid_server *server) {
  int port = braid_server_port(server), grpc = braid_server_grpc_port(server), wire = braid_server_wire_port(server);
  const char *path = braid_server_socket(server);
  cli_json json;
  if (args->common.json && cli_json_begin(&json)) {
    cli_json_integer(&json, "port", port);
    cli_json_integer(&json, "grpc_port", grpc);
    cli_json_integer(&json, "wire_port", wire);
    if (path) cli_json_string(&json, "socket", path);
    (void)cli_json_end(&json);
  }
  char text[256];
  int used = snprintf(text, sizeof text, "listens on port %d", port);
  if (grpc) used += snprintf(text + used, sizeof text - (size_t)used, ", gRPC on %d", grpc);
  if (wire) used += snprintf(text + used, sizeof text - (size_t)used, ", Braid's protocol on %d", wire);
  if (path) snprintf(text + used, sizeof text - (size_t)used, ", on %s", path);
  braid_log_write(cli_log(), BRAID_LOG_INFO, "%s", text);
}

int cli_serve(int argc, char **argv) {
  arguments args = {.grace_s = 10};
  cli_parse(&argp, argc, argv, &args);
  cli_log_inform();
  args.options.log = cli_log();
  args.options.trial = args.check;
  cli_catch_interrupt();
  braid_server *server = NULL;
  braid_status status = braid_server_create(&args.options, &server);
  if (status != BRAID_OK) return cli_fail(&args.common, "serve", status);
  if (!args.check) report_places(&args, server);
  size_t broken = wait_for_models(server);
  if (args.check && cli_interrupted()) {
    braid_server_destroy(server, 0);
    return cli_fail(&args.common, "serve", braid_fail(BRAID_CANCELLED, "interrupted before all models were loaded"));
  }
  if (args.check)
    report_check(&args, server);
  else
    report_models(server);
  while (!args.check && !cli_interrupted()) nanosleep(&(struct timespec){0, 50000000}, NULL);
  braid_server_destroy(server, (int64_t)(args.grace_s * 1e9));
  return args.check && broken ? CLI_FAILED : CLI_OK;
}
