/* Conformance cases: what finding, running and comparing share. Public: braid/conformance.h. */
#ifndef BRAID_RUNTIME_CONFORMANCE_H
#define BRAID_RUNTIME_CONFORMANCE_H

#include "braid/conformance.h"
#include "braid/tensor.h"

typedef struct braid_case {
  const char *name;
  char *model; /* path */
  bool light;
} braid_case;

struct braid_cases {
  const braid_allocator *allocator;
  char *directory;
  braid_case *items;
  size_t count, capacity;
};

/* Equal type, shape and values; FAILED with the first difference otherwise: INVALID_GRAPH. */
BRAID_MUST_CHECK braid_status braid_case_compare(const braid_tensor *expected, const braid_desc *desc,
                                                 const void *data);
#endif
