#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles.h"

static const char doc[] =
    "Measures operations alone on each device, and keeps what they take in a database: time, energy and power where "
    "the "
    "device has a counter or a sensor, bandwidth, instructions per cycle. `braid plan` forecasts with it."
    "\vWithout --model and --ops the operations of Hype-training's Table 1 are measured at three sizes; with --import, "
    "--show, --html or --save-platform alone nothing is. What the database has already is measured again only if it is "
    "stale (another device, driver, version or "
    "number of threads, or too old); Ctrl-C leaves what was measured, and the next call goes on there. Unknown is "
    "unknown, never 0. docs/profiling.md says how everything is measured.\n"
    "\nExamples:\n"
    "  braid profile --db here.db --ops all --show\n"
    "  braid profile --db here.db --model models/resnet20.cfg --train --batch 128 --devices \"cpu opencl0\"\n"
    "  braid profile --db here.db --save-platform here.yaml\n"
    "  braid plan models/resnet20.cfg --train --batch 128 --platform here.yaml --policy cpu-only\n"
    "  braid profile --db here.db --ops MatMul,Conv --sizes small,medium --beside MatMul:medium@opencl0\n"
    "  braid profile --db here.db --forget-bad\n"
    "  braid profile --db published.db --import hype-training --html published.html\n";

enum {
  KEY_DB = CLI_FIRST_KEY,
  KEY_DEVICES,
  KEY_MODEL,
  KEY_WEIGHTS,
  KEY_SHAPE,
  KEY_TRAIN,
  KEY_DISCRIMINATOR,
  KEY_BATCH,
  KEY_OPS,
  KEY_SIZES,
  KEY_SECONDS,
  KEY_AGE,
  KEY_DRIFT,
  KEY_CHECKS,
  KEY_AGAIN,
  KEY_FORGET_BAD,
  KEY_BESIDE,
  KEY_IMPORT,
  KEY_SHOW,
  KEY_ROWS,
  KEY_HTML,
  KEY_SAVE_PLATFORM,
  KEY_PLATFORM,
  KEY_PLUGIN,
  KEY_THREADS,
};

/* --- options -------------------------------------------------------------------------------------------------------
 */
static void check_options(cli_profile_options *o, struct argp_state *state) {
  if (!o->db) argp_error(state, "--db is expected: the file of the database");
  if (!o->source.path && (o->train || o->batch || o->source.options.weights || o->source.shapes.count))
    argp_error(state, "--train, --batch, --weights and --shape are of a model: --model is expected");
  if (o->discriminator && !o->train) argp_error(state, "--discriminator is of --train");
  if (o->measuring.sizes && !o->measuring.ops) argp_error(state, "--sizes are of --ops");
  bool shows = o->show || o->html || o->save_platform || o->import_count || o->forget_bad;
  o->measure = o->source.path || o->measuring.ops || o->measuring.beside || o->measuring.again || !shows;
  if (o->measure && !o->source.path && !o->measuring.ops) o->measuring.ops = "all";
}

static error_t parse_measuring(int key, char *argument, struct argp_state *state) {
  cli_profile_options *o = state->input;
  switch (key) {
  case KEY_OPS:
    o->measuring.ops = argument;
    return 0;
  case KEY_SIZES:
    o->measuring.sizes = argument;
    return 0;
  case KEY_SECONDS:
    o->measuring.seconds = cli_number(state, "--seconds", argument, 1e-3, 600);
    return 0;
  case KEY_AGE:
    o->measuring.most_days = cli_number(state, "--max-age", argument, 0, 1e6);
    return 0;
  case KEY_DRIFT:
    o->measuring.drift = cli_number(state, "--drift", argument, 1e-3, 1e9);
    return 0;
  case KEY_CHECKS:
    o->measuring.checks = (int)cli_integer(state, "--checks", argument, 0, 65536);
    return 0;
  case KEY_AGAIN:
    o->measuring.again = true;
    return 0;
  case KEY_FORGET_BAD:
    o->forget_bad = true;
    return 0;
  case KEY_BESIDE:
    o->measuring.beside = argument;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse_model(int key, char *argument, struct argp_state *state) {
  cli_profile_options *o = state->input;
  switch (key) {
  case KEY_MODEL:
    o->source.path = argument;
    return 0;
  case KEY_WEIGHTS:
    o->source.options.weights = argument;
    return 0;
  case KEY_SHAPE:
    cli_assign(state, &o->source.shapes, argument);
    return 0;
  case KEY_TRAIN:
    o->train = true;
    return 0;
  case KEY_DISCRIMINATOR:
    o->discriminator = argument;
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, 1 << 20);
    return 0;
  case KEY_DEVICES:
    o->measuring.devices = argument;
    return 0;
  case KEY_PLATFORM:
    o->place.platform = argument;
    return 0;
  case KEY_PLUGIN:
    cli_add_plugin(state, &o->place, argument);
    return 0;
  case KEY_THREADS:
    o->measuring.threads = (int)cli_integer(state, "--threads", argument, 0, 4096);
    return 0;
  default:
    return parse_measuring(key, argument, state);
  }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  cli_profile_options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_DB:
    o->db = argument;
    return 0;
  case KEY_IMPORT:
    if (o->import_count == CLI_PROFILE_IMPORTS) argp_error(state, "--import: more than %d", CLI_PROFILE_IMPORTS);
    o->imports[o->import_count++] = argument;
    return 0;
  case KEY_SHOW:
    o->show = true;
    return 0;
  case KEY_ROWS:
    o->rows = cli_integer(state, "--rows", argument, 0, INT64_MAX);
    return 0;
  case KEY_HTML:
    o->html = argument;
    return 0;
  case KEY_SAVE_PLATFORM:
    o->save_platform = argument;
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return parse_model(key, argument, state);
  }
}

/* --- measuring -----------------------------------------------------------------------------------------------------
 */
static bool show_progress(void *context, size_t done, size_t total, const char *what) {
  (void)what;
  cli_progress_update(context, (int64_t)done, (int64_t)total, NULL);
  return !cli_interrupted();
}

static braid_status make_step(const cli_profile_options *o, const braid_graph *graph, braid_graph **out) {
  braid_graph *other = NULL;
  braid_model_options how = o->source.options;
  how.log = cli_log();
  how.weights = NULL;
  braid_status status = o->discriminator ? braid_model_load(NULL, o->discriminator, &how, &other) : BRAID_OK;
  if (status == BRAID_OK)
    status = cli_blame_model(&o->source, braid_planning_step(graph, other, o->batch ? o->batch : 128, out));
  braid_graph_destroy(other);
  return status;
}

static braid_status make_graph(const cli_profile_options *o, braid_graph **out) {
  braid_graph *graph;
  *out = NULL;
  if (!o->source.path) return BRAID_OK;
  braid_status status = cli_load(&o->source, &graph);
  if (status != BRAID_OK) return status;
  if (o->train) {
    status = make_step(o, graph, out);
    braid_graph_destroy(graph);
    return status;
  }
  if (o->batch) status = cli_set_batch(graph, o->batch);
  if (status == BRAID_OK) status = braid_resolve(graph);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return cli_blame_model(&o->source, status);
}

static braid_status measure(cli_profile_options *o, braid_profile_db *db, braid_profile_report *report) {
  cli_progress progress;
  cli_progress_begin(&progress, "profiling");
  o->measuring.progress = show_progress;
  o->measuring.context = &progress;
  braid_status status = braid_profile_measure(o->place.registry, db, &o->measuring, report);
  cli_progress_end(&progress);
  size_t done = report->measured + report->unable;
  if (status == BRAID_CANCELLED)
    return braid_fail(status,
                      "interrupted: %zu operations measured so far are in %s, %zu were there; call again to go on",
                      done, o->db, report->kept);
  return status;
}

static braid_status import_all(const cli_profile_options *o, braid_profile_db *db) {
  for (size_t i = 0; i < o->import_count; i++) {
    size_t count;
    braid_status status = braid_profile_import(db, o->imports[i], &count);
    if (status != BRAID_OK) return braid_fail_prefix(status, "--import %s", o->imports[i]);
    if (!o->common.json)
      printf("%s: %zu %s imported into %s\n", o->imports[i], count, count == 1 ? "row" : "rows", o->db);
  }
  return BRAID_OK;
}

static braid_status forget_bad(cli_profile_options *o, braid_profile_db *db) {
  braid_status status = braid_profile_forget_bad(db, cli_log(), &o->forgotten);
  if (status == BRAID_OK && !o->common.json)
    printf("%s: %zu %s that can't be read %s deleted\n", o->db, o->forgotten, o->forgotten == 1 ? "row" : "rows",
           o->forgotten == 1 ? "was" : "were");
  return status;
}

/* What refuses to begin leaves no database behind. */
static braid_status check_work(const cli_profile_options *o) {
  for (size_t i = 0; i < o->import_count; i++) {
    braid_status status = braid_profile_import_check(NULL, o->imports[i]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "--import %s", o->imports[i]);
  }
  return o->measure ? braid_profile_options_check(o->place.registry, &o->measuring) : BRAID_OK;
}

static braid_status show_all(cli_profile_options *o, braid_profile_db *db, const braid_profile_report *report) {
  braid_profile_list list;
  braid_status status = braid_profile_list_create(db, NULL, &list);
  if (status == BRAID_OK)
    status = braid_profile_list_check(&list, o->place.registry, o->measuring.threads, o->measuring.most_days);
  if (status == BRAID_OK && o->save_platform) status = braid_profile_save_platform(&list, o->db, o->save_platform);
  if (status == BRAID_OK) status = cli_profile_show(o, db, &list, report);
  braid_profile_list_deinit(&list);
  return status;
}

/* Nothing is forgotten of a database that there is not. */
static braid_status check_there(const cli_profile_options *o) {
  braid_profile_db *db;
  braid_status status = braid_profile_db_open(NULL, o->db, BRAID_PROFILE_READ, &db);
  braid_profile_db_close(db);
  return status;
}

static braid_status run_profile(cli_profile_options *o) {
  braid_profile_report report = {0};
  braid_profile_db *db = NULL;
  braid_graph *graph = NULL;
  braid_status status = cli_open_registry(&o->place);
  if (status == BRAID_OK && o->measure) status = make_graph(o, &graph);
  o->measuring.graph = graph;
  if (status == BRAID_OK) status = check_work(o);
  if (status == BRAID_OK && o->forget_bad) status = check_there(o);
  if (status == BRAID_OK)
    status = braid_profile_db_open(
        NULL, o->db, o->measure || o->import_count || o->forget_bad ? BRAID_PROFILE_WRITE : BRAID_PROFILE_READ, &db);
  if (status == BRAID_OK && o->forget_bad) status = forget_bad(o, db);
  if (status == BRAID_OK) status = import_all(o, db);
  if (status == BRAID_OK && o->measure) status = measure(o, db, &report);
  if (status == BRAID_OK) status = show_all(o, db, o->measure ? &report : NULL);
  braid_profile_db_close(db);
  braid_graph_destroy(graph);
  return status;
}

int cli_profile(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"db", KEY_DB, "FILE", 0, "The database (SQLite); it is made if it is not there", 0},
      {"devices", KEY_DEVICES, "LIST", 0, "Devices, as listed by `braid devices`, separated by spaces (default: all)",
       0},
      {"model", KEY_MODEL, "MODEL", 0, "Measure the operations of a model: a .onnx or .cfg file", 1},
      {"train", KEY_TRAIN, NULL, 0, "Measure the operations of the model's training step", 1},
      {"discriminator", KEY_DISCRIMINATOR, "MODEL", 0,
       "With --train: train against this network, which takes what the model gives", 1},
      {"batch", KEY_BATCH, "N", 0, "Samples (default: the model's batch size, else 1; with --train 128)", 1},
      {"weights", KEY_WEIGHTS, "FILE", 0, "The .weights file of a Darknet model", 1},
      {"shape", KEY_SHAPE, "[NAME=]DIMS", 0, "Shape of an input, e.g. 1x3x224x224", 1},
      {"ops", KEY_OPS, "LIST", 0, "Measure operations at given sizes: MatMul,Conv,... or \"all\" of Table 1", 2},
      {"sizes", KEY_SIZES, "LIST", 0, "Sizes for --ops: small,medium,large (default: all three)", 2},
      {"beside", KEY_BESIDE, "OP:SIZE@DEVICE", 0, "Measure while this operation runs on another device", 2},
      {"seconds", KEY_SECONDS, "S", 0, "Time for each operation, and as much for its energy (default 0.3)", 3},
      {"again", KEY_AGAIN, NULL, 0, "Measure everything again, and say what drifts", 3},
      {"forget-bad", KEY_FORGET_BAD, NULL, 0,
       "Delete entries that can't be read, for instance of an older version; they count as never measured", 3},
      {"checks", KEY_CHECKS, "N", 0, "Entries of each device, the oldest, to measure again for drift (default 3)", 3},
      {"drift", KEY_DRIFT, "N", 0, "MADs between two measurements that are drift (default 8)", 3},
      {"max-age", KEY_AGE, "DAYS", 0, "Older entries are stale (default 90)", 3},
      {"import", KEY_IMPORT, "FILE", 0, "Add a published profile (YAML), or one of the library's by its name", 4},
      {"show", KEY_SHOW, NULL, 0, "Show what the database has, also after measuring", 4},
      {"rows", KEY_ROWS, "N", 0, "Show the N longest operations of models (default 20)", 4},
      {"html", KEY_HTML, "FILE", 0, "Write a page with plots, tables and thresholds", 4},
      {"save-platform", KEY_SAVE_PLATFORM, "FILE", 0, "Write a platform file of this machine for `braid plan`", 4},
      {"plugin", KEY_PLUGIN, "FILE", 0, "Load a backend from a shared object (may be repeated)", 80},
      {"platform", KEY_PLATFORM, "FILE", 0, "Platform file (YAML): names devices and splits them into parts", 80},
      {"threads", KEY_THREADS, "N", 0, "CPU threads (0: as many as this process may use)", 80},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, NULL, doc, children, NULL, NULL};
  cli_profile_options o = {.rows = 20};
  braid_profile_options_init(&o.measuring);
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_status status = run_profile(&o);
  cli_close_registry(&o.place);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "profile", status);
}
