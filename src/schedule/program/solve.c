/* Programs in GLPK. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/program/glpk.h"
#include "schedule/program/program.h"

enum { kMegabytes = 1024 };

/* How far a share may be from whole, and how far an end from the true one, before that counts. */
static const double kWhole = 1e-6, kEnd = 1e-7;

typedef struct solver {
  const braid_program *program;
  braid_program_search *search;
  /* The matrix by rows, each column once; from 1 on, as GLPK has it. */
  int *rows, *columns;
  double *terms;
  int term_count;
  double *values; /* per column */
  int iterations;
  glp_prob *glpk;
  double bound; /* in the program's unit */
  size_t nodes; /* visited */
  bool offered; /* the best that is known has been given to GLPK as its incumbent */
  braid_status status;
} solver;

/* --- the matrix ----------------------------------------------------------------------------------------------------
 */
/* Sums up terms of the same row and column. `last`: per column, 0. `order`: working memory, the terms by their rows. */
static void merge_terms(solver *s, const size_t *order, int *last) {
  const braid_program *p = s->program;
  int row_start = 1;
  for (size_t i = 0; i < p->term_count; i++) {
    const braid_program_term *term = &p->terms[order[i]];
    if (i && p->terms[order[i - 1]].row != term->row) row_start = s->term_count + 1;
    int at = last[term->column];
    if (at >= row_start) {
      s->terms[at] += term->value;
      continue;
    }
    at = last[term->column] = ++s->term_count;
    s->rows[at] = (int)term->row + 1;
    s->columns[at] = (int)term->column + 1;
    s->terms[at] = term->value;
  }
}

static braid_status make_matrix(solver *s) {
  const braid_program *p = s->program;
  const braid_allocator *allocator = p->allocator;
  s->rows = braid_zalloc_array(allocator, p->term_count + 1, sizeof *s->rows);
  s->columns = braid_zalloc_array(allocator, p->term_count + 1, sizeof *s->columns);
  s->terms = braid_zalloc_array(allocator, p->term_count + 1, sizeof *s->terms);
  s->values = braid_zalloc_array(allocator, p->column_count + 2, sizeof *s->values);
  size_t *order = braid_zalloc_array(allocator, p->term_count + 1, sizeof *order);
  size_t *first = braid_zalloc_array(allocator, p->row_count + 2, sizeof *first);
  int *last = braid_zalloc_array(allocator, p->column_count + 1, sizeof *last);
  bool all = s->rows && s->columns && s->terms && s->values && order && first && last;
  if (all) {
    for (size_t i = 0; i < p->term_count; i++) first[p->terms[i].row + 1]++;
    for (size_t r = 0; r < p->row_count; r++) first[r + 1] += first[r];
    for (size_t i = 0; i < p->term_count; i++) order[first[p->terms[i].row]++] = i;
    merge_terms(s, order, last);
  }
  braid_free(allocator, order);
  braid_free(allocator, first);
  braid_free(allocator, last);
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

static void end_solver(solver *s) {
  const braid_allocator *allocator = s->program->allocator;
  braid_free(allocator, s->rows);
  braid_free(allocator, s->columns);
  braid_free(allocator, s->terms);
  braid_free(allocator, s->values);
}

static int bounds_of(double lower, double upper) {
  if (isinf(upper)) return isinf(lower) ? GLP_FR : GLP_LO;
  if (isinf(lower)) return GLP_UP;
  return lower == upper ? GLP_FX : GLP_DB;
}

/* The program, and a last column at 0 whose cost is 1: by it the search is told what is known. */
static void load(solver *s) {
  const braid_program *p = s->program;
  int count = (int)p->column_count;
  s->glpk = GLP(create_prob)();
  GLP(add_cols)(s->glpk, count + 1);
  for (int c = 0; c < count; c++) {
    const braid_program_column *column = &p->columns[c];
    GLP(set_obj_coef)(s->glpk, c + 1, column->cost);
    if (column->whole) GLP(set_col_kind)(s->glpk, c + 1, GLP_IV);
    GLP(set_col_bnds)(s->glpk, c + 1, bounds_of(column->lower, column->upper), column->lower, column->upper);
  }
  GLP(set_obj_coef)(s->glpk, count + 1, 1);
  GLP(set_col_bnds)(s->glpk, count + 1, GLP_FX, 0, 0);
  if (p->row_count) GLP(add_rows)(s->glpk, (int)p->row_count);
  for (size_t r = 0; r < p->row_count; r++) GLP(set_row_bnds)
  (s->glpk, (int)r + 1, bounds_of(p->rows[r].lower, p->rows[r].upper), p->rows[r].lower, p->rows[r].upper);
  GLP(load_matrix)(s->glpk, s->term_count, s->rows, s->columns, s->terms);
}

/* --- the relaxed program -------------------------------------------------------------------------------------------
 */
/* What the multipliers of the rows prove, whatever they are (weak duality): numbers that are rounded, or a search that
 * ended early, make the bound lower, not wrong. */
static double proven(const solver *s) {
  const braid_program *p = s->program;
  double sum = 0;
  for (size_t c = 0; c < p->column_count; c++) s->values[c] = p->columns[c].cost;
  for (int i = 1; i <= s->term_count; i++) {
    const braid_program_row *row = &p->rows[s->rows[i] - 1];
    double dual = GLP(get_row_dual)(s->glpk, s->rows[i]);
    if (isinf(dual > 0 ? row->lower : row->upper)) continue;
    s->values[s->columns[i] - 1] -= dual * s->terms[i];
  }
  for (size_t r = 0; r < p->row_count; r++) {
    double dual = GLP(get_row_dual)(s->glpk, (int)r + 1), side = dual > 0 ? p->rows[r].lower : p->rows[r].upper;
    if (!isinf(side)) sum += dual * side;
  }
  for (size_t c = 0; c < p->column_count; c++)
    sum += s->values[c] * (s->values[c] > 0 ? p->columns[c].lower : p->columns[c].upper);
  return sum;
}

static braid_status relax_main(void *context) {
  solver *s = context;
  glp_smcp how;
  load(s);
  GLP(init_smcp)(&how);
  how.msg_lev = GLP_MSG_OFF;
  how.meth = GLP_DUAL;
  how.it_lim = s->iterations;
  (void)GLP(simplex)(s->glpk, &how);
  s->bound = proven(s);
  return BRAID_OK;
}

braid_status braid_program_relax(const braid_program *program, int iterations, double *joules) {
  solver s = {.program = program, .iterations = iterations};
  braid_status status = make_matrix(&s);
  if (status == BRAID_OK) status = braid_glpk_run(relax_main, &s, kMegabytes);
  *joules = s.bound * program->joules;
  end_solver(&s);
  return status;
}

/* --- the exact program ---------------------------------------------------------------------------------------------
 */
static bool is_whole(double value) {
  return fabs(value - nearbyint(value)) <= kWhole;
}

static bool are_whole(const solver *s, size_t from, size_t to) {
  for (size_t c = from; c < to; c++)
    if (s->program->columns[c].whole && !is_whole(s->values[c])) return false;
  return true;
}

/* The column of the offer that covers a node. */
static size_t taken(const solver *s, int32_t node) {
  const braid_program *p = s->program;
  size_t i = p->first_offer[node];
  while (i + 1 < p->first_offer[node + 1] && nearbyint(s->values[p->node_offers[i]]) != 1) i++;
  return (size_t)p->node_offers[i];
}

static bool occupy_same(const braid_offer *a, const braid_offer *b) {
  for (size_t i = 0; i <= a->also_count; i++)
    for (size_t k = 0; k <= b->also_count; k++)
      if ((i < a->also_count ? a->also[i] : a->device) == (k < b->also_count ? b->also[k] : b->device)) return true;
  return false;
}

/* Whether the order that a column stands for is one of two tasks of one device. */
static bool decides(const solver *s, size_t column) {
  const braid_program *p = s->program;
  const braid_program_pair *pair = &p->pairs[(column - p->orders) / 2];
  size_t a = taken(s, pair->first), b = taken(s, pair->second);
  return a != b && occupy_same(&p->problem->offers[p->offers[a]], &p->problem->offers[p->offers[b]]);
}

/* end >= the true end, unless an offer or an order of tasks changes: valid everywhere, and true where it was asked. */
static bool add_cut(solver *s, double end) {
  const braid_program *p = s->program;
  int *columns = s->columns, count = 0; /* the matrix is loaded: its memory is free, and longer than a row of it */
  double *terms = s->terms, sum = 0;
  end = fmin(end, 3); /* more than any schedule may take */
  columns[++count] = (int)p->end + 1, terms[count] = 1;
  for (size_t c = 0; c < p->column_count; c++) {
    bool order = c >= p->orders;
    if ((!order && c >= p->offer_count) || nearbyint(s->values[c]) != 1 || (order && !decides(s, c))) continue;
    if (count == s->term_count) return false;
    columns[++count] = (int)c + 1, terms[count] = -end;
    sum++;
  }
  int row = GLP(add_rows)(s->glpk, 1);
  GLP(set_row_bnds)(s->glpk, row, GLP_LO, end - sum * end, 0);
  GLP(set_mat_row)(s->glpk, row, count, columns, terms);
  return true;
}

/* Whole shares, and whole orders: the simulator says when such a schedule really ends. */
static void generate_rows(solver *s, glp_tree *tree) {
  const braid_program *p = s->program;
  double end, cost;
  s->glpk = GLP(ios_get_prob)(tree);
  for (size_t c = 0; c < p->column_count; c++) s->values[c] = GLP(get_col_prim)(s->glpk, (int)c + 1);
  if (!are_whole(s, 0, p->offer_count)) return;
  s->status = s->search->judge(s->values, &end, &cost, s->search->context);
  if (s->status != BRAID_OK) {
    GLP(ios_terminate)(tree);
    return;
  }
  if (cost < s->search->best) {
    s->search->best = cost;
    s->offered = false;
  }
  if (are_whole(s, p->orders, p->column_count) && end > s->values[p->end] + kEnd) (void)add_cut(s, end);
}

/* Tells GLPK what is known, by the column whose cost that is. */
static void offer_best(solver *s, glp_tree *tree) {
  if (s->offered || isinf(s->search->best)) return;
  memset(s->values, 0, (s->program->column_count + 2) * sizeof *s->values);
  s->values[s->program->column_count + 1] = s->search->best / s->program->joules; /* from 1 on */
  (void)GLP(ios_heur_sol)(tree, s->values);
  s->offered = true;
}

static void select_node(solver *s, glp_tree *tree) {
  int best = GLP(ios_best_node)(tree);
  if (best) s->bound = fmax(s->bound, GLP(ios_node_bound)(tree, best));
  if (s->nodes++ < s->search->nodes) return;
  GLP(ios_terminate)(tree);
  s->search->finished = false;
}

static void search_callback(glp_tree *tree, void *context) {
  solver *s = context;
  switch (GLP(ios_reason)(tree)) {
  case GLP_ISELECT:
    select_node(s, tree);
    break;
  case GLP_IROWGEN:
    generate_rows(s, tree);
    break;
  case GLP_IHEUR:
    offer_best(s, tree);
    break;
  default:
    break;
  }
}

static braid_status search_main(void *context) {
  solver *s = context;
  glp_smcp first;
  glp_iocp how;
  load(s);
  GLP(init_smcp)(&first);
  first.msg_lev = GLP_MSG_OFF;
  first.meth = GLP_DUALP;
  if (GLP(simplex)(s->glpk, &first) != 0) {
    s->search->finished = false;
    return BRAID_OK;
  }
  s->bound = proven(s);
  if (GLP(get_prim_stat)(s->glpk) != GLP_FEAS) return BRAID_OK; /* nothing ends in time */
  GLP(init_iocp)(&how);
  how.msg_lev = GLP_MSG_OFF;
  how.bt_tech = GLP_BT_BLB;
  how.tol_int = kWhole;
  how.cb_func = search_callback;
  how.cb_info = s;
  int failed = GLP(intopt)(s->glpk, &how);
  if (failed) s->search->finished = false;
  if (!failed && GLP(mip_status)(s->glpk) == GLP_OPT)
    s->bound = fmax(s->bound, fmin(GLP(mip_obj_val)(s->glpk), s->search->best / s->program->joules));
  return s->status;
}

braid_status braid_program_search_run(const braid_program *program, braid_program_search *search) {
  solver s = {.program = program, .search = search};
  search->finished = true;
  braid_status status = make_matrix(&s);
  if (status == BRAID_OK) status = braid_glpk_run(search_main, &s, kMegabytes);
  search->joules = s.bound * program->joules;
  end_solver(&s);
  return status;
}
