/* Any programs, decoded or not, on any cores come to an end, stopped, gated, short of time or of room for instructions,
 * beside another task, which does not notice; every cycle of every module is accounted for. */
#include <stdlib.h>
#include <string.h>

#include "overlay/sim/timing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { kMost = 60, kCores = 3, kLines = 4096 };

typedef struct source {
  const uint8_t *data;
  size_t bytes, at;
} source;

static uint8_t next(source *from) {
  return from->at < from->bytes ? from->data[from->at++] : 0;
}

/* A field takes a byte, most of them small values; some are any. */
static void set_field(source *from, const braid_isa_field *field, int32_t *value) {
  int64_t byte = next(from), span = (int64_t)field->highest - field->lowest;
  int64_t wanted = byte < 248 ? byte % 12 : (byte - 247) * span / 8;
  wanted += field->lowest > 0 ? field->lowest : 0;
  *value = (int32_t)(wanted > field->highest ? field->lowest : wanted);
}

static size_t assemble(source *from, bool recurrent, braid_instruction *out) {
  static const int kConvolutional[] = {1, 2, 3, 4, 5, 1, 2, 5}, kRecurrent[] = {1, 2, 6, 7, 5, 1, 2, 5};
  size_t count = 0;
  while (from->at < from->bytes && count + 1 < kMost) {
    uint8_t opcode = next(from), mask = next(from);
    if (opcode >= 240) break;
    braid_instruction *in = &out[count++];
    *in = braid_isa_blank((braid_isa_opcode)(recurrent ? kRecurrent : kConvolutional)[opcode % 8]);
    const braid_isa_form *form = braid_isa_form_of(in->opcode);
    for (size_t i = 0; i < form->count; i++) set_field(from, &form->fields[i], (int32_t *)(void *)&in->load + i);
    if (in->opcode == BRAID_ISA_OP_SYSTEM) continue;
    in->wait = mask & 15 & ~(1 << form->module);
    in->signal = mask >> 4 & ~(1 << form->module);
    if (in->opcode > BRAID_ISA_OP_SAVE) continue;
    if (in->load.planes > 20) in->load.planes = 20; /* what moves much takes long here */
    if (in->load.rows > 20) in->load.rows = 20;
    if (in->load.lines > 20) in->load.lines = 20;
  }
  out[count] = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  out[count++].system.end = 1;
  return count;
}

static void check(const braid_timing_result *r) {
  if (r->state == BRAID_TIMING_RUNS || (r->state == BRAID_TIMING_FAILED) != (r->why != NULL)) abort();
  for (size_t c = 0; c < r->core_count; c++)
    for (int m = 0; m < BRAID_ISA_MODULES; m++) {
      const braid_timing_module *counts = &r->cores[c].modules[m];
      uint64_t all = counts->busy + counts->waits;
      for (int i = 0; i < BRAID_TIMING_IDLES; i++) all += counts->idle[i];
      if (all != r->ended - r->began) abort();
    }
}

/* Until the task has ended; other tasks may end meanwhile. */
static void finish(braid_timing *t, size_t id) {
  for (size_t done = 0; braid_timing_get(t, id).state == BRAID_TIMING_RUNS && done != SIZE_MAX;)
    if (braid_timing_advance(t, UINT64_MAX, &done) != BRAID_OK) abort();
  braid_timing_result result = braid_timing_get(t, id);
  check(&result);
}

/* From where it was stopped, on the same cores. */
static void go_on(braid_timing *t, braid_timing_program *programs, braid_timing_task *task, size_t id) {
  braid_timing_result result = braid_timing_get(t, id);
  for (size_t c = 0; c < result.core_count; c++) programs[c].first = result.cores[c].stopped_at;
  task->most_cycles = 0;
  if (braid_timing_submit(t, task, &id) == BRAID_OK) finish(t, id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static braid_instruction instructions[kCores][kMost], endless[2];
  if (bytes < 12) return 0;
  braid_overlay_design design = {.name = "fuzz",
                                 .recurrent = data[0] & 1,
                                 .cores = kCores + 1,
                                 .clock_mhz = 300,
                                 .pixels = 2,
                                 .channels_in = 4,
                                 .channels_out = 4,
                                 .side_bytes = 16,
                                 .rows = 2,
                                 .columns = 2,
                                 .side_numbers = 2,
                                 .queue_depth = 1 + data[1] % 5,
                                 .instruction_bytes = (kCores + 1) * (48 + 16 * (data[2] % 40)),
                                 .port_bits = 128 << data[3] % 3,
                                 .bank_bits = 512,
                                 .banks = 1 + data[4] % 3,
                                 .burst_bytes = 64 << data[5] % 3,
                                 .outstanding = 1 + data[6] % 8,
                                 .latency_cycles = data[7] % 50,
                                 .efficiency = 0.5};
  source from = {data + 12, bytes - 12, 0};
  size_t cores = 1 + data[0] / 2 % kCores, id, done, other;
  braid_timing_program programs[kCores], beside = {kCores, endless, 2, 0};
  uint64_t code[kCores];
  for (size_t c = 0; c < cores; c++) {
    programs[c] =
        (braid_timing_program){(int)c, instructions[c], assemble(&from, design.recurrent, instructions[c]), 0};
    code[c] = kLines + c * kMost * BRAID_ISA_MOST_WORDS;
  }
  endless[0] = braid_isa_blank(design.recurrent ? BRAID_ISA_OP_MVM : BRAID_ISA_OP_CONV);
  endless[1] = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  endless[1].system.end = 1;
  braid_timing_task task = {.programs = programs, .core_count = cores, .most_cycles = data[8] % 4 ? 0 : data[9] * 8},
                    alone = {.programs = &beside, .core_count = 1};
  task.gate = data[8] / 4 % 4 ? 0 : 100 + data[9] * 16;
  if (data[8] / 16 % 4) task.code = code;
  for (int s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){0, kLines, s % 3 == 2};
  braid_timing *t;
  if (braid_timing_create(&design, NULL, &t) != BRAID_OK) abort();
  if (braid_timing_submit(t, &alone, &other) != BRAID_OK) abort();
  if (braid_timing_submit(t, &task, &id) == BRAID_OK) {
    if (data[10] % 3) {
      if (braid_timing_advance(t, data[11] * 4, &done) != BRAID_OK) abort();
      braid_timing_stop(t, id, data[10] % 3 == 1 ? BRAID_TIMING_AT_TILE : BRAID_TIMING_AT_LAYER);
    }
    finish(t, id);
    if (braid_timing_get(t, id).state == BRAID_TIMING_STOPPED) go_on(t, programs, &task, id);
  }
  finish(t, other);
  if (braid_timing_get(t, other).state != BRAID_TIMING_ENDED) abort();
  braid_timing_destroy(t);
  return 0;
}
