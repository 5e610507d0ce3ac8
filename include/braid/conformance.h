/* Conformance: a device against the contract (device.h), and this library against ONNX's backend tests. */
#ifndef BRAID_CONFORMANCE_H
#define BRAID_CONFORMANCE_H

#include "braid/device.h"

/* FAILED is wrong; UNSUPPORTED is neither right nor wrong: not claimed by the device, or not known to this library. */
typedef enum braid_case_result { BRAID_CASE_PASSED, BRAID_CASE_FAILED, BRAID_CASE_UNSUPPORTED } braid_case_result;

/* --- a device ------------------------------------------------------------------------------------------------------
 * The suite tries every call of the contract: memory and its bounds, order, waits within and across queues, failures;
 * and every kernel that the device has, on every node of a list for each op that it takes, in every type, against the
 * CPU's plain references. docs/new-device.md says more. */
typedef struct braid_check_options {
  uint64_t seed;       /* of sizes and contents; 0: always the same */
  const char *only;    /* a part of the names of the cases to run; NULL: all */
  int64_t patience_ns; /* how long a task may take; 0: a minute */
} braid_check_options;

typedef struct braid_check_counts {
  uint64_t seed; /* the one used */
  size_t passed, failed, not_claimed;
  /* A task did not end, or ended twice, and may still touch what it was given: the rest was not tried, and neither the
   * device may be closed nor its registry destroyed. */
  bool stopped;
} braid_check_counts;

typedef void braid_check_report(void *context, const char *name, braid_case_result result, const char *detail);

/* Calls report once per case: one for each call and rule of the contract, for each kernel, and, as not claimed, for
 * each op without a kernel. `options` may be NULL. Fails only where the suite itself cannot work. */
BRAID_API BRAID_MUST_CHECK braid_status braid_device_conformance(braid_device *device,
                                                                 const braid_check_options *options,
                                                                 braid_check_report *report, void *context,
                                                                 braid_check_counts *counts);

/* --- ONNX ----------------------------------------------------------------------------------------------------------
 * A case is a folder with model.onnx and test_data_set_* (input_*.pb, output_*.pb), or a pair NAME.onnx and
 * NAME_output_0.pb (the `light` whole networks, whose input is 0/n, 1/n .. (n-1)/n). Outputs must have the expected
 * type and shape, and agree as in ONNX's own runner: relative error 1e-3 plus 1e-7 absolute for floating point (2^-6
 * for bfloat16), exactly for integers. */
typedef struct braid_cases braid_cases;

typedef struct braid_case_report {
  braid_case_result result;
  char op[64];      /* what the case is about: its op; "Op (function)" where ONNX spells the op out in others; else
                       "network" */
  char reason[768]; /* of failed and unsupported */
  /* Inputs that had to be known before the run, because shapes follow from their contents, and so were given as
   * constants: 0 none, 1 the integer ones, 2 all (the case was computed while folding). */
  int bound;
  double run_ms; /* measured: load, prepare, run and comparison */
} braid_case_report;

/* All cases below `directory`, sorted by name. NOT_FOUND if there are none. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_find(const braid_allocator *allocator, const char *directory,
                                                         braid_cases **out);
BRAID_API void braid_cases_destroy(braid_cases *cases); /* NULL is allowed */
BRAID_API size_t braid_cases_count(const braid_cases *cases);
BRAID_API const char *braid_cases_name(const braid_cases *cases, size_t index); /* "node/test_add" */
/* What the case is about, without running it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_op(const braid_cases *cases, size_t index, char op[64]);
/* Runs one case; what goes wrong with it is in the report. Several threads may run cases of one list. Fails only when
 * out of memory. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cases_run(const braid_cases *cases, size_t index,
                                                        braid_case_report *report);

#endif
