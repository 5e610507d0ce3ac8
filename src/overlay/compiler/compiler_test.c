/* Random networks for random designs compute the reference's bits on 1 to 16 cores, in whatever order modules and cores
 * run, without two accesses that nothing orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/compiler/compiler_fixture.h"
#include "overlay/reference.h"
#include "overlay/sim/functional.h"
#include "slow.h"

enum { kTrials = UNLESS_SLOW(150, 40) };

static int64_t line_of(const braid_package_map *map, int32_t channel, int32_t row, int32_t column) {
  return map->line + ((int64_t)(channel / 16) * map->rows + row) * map->columns + column;
}

/* A map's numbers to or from their lines. */
static void move_map(const braid_package_map *map, uint8_t *segment, int8_t *numbers, bool out) {
  for (int32_t c = 0; c < map->channels; c++)
    for (int32_t r = 0; r < map->rows; r++)
      for (int32_t k = 0; k < map->columns; k++) {
        uint8_t *byte = segment + line_of(map, c, r, k) * 16 + c % 16;
        int8_t *number = &numbers[((int64_t)c * map->rows + r) * map->columns + k];
        if (out)
          *number = (int8_t)*byte;
        else
          *byte = (uint8_t)*number;
      }
}

typedef struct task {
  const braid_package *package;
  braid_overlay_image image;
} task;

static task task_make(const braid_package *package) {
  task t = {.package = package};
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    t.image.segments[s].first = t.image.bytes;
    t.image.segments[s].bytes = (uint64_t)package->bytes[s];
    t.image.segments[s].read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    t.image.bytes += (uint64_t)package->bytes[s];
  }
  t.image.ddr = malloc(t.image.bytes + 1);
  return t;
}

/* What was in memory before does not matter. */
static void task_fill(task *t, int8_t *const *inputs) {
  const braid_package *package = t->package;
  memset(t->image.ddr, 0x5a, t->image.bytes);
  memcpy(t->image.ddr, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  uint8_t *segment = t->image.ddr + t->image.segments[BRAID_SEGMENT_INPUTS].first;
  memset(segment, 0, t->image.segments[BRAID_SEGMENT_INPUTS].bytes);
  for (size_t i = 0; i < package->input_count; i++)
    move_map(&package->maps[package->inputs[i].map], segment, inputs[i], false);
}

static void run_programs(const braid_package *package, const braid_overlay_design *design, task *t,
                         const braid_programs *programs, int8_t *const *inputs, int8_t *const *expected,
                         const braid_functional_options *options) {
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  for (int c = 0; c < programs->cores; c++)
    code[c] = (braid_overlay_code){programs->core[c].code, programs->core[c].bytes};
  task_fill(t, inputs);
  braid_functional_counts counts;
  braid_status status = braid_functional_once(design, programs->cores, code, &t->image, options, NULL, &counts);
  if (status != BRAID_OK) print_error("%s\n", braid_error_detail());
  assert_int_equal(status, BRAID_OK);
  for (size_t o = 0; o < package->output_count; o++) {
    const braid_package_map *map = &package->maps[package->outputs[o].map];
    size_t bytes = (size_t)map->channels * (size_t)map->rows * (size_t)map->columns;
    int8_t *got = malloc(bytes);
    move_map(map, t->image.ddr + t->image.segments[map->segment].first, got, true);
    assert_memory_equal(got, expected[o], bytes);
    free(got);
  }
}

/* Of each layer no tiling is faster than the chosen one; one core has the whole layer. */
static void expect_fastest_tilings(const braid_package *package, int cores, const braid_programs *programs) {
  for (size_t l = 0; cores > 1 && l < package->layer_count; l++) {
    uint64_t fastest = UINT64_MAX;
    for (uint32_t t = 0; t < package->layers[l].count; t++) {
      const braid_package_tiling *tiling = &package->tilings[package->layers[l].first + t];
      uint64_t cycles[BRAID_ASSIGN_MOST], bound;
      uint8_t core_of[BRAID_ASSIGN_MOST];
      for (uint32_t i = 0; i < tiling->count; i++) cycles[i] = package->tiles[tiling->first + i].cycles;
      uint64_t longest = braid_tiles_assign(cycles, (int)tiling->count, cores, core_of, &bound);
      if (longest < fastest) fastest = longest;
    }
    assert_int_equal(programs->layers[l].cycles, fastest);
  }
}

/* On one core, all cores, and some number between; plainly and in two other orders, one of them looked at for races. */
static void run_all(const drawn_network *n, const braid_package *package, const braid_overlay_design *design) {
  int8_t *inputs[2], *expected[kMostMaps];
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  task t = task_make(package);
  for (size_t i = 0; i < n->network.input_count; i++) {
    int64_t bytes = braid_overlay_map_bytes(&n->maps[n->inputs[i].map]);
    inputs[i] = malloc((size_t)bytes);
    for (int64_t b = 0; b < bytes; b++) inputs[i][b] = (int8_t)draw(-128, 127);
  }
  for (size_t o = 0; o < n->network.output_count; o++)
    expected[o] = malloc((size_t)braid_overlay_map_bytes(&n->maps[n->outputs[o].map]));
  assert_int_equal(braid_overlay_reference(&n->network, (const int8_t *const *)inputs, expected, NULL), BRAID_OK);
  for (int turn = 0; turn < 3; turn++) {
    int cores = turn == 0 ? 1 : turn == 1 ? draw(2, 16) : design->cores;
    assert_int_equal(braid_programs_make(package, cores, 0, &programs), BRAID_OK);
    assert_int_equal(braid_programs_gather(&programs), BRAID_OK);
    assert_true(programs.bound <= programs.cycles);
    expect_fastest_tilings(package, cores, &programs);
    const braid_functional_options options[] = {{0}, {.seed = draw_count, .races = true}, {.seed = draw_count + 1}};
    for (int o = 0; o < 3; o++) run_programs(package, design, &t, &programs, inputs, expected, &options[o]);
  }
  for (size_t i = 0; i < n->network.input_count; i++) free(inputs[i]);
  for (size_t o = 0; o < n->network.output_count; o++) free(expected[o]);
  free(t.image.ddr);
  braid_programs_deinit(&programs);
}

static void test_random_networks(void **state) {
  (void)state;
  int compiled = 0;
  for (int trial = 0; trial < kTrials; trial++) {
    drawn_network n;
    braid_package *package;
    draw_key = (uint64_t)trial + 1;
    draw_count = 0;
    draw_network(&n);
    braid_overlay_design design = draw_design();
    braid_status status = braid_package_compile(&n.network, &design, NULL, &package);
    if (status == BRAID_OK) {
      compiled++;
      run_all(&n, package, &design);
      braid_package_destroy(package);
    } else {
      assert_int_equal(status, BRAID_UNSUPPORTED);
      assert_non_null(strstr(braid_error_detail(), "memory of"));
    }
    drawn_free(&n);
  }
  print_message("%d of %d networks fit\n", compiled, kTrials);
  assert_true(compiled > kTrials / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_networks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
