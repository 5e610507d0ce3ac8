#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "drawing.h"
#include "training.h"
#include "values.h"

static const char doc[] =
    "Lists the nodes of MODEL with their shapes, parameters and multiply-accumulates, and the memory of a run. With "
    "--train it lists the tensors that `braid train` would train instead, and why not the others; --svg draws the "
    "graph. If MODEL is a plan saved by `braid run --save-plan`, it is printed or, with --against, compared with "
    "another one."
    "\vExamples:\n"
    "  braid inspect resnet20.onnx\n"
    "  braid inspect resnet50.onnx --shape 1x3x224x224 --svg resnet50.svg\n"
    "  braid inspect vit.onnx --train\n"
    "  braid inspect vgg-16.cfg --json\n"
    "  braid inspect today.plan --against yesterday.plan\n";

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  const char *svg, *against;
  bool train;
} options;

enum { KEY_SVG = CLI_FIRST_KEY, KEY_TRAIN, KEY_AGAINST };

/* Options that would have no effect are refused. */
static void check_training_options(const options *o, struct argp_state *state) {
  if (!o->train) return;
  if (o->svg) argp_error(state, "--svg cannot be combined with --train");
  const char *option = cli_place_given(&o->place);
  if (option) argp_error(state, "%s has no effect with --train", option);
}

static void check_plan_options(const options *o, struct argp_state *state) {
  if (!o->source.path || !(o->against || cli_is_plan(o->source.path))) return;
  const char *option = o->train                    ? "--train"
                       : o->svg                    ? "--svg"
                       : o->source.options.weights ? "--weights"
                       : o->source.shapes.count    ? "--shape"
                                                   : cli_place_given(&o->place);
  if (!option) return;
  if (o->against)
    argp_error(state, "--against compares two saved plans: %s is for models", option);
  else
    argp_error(state, "%s is a saved plan: %s is for models", o->source.path, option);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    return 0;
  case KEY_SVG:
    o->svg = argument;
    return 0;
  case KEY_TRAIN:
    o->train = true;
    return 0;
  case KEY_AGAINST:
    o->against = argument;
    return 0;
  case ARGP_KEY_END:
    check_training_options(o, state);
    check_plan_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

typedef struct totals {
  int64_t parameters, parameter_bytes, macs;
  braid_session_stats stats;
  char not_planned[512]; /* why there are no stats */
} totals;

/* Number of elements of the constants that a node uses; `seen` makes each value count once. */
static int64_t node_parameters(const braid_graph *graph, const braid_node_info *node, bool *seen, int64_t *bytes) {
  int64_t count = 0;
  for (size_t i = 0; i < node->input_count; i++) {
    braid_value_id id = node->inputs[i];
    if (id < 0 || seen[id]) continue;
    braid_value_info value = braid_graph_value(graph, id);
    if (!value.tensor) continue;
    seen[id] = true;
    count += braid_desc_count(&value.desc);
    *bytes += (int64_t)braid_desc_bytes(&value.desc);
  }
  return count;
}

static void print_row(cli_json *json, const braid_graph *graph, const braid_node_info *node, int64_t parameters,
                      int64_t macs) {
  braid_desc none = {.dtype = BRAID_NONE, .rank = -1};
  braid_desc desc = none;
  for (size_t i = 0; i < node->output_count && desc.dtype == BRAID_NONE; i++) {
    if (node->outputs[i] >= 0) desc = braid_graph_value(graph, node->outputs[i]).desc;
  }
  if (json) {
    cli_json_object(json, NULL);
    cli_json_string(json, "name", node->name);
    cli_json_string(json, "op", node->op);
    cli_json_string(json, "type", braid_dtype_name(desc.dtype));
    cli_json_dims(json, "shape", &desc);
    cli_json_integer(json, "parameters", parameters);
    cli_json_integer(json, "macs", macs);
    cli_json_close(json, '}');
    return;
  }
  char shape[96], a[32] = "", b[32] = "";
  if (parameters) cli_format_count((double)parameters, a, sizeof a);
  if (macs) cli_format_count((double)macs, b, sizeof b);
  printf("%-36.36s %-22s %-26s %10s %10s\n", node->name, node->op, braid_desc_format(&desc, shape, sizeof shape), a, b);
}

static braid_status print_nodes(cli_json *json, const braid_graph *graph, totals *sum) {
  bool *seen = calloc(braid_graph_value_count(graph) + 1, sizeof *seen);
  if (!seen) return cli_no_memory();
  if (json)
    cli_json_array(json, "nodes");
  else
    printf("%-36s %-22s %-26s %10s %10s\n", "node", "op", "output", "parameters", "MACs");
  for (size_t i = 0; i < braid_graph_node_count(graph); i++) {
    braid_node_info node = braid_graph_node(graph, (braid_node_id)i);
    int64_t parameters = node_parameters(graph, &node, seen, &sum->parameter_bytes);
    int64_t macs = braid_graph_node_macs(graph, (braid_node_id)i);
    sum->parameters += parameters;
    sum->macs += macs;
    print_row(json, graph, &node, parameters, macs);
  }
  if (json) cli_json_close(json, ']');
  free(seen);
  return BRAID_OK;
}

static void print_ends(cli_json *json, const braid_graph *graph, bool inputs) {
  size_t count = inputs ? braid_graph_input_count(graph) : braid_graph_output_count(graph);
  if (json) cli_json_array(json, inputs ? "inputs" : "outputs");
  for (size_t i = 0; i < count; i++) {
    braid_value_info value =
        braid_graph_value(graph, inputs ? braid_graph_input(graph, i) : braid_graph_output(graph, i));
    char shape[96];
    if (!json) {
      printf("%s %s %s\n", inputs ? "input " : "output", value.name,
             braid_desc_format(&value.desc, shape, sizeof shape));
      continue;
    }
    cli_json_object(json, NULL);
    cli_json_string(json, "name", value.name);
    cli_json_string(json, "type", braid_dtype_name(value.desc.dtype));
    cli_json_dims(json, "shape", &value.desc);
    cli_json_close(json, '}');
  }
  if (json) cli_json_close(json, ']');
}

/* Memory is known only from a plan. A model that the devices cannot run is listed without it, except with --trace,
 * which needs a plan. */
static braid_status plan(const options *o, const braid_graph *graph, totals *sum) {
  braid_session_options place = cli_session_options(&o->place);
  braid_session *session;
  braid_status status = braid_session_create(graph, &place, &session);
  bool named = status == BRAID_NOT_FOUND; /* a device or a node, by an option */
  if (named || (status != BRAID_OK && o->place.trace)) return status;
  if (status != BRAID_OK) {
    const char *detail = braid_error_detail();
    snprintf(sum->not_planned, sizeof sum->not_planned, "%s", detail[0] ? detail : braid_status_text(status));
    return BRAID_OK;
  }
  sum->stats = braid_session_get_stats(session);
  status = braid_session_save_trace(session);
  braid_session_destroy(session);
  return status;
}

static void print_totals(const totals *sum, size_t nodes) {
  char a[32], b[32], c[32], d[32];
  printf("\n%zu nodes, %s parameters (%s), %s multiply-accumulates\n", nodes,
         cli_format_count((double)sum->parameters, a, sizeof a),
         cli_format_bytes((double)sum->parameter_bytes, b, sizeof b), cli_format_count((double)sum->macs, c, sizeof c));
  if (sum->not_planned[0])
    printf("memory of a run: unknown, because planning fails: %s\n", sum->not_planned);
  else
    printf("memory of a run, planned: %s of activations (%s without reuse), %s of parameters, %zu tasks\n",
           cli_format_bytes((double)sum->stats.arena_bytes, a, sizeof a),
           cli_format_bytes((double)sum->stats.unshared_bytes, b, sizeof b),
           cli_format_bytes((double)sum->stats.parameter_bytes, d, sizeof d), sum->stats.nodes);
}

static void json_totals(cli_json *json, const totals *sum) {
  cli_json_integer(json, "parameters", sum->parameters);
  cli_json_integer(json, "parameter_bytes", sum->parameter_bytes);
  cli_json_integer(json, "macs", sum->macs);
  if (sum->not_planned[0]) {
    cli_json_string(json, "not_planned", sum->not_planned);
    return;
  }
  cli_json_object(json, "planned");
  cli_json_integer(json, "tasks", (int64_t)sum->stats.nodes);
  cli_json_integer(json, "conversions", (int64_t)sum->stats.conversions);
  cli_json_integer(json, "arena_bytes", (int64_t)sum->stats.arena_bytes);
  cli_json_integer(json, "unshared_bytes", (int64_t)sum->stats.unshared_bytes);
  cli_json_integer(json, "parameter_bytes", (int64_t)sum->stats.parameter_bytes);
  cli_json_close(json, '}');
}

/* For the graph as loaded: training starts before constants are folded. */
static braid_status inspect_training(const options *o, const braid_graph *graph) {
  cli_json json;
  if (o->common.json && !cli_json_begin(&json)) return BRAID_NO_MEMORY;
  if (o->common.json) cli_json_string(&json, "model", o->source.path);
  braid_status status = cli_blame_model(&o->source, training_list(graph, o->common.json ? &json : NULL));
  if (o->common.json && status == BRAID_OK)
    cli_json_end(&json);
  else if (o->common.json)
    cli_json_discard(&json);
  return status;
}

static braid_status inspect(const options *o, braid_graph *graph) {
  totals sum = {0};
  braid_status status = plan(o, graph, &sum); /* before it is resolved, so that --place can use all node names */
  if (status == BRAID_OK) status = cli_blame_model(&o->source, braid_resolve(graph));
  if (status == BRAID_OK && o->svg) status = drawing_write(graph, o->svg);
  if (status != BRAID_OK) return status;
  cli_json json;
  bool as_json = o->common.json;
  if (as_json && !cli_json_begin(&json)) return cli_no_memory();
  if (as_json) cli_json_string(&json, "model", o->source.path);
  print_ends(as_json ? &json : NULL, graph, true);
  status = print_nodes(as_json ? &json : NULL, graph, &sum);
  print_ends(as_json ? &json : NULL, graph, false);
  if (!as_json)
    print_totals(&sum, braid_graph_node_count(graph));
  else
    json_totals(&json, &sum);
  if (as_json && status == BRAID_OK)
    cli_json_end(&json);
  else if (as_json)
    cli_json_discard(&json);
  return status;
}

int cli_inspect(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"svg", KEY_SVG, "FILE", 0, "Draw the graph", 0},
      {"train", KEY_TRAIN, NULL, 0, "List the constants that training would change, and why not the others", 0},
      {"against", KEY_AGAINST, "PLAN", 0, "MODEL is a saved plan: list its first differences from PLAN", 0},
      {0}};
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_inference_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.svg = NULL};
  cli_parse(&argp, argc, argv, &o);
  if (o.against || cli_is_plan(o.source.path)) {
    braid_status status = cli_inspect_plan(o.source.path, o.against, o.common.json);
    return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "inspect", status);
  }
  braid_graph *graph = NULL;
  braid_status status = cli_open_registry(&o.place);
  if (status == BRAID_OK) status = cli_load(&o.source, &graph);
  if (status == BRAID_OK) {
    status = o.train ? inspect_training(&o, graph) : inspect(&o, graph);
    braid_graph_destroy(graph);
  }
  cli_close_registry(&o.place);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "inspect", status);
}
