/* The dynamic compiler: the programs of some cores, from a package (section 5.2 of Zeng et al. 2021). It chooses, of
 * each layer, the tiling whose longest core is shortest, and lists what each core is to get; nothing else of the
 * network is looked at. A tile on the core that its instructions say stays where it is, in the package: programs are
 * pieces, as scatter-gather DMA moves them. Copying them would take longer than all else. */
#ifndef BRAID_OVERLAY_COMPILER_DYNAMIC_H
#define BRAID_OVERLAY_COMPILER_DYNAMIC_H

#include "overlay/compiler/package.h"

/* What was chosen for a layer. */
typedef struct braid_program_layer {
  uint32_t tiling; /* of the package */
  uint64_t cycles; /* of the longest core, by the tiles' latencies (equation 7) */
  uint64_t bound;  /* no distribution of these tiles is shorter */
} braid_program_layer;

/* Of a program, in its order: bytes of the package, or (NULL) those that follow in `own`. */
typedef struct braid_program_piece {
  const uint8_t *package;
  size_t bytes;
} braid_program_piece;

typedef struct braid_program {
  size_t bytes; /* of the program */
  braid_program_piece *pieces;
  size_t piece_count, piece_capacity;
  uint8_t *own; /* instructions that the package has not: of another core, or marks */
  size_t own_bytes, own_capacity;
  uint8_t *code; /* all in one, from braid_programs_gather; of a recurrent network from the start, without pieces */
  size_t capacity;
} braid_program;

/* Made again and again in the same memory. The package must stay as long as they are used. */
typedef struct braid_programs {
  const braid_allocator *allocator;
  int cores;
  braid_program core[BRAID_OVERLAY_MOST_CORES];
  braid_program_layer *layers; /* layer_count of the package; those before the first one are 0 */
  size_t layer_capacity;
  uint64_t cycles, bound; /* sums over layers */
  uint64_t stop;          /* cycles until a core that is to be given away stands, at most: of its tiles */
} braid_programs;

void braid_programs_init(braid_programs *programs, const braid_allocator *allocator);
void braid_programs_deinit(braid_programs *programs);

/* The programs of `cores` cores, from layer `first` on (0: all; a task that was switched after a layer goes on behind
 * it, on any number of cores). One core gets the code of whole layers. Behind each layer all
 * synchronize, behind each tile the core waits for its modules; at both a task may be switched (`tile`). Of a recurrent
 * network `first` counts steps over all cells (recurrent/rnn_dynamic.h), and `layers` is not used.
 * INVALID_ARGUMENT: cores not within 1 .. BRAID_OVERLAY_MOST_CORES, or no such layer; NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_programs_make(const braid_package *package, int cores, size_t first,
                                                  braid_programs *programs);

/* Sets `code` of each core, for whoever reads programs in one piece. The package is still needed. */
BRAID_MUST_CHECK braid_status braid_programs_gather(braid_programs *programs);

/* Tiles to cores, so that the longest core is as short as can be (equations 7 to 9): exact for up to
 * BRAID_ASSIGN_EXACT tiles; for more the longest first to the least loaded core, and moves and swaps while they help.
 * cycles: of `count` tiles, at most BRAID_ASSIGN_MOST. core_of: of each, which core; as many as can be have the core of
 * their own number, one each. *bound: of any distribution. Returns the longest core's cycles. */
enum { BRAID_ASSIGN_EXACT = 10, BRAID_ASSIGN_MOST = 64 };
uint64_t braid_tiles_assign(const uint64_t *cycles, int count, int cores, uint8_t *core_of, uint64_t *bound);

#endif
