/* Reductions, and BiasGrad, which is one. */
#include <string.h>

#include "graph/ops/reduce.h"
#include "launch/families.h"
#include "launch/nest.h"

enum { kFewest = 8192, kSlice = 4096, kTasks = 256, kMostSlices = 1024 };

/* --- kinds ---------------------------------------------------------------------------------------------------------
 */
typedef struct kind {
  const char *op, *map, *finish;
  const char *fold; /* NULL: a sum */
  const char *neutral;
} kind;

static const kind kKinds[] = {
    {"ReduceSum", "(x)", "(x)", NULL, "0"},
    {"BiasGrad", "(x)", "(x)", NULL, "0"},
    {"ReduceMean", "(x)", "((x)*scale)", NULL, "0"},
    {"ReduceMax", "(x)", "(x)", "LARGER(a,b)", "-INFINITY"},
    {"ReduceMin", "(x)", "(x)", "SMALLER(a,b)", "INFINITY"},
    {"ReduceProd", "(x)", "(x)", "((a)*(b))", "1"},
    {"ReduceL1", "fabs(x)", "(x)", NULL, "0"},
    {"ReduceL2", "((x)*(x))", "sqrt(x)", NULL, "0"},
    {"ReduceLogSum", "(x)", "log(x)", NULL, "0"},
    {"ReduceLogSumExp", "exp((x)-s)", "(log(x)+s)", NULL, "0"},
    {"ReduceSumSquare", "((x)*(x))", "(x)", NULL, "0"},
};
static const kind kMost = {"ReduceLogSumExp", "(x)", "(isfinite(x)?(x):0)", "LARGER(a,b)", "-INFINITY"};

static const kind *find_kind(const char *op) {
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++)
    if (strcmp(kKinds[i].op, op) == 0) return &kKinds[i];
  return NULL;
}

/* --- what is reduced -----------------------------------------------------------------------------------------------
 * Kept and reduced dimensions of the input with their steps, merged among themselves. */
typedef struct reduction {
  braid_launch_nest kept, reduced;
  int64_t results, elements;
} reduction;

static bool reduced_dims(const braid_node_desc *node, bool *reduced) {
  const braid_desc *x = &node->inputs[0].desc;
  if (strcmp(node->op, "BiasGrad") == 0) {
    for (int i = 0; i < x->rank; i++) reduced[i] = i != 1;
    return true;
  }
  bool given = braid_launch_has_input(node, 1);
  const int64_t *axes = given ? node->inputs[1].constant : NULL;
  return (!given || axes || braid_desc_count(&node->inputs[1].desc) == 0) &&
         braid_reduce_dims(node->attrs, x->rank, axes, given ? braid_desc_count(&node->inputs[1].desc) : 0, reduced);
}

static void reduce_put(braid_launch_nest *nest, int64_t size, int64_t step) {
  nest->dims[nest->rank] = size;
  nest->steps[0][nest->rank++] = step;
}

static reduction read_reduction(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc;
  bool reduced[BRAID_MAX_RANK] = {false};
  int64_t steps[BRAID_MAX_RANK], step = 1;
  reduction r = {.results = 1, .elements = 1};
  (void)reduced_dims(node, reduced); /* asked by match */
  for (int i = x->rank; i-- > 0; step *= x->dims[i]) steps[i] = step;
  for (int i = 0; i < x->rank; i++) {
    *(reduced[i] ? &r.elements : &r.results) *= x->dims[i];
    reduce_put(reduced[i] ? &r.reduced : &r.kept, x->dims[i], steps[i]);
  }
  braid_launch_nest_merge(&r.kept);
  braid_launch_nest_merge(&r.reduced);
  return r;
}

static bool reduce_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool reduced[BRAID_MAX_RANK];
  if (node->inputs[0].desc.dtype != BRAID_F32)
    return braid_launch_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(node->inputs[0].desc.dtype));
  return reduced_dims(node, reduced) || braid_launch_refuse(why, why_bytes, "axes that are not known before the run");
}

static bool reduce_match_two(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!reduce_match(node, why, why_bytes)) return false;
  reduction r = read_reduction(node);
  if (r.kept.rank <= 2 && r.reduced.rank <= 2) return true;
  return braid_launch_refuse(why, why_bytes, "%d kept and %d reduced dimensions, at most 2 and 2", r.kept.rank,
                             r.reduced.rank);
}

static bool has_rows(const reduction *r) {
  return r->reduced.steps[0][r->reduced.rank - 1] == 1;
}

static bool reduce_match_rows(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!reduce_match_two(node, why, why_bytes)) return false;
  reduction r = read_reduction(node);
  return has_rows(&r) || braid_launch_refuse(why, why_bytes, "reduced elements do not lie side by side");
}

/* Trees of work-items pay where local memory is one and there are elements for all. */
static bool reduce_match_groups(const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                                size_t why_bytes) {
  reduction r = read_reduction(node);
  if (traits->cpu) return braid_launch_refuse(why, why_bytes, "a work-item reduces faster than a group on a CPU");
  if (r.elements < (int64_t)braid_launch_group(traits))
    return braid_launch_refuse(why, why_bytes, "%lld elements are too few for a group", (long long)r.elements);
  return true;
}

static bool reduce_match_lanes(const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                               size_t why_bytes) {
  (void)node;
  return traits->cpu || braid_launch_refuse(why, why_bytes, "lanes of a work-item are for CPUs");
}

/* --- planning ------------------------------------------------------------------------------------------------------
 */
/* What a fold reads and writes. */
typedef struct fold_operands {
  const braid_launch_piece *in, *shift, *out; /* NULL: input 0, none, output 0 */
  double scale;                               /* of a mean */
} fold_operands;

static void add_fold_operands(braid_launch_planner *p, const kind *k, const fold_operands *operands) {
  braid_launch_option(p, "-DMAP(x)=%s -DFINISH(x)=%s -DNEUTRAL=%s", k->map, k->finish, k->neutral);
  braid_launch_option(p, "-DFOLD(a,b)=%s", k->fold ? k->fold : "((a)+(b))");
  if (!k->fold) braid_launch_option(p, "-DSUM");
  if (operands->shift) braid_launch_option(p, "-DSHIFTED");
  if (operands->in)
    braid_launch_workspace(p, *operands->in);
  else
    braid_launch_input(p, 0);
  if (operands->shift)
    braid_launch_workspace(p, *operands->shift);
  else
    braid_launch_input(p, 0);
  if (operands->out)
    braid_launch_workspace(p, *operands->out);
  else
    braid_launch_output(p, 0);
}

static void add_fold(braid_launch_planner *p, const char *function, const kind *k, const fold_operands *operands,
                     const reduction *r, int64_t slice, int64_t slices) {
  int kept = r->kept.rank, reduced = r->reduced.rank;
  braid_launch_begin(p, "reduce", function);
  add_fold_operands(p, k, operands);
  braid_launch_index(p, r->results);
  braid_launch_index(p, r->kept.dims[kept - 1]);
  braid_launch_index(p, kept > 1 ? r->kept.steps[0][0] : 0);
  braid_launch_index(p, r->kept.steps[0][kept - 1]);
  braid_launch_index(p, r->elements);
  braid_launch_index(p, r->reduced.dims[reduced - 1]);
  braid_launch_index(p, reduced > 1 ? r->reduced.steps[0][0] : 0);
  braid_launch_index(p, r->reduced.steps[0][reduced - 1]);
  braid_launch_index(p, slice);
  braid_launch_index(p, slices);
  braid_launch_float(p, operands->scale);
  if (strcmp(function, "fold_groups") != 0) {
    braid_launch_range(p, r->results * slices);
    return;
  }
  size_t group = 1; /* a power of two, for the tree */
  while (2 * group <= braid_launch_group(p->traits)) group *= 2;
  braid_launch_groups(p, r->results * slices, 1, 1, group);
}

/* As many slices as keep a device busy, decided by the shape alone. */
static int64_t reduce_slices(const reduction *r) {
  int64_t results = r->results > 0 ? r->results : 1;
  if (r->elements * results < kFewest || results >= kTasks) return 1;
  int64_t slices = r->elements / kSlice + 1, wanted = kTasks / results + 1;
  if (slices > wanted) slices = wanted;
  return slices < kMostSlices ? slices : kMostSlices;
}

static void reduce_plan_fold(braid_launch_planner *p, const char *function, const kind *k, const reduction *r,
                             fold_operands operands) {
  int64_t slices = reduce_slices(r), slice = (r->elements + slices - 1) / slices;
  if (slices == 1) {
    add_fold(p, function, k, &operands, r, r->elements, 1);
    return;
  }
  braid_launch_piece parts = braid_launch_reserve(p, slices, r->results, sizeof(float));
  reduction rest = {.kept = {.rank = 1, .dims = {r->results}, .steps = {{1}}},
                    .reduced = {.rank = 1, .dims = {slices}, .steps = {{r->results}}},
                    .results = r->results,
                    .elements = slices};
  kind merge = *k;
  merge.map = "(x)";
  add_fold(p, function, k, &(fold_operands){operands.in, operands.shift, &parts, 1}, r, slice, slices);
  add_fold(p, "fold_items", &merge, &(fold_operands){&parts, operands.shift, operands.out, operands.scale}, &rest,
           slices, 1);
}

static braid_status reduce_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe, const char *function) {
  braid_launch_planner p;
  const kind *k = find_kind(node->op);
  reduction r = read_reduction(node);
  fold_operands operands = {.scale = 1.0 / (double)r.elements}; /* the mean of nothing is NaN: 0 times infinity */
  braid_launch_piece most;
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (strcmp(node->op, "ReduceLogSumExp") == 0) {
    most = braid_launch_reserve(&p, r.results, 1, sizeof(float));
    reduce_plan_fold(&p, function, &kMost, &r, (fold_operands){NULL, NULL, &most, 1});
    operands.shift = &most;
  }
  reduce_plan_fold(&p, function, k, &r, operands);
  return braid_launch_plan_end(&p);
}

static braid_status reduce_plan_groups(const braid_launch_traits *traits, const braid_node_desc *node,
                                       braid_launch_recipe *recipe) {
  return reduce_plan(traits, node, recipe, "fold_groups");
}
static braid_status reduce_plan_rows(const braid_launch_traits *traits, const braid_node_desc *node,
                                     braid_launch_recipe *recipe) {
  return reduce_plan(traits, node, recipe, "fold_rows");
}
static braid_status reduce_plan_items(const braid_launch_traits *traits, const braid_node_desc *node,
                                      braid_launch_recipe *recipe) {
  return reduce_plan(traits, node, recipe, "fold_items");
}

static void add_any(braid_launch_planner *p, const kind *k, const fold_operands *operands, const reduction *r) {
  braid_launch_begin(p, "reduce", "fold_any");
  add_fold_operands(p, k, operands);
  braid_launch_index(p, r->results);
  braid_launch_index(p, r->elements);
  braid_launch_float(p, operands->scale);
  braid_launch_nest_sizes(p, &r->kept, BRAID_MAX_RANK);
  braid_launch_nest_steps(p, &r->kept, 0, BRAID_MAX_RANK);
  braid_launch_nest_sizes(p, &r->reduced, BRAID_MAX_RANK);
  braid_launch_nest_steps(p, &r->reduced, 0, BRAID_MAX_RANK);
  braid_launch_range(p, r->results);
}

static braid_status reduce_plan_any(const braid_launch_traits *traits, const braid_node_desc *node,
                                    braid_launch_recipe *recipe) {
  braid_launch_planner p;
  reduction r = read_reduction(node);
  fold_operands operands = {.scale = 1.0 / (double)r.elements}; /* the mean of nothing is NaN: 0 times infinity */
  braid_launch_piece most;
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (strcmp(node->op, "ReduceLogSumExp") == 0) {
    most = braid_launch_reserve(&p, r.results, 1, sizeof(float));
    add_any(&p, &kMost, &(fold_operands){NULL, NULL, &most, 1}, &r);
    operands.shift = &most;
  }
  add_any(&p, find_kind(node->op), &operands, &r);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kGroups = {.plan = reduce_plan_groups, .match = reduce_match_groups};
static const braid_launch_kernel kRows = {.plan = reduce_plan_rows, .match = reduce_match_lanes};
static const braid_launch_kernel kItems = {.plan = reduce_plan_items}, kAny = {.plan = reduce_plan_any};

#define KERNELS(op_name)                                                                                               \
  {.op = op_name, .name = "reduce_groups", .match = reduce_match_two, .implementation = &kGroups},                     \
      {.op = op_name, .name = "reduce_rows", .match = reduce_match_rows, .implementation = &kRows},                    \
      {.op = op_name, .name = "reduce_items", .match = reduce_match_two, .implementation = &kItems}, {                 \
    .op = op_name, .name = "reduce", .match = reduce_match, .implementation = &kAny                                    \
  }

static const braid_kernel kKernels[] = {
    KERNELS("ReduceSum"),  KERNELS("ReduceMean"),      KERNELS("ReduceMax"),       KERNELS("ReduceMin"),
    KERNELS("ReduceProd"), KERNELS("ReduceL1"),        KERNELS("ReduceL2"),        KERNELS("ReduceLogSum"),
    KERNELS("BiasGrad"),   KERNELS("ReduceLogSumExp"), KERNELS("ReduceSumSquare"),
};

const braid_launch_family braid_launch_family_reduce = {kKernels, sizeof kKernels / sizeof *kKernels, true};
