/* Packing random lifetimes: nothing alive overlaps, and the arena stays near what is alive at once. */
#include <string.h>

#include "base/philox.h"
#include "oom.h"
#include "runtime/plan/plan.h"

enum { kMost = 200, kRounds = 200 };
static const uint64_t kSeed = 77;

static size_t make_blocks(uint32_t round, braid_block *blocks) {
  uint32_t count = 1 + braid_random_below(kSeed, round, 0, 0, kMost);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t first = braid_random_below(kSeed, round, 1, i, count);
    uint32_t life = braid_random_below(kSeed, round, 2, i, 8) ? 3 : count;
    blocks[i] = (braid_block){.bytes = 64 * (size_t)(1 + braid_random_below(kSeed, round, 3, i, 1000)),
                              .first = (int32_t)first,
                              .last = (int32_t)(first + braid_random_below(kSeed, round, 4, i, life))};
  }
  return count;
}

static size_t most_alive(const braid_block *blocks, size_t count) {
  size_t most = 0;
  for (int32_t at = 0; at < 2 * kMost; at++) {
    size_t alive = 0;
    for (size_t i = 0; i < count; i++)
      if (blocks[i].first <= at && at <= blocks[i].last) alive += blocks[i].bytes;
    if (alive > most) most = alive;
  }
  return most;
}

static void test_random(void **state) {
  (void)state;
  print_message("seed %llu\n", (unsigned long long)kSeed);
  static braid_block blocks[kMost];
  double total = 0, bound = 0;
  for (uint32_t round = 0; round < kRounds; round++) {
    size_t count = make_blocks(round, blocks), bytes;
    assert_int_equal(braid_pack_blocks(NULL, blocks, count, &bytes), BRAID_OK);
    for (size_t i = 0; i < count; i++) {
      assert_true(blocks[i].offset + blocks[i].bytes <= bytes);
      assert_int_equal(blocks[i].offset % 64, 0);
      for (size_t j = 0; j < i; j++) {
        bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        bool apart = blocks[i].offset >= blocks[j].offset + blocks[j].bytes ||
                     blocks[j].offset >= blocks[i].offset + blocks[i].bytes;
        assert_true(!together || apart);
      }
    }
    size_t alive = most_alive(blocks, count);
    assert_true(bytes >= alive);
    total += (double)bytes;
    bound += (double)alive;
  }
  print_message("arenas are %.3f of the lower bound\n", total / bound);
  assert_true(total < 1.05 * bound);
}

/* A chain of equal layers needs two buffers, whatever its length. */
static void test_chain(void **state) {
  (void)state;
  static braid_block blocks[kMost];
  for (int i = 0; i < kMost; i++) blocks[i] = (braid_block){.bytes = 4096, .first = i, .last = i + 1};
  size_t bytes;
  assert_int_equal(braid_pack_blocks(NULL, blocks, kMost, &bytes), BRAID_OK);
  assert_int_equal(bytes, 2 * 4096);
}

static void test_overflow(void **state) {
  (void)state;
  braid_block blocks[2] = {{.bytes = SIZE_MAX - 63}, {.bytes = 128}};
  size_t bytes;
  assert_int_equal(braid_pack_blocks(NULL, blocks, 2, &bytes), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_pack_blocks(NULL, blocks, 0, &bytes), BRAID_OK);
  assert_int_equal(bytes, 0);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_block blocks[3] = {{.bytes = 64}, {.bytes = 64}, {.bytes = 128}};
  size_t bytes;
  return braid_pack_blocks(allocator, blocks, 3, &bytes);
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_int_equal(oom_sweep(attempt, NULL), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_chain),
                                     cmocka_unit_test(test_overflow), cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
