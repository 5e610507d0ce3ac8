/* Policies that share the card, on the same traces: what `braid share` prints, as a section of the evaluation. */
#include <math.h>
#include <stdlib.h>

#include "overlay_evaluation.h"

/* Traces with random arrivals: as few jobs as PREMA has at once, where the load says how close they come; and many, so
 * that a queue can grow. */
static const struct {
  size_t jobs;
  double load;
  int64_t traces;
} kRandom[] = {{8, 1, 250}, {8, 2, 250}, {2000, 0.9, 5}};
enum { kRandoms = sizeof kRandom / sizeof *kRandom };
static const double kTraceLoad = 0.7;

braid_status cli_overlay_time_network(cli_overlay *o, size_t network, const braid_overlay_design *design,
                                      const braid_overlay_package *package) {
  return braid_overlay_costs_create(package, design, braid_overlay_published_networks()[network].name, NULL, NULL,
                                    &o->costs[network]);
}

void cli_overlay_end_policies(cli_overlay *o) {
  free(o->trace_text);
  o->trace_text = NULL;
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++) {
    braid_overlay_costs_destroy(o->costs[n]);
    o->costs[n] = NULL;
  }
}

static bool is_shared(const cli_overlay *o) {
  bool any = false;
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++) any = any || o->networks[n];
  return any && o->wanted[CLI_OVERLAY_POLICIES];
}

int cli_overlay_policy_steps(const cli_overlay *o) {
  return is_shared(o) ? (int)braid_overlay_policy_count() * (kRandoms + (o->trace != NULL)) : 0;
}

braid_status cli_overlay_begin_policies(cli_overlay *o) {
  return o->trace && is_shared(o) ? cli_read_trace(o->trace, &o->trace_text, &o->trace_bytes) : BRAID_OK;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static braid_status run_case(cli_overlay *o, const cli_traffic *traffic) {
  cli_overlay_case *c = &o->cases[o->case_count];
  braid_status status = BRAID_OK;
  if (traffic->options.trace)
    snprintf(c->name, sizeof c->name, "trace, load %g", traffic->options.load);
  else
    snprintf(c->name, sizeof c->name, "random, %zu jobs, load %g", traffic->options.jobs, traffic->options.load);
  for (size_t p = 0; status == BRAID_OK && p < braid_overlay_policy_count(); p++) {
    status = cli_overlay_step(o, braid_overlay_policy_at(p).name);
    if (status == BRAID_OK) status = cli_run_policy(traffic, p, &c->of[p]);
  }
  o->case_count += status == BRAID_OK;
  return status;
}

braid_status cli_overlay_run_policies(cli_overlay *o) {
  cli_traffic traffic = {.options = {.tenants = 4, .seed = 1, .deadline_times = 4}};
  if (!is_shared(o)) return BRAID_OK;
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++)
    if (o->costs[n]) traffic.costs[traffic.count++] = o->costs[n];
  braid_status status = BRAID_OK;
  for (size_t r = 0; status == BRAID_OK && r < kRandoms; r++) {
    traffic.options.jobs = kRandom[r].jobs;
    traffic.options.load = kRandom[r].load;
    traffic.traces = kRandom[r].traces;
    status = run_case(o, &traffic);
  }
  if (status == BRAID_OK && o->trace_text) {
    traffic.options = (braid_overlay_traffic_options){.tenants = 4,
                                                      .seed = 1,
                                                      .load = kTraceLoad,
                                                      .deadline_times = 4,
                                                      .trace = o->trace_text,
                                                      .trace_bytes = o->trace_bytes};
    traffic.traces = 1;
    status = run_case(o, &traffic);
  }
  return status;
}

/* --- the section ---------------------------------------------------------------------------------------------------
 */
enum { ANTT, STP, SLA, P99, ANTT_LESS, STP_MORE, MISSED_LESS };

static void add_policies(cli_overlay_section *s, const cli_overlay_case *c) {
  const braid_overlay_shared *first = &c->of[0];
  for (size_t p = 0; p < braid_overlay_policy_count(); p++) {
    const braid_overlay_shared *its = &c->of[p];
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s: %s", braid_overlay_policy_at(p).name, c->name);
    double missed = 1 - its->deadlines;
    line->ours[ANTT] = cli_overlay_one(its->antt);
    line->ours[STP] = cli_overlay_one(its->stp);
    line->ours[SLA] = cli_overlay_one(its->within[1]);
    line->ours[P99] = cli_overlay_one(its->p99);
    line->ours[ANTT_LESS] = cli_overlay_one(first->antt / its->antt);
    line->ours[STP_MORE] = cli_overlay_one(its->stp / first->stp);
    line->ours[MISSED_LESS] = cli_overlay_one(missed > 1e-12 ? (1 - first->deadlines) / missed : NAN);
  }
}

void cli_overlay_make_policies(cli_overlay *o) {
  cli_overlay_section *s = &o->sections[CLI_OVERLAY_POLICIES];
  if (!o->wanted[CLI_OVERLAY_POLICIES]) return;
  s->title = "Policies that share the card";
  s->subject = "policy";
  s->columns = "ANTT|STP|SLA 4|p99|ANTT, times less|STP, times more|missed, times less";
  snprintf(s->note, sizeof s->note,
           "Jobs of 4 tenants, each a run of one of the networks; docs/sharing.md has the policies, lookahead is ours. "
           "ANTT: mean slowdown against the whole card; STP: sum of 1 / slowdown; SLA 4: share of jobs with a slowdown "
           "of at most 4, which are the deadlines; p99: of slowdowns. Means over 250 traces of 8 jobs, 5 of 2000. "
           "Times less and more: against fcfs. Published is PREMA's on its own accelerator, networks and arrivals; its "
           "last figure is SLA satisfaction. %s",
           o->trace ? "The trace is the file given by --trace, its arrivals scaled to the load."
                    : "A recorded trace is not there: --trace FILE takes one of AzurePublicDataset's of 2023.");
  if (!o->case_count) return;
  cli_overlay_line *line = cli_overlay_add(s, NULL, "prema");
  line->published[ANTT_LESS] = cli_overlay_one(cli_prema_antt);
  line->published[STP_MORE] = cli_overlay_one(cli_prema_stp);
  line->published[MISSED_LESS] = cli_overlay_one(cli_prema_sla);
  for (size_t c = 0; c < o->case_count; c++) add_policies(s, &o->cases[c]);
}
