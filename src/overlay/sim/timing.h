/* The timing of tasks on the overlay, cycle by cycle of its clock, without their data: the two levels of dispatch, the
 * queues of a core's modules and the tokens between them, the memory controller with its ports and banks, and
 * synchronization (docs/isa.md; sections 4.1 to 4.3 of Zeng et al. 2021). Event driven: time goes from one event to the
 * next. Equal inputs have equal results. All times are modelled, none is of the machine that this runs on.
 *
 * How the memory of a card is shared: the address range of a task is spread over the banks that its cores are at, in
 * blocks of one burst; each core has a port that reads and writes at the same time, each `port_bits` wide. A bus
 * equalizer cuts what it asks for into bursts, lets `outstanding` of them be under way, and refuses what is outside of
 * the task's ranges; each bank serves one burst at a time, the ports taking turns. Instructions are fetched over the
 * wires that the core reads by, a burst at a time (timing_fetch.c). */
#ifndef BRAID_OVERLAY_TIMING_H
#define BRAID_OVERLAY_TIMING_H

#include "overlay/design.h"
#include "overlay/isa/instruction.h"

enum { BRAID_TIMING_SEGMENTS = 8 };
#define BRAID_TIMING_RESIDENT UINT64_MAX

/* A core's share of a task. */
typedef struct braid_timing_program {
  int core;                              /* of the design's */
  const braid_instruction *instructions; /* the caller's, until the task is done */
  size_t count;
  size_t first; /* where it begins: 0, or where a stopped task goes on */
} braid_timing_program;

/* Reads the program of core `core` from bytes that nobody vouches for: INVALID_FILE names the byte, the instruction and
 * what is allowed (docs/isa.md). Freed by the second, also after a failure. */
BRAID_MUST_CHECK braid_status braid_timing_read(const uint8_t *bytes, size_t count, const braid_overlay_design *design,
                                                int core, const braid_allocator *allocator, braid_timing_program *out);
void braid_timing_program_free(braid_timing_program *program, const braid_allocator *allocator);

typedef struct braid_timing_range {
  uint64_t first, lines; /* of 16 bytes, in the card's memory */
  bool read_only;        /* SAVE to it is refused */
} braid_timing_range;

typedef struct braid_timing_task {
  const braid_timing_program *programs;
  size_t core_count;
  braid_timing_range ranges[BRAID_TIMING_SEGMENTS]; /* base registers and what they may reach */
  uint64_t most_cycles;                             /* after which it has failed; 0: none */
  /* The port gates: of each core, reading, writing and instructions together, at most so many bytes in 1,024 cycles,
   * however idle the banks are, and before what cores without a gate ask for; 0: what the banks give. Of the card's
   * decoder such a core has the slots of one core for itself. */
  uint32_t gate;
  /* Whose gates they are, not 0: short tasks of one owner have no more on a core than a long one. */
  uint64_t gate_owner;
  /* Of each program the line of the card's memory at which its instructions begin, from where they are fetched, or
   * BRAID_TIMING_RESIDENT: they are in the card's memory for instructions already. NULL: all are. */
  const uint64_t *code;
} braid_timing_task;

typedef enum braid_timing_state {
  BRAID_TIMING_RUNS,
  BRAID_TIMING_ENDED,
  BRAID_TIMING_STOPPED, /* as it was asked to: it can go on elsewhere, at `stopped_at` of each core */
  BRAID_TIMING_FAILED   /* `why` says how; its cores are free */
} braid_timing_state;

/* Where a task may be stopped. A layer ends where its cores synchronize, and next under another number or not at all.
 */
typedef enum braid_timing_place { BRAID_TIMING_AT_TILE, BRAID_TIMING_AT_LAYER } braid_timing_place;

/* Why a module has no instruction. */
typedef enum braid_timing_idle {
  BRAID_TIMING_IDLE_FETCH,   /* the core's next one is not in the card's memory for instructions */
  BRAID_TIMING_IDLE_DECODER, /* the card's decoder has not handed it out */
  BRAID_TIMING_IDLE_QUEUE,   /* the next one is for another module, whose queue is full */
  BRAID_TIMING_IDLE_DRAIN,   /* SYSTEM waits for the other modules of the core */
  BRAID_TIMING_IDLE_SYNC,    /* the core waits for others */
  BRAID_TIMING_IDLE_OVER,    /* the core's program is at its end, or is to stop */
  BRAID_TIMING_IDLES
} braid_timing_idle;

/* In cycles: busy, waits and idle are together the task's time. */
typedef struct braid_timing_module {
  uint64_t busy;                     /* an instruction runs */
  uint64_t waits;                    /* one is there and lacks a token */
  uint64_t idle[BRAID_TIMING_IDLES]; /* none is there */
  uint64_t moves;                    /* of load and save: what its bytes take at the port's width */
  uint64_t bytes, instructions;
} braid_timing_module;

typedef struct braid_timing_core {
  braid_timing_module modules[BRAID_ISA_MODULES];
  uint64_t synchronizing; /* it has raised sync_local */
  size_t stopped_at;      /* its next instruction */
  uint64_t operations;    /* two for a multiply-accumulate */
  uint64_t fetched_bytes; /* of instructions, from DDR */
} braid_timing_core;

typedef struct braid_timing_result {
  braid_timing_state state;
  uint64_t began, ended;          /* cycle */
  const braid_timing_core *cores; /* as in the task's programs; the timing's */
  size_t core_count;
  const char *why;
} braid_timing_result;

typedef struct braid_timing braid_timing;

/* Something that took time, told when it is over; what takes no cycle is not told. */
typedef enum braid_timing_span_kind {
  BRAID_TIMING_SPAN_RAN,          /* an instruction, in a module */
  BRAID_TIMING_SPAN_WAITED,       /* a module, for a token */
  BRAID_TIMING_SPAN_IDLED,        /* a module, which had no instruction: `cause` is a braid_timing_idle */
  BRAID_TIMING_SPAN_SYNCHRONIZED, /* a core, for others */
  BRAID_TIMING_SPAN_TASK          /* a task: `cause` is its braid_timing_state; told of its first core */
} braid_timing_span_kind;
typedef struct braid_timing_span {
  braid_timing_span_kind kind;
  uint64_t from, to; /* cycles */
  size_t task, index;
  int core; /* of the design's; `index`: which of the task's */
  int module, cause;
  size_t instruction; /* of the core's program: the one that ran or is next */
} braid_timing_span;
/* Called within submit, stop and advance; must not call any of them. */
typedef void braid_timing_listener(void *user, const braid_timing_span *span);

/* The design must outlive it. */
BRAID_MUST_CHECK braid_status braid_timing_create(const braid_overlay_design *design, const braid_allocator *allocator,
                                                  braid_timing **out);
void braid_timing_destroy(braid_timing *timing);                                             /* NULL is allowed */
void braid_timing_listen(braid_timing *timing, braid_timing_listener *listener, void *user); /* NULL: nobody does */
uint64_t braid_timing_now(const braid_timing *timing);
/* Gives cores to a task, which begins now; *id: its number. INVALID_ARGUMENT: a core that the design lacks or that
 * another task has, or an instruction that the design's cores lack. */
BRAID_MUST_CHECK braid_status braid_timing_submit(braid_timing *timing, const braid_timing_task *task, size_t *id);
/* The task goes on to the next place of this kind, of all cores; where its cores go to a tile already, to that one. One
 * that was stopped at a tile before comes further than it was, with one core at least, so that it comes to its end
 * however often it is stopped. */
void braid_timing_stop(braid_timing *timing, size_t id, braid_timing_place place);
/* Of a task that runs: stopped at a tile now, it would go on behind the place where it began. */
bool braid_timing_has_advanced(const braid_timing *timing, size_t id);
/* The task fails now, wherever it is; its cores are free. */
void braid_timing_cancel(braid_timing *timing, size_t id);
/* Goes on until a task is no longer running, or to cycle `until`, whichever is first. *id: the task; SIZE_MAX: none. */
BRAID_MUST_CHECK braid_status braid_timing_advance(braid_timing *timing, uint64_t until, size_t *id);
braid_timing_result braid_timing_get(const braid_timing *timing, size_t id);
/* Of a task that no longer runs: its result, which is gone, and its number may be given to another task. */
void braid_timing_forget(braid_timing *timing, size_t id);

/* Bytes of the card's memory for instructions that each core of the design has. A program that fits is fetched once,
 * when the task is put on the card; a longer one with every image. */
uint64_t braid_timing_instruction_part(const braid_overlay_design *design);
/* Cycles for which a bank has been kept by bursts of any task. */
uint64_t braid_timing_bank_busy(const braid_timing *timing, int bank);
/* What an instruction of compute or side takes on a core of this design, alone, in cycles (equation 5). */
uint64_t braid_timing_cycles(const braid_overlay_design *design, const braid_instruction *instruction);

#endif
