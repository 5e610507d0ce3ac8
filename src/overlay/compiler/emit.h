/* Instructions of one tile, with the tokens that keep them in order.
 *
 * Whoever adds an instruction says which parts of memories (slots) it reads and writes. Where an instruction of another
 * module read or wrote one of them before, the one signals and the other waits. A module waits only for what is newer
 * than what it has waited for; so tokens of a pair of modules are given and taken in the same order, one each. */
#ifndef BRAID_OVERLAY_COMPILER_EMIT_H
#define BRAID_OVERLAY_COMPILER_EMIT_H

#include <stdbool.h>

#include "overlay/design.h"
#include "overlay/isa/instruction.h"

/* Parts of the memories of a core, two each so that one is filled while the other is used. */
enum {
  BRAID_SLOT_INPUT,
  BRAID_SLOT_ADDEND = 2,
  BRAID_SLOT_OUTPUT = 4,
  BRAID_SLOT_WEIGHTS = 6,
  BRAID_SLOT_BIASES = 8,
  BRAID_SLOTS = 10
};

/* Masks of slots that an instruction reads and writes. */
typedef struct braid_emitted {
  uint16_t reads, writes;
} braid_emitted;

typedef struct braid_emitter {
  const braid_allocator *allocator;
  braid_instruction *items;
  braid_emitted *uses; /* of each item */
  size_t count, capacity, use_capacity;
  /* Positions + 1 of items; 0: none. */
  size_t writer[BRAID_SLOTS], readers[BRAID_SLOTS][BRAID_ISA_MODULES];
  size_t waited[BRAID_ISA_MODULES][BRAID_ISA_MODULES]; /* [of whom][who] */
} braid_emitter;

void braid_emitter_init(braid_emitter *emitter, const braid_allocator *allocator);
void braid_emitter_deinit(braid_emitter *emitter);
void braid_emitter_clear(braid_emitter *emitter); /* keeps its memory */
/* `reads` and `writes` are masks of slots. `more`: what is written lies beside what was written there before, which may
 * still be read. NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_emit(braid_emitter *emitter, const braid_instruction *instruction, uint32_t reads,
                                         uint32_t writes, bool more);
/* Appends a place to stop at; its other fields are set by braid_stops_place (stops.h). NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_emit_tile(braid_emitter *emitter, int32_t layer);

/* Cycles of one instruction alone: equation 5 for CONV, equation 6 with the core's share of its bank and the time to
 * the first byte for LOAD and SAVE, bytes that come in for MISC. */
int64_t braid_instruction_cycles(const braid_overlay_design *design, const braid_instruction *instruction);
/* The same where each bank serves the ports of all cores, to read and to write, alike, and all want it. */
int64_t braid_instruction_slowest(const braid_overlay_design *design, const braid_instruction *instruction);
/* Of `bytes` moved by one instruction. */
int64_t braid_move_cycles(const braid_overlay_design *design, int64_t bytes);
/* When the last of them is done, if all modules are idle at first: each starts when the one before it in its module is
 * done, and those that it waits for; they are handed out in order, and at most queue_depth wait before a module. -1 if
 * one waits for ever, or a count of tokens passes 255 or does not come back to 0. design NULL: all take one cycle, and
 * queues are as long as is needed. */
int64_t braid_instructions_latency(const braid_overlay_design *design, const braid_instruction *items, size_t count);

#endif
