/* The lists of innermost loops that braid_spans_find searches. */
#ifndef BRAID_BACKEND_CPU_SPANS_SPANS_LIST_H
#define BRAID_BACKEND_CPU_SPANS_SPANS_LIST_H

#include "backend/cpu/isa.h"
#include "backend/cpu/spans/spans.h"

typedef struct braid_span_list {
  const braid_span_entry *entries;
  size_t count;
} braid_span_list;

extern const braid_span_list braid_spans_double, braid_spans_integer;
BRAID_ISA_OBJECT(const braid_span_set, braid_spans_float)

#endif
