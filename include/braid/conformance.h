/* Conformance tests: of a device against the contract in device.h, and of the library against ONNX's backend tests. */
#ifndef BRAID_CONFORMANCE_H
#define BRAID_CONFORMANCE_H

#include "braid/device.h"

/* UNSUPPORTED: the device does not claim to support the case, or the library does not have the op. */
typedef enum braid_case_result { BRAID_CASE_PASSED, BRAID_CASE_FAILED, BRAID_CASE_UNSUPPORTED } braid_case_result;

/* --- a device ------------------------------------------------------------------------------------------------------
 * The suite tests every function of the contract (memory and its bounds, order of execution, waits within and across
 * queues, failures) and every kernel of the device, which is compared with the CPU's reference kernels on a list of
 * nodes per op, for all element types that it supports. See docs/new-device.md. */
typedef struct braid_check_options {
  uint64_t seed;       /* for random sizes and contents; 0: a fixed seed */
  const char *only;    /* runs only the cases whose name has this from the beginning of a word on; NULL: all */
  int64_t patience_ns; /* time limit of a task; 0: one minute */
  /* Asked between cases and within long ones, with the context of the report: true ends the suite with CANCELLED. Of
   * kernels, which are judged side by side, those that have failed by then are reported. NULL: it goes on. */
  bool (*cancelled)(void *context);
} braid_check_options;

typedef struct braid_check_counts {
  uint64_t seed; /* the one used */
  size_t passed, failed, not_claimed;
  /* A task did not end, or ended twice, so the remaining cases were not run. The task may still use its memory: neither
   * close the device nor destroy its registry. */
  bool stopped;
} braid_check_counts;

typedef void braid_check_report(void *context, const char *name, braid_case_result result, const char *detail);

/* Runs the suite. `report` is called once per case: for each function and rule of the contract, for each kernel, and,
 * as UNSUPPORTED, for each op without a kernel. `options` may be NULL. Returns a failure only if the suite cannot run,
 * is cancelled, or the device is lost (DEVICE_LOST), which ends it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_device_conformance(braid_device *device,
                                                                 const braid_check_options *options,
                                                                 braid_check_report *report, void *context,
                                                                 braid_check_counts *counts);

/* --- ONNX ----------------------------------------------------------------------------------------------------------
 * A case is a folder with model.onnx and test_data_set_* (input_*.pb, output_*.pb), or a pair NAME.onnx and
 * NAME_output_0.pb (ONNX's `light` networks, whose input is 0/n, 1/n .. (n-1)/n). Outputs must have the expected type
 * and shape. Tolerances are those of ONNX's test runner: relative 1e-3 plus absolute 1e-7 for floating point (bfloat16:
 * relative 2^-6); integers must be equal. */
typedef struct braid_cases braid_cases;

typedef struct braid_case_report {
  braid_case_result result;
  char op[64];      /* the op under test; "Op (function)" if it is expanded into other ops; "network" */
  char reason[768]; /* if FAILED or UNSUPPORTED */
  /* Which inputs were given as constants, because their contents determine shapes: 0 none, 1 the integer inputs, 2 all
   * (the case was computed by constant folding). */
  int bound;
  double run_ms; /* measured: import, preparation, run and comparison */
} braid_case_report;

/* Finds all cases below `directory`, sorted by name. NOT_FOUND if there are none. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_find(const braid_allocator *allocator, const char *directory,
                                                         braid_cases **out);
BRAID_API void braid_cases_destroy(braid_cases *cases); /* NULL is allowed */
BRAID_API size_t braid_cases_count(const braid_cases *cases);
BRAID_API const char *braid_cases_name(const braid_cases *cases, size_t index); /* "node/test_add" */
/* braid_case_report.op, without running the case. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_op(const braid_cases *cases, size_t index, char op[64]);
/* Runs one case on the CPU. Its failure is in the report; the status is only that of running out of memory. Several
 * threads may run cases of one list. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_run(const braid_cases *cases, size_t index,
                                                        braid_case_report *report);

#endif
