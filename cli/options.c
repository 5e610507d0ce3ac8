/* Options shared by several commands, as argp child parsers. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* --- usage errors as JSON -------------------------------------------------------------------------------------------
 * argp and getopt write to `stderr` and end the program. While they parse, `stderr` is a memory stream; an exit handler
 * prints what they wrote, as text and as JSON. */
static struct {
  FILE *standard_error, *collected;
  char *text;
  size_t bytes;
} usage;

static void end_usage_error(void) {
  if (!usage.collected) return;
  stderr = usage.standard_error;
  fclose(usage.collected);
  usage.collected = NULL;
  if (!usage.text) return;
  fputs(usage.text, stderr);
  char *line = strchr(usage.text, ' '), *detail = line ? strstr(line, ": ") : NULL;
  detail = detail ? detail + 2 : usage.text;
  detail[strcspn(detail, "\n")] = '\0';
  if (*detail) cli_print_error_json("invalid argument", detail);
  free(usage.text);
  usage.text = NULL;
}

/* argp accepts unambiguous prefixes of options. */
bool cli_wants_json(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    size_t length = strlen(argv[i]);
    if (length >= 3 && strncmp(argv[i], "--json", length) == 0) return true;
  }
  return false;
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
  if (cli_wants_json(argc, argv) && atexit(end_usage_error) == 0) {
    usage.standard_error = stderr;
    usage.collected = open_memstream(&usage.text, &usage.bytes);
    if (usage.collected) stderr = usage.collected;
  }
  argp_parse(argp, argc, argv, 0, NULL, input);
  end_usage_error();
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */
int64_t cli_integer(struct argp_state *state, const char *option, const char *text, int64_t least, int64_t most) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < least || value > most) {
    if (most == INT64_MAX && errno != ERANGE)
      argp_error(state, "%s: a whole number of at least %lld is expected, not \"%s\"", option, (long long)least, text);
    argp_error(state, "%s: a whole number from %lld to %lld is expected, not \"%s\"", option, (long long)least,
               (long long)most, text);
  }
  return value;
}

bool cli_output_loss(struct argp_state *state, const char *argument, const char **name) {
  size_t length = strcspn(argument, ":");
  *name = argument[length] ? argument + length + 1 : NULL;
  if (length != strlen("output") || strncmp(argument, "output", length) != 0) return false;
  if (*name && !**name) argp_error(state, "--loss: output or output:NAME is expected, not \"%s\"", argument);
  return true;
}

double cli_number(struct argp_state *state, const char *option, const char *text, double least, double most) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= least && value <= most)) {
    if (isinf(most)) argp_error(state, "%s: a number of at least %g is expected, not \"%s\"", option, least, text);
    argp_error(state, "%s: a number from %g to %g is expected, not \"%s\"", option, least, most, text);
  }
  return value;
}

enum {
  KEY_JSON = CLI_FIRST_SHARED_KEY,
  KEY_THREADS,
  KEY_TRACE,
  KEY_NO_FUSION,
  KEY_PLAN,
  KEY_SAVE_PLAN,
  KEY_PRECISION,
  KEY_PLACE,
  KEY_PLATFORM,
  KEY_PLUGIN,
  KEY_WEIGHTS,
  KEY_MODEL_SEED,
  KEY_SHAPE
};

static error_t parse_common(int key, char *argument, struct argp_state *state) {
  (void)argument;
  cli_common *common = state->input;
  switch (key) {
  case KEY_JSON:
    common->json = true;
    return 0;
  case 'v':
    common->verbose = true;
    return 0;
  case ARGP_KEY_SUCCESS:
    cli_start_log(common);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option common_options[] = {
    {"json", KEY_JSON, NULL, 0, "Print one JSON document on standard output", 90},
    {"verbose", 'v', NULL, 0, "Print more messages on standard error", 90},
    {0}};
const struct argp cli_common_argp = {common_options, parse_common, NULL, NULL, NULL, NULL, NULL};

static error_t parse_place(int key, char *argument, struct argp_state *state) {
  cli_place *place = state->input;
  switch (key) {
  case 'd':
    place->devices = argument;
    return 0;
  case KEY_THREADS:
    place->threads = (int)cli_integer(state, "--threads", argument, 0, 4096);
    return 0;
  case KEY_TRACE:
    place->trace = argument;
    return 0;
  case KEY_PLACE:
    place->patterns = argument;
    return 0;
  case KEY_PLATFORM:
    place->platform = argument;
    return 0;
  case KEY_PLUGIN:
    cli_add_plugin(state, place, argument);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option place_options[] = {
    {"device", 'd', "SPEC", 0,
     "Devices to run on, as listed by `braid devices` or remote:HOST:PORT/NAME of a daemon, separated by spaces; the "
     "first is preferred",
     80},
    {"place", KEY_PLACE, "LIST", 0,
     "Place nodes on devices: pattern=device,... (patterns of node names, with * and ?), \"auto\" to schedule by "
     "cost, \"ordered\" to start them in the order of the list",
     80},
    {"plugin", KEY_PLUGIN, "FILE", 0, "Load a backend from a shared object (may be repeated)", 80},
    {"platform", KEY_PLATFORM, "FILE", 0, "Platform file (YAML): names devices and splits them into parts", 80},
    {"threads", KEY_THREADS, "N", 0, "CPU threads (0: as many as this process may use)", 80},
    {"trace", KEY_TRACE, "FILE", 0, "Write a trace for chrome://tracing or Perfetto", 80},
    {0}};
const struct argp cli_place_argp = {place_options, parse_place, NULL, NULL, NULL, NULL, NULL};

static error_t parse_fusion(int key, char *argument, struct argp_state *state) {
  cli_place *place = state->input;
  (void)argument;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = place;
    return 0;
  case KEY_NO_FUSION:
    place->no_fusion = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option fusion_options[] = {{"no-fusion", KEY_NO_FUSION, NULL, 0, "Do not fuse nodes", 80},
                                                    {0}};
static const struct argp_child fusion_children[] = {{&cli_place_argp, 0, NULL, 0}, {0}};
const struct argp cli_inference_argp = {fusion_options, parse_fusion, NULL, NULL, fusion_children, NULL, NULL};

static braid_precision parse_precision(struct argp_state *state, const char *name) {
  static const braid_precision known[] = {BRAID_FLOAT32, BRAID_TF32, BRAID_BFLOAT16, BRAID_FLOAT16};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, braid_precision_name(known[i])) == 0) return known[i];
  argp_error(state, "--precision %s: float32, tf32, bf16 or fp16 is expected", name);
  return BRAID_FLOAT32;
}

static error_t parse_plan(int key, char *argument, struct argp_state *state) {
  cli_place *place = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = place;
    return 0;
  case KEY_PLAN:
    place->plan = argument;
    return 0;
  case KEY_SAVE_PLAN:
    place->save_plan = argument;
    return 0;
  case KEY_PRECISION:
    place->precision = parse_precision(state, argument);
    return 0;
  case ARGP_KEY_END:
    if (place->plan && (place->patterns || place->no_fusion))
      argp_error(state,
                 "--plan cannot be combined with --place or --no-fusion: placement and fusion are part of the plan");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option plan_options[] = {
    {"save-plan", KEY_SAVE_PLAN, "FILE", 0, "Save the plan, to be loaded by --plan", 80},
    {"plan", KEY_PLAN, "FILE", 0,
     "Load a saved plan instead of planning; it must be for the same model and machine. Or one of `braid plan --save`, "
     "for the same batch, which says where nodes run",
     80},
    {"precision", KEY_PRECISION, "NAME", 0,
     "float32 (default); tf32: products of float32 may round to 10 bits of fraction, on devices that can; bf16 or "
     "fp16: "
     "products and what passes their results on in 16 bits",
     80},
    {0}};
static const struct argp_child plan_children[] = {{&cli_inference_argp, 0, NULL, 0}, {0}};
const struct argp cli_planned_argp = {plan_options, parse_plan, NULL, NULL, plan_children, NULL, NULL};

const char *cli_place_given(const cli_place *place) {
  const struct {
    const char *name;
    bool given;
  } options[] = {{"--device", place->devices},           {"--place", place->patterns},
                 {"--plugin", place->plugin_count != 0}, {"--platform", place->platform},
                 {"--threads", place->threads != 0},     {"--trace", place->trace},
                 {"--no-fusion", place->no_fusion}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (options[i].given) return options[i].name;
  return NULL;
}

braid_session_options cli_session_options(const cli_place *place) {
  return (braid_session_options){.devices = place->devices,
                                 .place = place->patterns,
                                 .threads = place->threads,
                                 .no_fusion = place->no_fusion,
                                 .trace = place->trace,
                                 .load_plan = place->plan,
                                 .save_plan = place->save_plan,
                                 .registry = place->registry};
}

void cli_add_plugin(struct argp_state *state, cli_place *place, const char *path) {
  if (place->plugin_count == CLI_MAX_PLUGINS) argp_error(state, "more than %d plug-ins", CLI_MAX_PLUGINS);
  place->plugins[place->plugin_count++] = path;
}

/* $XDG_CACHE_HOME/braid or ~/.cache/braid, where there is one. */
static braid_status set_cache(braid_registry *registry) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char folder[4096];
  int length = 0;
  if (cache && cache[0] == '/')
    length = snprintf(folder, sizeof folder, "%s/braid", cache);
  else if (home && home[0] == '/')
    length = snprintf(folder, sizeof folder, "%s/.cache/braid", home);
  return length > 0 && (size_t)length < sizeof folder ? braid_registry_set_cache(registry, folder) : BRAID_OK;
}

/* A plan of `braid plan --save` becomes devices and patterns. */
static braid_status load_placement(cli_place *place) {
  if (!place->plan || !cli_is_placement(place->plan)) return BRAID_OK;
  braid_status status = braid_placement_load(NULL, place->plan, &place->placement);
  if (status != BRAID_OK) return status;
  if (!place->devices) place->devices = place->placement.devices;
  place->patterns = place->placement.place;
  if (place->placement.clocked)
    braid_log_write(
        cli_log(), BRAID_LOG_WARNING,
        "%s: %lld operations have a lower clock in the forecast; runs set no clocks, so that they take other "
        "times and energies",
        place->plan, (long long)place->placement.clocked);
  place->placement_file = place->plan;
  place->plan = NULL;
  return BRAID_OK;
}

static braid_status load_listed_plugins(braid_registry *registry) {
  braid_status status = braid_registry_load_list(registry, getenv("BRAID_PLUGINS"));
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail_prefix(status, "BRAID_PLUGINS");
}

braid_status cli_open_registry(cli_place *place) {
  braid_status status = load_placement(place);
  if (status == BRAID_OK) status = braid_registry_create(NULL, &place->registry);
  if (status == BRAID_OK) braid_registry_set_log(place->registry, cli_log());
  if (status == BRAID_OK) braid_registry_set_progress(place->registry, cli_prepare_progress());
  if (status == BRAID_OK) status = set_cache(place->registry);
  if (status == BRAID_OK) status = load_listed_plugins(place->registry);
  for (size_t i = 0; status == BRAID_OK && i < place->plugin_count; i++)
    status = braid_registry_load(place->registry, place->plugins[i]);
  if (status == BRAID_OK && place->platform) status = braid_registry_load_platform(place->registry, place->platform);
  if (status != BRAID_OK) cli_close_registry(place);
  return status;
}

void cli_close_registry(cli_place *place) {
  if (place->registry) braid_registry_destroy(place->registry);
  place->registry = NULL;
  braid_placement_deinit(&place->placement);
}

void cli_assign(struct argp_state *state, cli_assignments *list, char *text) {
  if (list->count == CLI_MAX_ASSIGNMENTS) argp_error(state, "more than %d of an option", CLI_MAX_ASSIGNMENTS);
  char *equals = strchr(text, '=');
  if (equals) *equals = '\0';
  list->names[list->count] = equals ? text : NULL;
  list->values[list->count] = equals ? equals + 1 : text;
  list->count++;
}

static error_t parse_source(int key, char *argument, struct argp_state *state) {
  cli_source *source = state->input;
  const char *dot;
  switch (key) {
  case KEY_WEIGHTS:
    source->options.weights = argument;
    return 0;
  case KEY_MODEL_SEED:
    source->options.seed = (uint64_t)cli_integer(state, "--model-seed", argument, 0, INT64_MAX);
    source->seed_given = true;
    return 0;
  case KEY_SHAPE:
    cli_assign(state, &source->shapes, argument);
    return 0;
  case ARGP_KEY_ARG:
    if (source->path) argp_error(state, "one model is expected, \"%s\" is a second one", argument);
    source->path = argument;
    return 0;
  case ARGP_KEY_END:
    if (!source->path) argp_error(state, "a model is expected: a .onnx or .cfg file");
    dot = source->path ? strrchr(source->path, '.') : NULL;
    if (source->seed_given && (source->options.weights || !dot || strcmp(dot, ".cfg") != 0))
      argp_error(state, "--model-seed has no effect on a model with weights");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option source_options[] = {
    {"weights", KEY_WEIGHTS, "FILE", 0, "The .weights file of a Darknet model (default: random weights)", 70},
    {"model-seed", KEY_MODEL_SEED, "N", 0, "Seed of random weights", 70},
    {"shape", KEY_SHAPE, "[NAME=]DIMS", 0,
     "Shape of an input, e.g. 1x3x224x224; NAME may be omitted if the model has one input", 70},
    {0}};
const struct argp cli_source_argp = {source_options, parse_source, NULL, NULL, NULL, NULL, NULL};

/* Parses "1x3x224x224"; returns the rank, or -1. */
static int parse_dims(const char *text, int64_t *dims) {
  int rank = 0;
  for (;;) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9' || rank == BRAID_MAX_RANK) return -1;
    dims[rank++] = strtoll(text, &end, 10);
    if (errno) return -1;
    if (!*end) return rank;
    if (*end != 'x') return -1;
    text = end + 1;
  }
}

static braid_status set_shape(braid_graph *graph, const char *name, const char *text) {
  int64_t dims[BRAID_MAX_RANK];
  int rank = parse_dims(text, dims);
  if (rank < 0) {
    return braid_fail(BRAID_INVALID_ARGUMENT, "--shape: dimensions like 1x3x224x224 are expected, not \"%s\"", text);
  }
  size_t count = braid_graph_input_count(graph);
  if (!name && count != 1) {
    return braid_fail(BRAID_INVALID_ARGUMENT, "--shape %s: the model has %zu inputs, say which: NAME=%s", text, count,
                      text);
  }
  for (size_t i = 0; i < count; i++) {
    braid_value_id input = braid_graph_input(graph, i);
    if (!name || strcmp(braid_graph_value(graph, input).name, name) == 0) {
      return braid_graph_set_input_shape(graph, input, rank, dims);
    }
  }
  return braid_fail(BRAID_NOT_FOUND, "--shape: the model has no input named \"%s\"; its first is \"%s\"", name,
                    count ? braid_graph_value(graph, braid_graph_input(graph, 0)).name : "");
}

braid_status cli_load(const cli_source *source, braid_graph **out) {
  braid_model_options options = source->options;
  options.log = cli_log();
  braid_status status = braid_model_load(NULL, source->path, &options, out);
  for (size_t i = 0; i < source->shapes.count && status == BRAID_OK; i++) {
    status = set_shape(*out, source->shapes.names[i], source->shapes.values[i]);
  }
  if (status != BRAID_OK && *out) {
    braid_graph_destroy(*out);
    *out = NULL;
  }
  return status;
}

static void *open_cpu(void *registry) {
  braid_device *device;
  if (braid_device_open(registry, "cpu", &device) == BRAID_OK) braid_device_close(device);
  return NULL;
}

braid_status cli_load_to_run(const cli_source *source, const cli_place *place, braid_graph **out) {
  pthread_t opening;
  bool wanted = !place->devices || strstr(place->devices, "cpu");
  bool opens = wanted && pthread_create(&opening, NULL, open_cpu, place->registry) == 0;
  braid_status status = cli_load(source, out);
  if (status == BRAID_OK) status = braid_graph_set_precision(*out, place->precision);
  if (opens) pthread_join(opening, NULL);
  return status;
}

braid_status cli_blame_model(const cli_source *source, braid_status status) {
  bool of_model = status == BRAID_INVALID_GRAPH || status == BRAID_INVALID_ARGUMENT || status == BRAID_OUT_OF_RANGE ||
                  status == BRAID_UNSUPPORTED;
  return of_model ? braid_fail_prefix(status, "%s", source->path) : status;
}

braid_status cli_set_batch(braid_graph *graph, int64_t batch) {
  for (size_t i = 0; i < braid_graph_input_count(graph); i++) {
    braid_value_id input = braid_graph_input(graph, i);
    braid_desc desc = braid_graph_value(graph, input).desc;
    if (desc.rank < 1) continue;
    desc.dims[0] = batch;
    for (int k = 1; k < desc.rank; k++) {
      if (desc.dims[k] >= 0) continue;
      return braid_fail(BRAID_INVALID_ARGUMENT, "input \"%s\" has dynamic dimension %d: set it with --shape",
                        braid_graph_value(graph, input).name, k);
    }
    braid_status status = braid_graph_set_input_shape(graph, input, desc.rank, desc.dims);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}
