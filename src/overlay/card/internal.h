/* What the files of the card share. */
#ifndef BRAID_OVERLAY_CARD_INTERNAL_H
#define BRAID_OVERLAY_CARD_INTERNAL_H

#include "overlay/card/card.h"
#include "overlay/card/ranges.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/sim/timing.h"

typedef struct card_job {
  braid_card_result result;
  uint8_t *input, *output;
} card_job;

typedef enum card_state {
  CARD_IDLE,      /* no job, or it waits for cores */
  CARD_SWITCHING, /* it has cores, and its instructions are on their way */
  CARD_RUNNING
} card_state;

/* Instructions of some cores, decoded. */
typedef struct card_programs {
  int cores;    /* 0: none */
  size_t layer; /* at which they begin; of recurrent networks the step */
  braid_programs made;
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  braid_instruction *instructions[BRAID_OVERLAY_MOST_CORES];
  size_t counts[BRAID_OVERLAY_MOST_CORES];
} card_programs;

typedef struct card_context {
  bool open;
  uint64_t number; /* from 1 on */
  braid_card_request request;
  braid_card_code code;
  char *name;
  uint64_t bytes[BRAID_OVERLAY_SEGMENTS]; /* of its segments, one behind the other */
  bool read_only[BRAID_OVERLAY_SEGMENTS];
  braid_range range;
  card_job *jobs;                       /* by sequence number */
  size_t job_count, job_capacity, next; /* next: the first that is not done */
  card_state state;
  uint64_t cores, last_cores, loaded; /* loaded: cores that hold its programs, 0: none */
  card_programs programs;
  /* Where its job is: `layer` is not done; `from` is of its programs as they are. inside: a part of the layer is done;
   * redone: it was begun again, for another number of cores. */
  bool begun, inside, redone;
  size_t layer, from[BRAID_OVERLAY_MOST_CORES];
  uint8_t *vectors; /* of a recurrent network: as the job left them where it was stopped; NULL: of others */
  size_t task;
  uint64_t since, ready_at, stop_at; /* of its state; the end of a switch; when it was told to stop: UINT64_MAX: not */
  int wanted;
  braid_card_place place;
  braid_card_counters counters;
  size_t done; /* jobs that braid_card_advance has told of */
} card_context;

struct braid_card {
  const braid_allocator *allocator;
  braid_card_options options;
  const braid_overlay_design *design;
  braid_timing *timing;
  braid_ranges ranges;
  uint8_t *ddr; /* of the addresses that were used */
  uint64_t ddr_bytes;
  uint64_t free; /* cores */
  card_context **contexts;
  size_t count, capacity;
  bool kept_alone; /* of a copy, to choose from: contexts that don't keep their cores have none */
};

enum { kCardLine = 16, kCardStep = 1 << 16 };

static inline int card_count(uint64_t cores) {
  return __builtin_popcountll(cores);
}

/* cores.c: the banks of cores, from first to last, and cores for a context: `count` of those that are free or its own,
 * as close to others as need be; 0: there are not so many, or no bandwidth for them. */
void card_banks(const braid_overlay_design *design, uint64_t cores, int *first, int *last);
uint64_t card_choose(const braid_card *card, const card_context *context, int count);
/* Whether it could have so many, with the bandwidth that it is promised: of all cores that no other context keeps for
 * itself; `empty`: of a card without others. */
bool card_could_have(const braid_card *card, const card_context *context, int count, bool empty);

/* card.c: INVALID_ARGUMENT: no card of the design has so many cores with that bandwidth. */
braid_status card_check_promise(const braid_card *card, const braid_card_request *request, int cores);

/* programs.c */
void card_programs_free(const braid_card *card, card_programs *programs);
/* Makes and decodes the programs of so many cores from a layer on, if there are others. INVALID_FILE: code of its own
 * is malformed. */
braid_status card_programs_make(braid_card *card, card_context *context, int cores, size_t layer);
/* Bytes of a core's program. */
uint64_t card_programs_bytes(const card_programs *programs, int core);
/* How many layers end before this instruction of a core. */
size_t card_programs_layers(const card_programs *programs, int core, size_t at);
/* Whether each core is at the beginning of a layer. */
bool card_programs_between(const card_programs *programs, const size_t *at);
/* The most that the programs of a package may have, of all cores. */
braid_status card_programs_room(const braid_card *card, card_context *context, uint64_t *bytes);
/* What a switch to these cores takes, in cycles: `compiled`: programs are new; else they may be there already. */
uint64_t card_switch_cycles(const braid_card *card, const card_context *context, uint64_t cores, bool compiled);

/* compute.c: what the job did from `from` to `to` (NULL: to its end), in the card's memory. */
braid_status card_compute(braid_card *card, card_context *context, const size_t *from, const size_t *to);
braid_status card_reserve(braid_card *card, uint64_t bytes);

#endif
