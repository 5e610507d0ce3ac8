/* The functional simulator: runs the programs of one tenant's cores as docs/isa.md says, bit for bit, without time.
 *
 * Modules and cores run in any order that tokens, queues and synchronization allow: a plain order, near to that of the
 * programs, or an adversarial one drawn from a seed, in which a module is starved or runs as far ahead as it can, so
 * that a missing token shows as other bits. Race detection finds it in any order: each line remembers who wrote and
 * read it last, vector clocks say what tokens order, and two accesses that nothing orders are reported.
 *
 * Programs may be anything: what docs/isa.md forbids is a status with a sentence that names core, byte and instruction,
 * and nothing outside of the tenant's ranges is written. */
#ifndef BRAID_OVERLAY_SIM_FUNCTIONAL_H
#define BRAID_OVERLAY_SIM_FUNCTIONAL_H

#include <stddef.h>

#include "overlay/design.h"
#include "overlay/isa/instruction.h"

enum { BRAID_OVERLAY_SEGMENTS = 8 };

/* What a base register points to: bytes of the image of DDR, both multiples of 16; 0 bytes: there is nothing. */
typedef struct braid_overlay_segment {
  uint64_t first, bytes;
  bool read_only; /* SAVE to it is an error of the tenant */
} braid_overlay_segment;

/* A tenant's memory: the caller's, who clears what others left. Segments may overlap. */
typedef struct braid_overlay_image {
  uint8_t *ddr;
  uint64_t bytes;
  braid_overlay_segment segments[BRAID_OVERLAY_SEGMENTS];
} braid_overlay_image;

typedef struct braid_overlay_code {
  const uint8_t *bytes;
  size_t count;
} braid_overlay_code;

typedef struct braid_functional_options {
  uint64_t seed;              /* of the adversarial order, in which cores are given away at tiles, too; 0: plain */
  bool races;                 /* detect them: about 32 bytes for each line of the chip and of the image, slower */
  uint64_t most_instructions; /* of all cores together; 0: no limit */
  uint64_t most_work; /* multiply-accumulates, taps times channels of MISC, numbers of ELE, bytes moved; 0: no limit */
  /* A part of the task, as a card ran it that stopped it and let it go on (timing.h's `first` and `stopped_at`): of
   * each core the instructions from `from` on (NULL: 0) to before `to` (NULL: all). Tokens follow from what is before.
   */
  const size_t *from, *to;
  /* The task goes on at once on the cores where the last run of this simulator left it: memories on the chip are as
   * they were, not 0. */
  bool goes_on;
  /* The memory for vectors, `vector_bytes` of the design, as the run finds and leaves it; NULL: it finds 0. */
  uint8_t *vectors;
} braid_functional_options;

typedef struct braid_functional_counts {
  uint64_t instructions[8];      /* by braid_isa_opcode */
  uint64_t multiply_accumulates; /* of CONV and MVM, taps in the padding included */
  uint64_t side_operations;      /* of MISC (taps times channels) and ELE (numbers) */
  uint64_t loaded_bytes, saved_bytes;
  uint64_t synchronizations; /* times that sync_global was raised */
} braid_functional_counts;

typedef struct braid_functional braid_functional;

/* Reads the programs, one for each of `cores` cores, and takes the memory of as many cores of the design; programs and
 * design are copied. INVALID_ARGUMENT: the design, or the number of cores, which may be anything from 1 to
 * BRAID_OVERLAY_MOST_CORES. INVALID_FILE: a program is malformed or asks for what the design lacks; the sentence names
 * core, byte, instruction and what is allowed. */
BRAID_MUST_CHECK braid_status braid_functional_create(const braid_overlay_design *design, int cores,
                                                      const braid_overlay_code *programs,
                                                      const braid_allocator *allocator, braid_functional **out);
void braid_functional_destroy(braid_functional *simulator);

/* Runs the task from its beginning, with memories on the chip cleared. options NULL: all 0. *counts (NULL: not asked
 * for) has what was done, also after a failure: OUT_OF_RANGE: an address in DDR; INVALID_FILE: tokens, a deadlock, a
 * race; TIMEOUT: a limit. What had been saved until then stays in the image. One thread at a time. */
BRAID_MUST_CHECK braid_status braid_functional_run(braid_functional *simulator, const braid_overlay_image *image,
                                                   const braid_functional_options *options,
                                                   braid_functional_counts *counts);

/* Create, run, destroy. */
BRAID_MUST_CHECK braid_status braid_functional_once(const braid_overlay_design *design, int cores,
                                                    const braid_overlay_code *programs,
                                                    const braid_overlay_image *image,
                                                    const braid_functional_options *options,
                                                    const braid_allocator *allocator, braid_functional_counts *counts);

#endif
