/* Products of bytes against sums in 64 bits, of all sizes and with every instruction set. */
#include "backend/cpu/dot/dot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "backend/cpu/isa.h"
#include "base/philox.h"

static uint64_t draws;

static int64_t draw(int64_t below) {
  return (int64_t)braid_random_below(11, 0, 0, draws++, (uint32_t)below);
}

typedef struct product {
  int64_t m, n, k, step;
  uint8_t *a;
  int8_t *b;
  void *packed;
  int32_t *c;
} product;

static product make_product(int64_t m, int64_t n, int64_t k, bool extreme) {
  product p = {.m = m, .n = n, .k = k, .step = k + BRAID_DOT_QUAD + draw(9)};
  size_t bytes;
  assert_true(braid_dot_packed_bytes(k, n, &bytes));
  p.a = malloc((size_t)(m * p.step));
  p.b = malloc((size_t)(n * k));
  p.packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
  p.c = malloc((size_t)(m * n) * sizeof *p.c);
  assert_true(p.a && p.b && p.packed && p.c);
  for (int64_t i = 0; i < m * p.step; i++) p.a[i] = extreme ? 255 : (uint8_t)draw(256);
  for (int64_t i = 0; i < n * k; i++) p.b[i] = extreme ? -128 : (int8_t)(draw(256) - 128);
  braid_dot_pack(p.b, k, n, 1, k, p.packed);
  return p;
}

static void check_product(const product *p) {
  const int32_t *columns = braid_dot_column_sums(p->packed, p->k, p->n);
  braid_dot_product(p->a, p->step, p->m, p->packed, p->k, p->n, p->c, p->n);
  for (int64_t n = 0; n < p->n; n++) {
    int64_t column = 0;
    for (int64_t k = 0; k < p->k; k++) column += p->b[n * p->k + k];
    assert_int_equal(columns[n], column);
    for (int64_t m = 0; m < p->m; m++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += (int64_t)p->a[m * p->step + k] * p->b[n * p->k + k];
      assert_int_equal(p->c[m * p->n + n], sum);
    }
  }
}

static void free_product(product *p) {
  free(p->a), free(p->b), free(p->packed), free(p->c);
}

static void sums_are_exact(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  static const int64_t kSizes[][3] = {{1, 1, 1},   {1, 1000, 64}, {49, 70, 33}, {24, 64, 4},  {25, 65, 5},
                                      {97, 16, 9}, {130, 48, 27}, {7, 31, 147}, {200, 96, 3}, {23, 100, 576}};
  for (braid_isa isa = BRAID_ISA_BASE; isa <= best; isa++) {
    assert_true(braid_isa_limit(isa));
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
      product p = make_product(kSizes[i][0], kSizes[i][1], kSizes[i][2], false);
      check_product(&p);
      free_product(&p);
    }
    for (int i = 0; i < 30; i++) {
      product p = make_product(1 + draw(60), 1 + draw(80), 1 + draw(70), false);
      check_product(&p);
      free_product(&p);
    }
    product p = make_product(2, 17, BRAID_DOT_MOST_K, true); /* sums to the end of 32 bits */
    check_product(&p);
    free_product(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
