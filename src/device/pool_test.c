/* The pool against a model that looks at every gap: the same offsets, byte for byte of bookkeeping. */
#include "device/pool.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "oom.h"

enum { kBytes = 1 << 16, kGranule = 64, kSlots = 64, kSteps = 20000, kUnits = kBytes / kGranule };

static const uint64_t kSeed = 20240;

typedef struct range {
  braid_pool_block *block;
  size_t offset, bytes;
} range;

static uint32_t draw(uint64_t counter, uint32_t bound) {
  return braid_random_below(kSeed, 0, 0, counter, bound);
}

/* Best fit over a map of granules: the smallest gap in which an aligned range fits, the lowest of equals. */
static bool model_allocate(const uint8_t *used, size_t units, size_t alignment, size_t *out) {
  size_t best = SIZE_MAX;
  for (size_t at = 0; at < kUnits;) {
    if (used[at]) {
      at++;
      continue;
    }
    size_t end = at;
    while (end < kUnits && !used[end]) end++;
    size_t step = alignment > kGranule ? alignment / kGranule : 1;
    size_t start = (at + step - 1) / step * step;
    if (start + units <= end && end - at < best) {
      best = end - at;
      *out = start * kGranule;
    }
    at = end;
  }
  return best != SIZE_MAX;
}

static size_t model_largest(const uint8_t *used) {
  size_t largest = 0, run = 0;
  for (size_t i = 0; i < kUnits; i++) {
    run = used[i] ? 0 : run + 1;
    if (run > largest) largest = run;
  }
  return largest * kGranule;
}

static void test_model(void **state) {
  (void)state;
  print_message("seed %llu\n", (unsigned long long)kSeed);
  static uint8_t used[kUnits];
  range slots[kSlots] = {{0}};
  size_t in_use = 0, peak = 0, refused = 0;
  braid_pool *pool;
  assert_int_equal(braid_pool_create(NULL, kBytes + 7, kGranule, &pool), BRAID_OK);
  for (uint64_t step = 0; step < kSteps; step++) {
    range *slot = &slots[draw(step * 4, kSlots)];
    if (slot->block) {
      braid_pool_release(pool, slot->block);
      memset(used + slot->offset / kGranule, 0, slot->bytes / kGranule);
      in_use -= slot->bytes;
      slot->block = NULL;
    } else {
      size_t bytes = draw(step * 4 + 1, 8) ? draw(step * 4 + 2, 2048) : draw(step * 4 + 2, 20000);
      size_t alignment = (size_t)1 << draw(step * 4 + 3, 11), units = bytes ? (bytes + kGranule - 1) / kGranule : 1;
      size_t expected = 0;
      bool fits = model_allocate(used, units, alignment, &expected);
      braid_status status = braid_pool_allocate(pool, bytes, alignment, &slot->block);
      assert_int_equal(status, fits ? BRAID_OK : BRAID_NO_MEMORY);
      refused += !fits;
      if (!fits) continue;
      assert_int_equal(braid_pool_offset(slot->block), expected);
      slot->offset = expected;
      slot->bytes = units * kGranule;
      memset(used + expected / kGranule, 1, units);
      in_use += slot->bytes;
      if (in_use > peak) peak = in_use;
    }
    braid_pool_stats stats = braid_pool_get_stats(pool);
    assert_int_equal(stats.in_use, in_use);
    assert_int_equal(stats.peak, peak);
    assert_int_equal(stats.largest_free, model_largest(used));
  }
  assert_true(refused > 10);
  for (int i = 0; i < kSlots; i++) braid_pool_release(pool, slots[i].block);
  assert_int_equal(braid_pool_get_stats(pool).largest_free, kBytes);
  assert_int_equal(braid_pool_get_stats(pool).blocks, 0);
  braid_pool_destroy(pool);
}

static void test_bounds(void **state) {
  (void)state;
  braid_pool *pool;
  braid_pool_block *block;
  assert_int_equal(braid_pool_create(NULL, 100, 48, &pool), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_pool_create(NULL, 0, 64, &pool), BRAID_OK);
  assert_int_equal(braid_pool_allocate(pool, 1, 64, &block), BRAID_NO_MEMORY);
  braid_pool_destroy(pool);
  assert_int_equal(braid_pool_create(NULL, 4096, 64, &pool), BRAID_OK);
  assert_int_equal(braid_pool_allocate(pool, SIZE_MAX, 64, &block), BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "4096 free"));
  assert_int_equal(braid_pool_allocate(pool, 1, 0, &block), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_pool_allocate(pool, 0, 1, &block), BRAID_OK);
  assert_int_equal(braid_pool_bytes(block), 64);
  braid_pool_destroy(pool); /* with a block still allocated */
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_pool *pool;
  braid_status status = braid_pool_create(allocator, 4096, 64, &pool);
  if (status != BRAID_OK) return status;
  braid_pool_block *blocks[3];
  for (size_t i = 0; status == BRAID_OK && i < 3; i++)
    status = braid_pool_allocate(pool, 100, (size_t)64 << i, &blocks[i]);
  braid_pool_destroy(pool);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt, NULL) >= 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
