#include "designs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "table.h"

/* --- chips ---------------------------------------------------------------------------------------------------------
 */
/* What an FPGA has of each resource; NAN: not known. */
typedef struct budget {
  char name[80];
  double has[BRAID_OVERLAY_RESOURCES];
  bool comparable; /* it counts LUTs, and blocks of 36 Kb, as the estimate does */
} budget;

static double value_of(const braid_figure *figure) {
  return figure ? figure->value : NAN;
}

static braid_status budget_of_chip(const char *name, budget *out) {
  braid_chip *chip;
  braid_status status = braid_chip_load(NULL, name, &chip);
  if (status != BRAID_OK) return status;
  *out = (budget){.has = {value_of(chip->luts), value_of(chip->ffs), value_of(chip->brams), value_of(chip->urams),
                          value_of(chip->dsps)}};
  snprintf(out->name, sizeof out->name, "%s", chip->name);
  out->comparable = !chip->lut_unit && chip->bram_bits->value == 36864;
  braid_chip_destroy(chip);
  return BRAID_OK;
}

/* Where a chip has no UltraRAM, eight blocks of 36 Kb stand for one of its. */
static double needs(const budget *b, const double estimate[BRAID_OVERLAY_RESOURCES], int resource) {
  bool without = b->has[BRAID_OVERLAY_URAMS] == 0;
  if (without && resource == BRAID_OVERLAY_URAMS) return 0;
  if (without && resource == BRAID_OVERLAY_BRAMS)
    return estimate[BRAID_OVERLAY_BRAMS] + 8 * estimate[BRAID_OVERLAY_URAMS];
  return estimate[resource];
}

/* What it lacks most of; -1: it fits, as far as is known. */
static int lacks(const budget *b, const double estimate[BRAID_OVERLAY_RESOURCES]) {
  int most = -1;
  double worst = 1;
  for (int i = 0; i < BRAID_OVERLAY_RESOURCES; i++) {
    double share = needs(b, estimate, i) / b->has[i];
    if (needs(b, estimate, i) <= 0 || !(share > worst)) continue;
    worst = share;
    most = i;
  }
  return most;
}

enum { MOST_BUDGETS = 64 };
typedef struct budgets {
  budget items[MOST_BUDGETS];
  size_t count;
} budgets;

/* The chip that is named, or all of the library, with what the paper's platform leaves of its card. */
static braid_status collect_budgets(const char *chip, budgets *out) {
  out->count = 0;
  if (chip) return budget_of_chip(chip, &out->items[out->count++]);
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built row;
    braid_status status = braid_overlay_get_built(i, &row);
    if (status != BRAID_OK) return status;
    if (row.design || out->count) continue; /* both cards leave the same but for 0.05% of the FFs */
    budget *b = &out->items[out->count++];
    *b = (budget){.comparable = true};
    memcpy(b->has, row.published, sizeof b->has);
    snprintf(b->name, sizeof b->name, "%s, what the paper's platform leaves", row.fpga);
  }
  for (size_t i = 0; i < braid_chip_count() && out->count < MOST_BUDGETS; i++) {
    braid_status status = budget_of_chip(braid_chip_name(i), &out->items[out->count++]);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

/* --- what is shown -------------------------------------------------------------------------------------------------
 */
typedef struct findings {
  const braid_overlay_design *design;
  braid_overlay_roofline core, all; /* of one core, of all */
  double estimate[BRAID_OVERLAY_RESOURCES];
  budgets budgets;
} findings;

static braid_status collect_findings(const braid_overlay_design *design, const char *chip, findings *f) {
  f->design = design;
  braid_overlay_get_roofline(design, 1, &f->core);
  braid_overlay_get_roofline(design, design->cores, &f->all);
  braid_overlay_estimate(design, design->cores > 1, f->estimate);
  return collect_budgets(chip, &f->budgets);
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static void make_chips(const findings *f, cli_table *table) {
  cli_table_begin(
      table, "What it needs of an FPGA, by estimate",
      "LUT and FF: a model fitted to six designs; BRAM, URAM and DSP: counted. Shares of what a chip has; a "
      "chip without URAM takes eight BRAM for each.",
      "|LUT|FF|BRAM|URAM|DSP|fits");
  cli_table_cell(table, "%s", f->design->name);
  for (int i = 0; i < BRAID_OVERLAY_RESOURCES; i++) cli_table_cell(table, "%.0f", f->estimate[i]);
  cli_table_cell(table, "%s", "");
  for (size_t i = 0; i < f->budgets.count; i++) {
    const budget *b = &f->budgets.items[i];
    cli_table_cell(table, "%s", b->name);
    for (int r = 0; r < BRAID_OVERLAY_RESOURCES; r++) {
      double need = needs(b, f->estimate, r);
      if (!b->comparable || isnan(b->has[r]))
        cli_table_cell(table, "?");
      else if (b->has[r] == 0)
        cli_table_cell(table, "-");
      else
        cli_table_cell(table, "%.1f%%", 100 * need / b->has[r]);
    }
    int lack = lacks(b, f->estimate);
    if (!b->comparable)
      cli_table_cell(table, "not known: it counts other cells and blocks");
    else
      cli_table_cell(table, "%s%s", lack < 0 ? "yes" : "no: ",
                     lack < 0 ? "" : braid_overlay_resource_name((braid_overlay_resource)lack));
  }
}

static void make_memories(const findings *f, cli_table *table) {
  cli_table_begin(table, "Memories on the chip, and the blocks they take", NULL,
                  "memory|how many|bytes of one|bytes a cycle|blocks of one|kind");
  braid_overlay_memory memories[BRAID_OVERLAY_MEMORIES];
  size_t count = braid_overlay_get_memories(f->design, memories);
  for (size_t i = 0; i < count; i++) {
    cli_table_cell(table, "%s", memories[i].name);
    cli_table_cell(table, "%d", memories[i].count);
    cli_table_cell(table, "%" PRId64, memories[i].bytes);
    cli_table_cell(table, "%" PRId64, memories[i].width_bytes);
    cli_table_cell(table, "%" PRId64, memories[i].blocks);
    cli_table_cell(table, "%s", memories[i].ultra ? "URAM" : "BRAM");
  }
}

static void add_comparison(cli_table *table, const braid_overlay_built *row, int r) {
  double published = row->published[r], error = 100 * (row->estimated[r] / published - 1);
  if (r > BRAID_OVERLAY_FFS)
    cli_table_cell(table, "%.0f (%+.1f%%)", published, error);
  else
    cli_table_cell(table, "%.0fk (%+.1f%%, %+.1f%%)", published / 1e3, error, 100 * (row->left_out[r] / published - 1));
}

static braid_status make_errors(cli_table *table) {
  cli_table_begin(
      table, "The estimate against what was built (Zeng et al. 2021, Table 1)",
      "Published, and by how much the estimate is off; of LUT and FF also where the model is fitted without "
      "the design. Sizes of memories are assumed, within these blocks: their agreement proves nothing.",
      "on|design of Table 1|here|LUT|FF|BRAM|URAM|DSP");
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built row;
    braid_status status = braid_overlay_get_built(i, &row);
    if (status != BRAID_OK) return status;
    if (!row.design) continue;
    cli_table_cell(table, "%s", row.fpga);
    cli_table_cell(table, "%s", row.published_name);
    cli_table_cell(table, "%s", row.design);
    for (int r = 0; r < BRAID_OVERLAY_RESOURCES; r++) add_comparison(table, &row, r);
  }
  return BRAID_OK;
}

/* Assumed ones, or published ones. */
static void make_figures(const findings *f, bool assumed, cli_table *table) {
  cli_table_begin(table, assumed ? "What is assumed" : "What is published", NULL, "figure|value|source");
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    if (!braid_overlay_design_figure(f->design, i, &figure) || figure.assumed != assumed) continue;
    cli_table_cell(table, "%s", figure.text);
    cli_table_cell(table, "%.12g", figure.value);
    const char *source = figure.source;
    if (assumed) source += strspn(source + strlen("assumed"), ": ") + strlen("assumed");
    cli_table_cell(table, "%s", source);
  }
}

/* --- printing ------------------------------------------------------------------------------------------------------
 */
static void print_head(const findings *f) {
  const braid_overlay_design *d = f->design;
  printf("%s: %s\n", d->name, d->summary);
  printf("It computes at most %.4g GOPS and moves at most %.4g GB/s to and from its memory: a layer of fewer than %.3g "
         "operations a byte waits for the memory.\n",
         f->all.operations_per_second / 1e9, f->all.bytes_per_second / 1e9, f->all.turning_point);
  if (d->cores > 1)
    printf("One core alone: %.4g GOPS, %.4g GB/s, of which %.4g one way, %.3g operations a byte.\n",
           f->core.operations_per_second / 1e9, f->core.bytes_per_second / 1e9, f->core.one_way_bytes_per_second / 1e9,
           f->core.turning_point);
}

enum { TABLES = 5 };
static braid_status print_text(const findings *f) {
  cli_table tables[TABLES];
  make_chips(f, &tables[0]);
  make_memories(f, &tables[1]);
  braid_status status = make_errors(&tables[2]);
  make_figures(f, false, &tables[3]);
  make_figures(f, true, &tables[4]);
  for (size_t i = 0; i < TABLES; i++)
    if (status == BRAID_OK && tables[i].failed) status = cli_no_memory();
  if (status == BRAID_OK) print_head(f);
  for (size_t i = 0; i < TABLES; i++) {
    if (status == BRAID_OK) cli_table_print(&tables[i], SIZE_MAX - 1);
    cli_table_end(&tables[i]);
  }
  return status;
}

static void json_roofline(cli_json *json, const char *key, const braid_overlay_roofline *roofline) {
  cli_json_object(json, key);
  cli_json_number(json, "operations_per_second", roofline->operations_per_second);
  cli_json_number(json, "bytes_per_second", roofline->bytes_per_second);
  cli_json_number(json, "one_way_bytes_per_second", roofline->one_way_bytes_per_second);
  cli_json_number(json, "turning_point", roofline->turning_point);
  cli_json_close(json, '}');
}

static void json_resources(cli_json *json, const char *key, const double values[BRAID_OVERLAY_RESOURCES]) {
  static const char *const keys[] = {"luts", "ffs", "brams", "urams", "dsps"};
  cli_json_object(json, key);
  for (int i = 0; i < BRAID_OVERLAY_RESOURCES; i++) cli_json_number(json, keys[i], values[i]);
  cli_json_close(json, '}');
}

static void json_chips(cli_json *json, const findings *f) {
  cli_json_array(json, "chips");
  for (size_t i = 0; i < f->budgets.count; i++) {
    const budget *b = &f->budgets.items[i];
    int lack = lacks(b, f->estimate);
    cli_json_object(json, NULL);
    cli_json_string(json, "name", b->name);
    cli_json_bool(json, "comparable", b->comparable);
    json_resources(json, "has", b->has);
    if (b->comparable) cli_json_bool(json, "fits", lack < 0);
    if (b->comparable && lack >= 0)
      cli_json_string(json, "lacks", braid_overlay_resource_name((braid_overlay_resource)lack));
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_memories(cli_json *json, const findings *f) {
  braid_overlay_memory memories[BRAID_OVERLAY_MEMORIES];
  size_t count = braid_overlay_get_memories(f->design, memories);
  cli_json_array(json, "memories");
  for (size_t i = 0; i < count; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "name", memories[i].name);
    cli_json_integer(json, "count", memories[i].count);
    cli_json_integer(json, "bytes", memories[i].bytes);
    cli_json_integer(json, "width_bytes", memories[i].width_bytes);
    cli_json_string(json, "kind", memories[i].ultra ? "URAM" : "BRAM");
    cli_json_integer(json, "blocks", memories[i].blocks);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static braid_status json_built(cli_json *json) {
  cli_json_array(json, "built");
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built row;
    braid_status status = braid_overlay_get_built(i, &row);
    if (status != BRAID_OK) return status;
    if (!row.design) continue;
    cli_json_object(json, NULL);
    cli_json_string(json, "fpga", row.fpga);
    cli_json_string(json, "published_name", row.published_name);
    cli_json_string(json, "design", row.design);
    cli_json_bool(json, "shared", row.shared);
    json_resources(json, "published", row.published);
    json_resources(json, "estimated", row.estimated);
    json_resources(json, "left_out", row.left_out);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  return BRAID_OK;
}

static void json_figures(cli_json *json, const findings *f) {
  cli_json_object(json, "figures");
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    if (!braid_overlay_design_figure(f->design, i, &figure)) continue;
    cli_json_object(json, figure.key);
    cli_json_number(json, "value", figure.value);
    cli_json_string(json, "source", figure.source);
    cli_json_bool(json, "assumed", figure.assumed);
    cli_json_close(json, '}');
  }
  cli_json_close(json, '}');
}

static braid_status print_json(const findings *f) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "design", f->design->name);
  cli_json_string(&json, "summary", f->design->summary);
  cli_json_string(&json, "network", f->design->recurrent ? "recurrent" : "convolutional");
  json_roofline(&json, "roofline", &f->all);
  json_roofline(&json, "core_roofline", &f->core);
  json_resources(&json, "estimated", f->estimate);
  json_chips(&json, f);
  json_memories(&json, f);
  braid_status status = json_built(&json);
  json_figures(&json, f);
  if (status == BRAID_OK)
    cli_json_end(&json);
  else
    cli_json_discard(&json);
  return status;
}

braid_status cli_design_show(const char *path_or_name, const char *chip, bool json) {
  const braid_overlay_design *design;
  braid_status status = braid_overlay_design_load(NULL, path_or_name, &design);
  if (status != BRAID_OK) return status;
  findings f;
  status = collect_findings(design, chip, &f);
  if (status == BRAID_OK) status = json ? print_json(&f) : print_text(&f);
  braid_overlay_design_destroy(design);
  return status;
}

/* --- the list ------------------------------------------------------------------------------------------------------
 */
static braid_status list_json(void) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  braid_status status = BRAID_OK;
  cli_json_array(&json, "designs");
  for (size_t i = 0; i < braid_overlay_design_count() && status == BRAID_OK; i++) {
    const braid_overlay_design *design;
    status = braid_overlay_design_load(NULL, braid_overlay_design_name(i), &design);
    if (status != BRAID_OK) break;
    cli_json_object(&json, NULL);
    cli_json_string(&json, "name", design->name);
    cli_json_string(&json, "summary", design->summary);
    cli_json_string(&json, "network", design->recurrent ? "recurrent" : "convolutional");
    cli_json_integer(&json, "cores", design->cores);
    cli_json_integer(&json, "operations_per_cycle", 2 * design->cores * braid_overlay_core_products(design));
    cli_json_number(&json, "clock_mhz", design->clock_mhz);
    cli_json_close(&json, '}');
    braid_overlay_design_destroy(design);
  }
  cli_json_close(&json, ']');
  if (status == BRAID_OK)
    cli_json_end(&json);
  else
    cli_json_discard(&json);
  return status;
}

static braid_status list_text(void) {
  for (size_t i = 0; i < braid_overlay_design_count(); i++) {
    const braid_overlay_design *design;
    braid_status status = braid_overlay_design_load(NULL, braid_overlay_design_name(i), &design);
    if (status != BRAID_OK) return status;
    printf("%-12s %s, %g MHz\n", design->name, design->summary, design->clock_mhz);
    braid_overlay_design_destroy(design);
  }
  return BRAID_OK;
}

braid_status cli_design_list(bool json) {
  return json ? list_json() : list_text();
}
