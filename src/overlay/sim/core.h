/* A core of the functional simulator: its memories, and what its modules do with them, one instruction after the other.
 * Instructions have been checked by braid_overlay_program_read: their lines lie in the memories. */
#ifndef BRAID_OVERLAY_SIM_CORE_H
#define BRAID_OVERLAY_SIM_CORE_H

#include "overlay/sim/program.h"

typedef struct braid_overlay_core {
  const braid_overlay_design *design;
  uint8_t *memories[4]; /* by braid_isa_memory; the vectors are those of all cores */
  int32_t *sums;        /* that CONV left: rows, columns, channels; they wrap */
  int64_t *wide_sums;   /* of MVM's rows; those that it left, too */
  /* CONV's work space: weights as it wants them, and which they are, and the input under a few results */
  int16_t *packed, *gathered;
  braid_instruction packed_for;
  bool is_packed;          /* reset when the weight memory is written */
  const int16_t *tangents; /* braid_overlay_tangents */
} braid_overlay_core;

/* Numbers of 16 bits that `packed` and `gathered` need for an instruction; 0 for those that do not use them. */
void braid_overlay_conv_space(const braid_instruction *instruction, int64_t *packed, int64_t *gathered);
/* Numbers that `sums` needs for a CONV of so many channels whose sums need not stay. */
int64_t braid_overlay_conv_sums(int64_t channels);
void braid_overlay_conv(braid_overlay_core *core, const braid_instruction *instruction);
void braid_overlay_misc(braid_overlay_core *core, const braid_instruction *instruction);
void braid_overlay_mvm(braid_overlay_core *core, const braid_isa_mvm *mvm);
void braid_overlay_ele(braid_overlay_core *core, const braid_isa_ele *ele);

/* --- sigmoid and tanh -----------------------------------------------------------------------------------------------
 */
enum { BRAID_OVERLAY_TANGENTS = 513 };
/* tanh(i / 64) * 2^15 for i in 0 .. 512, rounded, at most 32767: computed in integers, so that every machine has the
 * same. */
void braid_overlay_tangents(int16_t out[BRAID_OVERLAY_TANGENTS]);
/* Of a number with 11 bits behind the point, with 15. */
int16_t braid_overlay_tanh(const int16_t *tangents, int16_t x);
int16_t braid_overlay_sigmoid(const int16_t *tangents, int16_t x);

#endif
