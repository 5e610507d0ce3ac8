#include "base/map.h"

#include <stdio.h>

#include "oom.h"

/* Sets, changes and removes names at random beside a plain array. */
static void test_against_array(void **state) {
  (void)state;
  enum { NAMES = 500, STEPS = 20000 };
  int64_t values[NAMES];
  bool present[NAMES] = {false};
  braid_name_map *map;
  assert_int_equal(braid_name_map_create(NULL, &map), BRAID_OK);
  uint32_t random = 20260101;
  for (int step = 0; step < STEPS; step++) {
    random = random * 1664525u + 1013904223u;
    int which = (int)((random >> 8) % NAMES);
    char name[32];
    snprintf(name, sizeof name, "layer%d/weight", which);
    if (random >> 31) {
      values[which] = step;
      present[which] = true;
      assert_int_equal(braid_name_map_set(map, name, step), BRAID_OK);
    } else {
      assert_int_equal(braid_name_map_remove(map, name), present[which]);
      present[which] = false;
    }
    if (step % 1000) continue;
    for (int i = 0; i < NAMES; i++) {
      int64_t value = 0;
      snprintf(name, sizeof name, "layer%d/weight", i);
      assert_int_equal(braid_name_map_get(map, name, &value), present[i]);
      if (present[i]) assert_int_equal(value, values[i]);
    }
  }
  braid_name_map_destroy(map);
}

static void test_empty_name(void **state) {
  (void)state;
  braid_name_map *map;
  int64_t value = 0;
  assert_int_equal(braid_name_map_create(NULL, &map), BRAID_OK);
  assert_false(braid_name_map_get(map, "", &value));
  assert_int_equal(braid_name_map_set(map, "", -5), BRAID_OK);
  assert_true(braid_name_map_get(map, "", &value));
  assert_int_equal(value, -5);
  braid_name_map_destroy(map);
}

static braid_status fill(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_name_map *map;
  braid_status status = braid_name_map_create(allocator, &map);
  for (int i = 0; i < 100 && status == BRAID_OK; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    status = braid_name_map_set(map, name, i);
    int64_t value;
    assert_int_equal(braid_name_map_get(map, name, &value), status == BRAID_OK);
  }
  braid_name_map_destroy(map);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(fill, NULL) > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_array),
      cmocka_unit_test(test_empty_name),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
