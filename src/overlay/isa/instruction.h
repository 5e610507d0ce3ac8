/* Instructions of the overlay: encoding, decoding, text. docs/isa.md says what each does. */
#ifndef BRAID_OVERLAY_ISA_INSTRUCTION_H
#define BRAID_OVERLAY_ISA_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "braid/status.h"
#include "overlay/isa/fields.h"

enum {
  BRAID_ISA_VERSION = 2,
  BRAID_ISA_WORD = 16,
  BRAID_ISA_MOST_WORDS = 3,
  BRAID_ISA_MODULES = 4,
  BRAID_ISA_REPEATS = 4
};

/* The modules of a core, as masks have them, and what hands instructions to them, which itself runs SYSTEM. */
typedef enum braid_isa_module {
  BRAID_ISA_IN,
  BRAID_ISA_OUT,
  BRAID_ISA_COMPUTE,
  BRAID_ISA_SIDE,
  BRAID_ISA_DISPATCH
} braid_isa_module;

typedef enum braid_isa_opcode {
#define I(NAME, name, opcode, words, module, text) BRAID_ISA_OP_##NAME = opcode,
  BRAID_ISA_INSTRUCTIONS(I)
#undef I
} braid_isa_opcode;

/* What the fields `memory` and `function` mean. */
typedef enum braid_isa_memory {
  BRAID_ISA_FEATURES,
  BRAID_ISA_WEIGHTS,
  BRAID_ISA_BIASES,
  BRAID_ISA_VECTORS
} braid_isa_memory;
typedef enum braid_isa_misc_function {
  BRAID_ISA_MAX,
  BRAID_ISA_MEAN,
  BRAID_ISA_SUM,
  BRAID_ISA_COPY
} braid_isa_misc_function;
typedef enum braid_isa_ele_function {
  BRAID_ISA_ELE_SUM,
  BRAID_ISA_ELE_PRODUCT,
  BRAID_ISA_ELE_SIGMOID,
  BRAID_ISA_ELE_TANH,
  BRAID_ISA_ELE_COPY
} braid_isa_ele_function;

/* An instruction: the fields of the table by name, all int32_t, in its order. */
#define F(name, bits, less, lowest, highest, text) int32_t name;
#define I(NAME, name, opcode, words, module, text)                                                                     \
  typedef struct braid_isa_##name {                                                                                    \
    BRAID_ISA_##NAME(F)                                                                                                \
  } braid_isa_##name;
BRAID_ISA_INSTRUCTIONS(I)
typedef struct braid_instruction {
  BRAID_ISA_HEADER(F)
  union {
#undef I
#define I(NAME, name, opcode, words, module, text) braid_isa_##name name;
    BRAID_ISA_INSTRUCTIONS(I)
  };
} braid_instruction;
#undef I
#undef F

/* A SYSTEM that is a place to stop at and nothing else. */
static inline bool braid_isa_is_tile(const braid_instruction *in) {
  return in->opcode == BRAID_ISA_OP_SYSTEM && in->system.tile && !in->system.sync && !in->system.end;
}
/* Of a tile: words back to each LOAD that is repeated, 0: none. */
static inline void braid_isa_repeats(const braid_isa_system *tile, int32_t out[BRAID_ISA_REPEATS]) {
  out[0] = tile->repeat_a;
  out[1] = tile->repeat_b;
  out[2] = tile->repeat_c;
  out[3] = tile->repeat_d;
}

/* --- the table as data ---------------------------------------------------------------------------------------------
 */
typedef struct braid_isa_field {
  const char *name, *text;
  int bits, less;
  int32_t lowest, highest;
} braid_isa_field;

/* Fields stand one behind the other from bit 0 of byte 0 on; those of the header come first. */
typedef struct braid_isa_form {
  const char *name, *text;
  braid_isa_opcode opcode;
  int words; /* of BRAID_ISA_WORD bytes */
  braid_isa_module module;
  const braid_isa_field *fields;
  size_t count;
} braid_isa_form;

extern const braid_isa_field braid_isa_header[];
extern const size_t braid_isa_header_count;
/* NULL: no instruction has this opcode. */
const braid_isa_form *braid_isa_form_of(int32_t opcode);
/* An instruction whose other fields are 0, or the lowest that they may be. */
braid_instruction braid_isa_blank(braid_isa_opcode opcode);

/* --- words ---------------------------------------------------------------------------------------------------------
 */
/* Writes an instruction to `out`, of BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD bytes; *bytes: how many it takes.
 * INVALID_ARGUMENT names the field that is out of its range. */
BRAID_MUST_CHECK braid_status braid_isa_encode(const braid_instruction *instruction, uint8_t *out, size_t *bytes);
/* Reads the instruction that begins at byte `at` of a program; *next: where the following one begins. INVALID_FILE
 * names the position, the field and what is allowed. Bits without a meaning must be 0. */
BRAID_MUST_CHECK braid_status braid_isa_decode(const uint8_t *program, size_t bytes, size_t at, braid_instruction *out,
                                               size_t *next);
/* Appends one line without its end: the name, then each field that differs from that of a blank instruction. */
void braid_isa_print(const braid_instruction *instruction, braid_text *out);
/* Appends a program, a line for each instruction, after its position. INVALID_FILE as braid_isa_decode; what came
 * before is appended. */
BRAID_MUST_CHECK braid_status braid_isa_disassemble(const uint8_t *program, size_t bytes, braid_text *out);

#endif
