/* A card that tenants share, in virtual time, with their programs: hardware contexts own memory and have cores; their
 * jobs run on one timing simulator (overlay/sim/timing.h), side by side, and are computed bit for bit by the functional
 * one in one image of the card's memory. Time is counted in cycles of the design's clock; all of it is modelled.
 *
 * A context owns a range of addresses at every bank of the card: constants are in all of them, maps in those at which
 * its cores are, over which bursts take turns. So a context may move to cores at other banks, which costs copying its
 * maps. Ranges are cleared when a context is closed; the next one finds 0, in them and on its cores.
 *
 * A context runs its jobs one at a time, in the order of their sequence numbers, as a queue of Linux's drm_sched does.
 * Contexts whose next job waits get cores by priority, then by the job's age; the first of them that does not fit holds
 * up those behind it, unless contexts that keep their cores leave too few for it, or too little bandwidth. Of the free
 * cores those are taken whose banks have the fewest others (Zeng et al. 2021, section 4.2.2).
 *
 * A change of cores takes effect at a place (after the task, the layer, the tile). Then the card compiles and sends
 * what it lacks of instructions (equation 10), while it clears the memories of the cores, and copies maps. After a
 * layer a job goes on with any number of cores; at a tile with as many as it had, else it begins its layer again; the
 * next change waits for the end of that layer. */
#ifndef BRAID_OVERLAY_CARD_CARD_H
#define BRAID_OVERLAY_CARD_CARD_H

#include "overlay/compiler/package.h"
#include "overlay/sim/functional.h"

typedef struct braid_card braid_card;

typedef struct braid_card_options {
  const braid_overlay_design *design; /* must outlive the card */
  uint64_t bank_bytes;                /* of memory; 0: the design's */
  double compile_seconds;             /* that the dynamic compiler takes; 0: BRAID_CARD_COMPILE_US */
  bool times_only;                    /* nothing is computed; outputs are left as they are */
} braid_card_options;
/* The most that compiler_bench measures for networks of 224 x 224 is near to it, and most take less. */
enum { BRAID_CARD_COMPILE_US = 50 };

typedef enum braid_card_place { BRAID_CARD_AFTER_TASK, BRAID_CARD_AFTER_LAYER, BRAID_CARD_AFTER_TILE } braid_card_place;

/* Programs of a tenant's own, for as many cores as it has: anything, from anybody. */
typedef struct braid_card_code {
  const braid_overlay_code *programs; /* one for each core */
  uint64_t bytes[BRAID_OVERLAY_SEGMENTS];
  bool read_only[BRAID_OVERLAY_SEGMENTS];
  const uint8_t *constants; /* of segment 0; NULL: 0 */
} braid_card_code;

typedef struct braid_card_request {
  const char *name;
  const braid_package *package; /* what its jobs run; the caller's until the context is closed. Or: */
  const braid_card_code *code;  /* likewise; such jobs change cores after the task alone */
  int cores;                    /* that a job has; of a package 0 too: none for now */
  bool keeps_cores;             /* has them all the time, job or none (a public card) */
  /* Quality of service. */
  double priority;        /* > 0; 0: 1 */
  double latency_seconds; /* after which a job that is done is late; 0: none */
  double bandwidth;       /* of a bank, for each core: its gate lets so much pass, whatever others do; the promises at a
                           * bank are at most 1 together. 0: nothing is promised, ports take turns */
  uint64_t most_cycles;   /* that a job may run, else it is ended with TIMEOUT; 0: no limit */
} braid_card_request;

/* In cycles. */
typedef struct braid_card_result {
  uint64_t sequence;
  bool done, late;
  braid_status status; /* OK; OUT_OF_RANGE, INVALID_FILE: its program is wrong; TIMEOUT */
  const char *why;     /* of a failure: a sentence; the context's */
  uint64_t submitted, began, ended;
  uint64_t ran, switching, draining; /* on cores; waiting for instructions; of `ran`, after it was to stop */
  uint64_t switches, preemptions, migrations, redone_layers;
} braid_card_result;

/* Of a context, named as struct amdxdna_drm_hwctx_entry of Linux names them. */
typedef struct braid_card_counters {
  uint64_t command_submissions, command_completions, migrations, preemptions, errors, time_outs, late;
  uint64_t core_cycles;
} braid_card_counters;

typedef struct braid_card_context {
  const char *name;
  braid_card_counters counters;
  uint64_t cores;             /* that it holds: a bit for each */
  uint64_t first_byte, bytes; /* of each bank */
  size_t jobs;                /* not done */
} braid_card_context;

BRAID_MUST_CHECK braid_status braid_card_create(const braid_card_options *options, const braid_allocator *allocator,
                                                braid_card **out);
void braid_card_destroy(braid_card *card); /* closes all contexts; NULL is allowed */
uint64_t braid_card_now(const braid_card *card);
/* Cores that no context has; bytes of a bank that no context owns. */
uint64_t braid_card_free_cores(const braid_card *card);
uint64_t braid_card_free_bytes(const braid_card *card);

/* *id: of the new context, never used again. NO_MEMORY: the card has no range for it; BUSY: it is to keep cores and
 * these are not free; INVALID_ARGUMENT: the package is for other cores, a number is out of its range, or no bank has
 * the bandwidth for so many cores. Nothing is left of a context that could not be opened. */
BRAID_MUST_CHECK braid_status braid_card_open(braid_card *card, const braid_card_request *request, size_t *id);
/* Ends its job wherever it is, frees its cores and clears its memory. */
void braid_card_close(braid_card *card, size_t id);
/* A job: input is copied (segment 2, as docs/isa.md has maps; NULL: 0); output (segment 3; may be NULL) is the caller's
 * until the job is done, and is written if it ends well, else left as it is. *sequence: from 1 on. */
BRAID_MUST_CHECK braid_status braid_card_submit(braid_card *card, size_t id, const uint8_t *input, uint8_t *output,
                                                uint64_t *sequence);
/* From now on its jobs have so many cores, the one that runs from its next place on; 0: it gives its cores back and
 * waits. INVALID_ARGUMENT: more than there are, or than banks have its bandwidth for; UNSUPPORTED: code of its own has
 * the cores that it is for. */
BRAID_MUST_CHECK braid_status braid_card_reconfigure(braid_card *card, size_t id, int cores, braid_card_place place);
/* Goes on until a job is done, or to cycle `until`. *id: of which context; SIZE_MAX: of none. If nothing can happen any
 * more, time stands still where `until` is UINT64_MAX. */
BRAID_MUST_CHECK braid_status braid_card_advance(braid_card *card, uint64_t until, size_t *id);
/* Goes on until this job is done. TIMEOUT: it is not after `most` cycles, or never will be (the job stays).
 * NOT_FOUND: no such job. */
BRAID_MUST_CHECK braid_status braid_card_wait(braid_card *card, size_t id, uint64_t sequence, uint64_t most,
                                              braid_card_result *result);
/* Of a job that was submitted; NOT_FOUND else. */
BRAID_MUST_CHECK braid_status braid_card_get_result(const braid_card *card, size_t id, uint64_t sequence,
                                                    braid_card_result *result);
BRAID_MUST_CHECK braid_status braid_card_get_context(const braid_card *card, size_t id, braid_card_context *out);

#endif
