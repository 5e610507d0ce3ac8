/* Conformance: the ways of trying one kernel with one node. */
#include <stdio.h>
#include <string.h>

#include "device/conformance_trial.h"

const braid_layout braid_image_layouts[BRAID_IMAGE_LAYOUTS] = {BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_BHWC, BRAID_LAYOUT_CHWB,
                                                               BRAID_LAYOUT_BLOCKED16};

const braid_trial_way braid_trial_plainly = {.over = {-1, -1, -1, -1}};

/* A way of its own: prepared, run (with the second set of data, unless constants fix the first), discarded. */
static bool try_way(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel,
                    const braid_trial_way *way, char *detail) {
  braid_trial_run *run;
  bool passed = braid_trial_prepare(suite, trial, kernel, way, &run, detail);
  if (passed) passed = braid_trial_execute(suite, run, way->constants ? 0 : 1, detail);
  braid_trial_discard(suite, run);
  return passed;
}

/* The first rounds fill what is kept for use again; of the others the one that keeps the least counts. */
bool braid_way_discarded(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  enum { kRounds = 16, kTurns = 4, kMostKept = 8 /* bytes per round */ };
  size_t least = SIZE_MAX;
  for (int turn = 0; turn < kTurns && least > kRounds * kMostKept; turn++) {
    size_t before = braid_suite_host_memory();
    bool passed = true;
    for (int i = 0; i < kRounds && passed; i++) {
      braid_trial_run *run;
      passed = braid_trial_prepare(suite, trial, kernel, &braid_trial_plainly, &run, detail);
      braid_trial_discard(suite, run);
    }
    if (!passed) return false;
    size_t after = braid_suite_host_memory(), kept = after > before ? after - before : 0;
    if (turn && kept < least) least = kept;
  }
  SUITE_CHECK(least <= kRounds * kMostKept, "prepared and discarded %d times it keeps %zu bytes of host memory",
              (int)kRounds, least);
  return true;
}

static uint32_t in_place(const braid_kernel *kernel, size_t output) {
  if (output > 3) return 0;
  return output == 0 ? kernel->in_place : kernel->in_place_more[output - 1];
}

/* Every input that holds the same value must be one that the kernel allows. */
static bool allows(const braid_trial *trial, const braid_kernel *kernel, size_t output, size_t input) {
  if (trial->same[input] != input || !braid_trial_may_share(trial, output, input)) return false;
  for (size_t i = 0; i < trial->node.input_count; i++)
    if (trial->same[i] == input && (i >= 32 || !(in_place(kernel, output) >> i & 1))) return false;
  return true;
}

bool braid_way_in_place(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  braid_trial_way together = braid_trial_plainly;
  uint32_t taken = 0;
  size_t shared = 0;
  for (size_t output = 0; output < trial->node.output_count && output < 4; output++)
    for (size_t input = 0; input < trial->node.input_count && input < 32; input++) {
      if (!allows(trial, kernel, output, input)) continue;
      braid_trial_way way = braid_trial_plainly;
      way.over[output] = (int)input;
      char why[kSuiteDetail] = "";
      if (!try_way(suite, trial, kernel, &way, why))
        return braid_suite_fail(detail, "with output %zu over input %zu, as it allows: %s", output, input, why);
      if (together.over[output] >= 0 || taken >> input & 1) continue;
      together.over[output] = (int)input;
      taken |= 1u << input;
      shared++;
    }
  return shared < 2 || try_way(suite, trial, kernel, &together, detail);
}

static bool has_image(const braid_trial *trial) {
  for (size_t i = 0; i < trial->node.input_count; i++)
    if (trial->operands[i].present && trial->operands[i].desc.rank > 2) return true;
  return false;
}

bool braid_way_layouts(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  if (!has_image(trial) || (!kernel->layouts && !suite->backend->layouts)) return true;
  for (size_t i = 1; i < BRAID_IMAGE_LAYOUTS; i++) {
    braid_trial_way way = braid_trial_plainly;
    way.delivered = braid_image_layouts[i];
    char why[kSuiteDetail] = "", layout[BRAID_LAYOUT_TEXT];
    if (!try_way(suite, trial, kernel, &way, why))
      return braid_suite_fail(detail, "with inputs that come in layout %s: %s",
                              braid_layout_format(way.delivered, 4, layout, sizeof layout), why);
  }
  return true;
}

/* Prepared twice: what all kernels of a device have in common, and should not, shows where a call takes its time. */
bool braid_way_together(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  braid_trial_run *run = NULL, *other = NULL;
  bool passed = braid_trial_prepare(suite, trial, kernel, &braid_trial_plainly, &run, detail) &&
                braid_trial_prepare(suite, trial, kernel, &braid_trial_plainly, &other, detail) &&
                braid_trial_together(suite, run, other, detail);
  braid_trial_discard(suite, other);
  braid_trial_discard(suite, run);
  return passed;
}

/* In place where it may: what runs twice is then seen. */
bool braid_way_replay(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  braid_trial_way way = braid_trial_plainly;
  for (size_t i = 0; i < trial->node.input_count && way.over[0] < 0; i++)
    if (trial->node.output_count && allows(trial, kernel, 0, i)) way.over[0] = (int)i;
  braid_trial_run *run;
  bool passed = braid_trial_prepare(suite, trial, kernel, &way, &run, detail) && braid_trial_replay(suite, run, detail);
  braid_trial_discard(suite, run);
  return passed;
}

/* The ops whose kernels must refuse indices that are out of range. */
static bool checks_indices(const char *op) {
  static const char *const kOps[] = {"Gather",     "GatherElements",  "GatherND",
                                     "GatherGrad", "ScatterElements", "ScatterND"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(op, kOps[i]) == 0) return true;
  return false;
}

/* The input that holds its indices; -1: none that could be bad. */
int braid_way_indices_of(const braid_trial *trial) {
  for (size_t i = 0; i < trial->node.input_count && checks_indices(trial->node.op); i++)
    if (trial->bounds[i] > 0 && !trial->operands[i].constant && braid_desc_count(&trial->operands[i].desc) > 0)
      return (int)i;
  return -1;
}

/* The last index is just outside, or far: where 32 bits of it would be a good one. */
bool braid_way_indices(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  size_t input = (size_t)braid_way_indices_of(trial);
  const braid_desc *desc = &trial->operands[input].desc;
  int64_t bound = trial->bounds[input], last = braid_desc_count(desc) - 1;
  const int64_t bad[] = {bound, -bound - 1, INT32_MAX, INT32_MIN, (int64_t)1 << 32, INT64_MIN};
  braid_trial *wrong = braid_alloc(NULL, sizeof *wrong);
  braid_tensor *indices = NULL;
  braid_trial_run *run = NULL;
  SUITE_CHECK(wrong && braid_tensor_create(NULL, desc, &indices) == BRAID_OK, "no memory for the case");
  *wrong = *trial;
  wrong->node.inputs = wrong->operands;
  wrong->node.outputs = wrong->operands + wrong->node.input_count;
  memcpy(braid_tensor_data(indices), braid_tensor_const_data(trial->data[0][input]), braid_desc_bytes(desc));
  wrong->data[0][input] = indices;
  bool passed = braid_trial_prepare(suite, wrong, kernel, &braid_trial_plainly, &run, detail);
  for (size_t i = 0; passed && i < (desc->dtype == BRAID_I64 ? 6 : 4); i++) {
    char why[kSuiteDetail] = "";
    if (desc->dtype == BRAID_I64)
      ((int64_t *)braid_tensor_data(indices))[last] = bad[i];
    else
      ((int32_t *)braid_tensor_data(indices))[last] = (int32_t)bad[i];
    if (!braid_trial_refuse(suite, run, why))
      passed = braid_suite_fail(detail, "with index %lld where %lld to %lld are allowed: %s", (long long)bad[i],
                                (long long)-bound, (long long)bound - 1, why);
  }
  braid_trial_discard(suite, run);
  if (suite->stopped) return false;
  braid_tensor_release(indices);
  braid_free(NULL, wrong);
  return passed;
}

static bool has_weights(const braid_trial *trial) {
  for (size_t i = 1; i < trial->node.input_count; i++)
    if (trial->operands[i].present && !trial->operands[i].constant && trial->same[i] == i) return true;
  return false;
}

bool braid_way_constants(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  braid_trial_way folded = braid_trial_plainly;
  folded.constants = true;
  char why[kSuiteDetail] = "";
  if (!has_weights(trial) || trial->node.training || try_way(suite, trial, kernel, &folded, why)) return true;
  return braid_suite_fail(detail, "with constant inputs: %s", why);
}
