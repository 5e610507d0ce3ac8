/* Tasks that come after others on the same cores: what those left behind is nothing to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "overlay/sim/timing_fixture.h"

/* 1,024 taps, 4,096 columns: longer than all that the test runs meanwhile. */
static void add_long_conv(program *p, int wait, int signal) {
  braid_instruction *in = add_conv(p, wait, signal);
  in->conv.kernel_rows = in->conv.kernel_columns = 32;
  in->conv.output_columns = 4096;
}

/* A cancelled task's CONV would end at its cycle; so many tasks later the core must still not take it for its own. */
static void test_stale_end(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  program cancelled = {0}, tiny = {0}, p = {0};
  add_long_conv(&cancelled, 0, 0);
  add_system(&cancelled, false, true, false);
  add_system(&tiny, false, true, false);
  add_move(&p, false, 100, 0, CONVS);
  add_long_conv(&p, LOADS, SAVES);
  add_move(&p, true, 100, CONVS, 0);
  add_system(&p, false, true, false);
  uint64_t alone = run_alone(&d, &p, NULL);
  for (size_t between = (1 << 15) - 2; between <= 1 << 15; between++) { /* a task takes two numbers of a core */
    braid_timing *t;
    size_t done, id;
    ok(braid_timing_create(&d, NULL, &t));
    id = submit(t, &cancelled, (int[]){0}, 1, 1 << 20);
    ok(braid_timing_advance(t, 100, &done));
    braid_timing_cancel(t, id);
    ok(braid_timing_advance(t, 101, &done));
    for (size_t i = 0; i < between; i++) {
      id = submit(t, &tiny, (int[]){0}, 1, 1 << 20);
      ok(braid_timing_advance(t, UINT64_MAX - 1, &done));
      assert_int_equal(done, id);
    }
    id = submit(t, &p, (int[]){0}, 1, 1 << 20);
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    braid_timing_result r = braid_timing_get(t, id);
    if (r.state != BRAID_TIMING_ENDED) fail_msg("%s", r.why);
    assert_int_equal(r.ended - r.began, alone);
    braid_timing_destroy(t);
  }
}

/* Cycles of a task with this gate; after one whose gate would open long after it was cancelled, or 0: none. */
static uint64_t gated(uint32_t gate, uint32_t before, uint64_t cancelled) {
  braid_overlay_design d = design_of(1, 1);
  program p = {0};
  braid_timing *t;
  size_t id, done;
  d.instruction_bytes = 64;
  add_move(&p, false, 256, 0, 0);
  add_move(&p, true, 256, 0, 0);
  for (int i = 0; i < 20; i++) add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  braid_timing_program own = {0, p.items, p.count, 0};
  uint64_t code = 1 << 19;
  braid_timing_task task = {.programs = &own, .core_count = 1, .gate = before, .code = &code};
  for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = 1 << 20};
  ok(braid_timing_create(&d, NULL, &t));
  if (before) { /* all three ports wait at its gate: they read, write and fetch */
    ok(braid_timing_submit(t, &task, &id));
    ok(braid_timing_advance(t, cancelled, &done));
    braid_timing_cancel(t, id);
    ok(braid_timing_advance(t, cancelled + 500, &done)); /* of the task */
    ok(braid_timing_advance(t, cancelled + 500, &done)); /* bursts that were under way are there */
  }
  task.gate = gate;
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state != BRAID_TIMING_ENDED) fail_msg("%s", r.why);
  braid_timing_destroy(t);
  return r.ended - r.began;
}

static void test_gate_that_is_gone(void **state) {
  (void)state;
  for (uint32_t gate = 16; gate <= 1 << 14; gate *= 2) {
    uint64_t alone = gated(gate, 0, 0);
    for (uint32_t before = 1; before <= 1 << 10; before *= 4)
      for (uint64_t cancelled = 3000; cancelled < 3020; cancelled++)
        assert_int_equal(gated(gate, before, cancelled), alone);
  }
  assert_int_equal(gated(0, 1, 3000), gated(0, 0, 0));
}

/* Tasks of one burst each, of one owner, have no more than a long one; others begin with a gate of their own. */
static void test_gate_of_short_tasks(void **state) {
  (void)state;
  enum { kTasks = 200, kGate = 2048 /* two bytes a cycle */, kBytes = 256 };
  for (uint64_t owner = 0; owner < 3; owner++) { /* nobody, one, two in turn */
    braid_overlay_design d = design_of(1, 1);
    program p = {0};
    braid_timing *t;
    size_t id, done;
    add_move(&p, false, kBytes / 16, 0, 0);
    add_system(&p, false, true, false);
    braid_timing_program own = {0, p.items, p.count, 0};
    braid_timing_task task = {.programs = &own, .core_count = 1, .gate = kGate};
    for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = 1 << 20};
    ok(braid_timing_create(&d, NULL, &t));
    for (uint64_t i = 0; i < kTasks; i++) {
      task.gate_owner = owner == 2 ? 1 + i % 2 : owner;
      ok(braid_timing_submit(t, &task, &id));
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
    }
    uint64_t alone = 2 + 40 + kBytes / 16, promised = kTasks * (uint64_t)kBytes * 1024 / kGate;
    uint64_t took = braid_timing_now(t);
    if (owner == 1)
      assert_true(took >= promised - kBytes && took <= promised + alone);
    else
      assert_true(took < kTasks * (alone + 4));
    braid_timing_destroy(t);
  }
}

/* Instructions of others that take a cycle each fill the decoder; a core with a gate does not feel it. */
static void test_decoder(void **state) {
  (void)state;
  enum { kOthers = 7 };
  for (int gated = 0; gated < 2; gated++) {
    braid_overlay_design d = design_of(1 + kOthers, 1);
    program p = {0}, chatter = {0};
    for (int i = 0; i < 40; i++) add(&p, BRAID_ISA_OP_MISC, 0, 0);
    add_system(&p, false, true, false);
    for (int i = 0; i < 60; i++) add_system(&chatter, false, false, true);
    add_system(&chatter, false, true, false);
    braid_timing_program own = {0, p.items, p.count, 0};
    braid_timing_task task = {.programs = &own, .core_count = 1, .gate = gated ? 1 << 14 : 0};
    uint64_t cycles[2];
    for (int beside = 0; beside < 2; beside++) {
      braid_timing *t;
      size_t id, done;
      ok(braid_timing_create(&d, NULL, &t));
      ok(braid_timing_submit(t, &task, &id));
      for (int i = 0; beside && i < kOthers; i++) submit(t, &chatter, (int[]){1 + i}, 1, 1);
      do ok(braid_timing_advance(t, UINT64_MAX, &done));
      while (done != id);
      cycles[beside] = braid_timing_get(t, id).ended;
      if (beside) /* others are not held up for longer than their slots are fewer */
        while (done != SIZE_MAX) ok(braid_timing_advance(t, UINT64_MAX, &done));
      assert_true(braid_timing_now(t) < 2 * 61 * (kOthers + 1));
      braid_timing_destroy(t);
    }
    if (gated)
      assert_int_equal(cycles[1], cycles[0]);
    else
      assert_true(cycles[1] > 2 * cycles[0]);
  }
}

/* Cores that want instructions all the time get as many. */
static void test_turns_of_the_decoder(void **state) {
  (void)state;
  enum { kCores = 8 };
  braid_overlay_design d = design_of(kCores, 1);
  program p = {0};
  braid_timing *t;
  size_t ids[kCores], done;
  uint64_t least = UINT64_MAX, most = 0;
  for (int i = 0; i < 60; i++) add_system(&p, false, false, true);
  add_system(&p, false, true, false);
  ok(braid_timing_create(&d, NULL, &t));
  for (int c = 0; c < kCores; c++) ids[c] = submit(t, &p, &c, 1, 1);
  do ok(braid_timing_advance(t, UINT64_MAX, &done));
  while (done != SIZE_MAX);
  for (int c = 0; c < kCores; c++) {
    uint64_t ended = braid_timing_get(t, ids[c]).ended;
    least = ended < least ? ended : least;
    most = ended > most ? ended : most;
  }
  assert_true(least + 2 * kCores >= most);
  braid_timing_destroy(t);
}

/* What a cancelled task has asked of a bank comes to its end, and it asks for nothing more: by LOAD, SAVE,
 * instructions.
 */
static void test_cancelled_ports(void **state) {
  (void)state;
  enum { kLong = 50 };
  for (int port = 0; port < 3; port++) {
    braid_overlay_design d = design_of(1, 1);
    program p = {0};
    braid_timing *t;
    size_t id, done;
    uint64_t code = 1 << 19;
    d.instruction_bytes = 1 << 12;
    for (int i = 0; i < kLong && port == 2; i++) add_conv(&p, 0, 0);
    if (port < 2) add_move(&p, port == 1, 4096, 0, 0);
    add_system(&p, false, true, false);
    braid_timing_program own = {0, p.items, p.count, 0};
    braid_timing_task task = {.programs = &own, .core_count = 1, .code = port == 2 ? &code : NULL};
    for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = 1 << 20};
    ok(braid_timing_create(&d, NULL, &t));
    ok(braid_timing_submit(t, &task, &id));
    ok(braid_timing_advance(t, 20, &done));
    braid_timing_cancel(t, id);
    ok(braid_timing_advance(t, 20, &done));
    ok(braid_timing_advance(t, 100000, &done));
    uint64_t most = (uint64_t)d.outstanding * (uint64_t)d.burst_bytes / 64; /* cycles, of bursts that were under way */
    assert_true(braid_timing_bank_busy(t, 0) > 0);
    assert_true(braid_timing_bank_busy(t, 0) <= (port == 2 ? most / 8 : most));
    braid_timing_destroy(t);
  }
}

/* A task that goes on fetches what it has still to do. */
static void test_fetch_from_a_tile(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 2); /* blocks of 16 lines at either bank in turn */
  program p = {0};
  braid_timing *t;
  size_t id, done;
  uint64_t code = 0;
  d.instruction_bytes = 64;
  for (int i = 0; i < 24; i++) add_system(&p, false, false, true);
  add_system(&p, false, true, false);
  braid_timing_program own = {0, p.items, p.count, 16};
  braid_timing_task task = {.programs = &own, .core_count = 1, .code = &code};
  ok(braid_timing_create(&d, NULL, &t));
  ok(braid_timing_submit(t, &task, &id));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
  assert_int_equal(braid_timing_get(t, id).cores[0].fetched_bytes, 9 * 16);
  assert_int_equal(braid_timing_bank_busy(t, 0), 0);
  assert_true(braid_timing_bank_busy(t, 1) > 0);
  braid_timing_destroy(t);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static size_t blocks;
static void *count_alloc(void *context, size_t bytes, size_t alignment) {
  (void)context;
  blocks++;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_free(void *context, void *memory) {
  (void)context;
  blocks -= memory != NULL;
  free(memory);
}

/* Tasks that were forgotten take no memory, and leave their numbers; results of others stay. */
static void test_forget(void **state) {
  (void)state;
  braid_overlay_design d = design_of(2, 1);
  braid_allocator allocator = {NULL, count_alloc, count_free};
  program p = {0}, wrong = {0};
  braid_timing *t;
  size_t first, id, done, before = 0;
  add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  add_move(&wrong, false, 100, 0, 0);
  add_system(&wrong, false, true, false);
  ok(braid_timing_create(&d, &allocator, &t));
  first = submit(t, &p, (int[]){0}, 1, 1);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  for (int i = 0; i < 1000; i++) {
    id = submit(t, i % 2 ? &p : &wrong, (int[]){1}, 1, 1);
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    assert_int_equal(done, id);
    assert_int_equal(id, 1);
    braid_timing_result r = braid_timing_get(t, id);
    assert_int_equal(r.state, i % 2 ? BRAID_TIMING_ENDED : BRAID_TIMING_FAILED);
    if (r.why)
      assert_string_equal(r.why, "core 1, instruction 0, LOAD: it addresses line 99 of segment 0, which has 1");
    braid_timing_forget(t, id);
    if (i == 1) before = blocks;
  }
  assert_int_equal(blocks, before);
  assert_int_equal(braid_timing_get(t, first).state, BRAID_TIMING_ENDED);
  assert_int_equal(braid_timing_get(t, first).cores[0].operations, 2 * 4 * 10 * 20 * 16 * 9);
  id = submit(t, &p, (int[]){1}, 1, 1); /* forgotten before anybody was told of it */
  braid_timing_cancel(t, id);
  braid_timing_forget(t, id);
  id = submit(t, &p, (int[]){1}, 1, 1);
  ok(braid_timing_advance(t, 1, &done));
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(done, id);
  assert_int_equal(braid_timing_get(t, id).state, BRAID_TIMING_ENDED);
  braid_timing_destroy(t);
  assert_int_equal(blocks, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stale_end),
      cmocka_unit_test(test_gate_that_is_gone),
      cmocka_unit_test(test_gate_of_short_tasks),
      cmocka_unit_test(test_decoder),
      cmocka_unit_test(test_turns_of_the_decoder),
      cmocka_unit_test(test_cancelled_ports),
      cmocka_unit_test(test_fetch_from_a_tile),
      cmocka_unit_test(test_forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
