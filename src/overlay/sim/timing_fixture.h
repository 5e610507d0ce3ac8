/* Small programs and designs, for tests of the timing simulator. cmocka.h comes before this. */
#ifndef BRAID_OVERLAY_TIMING_FIXTURE_H
#define BRAID_OVERLAY_TIMING_FIXTURE_H

#include <string.h>

#include "base/philox.h"
#include "overlay/sim/timing.h"

static inline void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Bank: 64 bytes a cycle, port: 16; bursts of 256 bytes. */
static inline braid_overlay_design design_of(int cores, int banks) {
  return (braid_overlay_design){.name = "test",
                                .cores = cores,
                                .clock_mhz = 300,
                                .pixels = 4,
                                .channels_in = 8,
                                .channels_out = 8,
                                .side_bytes = 16,
                                .queue_depth = 8,
                                .port_bits = 128,
                                .bank_bits = 512,
                                .banks = banks,
                                .burst_bytes = 256,
                                .outstanding = 8,
                                .latency_cycles = 40,
                                .efficiency = 1};
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
enum { kMost = 64, LOADS = 1 << BRAID_ISA_IN, SAVES = 1 << BRAID_ISA_OUT, CONVS = 1 << BRAID_ISA_COMPUTE };
typedef struct program {
  braid_instruction items[kMost];
  size_t count;
} program;

static inline braid_instruction *add(program *p, braid_isa_opcode opcode, int wait, int signal) {
  assert_true(p->count < kMost);
  braid_instruction *in = &p->items[p->count++];
  *in = braid_isa_blank(opcode);
  in->wait = wait;
  in->signal = signal;
  return in;
}

static inline braid_instruction *add_move(program *p, bool writes, int lines, int wait, int signal) {
  braid_instruction *in = add(p, writes ? BRAID_ISA_OP_SAVE : BRAID_ISA_OP_LOAD, wait, signal);
  in->load.lines = lines;
  return in;
}

/* 2 * 3 groups of channels, 9 taps, 10 columns: 540 cycles. */
static inline braid_instruction *add_conv(program *p, int wait, int signal) {
  braid_instruction *in = add(p, BRAID_ISA_OP_CONV, wait, signal);
  in->conv.channels_in = 16;
  in->conv.channels_out = 20;
  in->conv.kernel_rows = in->conv.kernel_columns = 3;
  in->conv.output_columns = 10;
  in->conv.output_rows = 4;
  return in;
}

static inline void add_system(program *p, bool sync, bool end, bool tile) {
  braid_instruction *in = add(p, BRAID_ISA_OP_SYSTEM, 0, 0);
  in->system.sync = sync;
  in->system.layer = (int32_t)p->count; /* of each its own */
  in->system.end = end;
  in->system.tile = tile;
}

static inline size_t submit(braid_timing *t, const program *programs, const int *cores, size_t count, uint64_t lines) {
  braid_timing_program own[16];
  size_t id;
  for (size_t i = 0; i < count; i++) own[i] = (braid_timing_program){cores[i], programs[i].items, programs[i].count, 0};
  braid_timing_task task = {.programs = own, .core_count = count};
  for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = lines};
  ok(braid_timing_submit(t, &task, &id));
  return id;
}

static inline uint64_t run_alone(const braid_overlay_design *design, const program *p, braid_timing_core *core) {
  braid_timing *t;
  size_t id, done;
  ok(braid_timing_create(design, NULL, &t));
  id = submit(t, p, (int[]){0}, 1, 1 << 20);
  ok(braid_timing_advance(t, UINT64_MAX, &done));
  assert_int_equal(done, id);
  braid_timing_result r = braid_timing_get(t, id);
  if (r.state != BRAID_TIMING_ENDED) fail_msg("%s", r.why);
  if (core) *core = r.cores[0];
  braid_timing_destroy(t);
  return r.ended - r.began;
}

/* --- drawn programs ------------------------------------------------------------------------------------------------
 */
static uint64_t timing_drawn;
#define DRAW(bound) (int)braid_random_below(7, 0, 0, timing_drawn++, bound)

/* Of 1 to 4 cores, right or wrong; returns how many. */
static inline size_t draw_programs(program *p) {
  size_t cores = 1 + (size_t)DRAW(4);
  memset(p, 0, 4 * sizeof *p);
  for (size_t i = 0; i < cores; i++) {
    int length = DRAW(20), wait = DRAW(3) ? 0 : DRAW(16);
    for (int k = 0; k < length; k++) {
      int what = DRAW(8), give = DRAW(4) ? 0 : 1 << DRAW(4), take = DRAW(4) ? 0 : wait & 1 << DRAW(4);
      int own = what < 3 ? (what == 1 ? SAVES : LOADS) : CONVS;
      if (what < 3)
        add_move(&p[i], what == 1, 1 + DRAW(200), take & ~own, give & ~own);
      else if (what < 6)
        add_conv(&p[i], take & ~own, give & ~own);
      else
        add_system(&p[i], what == 7, false, what == 6);
    }
    add_system(&p[i], false, true, false);
  }
  return cores;
}

#endif
