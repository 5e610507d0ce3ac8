#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "hybrid.h"
#include "manycore.h"
#include "measurement.h"
#include "overlay_evaluation.h"
#include "serving_evaluation.h"
#include "tiles.h"

static const char doc[] =
    "Prints what a paper published beside what Braid's models give and what is measured on this machine, each marked "
    "as "
    "such, and why they differ. SUBJECT is `tiles`, Luo et al. (2020): their FPGA accelerator (Tables 3 and 4, Figs. 8 "
    "and 9) and the model of `braid explore tiles`; or `hybrid`, He et al. (2021): training on GPUs and FPGAs together "
    "(Hype-training; all of section 5) and forecasts as `braid plan` makes them; or `overlay`, Zeng et al. (2021): the "
    "overlay (Tables 1 to 3, Figs. 12 to 20) and what our compilers and simulators give, and policies that share it; "
    "or "
    "`manycore`, Zhao et al. (2018): Sunway's compute cores against its management core (Fig. 7) and the model of the "
    "device manycore; or `serving`, Zeng et al. (2021) again: remote access and tenants (section 6, Fig. 11(c)) and a "
    "daemon on this machine, measured."
    "\vExamples:\n"
    "  braid evaluate tiles\n"
    "  braid evaluate hybrid --html hybrid.html\n"
    "  braid evaluate hybrid --model AlexNet,DCGAN\n"
    "  braid evaluate overlay\n"
    "  braid evaluate overlay --table 2,3 --figure 15 --model ResNet50\n"
    "  braid evaluate overlay --policies --trace AzureLLMInferenceTrace_code.csv\n"
    "  braid evaluate tiles --measure --peer /usr/bin/python3 --html evaluation.html\n"
    "  braid evaluate manycore --model lenet,resnet50-v2\n"
    "  braid evaluate serving --model MobileNet\n"
    "  braid evaluate tiles --json\n"
    "\n--measure runs training steps of the paper's network at batch 128: some seconds, and about 1 GiB of memory.\n";

enum {
  KEY_MEASURE = CLI_FIRST_KEY,
  KEY_PEER,
  KEY_STEPS,
  KEY_THREADS,
  KEY_HTML,
  KEY_MODEL,
  KEY_TABLE,
  KEY_FIGURE,
  KEY_POLICIES,
  KEY_TRACE,
  TABLES = 4,
  BATCH = 128
};

typedef struct options {
  cli_common common;
  const char *subject, *peer, *html, *model, *table, *figure, *trace;
  bool measure, policies;
  int steps, threads;
} options;

static bool is_hybrid(const options *o) {
  return strcmp(o->subject, "hybrid") == 0;
}

static bool is_overlay(const options *o) {
  return strcmp(o->subject, "overlay") == 0;
}

static bool is_manycore(const options *o) {
  return strcmp(o->subject, "manycore") == 0;
}

static bool is_serving(const options *o) {
  return strcmp(o->subject, "serving") == 0;
}

static void check_options(const options *o, struct argp_state *state) {
  bool tiles = !is_hybrid(o) && !is_overlay(o) && !is_manycore(o) && !is_serving(o);
  if (!tiles && o->measure)
    argp_error(state, "--measure has no effect on %s",
               is_hybrid(o) ? "hybrid, whose machines are modelled" : o->subject);
  if (tiles && o->model) argp_error(state, "--model has no effect on tiles");
  if (!is_overlay(o) && (o->table || o->figure)) argp_error(state, "--table and --figure are for overlay");
  if (!is_overlay(o) && (o->policies || o->trace)) argp_error(state, "--policies and --trace are for overlay");
  if (o->trace && !o->policies && (o->table || o->figure))
    argp_error(state, "--trace has no effect without the section on policies: --policies asks for it");
  if (o->peer && !o->measure) argp_error(state, "--peer has no effect without --measure");
  if (o->steps && !o->measure) argp_error(state, "--steps has no effect without --measure");
  if (o->threads && !o->measure) argp_error(state, "--threads has no effect without --measure");
}

static const char *const kSubjects[] = {"tiles", "hybrid", "overlay", "manycore", "serving"};

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_MEASURE:
    o->measure = true;
    return 0;
  case KEY_PEER:
    o->peer = argument;
    return 0;
  case KEY_STEPS:
    o->steps = (int)cli_integer(state, "--steps", argument, 1, 10000);
    return 0;
  case KEY_THREADS:
    o->threads = (int)cli_integer(state, "--threads", argument, 0, 4096);
    return 0;
  case KEY_HTML:
    o->html = argument;
    return 0;
  case KEY_MODEL:
    o->model = argument;
    return 0;
  case KEY_TABLE:
    o->table = argument;
    return 0;
  case KEY_FIGURE:
    o->figure = argument;
    return 0;
  case KEY_POLICIES:
    o->policies = true;
    return 0;
  case KEY_TRACE:
    o->trace = argument;
    return 0;
  case ARGP_KEY_ARG:
    if (o->subject) argp_error(state, "one subject is expected, \"%s\" is a second one", argument);
    for (size_t i = 0; i < sizeof kSubjects / sizeof *kSubjects; i++)
      if (strcmp(argument, kSubjects[i]) == 0) o->subject = argument;
    if (!o->subject)
      argp_error(state, "there is no subject \"%s\"; tiles, hybrid, overlay, manycore and serving are", argument);
    return 0;
  case ARGP_KEY_END:
    if (!o->subject) argp_error(state, "a subject is expected: tiles, hybrid, overlay, manycore or serving");
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- what is compared ----------------------------------------------------------------------------------------------
 */
typedef struct findings {
  cli_tiles_check check;
  braid_tile_result paper[BRAID_TILE_PAPER_DESIGNS];
  double auxiliary_bytes; /* of a step's auxiliary passes */
  cli_measurement measured[CLI_MEASUREMENTS];
} findings;

static braid_status model_designs(findings *f) {
  braid_graph *graph = NULL;
  braid_tile_network *network = NULL;
  braid_chip *chip = NULL;
  braid_status status = braid_tile_paper_model(NULL, &graph);
  if (status == BRAID_OK) status = braid_chip_load(NULL, "xcvu9p", &chip);
  if (status == BRAID_OK) status = braid_tile_network_create(graph, BATCH, &network);
  for (size_t i = 0; status == BRAID_OK && i < BRAID_TILE_PAPER_DESIGNS; i++) {
    braid_tile_design design = braid_tile_paper_design(i, CLI_TILES_CLOCK);
    status = braid_tile_evaluate(network, chip, &design, &f->paper[i]);
  }
  for (size_t i = 0; status == BRAID_OK && i < braid_tile_pass_count(network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(network, i);
    f->auxiliary_bytes += pass.read_bytes + pass.written_bytes;
  }
  braid_tile_network_destroy(network);
  braid_chip_destroy(chip);
  braid_graph_destroy(graph);
  return status;
}

/* The rule of Section 8.1: T_B x T_I first, T_B second. */
static bool ruled_faster(const braid_tile_design *a, const braid_tile_design *b) {
  int64_t x = a->tb * a->ti, y = b->tb * b->ti;
  return x != y ? x > y : a->tb > b->tb;
}

static bool follows_rule(const findings *f) {
  for (size_t i = 0; i < BRAID_TILE_PAPER_DESIGNS; i++)
    for (size_t k = 0; k < BRAID_TILE_PAPER_DESIGNS; k++)
      if (ruled_faster(&f->paper[i].design, &f->paper[k].design) && f->paper[i].total_ms >= f->paper[k].total_ms)
        return false;
  return true;
}

static double gops(const findings *f, double ms) {
  return 2 * f->check.macs / ms / 1e6;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static void add_number(cli_table *table, const char *format, double value) {
  if (isnan(value))
    cli_table_cell(table, "-");
  else
    cli_table_cell(table, format, value); // NOLINT: formats are literals of this file
}

static void add_times(cli_table *table, double ms, double watts, double joules, double efficiency) {
  add_number(table, "%.5g", ms);
  add_number(table, "%.4g", isnan(ms) ? NAN : BATCH * 1e3 / ms);
  add_number(table, "%.4g", watts);
  add_number(table, "%.4g", joules);
  add_number(table, "%.4g", efficiency);
}

static void make_platforms(const findings *f, cli_table *table) {
  cli_table_begin(table, "Table 3: a training step of 128 images", NULL,
                  "figures are|platform|software|ms|images/s|W|J|energy efficiency, times");
  for (size_t i = 0; i < BRAID_TILE_PLATFORMS; i++) {
    const braid_tile_platform *p = &braid_tile_platforms()[i];
    cli_table_cell(table, "published");
    cli_table_cell(table, "%s", p->platform);
    cli_table_cell(table, "%s", p->framework);
    add_times(table, p->ms, p->watts, p->joules, p->efficiency);
  }
  cli_table_cell(table, "modelled");
  cli_table_cell(table, "MAX5, VU9P at 200 MHz");
  cli_table_cell(table, "T_B = 128, T_I = 32");
  add_times(table, f->check.result.total_ms, NAN, NAN, NAN);
  for (size_t i = 0; i < CLI_MEASUREMENTS; i++) {
    const cli_measurement *m = &f->measured[i];
    cli_table_cell(table, isnan(m->ms) ? "not measured" : "measured");
    cli_table_cell(table, "this CPU");
    if (isnan(m->ms))
      cli_table_cell(table, "%s: %s", m->name, m->why_not);
    else
      cli_table_cell(table, "%s, %d threads", m->name, m->threads);
    add_times(table, m->ms, NAN, NAN, NAN);
  }
}

static void make_accelerators(const findings *f, cli_table *table) {
  cli_table_begin(table, "Table 4: accelerators for training on FPGAs",
                  "\"~\": about, as printed. \"-\": not published. FPDeep's figures are of each of its FPGAs.",
                  "figures are|accelerator|FPGAs|platform|network|kLUT|DSPs|GOPS|images/s");
  for (size_t i = 0; i < BRAID_TILE_ACCELERATORS; i++) {
    const braid_tile_accelerator *a = &braid_tile_accelerators()[i];
    cli_table_cell(table, a->approximate ? "published ~" : "published");
    cli_table_cell(table, "%s", a->name);
    cli_table_cell(table, "%.0f", a->fpgas);
    cli_table_cell(table, "%s", a->platform);
    cli_table_cell(table, "%s", a->model);
    add_number(table, "%.4g", a->kiloluts);
    add_number(table, "%.0f", a->dsps);
    add_number(table, "%.0f", a->gops);
    add_number(table, "%.4g", a->images_per_second);
  }
  const braid_tile_result *r = &f->check.result;
  cli_table_cell(table, "modelled");
  cli_table_cell(table, "T_B = 128, T_I = 32");
  cli_table_cell(table, "1");
  cli_table_cell(table, "XCVU9P");
  cli_table_cell(table, "VGG-like, CIFAR-10");
  cli_table_cell(table, "-"); /* beta and delta are not published */
  cli_table_cell(table, "%.0f", r->dsps);
  cli_table_cell(table, "%.0f", gops(f, r->total_ms));
  cli_table_cell(table, "%.4g", BATCH * 1e3 / r->total_ms);
}

static void make_designs(const findings *f, cli_table *table) {
  cli_table_begin(table, "Fig. 8: the design points of Section 8.1",
                  "Modelled. The curves of Fig. 8 (time, performance, resources) were not published as numbers; the "
                  "text gives a rule, by T_B x T_I, then by T_B, and removes (128, 64) for its resources.",
                  "T_B|T_I|ms|GOPS|DSPs|BRAMs|nearest limit");
  for (size_t i = 0; i < BRAID_TILE_PAPER_DESIGNS; i++) {
    const braid_tile_result *r = &f->paper[i];
    cli_table_cell(table, "%" PRId64, r->design.tb);
    cli_table_cell(table, "%" PRId64, r->design.ti);
    cli_table_cell(table, "%.4g", r->total_ms);
    cli_table_cell(table, "%.0f", gops(f, r->total_ms));
    cli_table_cell(table, "%.0f", r->dsps);
    cli_table_cell(table, "%.0f", r->brams);
    cli_table_cell(table, "%s%s %.0f%%", r->fits ? "" : "no: ", braid_tile_limit_name(r->binding),
                   100 * r->used[r->binding]);
  }
}

static void add_system(cli_table *table, const char *kind, const char *name, double seconds, double base,
                       const char *remark) {
  cli_table_cell(table, "%s", kind);
  cli_table_cell(table, "%s", name);
  add_number(table, "%.4g", seconds);
  add_number(table, "%.3g", seconds / base);
  cli_table_cell(table, "%s", remark);
}

static void make_systems(const findings *f, cli_table *table) {
  cli_table_begin(
      table, "Fig. 9: auxiliary passes on the CPU (heterogeneous) or on the FPGA (homogeneous)",
      "The shares of products and auxiliary passes in Fig. 9 were not published as numbers, the totals were.",
      "figures are|system|s|times FPGA only|remark");
  const braid_tile_system *systems = braid_tile_systems();
  double published = systems[BRAID_TILE_SYSTEMS - 1].seconds;
  for (size_t i = 0; i < BRAID_TILE_SYSTEMS; i++)
    add_system(table, "published", systems[i].name, systems[i].seconds, published, "");
  const braid_tile_result *r = &f->check.result;
  double whole = r->total_ms / 1e3, products = whole - r->phase_ms[BRAID_TILE_AUXILIARY] / 1e3;
  char remark[200];
  snprintf(
      remark, sizeof remark,
      "the products alone; the published total leaves %.2f s for auxiliary passes that stream %.2f GB between FPGA "
      "and CPU, which the paper does not model",
      systems[1].seconds - products, f->auxiliary_bytes / 1e9);
  add_system(table, "modelled", "CPU + FPGA, at least", products, whole, remark);
  add_system(table, "modelled", "FPGA only", whole, whole, "");
  double cpu = f->measured[CLI_MEASURED_FLOAT].ms / 1e3;
  add_system(table, isnan(cpu) ? "not measured" : "measured", "this CPU only", cpu, whole,
             isnan(cpu) ? f->measured[CLI_MEASURED_FLOAT].why_not : "against the modelled FPGA");
}

/* --- printing ------------------------------------------------------------------------------------------------------
 */
static void print_all(const findings *f, const cli_table tables[TABLES]) {
  puts("DarkFPGA (Luo et al. 2020): what was published, what the model gives, what is measured here");
  for (size_t i = 0; i < TABLES; i++) {
    cli_table_print(&tables[i], SIZE_MAX - 1);
    if (i == 2)
      printf("  By the model's times the nine points are %sin the order of the rule in Section 8.1: by T_B x T_I, then "
             "by T_B. "
             "Of an order the paper prints this rule and the ends, (128, 32) and (32, 16).\n",
             follows_rule(f) ? "" : "not ");
  }
  puts("");
  cli_tiles_print_check(&f->check);
  puts("\nNot published: beta, delta, D_mul, D_add and the fixed resources; how many auxiliary passes a step has; any "
       "accuracy; the curves and shares named above.");
}

static void json_measured(cli_json *json, const findings *f) {
  cli_json_array(json, "measured");
  for (size_t i = 0; i < CLI_MEASUREMENTS; i++) {
    const cli_measurement *m = &f->measured[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "name", m->name);
    cli_json_number(json, "measured_ms", m->ms);
    if (isnan(m->ms))
      cli_json_string(json, "not_measured", m->why_not);
    else
      cli_json_integer(json, "threads", m->threads);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_published(cli_json *json) {
  cli_json_object(json, "published");
  cli_json_array(json, "table_3");
  for (size_t i = 0; i < BRAID_TILE_PLATFORMS; i++) {
    const braid_tile_platform *p = &braid_tile_platforms()[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "platform", p->platform);
    cli_json_string(json, "software", p->framework);
    cli_json_number(json, "published_ms", p->ms);
    cli_json_number(json, "published_w", p->watts);
    cli_json_number(json, "published_j", p->joules);
    cli_json_number(json, "published_efficiency", p->efficiency);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_array(json, "table_4");
  for (size_t i = 0; i < BRAID_TILE_ACCELERATORS; i++) {
    const braid_tile_accelerator *a = &braid_tile_accelerators()[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "accelerator", a->name);
    cli_json_string(json, "platform", a->platform);
    cli_json_string(json, "network", a->model);
    cli_json_bool(json, "approximate", a->approximate);
    cli_json_number(json, "fpgas", a->fpgas);
    cli_json_number(json, "kluts", a->kiloluts);
    cli_json_number(json, "dsps", a->dsps);
    cli_json_number(json, "gops", a->gops);
    cli_json_number(json, "images_per_second", a->images_per_second);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_array(json, "figure_9");
  for (size_t i = 0; i < BRAID_TILE_SYSTEMS; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "system", braid_tile_systems()[i].name);
    cli_json_number(json, "published_s", braid_tile_systems()[i].seconds);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

static braid_status print_json(const findings *f) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  json_published(&json);
  cli_tiles_json_check(&json, &f->check);
  cli_json_number(&json, "modelled_gops", gops(f, f->check.result.total_ms));
  cli_json_array(&json, "figure_8");
  for (size_t i = 0; i < BRAID_TILE_PAPER_DESIGNS; i++) cli_tiles_json_design(&json, NULL, &f->paper[i]);
  cli_json_close(&json, ']');
  cli_json_bool(&json, "order_follows_rule", follows_rule(f));
  cli_json_number(&json, "modelled_products_ms",
                  f->check.result.total_ms - f->check.result.phase_ms[BRAID_TILE_AUXILIARY]);
  cli_json_number(&json, "auxiliary_bytes", f->auxiliary_bytes);
  json_measured(&json, f);
  cli_json_end(&json);
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status show(const options *o, const findings *f) {
  cli_table tables[TABLES];
  make_platforms(f, &tables[0]);
  make_accelerators(f, &tables[1]);
  make_designs(f, &tables[2]);
  make_systems(f, &tables[3]);
  braid_status status = BRAID_OK;
  braid_page_table pages[TABLES];
  for (size_t i = 0; i < TABLES; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && o->html)
    status =
        braid_tile_write_html(NULL, o->html, "DarkFPGA: published, modelled, measured", NULL, NULL, 0, pages, TABLES);
  if (status == BRAID_OK && o->common.json) status = print_json(f);
  if (status == BRAID_OK && !o->common.json) print_all(f, tables);
  for (size_t i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

/* --- hybrid --------------------------------------------------------------------------------------------------------
 */
static void print_hybrid(const cli_hybrid *h, const cli_table tables[CLI_HYBRID_TABLES]) {
  puts("Hype-training (He et al. 2021), section 5: what was published, and what the forecasts of `braid plan` give. "
       "All of "
       "ours is modelled, from the paper's Table 1.");
  for (size_t i = 0; i < CLI_HYBRID_TABLES; i++) cli_table_print(&tables[i], SIZE_MAX - 1);
  puts("\nAssumed, since nobody published it:");
  for (size_t i = 0; i < braid_modelled_assumption_count(h->pair); i++)
    printf("  - %s\n", braid_modelled_assumption(h->pair, i));
}

static int evaluate_hybrid(const options *o) {
  cli_hybrid *h = calloc(1, sizeof *h);
  cli_table tables[CLI_HYBRID_TABLES] = {{0}};
  braid_page_table pages[CLI_HYBRID_TABLES];
  braid_status status = h ? cli_hybrid_select(o->model, h) : cli_no_memory();
  if (status == BRAID_OK) status = cli_hybrid_make(h);
  if (status == BRAID_OK) cli_hybrid_tables(h, tables);
  for (size_t i = 0; i < CLI_HYBRID_TABLES && status == BRAID_OK; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && o->html)
    status = braid_tile_write_html(NULL, o->html, "Hype-training: published, modelled", NULL, NULL, 0, pages,
                                   CLI_HYBRID_TABLES);
  if (status == BRAID_OK && o->common.json) status = cli_hybrid_json(h);
  if (status == BRAID_OK && !o->common.json) print_hybrid(h, tables);
  for (size_t i = 0; i < CLI_HYBRID_TABLES; i++) cli_table_end(&tables[i]);
  if (h) cli_hybrid_end(h);
  free(h);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o->common, "evaluate", status);
}

static int evaluate_overlay(const options *o) {
  const cli_file files[] = {{"the file of --trace", o->trace, false}, {"--html", o->html, true}};
  cli_overlay *all = calloc(1, sizeof *all);
  braid_status status = all ? cli_check_files(files, sizeof files / sizeof *files) : cli_no_memory();
  if (status == BRAID_OK) status = cli_overlay_select(all, o->table, o->figure, o->policies, o->model);
  if (all) all->trace = o->trace;
  if (status == BRAID_OK) status = cli_overlay_make(all);
  if (status == BRAID_OK) status = cli_overlay_show(all, o->common.json, o->html);
  free(all);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o->common, "evaluate", status);
}

static int evaluate_manycore(const options *o) {
  const cli_file files[] = {{"--html", o->html, true}};
  braid_status status = cli_check_files(files, 1);
  if (status == BRAID_OK) status = cli_manycore_evaluate(o->model, o->common.json, o->html);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o->common, "evaluate", status);
}

static int evaluate_serving(const options *o) {
  const cli_file files[] = {{"--html", o->html, true}};
  braid_status status = cli_check_files(files, 1);
  if (status == BRAID_OK) status = cli_serving_evaluate(o->model, o->common.json, o->html);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o->common, "evaluate", status);
}

int cli_evaluate(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"measure", KEY_MEASURE, NULL, 0, "Measure training steps of the paper's network on this CPU", 0},
      {"peer", KEY_PEER, "PYTHON", 0, "Measure PyTorch too, by this Python", 0},
      {"steps", KEY_STEPS, "N", 0, "Measured steps, after one for warm-up (default 5)", 0},
      {"threads", KEY_THREADS, "N", 0, "CPU threads (0: as many as this process may use)", 0},
      {"html", KEY_HTML, "FILE", 0, "Write a page with all tables", 0},
      {"model", KEY_MODEL, "M[,M...]", 0,
       "With hybrid: only these models, without averages, which are of all six; with overlay, manycore or serving: "
       "only these "
       "networks",
       0},
      {"table", KEY_TABLE, "N[,N...]", 0, "With overlay: only these tables (1 to 3), and figures by --figure", 0},
      {"figure", KEY_FIGURE, "N[,N...]", 0, "With overlay: only these figures (12 to 20), and tables by --table", 0},
      {"policies", KEY_POLICIES, NULL, 0,
       "With overlay: only policies that share the card, and what --table and --figure say", 0},
      {"trace", KEY_TRACE, "FILE", 0,
       "With overlay: policies also on a trace of requests (TIMESTAMP,ContextTokens,GeneratedTokens)", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "SUBJECT", doc, children, NULL, NULL};
  options o = {.threads = 0};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  if (is_hybrid(&o)) return evaluate_hybrid(&o);
  if (is_overlay(&o)) return evaluate_overlay(&o);
  if (is_manycore(&o)) return evaluate_manycore(&o);
  if (is_serving(&o)) return evaluate_serving(&o);
  findings f = {.auxiliary_bytes = 0};
  cli_measurements_init(f.measured);
  braid_status status = cli_tiles_make_check(&f.check);
  if (status == BRAID_OK) status = model_designs(&f);
  if (status == BRAID_OK && o.measure) status = cli_measure_steps(o.threads, o.steps ? o.steps : 5, o.peer, f.measured);
  if (status == BRAID_OK) status = show(&o, &f);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "evaluate", status);
}
