#include "backend/opencl/product.h"

#include <math.h>
#include <string.h>

enum { kThin = 4, kFewRows = 8, kFewColumns = 16, kFewMacs = 4096, kPackPiece = 512, kTasksPerUnit = 6 };

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/* --- tiles ---------------------------------------------------------------------------------------------------------
 */
braid_cl_tile braid_cl_tile_of(const braid_cl_traits *traits, braid_cl_way way) {
  size_t wanted = braid_cl_group(traits), group = 16;
  if (traits->cpu && !traits->knob_group) wanted = 64;
  while (2 * group <= wanted && group < 256) group *= 2;
  int64_t across = group >= 128 ? 16 : 8, down = (int64_t)group / across;
  int64_t work = way == BRAID_CL_TILES_LARGE ? 8 : way == BRAID_CL_TILES_MEDIUM ? 4 : 2;
  braid_cl_tile tile = {.rows = down * work,
                        .columns = across * work,
                        .depth = way == BRAID_CL_TILES_LARGE && group == 256 ? 8 : 16,
                        .work_rows = work,
                        .work_columns = work,
                        .group = group};
  tile.local_bytes = 2 * (size_t)(tile.depth * (tile.rows + tile.columns + 8)) * sizeof(float);
  return tile;
}

void braid_cl_add_tile(braid_cl_planner *p, const braid_cl_tile *tile) {
  braid_cl_option(p, "-DTILE_M=%lld -DTILE_N=%lld -DTILE_K=%lld -DWORK_M=%lld -DWORK_N=%lld", (long long)tile->rows,
                  (long long)tile->columns, (long long)tile->depth, (long long)tile->work_rows,
                  (long long)tile->work_columns);
  if (p->traits->knob_unroll) braid_cl_option(p, "-DUNROLL=%u", p->traits->knob_unroll);
}

bool braid_cl_tiles_fit(const braid_cl_traits *traits, braid_cl_way way, int64_t rows, int64_t columns, int64_t batches,
                        char *why, size_t why_bytes) {
  braid_cl_tile tile = braid_cl_tile_of(traits, way);
  int64_t tiles = ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns) * batches;
  if (traits->cpu) return braid_cl_refuse(why, why_bytes, "a CPU's local memory is its caches, which need no tiles");
  if (traits->local_bytes && tile.local_bytes > traits->local_bytes)
    return braid_cl_refuse(why, why_bytes, "tiles of %zu bytes, local memory has %zu", tile.local_bytes,
                           traits->local_bytes);
  if (way == BRAID_CL_TILES_LARGE && traits->gpu)
    return braid_cl_refuse(why, why_bytes, "64 results of a work-item are slower than 16 on the GPU measured");
  if (way == BRAID_CL_TILES_SMALL) return true;
  if (tiles < (int64_t)traits->compute_units)
    return braid_cl_refuse(why, why_bytes, "%lld tiles of %lld x %lld leave some of %u compute units idle",
                           (long long)tiles, (long long)tile.rows, (long long)tile.columns, traits->compute_units);
  if (rows < tile.rows / 2 || columns < tile.columns / 2)
    return braid_cl_refuse(why, why_bytes, "%lld x %lld results fill no tile of %lld x %lld", (long long)rows,
                           (long long)columns, (long long)tile.rows, (long long)tile.columns);
  return true;
}

/* --- panels --------------------------------------------------------------------------------------------------------
 */
braid_cl_panel braid_cl_panel_of(const braid_cl_traits *traits) {
  /* 24 sums and three operands in 32 registers of 16 elements; else 12 and three in 16 of 8 */
  if (traits->vector_width >= 16) return (braid_cl_panel){12, 2, 16};
  return (braid_cl_panel){6, 2, 8};
}

void braid_cl_add_panel(braid_cl_planner *p, const braid_cl_panel *panel) {
  braid_cl_option(p, "-DPANEL_M=%lld -DPANEL_V=%lld -DPANEL_W=%lld", (long long)panel->rows, (long long)panel->vectors,
                  (long long)panel->width);
}

int64_t braid_cl_chunk(const braid_cl_traits *traits, int64_t left_panels, int64_t others) {
  int64_t wanted = (int64_t)kTasksPerUnit * (traits->compute_units ? traits->compute_units : 1);
  int64_t pieces = ceil_div(wanted, others > 0 ? others : 1);
  int64_t chunk = ceil_div(left_panels, pieces);
  return chunk > 0 ? chunk : 1;
}

/* --- arguments -----------------------------------------------------------------------------------------------------
 */
void braid_cl_add_place(braid_cl_planner *p, const braid_cl_place *place) {
  if (place->kind == BRAID_CL_INPUT)
    braid_cl_input(p, place->index);
  else if (place->kind == BRAID_CL_OUTPUT)
    braid_cl_output(p, place->index);
  else
    braid_cl_workspace(p, place->piece);
}

bool braid_cl_match_activation(const braid_node_desc *node, char *why, size_t why_bytes) {
  static const char *const kKnown[] = {"Relu",        "LeakyRelu", "Sigmoid", "Tanh",
                                       "HardSigmoid", "HardSwish", "Swish",   "Clip"};
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  if (!name) return true;
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown; i++)
    if (strcmp(kKnown[i], name) == 0) return true;
  return braid_cl_refuse(why, why_bytes, "activation %.40s", name);
}

void braid_cl_add_activation(braid_cl_planner *p, const braid_attrs *attrs) {
  const char *name = attrs ? braid_attr_string(attrs, "activation", NULL) : NULL;
  if (name) braid_cl_option(p, "-DACTIVATION_%.40s", name);
}

void braid_cl_activation_numbers(const braid_attrs *attrs, double *first, double *second) {
  size_t count = 0;
  const float *numbers = attrs ? braid_attr_floats(attrs, "activation_params", &count) : NULL;
  *first = count > 0 ? (double)numbers[0] : 0;
  *second = count > 1 ? (double)numbers[1] : 0;
}

static void add_finish(braid_cl_planner *p, const braid_cl_product *product) {
  double first, second;
  braid_cl_activation_numbers(product->attrs, &first, &second);
  braid_cl_float(p, product->alpha);
  braid_cl_float(p, product->beta);
  braid_cl_float(p, first);
  braid_cl_float(p, second);
}

static void add_added(braid_cl_planner *p, const braid_cl_product *product) {
  if (product->has_added)
    braid_cl_add_place(p, &product->added);
  else
    braid_cl_add_place(p, &product->out);
}

static void add_options(braid_cl_planner *p, const braid_cl_product *product) {
  if (product->has_added) braid_cl_option(p, "-DADDED");
  if (product->accumulate) braid_cl_option(p, "-DACCUMULATE");
  braid_cl_add_activation(p, product->attrs);
}

/* OPERANDS of matmul.cl. */
static void add_operands(braid_cl_planner *p, const braid_cl_product *m) {
  braid_cl_add_place(p, &m->left.place);
  braid_cl_add_place(p, &m->right.place);
  add_added(p, m);
  braid_cl_add_place(p, &m->out);
  const int64_t numbers[] = {m->rows,           m->columns,        m->inner,         m->left.line,
                             m->left.k,         m->right.k,        m->right.line,    m->added_row,
                             m->added_column,   m->batch_inner,    m->left.batch[0], m->left.batch[1],
                             m->right.batch[0], m->right.batch[1], m->left.place.at, m->right.place.at,
                             m->added.at,       m->out.at,         m->out_row,       m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_cl_index(p, numbers[i]);
  add_finish(p, m);
}

/* --- ways ----------------------------------------------------------------------------------------------------------
 */
static bool fits_panels(const braid_cl_traits *traits, const braid_cl_product *m, char *why, size_t why_bytes) {
  if (!traits->cpu) return braid_cl_refuse(why, why_bytes, "panels of registers are for CPUs");
  if (m->rows < kFewRows)
    return braid_cl_refuse(why, why_bytes, "%lld rows are too few to be worth packing", (long long)m->rows);
  if (m->columns < kFewColumns)
    return braid_cl_refuse(why, why_bytes, "%lld columns fill no panel", (long long)m->columns);
  if (m->inner * m->columns < kFewMacs)
    return braid_cl_refuse(why, why_bytes, "a right matrix of %lld x %lld is too small to be worth packing",
                           (long long)m->inner, (long long)m->columns);
  return true;
}

bool braid_cl_product_allows(braid_cl_way way, const braid_cl_product *m, char *why, size_t why_bytes) {
  if (way == BRAID_CL_THIN_K && (m->left.k != 1 || m->right.k != 1))
    return braid_cl_refuse(why, why_bytes, "lines do not lie along the inner dimension");
  if ((way == BRAID_CL_THIN_COLUMNS || way == BRAID_CL_ROWS) && m->right.line != 1)
    return braid_cl_refuse(why, why_bytes, "columns do not lie side by side");
  return true;
}

bool braid_cl_product_fits(const braid_cl_traits *traits, braid_cl_way way, const braid_cl_product *m, char *why,
                           size_t why_bytes) {
  switch (way) {
  case BRAID_CL_TILES_LARGE:
  case BRAID_CL_TILES_MEDIUM:
  case BRAID_CL_TILES_SMALL:
    return braid_cl_tiles_fit(traits, way, m->rows, m->columns, m->batches, why, why_bytes);
  case BRAID_CL_PANELS:
    return fits_panels(traits, m, why, why_bytes);
  case BRAID_CL_ROWS:
    if (!traits->cpu) return braid_cl_refuse(why, why_bytes, "rows of registers are for CPUs");
    return m->columns >= kFewColumns ||
           braid_cl_refuse(why, why_bytes, "%lld columns fill no registers", (long long)m->columns);
  case BRAID_CL_THIN_K:
    return traits->cpu || braid_cl_refuse(why, why_bytes, "lanes of a work-item are for CPUs");
  case BRAID_CL_THIN_COLUMNS:
  case BRAID_CL_PLAIN:
    break;
  }
  return true;
}

braid_cl_way braid_cl_product_best(const braid_cl_traits *traits, const braid_cl_product *product) {
  char why[128];
  braid_cl_way way = BRAID_CL_TILES_LARGE;
  while (way != BRAID_CL_PLAIN && (!braid_cl_product_allows(way, product, why, sizeof why) ||
                                   !braid_cl_product_fits(traits, way, product, why, sizeof why)))
    way++;
  return way;
}

static void add_tiles(braid_cl_planner *p, braid_cl_way way, const braid_cl_product *m) {
  braid_cl_tile tile = braid_cl_tile_of(p->traits, way);
  braid_cl_add_launch(p, "matmul", "tiles");
  braid_cl_add_tile(p, &tile);
  if (m->left.k == 1) braid_cl_option(p, "-DLEFT_ALONG_K");
  if (m->right.k == 1) braid_cl_option(p, "-DRIGHT_ALONG_K");
  add_options(p, m);
  add_operands(p, m);
  braid_cl_groups(p, ceil_div(m->columns, tile.columns), ceil_div(m->rows, tile.rows), m->batches, tile.group);
}

/* Panels of the lines of a matrix; *step: elements between those of matrices of the batch. */
static braid_cl_piece add_pack(braid_cl_planner *p, const braid_cl_panel *panel, const braid_cl_product *m, bool right,
                               int64_t *step) {
  const braid_cl_matrix *matrix = right ? &m->right : &m->left;
  int64_t lines = right ? m->columns : m->rows, width = right ? panel->vectors * panel->width : panel->rows;
  int64_t panels = ceil_div(lines, width);
  bool shared = matrix->batch[0] == 0 && matrix->batch[1] == 0; /* one matrix for the whole batch */
  int64_t batches = shared ? 1 : m->batches;
  braid_cl_piece piece = braid_cl_reserve(p, batches * panels, m->inner * width, sizeof(float));
  *step = shared ? 0 : panels * m->inner * width;
  braid_cl_add_launch(p, "matmul", "pack");
  braid_cl_add_panel(p, panel);
  braid_cl_add_place(p, &matrix->place);
  braid_cl_workspace(p, piece);
  braid_cl_index(p, lines);
  braid_cl_index(p, m->inner);
  braid_cl_index(p, matrix->line);
  braid_cl_index(p, matrix->k);
  braid_cl_int(p, width);
  braid_cl_index(p, kPackPiece);
  braid_cl_index(p, matrix->place.at);
  braid_cl_index(p, m->batch_inner);
  braid_cl_index(p, matrix->batch[0]);
  braid_cl_index(p, matrix->batch[1]);
  braid_cl_index(p, panels);
  braid_cl_groups(p, panels, ceil_div(m->inner, kPackPiece), batches, 1);
  return piece;
}

static void add_panels(braid_cl_planner *p, const braid_cl_product *m) {
  braid_cl_panel panel = braid_cl_panel_of(p->traits);
  int64_t left_step, right_step, width = panel.vectors * panel.width;
  int64_t left_panels = ceil_div(m->rows, panel.rows), right_panels = ceil_div(m->columns, width);
  int64_t chunk = braid_cl_chunk(p->traits, left_panels, right_panels * m->batches);
  braid_cl_piece left = add_pack(p, &panel, m, false, &left_step), right = add_pack(p, &panel, m, true, &right_step);
  braid_cl_add_launch(p, "matmul", "panels");
  braid_cl_add_panel(p, &panel);
  add_options(p, m);
  braid_cl_workspace(p, left);
  braid_cl_workspace(p, right);
  add_added(p, m);
  braid_cl_add_place(p, &m->out);
  const int64_t numbers[] = {m->rows,   m->columns, m->inner,    m->added_row, m->added_column, chunk,
                             left_step, right_step, m->added.at, m->out.at,    m->out_row,      m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_cl_index(p, numbers[i]);
  add_finish(p, m);
  braid_cl_groups(p, ceil_div(left_panels, chunk), right_panels, m->batches, 1);
}

/* Functions with a work-item for each column: `down` of them for the rows. */
static void add_columns(braid_cl_planner *p, const char *function, const braid_cl_product *m, int64_t down) {
  int64_t group = (int64_t)braid_cl_group(p->traits);
  braid_cl_add_launch(p, "matmul", function);
  if (strcmp(function, "plain") != 0) braid_cl_option(p, "-DTHIN=%d", kThin);
  add_options(p, m);
  add_operands(p, m);
  if (group > 16 && p->traits->cpu) group = 16;
  braid_cl_groups(p, ceil_div(m->columns, group), down, m->batches, (size_t)group);
}

static void add_rows(braid_cl_planner *p, const braid_cl_product *m) {
  braid_cl_panel panel = braid_cl_panel_of(p->traits);
  panel.vectors = 4;
  panel.rows = m->rows == 1 ? 1 : panel.width >= 16 ? kThin : 2; /* as many sums as there are registers for */
  braid_cl_add_launch(p, "matmul", "rows_as_they_lie");
  braid_cl_add_panel(p, &panel);
  braid_cl_option(p, "-DROWS");
  add_options(p, m);
  add_operands(p, m);
  braid_cl_groups(p, ceil_div(m->columns, panel.vectors * panel.width), ceil_div(m->rows, panel.rows), m->batches, 1);
}

void braid_cl_add_product(braid_cl_planner *p, braid_cl_way way, const braid_cl_product *product) {
  switch (way) {
  case BRAID_CL_TILES_LARGE:
  case BRAID_CL_TILES_MEDIUM:
  case BRAID_CL_TILES_SMALL:
    add_tiles(p, way, product);
    return;
  case BRAID_CL_PANELS:
    add_panels(p, product);
    return;
  case BRAID_CL_ROWS:
    add_rows(p, product);
    return;
  case BRAID_CL_THIN_K:
    add_columns(p, "thin_along_k", product, ceil_div(product->rows, kThin));
    return;
  case BRAID_CL_THIN_COLUMNS:
    add_columns(p, "thin_along_columns", product, ceil_div(product->rows, kThin));
    return;
  case BRAID_CL_PLAIN:
    add_columns(p, "plain", product, product->rows);
    return;
  }
}
