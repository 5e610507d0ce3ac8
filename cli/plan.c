#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_graph.h"
#include "table.h"

static const char doc[] =
    "Forecasts a network on modelled machines: places its operations by a policy and says how long a run or a training "
    "step takes, what power it draws and what energy it costs. Nothing runs; all times, powers and energies are "
    "modelled, from the profile that the platform file names."
    "\vSeveral policies (P,P ...) and platforms (--platform repeated) are compared in one table. A platform is a file "
    "or a name; docs/planning.md has the names, the keys of files, the policies, and how numbers are found.\n"
    "With --json the numbers of one plan stand in the document itself, those of several in its list \"plans\".\n"
    "\nExamples:\n"
    "  braid plan models/resnet50.cfg --train --batch 256 --platform v100-s10x3\n"
    "  braid plan models/vgg16.cfg --train --batch 256 --platform v100-s10x3 --policy dvfs,hybrid-cap --power-cap 230\n"
    "  braid plan models/dcgan-generator.cfg --train --discriminator models/dcgan-discriminator.cfg --batch 256 "
    "--platform v100-s10x3\n"
    "  braid plan net.onnx --platform mine.yaml --policy hybrid-energy --explain --trace plan.json\n"
    "  braid plan models/lenet.cfg --platform v100-s10x3 --place '*Conv=gpu,*=fpga0'\n";

enum { MOST_PLATFORMS = 16, MOST_POLICIES = 16, MOST_PLANS = MOST_PLATFORMS * MOST_POLICIES };
enum {
  KEY_PLATFORM = CLI_FIRST_KEY,
  KEY_POLICY,
  KEY_CAP,
  KEY_BATCH,
  KEY_TRAIN,
  KEY_DISCRIMINATOR,
  KEY_BASELINE,
  KEY_EXPLAIN,
  KEY_NO_BOUND,
  KEY_TRACE,
  KEY_HTML,
  KEY_SAVE,
  KEY_PLACE,
};

typedef struct options {
  cli_common common;
  cli_source source;
  const char *platforms[MOST_PLATFORMS], *policies[MOST_POLICIES], *baseline, *trace, *html, *discriminator, *save,
      *place;
  size_t platform_count, policy_count;
  double cap;
  int64_t batch; /* 0: not given */
  bool train, explain, unbounded;
} options;

/* A forecast and the one it is compared with: on the same platform, without a cap. */
typedef struct planned {
  const char *platform, *policy;
  braid_forecast *forecast, *baseline; /* forecast: NULL: refused */
  char refusal[512];
} planned;

typedef struct plans {
  planned items[MOST_PLANS];
  size_t count;
  braid_modelled_machine *machines[MOST_PLATFORMS];
  braid_forecast *baselines[MOST_PLATFORMS];
  int64_t batch;
} plans;

/* --- options -------------------------------------------------------------------------------------------------------
 */
static bool is_policy(const char *name) {
  for (size_t i = 0; i < braid_planning_policy_count(); i++)
    if (strcmp(braid_planning_policy_name(i), name) == 0) return true;
  return false;
}

static void check_policy(struct argp_state *state, const char *option, const char *name) {
  if (!is_policy(name)) argp_error(state, "%s: there is no policy \"%s\"; --policy help lists them", option, name);
}

static void parse_policies(struct argp_state *state, char *text, options *o) {
  if (strcmp(text, "help") == 0) {
    exit(cli_list_policies(cli_wants_json(state->argc, state->argv)));
  }
  for (char *word = text, *next; word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    if (o->policy_count == MOST_POLICIES) argp_error(state, "--policy: more than %d", MOST_POLICIES);
    check_policy(state, "--policy", word);
    o->policies[o->policy_count++] = word;
  }
}

static void check_options(options *o, struct argp_state *state) {
  if (!o->platform_count) argp_error(state, "--platform is expected, for instance --platform v100-s10x3");
  if (o->discriminator && !o->train) argp_error(state, "--discriminator has no effect without --train");
  if (!o->policy_count && o->place) o->policies[o->policy_count++] = "manual";
  if (!o->policy_count) o->policies[o->policy_count++] = o->cap > 0 ? "hybrid-cap" : "hybrid-energy";
  if ((o->trace || o->html || o->save) && (o->platform_count > 1 || o->policy_count > 1))
    argp_error(state, "%s is of one plan: one platform and one policy are expected",
               o->trace  ? "--trace"
               : o->html ? "--html"
                         : "--save");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->common;
    return 0;
  case KEY_PLATFORM:
    if (o->platform_count == MOST_PLATFORMS) argp_error(state, "--platform: more than %d", MOST_PLATFORMS);
    o->platforms[o->platform_count++] = argument;
    return 0;
  case KEY_POLICY:
    parse_policies(state, argument, o);
    return 0;
  case KEY_CAP:
    o->cap = cli_number(state, "--power-cap", argument, 1e-3, 1e9);
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, 1 << 20);
    return 0;
  case KEY_TRAIN:
    o->train = true;
    return 0;
  case KEY_DISCRIMINATOR:
    o->discriminator = argument;
    return 0;
  case KEY_BASELINE:
    check_policy(state, "--baseline", argument);
    o->baseline = argument;
    return 0;
  case KEY_EXPLAIN:
    o->explain = true;
    return 0;
  case KEY_NO_BOUND:
    o->unbounded = true;
    return 0;
  case KEY_TRACE:
    o->trace = argument;
    return 0;
  case KEY_HTML:
    o->html = argument;
    return 0;
  case KEY_SAVE:
    o->save = argument;
    return 0;
  case KEY_PLACE:
    if (!argument[strspn(argument, " ")])
      argp_error(state, "--place: pattern=device,... is expected, not \"%s\"", argument);
    o->place = argument;
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- forecasts -----------------------------------------------------------------------------------------------------
 */
/* One refusal among several plans stands beside the others. */
static braid_status plan_item(const options *o, const cli_plan_graph *graph, const braid_modelled_machine *machine,
                              planned *item) {
  braid_forecast_options how = {.policy = item->policy,
                                .cap_watts = o->cap,
                                .replicas = graph->replicas,
                                .bound = !o->unbounded,
                                .place = o->place};
  braid_status status = braid_forecast_create(graph->graph, machine, &how, NULL, &item->forecast);
  if (status == BRAID_UNSUPPORTED && o->platform_count * o->policy_count > 1) {
    snprintf(item->refusal, sizeof item->refusal, "%s", braid_error_detail());
    braid_log_write(cli_log(), BRAID_LOG_INFO, "%s, %s: refused: %s", item->platform, item->policy, item->refusal);
    return BRAID_OK;
  }
  if (status == BRAID_OK && *braid_forecast_note(item->forecast))
    braid_log_write(cli_log(), BRAID_LOG_INFO, "%s, %s: %s", item->platform, item->policy,
                    braid_forecast_note(item->forecast));
  return status;
}

static braid_status plan_machine(const options *o, size_t i, cli_plan_graph *graph, plans *p) {
  braid_status status = braid_modelled_machine_load(NULL, o->platforms[i], &p->machines[i]);
  if (status != BRAID_OK) return status;
  int64_t replicas = o->train ? braid_modelled_machine_replicas(p->machines[i]) : 1;
  if (o->train) status = cli_plan_graph_step(&o->source, p->batch, replicas, graph);
  if (status != BRAID_OK) return status;
  braid_forecast_options base = {
      .policy = o->baseline ? o->baseline : "gpu-only", .cap_watts = INFINITY, .replicas = replicas};
  status = braid_forecast_create(graph->graph, p->machines[i], &base, NULL, &p->baselines[i]);
  for (size_t k = 0; k < o->policy_count && status == BRAID_OK; k++) {
    planned *item = &p->items[p->count++];
    *item = (planned){.platform = o->platforms[i], .policy = o->policies[k], .baseline = p->baselines[i]};
    status = plan_item(o, graph, p->machines[i], item);
  }
  return status;
}

/* The first plan that was not refused; NULL: all were. */
static const planned *first_made(const plans *p) {
  for (size_t i = 0; i < p->count; i++)
    if (p->items[i].forecast) return &p->items[i];
  return NULL;
}

static braid_status make_plans(const options *o, plans *p) {
  cli_plan_graph graph = {0};
  braid_status status = cli_plan_graph_load(&o->source, o->discriminator, &graph);
  p->batch = o->batch ? o->batch : o->train ? 128 : 1;
  if (status == BRAID_OK && !o->train) status = cli_plan_graph_inference(&o->source, o->batch, &p->batch, &graph);
  for (size_t i = 0; i < o->platform_count && status == BRAID_OK; i++) status = plan_machine(o, i, &graph, p);
  cli_plan_graph_deinit(&graph);
  if (status == BRAID_OK && !first_made(p)) return braid_fail(BRAID_UNSUPPORTED, "%s", p->items[0].refusal);
  return status;
}

static void end_plans(plans *p) {
  for (size_t i = 0; i < p->count; i++) braid_forecast_destroy(p->items[i].forecast);
  for (size_t i = 0; i < MOST_PLATFORMS; i++) {
    braid_forecast_destroy(p->baselines[i]);
    braid_modelled_machine_destroy(p->machines[i]);
  }
}

/* NAN where nothing runs. */
static double ratio(double a, double b) {
  return b > 0 ? a / b : NAN;
}

/* Samples a joule, relative to the baseline's. */
static double efficiency_gain(const planned *item) {
  return ratio(braid_forecast_get_summary(item->baseline).joules, braid_forecast_get_summary(item->forecast).joules) -
         1;
}

static double throughput_gain(const planned *item) {
  return ratio(braid_forecast_get_summary(item->baseline).seconds, braid_forecast_get_summary(item->forecast).seconds) -
         1;
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void add_number(cli_table *table, const char *format, double value) {
  if (isnan(value))
    cli_table_cell(table, "unknown");
  else
    cli_table_cell(table, format, value); /* NOLINT(clang-diagnostic-format-nonliteral) */
}

enum { PLAN_COLUMNS = 16 };

static void print_table(const options *o, const plans *p) {
  cli_table table;
  cli_table_begin(&table, "Modelled, by platform and policy", NULL,
                  "platform|policy|step ms|samples/s|to baseline|J a step|least J|above it|samples/J|to baseline|idle "
                  "J|average W|peak W|"
                  "violations|moved ms|exposed ms");
  for (size_t i = 0; i < p->count; i++) {
    cli_table_cell(&table, "%s", p->items[i].platform);
    cli_table_cell(&table, "%s", p->items[i].policy);
    for (int column = 2; column < PLAN_COLUMNS && !p->items[i].forecast; column++)
      cli_table_cell(&table, column == 2 ? "refused" : "-");
    if (!p->items[i].forecast) continue;
    braid_forecast_summary s = braid_forecast_get_summary(p->items[i].forecast);
    add_number(&table, "%.2f", s.seconds * 1e3);
    add_number(&table, "%.1f", ratio((double)p->batch, s.seconds));
    add_number(&table, "%+.1f%%", throughput_gain(&p->items[i]) * 100);
    add_number(&table, "%.2f", s.joules);
    add_number(&table, "%.2f", s.least_joules);
    add_number(&table, "%.1f%%", (ratio(s.joules, s.least_joules) - 1) * 100);
    add_number(&table, "%.3f", ratio((double)p->batch, s.joules));
    add_number(&table, "%+.1f%%", efficiency_gain(&p->items[i]) * 100);
    add_number(&table, "%.2f", s.idle_joules);
    add_number(&table, "%.1f", s.average_watts);
    add_number(&table, "%.1f", s.peak_watts);
    if (!s.capped)
      cli_table_cell(&table, "no cap");
    else
      add_number(&table, s.cap_unknown ? "at least %.4g" : "%.4g", s.cap_violations);
    add_number(&table, "%.2f", s.moving_seconds * 1e3);
    add_number(&table, "%.2f", s.exposed_seconds * 1e3);
  }
  if (o->cap > 0) printf("cap: %g W for the machine\n", o->cap);
  cli_table_print(&table, MOST_PLANS);
  cli_table_end(&table);
  printf(
      "Baseline: %s without a cap. violations: operations at whose start the sum of peaks, or the peak of their "
      "device, is above its cap; what starts at one instant is added one by one, so that of two that only together are "
      "above it one counts. "
      "moved: all transfers together. exposed: by how much the step is longer because of them; the rest is hidden.\n",
      o->baseline ? o->baseline : "gpu-only");
}

/* What policies did instead of what they are asked for. */
static void print_notes(const options *o, const plans *p) {
  for (size_t i = 0; i < p->count; i++) {
    const planned *item = &p->items[i];
    const char *note = item->forecast ? braid_forecast_note(item->forecast) : item->refusal;
    if (*note) printf("%s, %s: %s%s\n", item->platform, item->policy, item->forecast ? "" : "refused: ", note);
  }
  for (size_t i = 0; i < o->platform_count; i++) {
    const char *note = braid_forecast_note(p->baselines[i]), *policy = o->baseline ? o->baseline : "gpu-only";
    bool said = !*note;
    for (size_t k = 0; k < o->policy_count; k++) said |= strcmp(o->policies[k], policy) == 0;
    if (!said) printf("%s, the baseline %s: %s\n", o->platforms[i], policy, note);
  }
}

static void add_gigabytes(cli_table *table, double bytes, const char *unknown) {
  if (isnan(bytes))
    cli_table_cell(table, "%s", unknown);
  else
    cli_table_cell(table, "%.4g", bytes * 1e-9);
}

static void print_devices(const planned *item) {
  cli_table table;
  char title[256];
  double seconds = braid_forecast_get_summary(item->forecast).shown_seconds;
  snprintf(title, sizeof title, "%s, %s: devices", item->platform, item->policy);
  cli_table_begin(&table, title, NULL, "device|operations|busy ms|occupied|J|peak GB|of GB");
  for (size_t d = 0; d < braid_forecast_device_count(item->forecast); d++) {
    braid_forecast_device device = braid_forecast_get_device(item->forecast, d);
    cli_table_cell(&table, "%s", device.name);
    cli_table_cell(&table, "%zu", device.tasks);
    cli_table_cell(&table, "%.2f", device.busy_seconds * 1e3);
    cli_table_cell(&table, "%.1f%%", seconds > 0 ? device.busy_seconds / seconds * 100 : 0);
    add_number(&table, "%.2f", device.joules);
    add_gigabytes(&table, device.peak_memory_bytes, "-");
    add_gigabytes(&table, device.memory_bytes, "no limit");
  }
  cli_table_print(&table, 64);
  cli_table_end(&table);
}

static void print_offer(const braid_forecast_offer *offer) {
  printf("  %c %s", offer->chosen ? '*' : '+', offer->device);
  if (offer->devices > 1) printf(" and %zu more", offer->devices - 1);
  if (!isnan(offer->mhz)) printf(" at %g MHz", offer->mhz);
  printf(": %.3f ms", offer->seconds * 1e3);
  if (isnan(offer->joules))
    printf(", energy unknown");
  else
    printf(", %.4f J", offer->joules);
  if (isnan(offer->peak_watts))
    printf(", peak unknown\n");
  else
    printf(", peak %.0f W\n", offer->peak_watts);
}

static void print_tasks(const planned *item) {
  printf("\n%s, %s: operations by their starts (* chosen, + possible)\n", item->platform, item->policy);
  size_t tasks = braid_forecast_get_summary(item->forecast).tasks;
  for (size_t i = 0; i < tasks; i++) {
    braid_forecast_task task = braid_forecast_get_task(item->forecast, i);
    printf("%s (%s", task.node, task.op);
    if (strcmp(task.op, task.like) != 0) printf(", taken as %s", task.like);
    printf("): %.3f to %.3f ms; %s", task.start * 1e3, task.end * 1e3, task.reason);
    if (task.after) printf("; waits under the cap for the end of %s", task.after);
    printf("\n");
    for (size_t k = 0; k < braid_forecast_offer_count(item->forecast, i); k++) {
      braid_forecast_offer offer = braid_forecast_get_offer(item->forecast, i, k);
      print_offer(&offer);
    }
  }
}

static void print_assumptions(const options *o, const plans *p) {
  for (size_t i = 0; i < o->platform_count; i++) {
    size_t count = braid_modelled_assumption_count(p->machines[i]);
    printf("\n%s: %s%s\n", o->platforms[i], braid_modelled_machine_name(p->machines[i]),
           count ? "; assumed, since nobody published it:" : "");
    for (size_t k = 0; k < count; k++) printf("  - %s\n", braid_modelled_assumption(p->machines[i], k));
    braid_modelled_thresholds most = braid_modelled_machine_thresholds(p->machines[i]);
    int64_t replicas = o->train ? braid_modelled_machine_replicas(p->machines[i]) : 1;
    if (replicas > 1)
      printf("Data parallel: each of %" PRId64 " GPUs, with its share of the other devices, runs the step for %" PRId64
             " samples; gradients are added between them before the update.\n",
             replicas, p->batch / replicas);
    if (!isnan(most.gigabytes_per_second))
      printf("Candidates of hybrid-energy have less than %.1f GB/s or %.2f instructions per cycle on the GPU, by its "
             "profile.\n",
             most.gigabytes_per_second, most.instructions_per_cycle);
  }
}

static void print_text(const options *o, const plans *p) {
  braid_forecast_summary first = braid_forecast_get_summary(first_made(p)->forecast);
  printf("%s, batch %" PRId64 ", %s: %zu operations\n", o->source.path, p->batch,
         o->train ? "a training step" : "inference", first.tasks);
  print_table(o, p);
  print_notes(o, p);
  if (!first.interference)
    puts("Interference is not modelled: operations take what they take alone, whatever runs or moves beside them.");
  else if (first.without_interference)
    puts("Interference is modelled in part: the platform gives some devices no slowdown, beside others or by traffic.");
  for (size_t i = 0; i < p->count; i++)
    if (p->items[i].forecast) print_devices(&p->items[i]);
  for (size_t i = 0; i < p->count && o->explain; i++)
    if (p->items[i].forecast) print_tasks(&p->items[i]);
  print_assumptions(o, p);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_summary(cli_json *json, const plans *p, const braid_forecast *forecast) {
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  cli_json_number(json, "throughput", ratio((double)p->batch, s.seconds));
  cli_json_number(json, "modelled_ms", s.seconds * 1e3);
  cli_json_number(json, "shown_ms", s.shown_seconds * 1e3);
  cli_json_number(json, "energy_j", s.joules);
  cli_json_number(json, "least_energy_j", s.least_joules);
  cli_json_number(json, "idle_j", s.idle_joules);
  cli_json_number(json, "average_w", s.average_watts);
  cli_json_number(json, "peak_w", s.peak_watts);
  cli_json_number(json, "cap_w", s.cap_watts);
  cli_json_number(json, "cap_violations", s.cap_violations);
  cli_json_bool(json, "cap_violations_may_be_more", s.cap_unknown);
  cli_json_number(json, "above_cap_ms", s.seconds_above * 1e3);
  cli_json_number(json, "moved_ms", s.moving_seconds * 1e3);
  cli_json_number(json, "exposed_ms", s.exposed_seconds * 1e3);
  cli_json_string(json, "interference",
                  !s.interference          ? "not modelled"
                  : s.without_interference ? "modelled in part"
                                           : "modelled");
  cli_json_string(json, "note", braid_forecast_note(forecast));
  cli_json_integer(json, "operations", (int64_t)s.tasks);
  cli_json_number(json, "measured_policy_ms", s.policy_seconds * 1e3);
}

static void json_offers(cli_json *json, const braid_forecast *forecast, size_t task) {
  cli_json_array(json, "offers");
  for (size_t i = 0; i < braid_forecast_offer_count(forecast, task); i++) {
    braid_forecast_offer offer = braid_forecast_get_offer(forecast, task, i);
    cli_json_object(json, NULL);
    cli_json_string(json, "device", offer.device);
    cli_json_integer(json, "devices", (int64_t)offer.devices);
    cli_json_number(json, "mhz", offer.mhz);
    cli_json_number(json, "modelled_ms", offer.seconds * 1e3);
    cli_json_number(json, "energy_j", offer.joules);
    cli_json_number(json, "peak_w", offer.peak_watts);
    cli_json_bool(json, "chosen", offer.chosen);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_tasks(cli_json *json, const braid_forecast *forecast) {
  cli_json_array(json, "tasks");
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    cli_json_object(json, NULL);
    cli_json_string(json, "node", task.node);
    cli_json_string(json, "op", task.op);
    cli_json_string(json, "taken_as", task.like);
    cli_json_string(json, "device", task.device);
    cli_json_integer(json, "devices", (int64_t)task.devices);
    cli_json_number(json, "mhz", task.mhz);
    cli_json_number(json, "start_ms", task.start * 1e3);
    cli_json_number(json, "end_ms", task.end * 1e3);
    cli_json_number(json, "energy_j", task.joules);
    cli_json_number(json, "peak_w", task.peak_watts);
    cli_json_string(json, "why", task.reason);
    if (task.after) cli_json_string(json, "waits_for", task.after);
    json_offers(json, forecast, i);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_plan(cli_json *json, const options *o, const plans *p, const planned *item) {
  cli_json_string(json, "platform", item->platform);
  cli_json_string(json, "policy", item->policy);
  if (!item->forecast) {
    cli_json_string(json, "refused", item->refusal);
    return;
  }
  json_summary(json, p, item->forecast);
  cli_json_number(json, "throughput_gain", throughput_gain(item));
  cli_json_number(json, "efficiency_gain", efficiency_gain(item));
  cli_json_object(json, "baseline");
  cli_json_string(json, "policy", o->baseline ? o->baseline : "gpu-only");
  json_summary(json, p, item->baseline);
  cli_json_close(json, '}');
  cli_json_array(json, "devices");
  for (size_t d = 0; d < braid_forecast_device_count(item->forecast); d++) {
    braid_forecast_device device = braid_forecast_get_device(item->forecast, d);
    cli_json_object(json, NULL);
    cli_json_string(json, "name", device.name);
    cli_json_integer(json, "operations", (int64_t)device.tasks);
    cli_json_number(json, "busy_ms", device.busy_seconds * 1e3);
    cli_json_number(json, "energy_j", device.joules);
    cli_json_number(json, "peak_memory_bytes", device.peak_memory_bytes);
    cli_json_number(json, "peak_memory_ms", device.peak_memory_seconds * 1e3);
    cli_json_number(json, "memory_bytes", device.memory_bytes);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  if (o->explain) json_tasks(json, item->forecast);
}

/* With one plan its numbers are the document's, with several they are in "plans". */
static braid_status print_json(const options *o, const plans *p) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "model", o->source.path);
  cli_json_integer(&json, "batch", p->batch);
  cli_json_bool(&json, "training", o->train);
  cli_json_string(&json, "source", "modelled");
  cli_json_array(&json, "assumptions");
  for (size_t i = 0; i < o->platform_count; i++)
    for (size_t k = 0; k < braid_modelled_assumption_count(p->machines[i]); k++)
      cli_json_string(&json, NULL, braid_modelled_assumption(p->machines[i], k));
  cli_json_close(&json, ']');
  if (p->count == 1) {
    json_plan(&json, o, p, &p->items[0]);
  } else {
    cli_json_array(&json, "plans");
    for (size_t i = 0; i < p->count; i++) {
      cli_json_object(&json, NULL);
      json_plan(&json, o, p, &p->items[i]);
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
  }
  cli_json_end(&json);
  return BRAID_OK;
}

/* --- saving --------------------------------------------------------------------------------------------------------
 */
static braid_status save_placement(const options *o, const plans *p) {
  char what[512];
  snprintf(what, sizeof what, "%.200s, batch %" PRId64 ", %s, by %s on %.100s", o->source.path, p->batch,
           o->train ? "a training step" : "inference", o->policies[0], o->platforms[0]);
  braid_status status = cli_check_forecast(p->items[0].forecast);
  return status == BRAID_OK ? braid_forecast_save_placement(p->items[0].forecast, what, p->batch, o->save) : status;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
int cli_plan(int argc, char **argv) {
  static const struct argp_option rows[] = {
      {"platform", KEY_PLATFORM, "NAME", 0, "The machine: a .yaml file, or a name (docs/planning.md); repeatable", 0},
      {"policy", KEY_POLICY, "P[,P...]", 0,
       "Policies (default hybrid-energy, with --power-cap hybrid-cap; with --place manual, which keeps no cap); "
       "--policy help lists them",
       0},
      {"place", KEY_PLACE, "LIST", 0,
       "Place operations on the platform's devices: pattern=device,... (patterns of node names, with * and ?); the "
       "policy places the others. The baseline is without it",
       0},
      {"power-cap", KEY_CAP, "W", 0, "Limit of the machine's power (default: the platform's)", 0},
      {"baseline", KEY_BASELINE, "P", 0, "The policy that results are compared with (default gpu-only)", 0},
      {"batch", KEY_BATCH, "N", 0, "Samples (default 1, with --train 128)", 0},
      {"train", KEY_TRAIN, NULL, 0, "A training step: forward, backward and update", 0},
      {"discriminator", KEY_DISCRIMINATOR, "MODEL", 0,
       "With --train: the step of MODEL as a generator and of this one, which takes what it gives, against each other",
       0},
      {"explain", KEY_EXPLAIN, NULL, 0, "Print for every operation what could run it, and why it is where it is", 0},
      {"no-bound", KEY_NO_BOUND, NULL, 0, "Do not look for the least energy that any plan needs, which takes seconds",
       0},
      {"trace", KEY_TRACE, "FILE", 0, "Write the timeline for Perfetto or chrome://tracing, power below it", 0},
      {"html", KEY_HTML, "FILE", 0, "Write the timeline as a page of its own, power below it", 0},
      {"save", KEY_SAVE, "FILE", 0,
       "Save where the plan has each operation and in which order, for `braid run` and `braid train --plan FILE` with "
       "the same batch: the "
       "platform's devices "
       "must be this machine's",
       0},
      {0},
  };
  const struct argp_child children[] = {{&cli_source_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  const struct argp argp = {rows, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.source = {.path = NULL}};
  plans p = {.count = 0};
  cli_parse(&argp, argc, argv, &o);
  cli_start_log(&o.common);
  cli_fit_terminal(o.common.json);
  braid_status status = make_plans(&o, &p);
  if (status == BRAID_OK && o.trace) status = braid_forecast_save_trace(p.items[0].forecast, o.trace);
  if (status == BRAID_OK && o.html) status = braid_forecast_save_html(p.items[0].forecast, o.source.path, o.html);
  if (status == BRAID_OK && o.save) status = save_placement(&o, &p);
  if (status == BRAID_OK && o.common.json)
    status = print_json(&o, &p);
  else if (status == BRAID_OK)
    print_text(&o, &p);
  end_plans(&p);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "plan", status);
}
