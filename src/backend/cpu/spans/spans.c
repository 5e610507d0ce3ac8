#include "backend/cpu/spans/spans.h"

#include <string.h>

#include "backend/cpu/spans/spans_list.h"

const braid_span_set *braid_spans_float(void) {
  return BRAID_ISA_ADDRESS(braid_spans_float);
}

static const braid_span_entry *search(const braid_span_entry *entries, size_t count, const char *op,
                                      braid_dtype dtype) {
  for (size_t i = 0; i < count; i++)
    if (entries[i].dtype == dtype && strcmp(entries[i].op, op) == 0) return &entries[i];
  return NULL;
}

const braid_span_entry *braid_spans_find(const char *op, braid_dtype dtype) {
  const braid_span_set *set = braid_spans_float();
  const braid_span_entry *entry = dtype == BRAID_F32 ? search(set->entries, set->count, op, dtype) : NULL;
  if (!entry && dtype == BRAID_F64) entry = search(braid_spans_double.entries, braid_spans_double.count, op, dtype);
  return entry ? entry : search(braid_spans_integer.entries, braid_spans_integer.count, op, dtype);
}
