/* `braid explore kernel` without a device: the search over the paper's space, printed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

typedef struct kernel_findings {
  const cli_kernel_options *options;
  const braid_chip *chip; /* NULL: none is given beside a table */
  const braid_fmax_table *table;
  bool model;
  braid_kernel_space space;
  braid_kernel_search search;
} kernel_findings;

static void take_choices(const cli_kernel_choices *given, int64_t values[BRAID_KERNEL_CHOICES], size_t *count) {
  if (!given->count) return;
  memcpy(values, given->values, sizeof given->values);
  *count = given->count;
}

static braid_kernel_space space_of(const cli_kernel_options *o) {
  braid_kernel_space space = braid_kernel_paper_space(o->problem.op);
  take_choices(&o->units, space.units, &space.unit_count);
  take_choices(&o->simd, space.simd, &space.simd_count);
  take_choices(&o->groups, space.groups, &space.group_count);
  if (o->most_unroll) space.most_unroll = o->most_unroll;
  return space;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
enum { TABLES = 3 };

static void add_share(cli_table *table, double share) {
  if (isnan(share))
    cli_table_cell(table, "?");
  else
    cli_table_cell(table, "%.0f%%", 100 * share);
}

static const char *fmax_source(const kernel_findings *f, const braid_kernel_result *r) {
  if (!r->from_table) return "model";
  return braid_fmax_table_find(f->table, r->design.units, r->design.simd, r->design.unroll)->file;
}

static size_t shown_results(const kernel_findings *f) {
  size_t most = f->options->top ? (size_t)f->options->top : 5;
  return f->search.distinct < most ? f->search.distinct : most;
}

static void make_top(const kernel_findings *f, cli_table *table) {
  cli_table_begin(table, "The best by the latency indicator, smaller is faster",
                  "units: compute units; group: work-items of a group. LI, and the shares of the chip: modelled. MHz: "
                  "Fmax, as given by "
                  "a table or report, or modelled.",
                  "rank|units|SIMD|group|unroll|MHz|LI|logic|DSPs|BRAMs|Fmax from");
  for (size_t i = 0; i < shown_results(f); i++) {
    const braid_kernel_result *r = &f->search.results[i];
    const int64_t sides[] = {(int64_t)i + 1, r->design.units, r->design.simd, r->design.group, r->design.unroll};
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) cli_table_cell(table, "%" PRId64, sides[k]);
    cli_table_cell(table, "%.4g", r->fmax_mhz);
    cli_kernel_add_indicator(table, r->li);
    for (int k = 0; k < BRAID_KERNEL_RESOURCES; k++) add_share(table, r->used[k]);
    cli_table_cell(table, "%.80s", fmax_source(f, r));
  }
}

static void make_stages(const kernel_findings *f, cli_table *table) {
  const braid_kernel_search *s = &f->search;
  cli_table_begin(table, "Combinations", NULL, "stage|left|how");
  cli_table_cell(table, "all");
  cli_table_cell(table, "%zu", s->all);
  cli_table_cell(table, "%zu compute units x %zu SIMD widths x %zu work-groups x %" PRId64 " unrollings",
                 f->space.unit_count, f->space.simd_count, f->space.group_count, f->space.most_unroll);
  cli_table_cell(table, "fit the chip");
  cli_table_cell(table, "%zu", s->fitting);
  cli_table_cell(table,
                 f->chip && f->chip->kernel ? "binary search over unrolling, %zu checks"
                                            : "no chip's costs: only what a report says is left out, %zu checks",
                 s->fit_checks);
  cli_table_cell(table, "Fmax is known");
  cli_table_cell(table, "%zu", s->known);
  cli_table_cell(table, f->model ? "tables, reports and the model" : "tables and reports");
  cli_table_cell(table, "Fmax differs");
  cli_table_cell(table, "%zu", s->distinct);
  cli_table_cell(table, "of one work-group size, 10%% or more from any other that is left");
}

typedef struct cost_line {
  const char *key;
  const braid_figure *figure;
} cost_line;
enum { COSTS = 10 };

static void list_costs(const braid_kernel_costs *c, cost_line out[COSTS]) {
  const cost_line lines[COSTS] = {
      {"mac_dsps", c->mac_dsps},     {"mac_luts", c->mac_luts},       {"compare_luts", c->compare_luts},
      {"unit_luts", c->unit_luts},   {"unit_brams", c->unit_brams},   {"shell_luts", c->shell_luts},
      {"shell_dsps", c->shell_dsps}, {"shell_brams", c->shell_brams}, {"fmax_empty", c->fmax_empty},
      {"fmax_full", c->fmax_full},
  };
  memcpy(out, lines, sizeof lines);
}

static void make_costs(const kernel_findings *f, cli_table *table) {
  cli_table_begin(table, "What the model of the chip rests on", "No published point validates it.",
                  "figure|value|source");
  if (!f->chip || !f->chip->kernel) return;
  cost_line lines[COSTS];
  list_costs(f->chip->kernel, lines);
  for (size_t i = 0; i < COSTS; i++) {
    cli_table_cell(table, "%s", lines[i].key);
    cli_table_cell(table, "%.10g", lines[i].figure->value);
    cli_table_cell(table, "%s", lines[i].figure->source);
  }
}

/* --- the paper's examples ------------------------------------------------------------------------------------------
 */
enum { EXAMPLES = 2 };
typedef struct paper_example {
  const braid_kernel_row *row;
  double li;
} paper_example;

static braid_status compute_examples(paper_example out[EXAMPLES]) {
  const braid_kernel_problem problem = {.op = BRAID_KERNEL_MATMUL, .dims = {2048, 1024, 1024}};
  double work;
  size_t count = 0;
  braid_status status = braid_kernel_work(&problem, &work);
  for (size_t i = 0; i < BRAID_KERNEL_ROWS && count < EXAMPLES && status == BRAID_OK; i++) {
    const braid_kernel_row *row = &braid_kernel_paper_rows()[i];
    if (isnan(row->fmax_mhz)) continue;
    out[count++] = (paper_example){row, braid_kernel_latency_indicator(work, row->design.group, row->fmax_mhz)};
  }
  return status;
}

/* --- printing ------------------------------------------------------------------------------------------------------
 */
static void print_all(const kernel_findings *f, const cli_table tables[TABLES],
                      const paper_example examples[EXAMPLES]) {
  char title[256], work[32];
  const braid_kernel_problem *p = &f->options->problem;
  printf("%s: %s %s, size class: %s\n", cli_kernel_title(f->options, title, sizeof title),
         cli_format_count(f->options->work, work, sizeof work),
         p->op == BRAID_KERNEL_MAX_POOL ? "comparisons" : "multiply-accumulates",
         braid_kernel_size_class_name(braid_kernel_classify(p)));
  if (f->chip)
    printf("%s, %" PRId64 " such kernel%s on it%s\n", f->chip->name, f->options->kernels,
           f->options->kernels == 1 ? "" : "s",
           f->chip->kernel ? "" : "; it has no costs of kernels, what fits is not known");
  cli_table_print(&tables[0], 100);
  cli_table_print(&tables[1], 1000);
  if (!f->search.distinct) puts("No combination that fits has a known Fmax.");
  puts("\nThe indicator sees work-group and Fmax alone: it has no term for what compute units, SIMD and unrolling "
       "compute at once, and the size of the op is a factor that changes no rank.");
  if (f->model) {
    puts("Fmax of the model is an assumption, linear in the fullest resource, and falls with the kernel's size: by it "
         "the smallest kernels lead. It is fitted to nothing.");
    cli_table_print(&tables[2], 100);
  }
  puts("\nThe paper's examples, MatMul 2048x1024 by 1024x1024:");
  for (size_t i = 0; i < EXAMPLES; i++)
    printf("  work-group %" PRId64 " at %g MHz: LI %.2f, published %.2f\n", examples[i].row->design.group,
           examples[i].row->fmax_mhz, examples[i].li, examples[i].row->li);
}

static void json_search(cli_json *json, const kernel_findings *f) {
  const braid_kernel_search *s = &f->search;
  cli_json_object(json, "combinations");
  cli_json_integer(json, "all", (int64_t)s->all);
  cli_json_integer(json, "fitting", (int64_t)s->fitting);
  cli_json_integer(json, "fit_checks", (int64_t)s->fit_checks);
  cli_json_integer(json, "fmax_known", (int64_t)s->known);
  cli_json_integer(json, "fmax_distinct", (int64_t)s->distinct);
  cli_json_close(json, '}');
  cli_json_array(json, "top");
  for (size_t i = 0; i < shown_results(f); i++) {
    static const char *const kUsed[BRAID_KERNEL_RESOURCES] = {"modelled_logic_share", "modelled_dsp_share",
                                                              "modelled_bram_share"};
    const braid_kernel_result *r = &s->results[i];
    cli_json_object(json, NULL);
    cli_kernel_json_design(json, &r->design);
    cli_json_number(json, r->from_table ? "fmax_mhz" : "modelled_fmax_mhz", r->fmax_mhz);
    cli_json_string(json, "fmax_from", fmax_source(f, r));
    cli_json_number(json, "latency_indicator", r->li);
    for (int k = 0; k < BRAID_KERNEL_RESOURCES; k++) cli_json_number(json, kUsed[k], r->used[k]);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static braid_status print_json(const kernel_findings *f, const paper_example examples[EXAMPLES]) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_kernel_json_head(&json, f->options);
  if (f->chip) cli_json_string(&json, "chip", f->chip->name);
  if (f->chip) cli_json_integer(&json, "kernels_on_chip", f->options->kernels);
  json_search(&json, f);
  if (f->chip && f->chip->kernel) {
    cost_line lines[COSTS];
    list_costs(f->chip->kernel, lines);
    cli_json_object(&json, "assumptions");
    for (size_t i = 0; i < COSTS; i++) {
      cli_json_object(&json, lines[i].key);
      cli_json_number(&json, "value", lines[i].figure->value);
      cli_json_string(&json, "source", lines[i].figure->source);
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, '}');
  }
  cli_json_array(&json, "check");
  for (size_t i = 0; i < EXAMPLES; i++) {
    cli_json_object(&json, NULL);
    cli_kernel_json_design(&json, &examples[i].row->design);
    cli_json_number(&json, "fmax_mhz", examples[i].row->fmax_mhz);
    cli_json_number(&json, "latency_indicator", examples[i].li);
    cli_json_number(&json, "published_latency_indicator", examples[i].row->li);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_end(&json);
  return BRAID_OK;
}

static braid_status show(const kernel_findings *f) {
  paper_example examples[EXAMPLES];
  cli_table tables[TABLES];
  braid_status status = compute_examples(examples);
  if (status != BRAID_OK) return status;
  make_stages(f, &tables[0]);
  make_top(f, &tables[1]);
  make_costs(f, &tables[2]);
  for (size_t i = 0; i < TABLES; i++)
    if (status == BRAID_OK && tables[i].failed) status = cli_no_memory();
  if (status == BRAID_OK && f->options->common.json) status = print_json(f, examples);
  if (status == BRAID_OK && !f->options->common.json) print_all(f, tables, examples);
  for (size_t i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

braid_status cli_kernel_search(const cli_kernel_options *o, const braid_fmax_table *table) {
  bool given = o->table_count || o->report_count;
  braid_chip *chip = NULL;
  kernel_findings f = {.options = o, .table = table, .model = o->model || !given, .space = space_of(o)};
  braid_status status = BRAID_OK;
  if (o->chip || f.model) status = braid_chip_load(NULL, o->chip ? o->chip : CLI_KERNEL_CHIP, &chip);
  f.chip = chip;
  const braid_kernel_sources sources = {.chip = chip, .table = table, .model = f.model, .kernels = o->kernels};
  if (status == BRAID_OK) status = braid_kernel_explore(NULL, o->problem.op, o->work, &f.space, &sources, &f.search);
  if (status == BRAID_OK) {
    status = show(&f);
    braid_kernel_search_deinit(NULL, &f.search);
  }
  braid_chip_destroy(chip);
  return status;
}
