/* The lists of innermost loops that braid_spans_find searches. */
#ifndef BRAID_BACKEND_CPU_SPANS_SPANS_LIST_H
#define BRAID_BACKEND_CPU_SPANS_SPANS_LIST_H

#include "backend/cpu/spans/spans.h"

typedef struct braid_span_list {
  const braid_span_entry *entries;
  size_t count;
} braid_span_list;

extern const braid_span_list braid_spans_double, braid_spans_integer;
extern const braid_span_set braid_spans_float_base;
#ifdef __x86_64__
extern const braid_span_set braid_spans_float_v3, braid_spans_float_v4;
#endif

#endif
