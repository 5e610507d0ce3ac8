/* Conformance: ONNX's backend tests, run through this library.
 *
 * A case is a folder with model.onnx and test_data_set_* (input_*.pb, output_*.pb), or a pair NAME.onnx and
 * NAME_output_0.pb (the `light` whole networks, whose input is 0/n, 1/n .. (n-1)/n). Outputs must have the expected
 * type and shape, and agree as in ONNX's own runner: relative error 1e-3 plus 1e-7 absolute for floating point (2^-6
 * for bfloat16), exactly for integers. */
#ifndef BRAID_CONFORMANCE_H
#define BRAID_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef struct braid_cases braid_cases;

typedef enum braid_case_result { BRAID_CASE_PASSED, BRAID_CASE_FAILED, BRAID_CASE_UNSUPPORTED } braid_case_result;

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
