#include "launch/product.h"

#include <string.h>

enum { kThin = 4, kFewRows = 8, kFewColumns = 16, kFewMacs = 4096, kPackPiece = 512, kTasksPerUnit = 6 };
enum { kFewVectors = 4, kLeastInner = 64, kLinesPerUnit = 1024 };

/* --- panels --------------------------------------------------------------------------------------------------------
 */
braid_launch_panel braid_launch_panel_of(const braid_launch_traits *traits) {
  /* 24 sums and three operands in 32 registers of 16 elements; else 12 and three in 16 of 8 */
  if (traits->vector_width >= 16) return (braid_launch_panel){12, 2, 16};
  return (braid_launch_panel){6, 2, 8};
}

void braid_launch_add_panel(braid_launch_planner *p, const braid_launch_panel *panel) {
  braid_launch_option(p, "-DPANEL_M=%lld -DPANEL_V=%lld -DPANEL_W=%lld", (long long)panel->rows,
                      (long long)panel->vectors, (long long)panel->width);
}

int64_t braid_launch_chunk(const braid_launch_traits *traits, int64_t left_panels, int64_t others) {
  int64_t wanted = (int64_t)kTasksPerUnit * (traits->compute_units ? traits->compute_units : 1);
  int64_t pieces = braid_launch_ceil_div(wanted, others > 0 ? others : 1);
  int64_t chunk = braid_launch_ceil_div(left_panels, pieces);
  return chunk > 0 ? chunk : 1;
}

/* --- arguments -----------------------------------------------------------------------------------------------------
 */
void braid_launch_add_place(braid_launch_planner *p, const braid_launch_place *place) {
  if (place->kind == BRAID_LAUNCH_INPUT)
    braid_launch_input(p, place->index);
  else if (place->kind == BRAID_LAUNCH_OUTPUT)
    braid_launch_output(p, place->index);
  else
    braid_launch_workspace(p, place->piece);
}

bool braid_launch_match_activation(const braid_node_desc *node, char *why, size_t why_bytes) {
  static const char *const kKnown[] = {"Relu",        "LeakyRelu", "Sigmoid", "Tanh",
                                       "HardSigmoid", "HardSwish", "Swish",   "Clip"};
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  if (!name) return true;
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown; i++)
    if (strcmp(kKnown[i], name) == 0) return true;
  return braid_launch_refuse(why, why_bytes, "activation %.40s", name);
}

void braid_launch_add_activation(braid_launch_planner *p, const braid_attrs *attrs) {
  const char *name = attrs ? braid_attr_string(attrs, "activation", NULL) : NULL;
  if (name) braid_launch_option(p, "-DACTIVATION_%.40s", name);
}

void braid_launch_activation_numbers(const braid_attrs *attrs, double *first, double *second) {
  size_t count = 0;
  const float *numbers = attrs ? braid_attr_floats(attrs, "activation_params", &count) : NULL;
  *first = count > 0 ? (double)numbers[0] : 0;
  *second = count > 1 ? (double)numbers[1] : 0;
}

static void add_finish(braid_launch_planner *p, const braid_launch_product *product) {
  double first, second;
  braid_launch_activation_numbers(product->attrs, &first, &second);
  braid_launch_float(p, product->alpha);
  braid_launch_float(p, product->beta);
  braid_launch_float(p, first);
  braid_launch_float(p, second);
}

static void add_added(braid_launch_planner *p, const braid_launch_product *product) {
  if (product->has_added)
    braid_launch_add_place(p, &product->added);
  else
    braid_launch_add_place(p, &product->out);
}

static void add_options(braid_launch_planner *p, const braid_launch_product *product) {
  if (product->has_added) braid_launch_option(p, "-DADDED");
  if (product->accumulate) braid_launch_option(p, "-DACCUMULATE");
  braid_launch_add_activation(p, product->attrs);
}

/* OPERANDS of matmul.cl. */
static void add_operands(braid_launch_planner *p, const braid_launch_product *m) {
  braid_launch_add_place(p, &m->left.place);
  braid_launch_add_place(p, &m->right.place);
  add_added(p, m);
  braid_launch_add_place(p, &m->out);
  const int64_t numbers[] = {m->rows,           m->columns,        m->inner,         m->left.line,
                             m->left.k,         m->right.k,        m->right.line,    m->added_row,
                             m->added_column,   m->batch_inner,    m->left.batch[0], m->left.batch[1],
                             m->right.batch[0], m->right.batch[1], m->left.place.at, m->right.place.at,
                             m->added.at,       m->out.at,         m->out_row,       m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  add_finish(p, m);
}

/* --- ways ----------------------------------------------------------------------------------------------------------
 */
/* Do lines of `extent` elements begin at multiples of four, of all matrices of a batch? */
static bool in_fours(const braid_launch_matrix *m, int64_t extent) {
  int64_t apart = m->k == 1 ? m->line : m->k;
  return extent % 4 == 0 && apart % 4 == 0 && m->place.at % 4 == 0 && m->batch[0] % 4 == 0 && m->batch[1] % 4 == 0;
}

static braid_launch_tiling tiling_of(const braid_launch_product *m) {
  const braid_launch_matrix *l = &m->left, *r = &m->right;
  return (braid_launch_tiling){.rows = m->rows,
                               .columns = m->columns,
                               .inner = m->inner,
                               .batches = m->batches,
                               .left_fours = (l->k == 1 || l->line == 1) && in_fours(l, l->k == 1 ? m->inner : m->rows),
                               .right_fours =
                                   (r->k == 1 || r->line == 1) && in_fours(r, r->k == 1 ? m->inner : m->columns)};
}

static bool fits_tiles(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                       const braid_launch_product *m, char *why, size_t why_bytes) {
  braid_launch_tiling tiling = tiling_of(m);
  return braid_launch_tiles_fit(traits, algorithm, &tiling, why, why_bytes);
}

static bool fits_panels(const braid_launch_traits *traits, const braid_launch_product *m, char *why, size_t why_bytes) {
  if (!traits->cpu) return braid_launch_refuse(why, why_bytes, "panels of registers are for CPUs");
  if (m->rows < kFewRows)
    return braid_launch_refuse(why, why_bytes, "%lld rows are too few to be worth packing", (long long)m->rows);
  if (m->columns < kFewColumns)
    return braid_launch_refuse(why, why_bytes, "%lld columns fill no panel", (long long)m->columns);
  if (m->inner * m->columns < kFewMacs)
    return braid_launch_refuse(why, why_bytes, "a right matrix of %lld x %lld is too small to be worth packing",
                               (long long)m->inner, (long long)m->columns);
  return true;
}

/* Of a product that is a matrix times few vectors: the matrix, if it lies along one of its dimensions, else NULL. */
static const braid_launch_matrix *matrix_of(const braid_launch_product *m) {
  const braid_launch_matrix *matrix = m->rows <= m->columns ? &m->right : &m->left;
  return matrix->k == 1 || matrix->line == 1 ? matrix : NULL;
}

static const braid_launch_matrix *vectors_of(const braid_launch_product *m) {
  return m->rows <= m->columns ? &m->left : &m->right;
}

static bool allows_vectors(const braid_launch_product *m, char *why, size_t why_bytes) {
  if (m->rows > kFewVectors && m->columns > kFewVectors)
    return braid_launch_refuse(why, why_bytes, "%lld rows and %lld columns are no few vectors", (long long)m->rows,
                               (long long)m->columns);
  return matrix_of(m) || braid_launch_refuse(why, why_bytes, "the matrix lies along neither dimension");
}

static bool fits_vectors(const braid_launch_traits *traits, const braid_launch_product *m, char *why,
                         size_t why_bytes) {
  if (traits->cpu) return braid_launch_refuse(why, why_bytes, "groups sharing a line are for GPUs");
  return m->inner >= kLeastInner ||
         braid_launch_refuse(why, why_bytes, "lines of %lld are too short to share", (long long)m->inner);
}

bool braid_launch_product_allows(braid_launch_algorithm algorithm, const braid_launch_product *m, char *why,
                                 size_t why_bytes) {
  if (algorithm == BRAID_LAUNCH_VECTORS) return allows_vectors(m, why, why_bytes);
  if (algorithm == BRAID_LAUNCH_THIN_K && (m->left.k != 1 || m->right.k != 1))
    return braid_launch_refuse(why, why_bytes, "lines do not lie along the inner dimension");
  if ((algorithm == BRAID_LAUNCH_THIN_COLUMNS || algorithm == BRAID_LAUNCH_ROWS) && m->right.line != 1)
    return braid_launch_refuse(why, why_bytes, "columns do not lie side by side");
  return true;
}

bool braid_launch_product_fits(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                               const braid_launch_product *m, char *why, size_t why_bytes) {
  switch (algorithm) {
  case BRAID_LAUNCH_VECTORS:
    return fits_vectors(traits, m, why, why_bytes);
  case BRAID_LAUNCH_TILES_LARGE:
  case BRAID_LAUNCH_TILES_MEDIUM:
  case BRAID_LAUNCH_TILES_SMALL:
    return fits_tiles(traits, algorithm, m, why, why_bytes);
  case BRAID_LAUNCH_PANELS:
    return fits_panels(traits, m, why, why_bytes);
  case BRAID_LAUNCH_ROWS:
    if (!traits->cpu) return braid_launch_refuse(why, why_bytes, "rows of registers are for CPUs");
    return m->columns >= kFewColumns ||
           braid_launch_refuse(why, why_bytes, "%lld columns fill no registers", (long long)m->columns);
  case BRAID_LAUNCH_THIN_K:
    return traits->cpu || braid_launch_refuse(why, why_bytes, "lanes of a work-item are for CPUs");
  case BRAID_LAUNCH_THIN_COLUMNS:
  case BRAID_LAUNCH_PLAIN:
    break;
  }
  return true;
}

braid_launch_algorithm braid_launch_product_best(const braid_launch_traits *traits,
                                                 const braid_launch_product *product) {
  char why[128];
  braid_launch_algorithm algorithm = BRAID_LAUNCH_VECTORS;
  while (algorithm != BRAID_LAUNCH_PLAIN && (!braid_launch_product_allows(algorithm, product, why, sizeof why) ||
                                             !braid_launch_product_fits(traits, algorithm, product, why, sizeof why)))
    algorithm++;
  return algorithm;
}

static void add_load_options(braid_launch_planner *p, const braid_launch_tile *tile, const braid_launch_product *m,
                             const braid_launch_tiling *tiling) {
  if (m->left.k == 1) braid_launch_option(p, "-DLEFT_ALONG_K");
  if (m->right.k == 1) braid_launch_option(p, "-DRIGHT_ALONG_K");
  if (tiling->left_fours && braid_launch_loads_fours(tile, tile->rows)) braid_launch_option(p, "-DLEFT_FOUR");
  if (tiling->right_fours && braid_launch_loads_fours(tile, tile->columns)) braid_launch_option(p, "-DRIGHT_FOUR");
}

static void add_join(braid_launch_planner *p, const braid_launch_product *m, braid_launch_piece parts, int64_t slices) {
  int64_t group = (int64_t)braid_launch_group(p->traits);
  braid_launch_begin(p, "matmul", "join_slices");
  add_options(p, m);
  braid_launch_workspace(p, parts);
  add_added(p, m);
  braid_launch_add_place(p, &m->out);
  const int64_t numbers[] = {m->rows,     m->columns, slices,     m->added_row, m->added_column,
                             m->added.at, m->out.at,  m->out_row, m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  add_finish(p, m);
  braid_launch_groups(p, braid_launch_ceil_div(m->rows * m->columns, group), 1, m->batches, (size_t)group);
}

static void add_tiles(braid_launch_planner *p, braid_launch_algorithm algorithm, const braid_launch_product *m) {
  braid_launch_tile tile = braid_launch_tile_of(p->traits, algorithm, false);
  braid_launch_tiling tiling = tiling_of(m);
  int64_t across = braid_launch_ceil_div(m->columns, tile.columns), down = braid_launch_ceil_div(m->rows, tile.rows),
          slice;
  int64_t slices = braid_launch_slices(p->traits, &tile, &tiling, &slice);
  braid_launch_product part = *m;
  if (slices > 1) {
    braid_launch_piece parts = braid_launch_reserve(p, m->batches * slices, m->rows * m->columns, sizeof(float));
    part.out = (braid_launch_place){.kind = BRAID_LAUNCH_PIECE, .piece = parts};
    part.has_added = part.accumulate = false;
    part.attrs = NULL;
    part.out_row = m->columns;
    part.out_batch = m->rows * m->columns;
  }
  braid_launch_begin(p, "matmul", "tiles");
  braid_launch_add_tile(p, &tile);
  add_load_options(p, &tile, m, &tiling);
  if (slices > 1) braid_launch_option(p, "-DSLICED");
  if (tile.work_columns >= 4 && m->columns % 4 == 0 && part.out_row % 4 == 0 && part.out.at % 4 == 0 &&
      part.out_batch % 4 == 0)
    braid_launch_option(p, "-DOUT_FOUR");
  add_options(p, &part);
  add_operands(p, &part);
  braid_launch_index(p, slices);
  braid_launch_index(p, slice);
  braid_launch_groups(p, across, down, m->batches * slices, tile.group);
  if (slices > 1) add_join(p, m, part.out.piece, slices);
}

/* Lanes of a group of a power of two. Along k they share a line, the more of them the fewer lines there are; else they
 * lie across lines, the fewer of them the fewer there are. */
static int64_t lanes_of(const braid_launch_traits *traits, int64_t group, int64_t lines, int64_t inner, int64_t width,
                        bool along_k) {
  int64_t units = traits->compute_units ? traits->compute_units : 1, lanes = 32 / (along_k ? 1 : width);
  if (lanes > group) lanes = group;
  if (along_k)
    while (2 * lanes <= group && lines * lanes < units * kLinesPerUnit && inner >= 4 * lanes * width) lanes *= 2;
  else
    while (lanes * width > 8 && braid_launch_ceil_div(lines, lanes * width) < units) lanes /= 2;
  return lanes;
}

static void add_vectors(braid_launch_planner *p, const braid_launch_product *m) {
  const braid_launch_matrix *matrix = matrix_of(m), *vectors = vectors_of(m);
  bool by_rows = matrix == &m->left, along_k = matrix->k == 1;
  int64_t lines = by_rows ? m->rows : m->columns, count = by_rows ? m->columns : m->rows, group = 1;
  while (2 * group <= (int64_t)braid_launch_group(p->traits) && group < 256) group *= 2;
  bool apart = !along_k || vectors->k != 1;
  bool wide = in_fours(matrix, along_k ? m->inner : lines) && (apart || in_fours(vectors, m->inner));
  int64_t width = wide ? 4 : 1, lanes = lanes_of(p->traits, group, lines, m->inner, width, along_k);
  braid_launch_begin(p, "matmul", along_k ? "vectors_along_k" : "vectors_side_by_side");
  braid_launch_option(p, "-DVECTORS=%lld -DWIDTH=%lld -DLANES=%lld", (long long)count, (long long)width,
                      (long long)lanes);
  if (p->traits->aligned) braid_launch_option(p, "-DALIGNED");
  if (apart) braid_launch_option(p, "-DAPART");
  add_options(p, m);
  braid_launch_add_place(p, &matrix->place);
  braid_launch_add_place(p, &vectors->place);
  add_added(p, m);
  braid_launch_add_place(p, &m->out);
  const int64_t numbers[] = {lines,
                             m->inner,
                             matrix->line,
                             matrix->k,
                             vectors->line,
                             vectors->k,
                             by_rows ? m->out_row : 1,
                             by_rows ? 1 : m->out_row,
                             by_rows ? m->added_row : m->added_column,
                             by_rows ? m->added_column : m->added_row,
                             m->batch_inner,
                             matrix->batch[0],
                             matrix->batch[1],
                             vectors->batch[0],
                             vectors->batch[1],
                             matrix->place.at,
                             vectors->place.at,
                             m->added.at,
                             m->out.at,
                             m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  add_finish(p, m);
  braid_launch_groups(p, braid_launch_ceil_div(lines, along_k ? group / lanes : lanes * width), 1, m->batches,
                      (size_t)group);
}

/* Panels of the lines of a matrix; *step: elements between those of matrices of the batch. */
static braid_launch_piece add_pack(braid_launch_planner *p, const braid_launch_panel *panel,
                                   const braid_launch_product *m, bool right, int64_t *step) {
  const braid_launch_matrix *matrix = right ? &m->right : &m->left;
  int64_t lines = right ? m->columns : m->rows, width = right ? panel->vectors * panel->width : panel->rows;
  int64_t panels = braid_launch_ceil_div(lines, width);
  bool shared = matrix->batch[0] == 0 && matrix->batch[1] == 0; /* one matrix for the whole batch */
  int64_t batches = shared ? 1 : m->batches;
  braid_launch_piece piece = braid_launch_reserve(p, batches * panels, m->inner * width, sizeof(float));
  *step = shared ? 0 : panels * m->inner * width;
  braid_launch_begin(p, "matmul", "pack");
  braid_launch_add_panel(p, panel);
  braid_launch_add_place(p, &matrix->place);
  braid_launch_workspace(p, piece);
  braid_launch_index(p, lines);
  braid_launch_index(p, m->inner);
  braid_launch_index(p, matrix->line);
  braid_launch_index(p, matrix->k);
  braid_launch_int(p, width);
  braid_launch_index(p, kPackPiece);
  braid_launch_index(p, matrix->place.at);
  braid_launch_index(p, m->batch_inner);
  braid_launch_index(p, matrix->batch[0]);
  braid_launch_index(p, matrix->batch[1]);
  braid_launch_index(p, panels);
  braid_launch_groups(p, panels, braid_launch_ceil_div(m->inner, kPackPiece), batches, 1);
  return piece;
}

static void add_panels(braid_launch_planner *p, const braid_launch_product *m) {
  braid_launch_panel panel = braid_launch_panel_of(p->traits);
  int64_t left_step, right_step, width = panel.vectors * panel.width;
  int64_t left_panels = braid_launch_ceil_div(m->rows, panel.rows),
          right_panels = braid_launch_ceil_div(m->columns, width);
  int64_t chunk = braid_launch_chunk(p->traits, left_panels, right_panels * m->batches);
  braid_launch_piece left = add_pack(p, &panel, m, false, &left_step),
                     right = add_pack(p, &panel, m, true, &right_step);
  braid_launch_begin(p, "matmul", "panels");
  braid_launch_add_panel(p, &panel);
  add_options(p, m);
  braid_launch_workspace(p, left);
  braid_launch_workspace(p, right);
  add_added(p, m);
  braid_launch_add_place(p, &m->out);
  const int64_t numbers[] = {m->rows,   m->columns, m->inner,    m->added_row, m->added_column, chunk,
                             left_step, right_step, m->added.at, m->out.at,    m->out_row,      m->out_batch};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  add_finish(p, m);
  braid_launch_groups(p, braid_launch_ceil_div(left_panels, chunk), right_panels, m->batches, 1);
}

/* Functions with a work-item for each column: `down` of them for the rows. */
static void add_columns(braid_launch_planner *p, const char *function, const braid_launch_product *m, int64_t down) {
  int64_t group = (int64_t)braid_launch_group(p->traits);
  braid_launch_begin(p, "matmul", function);
  if (strcmp(function, "plain") != 0) braid_launch_option(p, "-DTHIN=%d", kThin);
  add_options(p, m);
  add_operands(p, m);
  if (group > 16 && p->traits->cpu) group = 16;
  braid_launch_groups(p, braid_launch_ceil_div(m->columns, group), down, m->batches, (size_t)group);
}

static void add_rows(braid_launch_planner *p, const braid_launch_product *m) {
  braid_launch_panel panel = braid_launch_panel_of(p->traits);
  panel.vectors = 4;
  panel.rows = m->rows == 1 ? 1 : panel.width >= 16 ? kThin : 2; /* as many sums as there are registers for */
  braid_launch_begin(p, "matmul", "rows_as_they_lie");
  braid_launch_add_panel(p, &panel);
  braid_launch_option(p, "-DROWS");
  add_options(p, m);
  add_operands(p, m);
  braid_launch_groups(p, braid_launch_ceil_div(m->columns, panel.vectors * panel.width),
                      braid_launch_ceil_div(m->rows, panel.rows), m->batches, 1);
}

void braid_launch_add_product(braid_launch_planner *p, braid_launch_algorithm algorithm,
                              const braid_launch_product *product) {
  switch (algorithm) {
  case BRAID_LAUNCH_VECTORS:
    add_vectors(p, product);
    return;
  case BRAID_LAUNCH_TILES_LARGE:
  case BRAID_LAUNCH_TILES_MEDIUM:
  case BRAID_LAUNCH_TILES_SMALL:
    add_tiles(p, algorithm, product);
    return;
  case BRAID_LAUNCH_PANELS:
    add_panels(p, product);
    return;
  case BRAID_LAUNCH_ROWS:
    add_rows(p, product);
    return;
  case BRAID_LAUNCH_THIN_K:
    add_columns(p, "thin_along_k", product, braid_launch_ceil_div(product->rows, kThin));
    return;
  case BRAID_LAUNCH_THIN_COLUMNS:
    add_columns(p, "thin_along_columns", product, braid_launch_ceil_div(product->rows, kThin));
    return;
  case BRAID_LAUNCH_PLAIN:
    add_columns(p, "plain", product, product->rows);
    return;
  }
}
