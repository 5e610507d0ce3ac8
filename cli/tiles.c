#include "tiles.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

error_t cli_tiles_subject(struct argp_state *state, const char *argument, const char **subject) {
  if (*subject) argp_error(state, "one subject is expected, \"%s\" is a second one", argument);
  if (strcmp(argument, "tiles") != 0) argp_error(state, "there is no subject \"%s\", only tiles", argument);
  *subject = argument;
  return 0;
}

char *cli_tiles_deviation(double value, double from, char *buffer, size_t bytes) {
  snprintf(buffer, bytes, "%+.1f%%", 100 * (value - from) / from);
  return buffer;
}

/* --- the published point -------------------------------------------------------------------------------------------
 */
braid_status cli_tiles_make_check(cli_tiles_check *out) {
  braid_graph *graph = NULL;
  braid_tile_network *network = NULL;
  braid_chip *chip = NULL;
  braid_tile_design design = {128, 32, CLI_TILES_CLOCK};
  braid_status status = braid_tile_paper_model(NULL, &graph);
  if (status == BRAID_OK) status = braid_chip_load(NULL, "xcvu9p", &chip);
  if (status == BRAID_OK) status = braid_tile_network_create(graph, 128, &network);
  if (status == BRAID_OK) status = braid_tile_evaluate(network, chip, &design, &out->result);
  if (status == BRAID_OK) {
    out->macs = braid_tile_macs(network);
    out->published_ms = braid_tile_platforms()[BRAID_TILE_PLATFORMS - 1].ms;
    out->published_dsps = braid_tile_accelerators()[BRAID_TILE_ACCELERATORS - 1].dsps;
  }
  braid_tile_network_destroy(network);
  braid_chip_destroy(chip);
  braid_graph_destroy(graph);
  return status;
}

void cli_tiles_print_check(const cli_tiles_check *check) {
  const braid_tile_result *r = &check->result;
  double computation = r->conv_ms + r->connected_ms + r->auxiliary_ms;
  char a[32], b[32], c[32];
  printf("The model against the one step that was published (the paper's network, batch 128, T_B = 128, T_I = 32, "
         "200 MHz, VU9P):\n"
         "  published  331 ms, 4202 DSPs\n"
         "  modelled   %.1f ms (%s), %.0f DSPs (%s): convolutions %.1f ms, connected %.2f ms, auxiliary %.1f ms "
         "(together %.1f ms, %s), waits for memory %.1f ms. Nothing is fitted.\n",
         r->total_ms, cli_tiles_deviation(r->total_ms, check->published_ms, a, sizeof a), r->dsps,
         cli_tiles_deviation(r->dsps, check->published_dsps, b, sizeof b), r->conv_ms, r->connected_ms, r->auxiliary_ms,
         computation, cli_tiles_deviation(computation, check->published_ms, c, sizeof c), r->wait_ms);
}

void cli_tiles_json_check(cli_json *json, const cli_tiles_check *check) {
  const braid_tile_result *r = &check->result;
  cli_json_object(json, "check");
  cli_json_string(json, "of", "the paper's network, batch 128, T_B 128, T_I 32, 200 MHz, VU9P");
  cli_json_number(json, "published_ms", check->published_ms);
  cli_json_number(json, "modelled_ms", r->total_ms);
  cli_json_number(json, "deviation", r->total_ms / check->published_ms - 1);
  cli_json_number(json, "modelled_conv_ms", r->conv_ms);
  cli_json_number(json, "modelled_connected_ms", r->connected_ms);
  cli_json_number(json, "modelled_auxiliary_ms", r->auxiliary_ms);
  cli_json_number(json, "modelled_wait_ms", r->wait_ms);
  cli_json_number(json, "published_dsps", check->published_dsps);
  cli_json_number(json, "modelled_dsps", r->dsps);
  cli_json_close(json, '}');
}

/* --- designs -------------------------------------------------------------------------------------------------------
 */
static void add_luts(cli_table *table, const braid_tile_result *r) {
  if (isnan(r->least_luts))
    cli_table_cell(table, "?");
  else if (r->least_luts == r->most_luts)
    cli_table_cell(table, "%.0fk", r->least_luts / 1e3);
  else
    cli_table_cell(table, "%.0f-%.0fk", r->least_luts / 1e3, r->most_luts / 1e3);
}

/* All limits that are broken, or the one that is nearest. */
static void add_limits(cli_table *table, const braid_tile_result *r) {
  char text[160] = "";
  size_t used = 0;
  for (int i = 0; i < BRAID_TILE_LIMITS && used < sizeof text; i++) {
    bool shown = r->fits ? i == (int)r->binding : r->used[i] > 1;
    if (!shown) continue;
    const char *name = braid_tile_limit_name((braid_tile_limit)i);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : r->fits ? "" : "no: ", name);
    if (i != BRAID_TILE_TRANSPOSITION && used < sizeof text)
      used += (size_t)snprintf(text + used, sizeof text - used, " %.0f%%", 100 * r->used[i]);
  }
  cli_table_cell(table, "%s%s", text, r->fits && r->luts_unsure ? ", LUTs perhaps" : "");
}

void cli_tiles_add_design(cli_table *table, const braid_tile_result *r) {
  double products = r->conv_ms + r->connected_ms;
  cli_table_cell(table, "%" PRId64, r->design.tb);
  cli_table_cell(table, "%" PRId64, r->design.ti);
  cli_table_cell(table, "%.4g", r->total_ms);
  cli_table_cell(table, "%.4g", products);
  cli_table_cell(table, "%.4g", r->auxiliary_ms);
  cli_table_cell(table, "%.3g", r->wait_ms);
  cli_table_cell(table, "%.0f", r->dsps);
  cli_table_cell(table, "%.0f", r->brams);
  add_luts(table, r);
  cli_table_cell(table, "%.3g", fmax(fmax(r->conv_bandwidth, r->connected_bandwidth), r->auxiliary_bandwidth));
  add_limits(table, r);
}

void cli_tiles_json_design(cli_json *json, const char *key, const braid_tile_result *r) {
  cli_json_object(json, key);
  cli_json_integer(json, "tb", r->design.tb);
  cli_json_integer(json, "ti", r->design.ti);
  cli_json_number(json, "modelled_ms", r->total_ms);
  cli_json_number(json, "modelled_conv_ms", r->conv_ms);
  cli_json_number(json, "modelled_connected_ms", r->connected_ms);
  cli_json_number(json, "modelled_auxiliary_ms", r->auxiliary_ms);
  cli_json_number(json, "modelled_wait_ms", r->wait_ms);
  cli_json_number(json, "dsps", r->dsps);
  cli_json_number(json, "brams", r->brams);
  cli_json_number(json, "least_luts", r->least_luts);
  cli_json_number(json, "most_luts", r->most_luts);
  cli_json_bool(json, "fits", r->fits);
  cli_json_bool(json, "luts_unsure", r->luts_unsure);
  cli_json_string(json, r->fits ? "nearest_limit" : "binding_limit", braid_tile_limit_name(r->binding));
  cli_json_number(json, "used", r->used[r->binding]);
  cli_json_number(json, "conv_gb_s", r->conv_bandwidth);
  cli_json_number(json, "connected_gb_s", r->connected_bandwidth);
  cli_json_number(json, "auxiliary_gb_s", r->auxiliary_bandwidth);
  cli_json_number(json, "counted_gb_s", r->counted_bandwidth);
  cli_json_bool(json, "literal_fits", r->literal_fits);
  cli_json_close(json, '}');
}

/* --- chips ---------------------------------------------------------------------------------------------------------
 */
typedef struct figure_line {
  const char *key, *name;
  const braid_figure *figure;
} figure_line;
enum { FIGURES = 13 };

static void list_figures(const braid_chip *chip, figure_line out[FIGURES]) {
  const figure_line lines[FIGURES] = {
      {"luts", chip->lut_unit ? chip->lut_unit : "LUTs", chip->luts},
      {"dsps", "DSPs", chip->dsps},
      {"brams", "BRAM blocks", chip->brams},
      {"bram_bits", "bits of a BRAM block", chip->bram_bits},
      {"bandwidth_gb_s", "memory, GB/s", chip->bandwidth},
      {"clock_mhz", "clock, MHz", chip->clock},
      {"multiplier_dsps", "D_mul, DSPs of a multiplier", chip->multiplier_dsps},
      {"adder_dsps", "D_add, DSPs of an adder", chip->adder_dsps},
      {"multiplier_luts", "beta, LUTs of a multiplier", chip->multiplier_luts},
      {"lane_luts", "delta, LUTs of a batch lane", chip->lane_luts},
      {"fixed_luts", "fixed LUTs", chip->fixed_luts},
      {"fixed_dsps", "fixed DSPs", chip->fixed_dsps},
      {"fixed_brams", "fixed BRAM blocks", chip->fixed_brams},
  };
  memcpy(out, lines, sizeof lines);
}

static const char *when_missing(const braid_chip *chip, const char *key) {
  if (strncmp(key, "fixed", 5) == 0) return "not published; counted as none";
  if (strcmp(key, "multiplier_luts") == 0 || strcmp(key, "lane_luts") == 0)
    return chip->built ? "not published; a range from the one design that was built, for coefficients that are not "
                         "negative: no published point validates it"
                       : "not known; LUTs are not checked";
  return strcmp(key, "clock_mhz") == 0 ? "not given" : "not known; not checked";
}

void cli_tiles_make_figures(const braid_chip *chip, cli_table *table) {
  cli_table_begin(table, "The chip's figures and coefficients", NULL, "figure|value|source");
  figure_line lines[FIGURES];
  list_figures(chip, lines);
  for (size_t i = 0; i < FIGURES; i++) {
    cli_table_cell(table, "%s", lines[i].name);
    if (lines[i].figure)
      cli_table_cell(table, "%.10g", lines[i].figure->value);
    else
      cli_table_cell(table, "?");
    cli_table_cell(table, "%s", lines[i].figure ? lines[i].figure->source : when_missing(chip, lines[i].key));
  }
  if (!chip->built) return;
  cli_table_cell(table, "built: (%g, %g)", chip->built->tb, chip->built->ti);
  cli_table_cell(table, "%.10g", chip->built->luts);
  cli_table_cell(table, "LUTs, %g DSPs; %s", chip->built->dsps, chip->built->source);
}

void cli_tiles_json_chip(cli_json *json, const braid_chip *chip) {
  cli_json_object(json, "chip");
  cli_json_string(json, "name", chip->name);
  if (chip->board) cli_json_string(json, "board", chip->board);
  figure_line lines[FIGURES];
  list_figures(chip, lines);
  for (size_t i = 0; i < FIGURES; i++) {
    if (!lines[i].figure) continue;
    cli_json_object(json, lines[i].key);
    cli_json_number(json, "value", lines[i].figure->value);
    cli_json_string(json, "source", lines[i].figure->source);
    cli_json_close(json, '}');
  }
  cli_json_close(json, '}');
}
