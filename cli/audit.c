#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static const char doc[] =
    "Computes steps of LEDGER, which braid train --precision int8 --ledger wrote, again, from the nearest checkpoint "
    "before them or from the start of training, and names the first step, layer and operation whose result differs."
    "\vSPEC is the data set of the run as it was given to braid train. Exit code 0: the data and all steps agree; 1: a "
    "step differs, or the data hold other numbers than those whose hash the ledger has; 2: this is no ledger, its "
    "chain "
    "is broken, or the model or the form of the data is not that of the run.\n"
    "\nExamples:\n"
    "  braid audit lenet.ledger --data idx:DIR,mean=0.13,std=0.31\n"
    "  braid audit lenet.ledger --data idx:DIR,mean=0.13,std=0.31 --checkpoints lenet --steps 900..\n"
    "  braid audit lenet.ledger --data idx:OTHER --model models/lenet.cfg --threads 1 --json\n";

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  const char *ledger, *data;
  char *folder, *model; /* found, allocated */
  bool folder_given;
  braid_audit_options audit;
} options;

enum { KEY_DATA = CLI_FIRST_KEY, KEY_MODEL, KEY_WEIGHTS, KEY_CHECKPOINTS, KEY_STEPS };

/* A..B, A.., ..B or A. */
static void parse_steps(struct argp_state *state, char *text, braid_audit_options *out) {
  char *last = strstr(text, "..");
  if (last) *last = '\0', last += 2;
  if (!*text && (!last || !*last)) argp_error(state, "--steps: A..B, A.., ..B or A is expected");
  if (*text) out->first = cli_integer(state, "--steps", text, 1, INT64_MAX);
  if (!last) out->last = out->first;
  if (last && *last) out->last = cli_integer(state, "--steps", last, 1, INT64_MAX);
  if (out->last && out->first > out->last) argp_error(state, "--steps: the first is after the last");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->place;
    state->child_inputs[1] = &o->common;
    return 0;
  case KEY_DATA:
    o->data = argument;
    return 0;
  case KEY_MODEL:
    o->source.path = argument;
    return 0;
  case KEY_WEIGHTS:
    o->source.options.weights = argument;
    return 0;
  case KEY_CHECKPOINTS:
    o->audit.checkpoints = argument;
    o->folder_given = true;
    return 0;
  case KEY_STEPS:
    parse_steps(state, argument, &o->audit);
    return 0;
  case ARGP_KEY_ARG:
    if (o->ledger) argp_error(state, "one ledger is expected, \"%s\" is a second one", argument);
    o->ledger = argument;
    return 0;
  case ARGP_KEY_END:
    if (!o->ledger) argp_error(state, "a ledger is expected, as braid train --ledger writes it");
    if (!o->data) argp_error(state, "--data SPEC is expected: the data set of the run");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static bool draw_progress(void *context, int64_t done, int64_t total) {
  cli_progress_update(context, done, total, NULL);
  return !cli_interrupted();
}

/* The folder of the ledger. */
static braid_status find_folder(options *o) {
  const char *slash = strrchr(o->ledger, '/');
  struct stat about;
  if (o->folder_given && (stat(o->audit.checkpoints, &about) != 0 || !S_ISDIR(about.st_mode)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "--checkpoints %s: is not a folder", o->audit.checkpoints);
  o->folder = slash ? strndup(o->ledger, slash == o->ledger ? 1 : (size_t)(slash - o->ledger)) : strdup(".");
  if (!o->folder) return cli_no_memory();
  if (!o->folder_given) o->audit.checkpoints = o->folder;
  return BRAID_OK;
}

/* A ledger may come from anybody, and is followed to no file but below the current folder or its own. */
static bool leads_down(const char *path) {
  if (path[0] == '/') return false;
  for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2])) return false;
  return true;
}

/* Sets the model if FOLDER/name can be read. */
static braid_status try_model(options *o, const char *in, const char *name) {
  free(o->model);
  if (asprintf(&o->model, "%s/%s", in, name) < 0) {
    o->model = NULL;
    return cli_no_memory();
  }
  if (access(o->model, R_OK) == 0) o->source.path = o->model;
  return BRAID_OK;
}

/* Where the ledger says it was, from here or from the ledger's folder, or beside the ledger. */
static braid_status find_model(options *o, const braid_ledger *ledger) {
  const char *said = braid_ledger_get_info(ledger).model;
  if (o->source.path) return BRAID_OK;
  if (!said)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s does not say where the model is: give it with --model", o->ledger);
  const char *name = strrchr(said, '/') ? strrchr(said, '/') + 1 : said;
  braid_status status = BRAID_OK;
  if (leads_down(said)) status = try_model(o, ".", said);
  if (status == BRAID_OK && !o->source.path && leads_down(said)) status = try_model(o, o->folder, said);
  if (status == BRAID_OK && !o->source.path && leads_down(name)) status = try_model(o, o->folder, name);
  if (status != BRAID_OK || o->source.path) return status;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "%s is of the model %.200s, which is neither below the current folder nor beside the ledger: give "
                    "it with --model",
                    o->ledger, said);
}

static void print_json(const options *o, const braid_ledger_info *info, int64_t whole, const braid_audit_result *r) {
  cli_json json;
  if (!cli_json_begin(&json)) return;
  cli_json_string(&json, "ledger", o->ledger);
  cli_json_string(&json, "model", o->source.path);
  cli_json_string(&json, "data", o->data);
  cli_json_integer(&json, "steps", info->steps);
  cli_json_integer(&json, "steps_of_run", whole);
  cli_json_string(&json, "chain", info->chain);
  cli_json_bool(&json, "torn", info->torn);
  cli_json_integer(&json, "from", r->from);
  cli_json_integer(&json, "checked", r->checked);
  cli_json_bool(&json, "agrees", r->agrees);
  cli_json_bool(&json, "data_agree", !r->other_data[0]);
  if (r->other_data[0]) cli_json_string(&json, "other_data", r->other_data);
  cli_json_bool(&json, "steps_agree", r->steps_agree);
  if (!r->steps_agree) {
    cli_json_object(&json, "first_difference");
    cli_json_integer(&json, "step", r->step);
    cli_json_integer(&json, "line", (int64_t)r->line);
    cli_json_string(&json, "layer", r->layer);
    cli_json_string(&json, "operation", r->operation);
    cli_json_string(&json, "what", r->what);
    cli_json_close(&json, '}');
  }
  cli_json_end(&json);
}

/* A ledger may hold anything. */
static void print_quoted(const char *before, const char *text) {
  fputs(before, stdout);
  cli_print_escaped(stdout, text);
  putchar('\n');
}

static void print_difference(const char *from, const braid_audit_result *r) {
  printf("differs from %s on\n  step       %" PRId64 " (line %zu)\n", from, r->step, r->line);
  print_quoted("  layer      ", r->layer[0] ? r->layer : "-");
  print_quoted("  operation  ", r->operation);
  print_quoted("  ", r->what);
}

static void print_text(const options *o, const braid_ledger_info *info, int64_t whole, const braid_audit_result *r) {
  char from[64] = "the start of training";
  if (r->from) snprintf(from, sizeof from, "the checkpoint of step %" PRId64, r->from);
  printf("%s: %" PRId64 " of the %" PRId64 " steps of its run, chain %s\n", o->ledger, info->steps, whole, info->chain);
  if (r->other_data[0])
    print_quoted("the data set is another than that of the ledger, whose claim is of its own alone:\n  ",
                 r->other_data);
  if (r->steps_agree && r->checked)
    printf("steps %" PRId64 " to %" PRId64 ", computed again from %s, agree\n", r->from + 1, r->from + r->checked,
           from);
  else if (r->steps_agree)
    printf("%s agrees, and there are no steps\n", from);
  else
    print_difference(from, r);
}

/* `training`: the run's options. */
static braid_status audit(options *o, braid_ledger *ledger, const braid_train_options *training,
                          const braid_graph *model, braid_dataset *data, bool *agrees) {
  braid_ledger_info info = braid_ledger_get_info(ledger);
  braid_audit_result result;
  cli_progress progress;
  cli_progress_begin(&progress, "auditing");
  braid_status status = braid_audit(ledger, model, data, &o->audit, draw_progress, &progress, &result);
  cli_progress_end(&progress);
  if (status != BRAID_OK) return status;
  if (info.torn)
    braid_log_write(cli_log(), BRAID_LOG_WARNING, "%s: its last line is not whole, and left out", o->ledger);
  *agrees = result.agrees;
  int64_t whole = training->epochs * (braid_dataset_get_info(data).samples / training->batch);
  if (o->common.json)
    print_json(o, &info, whole, &result);
  else
    print_text(o, &info, whole, &result);
  return BRAID_OK;
}

int cli_audit(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"data", KEY_DATA, "SPEC", 0, "The data set of the run, with its normalization and augmentation", 0},
      {"steps", KEY_STEPS, "A..B", 0, "Steps A to B, counted from 1 (default: all); also A.., ..B and A", 0},
      {"checkpoints", KEY_CHECKPOINTS, "DIR", 0,
       "Folder of the run's checkpoints; the nearest one before the steps is where the audit begins (default: the "
       "ledger's folder)",
       0},
      {"model", KEY_MODEL, "MODEL", 0,
       "The model that was trained (default: where the ledger says it was, if that is below the current folder, or "
       "beside "
       "the ledger)",
       0},
      {"weights", KEY_WEIGHTS, "FILE", 0, "The .weights file of a Darknet model that was trained from one", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_place_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "LEDGER", doc, children, NULL, NULL};
  options o = {.ledger = NULL};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_ledger *ledger = NULL;
  braid_graph *model = NULL;
  braid_dataset *data = NULL;
  braid_train_options training;
  bool agrees = false;
  braid_status status = cli_open_registry(&o.place);
  o.audit.devices = o.place.devices;
  o.audit.place = o.place.patterns;
  o.audit.threads = o.place.threads;
  o.audit.trace = o.place.trace;
  o.audit.registry = o.place.registry;
  if (status == BRAID_OK) status = find_folder(&o);
  if (status == BRAID_OK) status = braid_ledger_open(NULL, o.ledger, &ledger);
  if (status == BRAID_OK) status = braid_ledger_options(ledger, &training);
  if (status == BRAID_OK) status = find_model(&o, ledger);
  if (status == BRAID_OK) {
    o.source.options.seed = training.seed;
    status = cli_load(&o.source, &model);
  }
  if (status == BRAID_OK) status = braid_dataset_open(NULL, o.data, "train", &data);
  if (status == BRAID_OK) status = audit(&o, ledger, &training, model, data, &agrees);
  if (data) braid_dataset_close(data);
  braid_graph_destroy(model);
  braid_ledger_close(ledger);
  cli_close_registry(&o.place);
  free(o.folder);
  free(o.model);
  if (status != BRAID_OK) return cli_fail(&o.common, "audit", status);
  return agrees ? CLI_OK : CLI_FAILED;
}
