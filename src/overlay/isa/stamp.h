/* Instructions written field by field at places that are constants of the table (fields.h), for programs that are made
 * while tenants wait. Values must be within the ranges of their fields: nothing is checked here. */
#ifndef BRAID_OVERLAY_ISA_STAMP_H
#define BRAID_OVERLAY_ISA_STAMP_H

#include <stddef.h>
#include <string.h>

#include "overlay/isa/instruction.h"

/* Of arrays of as many bytes as fields have bits, the offset is the first bit. */
#define F(name, bits, less, lowest, highest, text) char name[bits];
#define I(NAME, name, opcode, words, module, text)                                                                     \
  typedef struct braid_isa_##name##_places {                                                                           \
    BRAID_ISA_HEADER(F) struct { BRAID_ISA_##NAME(F) } own;                                                            \
  } braid_isa_##name##_places;
BRAID_ISA_INSTRUCTIONS(I)
#undef F
/* And of arrays of one byte more than what is subtracted, the size. */
#define F(name, bits, less, lowest, highest, text) char name[(less) + 1];
#undef I
#define I(NAME, name, opcode, words, module, text)                                                                     \
  typedef struct braid_isa_##name##_less {                                                                             \
    BRAID_ISA_##NAME(F)                                                                                                \
  } braid_isa_##name##_less;
BRAID_ISA_INSTRUCTIONS(I)
#undef I
#undef F

/* An instruction being made; `at` is a constant, so that what stands here are shifts and ors of registers. */
typedef struct braid_isa_stamped {
  uint64_t half[2 * BRAID_ISA_MOST_WORDS + 1];
} braid_isa_stamped;

static inline void braid_isa_stamp(braid_isa_stamped *words, size_t at, size_t bits, uint64_t value) {
  words->half[at / 64] |= value << at % 64;
  if (at % 64 + bits > 64) words->half[at / 64 + 1] |= value >> (64 - at % 64);
}

/* A field of an instruction that has been begun, where it is 0. */
#define BRAID_ISA_STAMP(words, name, field, value)                                                                     \
  braid_isa_stamp(words, offsetof(braid_isa_##name##_places, own.field),                                               \
                  sizeof(((braid_isa_##name##_places *)0)->own.field),                                                 \
                  (uint64_t)(value) - (sizeof(((braid_isa_##name##_less *)0)->field) - 1))
#define BRAID_ISA_STAMP_HEADER(words, field, value)                                                                    \
  braid_isa_stamp(words, offsetof(braid_isa_load_places, field), sizeof(((braid_isa_load_places *)0)->field),          \
                  (uint64_t)(value))

static inline void braid_isa_begin(braid_isa_stamped *words, braid_isa_opcode opcode, int core, int wait, int signal) {
  *words = (braid_isa_stamped){{0}};
  BRAID_ISA_STAMP_HEADER(words, opcode, opcode);
  BRAID_ISA_STAMP_HEADER(words, core, core);
  BRAID_ISA_STAMP_HEADER(words, wait, wait);
  BRAID_ISA_STAMP_HEADER(words, signal, signal);
}

/* Little endian, as instructions are. By halves, as they were made: a load of what two stores have just written waits
 * for both to leave the processor's queue. */
static inline void braid_isa_store(const braid_isa_stamped *words, size_t count, uint8_t *out) {
  for (size_t i = 0; i < 2 * count; i++) memcpy(out + i * sizeof *words->half, &words->half[i], sizeof *words->half);
}

/* Another value of a field of an instruction that is stored; 8 bytes behind its first one are there. */
static inline void braid_isa_restamp(uint8_t *words, size_t at, size_t bits, uint64_t value) {
  uint64_t whole, mask = (((uint64_t)1 << bits) - 1) << at % 8;
  memcpy(&whole, words + at / 8, sizeof whole);
  whole = (whole & ~mask) | (value << at % 8 & mask);
  memcpy(words + at / 8, &whole, sizeof whole);
}
#define BRAID_ISA_RESTAMP(words, name, field, value)                                                                   \
  braid_isa_restamp(words, offsetof(braid_isa_##name##_places, own.field),                                             \
                    sizeof(((braid_isa_##name##_places *)0)->own.field),                                               \
                    (uint64_t)(value) - (sizeof(((braid_isa_##name##_less *)0)->field) - 1))

#endif
