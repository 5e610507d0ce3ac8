/* NaN and infinities go through every kernel of the CPU as they go through the plain reference: nothing that diverged
 * comes out as a number that looks right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_fixture.h"
#include "skip.h"
#include "slow.h"

static const float kIntruders[] = {NAN, INFINITY, -INFINITY};
static const char *const kActivations[] = {"",          "Relu", "Clip",  "Sigmoid",    "HardSwish",
                                           "LeakyRelu", "Tanh", "Swish", "HardSigmoid"};
enum { kActivationCount = sizeof kActivations / sizeof *kActivations };

static void set_activation(fixture *f, const char *name) {
  if (!*name) return;
  float params[2] = {strcmp(name, "Clip") == 0 ? -0.1F : 0.1F, 0.9F};
  ok(braid_graph_set_string(f->graph, f->node, "activation", name));
  ok(braid_graph_set_floats(f->graph, f->node, "activation_params", params, 2));
}

/* --- convolutions and products -------------------------------------------------------------------------------------
 */
typedef struct shape {
  int64_t batch, channels, filters, size, kernel, stride, groups;
} shape;

/* Those of Winograd's algorithm are not among them: it mixes the elements of a tile. */
static const shape kShapes[] = {
    {2, 3, 20, 13, 3, 1, 1},  {3, 36, 44, 14, 3, 1, 1},  {1, 24, 40, 11, 3, 2, 1},  {2, 16, 32, 12, 1, 1, 1},
    {2, 64, 24, 9, 1, 2, 1},  {2, 32, 32, 11, 3, 1, 32}, {1, 24, 24, 9, 5, 1, 24},  {17, 32, 64, 6, 3, 1, 4},
    {1, 64, 64, 16, 1, 1, 1}, {1, 3, 64, 16, 7, 2, 1},   {1, 64, 128, 9, 3, 1, 16}, {2, 128, 128, 5, 3, 1, 32},
};

static void check_convolution(const shape *s, const char *activation, bool residual) {
  int64_t pad = s->kernel / 2, out = (s->size + 2 * pad - s->kernel) / s->stride + 1;
  fixture f = begin();
  braid_value_id ids[4] = {-1, -1, -1, -1};
  add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->size, s->size});
  add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
  add_input(&f, ids, 1, &s->filters);
  if (residual) add_input(&f, ids, 4, (int64_t[]){s->batch, s->filters, out, out});
  finish(&f, *activation || residual ? "FusedConv" : "Conv", ids, 1);
  set(&f, "pads", 4, (int64_t[]){pad, pad, pad, pad});
  set(&f, "strides", 2, (int64_t[]){s->stride, s->stride});
  ok(braid_graph_set_int(f.graph, f.node, "group", s->groups));
  set_activation(&f, activation);
  check(&f, 0);
}

static void test_convolutions(void **state) {
  (void)state;
  for (size_t s = 0; s < sizeof kShapes / sizeof *kShapes; s++)
    for (int i = 0; i < 3; i++)
      for (int a = UNLESS_SLOW(0, i); a < kActivationCount; a += UNLESS_SLOW(1, 3)) {
        intruder = kIntruders[i];
        check_convolution(&kShapes[s], kActivations[a], false);
        if (a == 1 || a == 2) check_convolution(&kShapes[s], kActivations[a], true);
      }
  intruder = 0;
}

static void test_products(void **state) {
  (void)state;
  for (int64_t rows = 1; rows < 200; rows += 66)
    for (int i = 0; i < 3; i++)
      for (int a = UNLESS_SLOW(0, i); a < kActivationCount; a += UNLESS_SLOW(1, 3)) {
        intruder = kIntruders[i];
        fixture f = begin();
        braid_value_id ids[3] = {-1, -1, -1};
        int64_t columns = 300;
        add_input(&f, ids, 2, (int64_t[]){rows, 70});
        add_input(&f, ids, 2, (int64_t[]){70, columns});
        add_input(&f, ids, 1, &columns);
        finish(&f, *kActivations[a] ? "FusedGemm" : "Gemm", ids, 1);
        set_activation(&f, kActivations[a]);
        check(&f, 0);
      }
  intruder = 0;
}

/* What the caller's processor noted before is still noted after: kernels may run in his thread. */
static void test_note_of_the_caller(void **state) {
  (void)state;
#ifdef __clang__
  skip_test("libgomp", "clang's OpenMP clears what is noted when a parallel region ends (KMP_INHERIT_FP_CONTROL)");
#endif
  int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  for (int noted = 0; noted < 2; noted++) {
    fixture f = begin();
    braid_value_id ids[2];
    add_input(&f, ids, 2, (int64_t[]){64, 70});
    add_input(&f, ids, 2, (int64_t[]){70, 64});
    finish(&f, "FusedGemm", ids, 1);
    set_activation(&f, "Relu");
    (void)feclearexcept(FE_INVALID);
    if (noted) (void)feraiseexcept(FE_INVALID);
    check(&f, 0);
    assert_int_equal(fetestexcept(FE_INVALID) != 0, noted);
  }
  (void)feclearexcept(FE_INVALID);
  omp_set_num_threads(threads);
}

static void note_in_all_threads(void) {
#pragma omp parallel
  (void)feraiseexcept(FE_INVALID);
}

static void clear_in_all_threads(void) {
#pragma omp parallel
  (void)feclearexcept(FE_INVALID);
}

/* Nor do the results depend on what the threads' processors noted before: an activation has the same bits. */
static void test_note_of_the_team(void **state) {
  (void)state;
  int threads = omp_get_max_threads();
  omp_set_num_threads(2);
  fixture f = begin();
  braid_value_id ids[3];
  const braid_kernel *matching[kMaxKernels];
  int64_t filters = 24;
  add_input(&f, ids, 4, (int64_t[]){3, 16, 11, 21});
  add_input(&f, ids, 4, (int64_t[]){filters, 16, 1, 1});
  add_input(&f, ids, 1, &filters);
  finish(&f, "FusedConv", ids, 1);
  set_activation(&f, "Swish");
  fill(&f);
  size_t found = list_matching(&f, 1, matching);
  for (size_t i = 0; i < found; i++) {
    float *clean[kMaxOperands], *noted[kMaxOperands];
    before_run = clear_in_all_threads;
    run(&f, matching[i], 1, clean);
    before_run = note_in_all_threads;
    run(&f, matching[i], 1, noted);
    assert_memory_equal(clean[0], noted[0], braid_desc_bytes(&f.operands[3].desc));
    free(clean[0]), free(noted[0]);
  }
  clear(&f);
  before_run = NULL;
  clear_in_all_threads();
  omp_set_num_threads(threads);
}

/* Nor on what stands in the rest of a register whose channels are the last ones of a place. */
static void test_rest_of_a_register(void **state) {
  (void)state;
  int threads = omp_get_max_threads();
  fixture f = begin();
  braid_value_id ids[3];
  const braid_kernel *matching[kMaxKernels];
  int64_t filters = 17;
  add_input(&f, ids, 4, (int64_t[]){3, 16, 11, 21});
  add_input(&f, ids, 4, (int64_t[]){filters, 16, 1, 1});
  add_input(&f, ids, 1, &filters);
  finish(&f, "FusedConv", ids, 1);
  set_activation(&f, "Sigmoid");
  fill(&f);
  size_t found = list_matching(&f, 1, matching);
  for (size_t i = 0; i < found; i++) {
    float *one[kMaxOperands], *two[kMaxOperands];
    omp_set_num_threads(1);
    run(&f, matching[i], 1, one);
    omp_set_num_threads(2);
    run(&f, matching[i], 1, two);
    assert_memory_equal(one[0], two[0], braid_desc_bytes(&f.operands[3].desc));
    free(one[0]), free(two[0]);
  }
  clear(&f);
  omp_set_num_threads(threads);
}

/* --- NaN alone -----------------------------------------------------------------------------------------------------
 * Where the reference is the only kernel: which results must be NaN follows from what they depend on. */
typedef enum reach { REACH_ELEMENT, REACH_ROW, REACH_ALL } reach;

static void check_reach(const char *op, reach how) {
  enum { kRows = 3, kColumns = 37, kAt = kRows * kColumns / 3 }; /* where intrude puts it */
  intruder = NAN;
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 2, (int64_t[]){kRows, kColumns});
  finish(&f, op, ids, 1);
  fill(&f);
  const braid_kernel **kernels;
  size_t count, taken = 0;
  ok(braid_cpu_list_kernels(NULL, false, &kernels, &count));
  for (size_t k = 0; k < count; k++) {
    braid_node_desc node = describe(&f, f.operands);
    char why[256];
    if (strcmp(kernels[k]->op, op) != 0 || (kernels[k]->match && !kernels[k]->match(&node, why, sizeof why))) continue;
    float *results[kMaxOperands];
    run(&f, kernels[k], kMaxOperands, results);
    for (int64_t i = 0; i < braid_desc_count(&f.operands[1].desc); i++) {
      bool reached = how == REACH_ALL || (how == REACH_ROW ? i / kColumns == kAt / kColumns : i == kAt);
      if (reached && !isnan(results[0][i]))
        fail_msg("%s %s: NaN became %g", op, kernels[k]->name, (double)results[0][i]);
      if (!reached && isinf(results[0][i])) fail_msg("%s %s: element %lld", op, kernels[k]->name, (long long)i);
    }
    free(results[0]);
    taken++;
  }
  assert_true(taken > 0);
  braid_free(NULL, kernels);
  clear(&f);
  intruder = 0;
}

static void test_nan_is_kept(void **state) {
  (void)state;
  static const char *const kElementwise[] = {
      "Relu", "LeakyRelu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid",  "Swish",
      "Tanh", "Elu",       "Selu", "Celu",      "Mish",        "Softplus", "Softsign",
      "Gelu", "Erf",       "Exp",  "Sign",      "Reciprocal",  "Abs",      "Sqrt",
      "Log",  "Floor",     "Ceil", "Round",     "Shrink",      "Neg",      "ThresholdedRelu"};
  static const char *const kAll[] = {"ReduceMax", "ReduceMin", "ReduceSum",  "ReduceMean",
                                     "ReduceL1",  "ReduceL2",  "ReduceProd", "ReduceLogSumExp"};
  static const char *const kRow[] = {"Softmax", "LogSoftmax"};
  for (size_t i = 0; i < sizeof kElementwise / sizeof *kElementwise; i++) check_reach(kElementwise[i], REACH_ELEMENT);
  for (size_t i = 0; i < sizeof kAll / sizeof *kAll; i++) check_reach(kAll[i], REACH_ALL);
  for (size_t i = 0; i < sizeof kRow / sizeof *kRow; i++) check_reach(kRow[i], REACH_ROW);
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static void test_pools(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int64_t channels = 16; channels <= 40; channels += 24)
      for (int average = 0; average < 2; average++) {
        intruder = kIntruders[i];
        fixture f = begin();
        braid_value_id ids[1];
        add_input(&f, ids, 4, (int64_t[]){2, channels, 9, 8});
        finish(&f, average ? "AveragePool" : "MaxPool", ids, 1);
        set(&f, "kernel_shape", 2, (int64_t[]){3, 3});
        set(&f, "strides", 2, (int64_t[]){2, 2});
        set(&f, "pads", 4, (int64_t[]){1, 1, 1, 1});
        check(&f, 1);
      }
  intruder = 0;
}

int main(void) {
  printf("seed %d\n", kSeed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolutions),
                                     cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_note_of_the_caller),
                                     cmocka_unit_test(test_note_of_the_team),
                                     cmocka_unit_test(test_rest_of_a_register),
                                     cmocka_unit_test(test_nan_is_kept),
                                     cmocka_unit_test(test_pools)};
  return skip_run_group_tests(tests, NULL, NULL);
}
