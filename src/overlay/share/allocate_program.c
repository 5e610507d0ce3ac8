/* The allocation as an integer program. */
#include "base/try.h"
#include "overlay/share/allocate.h"
#include "schedule/program/glpk.h"

enum { kMegabytes = 256 };

typedef struct task {
  const braid_demand *demands;
  size_t count;
  int cores, *given;
  double total;
  int *columns;  /* of a row; from 1 on, as GLPK has it */
  double *terms; /* likewise */
} task;

static int first_column(const braid_demand *d) {
  return d->least > 1 ? d->least : 1; /* no core has no column */
}

/* Row 1: all cores. Row t + 2: the choices of tenant t, one of them, or none if it may have no core. */
static braid_status solve(void *context) {
  task *s = context;
  glp_prob *program = GLP(create_prob)();
  GLP(add_rows)(program, (int)s->count + 1);
  GLP(set_row_bnds)(program, 1, GLP_UP, 0, s->cores);
  int all = 0;
  for (size_t t = 0; t < s->count; t++) {
    const braid_demand *d = &s->demands[t];
    int first = first_column(d), own = 0;
    GLP(set_row_bnds)(program, (int)t + 2, d->least ? GLP_FX : GLP_UP, d->least ? 1 : 0, 1);
    for (int k = first; k <= d->most; k++) {
      int column = GLP(add_cols)(program, 1);
      GLP(set_col_kind)(program, column, GLP_BV);
      GLP(set_obj_coef)(program, column, -d->weight * d->performance[k - 1]); /* it minimizes */
      s->columns[++own] = column;
      s->terms[own] = 1;
    }
    GLP(set_mat_row)(program, (int)t + 2, own, s->columns, s->terms);
  }
  for (size_t t = 0; t < s->count; t++)
    for (int k = first_column(&s->demands[t]); k <= s->demands[t].most; k++) {
      all++;
      s->columns[all] = all;
      s->terms[all] = k;
    }
  GLP(set_mat_row)(program, 1, all, s->columns, s->terms);
  glp_iocp parameters;
  GLP(init_iocp)(&parameters);
  parameters.presolve = GLP_ON;
  parameters.mip_gap = 0;
  int failed = GLP(intopt)(program, &parameters);
  if (failed || GLP(mip_status)(program) != GLP_OPT)
    return braid_fail(BRAID_INTERNAL, "GLPK ends without an optimum (%d)", failed);
  s->total = -GLP(mip_obj_val)(program);
  for (size_t t = 0, column = 1; t < s->count; t++) {
    s->given[t] = 0;
    for (int k = first_column(&s->demands[t]); k <= s->demands[t].most; k++)
      if (GLP(mip_col_val)(program, (int)column++) > 0.5) s->given[t] = k;
  }
  return BRAID_OK;
}

braid_status braid_allocate_by_program(const braid_demand *demands, size_t count, int cores,
                                       const braid_allocator *allocator, int *given, double *total) {
  BRAID_TRY(braid_demands_check(demands, count, cores));
  task s = {.demands = demands, .count = count, .cores = cores, .given = given};
  size_t columns = 1;
  for (size_t t = 0; t < count; t++) {
    given[t] = 0;
    if (demands[t].most) columns += (size_t)(demands[t].most - first_column(&demands[t]) + 1);
  }
  if (total) *total = 0;
  if (columns == 1) return BRAID_OK; /* nobody may have a core */
  s.columns = braid_zalloc_array(allocator, columns, sizeof *s.columns);
  s.terms = braid_zalloc_array(allocator, columns, sizeof *s.terms);
  braid_status status = s.columns && s.terms ? braid_glpk_run(solve, &s, kMegabytes) : BRAID_NO_MEMORY;
  if (status == BRAID_OK && total) *total = s.total;
  braid_free(allocator, s.columns);
  braid_free(allocator, s.terms);
  return status;
}
