/* Programs of the overlay, read once: decoded instructions, each checked for what docs/isa.md asks of it and what the
 * design has room for, and the lines of memory that each touches. Programs from disk or network are read by the same
 * function; a program that got through it can break the rules only in what depends on the tenant's ranges in DDR, on
 * tokens and on other cores. */
#ifndef BRAID_OVERLAY_SIM_PROGRAM_H
#define BRAID_OVERLAY_SIM_PROGRAM_H

#include <stddef.h>
#include <string.h>

#include "overlay/design.h"
#include "overlay/isa/instruction.h"

typedef struct braid_overlay_step {
  braid_instruction instruction;
  size_t at;     /* byte of the program where it begins */
  uint32_t tile; /* how many instructions with `tile` are before it */
  uint32_t next; /* the next step of the same module; the count of steps: there is none */
  uint32_t kept; /* of a LOAD: up to as many tiles before a step it may use what was loaded: those between repeat it */
  int64_t work;  /* multiply-accumulates, taps of MISC times channels, numbers of ELE, bytes moved */
} braid_overlay_step;

typedef struct braid_overlay_program {
  const braid_allocator *allocator;
  braid_overlay_step *steps;
  size_t count, capacity;
} braid_overlay_program;

/* Reads the program of core `core` of a design that braid_overlay_design_check took. INVALID_FILE names the byte, the
 * instruction and what is allowed. The caller frees it, also after a failure. */
BRAID_MUST_CHECK braid_status braid_overlay_program_read(const uint8_t *bytes, size_t count,
                                                         const braid_overlay_design *design, int core,
                                                         const braid_allocator *allocator, braid_overlay_program *out);
void braid_overlay_program_free(braid_overlay_program *program);
/* The LOADs that the tile at step `tile` repeats, in order. Returns how many. */
int braid_overlay_repeats(const braid_overlay_program *program, uint32_t tile, uint32_t out[BRAID_ISA_REPEATS]);

/* Whether a design is one that can be simulated: INVALID_ARGUMENT names what is out of its range. */
BRAID_MUST_CHECK braid_status braid_overlay_design_check(const braid_overlay_design *design);
/* Lines of 16 bytes of a memory of a core of the design, or of the tenant's vectors; 0: there is no such memory. */
int64_t braid_overlay_memory_lines(const braid_overlay_design *design, braid_isa_memory memory);
const char *braid_overlay_memory_name(int memory);
/* Of the module that runs an instruction; never BRAID_ISA_DISPATCH unless it is SYSTEM. */
braid_isa_module braid_overlay_module(const braid_instruction *instruction);

/* The fields that CONV and MISC begin with. */
typedef struct braid_overlay_window {
#define F(name, bits, less, lowest, highest, text) int32_t name;
  BRAID_ISA_WINDOW(F)
#undef F
} braid_overlay_window;
static inline braid_overlay_window braid_overlay_window_of(const braid_instruction *instruction) {
  braid_overlay_window window;
  memcpy(&window, &instruction->conv, sizeof window);
  return window;
}

/* --- what an instruction touches ------------------------------------------------------------------------------------
 */
/* Planes of rows of columns, apart by pitches in lines. Rows and columns between those that a window's taps touch count
 * as touched where the window has more than one tap. */
typedef struct braid_overlay_lines {
  int memory; /* a braid_isa_memory, or BRAID_OVERLAY_DDR */
  bool write;
  bool
      in_place; /* each line is read for the result whose place it has, and is that result's line where it lies there */
  int64_t first, planes, plane_pitch, rows, row_pitch, columns, column_pitch;
} braid_overlay_lines;
enum { BRAID_OVERLAY_DDR = 4, BRAID_OVERLAY_MOST_LINES = 5 };

/* Fills `out`, of BRAID_OVERLAY_MOST_LINES, and returns how many it filled. Lines of DDR count from the segment's
 * first. Nothing of it is empty. */
int braid_overlay_lines_of(const braid_overlay_design *design, const braid_instruction *instruction,
                           braid_overlay_lines *out);
static inline int64_t braid_overlay_lines_last(const braid_overlay_lines *lines) {
  return lines->first + (lines->planes - 1) * lines->plane_pitch + (lines->rows - 1) * lines->row_pitch +
         (lines->columns - 1) * lines->column_pitch;
}

#endif
