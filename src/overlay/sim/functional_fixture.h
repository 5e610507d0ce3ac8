/* Programs, images and random numbers for the tests of the functional simulator. For tests only. */
#ifndef BRAID_OVERLAY_SIM_FUNCTIONAL_FIXTURE_H
#define BRAID_OVERLAY_SIM_FUNCTIONAL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/sim/functional.h"

enum { kMostCode = 1 << 20, kLine = 16 };
enum { ON_LOAD = 1, ON_SAVE = 2, ON_COMPUTE = 4, ON_SIDE = 8 };

static uint64_t drawn;
static inline uint32_t draw(void) {
  return braid_random_u32(20261, 0, 0, drawn++);
}
/* From low to high. */
static inline int32_t between(int32_t low, int32_t high) {
  return low + (int32_t)(draw() % (uint32_t)(high - low + 1));
}
static inline void fill_random(void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) ((uint8_t *)bytes)[i] = (uint8_t)draw();
}

static inline braid_overlay_design convolutional_design(void) {
  return (braid_overlay_design){.cores = 4,
                                .clock_mhz = 300,
                                .pixels = 4,
                                .channels_in = 8,
                                .channels_out = 8,
                                .side_bytes = 16,
                                .feature_bytes = 2048 * kLine,
                                .weight_bytes = 2048 * kLine,
                                .bias_bytes = 64 * kLine,
                                .sum_bytes = 1 << 16,
                                .queue_depth = 8};
}
static inline braid_overlay_design recurrent_design(void) {
  return (braid_overlay_design){.recurrent = true,
                                .cores = 4,
                                .clock_mhz = 200,
                                .rows = 2,
                                .columns = 8,
                                .side_numbers = 8,
                                .weight_bytes = 4096 * kLine,
                                .bias_bytes = 256 * kLine,
                                .sum_bytes = 1 << 12,
                                .vector_bytes = 4096 * kLine,
                                .queue_depth = 8};
}

typedef struct code {
  uint8_t *bytes;
  size_t count;
} code;

static inline void add(code *to, braid_instruction instruction) {
  size_t bytes;
  if (!to->bytes) to->bytes = malloc(kMostCode);
  assert_true(to->bytes && to->count + BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD <= kMostCode);
  if (braid_isa_encode(&instruction, to->bytes + to->count, &bytes) != BRAID_OK) fail_msg("%s", braid_error_detail());
  to->count += bytes;
}
static inline void drop(code *of) {
  free(of->bytes);
  *of = (code){0};
}

/* One row of lines. */
static inline braid_instruction load(int32_t memory, int32_t segment, int32_t ddr, int32_t chip, int32_t lines) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
  in.load.memory = memory;
  in.load.segment = segment;
  in.load.ddr = ddr;
  in.load.chip = chip;
  in.load.lines = lines;
  return in;
}
static inline braid_instruction save(int32_t memory, int32_t segment, int32_t ddr, int32_t chip, int32_t lines) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SAVE);
  in.save.memory = memory;
  in.save.segment = segment;
  in.save.ddr = ddr;
  in.save.chip = chip;
  in.save.lines = lines;
  return in;
}
static inline braid_instruction tokens(braid_instruction in, int32_t wait, int32_t signal) {
  in.wait = wait;
  in.signal = signal;
  return in;
}
static inline braid_instruction end(void) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.end = 1;
  return in;
}
static inline braid_instruction tile(void) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.tile = 1;
  return in;
}

/* Two rows of four columns, one channel in and out. */
static inline braid_instruction small_conv(void) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_CONV);
  in.conv.input_rows = in.conv.input_columns = 4;
  in.conv.input_pitch = in.conv.output_pitch = 4;
  in.conv.input_plane = in.conv.output_plane = 16;
  in.conv.output_rows = 2;
  in.conv.output_columns = 4;
  in.conv.output = 100;
  in.conv.start = in.conv.finish = 1;
  in.conv.low = -128;
  in.conv.high = 127;
  return in;
}

static inline braid_instruction on_core(braid_instruction in, int32_t core) {
  in.core = core;
  return in;
}

/* Segments of so many lines, one behind the other, with a line before, between and behind that nobody may touch. */
typedef struct world {
  braid_overlay_image image;
  uint8_t *start;
} world;

static inline world make_world(const int *lines, int count) {
  world made = {0};
  uint64_t at = kLine;
  for (int s = 0; s < count; s++) {
    made.image.segments[s] = (braid_overlay_segment){.first = at, .bytes = (uint64_t)lines[s] * kLine};
    at += (uint64_t)(lines[s] + 1) * kLine;
  }
  made.image.bytes = at;
  made.start = calloc(1, at);
  assert_non_null(made.start);
  made.image.ddr = made.start;
  return made;
}
static inline void *segment_of(const world *of, int segment) {
  return of->start + of->image.segments[segment].first;
}
static inline void check_guards(const world *of, int count) {
  static const uint8_t kZero[kLine] = {0};
  assert_memory_equal(of->start, kZero, kLine);
  for (int s = 0; s < count; s++)
    assert_memory_equal((uint8_t *)segment_of(of, s) + of->image.segments[s].bytes, kZero, kLine);
}

static inline braid_status run_one(const braid_overlay_design *design, const code *program, const world *on,
                                   const braid_functional_options *options, braid_functional_counts *counts) {
  braid_overlay_code text = {program->bytes, program->count};
  return braid_functional_once(design, 1, &text, &on->image, options, NULL, counts);
}
static inline void run_well(const braid_overlay_design *design, const code *program, const world *on, uint64_t seed,
                            braid_functional_counts *counts) {
  braid_functional_options options = {.seed = seed, .races = true};
  if (run_one(design, program, on, &options, counts) != BRAID_OK) fail_msg("%s", braid_error_detail());
}

#endif
