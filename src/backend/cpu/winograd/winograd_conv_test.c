/* Winograd convolutions against the plain reference, on every instruction set that has them: layouts, edges, chunks of
 * tiles and of channels, activations and residuals; the same bits for any number of threads and in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <omp.h>

#include "backend/cpu/isa.h"
#include "kernel_fixture.h"
#include "skip.h"
#include "slow.h"

typedef struct shape {
  int64_t batch, channels, filters, height, width;
  int64_t pads[4];
} shape;

static const shape kShapes[] = {
    {3, 32, 48, 14, 14, {1, 1, 1, 1}},  {1, 24, 40, 15, 11, {1, 1, 1, 1}}, {2, 8, 24, 9, 30, {0, 2, 3, 0}},
    {1, 64, 8, 12, 11, {0, 0, 0, 0}},   /* a panel that is half full, and tiles that are */
    {1, 72, 40, 93, 90, {1, 1, 1, 1}},  /* more tiles than a chunk has */
    {1, 1024, 80, 9, 10, {1, 1, 1, 1}}, /* rows of 4 KiB; more channels than one pass over registers takes */
    {30, 8, 8, 9, 8, {1, 1, 1, 1}},     /* many small images */
    {5, 16, 136, 6, 7, {2, 2, 2, 2}},   /* more panels than two units have */
};
enum { kShapeCount = sizeof kShapes / sizeof *kShapes };
static const char *const kActivations[] = {NULL,        "Relu", "Clip",  "Sigmoid",    "HardSwish",
                                           "LeakyRelu", "Tanh", "Swish", "HardSigmoid"};
enum { kActivationCount = sizeof kActivations / sizeof *kActivations };

static fixture convolution(const shape *s, const char *activation, bool residual) {
  const int64_t out[4] = {s->batch, s->filters, s->height + s->pads[0] + s->pads[2] - 2,
                          s->width + s->pads[1] + s->pads[3] - 2};
  fixture f = begin();
  braid_value_id ids[4] = {-1, -1, -1, -1};
  add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->height, s->width});
  add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels, 3, 3});
  add_input(&f, ids, 1, &s->filters);
  if (residual) add_input(&f, ids, 4, out);
  finish(&f, activation || residual ? "FusedConv" : "Conv", ids, 1);
  set(&f, "pads", 4, s->pads);
  if (activation) {
    ok(braid_graph_set_string(f.graph, f.node, "activation", activation));
    ok(braid_graph_set_floats(f.graph, f.node, "activation_params", (float[]){0.1f, 0.9f}, 2));
  }
  return f;
}

static const braid_kernel *kernel_of(const fixture *f) {
  const braid_kernel *matching[kMaxKernels];
  size_t found = list_matching(f, 1, matching);
  for (size_t i = 0; i < found; i++)
    if (strcmp(matching[i]->name, "winograd_conv") == 0) return matching[i];
  fail_msg("the kernel does not take it");
  return NULL;
}

static void test_against_the_reference(void **state) {
  (void)state;
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_BLOCKED16};
  for (int i = 0; i < kShapeCount; i++)
    for (int l = 0; l < 2; l++)
      for (int a = 0; a < kActivationCount; a += i < 2 ? 1 : UNLESS_SLOW(4, 8)) {
        fixture f = convolution(&kShapes[i], kActivations[a], a % 2);
        float *wanted[kMaxOperands], *got[kMaxOperands];
        const braid_kernel *matching[kMaxKernels];
        first_layout = kLayouts[l];
        least_scale = sqrt((double)kShapes[i].channels); /* 9 products of each, of variance 1/9 */
        fill(&f);
        size_t found = list_matching(&f, 1, matching);
        run(&f, matching[found - 1], kMaxOperands, wanted);
        run(&f, kernel_of(&f), 1, got);
        compare(&f, kernel_of(&f), got, wanted);
        free(wanted[0]), free(got[0]);
        clear(&f);
      }
  first_layout = BRAID_LAYOUT_PLAIN;
  least_scale = 0;
}

static void test_any_number_of_threads(void **state) {
  (void)state;
  int threads = omp_get_max_threads();
  for (int i = 0; i < kShapeCount; i += UNLESS_SLOW(1, 3)) {
    float *one[kMaxOperands], *many[kMaxOperands];
    fixture f = convolution(&kShapes[i], "Relu", true);
    fill(&f);
    omp_set_num_threads(1);
    run(&f, kernel_of(&f), 1, one);
    omp_set_num_threads(5);
    run(&f, kernel_of(&f), 1, many);
    assert_memory_equal(one[0], many[0], braid_desc_bytes(&f.operands[4].desc));
    free(one[0]), free(many[0]);
    clear(&f);
  }
  omp_set_num_threads(threads);
}

/* The result over the residual, with channels last. */
static void run_in_place(const fixture *f, const braid_kernel *kernel, float *plain) {
  braid_operand operands[kMaxOperands];
  memcpy(operands, f->operands, sizeof operands);
  operands[1].constant = f->data[1];
  operands[0].desc.layout = operands[3].desc.layout = operands[4].desc.layout = BRAID_LAYOUT_BHWC;
  void *x = malloc(braid_desc_bytes(&operands[0].desc)), *y = malloc(braid_desc_bytes(&operands[4].desc));
  braid_layout_pack(&operands[0].desc, f->data[0], x);
  braid_layout_pack(&operands[3].desc, f->data[3], y);
  braid_node_desc node = describe(f, operands);
  braid_cpu_prepared *prepared;
  braid_prepared_info info = {0};
  ok(braid_cpu_prepare(NULL, kernel, &node, &prepared, &info));
  void *workspace = braid_alloc(NULL, info.workspace_bytes);
  const void *inputs[] = {x, NULL, f->data[2], y};
  for (int i = 0; i < 4; i++) prepared->inputs[i] = inputs[i];
  prepared->outputs[0] = y;
  ok(braid_cpu_run(prepared, workspace));
  braid_layout_unpack(&operands[4].desc, y, plain);
  braid_cpu_discard(prepared);
  braid_free(NULL, workspace);
  free(x), free(y);
}

static void test_in_place(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i += UNLESS_SLOW(1, 3)) {
    float *apart[kMaxOperands];
    fixture f = convolution(&kShapes[i], "Tanh", true);
    fill(&f);
    size_t bytes = braid_desc_bytes(&f.operands[4].desc);
    float *over = malloc(bytes);
    const braid_kernel *kernel = kernel_of(&f);
    assert_int_equal(kernel->in_place, 1u << 3);
    run(&f, kernel, 1, apart);
    run_in_place(&f, kernel, over);
    assert_memory_equal(over, apart[0], bytes);
    free(over), free(apart[0]);
    clear(&f);
  }
}

/* What it is not for goes to other kernels. */
static void test_refused(void **state) {
  (void)state;
  const shape kOthers[] = {{1, 12, 16, 9, 9, {1, 1, 1, 1}},
                           {1, 16, 12, 9, 9, {1, 1, 1, 1}},
                           {9, 16, 16, 7, 7, {1, 1, 1, 1}},
                           {1, 16, 16, 9, 9, {1, 1, 1, 1}}}; /* with filters of 8 bits */
  const size_t kOtherCount = sizeof kOthers / sizeof *kOthers;
  for (size_t i = 0; i < kOtherCount; i++) {
    fixture f = convolution(&kOthers[i], NULL, false);
    const braid_kernel *matching[kMaxKernels];
    fill(&f);
    for (int64_t k = 0; i == kOtherCount - 1 && k < braid_desc_count(&f.operands[1].desc); k++)
      ((float *)f.data[1])[k] = (float)(k % 255 - 127) / 64;
    size_t found = list_matching(&f, 1, matching);
    for (size_t k = 0; k < found; k++) assert_string_not_equal(matching[k]->name, "winograd_conv");
    clear(&f);
  }
}

int main(void) {
  static const braid_isa kSets[] = {BRAID_ISA_BASE, BRAID_ISA_V3};
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_reference),
                                     cmocka_unit_test(test_any_number_of_threads), cmocka_unit_test(test_in_place),
                                     cmocka_unit_test(test_refused)};
  int failed = 0;
  for (size_t i = 0; i < 2; i++)
    if (braid_isa_limit(kSets[i])) failed += skip_run_group_tests(tests, NULL, NULL);
  return failed;
}
