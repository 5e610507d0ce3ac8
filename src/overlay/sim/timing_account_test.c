/* Instructions that are fetched, by hand; where the time of modules goes, which adds up; what listeners are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "overlay/sim/timing_fixture.h"

static size_t submit_fetched(braid_timing *t, const program *p, size_t cores, uint64_t most, uint32_t gate) {
  braid_timing_program own[4];
  uint64_t code[4];
  size_t id;
  for (size_t i = 0; i < cores; i++) {
    own[i] = (braid_timing_program){(int)i, p[i].items, p[i].count, 0};
    code[i] = (1 << 20) + 1024 * i;
  }
  braid_timing_task task = {.programs = own, .core_count = cores, .most_cycles = most, .gate = gate, .code = code};
  for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = 1 << 20};
  ok(braid_timing_submit(t, &task, &id));
  return id;
}

static uint64_t run_fetched(const braid_overlay_design *d, const program *p, braid_timing_core *core) {
  braid_timing *t;
  size_t id, done;
  ok(braid_timing_create(d, NULL, &t));
  id = submit_fetched(t, p, 1, 0, 0);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state != BRAID_TIMING_ENDED) fail_msg("%s", r.why);
  *core = r.cores[0];
  braid_timing_destroy(t);
  return r.ended - r.began;
}

static uint64_t bytes_of(const program *p) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < p->count; i++)
    bytes += (uint64_t)braid_isa_form_of(p->items[i].opcode)->words * BRAID_ISA_WORD;
  return bytes;
}

/* --- fetched -------------------------------------------------------------------------------------------------------
 */
static void test_fetch(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  braid_timing_core core;
  program p = {0};
  d.instruction_bytes = 1024;
  add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  /* Four lines arrive 40 cycles after they were asked for, at one a cycle; then three words are handed out. */
  assert_int_equal(run_fetched(&d, &p, &core), 40 + 4 + 3 + 540);
  assert_int_equal(core.fetched_bytes, 64);
  assert_int_equal(core.modules[BRAID_ISA_COMPUTE].idle[BRAID_TIMING_IDLE_FETCH], 44);
  assert_int_equal(core.modules[BRAID_ISA_COMPUTE].idle[BRAID_TIMING_IDLE_DECODER], 3);
  assert_int_equal(core.modules[BRAID_ISA_COMPUTE].busy, 540);
  /* Bursts of 256 bytes, each asked for when the one before it is there: 32 instructions of 48 bytes, which take a
   * cycle each, are 6, and the line of SYSTEM comes behind them. */
  for (p.count = 0; p.count < 32;) {
    braid_instruction *in = add(&p, BRAID_ISA_OP_CONV, 0, 0);
    in->conv.channels_in = in->conv.channels_out = 1;
  }
  add_system(&p, false, true, false);
  assert_int_equal(run_fetched(&d, &p, &core), 6 * (40 + 16) + 40 + 1 + 1);
  assert_int_equal(core.fetched_bytes, 32 * 48 + 16);
  /* Room for two bursts, of which the first 5 instructions (240 of 256 bytes) free half only when the sixth is there:
   * the same, as instructions are handed out faster than they come. */
  d.instruction_bytes = 512;
  assert_int_equal(run_fetched(&d, &p, &core), 6 * (40 + 16) + 40 + 1 + 1);
  /* Long ones: nothing is waited for but the first. */
  for (p.count = 0; p.count < 32;) add_conv(&p, 0, 0);
  add_system(&p, false, true, false);
  assert_int_equal(run_fetched(&d, &p, &core), 40 + 16 + 3 + 32 * 540);
}

/* A LOAD and the fetch share the wires on which the core reads: the second burst of instructions is asked for when the
 * first is there, two cycles before the LOAD, and the LOAD is so much later, and by the line of the third. */
static void test_wires(void **state) {
  (void)state;
  braid_overlay_design d = design_of(1, 1);
  braid_timing_core core;
  program p = {0};
  d.instruction_bytes = 4096;
  add_move(&p, false, 1024, 0, 0);
  for (int i = 0; i < 10; i++) add_conv(&p, 0, 0)->conv.output_columns = 1;
  add_system(&p, false, true, false); /* 2 + 30 + 1 lines: bursts of 16, 16, 1 */
  uint64_t took = run_fetched(&d, &p, &core);
  assert_int_equal(took, 40 + 16 + 40 + 16 + 1024 + 1);
  assert_int_equal(core.modules[BRAID_ISA_IN].moves, 1024);
}

/* Other tenants' instructions take nothing of a port. */
static void test_fetch_beside(void **state) {
  (void)state;
  braid_overlay_design d = design_of(4, 4);
  program p[4];
  memset(p, 0, sizeof p);
  d.instruction_bytes = 4096;
  for (int i = 0; i < 60; i++) add_conv(&p[1], 0, 0)->conv.output_columns = 1;
  add_system(&p[1], false, true, false);
  add_move(&p[0], false, 4096, 0, 0);
  add_system(&p[0], false, true, false);
  uint64_t alone = run_alone(&d, &p[0], NULL);
  braid_timing *t;
  size_t done, id;
  ok(braid_timing_create(&d, NULL, &t));
  id = submit(t, p, (int[]){0}, 1, 1 << 20);
  braid_timing_program other = {1, p[1].items, p[1].count, 0};
  braid_timing_task task = {.programs = &other, .core_count = 1, .code = (uint64_t[]){0}};
  size_t second;
  ok(braid_timing_submit(t, &task, &second));
  do ok(braid_timing_advance(t, UINT64_MAX, &done));
  while (done != id);
  assert_true(braid_timing_get(t, id).ended <= alone + 3); /* the decoder is one for all */
  braid_timing_destroy(t);
}

static void test_fetch_refused(void **state) {
  (void)state;
  braid_overlay_design d = design_of(4, 1);
  program p = {0};
  braid_timing *t;
  size_t id;
  add_system(&p, false, true, false);
  d.instruction_bytes = 255;
  ok(braid_timing_create(&d, NULL, &t));
  braid_timing_program own = {0, p.items, 1, 0};
  braid_timing_task task = {.programs = &own, .core_count = 1, .code = (uint64_t[]){0}};
  assert_int_equal(braid_timing_submit(t, &task, &id), BRAID_INVALID_ARGUMENT);
  assert_string_equal(braid_error_detail(), "test keeps 48 bytes of instructions for a core: 64 are needed");
  braid_timing_destroy(t);
}

/* --- where time goes -----------------------------------------------------------------------------------------------
 */
typedef struct told {
  uint64_t until[4][BRAID_ISA_MODULES]; /* of modules that ran or did nothing: without gaps */
  uint64_t ran[4][BRAID_ISA_MODULES], instructions[4][BRAID_ISA_MODULES];
  uint64_t waited[4][BRAID_ISA_MODULES], idled[4][BRAID_ISA_MODULES], synchronized[4];
  size_t tasks;
} told;

static void hear(void *user, const braid_timing_span *span) {
  told *all = user;
  uint64_t cycles = span->to - span->from;
  assert_true(span->to > span->from && span->index < 4 && span->core == (int)span->index);
  if (span->kind == BRAID_TIMING_SPAN_TASK) {
    all->tasks++;
    return;
  }
  if (span->kind == BRAID_TIMING_SPAN_SYNCHRONIZED) {
    all->synchronized[span->index] += cycles;
    return;
  }
  uint64_t *until = &all->until[span->index][span->module];
  if (span->from != *until)
    fail_msg("told from %llu, not %llu", (unsigned long long)span->from, (unsigned long long)*until);
  *until = span->to;
  if (span->kind == BRAID_TIMING_SPAN_RAN) {
    all->ran[span->index][span->module] += cycles;
    all->instructions[span->index][span->module]++;
  } else if (span->kind == BRAID_TIMING_SPAN_WAITED) {
    all->waited[span->index][span->module] += cycles;
  } else {
    all->idled[span->index][span->module] += cycles;
  }
}

/* Every cycle of every module is accounted for once; what is told is what is counted. */
static void check_accounts(const braid_timing_result *r, const told *all) {
  uint64_t time = r->ended - r->began;
  for (size_t c = 0; c < r->core_count; c++) {
    for (int m = 0; m < BRAID_ISA_MODULES; m++) {
      const braid_timing_module *counts = &r->cores[c].modules[m];
      uint64_t idle = 0;
      for (int i = 0; i < BRAID_TIMING_IDLES; i++) idle += counts->idle[i];
      assert_int_equal(counts->busy + counts->waits + idle, time);
      assert_true(counts->moves <= counts->busy || r->state != BRAID_TIMING_ENDED);
      assert_int_equal(all->waited[c][m], counts->waits);
      assert_int_equal(all->idled[c][m], idle);
      if (r->state != BRAID_TIMING_ENDED) continue; /* what ran at the end is counted, not told */
      assert_int_equal(all->ran[c][m], counts->busy);
      assert_int_equal(all->instructions[c][m], counts->instructions);
    }
    if (r->state == BRAID_TIMING_ENDED) assert_int_equal(all->synchronized[c], r->cores[c].synchronizing);
  }
  assert_int_equal(all->tasks, time > 0);
}

/* Bytes that were moved are those of the programs; all instructions were fetched, once. */
static void check_bytes(const braid_timing_result *r, const program *p) {
  for (size_t c = 0; c < r->core_count; c++) {
    uint64_t bytes[2] = {0};
    for (size_t i = 0; i < p[c].count; i++)
      if (p[c].items[i].opcode <= BRAID_ISA_OP_SAVE)
        bytes[p[c].items[i].opcode == BRAID_ISA_OP_SAVE] += (uint64_t)p[c].items[i].load.lines * BRAID_ISA_WORD;
    assert_int_equal(bytes[0], r->cores[c].modules[BRAID_ISA_IN].bytes);
    assert_int_equal(bytes[1], r->cores[c].modules[BRAID_ISA_OUT].bytes);
    assert_int_equal(bytes_of(&p[c]), r->cores[c].fetched_bytes);
  }
}

/* Right and wrong programs, with little room for instructions, some in a limited time, some stopped: all come to an
 * end, twice to the same one, whether somebody listens or not. */
static void test_accounts(void **state) {
  (void)state;
  size_t states[4] = {0};
  for (int trial = 0; trial < 2000; trial++) {
    braid_overlay_design d = design_of(4, 1 + DRAW(4));
    program p[4];
    size_t cores = draw_programs(p);
    d.instruction_bytes = 4 * 16 * (4 + DRAW(60));
    d.queue_depth = 1 + DRAW(8);
    uint64_t most = DRAW(4) ? 0 : 1 + (uint64_t)DRAW(3000), stop = (uint64_t)DRAW(1500);
    int place = DRAW(4);
    uint32_t gate = DRAW(2) ? 0 : 500 + (uint32_t)DRAW(10000);
    braid_timing_result r[2];
    for (int listens = 0; listens < 2; listens++) {
      braid_timing *t;
      told all = {0};
      size_t done, id;
      ok(braid_timing_create(&d, NULL, &t));
      if (listens) braid_timing_listen(t, hear, &all);
      id = submit_fetched(t, p, cores, most, gate);
      if (place < 2) {
        ok(braid_timing_advance(t, stop, &done));
        braid_timing_stop(t, id, (braid_timing_place)place);
      }
      if (place >= 2 || braid_timing_get(t, id).state == BRAID_TIMING_RUNS)
        ok(braid_timing_advance(t, UINT64_MAX, &done));
      r[listens] = braid_timing_get(t, id);
      if (r[listens].state == BRAID_TIMING_RUNS) fail_msg("trial %d has no end", trial);
      if (listens) check_accounts(&r[1], &all);
      if (r[listens].state == BRAID_TIMING_ENDED) check_bytes(&r[listens], p);
      braid_timing_destroy(t);
    }
    states[r[0].state]++;
    assert_int_equal(r[0].ended, r[1].ended);
    assert_int_equal(r[0].state, r[1].state);
  }
  for (int s = BRAID_TIMING_ENDED; s <= BRAID_TIMING_FAILED; s++)
    if (states[s] < 50) fail_msg("%zu of state %d", states[s], s);
}

/* More of something makes nothing slower that one core does alone. */
static void test_more(void **state) {
  (void)state;
  int compared = 0;
  for (int trial = 0; trial < 600; trial++) {
    braid_overlay_design less = design_of(1, 1), more;
    program p[4];
    braid_timing_result r[2];
    less.instruction_bytes = 16 * (4 + DRAW(60));
    less.queue_depth = 1 + DRAW(4);
    less.outstanding = 1 + DRAW(4);
    less.efficiency = 0.1 + 0.1 * DRAW(8);
    draw_programs(p);
    more = less;
    switch (DRAW(5)) {
    case 0:
      more.efficiency = 1;
      break;
    case 1:
      more.latency_cycles /= 2;
      break;
    case 2:
      more.port_bits *= 2;
      break;
    case 3:
      more.queue_depth *= 2;
      break;
    default:
      more.outstanding *= 2;
    }
    for (int i = 0; i < 2; i++) {
      braid_timing *t;
      size_t done, id;
      ok(braid_timing_create(i ? &more : &less, NULL, &t));
      id = submit(t, p, (int[]){0}, 1, 1 << 20);
      ok(braid_timing_advance(t, UINT64_MAX, &done));
      r[i] = braid_timing_get(t, id);
      braid_timing_destroy(t);
    }
    assert_true(r[0].state == r[1].state || less.queue_depth != more.queue_depth); /* deadlocks of queues */
    if (r[0].state != BRAID_TIMING_ENDED || r[1].state != BRAID_TIMING_ENDED) continue;
    compared++;
    if (r[1].ended > r[0].ended) fail_msg("trial %d: %d, then %d", trial, (int)r[0].ended, (int)r[1].ended);
  }
  assert_true(compared > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fetch),         cmocka_unit_test(test_wires),    cmocka_unit_test(test_fetch_beside),
      cmocka_unit_test(test_fetch_refused), cmocka_unit_test(test_accounts), cmocka_unit_test(test_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
