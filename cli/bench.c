#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static const char doc[] = "Measures the latency of MODEL, and of every node of its plan, on generated inputs."
                          "\vExamples:\n"
                          "  braid bench resnet50.onnx\n"
                          "  braid bench resnet50.onnx --batch 16 --threads 2 --runs 20\n"
                          "  braid bench vgg-16.cfg --nodes 0 --json\n"
                          "  braid bench resnet50.onnx --batch 16 --plan resnet50.plan\n"
                          "\nTimes are measured on this machine. Times of nodes come from the devices' events.\n";

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  int64_t batch, nodes;
  int runs;
} options;

enum { KEY_BATCH = CLI_FIRST_KEY, KEY_RUNS, KEY_NODES };

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, 1 << 20);
    return 0;
  case KEY_RUNS:
    o->runs = (int)cli_integer(state, "--runs", argument, 1, 1000000);
    return 0;
  case KEY_NODES:
    o->nodes = cli_integer(state, "--nodes", argument, 0, INT64_MAX);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static int slower_first(const void *a, const void *b) {
  double x = ((const braid_plan_line *)a)->median_us, y = ((const braid_plan_line *)b)->median_us;
  return (x < y) - (x > y);
}

static void print_nodes(const options *o, const braid_plan_line *lines, size_t count, double total) {
  if (!o->nodes) return;
  size_t shown = (int64_t)count < o->nodes ? count : (size_t)o->nodes;
  printf("\n%-32s %-20s %-8s %-20s %10s %6s\n", "node, slowest first", "op", "device", "kernel", "median us", "part");
  for (size_t i = 0; i < shown; i++) {
    printf("%-32.32s %-20s %-8s %-20s ", lines[i].node, lines[i].op, lines[i].device, lines[i].kernel);
    if (lines[i].median_us >= 0 && lines[i].modelled)
      printf("%10.1f modelled\n", lines[i].median_us);
    else if (lines[i].median_us >= 0 && total > 0)
      printf("%10.1f %5.1f%%\n", lines[i].median_us, lines[i].median_us / total * 100);
    else
      printf("%10s %6s\n", "?", "?"); /* the device does not measure times */
  }
  if (shown < count) printf("... and %zu more (--nodes %zu shows all)\n", count - shown, count);
}

static void print_json(const options *o, const braid_session *session, const braid_session_stats *stats,
                       const cli_latency *latency, int64_t batch, const braid_plan_line *lines, size_t count) {
  cli_json json;
  if (!cli_json_begin(&json)) return;
  cli_json_string(&json, "model", o->source.path);
  cli_json_latency(&json, "measured_ms", latency, batch);
  cli_print_modelled(session, batch, NULL, &json);
  cli_json_number(&json, "prepare_measured_ms", stats->prepare_ms);
  cli_json_integer(&json, "arena_bytes", (int64_t)stats->arena_bytes);
  cli_json_integer(&json, "unshared_bytes", (int64_t)stats->unshared_bytes);
  cli_json_integer(&json, "parameter_bytes", (int64_t)stats->parameter_bytes);
  cli_json_integer(&json, "tasks", (int64_t)count);
  cli_json_array(&json, "nodes"); /* the slowest */
  for (size_t i = 0; i < count && (int64_t)i < o->nodes; i++) {
    cli_json_object(&json, NULL);
    cli_json_string(&json, "node", lines[i].node);
    cli_json_string(&json, "op", lines[i].op);
    cli_json_string(&json, "device", lines[i].device);
    cli_json_string(&json, "kernel", lines[i].kernel);
    cli_json_number(&json, lines[i].modelled ? "modelled_us" : "measured_us",
                    lines[i].median_us < 0 ? NAN : lines[i].median_us);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_end(&json);
}

static braid_status show(const options *o, const braid_session *session, const cli_latency *latency) {
  size_t count = braid_session_plan_count(session);
  braid_plan_line *lines = calloc(count + 1, sizeof *lines);
  if (!lines) return cli_no_memory();
  double total = 0;
  for (size_t i = 0; i < count; i++) {
    lines[i] = braid_session_plan(session, i);
    if (lines[i].median_us > 0 && !lines[i].modelled) total += lines[i].median_us;
  }
  qsort(lines, count, sizeof *lines, slower_first);
  int64_t batch = cli_session_batch(session);
  braid_session_stats stats = braid_session_get_stats(session);
  if (o->common.json) {
    print_json(o, session, &stats, latency, batch, lines, count);
  } else {
    char arena[32], unshared[32], parameters[32];
    printf("%s, batch %" PRId64 ", measured over %d runs%s\n", o->source.path, batch, latency->runs,
           cli_find_modelled(session).tasks ? ", of which a part is simulation" : "");
    cli_print_modelled(session, batch, stdout, NULL);
    printf("  latency      median %.3f ms, least %.3f, 90th percentile %.3f\n", latency->median, latency->least,
           latency->p90);
    printf("  throughput   %.1f per second\n", latency->median > 0 ? (double)batch * 1e3 / latency->median : 0);
    printf("  preparation  %.1f ms\n", stats.prepare_ms);
    printf("  memory       %s of activations (%s without reuse), %s of parameters\n",
           cli_format_bytes((double)stats.arena_bytes, arena, sizeof arena),
           cli_format_bytes((double)stats.unshared_bytes, unshared, sizeof unshared),
           cli_format_bytes((double)stats.parameter_bytes, parameters, sizeof parameters));
    print_nodes(o, lines, count, total);
  }
  free(lines);
  return BRAID_OK;
}

static braid_status measure(const options *o, braid_graph *graph) {
  braid_status status = o->batch ? cli_set_batch(graph, o->batch) : BRAID_OK;
  if (status != BRAID_OK) return status;
  braid_session_options place = cli_session_options(&o->place);
  braid_session *session;
  status = cli_blame_model(&o->source, braid_session_create(graph, &place, &session));
  if (status != BRAID_OK) return status;
  cli_buffers buffers;
  cli_latency latency;
  status = cli_check_session_batch(&o->place, session);
  if (status != BRAID_OK) {
    braid_session_destroy(session);
    return status;
  }
  status = cli_buffers_create(session, &buffers);
  for (size_t i = 0; i < buffers.input_count && status == BRAID_OK; i++) {
    status = cli_make_value(braid_session_input(session, i), &buffers.inputs[i]);
  }
  if (status == BRAID_OK) status = cli_measure(&buffers, session, o->runs, &latency);
  if (status == BRAID_OK) status = braid_session_save_trace(session);
  if (status == BRAID_OK) status = show(o, session, &latency);
  cli_buffers_destroy(&buffers);
  braid_session_destroy(session);
  return status;
}

int cli_bench(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"batch", KEY_BATCH, "N", 0, "Samples per run (default: the model's batch size, else 1)", 0},
      {"runs", KEY_RUNS, "N", 0, "Measured runs, after two for warm-up (default 20)", 0},
      {"nodes", KEY_NODES, "N", 0, "Show the N slowest nodes (default 15)", 0},
      {0}};
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_planned_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.runs = 20, .nodes = 15};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_graph *graph = NULL;
  braid_status status = cli_open_registry(&o.place);
  if (status == BRAID_OK) status = cli_load_to_run(&o.source, &o.place, &graph);
  if (status == BRAID_OK) {
    status = measure(&o, graph);
    braid_graph_destroy(graph);
  }
  cli_close_registry(&o.place);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "bench", status);
}
