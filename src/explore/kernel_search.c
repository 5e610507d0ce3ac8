/* The search by the latency indicator: which configurations fit, which of them differ, how they rank. */
#include <math.h>
#include <stdlib.h>

#include "base/try.h"
#include "base/vector.h"
#include "braid/explore.h"

static const double kNear = 0.10; /* Section 5.5: a smaller difference in Fmax is none in time */

typedef struct kernel_walk {
  const braid_allocator *allocator;
  const braid_kernel_sources *sources;
  braid_kernel_op op;
  double work;
  const braid_fmax_point **too_large; /* of the table */
  size_t too_large_count;
  braid_kernel_search *out;
  size_t capacity;
} kernel_walk;

/* --- what is given -------------------------------------------------------------------------------------------------
 */
static braid_status check_choices(const char *what, const int64_t *values, size_t count) {
  if (!count || count > BRAID_KERNEL_CHOICES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%zu %s, expected 1 to %d", count, what, BRAID_KERNEL_CHOICES);
  for (size_t i = 0; i < count; i++)
    if (values[i] < 1 || values[i] > BRAID_KERNEL_MOST || (i && values[i] <= values[i - 1]))
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s: %lld, expected ascending numbers from 1 to %d", what,
                        (long long)values[i], BRAID_KERNEL_MOST);
  return BRAID_OK;
}

static braid_status check_search(double work, const braid_kernel_space *space, const braid_kernel_sources *sources) {
  BRAID_TRY(check_choices("numbers of compute units", space->units, space->unit_count));
  BRAID_TRY(check_choices("SIMD widths", space->simd, space->simd_count));
  BRAID_TRY(check_choices("work-group sizes", space->groups, space->group_count));
  if (space->most_unroll < 1 || space->most_unroll > BRAID_KERNEL_MOST_UNROLL)
    return braid_fail(BRAID_INVALID_ARGUMENT, "unrolling up to %lld, expected 1 to %d", (long long)space->most_unroll,
                      BRAID_KERNEL_MOST_UNROLL);
  if (braid_kernel_space_count(space) > BRAID_KERNEL_MOST_COMBINATIONS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%zu combinations, expected at most %d", braid_kernel_space_count(space),
                      BRAID_KERNEL_MOST_COMBINATIONS);
  if (sources->kernels < 0 || sources->kernels > BRAID_KERNEL_MOST)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%lld kernels on a chip, expected 1 to %d", (long long)sources->kernels,
                      BRAID_KERNEL_MOST);
  if (!(work > 0) || !isfinite(work)) return braid_fail(BRAID_INVALID_ARGUMENT, "work of %g, expected above 0", work);
  if (sources->model && !(sources->chip && sources->chip->kernel))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s has no costs of kernels, which the model of Fmax needs",
                      sources->chip ? sources->chip->name : "no chip is given, and so there");
  return BRAID_OK;
}

/* Points of the table that a report says do not fit. */
static braid_status list_too_large(kernel_walk *w) {
  const braid_fmax_table *table = w->sources->table;
  size_t count = table ? braid_fmax_table_count(table) : 0;
  w->too_large = braid_zalloc_array(w->allocator, count + 1, sizeof *w->too_large);
  if (!w->too_large) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const braid_fmax_point *point = braid_fmax_table_get(table, i);
    if (point->too_large) w->too_large[w->too_large_count++] = point;
  }
  return BRAID_OK;
}

/* --- 1: what fits --------------------------------------------------------------------------------------------------
 */
static int64_t kernels_of(const kernel_walk *w) {
  return w->sources->kernels ? w->sources->kernels : 1;
}

static bool kernel_fits(kernel_walk *w, const braid_kernel_design *d) {
  double used[BRAID_KERNEL_RESOURCES];
  w->out->fit_checks++;
  braid_kernel_use(w->sources->chip, w->op, d, kernels_of(w), used);
  for (int i = 0; i < BRAID_KERNEL_RESOURCES; i++)
    if (used[i] > 1) return false; /* not of NAN */
  for (size_t i = 0; i < w->too_large_count; i++) {
    const braid_fmax_point *point = w->too_large[i];
    if (d->units >= point->units && d->simd >= point->simd && d->unroll >= point->unroll) return false;
  }
  return true;
}

/* The largest unrolling that fits beside the design's other parameters; 0: none. */
static int64_t most_unroll(kernel_walk *w, braid_kernel_design d, int64_t most) {
  int64_t fits = 0, fails = most + 1;
  while (fails - fits > 1) {
    d.unroll = fits + (fails - fits) / 2;
    if (kernel_fits(w, &d))
      fits = d.unroll;
    else
      fails = d.unroll;
  }
  return fits;
}

/* --- 2: whose Fmax is known ----------------------------------------------------------------------------------------
 */
static braid_status add_known(kernel_walk *w, const braid_kernel_design *d) {
  const braid_kernel_sources *s = w->sources;
  const braid_fmax_point *point = s->table ? braid_fmax_table_find(s->table, d->units, d->simd, d->unroll) : NULL;
  bool from_table = point && !isnan(point->mhz);
  double mhz = from_table ? point->mhz : s->model ? braid_kernel_model_fmax(s->chip, w->op, d, kernels_of(w)) : NAN;
  if (isnan(mhz)) return BRAID_OK;
  braid_kernel_search *out = w->out;
  braid_kernel_result *results = braid_grow(w->allocator, out->results, out->known, &w->capacity, sizeof *results);
  if (!results) return BRAID_NO_MEMORY;
  out->results = results;
  braid_kernel_result *result = &results[out->known++];
  *result = (braid_kernel_result){.design = *d,
                                  .fmax_mhz = mhz,
                                  .li = braid_kernel_latency_indicator(w->work, d->group, mhz),
                                  .from_table = from_table};
  braid_kernel_use(s->chip, w->op, d, kernels_of(w), result->used);
  return BRAID_OK;
}

static braid_status walk_space(kernel_walk *w, const braid_kernel_space *space) {
  braid_kernel_search *out = w->out;
  out->all = braid_kernel_space_count(space);
  for (size_t g = 0; g < space->group_count; g++)
    for (size_t u = 0; u < space->unit_count; u++)
      for (size_t s = 0; s < space->simd_count; s++) {
        braid_kernel_design d = {.units = space->units[u], .simd = space->simd[s], .group = space->groups[g]};
        int64_t most = most_unroll(w, d, space->most_unroll);
        out->fitting += (size_t)most;
        for (d.unroll = 1; d.unroll <= most; d.unroll++) BRAID_TRY(add_known(w, &d));
      }
  return BRAID_OK;
}

/* --- 3: which differ -----------------------------------------------------------------------------------------------
 */
static double lanes_of(const braid_kernel_design *d) {
  return (double)d->units * (double)d->simd * (double)d->unroll;
}

/* Of equal Fmax, which the indicator cannot tell apart, the one that computes more at once. */
static int compare_fmax(const braid_kernel_result *a, const braid_kernel_result *b) {
  if (a->fmax_mhz != b->fmax_mhz) return a->fmax_mhz > b->fmax_mhz ? -1 : 1;
  double x = lanes_of(&a->design), y = lanes_of(&b->design);
  if (x != y) return x > y ? -1 : 1;
  if (a->design.units != b->design.units) return a->design.units < b->design.units ? -1 : 1;
  return (a->design.simd > b->design.simd) - (a->design.simd < b->design.simd);
}

static int by_group_and_fmax(const void *left, const void *right) {
  const braid_kernel_result *a = left, *b = right;
  if (a->design.group != b->design.group) return a->design.group < b->design.group ? -1 : 1;
  return compare_fmax(a, b);
}

static int by_indicator(const void *left, const void *right) {
  const braid_kernel_result *a = left, *b = right;
  if (a->li != b->li) return a->li < b->li ? -1 : 1;
  if (a->design.group != b->design.group) return a->design.group > b->design.group ? -1 : 1;
  return compare_fmax(a, b);
}

static void keep_distinct(braid_kernel_search *out) {
  if (!out->known) return;
  qsort(out->results, out->known, sizeof *out->results, by_group_and_fmax);
  for (size_t i = 0; i < out->known; i++) {
    const braid_kernel_result *result = &out->results[i];
    const braid_kernel_result *last = out->distinct ? &out->results[out->distinct - 1] : NULL;
    bool near = last && last->design.group == result->design.group &&
                last->fmax_mhz - result->fmax_mhz < kNear * last->fmax_mhz;
    if (!near) out->results[out->distinct++] = *result;
  }
  qsort(out->results, out->distinct, sizeof *out->results, by_indicator);
}

braid_status braid_kernel_explore(const braid_allocator *allocator, braid_kernel_op op, double work,
                                  const braid_kernel_space *space, const braid_kernel_sources *sources,
                                  braid_kernel_search *out) {
  *out = (braid_kernel_search){0};
  BRAID_TRY(check_search(work, space, sources));
  kernel_walk walk = {.allocator = allocator, .sources = sources, .op = op, .work = work, .out = out};
  braid_status status = list_too_large(&walk);
  if (status == BRAID_OK) status = walk_space(&walk, space);
  if (status == BRAID_OK)
    keep_distinct(out);
  else
    braid_kernel_search_deinit(allocator, out);
  braid_free(allocator, walk.too_large);
  return status;
}

void braid_kernel_search_deinit(const braid_allocator *allocator, braid_kernel_search *search) {
  braid_free(allocator, search->results);
  *search = (braid_kernel_search){0};
}
