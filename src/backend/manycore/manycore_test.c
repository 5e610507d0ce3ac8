/* Kernels of the compute cores: random nodes of all of them give what the CPU's plain references give, the same bits
 * for any number of cores and threads and any size of scratchpads; programs that overstep their scratchpad or their
 * operands are caught; what does not fit is refused with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <float.h>

#include "backend/manycore/cost.h"
#include "backend/manycore/options.h"
#include "backend/manycore/sw26010.h"
#include "backend/manycore/team.h"
#include "kernel_fixture.h"
#include "oom.h"

#ifdef BRAID_EMULATED
enum { kTrials = 4 };
#else
enum { kTrials = 40 };
#endif

/* Numbers from a seed, which failures print. */
static uint64_t drawn, trial_seed;
static int64_t draw(int64_t least, int64_t most) {
  return least + (int64_t)(braid_random_u32(trial_seed, 1, 0, drawn++) % (uint64_t)(most - least + 1));
}

/* --- running on cores ------------------------------------------------------------------------------------------- */
static const char *const kGroups[] = {"threads=1", "cores=7,scratchpad=4096,threads=2",
                                      "cores=1,scratchpad=16384,threads=1", "cores=12,scratchpad=2048,threads=3"};
enum { kGroupCount = sizeof kGroups / sizeof *kGroups };
static int64_t tasks_run, tasks_refused;

static const braid_kernel *kernel_for(const char *op) {
  const braid_kernel *kernel;
  for (size_t i = 0; (kernel = braid_manycore_kernel_at(i)); i++)
    if (strcmp(kernel->op, op) == 0) return kernel;
  fail_msg("no kernel for %s", op);
  return NULL;
}

static braid_status run_cores(const fixture *f, const char *options, float *result) {
  braid_manycore_group group;
  braid_manycore_team *team;
  braid_manycore_plan plan;
  int threads;
  char why[256] = "";
  ok(braid_manycore_parse_options(options, &group, &threads));
  braid_node_desc node = describe(f, f->operands);
  const braid_kernel *kernel = kernel_for(node.op);
  if (!((const braid_manycore_kernel *)kernel->implementation)->plan(&node, &group, &plan, why, sizeof why)) {
    if (!why[0]) fail_msg("%s is refused without a reason", node.op);
    return BRAID_UNSUPPORTED;
  }
  braid_manycore_operand operands[kMaxOperands];
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    size_t bytes = f->operands[i].present ? braid_desc_bytes(&f->operands[i].desc) : 0;
    operands[i] = (braid_manycore_operand){i < f->inputs ? f->data[i] : (void *)result, bytes};
  }
  ok(braid_manycore_team_create(NULL, &group, threads, &team));
  braid_status status = braid_manycore_team_run(team, kernel, &plan, operands);
  braid_manycore_team_destroy(team);
  if (status != BRAID_OK) fail_msg("%s, %s: %s", node.op, options, braid_error_detail());
  braid_manycore_cost cost;
  ok(braid_manycore_cost_count(NULL, &group, kernel, &plan, &cost));
  assert_true(cost.put_bytes == (int64_t)braid_desc_bytes(&f->operands[f->inputs].desc)); /* each result once */
  assert_true(braid_desc_count(&f->operands[f->inputs].desc) == 0 || (cost.seconds > 0 && cost.busy > 0));
  tasks_run++;
  return BRAID_OK;
}

static void expect_near(const fixture *f, const float *got, const float *wanted, const char *options) {
  const braid_desc *desc = &f->operands[f->inputs].desc;
  int64_t count = braid_desc_count(desc);
  double scale = 1e-6;
  for (int64_t i = 0; i < count; i++) { /* GCC 12 for aarch64 crashes on fmax here */
    double size = fabs((double)wanted[i]);
    scale = size > scale ? size : scale;
  }
  for (int64_t i = 0; i < count; i++)
    if (!is_near(got[i], wanted[i], 2e-5 * scale))
      fail_msg("seed %llu, %s, %s: element %lld of %lld is %.9g, the reference gives %.9g",
               (unsigned long long)trial_seed, describe(f, f->operands).op, options, (long long)i, (long long)count,
               (double)got[i], (double)wanted[i]);
}

/* Against the last of the CPU's kernels, which is the plain reference; all groups give the same bits. */
static void check_on_cores(fixture *f) {
  fill(f);
  const braid_kernel *matching[kMaxKernels];
  size_t found = list_matching(f, kMaxOperands, matching), bytes = braid_desc_bytes(&f->operands[f->inputs].desc);
  float *wanted[kMaxOperands], *first = malloc(bytes + 1), *got = malloc(bytes + 1);
  assert_true(found > 0);
  run(f, matching[found - 1], kMaxOperands, wanted);
  int done = 0;
  for (size_t g = 0; g < kGroupCount; g++) {
    memset(got, 0xFF, bytes);
    if (run_cores(f, kGroups[g], got) != BRAID_OK) {
      if (g == 0) fail_msg("seed %llu: %s", (unsigned long long)trial_seed, describe(f, f->operands).op);
      tasks_refused++;
      continue;
    }
    if (done++ == 0) {
      memcpy(first, got, bytes);
      expect_near(f, got, wanted[0], kGroups[g]);
    } else if (memcmp(first, got, bytes) != 0) {
      fail_msg("seed %llu, %s: %s gives other bits", (unsigned long long)trial_seed, describe(f, f->operands).op,
               kGroups[g]);
    }
  }
  for (size_t i = 0; i < f->outputs; i++) free(wanted[i]);
  free(first);
  free(got);
  clear(f);
}

/* --- random nodes ------------------------------------------------------------------------------------------------ */
static fixture random_conv(void) {
  fixture f = begin();
  braid_value_id ids[3];
  int64_t group = draw(0, 3) ? 1 : draw(2, 4), channels = group * draw(1, 12), filters = group * draw(1, 20);
  int64_t kernel[2] = {draw(1, 4), draw(1, 5)}, dilations[2] = {draw(1, 2), draw(1, 2)};
  int64_t strides[2] = {draw(1, 3), draw(1, 3)}, pads[4];
  for (int i = 0; i < 4; i++) pads[i] = draw(0, kernel[i % 2]);
  int64_t size[2];
  for (int i = 0; i < 2; i++) size[i] = (kernel[i] - 1) * dilations[i] + draw(1, 40);
  add_input(&f, ids, 4, (int64_t[]){draw(1, 3), channels, size[0], size[1]});
  add_input(&f, ids, 4, (int64_t[]){filters, channels / group, kernel[0], kernel[1]});
  if (draw(0, 1)) add_input(&f, ids, 1, (int64_t[]){filters});
  finish(&f, "Conv", ids, 1);
  set(&f, "pads", 4, pads);
  set(&f, "strides", 2, strides);
  set(&f, "dilations", 2, dilations);
  ok(braid_graph_set_int(f.graph, f.node, "group", group));
  return f;
}

static fixture random_gemm(void) {
  fixture f = begin();
  braid_value_id ids[3];
  int64_t m = draw(1, 90), k = draw(1, 300), n = draw(1, 130), ta = draw(0, 1), tb = draw(0, 1);
  add_input(&f, ids, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
  add_input(&f, ids, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n});
  int kind = (int)draw(0, 4);
  if (kind == 1) add_input(&f, ids, 1, (int64_t[]){n});
  if (kind == 2) add_input(&f, ids, 2, (int64_t[]){m, 1});
  if (kind == 3) add_input(&f, ids, 2, (int64_t[]){m, n});
  if (kind == 4) add_input(&f, ids, 1, (int64_t[]){1});
  finish(&f, "Gemm", ids, 1);
  ok(braid_graph_set_int(f.graph, f.node, "transA", ta));
  ok(braid_graph_set_int(f.graph, f.node, "transB", tb));
  if (draw(0, 1)) ok(braid_graph_set_float(f.graph, f.node, "alpha", 0.5));
  if (draw(0, 1)) ok(braid_graph_set_float(f.graph, f.node, "beta", -1.5));
  return f;
}

static fixture random_matmul(void) {
  fixture f = begin();
  braid_value_id ids[2];
  int64_t m = draw(1, 40), k = draw(1, 120), n = draw(1, 60), b = draw(1, 4), c = draw(1, 3);
  switch (draw(0, 4)) {
  case 0:
    add_input(&f, ids, 4, (int64_t[]){b, 1, m, k});
    add_input(&f, ids, 4, (int64_t[]){1, c, k, n});
    break;
  case 1:
    add_input(&f, ids, 3, (int64_t[]){b, m, k});
    add_input(&f, ids, 2, (int64_t[]){k, n});
    break;
  case 2:
    add_input(&f, ids, 1, (int64_t[]){k});
    add_input(&f, ids, 3, (int64_t[]){b, k, n});
    break;
  case 3:
    add_input(&f, ids, 3, (int64_t[]){b, m, k});
    add_input(&f, ids, 1, (int64_t[]){k});
    break;
  default:
    add_input(&f, ids, 2, (int64_t[]){m, k});
    add_input(&f, ids, 3, (int64_t[]){b, k, n});
  }
  finish(&f, "MatMul", ids, 1);
  return f;
}

static fixture random_add(void) {
  fixture f = begin();
  braid_value_id ids[2];
  int64_t dims[4], a[4], b[4];
  int rank = (int)draw(1, 4), cut = (int)draw(0, rank - 1);
  for (int i = 0; i < rank; i++) {
    dims[i] = draw(1, i == rank - 1 ? 200 : 12);
    int64_t which = draw(0, 5);
    a[i] = which == 0 ? 1 : dims[i];
    b[i] = which == 1 ? 1 : dims[i];
  }
  add_input(&f, ids, rank, a);
  add_input(&f, ids, rank - cut, b + cut);
  finish(&f, "Add", ids, 1);
  return f;
}

static fixture random_unary(const char *op) {
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 3, (int64_t[]){draw(1, 9), draw(1, 40), draw(1, 90)});
  finish(&f, op, ids, 1);
  return f;
}

static fixture random_softmax(void) {
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 3, (int64_t[]){draw(1, 6), draw(1, draw(0, 3) ? 60 : 5000), draw(1, 20)});
  finish(&f, "Softmax", ids, 1);
  ok(braid_graph_set_int(f.graph, f.node, "axis", draw(-3, 2)));
  return f;
}

static fixture random_pool(const char *op) {
  fixture f = begin();
  braid_value_id ids[1];
  int rank = (int)draw(1, 2);
  int64_t kernel[2], strides[2], dilations[2], pads[4], dims[4] = {draw(1, 3), draw(1, 9)};
  for (int i = 0; i < rank; i++) {
    kernel[i] = draw(1, 5), strides[i] = draw(1, 3), dilations[i] = draw(1, 2);
    pads[i] = draw(0, kernel[i] - 1), pads[rank + i] = draw(0, kernel[i] - 1);
    dims[2 + i] = (kernel[i] - 1) * dilations[i] + draw(1, 50);
  }
  add_input(&f, ids, 2 + rank, dims);
  finish(&f, op, ids, 1);
  set(&f, "kernel_shape", rank, kernel);
  set(&f, "strides", rank, strides);
  set(&f, "dilations", rank, dilations);
  set(&f, "pads", 2 * rank, pads);
  ok(braid_graph_set_int(f.graph, f.node, "ceil_mode", draw(0, 1)));
  if (op[0] == 'A') ok(braid_graph_set_int(f.graph, f.node, "count_include_pad", draw(0, 1)));
  return f;
}

static fixture random_global(const char *op) {
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 4, (int64_t[]){draw(1, 3), draw(1, 70), draw(1, 90), draw(1, 60)});
  finish(&f, op, ids, 1);
  return f;
}

static fixture random_norm(void) {
  fixture f = begin();
  braid_value_id ids[5];
  int64_t channels = draw(1, 80);
  add_input(&f, ids, 4, (int64_t[]){draw(1, 3), channels, draw(1, 50), draw(1, 40)});
  for (int i = 0; i < 4; i++) add_input(&f, ids, 1, &channels);
  finish(&f, "BatchNormalization", ids, 1);
  ok(braid_graph_set_float(f.graph, f.node, "epsilon", 1.5)); /* variances are drawn from [-1, 1) */
  return f;
}

static fixture random_node(int kind) {
  switch (kind) {
  case 0:
    return random_conv();
  case 1:
    return random_gemm();
  case 2:
    return random_matmul();
  case 3:
    return random_add();
  case 4:
    return random_unary("Relu");
  case 5:
    return random_softmax();
  case 6:
    return random_pool("MaxPool");
  case 7:
    return random_pool("AveragePool");
  case 8:
    return random_global("GlobalMaxPool");
  case 9:
    return random_global("GlobalAveragePool");
  default:
    return random_norm();
  }
}
enum { kKinds = 11 };

static void test_random_nodes(void **state) {
  (void)state;
  for (int kind = 0; kind < kKinds; kind++)
    for (int trial = 0; trial < kTrials; trial++) {
      trial_seed = (uint64_t)(kind * 1000 + trial + 1);
      drawn = 0;
      fixture f = random_node(kind);
      check_on_cores(&f);
    }
  print_message("%lld tasks on cores, %lld refused for small scratchpads\n", (long long)tasks_run,
                (long long)tasks_refused);
  assert_true(tasks_run > 2 * kKinds * kTrials);
}

/* --- what is enforced -------------------------------------------------------------------------------------------- */
static bool any_plan(const braid_node_desc *node, const braid_manycore_group *group, void *plan, char *why,
                     size_t why_bytes) {
  (void)node, (void)group, (void)plan, (void)why, (void)why_bytes;
  return true;
}

/* Takes a byte too much. */
static void run_greedy(braid_manycore_core *core, const void *plan) {
  (void)plan;
  int64_t all = (int64_t)(core->group->scratchpad / sizeof(float));
  if (!braid_manycore_take(core, all)) return;
  (void)braid_manycore_take(core, 1);
}

/* Writes behind what it took, and behind the scratchpad, on one core. */
static void run_overstepping(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *all = braid_manycore_take(core, (int64_t)(core->group->scratchpad / sizeof(float)));
  if (core->id == 5 && braid_manycore_compute(core, 1, 0)) ((volatile float *)all)[core->group->scratchpad / 4] = 1;
}

static void run_before(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *all = braid_manycore_take(core, 16);
  if (core->id == 2 && braid_manycore_compute(core, 1, 0)) ((volatile float *)all)[-3] = 1;
}

/* Gets more than fits, and from where the operand has ended. */
static void run_wide(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *some = braid_manycore_take(core, 16);
  int64_t count = (int64_t)(core->group->scratchpad / sizeof(float)) + 1;
  braid_manycore_get(core, some, &(braid_manycore_block){0, 0, 1, count, count, count, 1});
}

/* From and to where the scratchpad has ended. */
static void run_behind(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *all = braid_manycore_take(core, (int64_t)(core->group->scratchpad / sizeof(float)));
  braid_manycore_get(core, all + core->group->scratchpad / 4 + 16, &(braid_manycore_block){0, 0, 1, 16, 16, 16, 1});
}

static void run_behind_put(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *all = braid_manycore_take(core, (int64_t)(core->group->scratchpad / sizeof(float)));
  braid_manycore_put(core, all + core->group->scratchpad / 4 + 16, &(braid_manycore_block){1, 0, 1, 16, 16, 16, 1});
}

/* The second row would come before the first. */
static void run_backwards(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *some = braid_manycore_take(core, 16);
  braid_manycore_get(core, some, &(braid_manycore_block){0, 0, 2, 8, 8, -8, 1});
}

static void run_far(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *some = braid_manycore_take(core, 16);
  braid_manycore_get(core, some, &(braid_manycore_block){0, 60, 1, 5, 5, 5, 1});
}

/* With two buffers, but one place that results are put from. */
static void run_one_place(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *some = braid_manycore_take(core, 16);
  for (int i = 0; i < 2 && core->id == 0; i++) {
    if (braid_manycore_compute(core, 1, 0)) some[0] = 0;
    braid_manycore_put(core, some, &(braid_manycore_block){0, i, 1, 1, 1, 1, 1});
    braid_manycore_step(core);
  }
}

static void run_far_put(braid_manycore_core *core, const void *plan) {
  (void)plan;
  float *some = braid_manycore_take(core, 16);
  braid_manycore_put(core, some, &(braid_manycore_block){1, -1, 2, 4, 8, 4, 1});
}

static void test_broken_programs_are_caught(void **state) {
  (void)state;
  static const struct {
    void (*run)(braid_manycore_core *core, const void *plan);
    const char *sentence;
    braid_status status;
  } kBroken[] = {
      {run_greedy, "core 0 of broken takes 4 bytes of its scratchpad, which has 0 of 1024 left", BRAID_NO_MEMORY},
      {run_overstepping, "core 5 of broken wrote outside of its scratchpad of 1024 bytes", BRAID_OUT_OF_RANGE},
      {run_before, "core 2 of broken wrote outside of its scratchpad", BRAID_OUT_OF_RANGE},
      {run_wide, "core 0 of broken gets 1 x 257 numbers outside of its scratchpad", BRAID_OUT_OF_RANGE},
      {run_behind, "core 0 of broken gets 1 x 16 numbers outside of its scratchpad", BRAID_OUT_OF_RANGE},
      {run_behind_put, "core 0 of broken puts 1 x 16 numbers outside of its scratchpad", BRAID_OUT_OF_RANGE},
      {run_backwards, "core 0 of broken gets 2 x 8 numbers outside of its scratchpad", BRAID_OUT_OF_RANGE},
      {run_far, "core 0 of broken gets elements up to 65 of operand 0, which has 64", BRAID_OUT_OF_RANGE},
      {run_one_place, "core 0 of broken puts from where the step before still does", BRAID_INTERNAL},
      {run_far_put, "core 0 of broken puts elements", BRAID_OUT_OF_RANGE},
  };
  braid_manycore_group group;
  int threads;
  ok(braid_manycore_parse_options("scratchpad=1024,cores=8,threads=3", &group, &threads));
  braid_manycore_team *team;
  ok(braid_manycore_team_create(NULL, &group, threads, &team));
  float numbers[2][64] = {{0}};
  braid_manycore_operand operands[2] = {{(uint8_t *)numbers[0], sizeof numbers[0]},
                                        {(uint8_t *)numbers[1], sizeof numbers[1]}};
  braid_manycore_plan plan = {{0}};
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof kBroken / sizeof *kBroken; i++) {
      const braid_manycore_kernel program = {any_plan, kBroken[i].run, NULL};
      const braid_kernel kernel = {.op = "Relu", .name = "broken", .implementation = &program};
      assert_int_equal(braid_manycore_team_run(team, &kernel, &plan, operands), kBroken[i].status);
      if (!strstr(braid_error_detail(), kBroken[i].sentence)) fail_msg("%s", braid_error_detail());
    }
  for (size_t i = 0; i < 64; i++) assert_true(numbers[1][i] == 0);
  braid_manycore_team_destroy(team);
}

static void test_what_does_not_fit_is_refused(void **state) {
  (void)state;
  fixture f = begin();
  braid_value_id ids[2];
  add_input(&f, ids, 4, (int64_t[]){1, 4, 64, 64});
  add_input(&f, ids, 4, (int64_t[]){4, 4, 11, 11});
  finish(&f, "Conv", ids, 1);
  fill(&f);
  braid_node_desc node = describe(&f, f.operands);
  const braid_manycore_kernel *conv = kernel_for("Conv")->implementation;
  braid_manycore_group group;
  braid_manycore_plan plan;
  int threads;
  char why[256];
  ok(braid_manycore_parse_options("scratchpad=4096", &group, &threads));
  assert_false(conv->plan(&node, &group, &plan, why, sizeof why));
  assert_non_null(strstr(why, "the smallest tile takes"));
  assert_non_null(strstr(why, "a scratchpad has 4096"));
  ok(braid_manycore_parse_options(NULL, &group, &threads));
  assert_true(conv->plan(&node, &group, &plan, why, sizeof why));
  f.operands[0].desc.dtype = BRAID_F64;
  assert_false(conv->plan(&node, &group, &plan, why, sizeof why));
  assert_string_equal(why, "compute cores take float32, not float64");
  clear(&f);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */
static double seconds_of(fixture *f, const char *options) {
  braid_manycore_group group;
  braid_manycore_plan plan;
  braid_manycore_cost cost;
  int threads;
  char why[256];
  braid_node_desc node = describe(f, f->operands);
  const braid_kernel *kernel = kernel_for(node.op);
  ok(braid_manycore_parse_options(options, &group, &threads));
  assert_true(((const braid_manycore_kernel *)kernel->implementation)->plan(&node, &group, &plan, why, sizeof why));
  ok(braid_manycore_cost_count(NULL, &group, kernel, &plan, &cost));
  return cost.seconds;
}

/* By numbers that follow from the published ones: no product is faster than the arithmetic of 64 cores, a copy is not
 * faster than the memory, more cores and larger scratchpads are not slower. */
static void test_model_keeps_bounds(void **state) {
  (void)state;
  fixture f = begin();
  braid_value_id ids[2];
  add_input(&f, ids, 2, (int64_t[]){1024, 1024});
  add_input(&f, ids, 2, (int64_t[]){1024, 1024});
  finish(&f, "MatMul", ids, 1);
  fill(&f);
  double peak = 1024.0 * 1024 * 1024 / (64 * 4 * 1.45e9), ours = seconds_of(&f, NULL);
  print_message("a product of 1024^3: %.3f ms, %.0f%% of the peak\n", ours * 1e3, 100 * peak / ours);
  assert_true(ours > peak && ours < 2 * peak);
  assert_true(seconds_of(&f, "cores=32") > 1.8 * ours);
  assert_true(seconds_of(&f, "scratchpad=8192") > ours);
  clear(&f);
  f = begin();
  add_input(&f, ids, 1, (int64_t[]){1 << 22});
  finish(&f, "Relu", ids, 1);
  fill(&f);
  double bytes = 2.0 * (1 << 22) * 4;
  ours = seconds_of(&f, NULL);
  assert_true(ours > bytes / 36.01e9 && ours < bytes / 25e9);
  assert_true(seconds_of(&f, "cores=4096") > bytes / 36.01e9);
  clear(&f);
}

/* A node of each family of products whose multiply-adds the management core does. */
typedef struct counted {
  const char *op, *attribute;
  int64_t values[2];
  size_t outputs, inputs;
  struct {
    braid_dtype dtype;
    int rank;
    int64_t dims[4];
  } input[8];
} counted;

static void expect_counted(const counted *c) {
  fixture f = begin();
  braid_value_id ids[8];
  for (size_t i = 0; i < c->inputs; i++) {
    ids[i] = -1;
    if (c->input[i].dtype != BRAID_NONE)
      add_typed(&f, ids, c->input[i].dtype, c->input[i].rank, c->input[i].dims);
    else
      f.inputs++;
  }
  finish(&f, c->op, ids, c->outputs);
  if (c->attribute) set(&f, c->attribute, 2, c->values);
  if (strcmp(c->op, "IntegerConv") == 0) {
    ok(braid_graph_set_int(f.graph, f.node, "bits", 8));
    ok(braid_graph_set_int(f.graph, f.node, "shift", 0));
  }
  fill(&f);
  braid_node_desc node = describe(&f, f.operands);
  double macs = (double)braid_graph_node_macs(f.graph, f.node);
  if (!(macs > 0 && braid_manycore_operations(&node) == macs))
    fail_msg("%s: %g multiply-adds, %g are counted", c->op, macs, braid_manycore_operations(&node));
  clear(&f);
}

static void test_management_counts_multiply_adds(void **state) {
  (void)state;
  static const counted kNodes[] = {
      {"Conv", NULL, {0}, 1, 2, {{BRAID_F32, 4, {2, 4, 9, 9}}, {BRAID_F32, 4, {6, 4, 3, 3}}}},
      {"ConvTranspose", NULL, {0}, 1, 2, {{BRAID_F32, 4, {2, 4, 9, 9}}, {BRAID_F32, 4, {4, 6, 3, 3}}}},
      {"ConvInteger", NULL, {0}, 1, 2, {{BRAID_U8, 4, {2, 4, 9, 9}}, {BRAID_I8, 4, {6, 4, 3, 3}}}},
      {"QLinearConv",
       NULL,
       {0},
       1,
       8,
       {{BRAID_U8, 4, {2, 4, 9, 9}},
        {BRAID_F32, 0, {0}},
        {BRAID_U8, 0, {0}},
        {BRAID_I8, 4, {6, 4, 3, 3}},
        {BRAID_F32, 0, {0}},
        {BRAID_I8, 0, {0}},
        {BRAID_F32, 0, {0}},
        {BRAID_U8, 0, {0}}}},
      {"MatMulInteger", NULL, {0}, 1, 2, {{BRAID_U8, 2, {30, 70}}, {BRAID_I8, 2, {70, 50}}}},
      {"QLinearMatMul",
       NULL,
       {0},
       1,
       8,
       {{BRAID_U8, 2, {30, 70}},
        {BRAID_F32, 0, {0}},
        {BRAID_U8, 0, {0}},
        {BRAID_I8, 2, {70, 50}},
        {BRAID_F32, 0, {0}},
        {BRAID_I8, 0, {0}},
        {BRAID_F32, 0, {0}},
        {BRAID_U8, 0, {0}}}},
      {"IntegerConv", NULL, {0}, 1, 2, {{BRAID_I8, 4, {2, 4, 9, 9}}, {BRAID_I8, 4, {6, 4, 3, 3}}}},
      {"IntegerConv", NULL, {0}, 1, 2, {{BRAID_I8, 2, {20, 40}}, {BRAID_I8, 2, {60, 40}}}},
      {"IntegerConvGradInput", "input_shape", {9, 9}, 2, 2, {{BRAID_I8, 4, {2, 6, 7, 7}}, {BRAID_I8, 4, {6, 4, 3, 3}}}},
      {"IntegerConvGradFilter",
       "kernel_shape",
       {3, 3},
       2,
       2,
       {{BRAID_I8, 4, {2, 4, 9, 9}}, {BRAID_I8, 4, {2, 6, 7, 7}}}},
      {"RNN", NULL, {0}, 1, 3, {{BRAID_F32, 3, {5, 2, 3}}, {BRAID_F32, 3, {1, 4, 3}}, {BRAID_F32, 3, {1, 4, 4}}}},
      {"GRU", NULL, {0}, 1, 3, {{BRAID_F32, 3, {5, 2, 3}}, {BRAID_F32, 3, {1, 12, 3}}, {BRAID_F32, 3, {1, 12, 4}}}},
      {"LSTM", NULL, {0}, 1, 3, {{BRAID_F32, 3, {5, 2, 3}}, {BRAID_F32, 3, {1, 16, 3}}, {BRAID_F32, 3, {1, 16, 4}}}},
      {"RNNGrad",
       NULL,
       {0},
       2,
       8,
       {{BRAID_F32, 3, {5, 2, 3}},
        {BRAID_F32, 3, {1, 4, 3}},
        {BRAID_F32, 3, {1, 4, 4}},
        {BRAID_NONE, 0, {0}},
        {BRAID_NONE, 0, {0}},
        {BRAID_NONE, 0, {0}},
        {BRAID_NONE, 0, {0}},
        {BRAID_F32, 4, {1, 5, 2, 4}}}},
  };
  for (size_t i = 0; i < sizeof kNodes / sizeof *kNodes; i++) expect_counted(&kNodes[i]);
}

static void test_transfers_by_hand(void **state) {
  (void)state;
  /* A core has a 64th of what was measured; between two sizes on a line; small runs take as long as one of 32 bytes. */
  assert_float_equal((float)braid_sw26010_get_cycles(22.44e9 / 64, 256, 1, 64), 1.45e9f, 1e4);
  assert_float_equal((float)braid_sw26010_put_cycles(36.01e9 / 64, 1 << 20, 64), 1.45e9f, 1e4);
  assert_float_equal((float)(braid_sw26010_get_cycles(4, 4, 1, 64) / braid_sw26010_get_cycles(32, 32, 1, 64)), 1.0f,
                     1e-5);
  double middle = braid_sw26010_get_cycles(1536, 1536, 1, 64) / 1536;
  assert_float_equal((float)middle, (float)(1.45e9 * 64 / ((29.79 + 31.32) / 2 * 1e9)), 1e-4);
  /* More cores share the same memory. Of a block that 8 cores share, each gets a part, in runs of that part. */
  assert_true(braid_sw26010_get_cycles(4096, 256, 1, 256) == 4 * braid_sw26010_get_cycles(4096, 256, 1, 64));
  assert_true(braid_sw26010_put_cycles(4096, 256, 256) == 4 * braid_sw26010_put_cycles(4096, 256, 64));
  assert_true(braid_sw26010_get_cycles(4096, 4096, 8, 64) == braid_sw26010_get_cycles(512, 512, 1, 64));
  assert_true(braid_sw26010_get_cycles(4096, 256, 8, 64) == braid_sw26010_get_cycles(512, 256, 1, 64));
  /* Two buffers: of 3 steps with 10 cycles to get, 4 to compute and 5 to put, gets and puts go on beside computing. */
  braid_manycore_core core = {.two_buffers = true};
  for (int i = 0; i < 3; i++) {
    core.account.get = 10, core.account.compute = 4, core.account.put = 5;
    braid_manycore_step(&core);
  }
  /* get 10 | get 10 beside compute 4 | get 10 and put 5 beside compute 4 | put 5 beside compute 4 | put 5 */
  assert_true(braid_manycore_core_cycles(&core) == 10 + 10 + 15 + 5 + 5);
  core = (braid_manycore_core){.two_buffers = false};
  for (int i = 0; i < 3; i++) {
    core.account.get = 10, core.account.compute = 4, core.account.put = 5;
    braid_manycore_step(&core);
  }
  assert_true(braid_manycore_core_cycles(&core) == 57);
  /* A block of 4 x 16 products: 16 sums a step; one of 1 x 4 waits for the sum before. */
  assert_true(braid_sw26010_product_cycles(4, 16, 100) == 100 * 16 + 32);
  assert_true(braid_sw26010_product_cycles(1, 4, 100) == 100 * 7 + 2);
}

static braid_status attempt_team(const braid_allocator *allocator, void *context) {
  braid_manycore_group group;
  braid_manycore_team *team;
  int threads;
  braid_status status = braid_manycore_parse_options(context, &group, &threads);
  if (status == BRAID_OK) status = braid_manycore_team_create(allocator, &group, threads, &team);
  if (status == BRAID_OK) braid_manycore_team_destroy(team);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt_team, "threads=4") >= 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_nodes),
      cmocka_unit_test(test_broken_programs_are_caught),
      cmocka_unit_test(test_what_does_not_fit_is_refused),
      cmocka_unit_test(test_model_keeps_bounds),
      cmocka_unit_test(test_management_counts_multiply_adds),
      cmocka_unit_test(test_transfers_by_hand),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
