/* Cycles of small programs, by hand; what tenants do to each other; programs that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/sim/timing_fixture.h"

/* --- alone ---------------------------------------------------------------------------------------------------------
 */
static void test_moves(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  braid_timing_core core;
  program p = {0};
  add_move(&p, false, 64, 0, 0); /* four bursts */
  add_system(&p, false, true, false);
  /* Two words to be handed out, then the first burst's latency, then 16 bytes a cycle. */
  assert_int_equal(run_alone(&d, &p, &core), 2 + 40 + 64);
  assert_int_equal(core.modules[BRAID_ISA_IN].bytes, 1024);
  assert_int_equal(core.modules[BRAID_ISA_IN].busy, 104);
  assert_int_equal(core.modules[BRAID_ISA_IN].moves, 64);
  d.outstanding = 1; /* each waits for the one before it */
  assert_int_equal(run_alone(&d, &p, NULL), 2 + 4 * (40 + 16));
  d.outstanding = 8;
  d.efficiency = 0.125; /* 8 bytes a cycle: the bank is the slower one, and what it gives last has its latency */
  assert_int_equal(run_alone(&d, &p, NULL), 2 + 4 * 32 + 40);
  d = design_of(1, 1);
  p.items[0].load.lines = 1; /* 64 rows apart from each other: a burst each */
  p.items[0].load.rows = 64;
  p.items[0].load.ddr_row = 100;
  assert_int_equal(run_alone(&d, &p, &core),
                   2 + 8 * 41 + 7); /* eight under way, a cycle apart, the next when one is done */
  p.items[0].load.ddr_row = 1;      /* one behind the other */
  assert_int_equal(run_alone(&d, &p, NULL), 2 + 40 + 64);
  p.items[0].load.ddr = 8; /* cut where banks change */
  assert_int_equal(run_alone(&d, &p, NULL), 2 + 40 + 64);
}

static void test_cycles(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  braid_timing_core core;
  program p = {0};
  add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  assert_int_equal(run_alone(&d, &p, &core), 3 + 540); /* equation 5: 2 * 3 * 10 * 3 * 3 */
  assert_int_equal(core.operations, 2 * 4 * 10 * 20 * 16 * 9);
  p.items[0].conv.depthwise = 1;
  assert_int_equal(run_alone(&d, &p, NULL), 3 + 270);
  braid_instruction misc = braid_isa_blank(BRAID_ISA_OP_MISC);
  misc.misc.function = BRAID_ISA_MAX;
  misc.misc.groups = 2;
  misc.misc.output_rows = 3;
  misc.misc.output_columns = 5;
  misc.misc.kernel_rows = misc.misc.kernel_columns = 2;
  assert_int_equal(braid_timing_cycles(&d, &misc), 2 * 3 * 5 * 4);
  misc.misc.function = BRAID_ISA_COPY;
  d.side_bytes = 32;
  assert_int_equal(braid_timing_cycles(&d, &misc), 15);
  d.rows = 16, d.columns = 4, d.side_numbers = 8;
  braid_instruction mvm = braid_isa_blank(BRAID_ISA_OP_MVM), ele = braid_isa_blank(BRAID_ISA_OP_ELE);
  mvm.mvm.rows = 100, mvm.mvm.columns = 30;
  assert_int_equal(braid_timing_cycles(&d, &mvm), 7 * 8);
  ele.ele.length = 17;
  assert_int_equal(braid_timing_cycles(&d, &ele), 3);
}

/* Loads of the next tile beside the convolution of this one: two buffers. */
static void test_overlap(void **state) {
  (void)state;
  enum { kTiles = 5 };
  braid_overlay_design d = design_of(1, 1);
  braid_timing_core core;
  for (int lines = 64; lines <= 1024; lines *= 16) {
    program p = {0};
    for (int i = 0; i < kTiles; i++) {
      add_move(&p, false, lines, i < 2 ? 0 : CONVS, CONVS);
      add_conv(&p, LOADS, i < kTiles - 2 ? LOADS : 0);
    }
    add_system(&p, false, true, false);
    uint64_t load = 40 + (uint64_t)lines, conv = 540;
    uint64_t expected = load >= conv ? 2 + kTiles * load + conv : 2 + load + kTiles * conv;
    uint64_t took = run_alone(&d, &p, &core);
    /* The port begins the next load's bursts after the last one's end. */
    if (took != expected)
      fail_msg("%d lines: %llu cycles, expected %llu", lines, (unsigned long long)took, (unsigned long long)expected);
    assert_int_equal(core.modules[BRAID_ISA_COMPUTE].busy, kTiles * conv);
    assert_true(core.modules[BRAID_ISA_COMPUTE].waits > 0);
  }
}

/* --- several -------------------------------------------------------------------------------------------------------
 */
static uint64_t run_beside(const braid_overlay_design *d, const program *p, const program *others, int first,
                           int count) {
  braid_timing *t;
  size_t id, done;
  uint64_t took = 0;
  ok(braid_timing_create(d, NULL, &t));
  id = submit(t, p, (int[]){0}, 1, 1 << 20);
  for (int i = 0; i < count; i++) submit(t, others, (int[]){first + i}, 1, 1 << 20);
  do {
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    if (done == id) took = braid_timing_get(t, id).ended;
  } while (done != SIZE_MAX && done != id);
  assert_true(took > 0);
  braid_timing_destroy(t);
  return took;
}

/* Ports of 128 bits at a bank of 512: four fill it; eight take twice as long, each the same. */
static void test_shared_bank(void **state) {
  (void)state;
  braid_overlay_design d = design_of(8, 1);
  program p = {0};
  add_move(&p, false, 4096, 0, 0);
  add_system(&p, false, true, false);
  uint64_t alone = run_beside(&d, &p, &p, 1, 0);
  assert_true(run_beside(&d, &p, &p, 1, 3) <= alone + 3 * 16);
  uint64_t eight = run_beside(&d, &p, &p, 1, 7);
  assert_true(eight > 2 * 4096 - 256 && eight < 2 * alone + 64);
}

/* A core alone before several banks has them all: its port takes a burst a cycle, each bank gives one in four. */
/* A bank gives what its design says, whatever its width; what a burst takes is not rounded to whole cycles. */
static void test_bank(void **state) {
  (void)state;
  static const struct {
    int bits;
    double efficiency;
  } kBanks[] = {{512, 0.85}, {512, 0.7}, {1024, 0.85}, {4096, 0.85}, {8192, 0.69}, {128, 0.01}};
  program p[4] = {{{{0}}, 0}};
  for (int c = 0; c < 4; c++) {
    add_move(&p[c], false, 4096, 0, 0)->load.rows = 4; /* one behind the other */
    p[c].items[0].load.ddr_row = 4096;
    add_system(&p[c], false, true, false);
  }
  for (size_t i = 0; i < sizeof kBanks / sizeof *kBanks; i++) {
    braid_overlay_design d = design_of(4, 1);
    d.bank_bits = kBanks[i].bits;
    d.port_bits = kBanks[i].bits < 512 ? 128 : kBanks[i].bits / 4;
    d.efficiency = kBanks[i].efficiency;
    d.outstanding = 64;
    braid_timing *t;
    size_t id, done;
    ok(braid_timing_create(&d, NULL, &t));
    id = submit(t, p, (int[]){0, 1, 2, 3}, 4, 1 << 20);
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    double cycles = (double)braid_timing_get(t, id).ended;
    braid_timing_destroy(t);
    double bound = 16.0 * 4096 * 16 / (kBanks[i].bits / 8.0 * kBanks[i].efficiency);
    if (cycles < bound + d.latency_cycles || cycles > 1.001 * bound + 2 * d.latency_cycles)
      fail_msg("%d bits, efficiency %g: %.0f cycles, at least %.0f", kBanks[i].bits, kBanks[i].efficiency, cycles,
               bound);
  }
}

static void test_wide_port(void **state) {
  (void)state;
  program p = {0};
  add_move(&p, false, 4096, 0, 0);
  add_system(&p, false, true, false);
  for (int banks = 1; banks <= 4; banks *= 2) {
    braid_overlay_design d = design_of(1, banks);
    d.port_bits = 2048;
    d.outstanding = 64;
    assert_int_equal(run_alone(&d, &p, NULL), 2 + 40 + 256 / banks * 4);
  }
}

/* A tenant that asks for as much as it can, at another bank: nothing changes; at the same bank, with no more ports than
 * fit: less than 1 %. */
static void test_flood(void **state) {
  (void)state;
  program p = {0}, flood = {0};
  for (int i = 0; i < 10; i++) {
    add_move(&p, false, 256, i < 2 ? 0 : CONVS, CONVS);
    add_conv(&p, LOADS, i < 8 ? LOADS : 0);
  }
  add_system(&p, false, true, false);
  for (int i = 0; i < 20; i++) {
    add_move(&flood, false, 4096, 0, 0)->load.rows = 16;
    add_move(&flood, true, 4096, 0, 0)->save.rows = 16;
  }
  add_system(&flood, false, true, false);
  braid_overlay_design two = design_of(4, 2), one = design_of(2, 1);
  uint64_t alone = run_beside(&two, &p, &flood, 2, 0);
  assert_true(run_beside(&two, &p, &flood, 2, 2) <= alone + 8); /* they share the card's decoder */
  uint64_t beside = run_beside(&one, &p, &flood, 1, 1);
  if (beside * 100 > alone * 101)
    fail_msg("%llu cycles alone, %llu beside", (unsigned long long)alone, (unsigned long long)beside);
}

/* A gate's rate holds for both ports of a core together, which take turns; other cores do not feel it. */
static void test_gate(void **state) {
  (void)state;
  braid_overlay_design design = design_of(2, 1);
  for (int both = 0; both < 2; both++) {
    program p = {0};
    add_move(&p, false, 6400, 0, 0); /* 102,400 bytes */
    if (both) add_move(&p, true, 6400, 0, 0);
    add_system(&p, false, true, false);
    braid_timing *t;
    size_t id, other, done;
    ok(braid_timing_create(&design, NULL, &t));
    braid_timing_program gated = {0, p.items, p.count, 0}, ungated = {1, p.items, p.count, 0};
    braid_timing_task task = {.programs = &gated, .core_count = 1, .ranges = {{0, 6400, false}}, .gate = 4096};
    braid_timing_task free_task = {.programs = &ungated, .core_count = 1, .ranges = {{0, 6400, false}}};
    ok(braid_timing_submit(t, &task, &id));
    ok(braid_timing_submit(t, &free_task, &other));
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    assert_int_equal(done, other);
    assert_in_range(braid_timing_get(t, other).ended, 6400, 6400 + 200); /* 16 bytes a cycle */
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    assert_int_equal(done, id);
    uint64_t cycles = (uint64_t)(102400 / 4) << both; /* 4 bytes a cycle */
    assert_in_range(braid_timing_get(t, id).ended, cycles - 64, cycles + 200);
    const braid_timing_core *core = braid_timing_get(t, id).cores;
    if (both)
      assert_true(core->modules[BRAID_ISA_IN].busy > cycles - 300 && core->modules[BRAID_ISA_OUT].busy > cycles - 300);
    braid_timing_destroy(t);
  }
}

/* What may only be read is not written; a task that is cancelled leaves its cores at once. */
static void test_read_only_and_cancel(void **state) {
  (void)state;
  braid_overlay_design design = design_of(1, 1);
  program p = {0};
  braid_timing *t;
  size_t id, done;
  add_move(&p, true, 640, 0, 0);
  add_system(&p, false, true, false);
  ok(braid_timing_create(&design, NULL, &t));
  braid_timing_program one = {0, p.items, p.count, 0};
  braid_timing_task task = {.programs = &one, .core_count = 1, .ranges = {{0, 640, true}}};
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_FAILED);
  assert_non_null(strstr(braid_timing_get(t, id).why, "writes to segment 0, which may only be read"));
  task.ranges[0].read_only = false;
  ok(braid_timing_submit(t, &task, &id));
  uint64_t begin = braid_timing_now(t);
  ok(braid_timing_advance(t, begin + 100, &done));
  braid_timing_cancel(t, id);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_FAILED);
  assert_int_equal(braid_timing_get(t, id).ended, begin + 100);
  ok(braid_timing_submit(t, &task, &id)); /* what it had asked for does not count for the next one */
  begin = braid_timing_now(t);
  do ok(braid_timing_advance(t, UINT64_MAX, &done));
  while (done != SIZE_MAX && braid_timing_get(t, id).state == BRAID_TIMING_RUNS);
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
  assert_in_range(braid_timing_get(t, id).ended - begin, 640 + 40, 640 + 40 + 400);
  braid_timing_destroy(t);
}

static void test_synchronize(void **state) {
  (void)state;
  braid_overlay_design d = design_of(2, 1);
  program p[2] = {{.count = 0}, {.count = 0}};
  braid_timing *t;
  size_t done;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k <= i; k++) add_conv(&p[i], 0, 0);
    add_system(&p[i], true, false, false);
    add_conv(&p[i], 0, 0);
    add_system(&p[i], false, true, false);
  }
  ok(braid_timing_create(&d, NULL, &t));
  size_t id = submit(t, p, (int[]){0, 1}, 2, 64);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  assert_int_equal(r.state, BRAID_TIMING_ENDED);
  assert_true(r.ended >= 3 * 540 && r.ended < 3 * 540 + 20);
  assert_true(r.cores[0].synchronizing >= 540 && r.cores[0].synchronizing < 560);
  assert_true(r.cores[1].synchronizing < 10);
  braid_timing_destroy(t);
}

/* --- stops ---------------------------------------------------------------------------------------------------------
 */
static void make_stages(program *p, int stages, bool sync) {
  for (int i = 0; i < stages; i++) {
    add_move(p, false, 64, 0, CONVS);
    add_conv(p, LOADS, 0);
    add_system(p, sync, false, true);
  }
  add_system(p, false, true, false);
}

/* Stopped at any time it goes on later, on another core, and all in all does what it would have done. */
static void test_stop(void **state) {
  (void)state;
  braid_overlay_design d = design_of(2, 1);
  for (int place = 0; place < 2; place++) {
    program p = {0};
    braid_timing_core whole;
    make_stages(&p, 6, place == BRAID_TIMING_AT_LAYER);
    uint64_t length = run_alone(&d, &p, &whole);
    for (uint64_t at = 0; at < length; at += 37) {
      braid_timing *t;
      size_t done, id;
      ok(braid_timing_create(&d, NULL, &t));
      id = submit(t, &p, (int[]){0}, 1, 64);
      ok(braid_timing_advance(t, at, &done));
      assert_int_equal(done, SIZE_MAX);
      assert_int_equal(braid_timing_now(t), at);
      braid_timing_stop(t, id, (braid_timing_place)place);
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      assert_int_equal(done, id);
      braid_timing_result r = braid_timing_get(t, id);
      if (r.state == BRAID_TIMING_ENDED) {
        if (at + 700 <= length)
          fail_msg("place %d, at %d of %d: ended at %d", place, (int)at, (int)length, (int)r.ended);
        braid_timing_destroy(t);
        continue;
      }
      assert_int_equal(r.state, BRAID_TIMING_STOPPED);
      assert_true(r.ended <= at + 540 + 2 * 104 + 10); /* what runs, and a load in vain */
      assert_int_equal(p.items[r.cores[0].stopped_at - 1].opcode, BRAID_ISA_OP_SYSTEM);
      braid_timing_program rest = {1, p.items, p.count, r.cores[0].stopped_at};
      braid_timing_task task = {.programs = &rest, .core_count = 1, .ranges = {{0, 64, false}}};
      uint64_t first = r.cores[0].modules[BRAID_ISA_COMPUTE].busy;
      ok(braid_timing_submit(t, &task, &id));
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      r = braid_timing_get(t, id);
      assert_int_equal(r.state, BRAID_TIMING_ENDED);
      assert_int_equal(first + r.cores[0].modules[BRAID_ISA_COMPUTE].busy, whole.modules[BRAID_ISA_COMPUTE].busy);
      braid_timing_destroy(t);
    }
  }
}

/* Of two cores one has ended, and one waits for the other's synchronization, when they are to stop. */
static void test_stop_of_several(void **state) {
  (void)state;
  braid_overlay_design d = design_of(2, 1);
  program p[2] = {{.count = 0}, {.count = 0}};
  make_stages(&p[0], 4, false);
  add_conv(&p[1], 0, 0);
  add_system(&p[1], false, true, false);
  braid_timing *t;
  size_t done, id;
  ok(braid_timing_create(&d, NULL, &t));
  id = submit(t, p, (int[]){0, 1}, 2, 64);
  ok(braid_timing_advance(t, 1000, &done));
  braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  assert_int_equal(r.state, BRAID_TIMING_STOPPED);
  assert_int_equal(r.cores[1].stopped_at, p[1].count);
  braid_timing_program rest[2];
  for (int i = 0; i < 2; i++) rest[i] = (braid_timing_program){i, p[i].items, p[i].count, r.cores[i].stopped_at};
  braid_timing_task task = {.programs = rest, .core_count = 2, .ranges = {{0, 64, false}}};
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
  braid_timing_destroy(t);
}

/* A convolution behind a tile that goes back is done in vain, its load once more; behind others it is gone on with. */
static void test_back(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  for (int back = 0; back < 2; back++) {
    program p = {.count = 0};
    add_move(&p, false, 64, 0, CONVS);
    add_system(&p, false, false, true);
    p.items[1].system.back = back;
    p.items[1].system.repeat_a = 2;
    add_conv(&p, LOADS, 0);
    add_conv(&p, 0, SAVES);
    add_move(&p, true, 16, CONVS, 0);
    add_system(&p, false, false, true);
    add_system(&p, false, true, false);
    braid_timing *t;
    size_t done, id;
    ok(braid_timing_create(&d, NULL, &t));
    id = submit(t, &p, (int[]){0}, 1, 64);
    ok(braid_timing_advance(t, 300, &done));
    braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    braid_timing_result r = braid_timing_get(t, id);
    assert_int_equal(r.state, BRAID_TIMING_STOPPED);
    assert_int_equal(r.cores[0].stopped_at, back ? 2 : 6);
    /* the first convolution ends after the load, 106, and its 540 cycles */
    assert_int_equal(r.ended, back ? 106 + 540 : 106 + 2 * 540 + 16 + 40);
    braid_timing_program rest = {0, p.items, p.count, r.cores[0].stopped_at};
    braid_timing_task task = {.programs = &rest, .core_count = 1, .ranges = {{0, 64, false}}};
    ok(braid_timing_submit(t, &task, &id));
    ok(braid_timing_advance(t, back ? r.ended : UINT64_MAX, &done));
    braid_timing_stop(t, id, BRAID_TIMING_AT_TILE); /* at once: it comes further all the same */
    if (back) {
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      r = braid_timing_get(t, id);
      assert_int_equal(r.state, BRAID_TIMING_STOPPED);
      assert_int_equal(r.cores[0].stopped_at, 6);
      assert_int_equal(r.cores[0].modules[BRAID_ISA_IN].instructions, 1);
      /* nothing is handed out before the load is there again: then three words for the first convolution */
      assert_int_equal(r.ended - r.began, 104 + 3 + 2 * 540 + 16 + 40);
      rest.first = 6;
      ok(braid_timing_submit(t, &task, &id));
      ok(braid_timing_advance(t, UINT64_MAX, &done));
    }
    assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
    assert_int_equal(braid_timing_get(t, id).cores[0].modules[BRAID_ISA_IN].instructions, 0);
    rest.first = 2;
    p.items[1].system.repeat_a = 1;
    assert_int_equal(braid_timing_submit(t, &task, &id), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "repeats what is no LOAD"));
    braid_timing_destroy(t);
  }
}

/* --- what is wrong -------------------------------------------------------------------------------------------------
 */
/* A wrong task beside a right one, which has the cycles that it has beside nobody. */
static void expect_failure(const program *wrong, size_t cores, uint64_t lines, const char *why) {
  braid_overlay_design d = design_of(4, 2);
  program right = {0};
  braid_timing *t;
  size_t done, id, other;
  add_move(&right, false, 1024, 0, CONVS);
  add_conv(&right, LOADS, 0);
  add_system(&right, false, true, false);
  uint64_t alone = run_alone(&d, &right, NULL);
  ok(braid_timing_create(&d, NULL, &t));
  other = submit(t, &right, (int[]){0}, 1, 1 << 20);
  id = submit(t, wrong, (int[]){2, 3}, cores, lines);
  for (int i = 0; i < 2; i++) ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state != BRAID_TIMING_FAILED || !strstr(r.why, why)) fail_msg("%d %s, expected %s", r.state, r.why, why);
  r = braid_timing_get(t, other);
  assert_int_equal(r.state, BRAID_TIMING_ENDED);
  assert_true(r.ended <= alone + 8);
  submit(t, &right, (int[]){2}, 1, 1 << 20); /* the cores are free again */
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_destroy(t);
}

static void test_wrong(void **state) {
  (void)state;
  program p = {0};
  add_move(&p, false, 64, 0, 0)->load.ddr = 10;
  add_system(&p, false, true, false);
  expect_failure(&p, 1, 73, "core 2, instruction 0, LOAD: it addresses line 73 of segment 0, which has 73");
  p.count = 0;
  add_move(&p, true, 1, 0, 0)->save.planes = 4096;
  p.items[0].save.ddr_plane = (1 << 24) - 1;
  add_system(&p, false, true, false);
  expect_failure(&p, 1, 1 << 20, "core 2, instruction 0, SAVE: it addresses line");
  p.count = 0;
  add_conv(&p, LOADS, 0);
  add_system(&p, false, true, false);
  expect_failure(&p, 1, 64, "core 2, instruction 0, CONV: it waits for a token that nothing will give");
  p.count = 0;
  add_conv(&p, 0, LOADS);
  add_system(&p, false, true, false);
  expect_failure(&p, 1, 64, "instruction 1, SYSTEM: tokens are left that nobody took");
  for (p.count = 0; p.count < 60;) add_conv(&p, 0, LOADS)->conv.output_columns = 1;
  add_system(&p, false, true, false);
  expect_failure(&p, 1, 64, "tokens are left");
  program two[2] = {{.count = 0}, {.count = 0}};
  add_system(&two[0], true, false, false);
  add_system(&two[0], false, true, false);
  add_system(&two[1], false, true, false);
  expect_failure(two, 2, 64, "core 2, instruction 0, SYSTEM: it waits for a core that has ended");
  program swapped[2] = {two[1], two[0]};
  add_conv(&swapped[1], 0, 0);
  swapped[1].items[2] = swapped[1].items[1]; /* ends before it synchronizes, or after */
  expect_failure(swapped, 2, 64, "it waits for a core that has ended");
}

static void test_limit(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  program p = {0};
  braid_timing *t;
  size_t id, done;
  for (int i = 0; i < 20; i++) add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  braid_timing_program own = {0, p.items, p.count, 0};
  braid_timing_task task = {.programs = &own, .core_count = 1, .most_cycles = 5000};
  ok(braid_timing_create(&d, NULL, &t));
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  assert_int_equal(r.state, BRAID_TIMING_FAILED);
  assert_string_equal(r.why, "its time of 5000 cycles is over");
  task.most_cycles = 20000;
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
  uint64_t now = braid_timing_now(t);
  ok(braid_timing_advance(t, UINT64_MAX, &done)); /* the limit of what has ended is no event */
  assert_int_equal(braid_timing_now(t), now);
  braid_timing_destroy(t);
}

static void expect_refused(const braid_timing_task *task, bool recurrent, const char *why) {
  braid_overlay_design d = design_of(2, 1);
  braid_timing *t;
  size_t id;
  d.recurrent = recurrent;
  ok(braid_timing_create(&d, NULL, &t));
  assert_int_equal(braid_timing_submit(t, task, &id), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), why)) fail_msg("%s, expected %s", braid_error_detail(), why);
  braid_timing_destroy(t);
}

static void test_refused(void **state) {
  (void)state;
  program p = {0};
  add_conv(&p, 0, 0);
  braid_timing_program own[3] = {{0, p.items, 1, 0}, {0, p.items, 2, 0}, {0, p.items, 2, 0}};
  braid_timing_task task = {.programs = own, .core_count = 1};
  expect_refused(&task, false, "a program ends with SYSTEM end=1");
  add_system(&p, false, true, false);
  own[0].count = 2;
  expect_refused(&task, true, "cores of test have no CONV");
  task.core_count = 2;
  expect_refused(&task, false, "core 0 is there twice");
  task.core_count = 3;
  expect_refused(&task, false, "1 to 2 are possible");
  task.core_count = 1;
  own[0].core = 2;
  expect_refused(&task, false, "core 2: the design has 2");
  own[0].core = 0;
  p.items[0].wait = CONVS;
  expect_refused(&task, false, "CONV waits for itself");
}

/* Random programs, right or wrong: each task comes to an end, and twice to the same. */
static void test_random(void **state) {
  (void)state;
  size_t ended = 0, failed = 0;
  for (int trial = 0; trial < 2000; trial++) {
    braid_overlay_design d = design_of(4, 1 + DRAW(4));
    program p[4];
    size_t cores = draw_programs(p);
    braid_timing_result r[2];
    for (int twice = 0; twice < 2; twice++) {
      braid_timing *t;
      size_t done, id;
      ok(braid_timing_create(&d, NULL, &t));
      id = submit(t, p, (int[]){0, 1, 2, 3}, cores, 1 << 20);
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      if (done != id) fail_msg("trial %d has no end", trial);
      r[twice] = braid_timing_get(t, id);
      ended += r[twice].state == BRAID_TIMING_ENDED;
      failed += r[twice].state == BRAID_TIMING_FAILED;
      braid_timing_destroy(t);
    }
    assert_int_equal(r[0].ended, r[1].ended);
    assert_int_equal(r[0].state, r[1].state);
  }
  if (ended < 100 || failed < 100) fail_msg("%zu ended, %zu failed", ended, failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_cycles),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_shared_bank),
      cmocka_unit_test(test_bank),
      cmocka_unit_test(test_wide_port),
      cmocka_unit_test(test_flood),
      cmocka_unit_test(test_synchronize),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_stop_of_several),
      cmocka_unit_test(test_back),
      cmocka_unit_test(test_wrong),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_gate),
      cmocka_unit_test(test_read_only_and_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
