/* Any program runs to its end or fails with a sentence, and touches nothing outside of its ranges. One that has no race
 * in the plain order has none in another one, and leaves the same bits there. */
#include <stdlib.h>
#include <string.h>

#include "overlay/sim/functional.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { kLine = 16, kRange = 48, kSegments = 3, kImage = kSegments * (kRange + 1) + 1, kMostCode = 4096, kCores = 3 };

/* A program from bytes that are no words: a field takes a byte, most of them small values, so that many get through. */
typedef struct source {
  const uint8_t *data;
  size_t bytes, at;
} source;

static uint8_t next(source *from) {
  return from->at < from->bytes ? from->data[from->at++] : 0;
}

static void set_field(source *from, const braid_isa_field *field, int32_t *value) {
  int64_t byte = next(from), span = (int64_t)field->highest - field->lowest;
  if (byte < 192)
    byte %= 24;
  else if (byte < 250)
    byte = (byte - 192) * span / 64;
  int64_t wanted = (field->lowest > 0 ? field->lowest : 0) + byte;
  *value = (int32_t)(wanted > field->highest ? field->lowest : wanted);
}

static size_t assemble(source *from, int core, bool recurrent, uint8_t *out) {
  static const int kConvolutional[] = {1, 2, 3, 4, 5, 1, 2, 4}, kRecurrent[] = {1, 2, 6, 7, 5, 1, 2, 7};
  size_t at = 0, length;
  while (from->at < from->bytes && at + 2 * BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD < kMostCode) {
    uint8_t opcode = next(from);
    if (opcode >= 240) break;
    braid_instruction in = braid_isa_blank((braid_isa_opcode)(recurrent ? kRecurrent : kConvolutional)[opcode % 8]);
    const braid_isa_form *form = braid_isa_form_of(in.opcode);
    uint8_t mask = next(from);
    in.core = core;
    in.wait = in.opcode == BRAID_ISA_OP_SYSTEM ? 0 : mask & 15 & ~(1 << form->module);
    in.signal = in.opcode == BRAID_ISA_OP_SYSTEM ? 0 : mask >> 4 & ~(1 << form->module);
    for (size_t i = 0; i < form->count; i++) set_field(from, &form->fields[i], (int32_t *)(void *)&in.load + i);
    if (in.opcode == BRAID_ISA_OP_SYSTEM) in.system.end = 0;
    if (in.opcode == BRAID_ISA_OP_LOAD || in.opcode == BRAID_ISA_OP_SAVE) {
      in.load.memory = recurrent && in.load.memory == BRAID_ISA_FEATURES ? BRAID_ISA_VECTORS : in.load.memory;
      in.load.segment %= kSegments;
    }
    if (in.opcode == BRAID_ISA_OP_CONV && in.conv.depthwise) in.conv.channels_in = in.conv.channels_out;
    if ((in.opcode == BRAID_ISA_OP_CONV || in.opcode == BRAID_ISA_OP_MISC) && in.misc.low > in.misc.high)
      in.misc.high = in.misc.low; /* CONV begins as MISC does */
    if (braid_isa_encode(&in, out + at, &length) != BRAID_OK) abort();
    at += length;
  }
  braid_instruction end = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  end.core = core;
  end.system.end = 1;
  if (braid_isa_encode(&end, out + at, &length) != BRAID_OK) abort();
  return at + length;
}

static braid_status run(braid_functional *simulator, uint64_t seed, bool races, uint8_t *ddr) {
  braid_overlay_image image = {.ddr = ddr, .bytes = (uint64_t)kImage * kLine};
  braid_functional_options options = {.seed = seed, .races = races, .most_instructions = 300, .most_work = 200000};
  for (int i = 0; i < kImage * kLine; i++) ddr[i] = (uint8_t)(i * 7);
  for (int s = 0; s < kSegments; s++)
    image.segments[s] = (braid_overlay_segment){
        .first = (uint64_t)(s * (kRange + 1) + 1) * kLine, .bytes = kRange * kLine, .read_only = s == 2};
  braid_status status = braid_functional_run(simulator, &image, &options, NULL);
  if (status != BRAID_OK && !braid_error_detail()[0]) abort();
  for (int i = 0; i < kImage * kLine; i++) {
    int line = i / kLine;
    if ((line % (kRange + 1) == 0 || line > 2 * (kRange + 1)) && ddr[i] != (uint8_t)(i * 7)) abort();
  }
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static uint8_t texts[kCores][kMostCode], plain[kImage * kLine], other[kImage * kLine];
  if (bytes < 4) return 0;
  bool recurrent = data[0] & 1, raw = (data[0] & 6) == 6;
  int cores = 1 + data[1] % kCores;
  braid_overlay_design design = {.recurrent = recurrent,
                                 .pixels = 1 + data[2] % 3,
                                 .channels_in = 1 + data[2] / 3 % 20,
                                 .channels_out = 1 + data[3] % 20,
                                 .rows = 1 + data[2] % 5,
                                 .columns = 1 + data[3] % 9,
                                 .feature_bytes = 256 * kLine,
                                 .weight_bytes = 256 * kLine,
                                 .bias_bytes = 32 * kLine,
                                 .vector_bytes = 256 * kLine,
                                 .sum_bytes = 4096,
                                 .queue_depth = 1 + data[0] / 8 % 4};
  source from = {data + 4, bytes - 4, 0};
  braid_overlay_code programs[kCores];
  for (int c = 0; c < cores; c++) {
    programs[c] = (braid_overlay_code){texts[c], 0};
    if (raw)
      programs[c] = (braid_overlay_code){data + 4, bytes - 4};
    else
      programs[c].count = assemble(&from, c, recurrent, texts[c]);
  }
  braid_functional *simulator;
  if (braid_functional_create(&design, cores, programs, NULL, &simulator) != BRAID_OK) {
    if (!braid_error_detail()[0] || simulator) abort();
    return 0;
  }
  braid_status first = run(simulator, 0, true, plain);
  for (uint64_t seed = 1; seed < 5; seed++) {
    braid_status status = run(simulator, seed, seed % 2 == 1, other);
    if (first != BRAID_OK) continue;
    if (status == BRAID_OK && memcmp(plain, other, sizeof plain) != 0) abort();
    if (status != BRAID_OK && strstr(braid_error_detail(), "nothing orders")) abort();
  }
  braid_functional_destroy(simulator);
  return 0;
}
