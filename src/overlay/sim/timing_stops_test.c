/* Where a core stands that is to be given away at a tile, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/sim/timing_fixture.h"

/* Stopped at this cycle, on its own. */
static braid_timing_result stop_at(braid_timing *t, const program *p, uint64_t cycle) {
  size_t id = submit(t, p, (int[]){0}, 1, 1 << 10), done;
  ok(braid_timing_advance(t, cycle, &done));
  assert_int_equal(done, SIZE_MAX);
  braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  assert_int_equal(r.state, BRAID_TIMING_STOPPED);
  return r;
}

/* It does not go back to a tile over a SAVE that has begun: what was saved may be what is read again. */
static void test_not_back_over_a_save(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  for (int saves = 0; saves < 2; saves++) {
    program p = {0};
    braid_timing *t;
    add_system(&p, false, false, true);
    p.items[0].system.back = 1;
    add_conv(&p, 0, saves ? SAVES : 0);
    if (saves)
      add_move(&p, true, 16, CONVS, 0);
    else
      add(&p, BRAID_ISA_OP_MISC, 0, 0);
    add_conv(&p, 0, saves ? 0 : SAVES);
    if (!saves) add_move(&p, true, 16, CONVS, 0);
    add_system(&p, false, false, true);
    add_system(&p, false, true, false);
    ok(braid_timing_create(&d, NULL, &t));
    braid_timing_result r = stop_at(t, &p, 4 + 540 + 200); /* the second convolution runs */
    assert_int_equal(r.cores[0].stopped_at, saves ? 5 : 1);
    braid_timing_destroy(t);
  }
}

/* It stands when all that is before the tile is done, whichever module does it. */
static void test_stands_when_all_is_done(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  for (int kind = 0; kind < 3; kind++) {
    program p = {0};
    braid_timing *t;
    uint64_t takes = 540;
    int before = kind == 1 ? 1 << BRAID_ISA_SIDE : kind == 2 ? SAVES : 0;
    if (kind == 0) {
      add_conv(&p, 0, 0);
    } else if (kind == 1) {
      braid_instruction *in = add(&p, BRAID_ISA_OP_MISC, 0, CONVS);
      in->misc.function = BRAID_ISA_COPY;
      in->misc.output_columns = 540;
    } else {
      add_move(&p, true, 500, 0, CONVS);
    }
    add_system(&p, false, false, true);
    add_conv(&p, before, 0);
    add_system(&p, false, true, false);
    ok(braid_timing_create(&d, NULL, &t));
    braid_timing_result r = stop_at(t, &p, 10);
    assert_int_equal(r.cores[0].stopped_at, 2);
    assert_true(r.ended >= takes && r.ended < takes + 10);
    braid_timing_destroy(t);
  }
}

/* A task whose cores go to a tile already stops there, though it is told to go on to the end of a layer. */
static void test_tile_then_layer(void **state) {
  (void)state;
  braid_overlay_design d = design_of(2, 1);
  program p[2] = {{.count = 0}, {.count = 0}};
  braid_timing *t;
  size_t id, done;
  add_conv(&p[0], 0, 0);
  add_system(&p[0], false, false, true);
  add_conv(&p[0], 0, 0);
  for (int i = 0; i < 4; i++) add_conv(&p[1], 0, 0);
  for (int c = 0; c < 2; c++) {
    add_system(&p[c], true, false, false);
    add_system(&p[c], false, true, false);
  }
  ok(braid_timing_create(&d, NULL, &t));
  id = submit(t, p, (int[]){0, 1}, 2, 1);
  ok(braid_timing_advance(t, 100, &done));
  braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
  ok(braid_timing_advance(t, 700, &done)); /* the first core stands, the second comes to a synchronization */
  braid_timing_stop(t, id, BRAID_TIMING_AT_LAYER);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state != BRAID_TIMING_STOPPED) fail_msg("%s", r.why ? r.why : "it ended");
  assert_int_equal(r.cores[0].stopped_at, 2);
  assert_int_equal(r.cores[1].stopped_at, 4);
  braid_timing_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_not_back_over_a_save),
      cmocka_unit_test(test_stands_when_all_is_done),
      cmocka_unit_test(test_tile_then_layer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
