#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char doc[] = "Lists the available devices; with --check, runs the device conformance suite on one."
                          "\vExamples:\n"
                          "  braid devices\n"
                          "  braid devices --json\n"
                          "  braid devices --check cpu\n"
                          "  braid devices --check opencl0 --case MatMul --verbose\n"
                          "  braid devices --check remote:gpuhost:8002/gpu\n"
                          "  braid devices --platform split.yaml --check fpga0.1\n";

typedef struct options {
  cli_common common;
  cli_place place; /* only the platform file and plug-ins */
  const char *check;
  braid_check_options suite;
} options;

enum { KEY_CHECK = CLI_FIRST_KEY, KEY_PLATFORM, KEY_PLUGIN, KEY_CASE, KEY_SEED, KEY_PATIENCE };

static uint64_t parse_number(struct argp_state *state, const char *option, const char *text, uint64_t most) {
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || !value || value > most)
    argp_error(state, "--%s \"%s\": expected a whole number from 1 to %" PRIu64, option, text, most);
  return value;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_CHECK:
    o->check = argument;
    return 0;
  case KEY_CASE:
    o->suite.only = argument;
    return 0;
  case KEY_SEED:
    o->suite.seed = parse_number(state, "seed", argument, INT64_MAX);
    return 0;
  case KEY_PATIENCE:
    o->suite.patience_ns = (int64_t)parse_number(state, "patience", argument, 86400) * 1000000000;
    return 0;
  case KEY_PLUGIN:
    cli_add_plugin(state, &o->place, argument);
    return 0;
  case KEY_PLATFORM:
    o->place.platform = argument;
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "no argument is expected, not \"%s\"", argument);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const char *memory_name(braid_memory_kind kind) {
  return kind == BRAID_MEMORY_UNIFIED ? "unified" : "separate";
}

/* A device of the list. Its options and software are known only when it is open. */
typedef struct listed {
  braid_device_info info;
  char why[256]; /* why it cannot be opened; info is then that of the list */
} listed;

static void open_listed(braid_registry *registry, listed *l) {
  braid_device *device;
  braid_status status = braid_device_open(registry, l->info.name, &device);
  if (status == BRAID_OK) {
    l->info = *braid_device_get_info(device);
    braid_device_close(device);
    return;
  }
  const char *detail = braid_error_detail();
  snprintf(l->why, sizeof l->why, "%s", detail[0] ? detail : braid_status_text(status));
}

static void print_device(const listed *l) {
  const braid_device_info *info = &l->info;
  char memory[32] = "?", units[16] = "?";
  if (info->memory_bytes) cli_format_bytes((double)info->memory_bytes, memory, sizeof memory);
  if (info->compute_units) snprintf(units, sizeof units, "%" PRIu32, info->compute_units);
  printf("%-10s %-6s %5s %6" PRIu32 " %11s %-9s %-9s %s\n", info->name, info->kind, units, info->max_queues, memory,
         memory_name(info->memory),
         info->modelled        ? "modelled"
         : info->measures_time ? "measured"
                               : "unknown",
         info->description);
  if (info->software[0]) printf("%10s with %s\n", "", info->software);
  if (info->lacks[0]) printf("%10s %s\n", "", info->lacks);
  if (l->why[0]) printf("%10s cannot be opened: %s\n", "", l->why);
}

/* 0 is unknown, and null. */
static void print_known_json(cli_json *json, const char *key, uint64_t value) {
  if (value)
    cli_json_integer(json, key, (int64_t)value);
  else
    cli_json_number(json, key, NAN);
}

static void print_device_json(cli_json *json, const listed *l) {
  const braid_device_info *info = &l->info;
  cli_json_object(json, NULL);
  cli_json_string(json, "name", info->name);
  cli_json_string(json, "kind", info->kind);
  cli_json_string(json, "description", info->description);
  cli_json_string(json, "memory", memory_name(info->memory));
  print_known_json(json, "memory_bytes", info->memory_bytes);
  print_known_json(json, "compute_units", info->compute_units);
  cli_json_integer(json, "queues", info->max_queues);
  cli_json_bool(json, "measures_time", info->measures_time);
  cli_json_bool(json, "modelled", info->modelled);
  cli_json_string(json, "software", info->software);
  cli_json_string(json, "lacks", info->lacks);
  cli_json_string(json, "error", l->why);
  cli_json_close(json, '}');
}

/* Backends without devices that say why. */
static void show_absent(const braid_registry *registry, cli_json *json) {
  const char *name, *why;
  for (size_t i = 0; (name = braid_registry_absence(registry, i, &why)); i++) {
    if (!json) {
      printf("%-10s none: %s\n", name, why);
      continue;
    }
    cli_json_object(json, NULL);
    cli_json_string(json, "backend", name);
    cli_json_string(json, "why", why);
    cli_json_close(json, '}');
  }
}

static braid_status show(const options *o, const braid_registry *registry, const listed *devices, size_t count) {
  cli_json json;
  if (o->common.json) {
    if (!cli_json_begin(&json)) return cli_no_memory();
    cli_json_array(&json, "devices");
    for (size_t i = 0; i < count; i++) print_device_json(&json, &devices[i]);
    cli_json_close(&json, ']');
    cli_json_array(&json, "absent");
    show_absent(registry, &json);
    cli_json_close(&json, ']');
    cli_json_end(&json);
    return BRAID_OK;
  }
  printf("%-10s %-6s %5s %6s %11s %-9s %-9s %s\n", "name", "kind", "units", "queues", "memory", "is", "times",
         "description");
  for (size_t i = 0; i < count; i++) print_device(&devices[i]);
  show_absent(registry, NULL);
  return BRAID_OK;
}

static braid_status list(const options *o, braid_registry *registry) {
  size_t count = 0;
  braid_status status = braid_registry_devices(registry, NULL, 0, &count);
  if (status != BRAID_OK) return status;
  size_t capacity = count;
  braid_device_info *infos = calloc(capacity + 1, sizeof *infos);
  listed *devices = calloc(capacity + 1, sizeof *devices);
  status = infos && devices ? braid_registry_devices(registry, infos, capacity, &count) : cli_no_memory();
  if (count > capacity) count = capacity; /* one came up in between */
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    devices[i].info = infos[i];
    open_listed(registry, &devices[i]);
  }
  if (status == BRAID_OK) status = show(o, registry, devices, count);
  free(infos);
  free(devices);
  return status;
}

typedef struct suite {
  cli_json json;
  bool as_json, verbose;
} suite;

static const char *result_name(braid_case_result result) {
  return result == BRAID_CASE_PASSED ? "passed" : result == BRAID_CASE_FAILED ? "failed" : "not claimed";
}

static void report_case(void *context, const char *name, braid_case_result result, const char *detail) {
  static const char *const kWords[] = {
      [BRAID_CASE_PASSED] = "ok  ", [BRAID_CASE_FAILED] = "FAIL", [BRAID_CASE_UNSUPPORTED] = "none"};
  suite *s = context;
  if (!s->as_json) {
    if (result == BRAID_CASE_UNSUPPORTED && !s->verbose) return;
    printf("%s %s%s%s\n", kWords[result], name, detail[0] ? ": " : "", detail);
    (void)fflush(stdout); /* the next one may take a while */
    return;
  }
  cli_json_object(&s->json, NULL);
  cli_json_string(&s->json, "case", name);
  cli_json_string(&s->json, "result", result_name(result));
  cli_json_string(&s->json, "detail", detail);
  cli_json_close(&s->json, '}');
}

static bool is_interrupted(void *context) {
  (void)context;
  return cli_interrupted();
}

static void print_counts(suite *s, const braid_check_counts *counts) {
  if (!s->as_json) {
    printf("seed %" PRIu64 ": %zu passed, %zu failed, %zu not claimed%s\n", counts->seed, counts->passed,
           counts->failed, counts->not_claimed, counts->not_claimed && !s->verbose ? " (--verbose lists them)" : "");
    return;
  }
  cli_json_close(&s->json, ']');
  cli_json_integer(&s->json, "seed", (int64_t)counts->seed);
  cli_json_integer(&s->json, "passed", (int64_t)counts->passed);
  cli_json_integer(&s->json, "failed", (int64_t)counts->failed);
  cli_json_integer(&s->json, "not_claimed", (int64_t)counts->not_claimed);
  cli_json_end(&s->json);
}

static braid_status devices_check(const options *o, braid_registry *registry, braid_check_counts *counts) {
  braid_device *device;
  braid_status status = braid_device_open(registry, o->check, &device);
  if (status != BRAID_OK) return status;
  suite s = {.as_json = o->common.json, .verbose = o->common.verbose};
  if (s.as_json) {
    if (!cli_json_begin(&s.json)) {
      braid_device_close(device);
      return cli_no_memory();
    }
    cli_json_string(&s.json, "device", o->check);
    cli_json_array(&s.json, "cases");
  }
  braid_check_options checks = o->suite;
  checks.cancelled = is_interrupted;
  status = braid_device_conformance(device, &checks, report_case, &s, counts);
  if (!counts->stopped) braid_device_close(device);
  if (status == BRAID_OK && !counts->passed && !counts->failed && !counts->not_claimed)
    status = braid_fail(BRAID_INVALID_ARGUMENT, "--case: no case has \"%.100s\" in its name",
                        checks.only ? checks.only : "");
  if (status == BRAID_OK)
    print_counts(&s, counts);
  else if (s.as_json)
    cli_json_discard(&s.json);
  return status;
}

int cli_devices(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"check", KEY_CHECK, "SPEC", 0, "Run the device conformance suite on this device", 0},
      {"case", KEY_CASE, "TEXT", 0, "With --check: only cases whose name has TEXT from the beginning of a word on", 0},
      {"seed", KEY_SEED, "N", 0, "With --check: seed of random sizes and contents", 0},
      {"patience", KEY_PATIENCE, "SECONDS", 0, "With --check: time limit of a task (default 60)", 0},
      {"plugin", KEY_PLUGIN, "FILE", 0, "Load a backend from a shared object (may be repeated)", 0},
      {"platform", KEY_PLATFORM, "FILE", 0, "Platform file (YAML): names devices and splits them into parts", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, NULL, doc, children, NULL, NULL};
  options o = {.check = NULL};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_check_counts counts = {.failed = 0};
  braid_status status = cli_open_registry(&o.place);
  if (status == BRAID_OK)
    status = cli_go_on(o.check ? devices_check(&o, o.place.registry, &counts) : list(&o, o.place.registry));
  if (!counts.stopped) cli_close_registry(&o.place);
  if (status != BRAID_OK) return cli_fail(&o.common, "devices", status);
  return counts.failed ? CLI_FAILED : CLI_OK;
}
