/* The samples of the device conformance suite: every one gives a node, and together they show every op, but for those
 * that are folded, resolved or made of others before a device sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "backend/cpu/evaluate.h"
#include "device/conformance_samples.h"

static const char *const kNever[] = {"Constant", "If", "IfBranch", "NonMaxSuppression", "Shape", "Size", "Unique"};
enum { kMostOps = 1024 };
static const char *shown[kMostOps];
static size_t shown_count;

static bool is_shown(const char *op) {
  for (size_t i = 0; i < shown_count; i++)
    if (strcmp(shown[i], op) == 0) return true;
  return false;
}

static bool show(const braid_draw *draw, const braid_evaluator *evaluator) {
  braid_sample_graph sample;
  if (braid_sample_make(draw, &sample) != BRAID_OK) return false;
  bool computed = braid_sample_compute(&sample, evaluator) == BRAID_OK;
  for (size_t i = 0; computed && i < sample.graph->node_count; i++) {
    const char *op = sample.graph->nodes[i].op->name;
    assert_true(shown_count < kMostOps);
    if (!is_shown(op)) shown[shown_count++] = op;
  }
  braid_sample_free(&sample);
  return computed;
}

static void test_samples(void **state) {
  (void)state;
  braid_cpu_evaluator references;
  assert_int_equal(braid_cpu_evaluator_init(&references, NULL), BRAID_OK);
  const braid_evaluator evaluator = {braid_cpu_evaluate, &references};
  size_t count;
  const braid_sample *samples = braid_samples(&count);
  for (uint32_t i = 0; i < count; i++) {
    size_t computed = 0;
    for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT; dtype++)
      for (int gradient = 0; gradient < 2; gradient++)
        computed += show(
            &(braid_draw){
                .seed = 7, .sample = i, .dtype = (braid_dtype)dtype, .size = BRAID_SAMPLE_MIDDLE, .gradient = gradient},
            &evaluator);
    if (!computed)
      fail_msg("sample %u, %s \"%s\": no type gives a node: %s", i, samples[i].op, samples[i].inputs,
               braid_error_detail());
  }
  braid_cpu_evaluator_deinit(&references);
  for (size_t i = 0; i < braid_op_count(); i++) {
    const char *op = braid_op_at(i)->name;
    bool never = braid_op_at(i)->flags & BRAID_OP_FUNCTION;
    for (size_t k = 0; k < sizeof kNever / sizeof *kNever; k++) never |= strcmp(op, kNever[k]) == 0;
    if (!never && !is_shown(op)) fail_msg("no sample shows %s: kernels for it would not be judged", op);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
