/* What the two levels of dispatch have in common: timing.c is the card's (tasks, synchronization, time), timing_core.c
 * a core's (modules, tokens, queues, SYSTEM), timing_fetch.c the card's memory for instructions. */
#ifndef BRAID_OVERLAY_TIMING_INTERNAL_H
#define BRAID_OVERLAY_TIMING_INTERNAL_H

#include "overlay/sim/events.h"
#include "overlay/sim/memory.h"
#include "overlay/sim/timing.h"

enum { BRAID_TIMING_MOST_QUEUE = 64, BRAID_TIMING_WHY = 256 /* bytes of a sentence */ };

/* What a module does: runs an instruction, has one that lacks a token, or has none, from BRAID_TIMING_DOES_NOTHING on
 * for each reason of braid_timing_idle. */
enum { BRAID_TIMING_DOES_RUN, BRAID_TIMING_DOES_WAIT, BRAID_TIMING_DOES_NOTHING };

typedef struct timing_module {
  size_t waiting[BRAID_TIMING_MOST_QUEUE]; /* instructions, oldest first */
  int first, count;
  bool busy, lacks; /* its next instruction lacks a token */
  size_t runs;
  uint64_t began; /* the one that runs */
  int does;       /* as accounted for, since: */
  uint64_t since;
} timing_module;

typedef enum timing_core_state {
  CORE_FREE,
  CORE_RUNS,
  CORE_AT_SYSTEM,
  CORE_SYNCHRONIZES,
  CORE_STOPPED,
  CORE_ENDED
} timing_core_state;

/* Instructions on their way through the card's memory for them, in bytes since the core began. */
typedef struct timing_fetch {
  bool on;                 /* else all of them are there */
  uint64_t line;           /* of the card's memory: where the next ones are */
  uint64_t left;           /* not asked for yet */
  uint64_t arrived, taken; /* taken: handed to the core */
  uint64_t asked;          /* on their way; 0: none */
} timing_fetch;

typedef struct timing_core {
  timing_core_state state;
  braid_timing_idle cause; /* why modules that have no instruction have none */
  uint32_t epoch;          /* counts the tasks that it had */
  size_t task, index;      /* which of the task's */
  const braid_instruction *instructions;
  size_t first;                      /* where it began */
  size_t count, next;                /* to be handed out */
  size_t arriving;                   /* SIZE_MAX: none is on its way from the card's decoder */
  bool wants;                        /* to be handed the next one */
  uint64_t raised_at;                /* sync_local */
  size_t furthest;                   /* behind the last instruction that compute, side or save has begun */
  size_t saved;                      /* behind the last SAVE that has begun */
  size_t stops_at;                   /* the tile at which it stops; SIZE_MAX: it is not to */
  size_t repeats[BRAID_ISA_REPEATS]; /* LOADs that are done before it goes on at a tile */
  int repeat_count, repeated;
  timing_fetch fetch;
  timing_module modules[BRAID_ISA_MODULES];
  uint8_t tokens[BRAID_ISA_MODULES][BRAID_ISA_MODULES]; /* from, to */
} timing_core;

typedef struct timing_task {
  braid_timing_result result;
  braid_timing_core *counts; /* with room behind them for the next two */
  int *cores;
  char *why;
  size_t next_unused;
  braid_timing_range ranges[BRAID_TIMING_SEGMENTS];
  int first_bank, banks;
  uint32_t gate;
  uint64_t gate_owner;
  uint64_t limit; /* the cycle at which it fails */
  bool stops;     /* it is to */
  braid_timing_place place;
  bool cores_stop; /* its cores know where */
} timing_task;

struct braid_timing {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  braid_event_queue queue;
  braid_memory *memory;
  uint64_t now, decoder_free;
  bool dispatching;   /* an event of the decoder is under way */
  uint64_t own_slots; /* of the decoder's: cores with a gate */
  int last_turn;
  timing_core cores[BRAID_OVERLAY_MOST_CORES];
  timing_task *tasks;
  size_t task_count, task_capacity;
  size_t unused;  /* numbers of forgotten tasks, a list: one more than the first; 0: none */
  uint64_t limit; /* of the running tasks the first, and whose it is; UINT64_MAX: none has one */
  size_t limited;
  size_t changed; /* a task that no longer runs; SIZE_MAX: none */
  braid_status status;
  braid_timing_listener *listener;
  void *user;
};

static inline braid_timing_core *braid_timing_counts(braid_timing *t, const timing_core *c) {
  return &t->tasks[c->task].counts[c->index];
}

static inline int braid_timing_index(const braid_timing *t, const timing_core *c) {
  return (int)(c - t->cores);
}

/* --- timing.c ------------------------------------------------------------------------------------------------------
 * After any of these the core's task may have ended: then its epoch is another one. */
void braid_timing_fail(braid_timing *t, const timing_core *c, size_t instruction, const char *why);
void braid_timing_synchronize(braid_timing *t, size_t task); /* one more of its cores has raised sync_local */
void braid_timing_core_ended(braid_timing *t, timing_core *c);
void braid_timing_stop_cores(braid_timing *t, size_t id);        /* of a task that is to stop, as soon as it may */
void braid_timing_core_stopped(braid_timing *t, timing_core *c); /* it stands at the tile at which it is to stop */
void braid_timing_want(braid_timing *t, timing_core *c);         /* the core has room for its next instruction */

/* --- timing_core.c -------------------------------------------------------------------------------------------------
 */
/* Begins what can begin. */
void braid_timing_core_goes_on(braid_timing *t, timing_core *c);
void braid_timing_core_takes(timing_core *c); /* what comes from the decoder */
void braid_timing_module_done(braid_timing *t, timing_core *c, int module);
/* Fails the task if none of its cores can go on any more, this one included. */
void braid_timing_find_deadlock(braid_timing *t, const timing_core *c);
/* Finds the LOADs that the tile before instruction `first` repeats. Returns how many; -1: it names something else. */
int braid_timing_find_repeats(const braid_timing_program *program, size_t out[BRAID_ISA_REPEATS]);
/* If it were to stop now, it would go on behind the place where it began. */
bool braid_timing_core_has_advanced(const timing_core *c);
/* Where it is to stop, by what it has begun. */
void braid_timing_core_to_stop(timing_core *c);
/* What its modules did up to now is counted; `ends`: they do nothing from here on. */
void braid_timing_account(braid_timing *t, timing_core *c, bool ends);
void braid_timing_tell(const braid_timing *t, const timing_core *c, braid_timing_span_kind kind, int module, int cause,
                       uint64_t from, size_t instruction);

/* --- timing_fetch.c ------------------------------------------------------------------------------------------------
 */
void braid_timing_fetch_begin(braid_timing *t, timing_core *c, uint64_t first_line);
bool braid_timing_fetch_has(const timing_core *c); /* the core's next instruction */
void braid_timing_fetch_take(braid_timing *t, timing_core *c);
void braid_timing_fetch_arrives(braid_timing *t, timing_core *c);

/* --- timing_cycles.c -----------------------------------------------------------------------------------------------
 */
uint64_t braid_timing_operations(const braid_instruction *instruction); /* two for a multiply-accumulate */

#endif
