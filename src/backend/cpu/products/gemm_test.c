/* Products of every type against sums written down plainly; sizes around the tiles' edges, transposed operands, sums
 * onto what is there, any number of threads, every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/products/gemm.h"
#include "base/philox.h"
#include "slow.h"

enum { kSeed = 20240317 };

typedef struct problem {
  braid_dtype dtype;
  int64_t rows, inner, columns;
  bool transposed_a, transposed_b, accumulate;
} problem;

/* Small integers: exact in every type, so that sums are equal in any order. */
static void fill(braid_dtype dtype, uint32_t stream, int64_t count, void *data) {
  for (int64_t i = 0; i < count; i++) {
    int64_t value = (int64_t)braid_random_below(kSeed, 0, stream, (uint64_t)i, 19) - 9;
    if (dtype == BRAID_F32) ((float *)data)[i] = (float)value;
    if (dtype == BRAID_F64) ((double *)data)[i] = (double)value;
    if (dtype == BRAID_I32 || dtype == BRAID_U32) ((int32_t *)data)[i] = (int32_t)value;
    if (dtype == BRAID_I64 || dtype == BRAID_U64) ((int64_t *)data)[i] = value;
  }
}

static double get(braid_dtype dtype, const void *data, int64_t i) {
  if (dtype == BRAID_F32) return ((const float *)data)[i];
  if (dtype == BRAID_F64) return ((const double *)data)[i];
  if (dtype == BRAID_I32 || dtype == BRAID_U32) return ((const int32_t *)data)[i];
  return (double)((const int64_t *)data)[i];
}

static void check(const problem *p) {
  size_t size = braid_dtype_size(p->dtype), bytes;
  int64_t step = p->columns + 3;
  size_t a_bytes = (size_t)(p->rows * p->inner) * size, b_bytes = (size_t)(p->inner * p->columns) * size;
  size_t y_bytes = (size_t)(p->rows * step) * size;
  void *a = malloc(a_bytes + 1), *b = malloc(b_bytes + 1), *y = malloc(y_bytes + 1), *before = malloc(y_bytes + 1);
  assert_true(braid_gemm_packed_bytes(p->dtype, p->inner, p->columns, &bytes));
  void *packed = braid_alloc(NULL, bytes);
  fill(p->dtype, 0, p->rows * p->inner, a);
  fill(p->dtype, 1, p->inner * p->columns, b);
  fill(p->dtype, 2, p->rows * step, y);
  memcpy(before, y, y_bytes);
  braid_matrix left = {a, p->transposed_a ? 1 : p->inner, p->transposed_a ? p->rows : 1};
  braid_matrix right = {b, p->transposed_b ? 1 : p->columns, p->transposed_b ? p->inner : 1};
  braid_gemm_pack(p->dtype, p->inner, p->columns, right, packed);
  braid_gemm_run(p->dtype, p->rows, p->inner, p->columns, left, packed, y, step, p->accumulate);
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t c = 0; c < step; c++) {
      double sum = c >= p->columns || p->accumulate ? get(p->dtype, before, r * step + c) : 0;
      for (int64_t k = 0; c < p->columns && k < p->inner; k++)
        sum += get(p->dtype, a, r * left.row_step + k * left.column_step) *
               get(p->dtype, b, k * right.row_step + c * right.column_step);
      if (get(p->dtype, y, r * step + c) != sum)
        fail_msg("%s %lldx%lldx%lld at (%lld, %lld): %g, expected %g (seed %d)", braid_dtype_name(p->dtype),
                 (long long)p->rows, (long long)p->inner, (long long)p->columns, (long long)r, (long long)c,
                 get(p->dtype, y, r * step + c), sum, kSeed);
    }
  free(a);
  free(b);
  free(y);
  free(before);
  braid_free(NULL, packed);
}

static void every_type_and_edge(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_F32, BRAID_F64, BRAID_I32, BRAID_I64, BRAID_U32, BRAID_U64};
  static const int64_t kSizes[][3] = {{1, 1, 1},    {0, 3, 5},       {3, 0, 5},     {3, 5, 0},    {6, 4, 16},
                                      {12, 9, 32},  {13, 7, 17},     {97, 33, 9},   {200, 3, 70}, {25, 130, 65},
                                      {96, 64, 64}, {11, 1024, 210}, {2, 300, 400}, {5, 600, 190}};
  for (int isa = BRAID_ISA_COUNT - 1; isa >= BRAID_ISA_BASE; isa--) {
    if (!braid_isa_limit((braid_isa)isa)) continue;
    for (size_t t = 0; t < sizeof kTypes / sizeof *kTypes; t++)
      for (size_t s = 0; s < sizeof kSizes / sizeof *kSizes; s++)
        for (int flags = UNLESS_SLOW(0, (int)(s + t) % 5); flags < 8; flags += UNLESS_SLOW(1, 5))
          check(&(problem){kTypes[t], kSizes[s][0], kSizes[s][1], kSizes[s][2], flags & 1, flags & 2, flags & 4});
  }
}

/* The same bits whatever the threads, and whatever other rows there are. */
static void same_bits(void **state) {
  (void)state;
  enum { kRows = 230, kInner = 150, kColumns = 90 };
  static float a[kRows * kInner], b[kInner * kColumns], results[2][kRows * kColumns], one[kColumns];
  size_t bytes;
  for (int64_t i = 0; i < kRows * kInner; i++) a[i] = braid_random_normal(kSeed, 1, 0, (uint64_t)i);
  for (int64_t i = 0; i < kInner * kColumns; i++) b[i] = braid_random_normal(kSeed, 1, 1, (uint64_t)i);
  assert_true(braid_gemm_packed_bytes(BRAID_F32, kInner, kColumns, &bytes));
  void *packed = braid_alloc(NULL, bytes);
  braid_gemm_pack(BRAID_F32, kInner, kColumns, (braid_matrix){b, kColumns, 1}, packed);
  for (int i = 0; i < 2; i++) {
    omp_set_num_threads(i ? 5 : 1);
    braid_gemm_run(BRAID_F32, kRows, kInner, kColumns, (braid_matrix){a, kInner, 1}, packed, results[i], kColumns,
                   false);
  }
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  for (int64_t r = 0; r < kRows; r += 29) {
    braid_gemm_run(BRAID_F32, 1, kInner, kColumns, (braid_matrix){a + r * kInner, kInner, 1}, packed, one, kColumns,
                   false);
    assert_memory_equal(one, results[0] + r * kColumns, sizeof one);
  }
  braid_free(NULL, packed);
}

static void too_large(void **state) {
  (void)state;
  size_t bytes;
  assert_false(braid_gemm_packed_bytes(BRAID_F32, INT64_MAX / 4, INT64_MAX / 4, &bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits),
      cmocka_unit_test(every_type_and_edge), /* leaves the least instruction set */
      cmocka_unit_test(too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
