#include <inttypes.h>
#include <math.h>

#include "files.h"
#include "simulation.h"
#include "table.h"

static const char doc[] =
    "Simulates a cluster that serves models, in virtual time: the policies that place models, route, admit and "
    "batch requests in `braid serve` decide over the nodes, models with measured times, tenants and events "
    "of SCENARIO, a .yaml file. Prints what became of the requests, what the nodes did, and the joules that they would "
    "have taken. All of it is modelled; the same scenario, trace and seed print the same."
    "\vExamples:\n"
    "  braid simulate cluster examples/cluster.yaml\n"
    "  braid simulate cluster examples/cluster.yaml --moves --html cluster.html\n"
    "  braid simulate cluster mine.yaml --trace AzureLLMInferenceTrace_conv.csv --seed 7 --json\n"
    "\ndocs/cluster-simulator.md has the keys of scenarios, and what is modelled.\n";

enum { KEY_TRACE = CLI_FIRST_KEY, KEY_SEED, KEY_MOVES, KEY_HTML, MOST_ROWS = 40, TABLES = 5 };

typedef struct options {
  cli_common common;
  braid_cluster_simulation how;
  const char *html;
} options;

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_TRACE:
    o->how.trace = argument;
    return 0;
  case KEY_SEED:
    o->how.seed = (uint64_t)cli_integer(state, "--seed", argument, 0, INT64_MAX);
    return 0;
  case KEY_HTML:
    o->html = argument;
    return 0;
  case KEY_MOVES:
    o->how.moves = true;
    return 0;
  case ARGP_KEY_ARG:
    if (o->how.scenario) argp_error(state, "\"%s\": one scenario is expected", argument);
    o->how.scenario = argument;
    return 0;
  case ARGP_KEY_END:
    if (!o->how.scenario) argp_error(state, "a scenario is expected: a .yaml file");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void add_number(cli_table *table, const char *format, double value) {
  if (isnan(value))
    cli_table_cell(table, "-");
  else
    cli_table_cell(table, format, value); // NOLINT: formats are literals of this file
}

static double percent(uint64_t part, uint64_t whole) {
  return whole ? 100 * (double)part / (double)whole : (double)NAN;
}

static void add_requests(cli_table *table, const braid_cluster_requests *r) {
  cli_table_cell(table, "%s", r->name);
  cli_table_cell(table, "%" PRIu64, r->requests);
  add_number(table, "%.3f", percent(r->in_time, r->requests));
  cli_table_cell(table, "%" PRIu64, r->late);
  cli_table_cell(table, "%" PRIu64, r->refused);
  cli_table_cell(table, "%" PRIu64, r->lost);
  cli_table_cell(table, "%" PRIu64, r->retried);
  add_number(table, "%.4g", r->p50_ms);
  add_number(table, "%.4g", r->p99_ms);
  add_number(table, "%.4g", r->p999_ms);
}

static void make_requests(const braid_cluster_simulated *result, cli_table *table) {
  cli_table_begin(table, "Requests", "Late: done after the deadline, or taken and not run in time. Lost: with a node.",
                  "tenant|requests|in time, %|late|refused|lost|retried|p50, ms|p99, ms|p99.9, ms");
  if (result->tenant_count > 1) add_requests(table, &result->all);
  for (size_t i = 0; i < result->tenant_count; i++) add_requests(table, &result->tenants[i]);
}

static void make_nodes(const braid_cluster_simulated *result, cli_table *table) {
  cli_table_begin(table, "Nodes", NULL, "kind|nodes|busy, %|awake, %|kJ (modelled)");
  for (size_t i = 0; i < result->node_kind_count; i++) {
    const braid_cluster_nodes *n = &result->nodes[i];
    cli_table_cell(table, "%s", n->kind);
    cli_table_cell(table, "%" PRIu64, n->count);
    add_number(table, "%.2f", 100 * n->busy);
    add_number(table, "%.2f", 100 * n->awake);
    add_number(table, "%.4g", n->joules * 1e-3);
  }
}

static void make_whole(const braid_cluster_simulated *result, cli_table *table) {
  cli_table_begin(table, "The whole", "All figures are modelled.",
                  "seconds|W, mean|W, most|J a request|times over the cap|s over it|placements|loads|MiB|unloads");
  add_number(table, "%.6g", result->seconds);
  add_number(table, "%.4g", result->mean_watts);
  add_number(table, "%.4g", result->most_watts);
  add_number(table, "%.4g", result->all.done ? result->joules / (double)result->all.done : (double)NAN);
  cli_table_cell(table, "%" PRIu64, result->cap_violations);
  add_number(table, "%.4g", result->over_cap_s);
  cli_table_cell(table, "%" PRIu64, result->plans);
  cli_table_cell(table, "%" PRIu64, result->loads);
  add_number(table, "%.4g", result->loaded_bytes / 1048576);
  cli_table_cell(table, "%" PRIu64, result->unloads);
}

static void make_moves(const braid_cluster_simulated *result, cli_table *table) {
  cli_table_begin(table, "Moves", NULL, "at, s|what, and why");
  for (size_t i = 0; i < result->move_count; i++) {
    cli_table_cell(table, "%.3f", result->moves[i].at_s);
    cli_table_cell(table, "%s", result->moves[i].text);
  }
}

static void make_lacks(const braid_cluster_simulated *result, cli_table *table) {
  cli_table_begin(table, "Models with too few places", "By the placement at that time; each node counts once.",
                  "at, s|what, and why");
  for (size_t i = 0; i < result->lack_count; i++) {
    cli_table_cell(table, "%.3f", result->lacks[i].at_s);
    cli_table_cell(table, "%s", result->lacks[i].text);
  }
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void add_json_requests(cli_json *json, const char *key, const braid_cluster_requests *r) {
  cli_json_object(json, key);
  cli_json_string(json, "name", r->name);
  cli_json_integer(json, "requests", (int64_t)r->requests);
  cli_json_integer(json, "in_time", (int64_t)r->in_time);
  cli_json_integer(json, "late", (int64_t)r->late);
  cli_json_integer(json, "refused", (int64_t)r->refused);
  cli_json_integer(json, "lost", (int64_t)r->lost);
  cli_json_integer(json, "retried", (int64_t)r->retried);
  cli_json_integer(json, "done", (int64_t)r->done);
  cli_json_number(json, "mean_ms", r->mean_ms);
  cli_json_number(json, "p50_ms", r->p50_ms);
  cli_json_number(json, "p99_ms", r->p99_ms);
  cli_json_number(json, "p999_ms", r->p999_ms);
  cli_json_number(json, "most_ms", r->most_ms);
  cli_json_close(json, '}');
}

static void add_json_records(cli_json *json, const char *key, const char *what, const braid_cluster_move_record *list,
                             size_t count) {
  cli_json_array(json, key);
  for (size_t i = 0; i < count; i++) {
    cli_json_object(json, NULL);
    cli_json_number(json, "at_s", list[i].at_s);
    cli_json_string(json, what, list[i].text);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void add_json_lists(cli_json *json, const braid_cluster_simulated *result, bool moves) {
  cli_json_array(json, "tenants");
  for (size_t i = 0; i < result->tenant_count; i++) add_json_requests(json, NULL, &result->tenants[i]);
  cli_json_close(json, ']');
  cli_json_array(json, "nodes");
  for (size_t i = 0; i < result->node_kind_count; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "kind", result->nodes[i].kind);
    cli_json_integer(json, "count", (int64_t)result->nodes[i].count);
    cli_json_number(json, "busy", result->nodes[i].busy);
    cli_json_number(json, "awake", result->nodes[i].awake);
    cli_json_number(json, "modelled_joules", result->nodes[i].joules);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  add_json_records(json, "lacking", "model", result->lacks, result->lack_count);
  if (moves) add_json_records(json, "moves", "move", result->moves, result->move_count);
}

static bool print_json(const braid_cluster_simulated *result, bool moves) {
  cli_json json;
  if (!cli_json_begin(&json)) return false;
  add_json_requests(&json, "all", &result->all);
  add_json_lists(&json, result, moves);
  cli_json_number(&json, "seconds", result->seconds);
  cli_json_number(&json, "modelled_joules", result->joules);
  cli_json_number(&json, "modelled_joules_per_request",
                  result->all.done ? result->joules / (double)result->all.done : (double)NAN);
  cli_json_number(&json, "modelled_mean_watts", result->mean_watts);
  cli_json_number(&json, "modelled_most_watts", result->most_watts);
  cli_json_integer(&json, "cap_violations", (int64_t)result->cap_violations);
  cli_json_number(&json, "over_cap_s", result->over_cap_s);
  cli_json_integer(&json, "placements", (int64_t)result->plans);
  cli_json_integer(&json, "loads", (int64_t)result->loads);
  cli_json_integer(&json, "unloads", (int64_t)result->unloads);
  cli_json_number(&json, "loaded_bytes", result->loaded_bytes);
  return cli_json_end(&json);
}

static braid_status show(const options *o, const braid_cluster_simulated *result) {
  cli_table tables[TABLES];
  braid_page_table pages[TABLES];
  size_t count = 3, last = SIZE_MAX;
  braid_status status = BRAID_OK;
  make_requests(result, &tables[0]);
  make_nodes(result, &tables[1]);
  make_whole(result, &tables[2]);
  if (result->lack_count) make_lacks(result, &tables[count++]);
  if (o->how.moves) make_moves(result, &tables[last = count++]);
  for (size_t i = 0; i < count; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && o->html)
    status = braid_tile_write_html(NULL, o->html, "A simulated cluster", NULL, NULL, 0, pages, count);
  if (status == BRAID_OK && o->common.json && !print_json(result, o->how.moves)) status = cli_no_memory();
  for (size_t i = 0; status == BRAID_OK && !o->common.json && i < count; i++)
    cli_table_print(&tables[i], i == last ? SIZE_MAX - 1 : MOST_ROWS);
  for (size_t i = 0; i < count; i++) cli_table_end(&tables[i]);
  return status;
}

int cli_simulate_cluster(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"trace", KEY_TRACE, "FILE", 0,
       "Requests of tenants whose arrivals are `trace` come as those of this file do "
       "(TIMESTAMP,ContextTokens,GeneratedTokens, of AzurePublicDataset)",
       0},
      {"seed", KEY_SEED, "N", 0, "Of what is drawn: arrivals and times of runs (default 1)", 0},
      {"moves", KEY_MOVES, NULL, 0, "Print which models were moved when, and why", 0},
      {"html", KEY_HTML, "FILE", 0, "Write a page with all tables", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "SCENARIO", doc, children, NULL, NULL};
  options o = {.how = {.seed = 1}};
  braid_cluster_simulated *result;
  cli_parse(&argp, argc, argv, &o);
  cli_end_on_interrupt(&o.common, "simulate");
  const cli_file files[] = {
      {"the scenario", o.how.scenario, false}, {"--trace", o.how.trace, false}, {"--html", o.html, true}};
  braid_status status = cli_check_files(files, sizeof files / sizeof *files);
  if (status == BRAID_OK) status = braid_cluster_simulate(&o.how, &result);
  if (status == BRAID_OK) {
    status = show(&o, result);
    braid_cluster_simulated_destroy(result);
  }
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "simulate", status);
}
