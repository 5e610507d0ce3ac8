#include "backend/cpu/spans/spans.h"

#include <pthread.h>
#include <string.h>

#include "backend/cpu/spans/spans_list.h"

static const braid_span_set *best = &braid_spans_float_base;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
#ifdef __x86_64__
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
            __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  best = v4 ? &braid_spans_float_v4 : v3 ? &braid_spans_float_v3 : best;
#endif
}

const braid_span_set *braid_spans_float(void) {
  pthread_once(&once, choose);
  return best;
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
