/* Any text is a table, sorted and within its bounds, or a failure with a sentence; as CSV and as YAML. */
#include <math.h>
#include <stdlib.h>

#include "braid/explore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_table(const braid_fmax_table *table) {
  for (size_t i = 0; i < braid_fmax_table_count(table); i++) {
    const braid_fmax_point *p = braid_fmax_table_get(table, i);
    if (p->units < 1 || p->simd < 1 || p->unroll < 1 || !(p->mhz > 0 && p->mhz <= 1e5)) abort();
    if (braid_fmax_table_find(table, p->units, p->simd, p->unroll) != p) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char *const kNames[] = {"input.csv", "input.yaml"};
  for (size_t i = 0; i < 2; i++) {
    braid_fmax_table *table;
    if (braid_fmax_table_create(NULL, &table) != BRAID_OK) return 0;
    braid_status status = braid_fmax_table_parse(table, kNames[i], data, bytes);
    if (status != BRAID_OK && (braid_fmax_table_count(table) || !braid_error_detail()[0])) abort();
    check_table(table);
    braid_fmax_table_destroy(table);
  }
  return 0;
}
