/* Policies that share a card of the overlay, compared (`braid share`). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/overlay_evaluation.h"
#include "files.h"
#include "sharing.h"
#include "table.h"

enum { kDeadlineTimes = 4, kSide = 224, kNetworks = CLI_SHARING_PACKAGES };

typedef struct comparison {
  const cli_sharing *how;
  const braid_overlay_design *design;
  braid_overlay_costs *costs[kNetworks];
  size_t network_count;
  char *text; /* of the trace */
  cli_traffic traffic;
  bool wanted[CLI_SHARING_POLICIES];
  braid_overlay_shared rows[CLI_SHARING_POLICIES]; /* by policy; of those wanted, and the first one */
  cli_progress progress;
  const char *network; /* being simulated */
} comparison;

/* --- networks ------------------------------------------------------------------------------------------------------
 */
static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void report_cores(void *context, const char *what, size_t done, size_t total) {
  comparison *c = context;
  size_t networks = c->how->package_count ? c->how->package_count : BRAID_OVERLAY_CNNS;
  cli_progress_update(&c->progress, (int64_t)(c->network_count * total + done), (int64_t)(networks * total), what);
}

static braid_status time_package(comparison *c, const braid_overlay_package *package, const char *name) {
  const braid_progress progress = {report_cores, c};
  braid_status status =
      braid_overlay_costs_create(package, c->design, name, &progress, NULL, &c->costs[c->network_count]);
  if (status == BRAID_OK) c->network_count++;
  return status;
}

/* One of the paper's, with drawn weights. */
static braid_status time_stand_in(comparison *c, size_t network) {
  braid_graph *graph = NULL;
  braid_overlay_package *package = NULL;
  braid_status status = braid_overlay_stand_in(NULL, network, kSide, &graph);
  if (status == BRAID_OK) status = braid_resolve(graph);
  if (status == BRAID_OK) status = braid_overlay_compile(graph, c->design, NULL, NULL, &package);
  if (status == BRAID_OK) status = time_package(c, package, braid_overlay_published_networks()[network].name);
  braid_overlay_package_destroy(package);
  braid_graph_destroy(graph);
  return status;
}

static braid_status time_file(comparison *c, const char *path) {
  braid_overlay_package *package;
  braid_status status = braid_overlay_package_read(NULL, path, &package);
  if (status != BRAID_OK) return status;
  status = time_package(c, package, file_of(path));
  braid_overlay_package_destroy(package);
  return status;
}

static braid_status time_networks(comparison *c) {
  braid_status status = BRAID_OK;
  if (!c->how->package_count && c->design->recurrent)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s is for recurrent networks: give packages of braid compile",
                      c->design->name);
  cli_progress_begin(&c->progress, "simulating");
  for (size_t n = 0; status == BRAID_OK && n < BRAID_OVERLAY_CNNS && !c->how->package_count; n++)
    status = time_stand_in(c, n);
  for (size_t n = 0; status == BRAID_OK && n < c->how->package_count; n++) status = time_file(c, c->how->packages[n]);
  cli_progress_end(&c->progress);
  return status;
}

/* --- policies ------------------------------------------------------------------------------------------------------
 */
static braid_status select_policies(comparison *c) {
  const char *at = c->how->policies;
  for (size_t p = 0; p < braid_overlay_policy_count(); p++) c->wanted[p] = !at || strcmp(at, "all") == 0;
  while (at && strcmp(c->how->policies, "all") != 0) {
    char name[64];
    size_t length = strcspn(at, ","), policy;
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    braid_status status = braid_overlay_policy_find(length < sizeof name ? name : "", &policy);
    if (status != BRAID_OK) return status;
    c->wanted[policy] = true;
    at = at[length] ? at + length + 1 : NULL;
  }
  return BRAID_OK;
}

static braid_status make_traffic(comparison *c) {
  const cli_sharing *how = c->how;
  size_t bytes = 0;
  braid_status status = how->trace ? cli_read_trace(how->trace, &c->text, &bytes) : BRAID_OK;
  c->traffic = (cli_traffic){.count = c->network_count, .traces = how->traces};
  if (!how->traces) c->traffic.traces = how->trace ? 1 : CLI_SHARING_TRACES;
  for (size_t n = 0; n < c->network_count; n++) c->traffic.costs[n] = c->costs[n];
  c->traffic.options = (braid_overlay_traffic_options){.jobs = (size_t)how->jobs,
                                                       .tenants = (size_t)how->tenants,
                                                       .seed = (uint64_t)how->seed,
                                                       .load = how->load,
                                                       .deadline_times = kDeadlineTimes,
                                                       .trace = c->text,
                                                       .trace_bytes = bytes};
  if (!how->trace && !how->jobs) c->traffic.options.jobs = CLI_SHARING_JOBS;
  return status;
}

/* The first policy, which is served first, is what all others are held against. */
static braid_status run_policies(comparison *c) {
  braid_status status = BRAID_OK;
  int64_t done = 0, total = 0;
  for (size_t p = 0; p < braid_overlay_policy_count(); p++) total += p == 0 || c->wanted[p];
  cli_progress_begin(&c->progress, "sharing");
  for (size_t p = 0; status == BRAID_OK && p < braid_overlay_policy_count(); p++) {
    if (p > 0 && !c->wanted[p]) continue;
    cli_traffic traffic = c->traffic;
    if (!c->wanted[p]) traffic.schedule = NULL;
    cli_progress_update(&c->progress, done++, total, braid_overlay_policy_at(p).name);
    status = cli_run_policy(&traffic, p, &c->rows[p]);
  }
  cli_progress_end(&c->progress);
  return status;
}

static braid_status run_to_schedule(comparison *c) {
  const char *path = c->how->schedule;
  if (path) {
    c->traffic.schedule = fopen(path, "wbe");
    if (!c->traffic.schedule) return braid_fail(BRAID_IO, "%s: %s", path, strerror(errno));
    cli_head_schedule(c->traffic.schedule);
  }
  braid_status status = run_policies(c);
  if (!path) return status;
  bool failed = ferror(c->traffic.schedule) != 0;
  failed = fclose(c->traffic.schedule) != 0 || failed;
  if (status == BRAID_OK && failed) return braid_fail(BRAID_IO, "%s could not be written", path);
  return status;
}

/* --- what is printed -----------------------------------------------------------------------------------------------
 */
/* How many times better than the first policy. */
typedef struct gains {
  double antt, stp, sla, missed; /* missed NAN: nobody of ours missed a deadline */
} gains;

static gains gains_of(const comparison *c, size_t policy) {
  const braid_overlay_shared *first = &c->rows[0], *its = &c->rows[policy];
  double missed = 1 - its->deadlines;
  return (gains){first->antt / its->antt, its->stp / first->stp, its->deadlines / first->deadlines,
                 missed > 1e-12 ? (1 - first->deadlines) / missed : NAN};
}

static void write_network(cli_json *json, const braid_overlay_costs_info *info) {
  cli_json_object(json, NULL);
  cli_json_string(json, "name", info->name);
  cli_json_array(json, "seconds");
  for (int k = 0; k < info->cores; k++) cli_json_number(json, NULL, info->seconds[k]);
  cli_json_close(json, ']');
  cli_json_array(json, "switch_seconds");
  for (int k = 0; k < info->cores; k++) cli_json_number(json, NULL, info->switch_seconds[k]);
  cli_json_close(json, ']');
  cli_json_number(json, "vector_seconds", info->vector_seconds);
  cli_json_integer(json, "places", (int64_t)info->places);
  cli_json_close(json, '}');
}

static void write_policy(cli_json *json, const comparison *c, size_t policy) {
  const braid_overlay_shared *s = &c->rows[policy];
  gains g = gains_of(c, policy);
  cli_json_object(json, NULL);
  cli_json_string(json, "policy", braid_overlay_policy_at(policy).name);
  cli_json_integer(json, "jobs", (int64_t)s->jobs);
  cli_json_number(json, "antt", s->antt);
  cli_json_number(json, "antt_of_highest_priority", s->urgent_antt);
  cli_json_number(json, "stp", s->stp);
  cli_json_number(json, "fairness", s->fairness);
  cli_json_array(json, "sla_by_2");
  for (size_t l = 0; l < sizeof s->within / sizeof *s->within; l++) cli_json_number(json, NULL, s->within[l]);
  cli_json_close(json, ']');
  cli_json_number(json, "deadlines_met", s->deadlines);
  cli_json_number(json, "p99_slowdown", s->p99);
  cli_json_number(json, "p99_seconds", s->p99_seconds);
  cli_json_number(json, "worst_slowdown", s->worst);
  cli_json_number(json, "longest_wait_seconds", s->longest_wait);
  cli_json_number(json, "switching", s->switching);
  cli_json_number(json, "idle", s->idle);
  cli_json_object(json, "over_fcfs");
  cli_json_number(json, "antt", g.antt);
  cli_json_number(json, "stp", g.stp);
  cli_json_number(json, "deadlines_met", g.sla);
  cli_json_number(json, "deadlines_missed", g.missed);
  cli_json_close(json, '}');
  cli_json_close(json, '}');
}

static braid_status print_json(const comparison *c) {
  cli_json json;
  const cli_traffic *t = &c->traffic;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "design", c->design->name);
  cli_json_integer(&json, "cores", c->design->cores);
  cli_json_string(&json, "trace", c->how->trace ? c->how->trace : "random");
  cli_json_number(&json, "load", t->options.load);
  cli_json_integer(&json, "tenants", (int64_t)t->options.tenants);
  cli_json_integer(&json, "seed", (int64_t)t->options.seed);
  cli_json_integer(&json, "traces", t->traces);
  cli_json_number(&json, "deadline_times", t->options.deadline_times);
  cli_json_number(&json, "compile_seconds", BRAID_OVERLAY_COMPILE_US * 1e-6);
  cli_json_array(&json, "networks");
  for (size_t n = 0; n < c->network_count; n++) {
    braid_overlay_costs_info info = braid_overlay_costs_get_info(c->costs[n]);
    write_network(&json, &info);
  }
  cli_json_close(&json, ']');
  cli_json_array(&json, "policies");
  for (size_t p = 0; p < braid_overlay_policy_count(); p++)
    if (c->wanted[p]) write_policy(&json, c, p);
  cli_json_close(&json, ']');
  cli_json_object(&json, "published_of_prema");
  cli_json_number(&json, "antt", cli_prema_antt);
  cli_json_number(&json, "stp", cli_prema_stp);
  cli_json_number(&json, "sla", cli_prema_sla);
  cli_json_close(&json, '}');
  return cli_json_end(&json) ? BRAID_OK : braid_fail(BRAID_IO, "standard output: the document could not be written");
}

static void add_gain(cli_table *table, double times) {
  if (isnan(times))
    cli_table_cell(table, "-");
  else
    cli_table_cell(table, "%.2f x", times);
}

static void make_networks(const comparison *c, cli_table *table) {
  cli_table_begin(table, "Networks: ms of a run on so many cores; ms of a switch, from one core to all", NULL,
                  "network|1|half|all|switch|places");
  for (size_t n = 0; n < c->network_count; n++) {
    braid_overlay_costs_info info = braid_overlay_costs_get_info(c->costs[n]);
    int half = (info.cores + 1) / 2;
    cli_table_cell(table, "%s", info.name);
    cli_table_cell(table, "%.4g", 1e3 * info.seconds[0]);
    cli_table_cell(table, "%.4g", 1e3 * info.seconds[half - 1]);
    cli_table_cell(table, "%.4g", 1e3 * info.seconds[info.cores - 1]);
    cli_table_cell(table, "%.2g to %.2g", 1e3 * info.switch_seconds[0], 1e3 * info.switch_seconds[info.cores - 1]);
    cli_table_cell(table, "%zu", info.places);
  }
}

static void make_policies(const comparison *c, cli_table *table) {
  cli_table_begin(table, "Policies", NULL,
                  "policy|ANTT|highest priority|STP|fairness|SLA 2|SLA 4|SLA 8|p99|p99 ms|ANTT less|STP more|SLA 4 "
                  "more|missed less");
  for (size_t p = 0; p < braid_overlay_policy_count(); p++) {
    if (!c->wanted[p]) continue;
    const braid_overlay_shared *s = &c->rows[p];
    gains g = gains_of(c, p);
    cli_table_cell(table, "%s", braid_overlay_policy_at(p).name);
    cli_table_cell(table, "%.2f", s->antt);
    cli_table_cell(table, "%.2f", s->urgent_antt);
    cli_table_cell(table, "%.2f", s->stp);
    cli_table_cell(table, "%.3f", s->fairness);
    cli_table_cell(table, "%.3f", s->within[0]);
    cli_table_cell(table, "%.3f", s->within[1]);
    cli_table_cell(table, "%.3f", s->within[3]);
    cli_table_cell(table, "%.2f", s->p99);
    cli_table_cell(table, "%.1f", 1e3 * s->p99_seconds);
    add_gain(table, g.antt);
    add_gain(table, g.stp);
    add_gain(table, g.sla);
    add_gain(table, g.missed);
  }
}

static braid_status print_text(const comparison *c) {
  cli_table networks, policies;
  const cli_traffic *t = &c->traffic;
  make_networks(c, &networks);
  make_policies(c, &policies);
  bool failed = networks.failed || policies.failed;
  if (!failed) {
    printf("%s, %d cores, %zu tenants; ", c->design->name, c->design->cores, t->options.tenants);
    if (c->how->trace)
      printf("arrivals of %s, %zu jobs", c->how->trace, c->rows[0].jobs / (size_t)t->traces);
    else
      printf("random arrivals, %zu jobs", t->options.jobs);
    printf(", load %g, %lld %s from seed %llu on.\n", t->options.load, (long long)t->traces,
           t->traces == 1 ? "trace" : "traces", (unsigned long long)t->options.seed);
    cli_table_print(&networks, SIZE_MAX - 1);
    cli_table_print(&policies, SIZE_MAX - 1);
    printf("\nSLA n: the share of jobs with a slowdown of at most n; p99: of slowdowns. Less and more: how many times, "
           "against first come first served. PREMA publishes %.1f (ANTT), %.1f (STP) and %.1f (SLA), for its own "
           "accelerator, networks and arrivals.\nTimes are modelled.\n",
           cli_prema_antt, cli_prema_stp, cli_prema_sla);
  }
  cli_table_end(&networks);
  cli_table_end(&policies);
  return failed ? cli_no_memory() : BRAID_OK;
}

/* What is written replaces nothing that is read. */
static braid_status check_files(const cli_sharing *how) {
  cli_file files[CLI_SHARING_PACKAGES + 3] = {
      {"--schedule", how->schedule, true}, {"the file of --trace", how->trace, false}, cli_design_file(how->design)};
  for (size_t n = 0; n < how->package_count; n++) files[3 + n] = (cli_file){"a package", how->packages[n], false};
  return cli_check_files(files, 3 + how->package_count);
}

braid_status cli_try_policies(const cli_sharing *how) {
  comparison c = {.how = how};
  braid_status status = check_files(how);
  if (status == BRAID_OK) status = select_policies(&c);
  if (status == BRAID_OK) status = braid_overlay_design_load(NULL, how->design, &c.design);
  if (status == BRAID_OK) status = time_networks(&c);
  if (status == BRAID_OK) status = make_traffic(&c);
  if (status == BRAID_OK) status = run_to_schedule(&c);
  if (status == BRAID_OK) status = how->json ? print_json(&c) : print_text(&c);
  for (size_t n = 0; n < c.network_count; n++) braid_overlay_costs_destroy(c.costs[n]);
  braid_overlay_design_destroy(c.design);
  free(c.text);
  return status;
}
