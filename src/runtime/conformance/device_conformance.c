/* The device conformance suite with the CPU's plain references to compare with: src/device may not know them. */
#include "backend/cpu/evaluate.h"
#include "base/try.h"
#include "braid/conformance.h"
#include "device/conformance.h"

static const uint64_t kSeed = 20260;
static const int64_t kPatience = 60000000000; /* ns */

typedef struct listener {
  braid_check_report *report;
  bool (*cancelled)(void *context); /* NULL: never */
  void *context;
} listener;

static void tell(void *context, const char *name, braid_suite_result result, const char *detail) {
  static const braid_case_result kResults[] = {[BRAID_SUITE_PASSED] = BRAID_CASE_PASSED,
                                               [BRAID_SUITE_FAILED] = BRAID_CASE_FAILED,
                                               [BRAID_SUITE_NOT_CLAIMED] = BRAID_CASE_UNSUPPORTED};
  const listener *l = context;
  l->report(l->context, name, kResults[result], detail);
}

static bool is_cancelled(void *context) {
  const listener *l = context;
  return l->cancelled && l->cancelled(l->context);
}

braid_status braid_device_conformance(braid_device *device, const braid_check_options *options,
                                      braid_check_report *report, void *context, braid_check_counts *counts) {
  static const braid_check_options kNone;
  if (!options) options = &kNone;
  braid_cpu_evaluator references;
  *counts = (braid_check_counts){.seed = options->seed ? options->seed : kSeed};
  BRAID_TRY(braid_cpu_evaluator_init(&references, NULL));
  const braid_evaluator evaluator = {braid_cpu_evaluate, &references};
  listener l = {report, options->cancelled, context};
  braid_suite suite = {.backend = braid_device_backend(device),
                       .self = braid_device_self(device),
                       .info = braid_device_get_info(device),
                       .evaluator = &evaluator,
                       .seed = counts->seed,
                       .patience_ns = options->patience_ns ? options->patience_ns : kPatience,
                       .only = options->only,
                       .report = tell,
                       .cancelled = is_cancelled,
                       .context = &l};
  braid_status status = braid_suite_run(&suite);
  braid_cpu_evaluator_deinit(&references);
  counts->passed = suite.counts[BRAID_SUITE_PASSED];
  counts->failed = suite.counts[BRAID_SUITE_FAILED];
  counts->not_claimed = suite.counts[BRAID_SUITE_NOT_CLAIMED];
  counts->stopped = suite.stopped;
  if (status != BRAID_OK || suite.stopped || !is_cancelled(&l)) return status;
  size_t told = counts->passed + counts->failed + counts->not_claimed;
  return braid_fail(BRAID_CANCELLED, "interrupted after %zu case%s: %zu passed, %zu failed", told, told == 1 ? "" : "s",
                    counts->passed, counts->failed);
}
