/* `braid explore kernel --device`: configurations of our OpenCL kernels, built and measured. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "values.h"

/* Rounds over all configurations, so that what else the machine does meanwhile meets all of them. */
enum { WARM_UP = 2, ROUNDS = 3, MOST_SPEC = 384 };

/* One configuration on the device. */
typedef struct kernel_trial {
  braid_kernel_design design;
  double li;               /* NAN: Fmax is not known */
  double round_us[ROUNDS]; /* measured: the median of a round's runs */
  double us, spread;       /* the median round; how far the rounds lie apart, as a share of it. NAN: it failed */
  double rank_li, rank_us;
  char kernel[64], why_not[256];
} kernel_trial;

typedef struct kernel_trials {
  const cli_kernel_options *options;
  braid_registry *registry;
  braid_graph *graph;
  kernel_trial own; /* what the device runs without our asking */
  kernel_trial *items;
  size_t count, measured, ranked;
  double spearman, kendall;
} kernel_trials;

/* --- the graph: one node -------------------------------------------------------------------------------------------
 */
static braid_status add_operand(braid_graph *graph, const char *name, int rank, const int64_t *dims,
                                braid_value_id *out) {
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, BRAID_F32, rank, dims);
  return status == BRAID_OK ? braid_graph_add_input(graph, name, &desc, out) : status;
}

static braid_status set_window(braid_graph *graph, braid_node_id node, const braid_kernel_problem *p) {
  const int64_t shape[] = {p->window, p->window}, strides[] = {p->stride, p->stride};
  const int64_t pads[] = {p->pad, p->pad, p->pad, p->pad};
  braid_status status = braid_graph_set_ints(graph, node, "kernel_shape", shape, 2);
  if (status == BRAID_OK) status = braid_graph_set_ints(graph, node, "strides", strides, 2);
  return status == BRAID_OK ? braid_graph_set_ints(graph, node, "pads", pads, 4) : status;
}

static braid_status make_graph(const braid_kernel_problem *p, braid_graph **out) {
  braid_value_id inputs[2], output = 0;
  braid_node_id node = 0;
  const int64_t right[] = {p->dims[1], p->dims[2]}, weights[] = {p->filters, p->dims[1], p->window, p->window};
  bool product = p->op == BRAID_KERNEL_MATMUL, pool = p->op == BRAID_KERNEL_MAX_POOL;
  braid_status status = braid_graph_create(NULL, "kernel", out);
  if (status != BRAID_OK) return status;
  braid_graph *graph = *out;
  status = add_operand(graph, "x", product ? 2 : 4, p->dims, &inputs[0]);
  if (status == BRAID_OK && !pool)
    status = add_operand(graph, "w", product ? 2 : 4, product ? right : weights, &inputs[1]);
  if (status == BRAID_OK)
    status =
        braid_graph_add_node(graph, braid_kernel_op_name(p->op), "kernel", inputs, pool ? 1 : 2, &output, 1, &node);
  if (status == BRAID_OK && !product) status = set_window(graph, node, p);
  return status == BRAID_OK ? braid_graph_add_output(graph, output) : status;
}

/* --- measuring -----------------------------------------------------------------------------------------------------
 */
/* The device's time of the node: of all its launches, without what was inserted around it. */
static braid_status read_time(const braid_session *session, kernel_trial *trial, double *out) {
  double us = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    if (!line.why[0]) continue;
    if (line.median_us < 0)
      return braid_fail(BRAID_UNSUPPORTED, "device %s measures no times of its tasks", line.device);
    us += line.median_us;
    snprintf(trial->kernel, sizeof trial->kernel, "%s", line.kernel);
  }
  *out = us;
  return BRAID_OK;
}

static braid_status run_session(const cli_kernel_options *o, braid_session *session, kernel_trial *trial, double *us) {
  cli_buffers buffers;
  braid_status status = cli_buffers_create(session, &buffers);
  for (size_t i = 0; i < buffers.input_count && status == BRAID_OK; i++)
    status = cli_make_value(braid_session_input(session, i), &buffers.inputs[i]);
  int64_t runs = WARM_UP + (o->runs ? o->runs : 10);
  for (int64_t i = 0; i < runs && status == BRAID_OK; i++) {
    status = cli_buffers_run(&buffers, session);
    if (cli_interrupted()) status = braid_fail(BRAID_CANCELLED, "interrupted");
  }
  if (status == BRAID_OK) status = read_time(session, trial, us);
  cli_buffers_destroy(&buffers);
  return status;
}

/* *us: of one round. */
static braid_status try_spec(const kernel_trials *t, const char *spec, kernel_trial *trial, double *us) {
  braid_session *session;
  const braid_session_options options = {.devices = spec, .registry = t->registry};
  braid_status status = braid_session_create(t->graph, &options, &session);
  if (status != BRAID_OK) return status;
  status = run_session(t->options, session, trial, us);
  braid_session_destroy(session);
  return status;
}

/* "opencl0:as=fpga,cu=1,simd=1,group=64,unroll=4": the kernels that an FPGA's compiler would get, unless the device is
 * given with as= of its own. */
static void write_spec(const cli_kernel_options *o, const braid_kernel_design *d, char out[MOST_SPEC]) {
  const char *options = strchr(o->device, ':');
  bool chosen = options && (strstr(options, ":as=") || strstr(options, ",as="));
  snprintf(out, MOST_SPEC, "%s%s%scu=%" PRId64 ",simd=%" PRId64 ",group=%" PRId64 ",unroll=%" PRId64, o->device,
           options ? "," : ":", chosen ? "" : "as=fpga,", d->units, d->simd, d->group, d->unroll);
}

/* What fails for a configuration alone; all else ends the command. */
static bool is_of_configuration(braid_status status) {
  return status != BRAID_CANCELLED && status != BRAID_NO_MEMORY && status != BRAID_DEVICE_LOST;
}

static braid_status measure_round(kernel_trials *t, int round, cli_progress *progress) {
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < t->count && status == BRAID_OK; i++) {
    kernel_trial *trial = &t->items[i];
    char spec[MOST_SPEC];
    if (trial->why_not[0]) continue;
    write_spec(t->options, &trial->design, spec);
    cli_progress_update(progress, round * (int64_t)t->count + (int64_t)i, ROUNDS * (int64_t)t->count, NULL);
    status = try_spec(t, spec, trial, &trial->round_us[round]);
    if (status != BRAID_OK && is_of_configuration(status)) {
      const char *why = braid_error_detail()[0] ? braid_error_detail() : braid_status_text(status);
      snprintf(trial->why_not, sizeof trial->why_not, "%.*s", (int)strcspn(why, "\n"), why);
      status = BRAID_OK;
    }
    status = cli_go_on(status);
  }
  return status;
}

static int smaller_first(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void join_rounds(kernel_trial *trial) {
  trial->us = trial->spread = NAN;
  if (trial->why_not[0]) return;
  double *us = trial->round_us;
  qsort(us, ROUNDS, sizeof *us, smaller_first);
  trial->us = us[ROUNDS / 2];
  if (trial->us > 0) trial->spread = (us[ROUNDS - 1] - us[0]) / trial->us;
}

static braid_status measure_trials(kernel_trials *t) {
  cli_progress progress;
  braid_status status = BRAID_OK;
  cli_progress_begin(&progress, "configurations");
  for (int round = 0; round < ROUNDS && status == BRAID_OK; round++) {
    status = try_spec(t, t->options->device, &t->own, &t->own.round_us[round]);
    if (status == BRAID_OK) status = measure_round(t, round, &progress);
  }
  cli_progress_end(&progress);
  join_rounds(&t->own);
  for (size_t i = 0; i < t->count; i++) join_rounds(&t->items[i]);
  return status;
}

/* --- what is tried, and how it ranks -------------------------------------------------------------------------------
 */
static cli_kernel_choices choices_or(const cli_kernel_choices *given, const int64_t *values, size_t count) {
  cli_kernel_choices choices = *given;
  if (choices.count) return choices;
  memcpy(choices.values, values, count * sizeof *values);
  choices.count = count;
  return choices;
}

/* Of our kernels MaxPool has a work-group alone, and the others unroll 16 steps at most. Compilers other than those for
 * FPGAs make nothing of compute units and SIMD width, so one of each is tried. */
static braid_status list_trials(kernel_trials *t, const braid_fmax_table *table) {
  static const int64_t kOne[] = {1}, kGroups[] = {16, 32, 64, 128, 256}, kUnrolls[] = {1, 2, 4, 8, 16};
  const cli_kernel_options *o = t->options;
  bool pool = o->problem.op == BRAID_KERNEL_MAX_POOL, given = o->table_count || o->report_count;
  cli_kernel_choices units = choices_or(&o->units, kOne, 1), simd = choices_or(&o->simd, kOne, 1);
  cli_kernel_choices groups = choices_or(&o->groups, kGroups, 5);
  size_t unrolls = pool ? 1 : 5;
  while (unrolls > 1 && o->most_unroll && kUnrolls[unrolls - 1] > o->most_unroll) unrolls--;
  t->items = calloc(units.count * simd.count * groups.count * unrolls, sizeof *t->items);
  if (!t->items) return cli_no_memory();
  for (size_t g = 0; g < groups.count; g++)
    for (size_t u = 0; u < units.count; u++)
      for (size_t s = 0; s < simd.count; s++)
        for (size_t k = 0; k < unrolls; k++) {
          kernel_trial *trial = &t->items[t->count++];
          trial->design = (braid_kernel_design){units.values[u], simd.values[s], groups.values[g], kUnrolls[k]};
          const braid_fmax_point *point = braid_fmax_table_find(table, units.values[u], simd.values[s], kUnrolls[k]);
          double mhz = point ? point->mhz : given ? NAN : o->clock > 0 ? o->clock : CLI_KERNEL_CLOCK;
          trial->li = isnan(mhz) ? NAN : braid_kernel_latency_indicator(o->work, groups.values[g], mhz);
        }
  return BRAID_OK;
}

/* Ranks from 1, ties share the mean of theirs, among those that have both. */
static void rank_trials(kernel_trials *t) {
  for (size_t i = 0; i < t->count; i++) {
    kernel_trial *a = &t->items[i];
    a->rank_li = a->rank_us = NAN;
    if (isnan(a->li) || isnan(a->us)) continue;
    double below[2] = {0}, same[2] = {0};
    for (size_t k = 0; k < t->count; k++) {
      const kernel_trial *b = &t->items[k];
      if (isnan(b->li) || isnan(b->us)) continue;
      below[0] += b->li < a->li;
      same[0] += b->li == a->li;
      below[1] += b->us < a->us;
      same[1] += b->us == a->us;
    }
    a->rank_li = below[0] + (same[0] + 1) / 2;
    a->rank_us = below[1] + (same[1] + 1) / 2;
  }
}

static braid_status correlate(kernel_trials *t) {
  double *values = calloc(2 * t->count + 1, sizeof *values);
  if (!values) return cli_no_memory();
  for (size_t i = 0; i < t->count; i++) {
    t->measured += !isnan(t->items[i].us);
    if (isnan(t->items[i].li) || isnan(t->items[i].us)) continue;
    values[t->ranked] = t->items[i].li;
    values[t->count + t->ranked++] = t->items[i].us;
  }
  braid_status status = braid_rank_correlation(NULL, values, values + t->count, t->ranked, &t->spearman, &t->kendall);
  free(values);
  rank_trials(t);
  return status;
}

/* Measured ones first, fastest first. */
static int faster_first(const void *left, const void *right) {
  const kernel_trial *a = left, *b = right;
  if (isnan(a->us) || isnan(b->us)) return isnan(a->us) - isnan(b->us);
  return (a->us > b->us) - (a->us < b->us);
}

/* --- printing ------------------------------------------------------------------------------------------------------
 */
static void add_number(cli_table *table, const char *format, double value) {
  char text[48];
  snprintf(text, sizeof text, format, value);
  cli_table_cell(table, "%s", isnan(value) ? "?" : text);
}

static void make_table(const kernel_trials *t, cli_table *table) {
  cli_table_begin(table, "Configurations, fastest first",
                  "units: compute units; group: work-items of a group. us: measured by the device's events, the median "
                  "of three rounds' medians; spread: how far these lie "
                  "apart. LI: modelled. Ranks of equal ones are their mean.",
                  "units|SIMD|group|unroll|LI|us|spread|rank LI|rank us|kernel");
  for (size_t i = 0; i < t->count; i++) {
    const kernel_trial *trial = &t->items[i];
    const braid_kernel_design *d = &trial->design;
    const int64_t sides[] = {d->units, d->simd, d->group, d->unroll};
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) cli_table_cell(table, "%" PRId64, sides[k]);
    cli_kernel_add_indicator(table, trial->li);
    add_number(table, "%.1f", trial->us);
    add_number(table, "%.0f%%", 100 * trial->spread);
    add_number(table, "%g", trial->rank_li);
    add_number(table, "%g", trial->rank_us);
    if (isnan(trial->us))
      cli_table_cell(table, "failed: %s", trial->why_not);
    else
      cli_table_cell(table, "%s", trial->kernel);
  }
}

static void print_all(const kernel_trials *t, const cli_table *table) {
  const cli_kernel_options *o = t->options;
  char title[256], work[32];
  printf("%s: %s %s, on %s\n", cli_kernel_title(o, title, sizeof title), cli_format_count(o->work, work, sizeof work),
         o->problem.op == BRAID_KERNEL_MAX_POOL ? "comparisons" : "multiply-accumulates", o->device);
  cli_table_print(table, 1000);
  printf("\n%zu configurations, %zu measured, %zu failed\n", t->count, t->measured, t->count - t->measured);
  printf("The device's own choice: %s, %.1f us, measured\n", t->own.kernel, t->own.us);
  if (isnan(t->spearman))
    printf("No rank correlation: of %zu that have an indicator and a time, all are equal in one of them\n", t->ranked);
  else
    printf(
        "Rank correlation of LI (modelled) and time (measured) over %zu: Spearman's rho %.3f, Kendall's tau-b %.3f\n",
        t->ranked, t->spearman, t->kendall);
  double spread = 0;
  for (size_t i = 0; i < t->count; i++) spread = fmax(spread, t->items[i].spread); /* not of NAN */
  printf("Rounds of one configuration lie up to %.0f%% apart: times that differ less say nothing.\n", 100 * spread);
  if (!o->table_count && !o->report_count)
    puts("Fmax is the same for all, since the device's clock does not depend on the kernel: LI ranks by the work-group "
         "alone.");
}

static void json_trial(cli_json *json, const kernel_trial *trial) {
  cli_json_object(json, NULL);
  cli_kernel_json_design(json, &trial->design);
  cli_json_number(json, "latency_indicator", trial->li);
  cli_json_number(json, "measured_us", trial->us);
  cli_json_number(json, "measured_spread", trial->spread);
  cli_json_number(json, "rank_by_latency_indicator", trial->rank_li);
  cli_json_number(json, "rank_by_measured_us", trial->rank_us);
  if (isnan(trial->us))
    cli_json_string(json, "failed", trial->why_not);
  else
    cli_json_string(json, "kernel", trial->kernel);
  cli_json_close(json, '}');
}

static braid_status print_json(const kernel_trials *t) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_kernel_json_head(&json, t->options);
  cli_json_string(&json, "device", t->options->device);
  cli_json_string(&json, "own_kernel", t->own.kernel);
  cli_json_number(&json, "own_measured_us", t->own.us);
  cli_json_array(&json, "configurations");
  for (size_t i = 0; i < t->count; i++) json_trial(&json, &t->items[i]);
  cli_json_close(&json, ']');
  cli_json_integer(&json, "ranked", (int64_t)t->ranked);
  cli_json_number(&json, "spearman", t->spearman);
  cli_json_number(&json, "kendall", t->kendall);
  cli_json_end(&json);
  return BRAID_OK;
}

static braid_status show(kernel_trials *t) {
  cli_table table;
  braid_status status = correlate(t);
  if (status != BRAID_OK) return status;
  if (!t->measured)
    return braid_fail(BRAID_UNSUPPORTED, "none of %zu configurations could be measured on %s; the first: %s", t->count,
                      t->options->device, t->items[0].why_not);
  qsort(t->items, t->count, sizeof *t->items, faster_first);
  make_table(t, &table);
  if (table.failed) status = cli_no_memory();
  if (status == BRAID_OK && t->options->common.json) status = print_json(t);
  if (status == BRAID_OK && !t->options->common.json) print_all(t, &table);
  cli_table_end(&table);
  return status;
}

braid_status cli_kernel_measure(const cli_kernel_options *o, const braid_fmax_table *table) {
  kernel_trials t = {.options = o};
  cli_place place = {.devices = o->device};
  if (strlen(o->device) + 80 > MOST_SPEC || strchr(o->device, ' '))
    return braid_fail(BRAID_INVALID_ARGUMENT, "--device \"%.60s\": one device is expected", o->device);
  cli_catch_interrupt();
  braid_status status = cli_open_registry(&place);
  t.registry = place.registry;
  if (status == BRAID_OK) status = make_graph(&o->problem, &t.graph);
  if (status == BRAID_OK) status = list_trials(&t, table);
  if (status == BRAID_OK) status = measure_trials(&t);
  if (status == BRAID_OK) status = show(&t);
  free(t.items);
  braid_graph_destroy(t.graph);
  cli_close_registry(&place);
  return status;
}
