/* Tasks that are stopped at random times: they stand within the bound that the compiler states, which is 40
 * microseconds at most, and go on, on other cores too, to the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/compiler/bench_networks.h"
#include "overlay/compiler/compiler_fixture.h"
#include "overlay/reference.h"
#include "overlay/sim/functional.h"
#include "overlay/sim/timing.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Programs as the timing simulator takes them. */
typedef struct decoded {
  braid_timing_program programs[BRAID_OVERLAY_MOST_CORES];
  braid_timing_task task;
} decoded;

static void decode(decoded *d, const braid_package *package, const braid_programs *made) {
  uint64_t first = 0;
  d->task = (braid_timing_task){.programs = d->programs, .core_count = (size_t)made->cores};
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    uint64_t lines = (uint64_t)package->bytes[s] / 16;
    d->task.ranges[s] = (braid_timing_range){.first = first, .lines = lines};
    first += lines;
  }
  for (int c = 0; c < made->cores; c++) {
    const braid_program *from = &made->core[c];
    braid_instruction *items = calloc(from->bytes / 16 + 1, sizeof *items);
    size_t count = 0;
    for (size_t at = 0, next; at < from->bytes; at = next)
      ok(braid_isa_decode(from->code, from->bytes, at, &items[count++], &next));
    d->programs[c] = (braid_timing_program){.core = c, .instructions = items, .count = count};
  }
}

static void drop(decoded *d) {
  for (size_t c = 0; c < d->task.core_count; c++) free((void *)(uintptr_t)d->programs[c].instructions);
}

/* Stops the task at a cycle. Returns the cycles until it stood; *at: where each core goes on. */
static uint64_t stop(const braid_overlay_design *design, const decoded *d, uint64_t cycle, size_t *at) {
  braid_timing *t;
  size_t id, done;
  ok(braid_timing_create(design, NULL, &t));
  ok(braid_timing_submit(t, &d->task, &id));
  ok(braid_timing_advance(t, cycle, &done));
  uint64_t from = braid_timing_now(t);
  braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
  if (done == SIZE_MAX) ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state == BRAID_TIMING_FAILED) fail_msg("%s", r.why);
  for (size_t c = 0; c < d->task.core_count; c++)
    at[c] = r.state == BRAID_TIMING_ENDED ? d->programs[c].count : r.cores[c].stopped_at;
  uint64_t ended = r.ended;
  braid_timing_destroy(t);
  return ended - from;
}

static uint64_t whole(const braid_overlay_design *design, const decoded *d) {
  braid_timing *t;
  size_t id, done;
  ok(braid_timing_create(design, NULL, &t));
  ok(braid_timing_submit(t, &d->task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  assert_int_equal(r.state, BRAID_TIMING_ENDED);
  braid_timing_destroy(t);
  return r.ended;
}

/* --- real networks -------------------------------------------------------------------------------------------------
 */
static void stop_often(const braid_package *package, const braid_overlay_design *design, int cores, int stops) {
  braid_programs made;
  decoded d;
  size_t at[BRAID_OVERLAY_MOST_CORES];
  uint64_t longest = 0;
  braid_programs_init(&made, NULL);
  ok(braid_programs_make(package, cores, 0, &made));
  ok(braid_programs_gather(&made));
  decode(&d, package, &made);
  uint64_t alone = whole(design, &d);
  for (int i = 0; i < stops; i++) {
    uint64_t cycles = stop(design, &d, 1 + (uint64_t)draw(0, INT32_MAX - 1) % (alone - 1), at);
    if (cycles > longest) longest = cycles;
  }
  print_message("%d cores: %llu cycles at most, bound %llu\n", cores, (unsigned long long)longest,
                (unsigned long long)made.stop);
  assert_true(longest <= made.stop);
  assert_true((double)made.stop <= 40 * design->clock_mhz);
  drop(&d);
  braid_programs_deinit(&made);
}

static void test_real_networks(void **state) {
  (void)state;
  static const char *const kDesigns[] = {"cnn-16x512", "cnn-1x8192"};
  draw_key = 7;
  for (int k = 0; k < 2; k++) {
    const braid_overlay_design *design;
    ok(braid_overlay_design_load(NULL, kDesigns[k], &design));
    for (int m = 0; m < BENCH_MODELS; m++) {
      bench_network *n = bench_network_create(&bench_models[m]);
      braid_package *package;
      assert_non_null(n);
      ok(braid_package_compile(&n->network, design, NULL, &package));
      stop_often(package, design, 1, 10);
      if (design->cores > 1) stop_often(package, design, draw(2, 15), 10);
      if (design->cores > 1) stop_often(package, design, 16, 10);
      braid_package_destroy(package);
      bench_network_destroy(n);
    }
    braid_overlay_design_destroy(design);
  }
}

/* --- bits ----------------------------------------------------------------------------------------------------------
 */
static void move_map(const braid_package_map *map, uint8_t *segment, int8_t *numbers, bool out) {
  for (int32_t c = 0; c < map->channels; c++)
    for (int32_t p = 0; p < map->rows * map->columns; p++) {
      uint8_t *byte = segment + (map->line + (int64_t)(c / 16) * map->rows * map->columns + p) * 16 + c % 16;
      int8_t *number = &numbers[(int64_t)c * map->rows * map->columns + p];
      if (out)
        *number = (int8_t)*byte;
      else
        *byte = (uint8_t)*number;
    }
}

/* Runs the first part of all programs, then the rest with nothing on the chip. */
static void run_parts(const braid_package *package, const braid_overlay_design *design, const braid_programs *made,
                      const size_t *at, braid_overlay_image *image) {
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  for (int c = 0; c < made->cores; c++) code[c] = (braid_overlay_code){made->core[c].code, made->core[c].bytes};
  braid_functional_options first = {.seed = draw_count, .to = at}, rest = {.seed = draw_count + 1, .from = at};
  (void)package;
  ok(braid_functional_once(design, made->cores, code, image, &first, NULL, NULL));
  ok(braid_functional_once(design, made->cores, code, image, &rest, NULL, NULL));
}

static void stop_and_compare(const drawn_network *n, const braid_package *package, const braid_overlay_design *design,
                             int cores) {
  braid_programs made;
  decoded d;
  braid_overlay_image image = {0};
  size_t at[BRAID_OVERLAY_MOST_CORES];
  int8_t *input = malloc((size_t)braid_overlay_map_bytes(&n->maps[0])), *expected[kMostMaps];
  for (int64_t b = 0; b < braid_overlay_map_bytes(&n->maps[0]); b++) input[b] = (int8_t)draw(-128, 127);
  for (size_t o = 0; o < n->network.output_count; o++)
    expected[o] = malloc((size_t)braid_overlay_map_bytes(&n->maps[n->outputs[o].map]));
  ok(braid_overlay_reference(&n->network, (const int8_t *const[]){input}, expected, NULL));
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    image.segments[s] = (braid_overlay_segment){.first = image.bytes, .bytes = (uint64_t)package->bytes[s]};
    image.bytes += (uint64_t)package->bytes[s];
  }
  image.ddr = calloc(1, image.bytes + 1);
  braid_programs_init(&made, NULL);
  ok(braid_programs_make(package, cores, 0, &made));
  ok(braid_programs_gather(&made));
  decode(&d, package, &made);
  uint64_t alone = whole(design, &d);
  for (int i = 0; i < 4; i++) {
    stop(design, &d, 1 + (uint64_t)draw(0, INT32_MAX - 1) % alone, at);
    memset(image.ddr, 0x33, image.bytes);
    memcpy(image.ddr, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
    memset(image.ddr + image.segments[BRAID_SEGMENT_INPUTS].first, 0, image.segments[BRAID_SEGMENT_INPUTS].bytes);
    move_map(&package->maps[0], image.ddr + image.segments[BRAID_SEGMENT_INPUTS].first, input, false);
    run_parts(package, design, &made, at, &image);
    for (size_t o = 0; o < package->output_count; o++) {
      const braid_package_map *map = &package->maps[package->outputs[o].map];
      int8_t *got = malloc((size_t)braid_overlay_map_bytes(&n->maps[n->outputs[o].map]));
      move_map(map, image.ddr + image.segments[map->segment].first, got, true);
      assert_memory_equal(got, expected[o], (size_t)braid_overlay_map_bytes(&n->maps[n->outputs[o].map]));
      free(got);
    }
  }
  drop(&d);
  braid_programs_deinit(&made);
  for (size_t o = 0; o < n->network.output_count; o++) free(expected[o]);
  free(image.ddr);
  free(input);
}

/* Slow clocks, so that 40 microseconds are a few cycles, and places to stop are everywhere. */
static void test_bits(void **state) {
  (void)state;
  size_t places = 0, backs = 0, repeats = 0;
  for (int trial = 0; trial < 60; trial++) {
    drawn_network n;
    braid_package *package;
    draw_key = (uint64_t)trial + 1000;
    draw_count = 0;
    draw_network(&n);
    braid_overlay_design design = draw_design();
    design.clock_mhz = draw(1, 20);
    if (braid_package_compile(&n.network, &design, NULL, &package) == BRAID_OK) {
      for (size_t at = 0; at < package->instruction_bytes;) {
        braid_instruction in;
        ok(braid_isa_decode(package->instructions, package->instruction_bytes, at, &in, &at));
        if (!braid_isa_is_tile(&in)) continue;
        places++;
        backs += (size_t)in.system.back;
        repeats += in.system.repeat_a != 0;
      }
      stop_and_compare(&n, package, &design, draw(1, design.cores));
      braid_package_destroy(package);
    }
    drawn_free(&n);
  }
  print_message("%zu places to stop, %zu that are gone back to, %zu that repeat loads\n", places, backs, repeats);
  assert_true(places > 1000 && backs > 100 && repeats > 500);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_networks), cmocka_unit_test(test_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
