#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "tiles.h"

static const char doc[] =
    "Explores designs of an FPGA accelerator that trains NETWORK in 8-bit integers, by the analytical model of Luo et "
    "al. (2020): time, resources and bandwidth of every choice of the tiles T_B (batch) and T_I (image, channels, "
    "filters), without an FPGA. SUBJECT is `tiles`. `braid explore kernel` ranks configurations of one OpenCL kernel; "
    "`braid explore kernel --help` describes it."
    "\vExamples:\n"
    "  braid explore tiles --network vgg-16.cfg --chip xcvu9p\n"
    "  braid explore tiles --network resnet50.onnx --chip alveo-u250 --batch 64 --html designs.html\n"
    "  braid explore tiles --network lenet.cfg --chip mine.yaml --tb 32,64 --ti 16,32 --clock 250\n"
    "\nAll times and resources are modelled; `braid evaluate tiles` holds the model against what was published. The "
    "chips, the keys of chip files and the equations are in docs/explore.md.\n";

enum { MOST_TILES = 64 };
enum { KEY_NETWORK = CLI_FIRST_KEY, KEY_CHIP, KEY_BATCH, KEY_TB, KEY_TI, KEY_CLOCK, KEY_SHAPE, KEY_SVG, KEY_HTML };

typedef struct tile_list {
  int64_t values[MOST_TILES];
  size_t count; /* 0: not given */
} tile_list;

typedef struct options {
  cli_common common;
  cli_source source;
  const char *subject, *chip, *svg, *html;
  int64_t batch;
  double clock; /* 0: the chip's */
  tile_list tb, ti;
} options;

static void parse_tiles(struct argp_state *state, const char *option, char *text, tile_list *list) {
  list->count = 0;
  for (char *word = text, *next; word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    if (list->count == MOST_TILES) argp_error(state, "%s: more than %d sizes", option, MOST_TILES);
    list->values[list->count++] = cli_integer(state, option, word, 1, BRAID_TILE_MOST);
  }
}

static void check_options(const options *o, struct argp_state *state) {
  if (!o->subject) argp_error(state, "a subject is expected: tiles or kernel");
  if (!o->source.path) argp_error(state, "--network is expected: a .onnx or .cfg file");
  if (!o->chip) argp_error(state, "--chip is expected: a name or a .yaml file");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_NETWORK:
    o->source.path = argument;
    return 0;
  case KEY_CHIP:
    o->chip = argument;
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, BRAID_TILE_MOST);
    return 0;
  case KEY_TB:
    parse_tiles(state, "--tb", argument, &o->tb);
    return 0;
  case KEY_TI:
    parse_tiles(state, "--ti", argument, &o->ti);
    return 0;
  case KEY_CLOCK:
    o->clock = cli_number(state, "--clock", argument, 0.001, 100000);
    return 0;
  case KEY_SHAPE:
    cli_assign(state, &o->source.shapes, argument);
    return 0;
  case KEY_SVG:
    o->svg = argument;
    return 0;
  case KEY_HTML:
    o->html = argument;
    return 0;
  case ARGP_KEY_ARG:
    if (strcmp(argument, "kernel") == 0) argp_error(state, "the subject kernel is expected before all options");
    return cli_tiles_subject(state, argument, &o->subject);
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- what was found ------------------------------------------------------------------------------------------------
 */
typedef struct findings {
  const braid_chip *chip;
  const braid_tile_network *network;
  double clock;
  bool clock_assumed;                                /* neither the option nor the chip says it */
  braid_tile_result paper[BRAID_TILE_PAPER_DESIGNS]; /* the nine, unless tiles are given */
  braid_tile_search search;
  const braid_tile_result *best, *best_literal; /* NULL: none fits */
  cli_tiles_check check;
} findings;

static const braid_tile_result *fastest(const braid_tile_search *search, bool literal) {
  const braid_tile_result *best = NULL;
  for (size_t i = 0; i < search->count; i++) {
    const braid_tile_result *r = &search->results[i];
    if (!(literal ? r->literal_fits : r->fits)) continue;
    if (!best || r->total_ms < best->total_ms || (r->total_ms == best->total_ms && r->dsps < best->dsps)) best = r;
  }
  return best;
}

static braid_status try_designs(const options *o, findings *f) {
  for (size_t i = 0; i < BRAID_TILE_PAPER_DESIGNS; i++) {
    braid_tile_design design = braid_tile_paper_design(i, f->clock);
    braid_status status = braid_tile_evaluate(f->network, f->chip, &design, &f->paper[i]);
    if (status != BRAID_OK) return status;
  }
  braid_status status = braid_tile_explore(f->network, f->chip, o->tb.count ? o->tb.values : NULL, o->tb.count,
                                           o->ti.count ? o->ti.values : NULL, o->ti.count, f->clock, &f->search);
  if (status != BRAID_OK) return status;
  f->best = fastest(&f->search, false);
  f->best_literal = fastest(&f->search, true);
  return cli_tiles_make_check(&f->check);
}

static bool tiles_given(const options *o) {
  return o->tb.count || o->ti.count;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static const char design_head[] = "T_B|T_I|step ms|products|auxiliary|waits|DSPs|BRAMs|LUTs|GB/s|nearest limit";
static const char design_note[] = "Modelled, ms. products, auxiliary: computation by the paper's equations; waits: "
                                  "what passes wait for memory. LUTs: a "
                                  "range where the chip has no beta and delta. GB/s: what the paper's bandwidth "
                                  "equations ask for at most; they forbid "
                                  "no design here. \"no\": the design does not fit.";

static void add_designs(cli_table *table, const braid_tile_result *results, size_t count) {
  for (size_t i = 0; i < count; i++) cli_tiles_add_design(table, &results[i]);
}

static void make_front(const findings *f, cli_table *table) {
  cli_table_begin(table, "Designs that no other one beats in time and DSPs, fastest first", design_note, design_head);
  for (size_t i = 0; i < f->search.front_count; i++)
    cli_tiles_add_design(table, &f->search.results[f->search.front[i]]);
}

static void make_designs(const options *o, const findings *f, cli_table *table) {
  if (tiles_given(o)) {
    cli_table_begin(table, "Designs", design_note, design_head);
    add_designs(table, f->search.results, f->search.count);
  } else {
    cli_table_begin(table, "The paper's design points (Section 8.1)", design_note, design_head);
    add_designs(table, f->paper, BRAID_TILE_PAPER_DESIGNS);
  }
}

static braid_status make_layers(const findings *f, cli_table *table) {
  cli_table_begin(table, "Layers at the fastest design, ms of a step", "Modelled, with waits for the memory.",
                  "layer|op|forward|backward|gradient|auxiliary");
  for (size_t i = 0; f->best && i < braid_tile_layer_count(f->network); i++) {
    double ms[BRAID_TILE_PHASES];
    braid_status status = braid_tile_layer_times(f->network, f->chip, &f->best->design, i, ms);
    if (status != BRAID_OK) return status;
    braid_tile_layer layer = braid_tile_get_layer(f->network, i);
    cli_table_cell(table, "%.40s", layer.name);
    cli_table_cell(table, "%s", layer.op);
    for (int k = 0; k < BRAID_TILE_PHASES; k++) cli_table_cell(table, "%.3f", ms[k]);
  }
  return BRAID_OK;
}

static size_t rejected_by(const braid_tile_search *search, braid_tile_limit limit) {
  size_t count = 0;
  for (size_t i = 0; i < search->count; i++) count += !search->results[i].fits && search->results[i].binding == limit;
  return count;
}

/* --- printing ------------------------------------------------------------------------------------------------------
 */
static void print_summary(const findings *f) {
  printf("\n%zu designs were tried", f->search.count);
  const char *before = "; rejected, by the limit that is exceeded most: ";
  for (int i = 0; i < BRAID_TILE_LIMITS; i++) {
    size_t count = rejected_by(&f->search, (braid_tile_limit)i);
    if (!count) continue;
    printf("%s%s %zu", before, braid_tile_limit_name((braid_tile_limit)i), count);
    before = ", ";
  }
  puts("");
  if (!f->best) {
    puts("No design fits.");
    return;
  }
  const braid_tile_result *b = f->best;
  double batch = (double)braid_tile_network_batch(f->network);
  printf("Fastest: T_B = %" PRId64 ", T_I = %" PRId64 ": %.4g ms a step, %.4g samples/s, %.4g GOPS, modelled\n",
         b->design.tb, b->design.ti, b->total_ms, batch / b->total_ms * 1e3,
         2 * braid_tile_macs(f->network) / b->total_ms / 1e6);
  if (!f->chip->bandwidth)
    puts("The chip file has no bandwidth: no pass waits for memory, and the bandwidth limits are not checked.");
  else if (f->best_literal)
    printf("Fastest if the paper's bandwidth equations forbid designs, literally: T_B = %" PRId64 ", T_I = %" PRId64
           ": %.4g ms\n",
           f->best_literal->design.tb, f->best_literal->design.ti, f->best_literal->total_ms);
  else
    puts("If the paper's bandwidth equations forbid designs, literally, none is left.");
}

static void print_bandwidth(const findings *f) {
  const braid_tile_result *b = f->best;
  if (!b || !f->chip->bandwidth) return;
  printf("Bandwidth at the fastest design, GB/s: convolutions %.4g, connected %.4g, auxiliary %.4g by the paper's "
         "equations; %.4g asked for by the pass that moves most a cycle, its own streams counted; the chip has %.4g\n",
         b->conv_bandwidth, b->connected_bandwidth, b->auxiliary_bandwidth, b->counted_bandwidth,
         f->chip->bandwidth->value);
}

static void print_head(const options *o, const findings *f) {
  char macs[32];
  printf("%s, batch %" PRId64 ": %zu layers, %zu passes and %s multiply-accumulates a training step\n", o->source.path,
         o->batch, braid_tile_layer_count(f->network), braid_tile_pass_count(f->network),
         cli_format_count(braid_tile_macs(f->network), macs, sizeof macs));
  printf("%s%s%s, %g MHz%s\n", f->chip->name, f->chip->board ? ": " : "", f->chip->board ? f->chip->board : "",
         f->clock, f->clock_assumed ? " (the paper's; the chip file says none)" : "");
}

enum { TABLES = 4, SHOWN_FRONT = 12, SHOWN_DESIGNS = 200, SHOWN_LAYERS = 40 };

static void print_all(const options *o, const findings *f, const cli_table tables[TABLES]) {
  print_head(o, f);
  cli_table_print(&tables[0], SHOWN_DESIGNS);
  cli_table_print(&tables[1], SHOWN_FRONT);
  print_summary(f);
  print_bandwidth(f);
  if (f->best) cli_table_print(&tables[2], SHOWN_LAYERS);
  cli_table_print(&tables[3], SHOWN_LAYERS);
  printf("\n");
  cli_tiles_print_check(&f->check);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_layers(cli_json *json, const findings *f) {
  cli_json_array(json, "layers");
  for (size_t i = 0; f->best && i < braid_tile_layer_count(f->network); i++) {
    double ms[BRAID_TILE_PHASES];
    if (braid_tile_layer_times(f->network, f->chip, &f->best->design, i, ms) != BRAID_OK) continue;
    braid_tile_layer layer = braid_tile_get_layer(f->network, i);
    cli_json_object(json, NULL);
    cli_json_string(json, "name", layer.name);
    cli_json_string(json, "op", layer.op);
    for (int k = 0; k < BRAID_TILE_PHASES; k++) {
      char key[48];
      snprintf(key, sizeof key, "modelled_%s_ms", braid_tile_phase_name((braid_tile_phase)k));
      cli_json_number(json, key, ms[k]);
    }
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_designs(cli_json *json, const options *o, const findings *f) {
  cli_json_array(json, "designs");
  const braid_tile_result *results = tiles_given(o) ? f->search.results : f->paper;
  size_t count = tiles_given(o) ? f->search.count : BRAID_TILE_PAPER_DESIGNS;
  for (size_t i = 0; i < count; i++) cli_tiles_json_design(json, NULL, &results[i]);
  cli_json_close(json, ']');
  cli_json_object(json, "search");
  cli_json_integer(json, "designs", (int64_t)f->search.count);
  cli_json_object(json, "rejected");
  for (int i = 0; i < BRAID_TILE_LIMITS; i++)
    cli_json_integer(json, braid_tile_limit_name((braid_tile_limit)i),
                     (int64_t)rejected_by(&f->search, (braid_tile_limit)i));
  cli_json_close(json, '}');
  cli_json_array(json, "front");
  for (size_t i = 0; i < f->search.front_count; i++)
    cli_tiles_json_design(json, NULL, &f->search.results[f->search.front[i]]);
  cli_json_close(json, ']');
  cli_json_close(json, '}');
  if (f->best) cli_tiles_json_design(json, "best", f->best);
  if (f->best_literal && f->chip->bandwidth) cli_tiles_json_design(json, "best_literal", f->best_literal);
}

static void json_passes(cli_json *json, const findings *f) {
  cli_json_array(json, "passes");
  for (size_t i = 0; f->best && i < braid_tile_pass_count(f->network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(f->network, i);
    double ms, waits;
    if (braid_tile_pass_time(f->network, f->chip, &f->best->design, i, &ms, &waits) != BRAID_OK) continue;
    cli_json_object(json, NULL);
    cli_json_string(json, "layer", braid_tile_get_layer(f->network, pass.layer).name);
    cli_json_string(json, "pass", pass.what);
    cli_json_string(json, "phase", braid_tile_phase_name(pass.phase));
    cli_json_number(json, "modelled_ms", ms);
    cli_json_number(json, "modelled_wait_ms", waits);
    if (pass.phase == BRAID_TILE_AUXILIARY) {
      cli_json_number(json, "read_bytes", pass.read_bytes);
      cli_json_number(json, "written_bytes", pass.written_bytes);
    }
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static braid_status print_json(const options *o, const findings *f) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "network", o->source.path);
  cli_json_integer(&json, "batch", o->batch);
  cli_json_number(&json, "macs", braid_tile_macs(f->network));
  cli_tiles_json_chip(&json, f->chip);
  cli_json_number(&json, "clock_mhz", f->clock);
  cli_json_bool(&json, "clock_assumed", f->clock_assumed);
  json_designs(&json, o, f);
  json_layers(&json, f);
  json_passes(&json, f);
  cli_tiles_json_check(&json, &f->check);
  cli_json_end(&json);
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status write_files(const options *o, const findings *f, const cli_table tables[TABLES]) {
  char title[512];
  snprintf(title, sizeof title, "%.200s on %.60s, batch %" PRId64 ", %g MHz (modelled)", o->source.path, f->chip->name,
           o->batch, f->clock);
  const braid_tile_result *named = tiles_given(o) ? f->search.results : f->paper;
  size_t count = tiles_given(o) ? f->search.count : BRAID_TILE_PAPER_DESIGNS;
  braid_status status = BRAID_OK;
  if (o->svg) status = braid_tile_write_svg(NULL, o->svg, title, &f->search, named, count);
  if (status != BRAID_OK || !o->html) return status;
  braid_page_table pages[TABLES];
  for (size_t i = 0; i < TABLES; i++) pages[i] = cli_table_page(&tables[i]);
  return braid_tile_write_html(NULL, o->html, title, &f->search, named, count, pages, TABLES);
}

static braid_status show(const options *o, const findings *f) {
  cli_table tables[TABLES];
  make_designs(o, f, &tables[0]);
  make_front(f, &tables[1]);
  braid_status status = make_layers(f, &tables[2]);
  cli_tiles_make_figures(f->chip, &tables[3]);
  for (size_t i = 0; i < TABLES; i++)
    if (status == BRAID_OK && tables[i].failed) status = cli_no_memory();
  if (status == BRAID_OK) status = write_files(o, f, tables);
  if (status == BRAID_OK && o->common.json) status = print_json(o, f);
  if (status == BRAID_OK && !o->common.json) print_all(o, f, tables);
  for (size_t i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

static braid_status explore(const options *o) {
  findings f = {.clock = o->clock};
  braid_chip *chip = NULL;
  braid_graph *graph = NULL;
  braid_tile_network *network = NULL;
  braid_status status = braid_chip_load(NULL, o->chip, &chip);
  if (status == BRAID_OK) status = cli_load(&o->source, &graph);
  if (status == BRAID_OK) status = cli_blame_model(&o->source, braid_tile_network_create(graph, o->batch, &network));
  if (status == BRAID_OK) {
    f.chip = chip;
    f.network = network;
    f.clock_assumed = f.clock == 0 && !chip->clock;
    if (f.clock == 0) f.clock = chip->clock ? chip->clock->value : CLI_TILES_CLOCK;
    status = try_designs(o, &f);
  }
  if (status == BRAID_OK) status = show(o, &f);
  braid_tile_search_deinit(&f.search);
  braid_tile_network_destroy(network);
  braid_graph_destroy(graph);
  braid_chip_destroy(chip);
  return status;
}

int cli_explore(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"network", KEY_NETWORK, "FILE", 0, "The network: a .onnx or .cfg file", 0},
      {"chip", KEY_CHIP, "CHIP", 0, "A chip of the library (xcvu9p, ...) or a .yaml file", 0},
      {"batch", KEY_BATCH, "B", 0, "Samples of a training step (default 128)", 0},
      {"tb", KEY_TB, "LIST", 0, "Try these tiles over the batch, e.g. 32,64,128 (default: all that differ)", 0},
      {"ti", KEY_TI, "LIST", 0, "Try these tiles over images, channels and filters (default: 1 to 256)", 0},
      {"clock", KEY_CLOCK, "MHZ", 0, "Clock of the design (default: the chip's, else 200)", 0},
      {"shape", KEY_SHAPE, "[NAME=]DIMS", 0, "Shape of the network's input, where its file leaves it open", 0},
      {"svg", KEY_SVG, "FILE", 0, "Draw time over DSPs", 0},
      {"html", KEY_HTML, "FILE", 0, "Write a page with the drawing and all tables", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "SUBJECT", doc, children, NULL, NULL};
  options o = {.batch = 128};
  if (argc > 1 && strcmp(argv[1], "kernel") == 0) {
    static char title[] = "braid explore kernel";
    argv[1] = title; /* argp prints it in its messages */
    return cli_explore_kernel(argc - 1, argv + 1);
  }
  cli_parse(&argp, argc, argv, &o);
  braid_status status = explore(&o);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "explore", status);
}
