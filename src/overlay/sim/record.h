/* What a simulation of a package did, and when (braid/overlay.h): kept by record.c, written by timeline.c. */
#ifndef BRAID_OVERLAY_RECORD_H
#define BRAID_OVERLAY_RECORD_H

#include "overlay/design.h"
#include "overlay/sim/timing.h"

/* An instruction that ran, or a stall of at least BRAID_RECORD_LEAST_STALL cycles. */
enum { BRAID_RECORD_LEAST_STALL = 16 };
typedef struct braid_record_span {
  uint64_t from, to;    /* cycles */
  uint64_t bytes;       /* of LOAD and SAVE */
  uint32_t instruction; /* of the core's program */
  uint16_t layer;
  uint8_t core, module, opcode; /* opcode 0: a stall, because of: */
  uint8_t why;                  /* 0: a token; 1 + braid_timing_idle */
} braid_record_span;

/* From the first instruction of any core to the end of the last one. */
typedef struct braid_record_layer {
  const char *name; /* the record's */
  uint64_t from, to;
} braid_record_layer;

struct braid_overlay_record {
  const braid_allocator *allocator;
  struct braid_arena *arena; /* names */
  const char *design;
  int cores;
  double clock_mhz;
  uint64_t cycles;
  braid_record_span *spans; /* in the order in which they ended */
  size_t count, capacity, most;
  braid_record_layer *layers;
  size_t layer_count;
  bool cut;                        /* there was more than fits: */
  uint64_t until;                  /* what began before this cycle is there */
  bool failed;                     /* no memory */
  const braid_timing_program *now; /* while it is made: the programs, and of each instruction its layer */
  uint16_t *layer_of[BRAID_OVERLAY_MOST_CORES];
};

/* As braid_overlay_record_make, of at most `most` spans, and those that were under way then. */
BRAID_MUST_CHECK braid_status braid_record_make(const braid_overlay_package *package,
                                                const braid_overlay_design *design, int cores, size_t most,
                                                const braid_allocator *allocator, braid_overlay_simulated *simulated,
                                                braid_overlay_record **out);
const char *braid_record_why(uint8_t why); /* "token", "fetch" ... */

/* The script of the page (timeline.js). */
extern const braid_overlay_file braid_timeline_scripts[];
extern const size_t braid_timeline_script_count;

#endif
