/* A compute core, as the programs of kernels see it: a scratchpad of its own, and transfers between that and the memory
 * that it shares with the host. A program takes room in the scratchpad, gets blocks of operands into it, computes
 * there, and puts results back. It is never given an address in the shared memory: operands are numbers, and a transfer
 * that would leave the operand or the scratchpad is refused and ends the task with a sentence. So is a program that
 * takes more than the scratchpad has; one that writes beyond it without having taken it is found by the marks behind
 * it.
 *
 * The same program is run in two ways: on a core, and counted alone, which moves and computes nothing. What it costs on
 * the modelled processor (sw26010.h) is added up on the way, so that costs and work cannot drift apart. */
#ifndef BRAID_BACKEND_MANYCORE_CORE_H
#define BRAID_BACKEND_MANYCORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

/* One core group: `rows` x `columns` compute cores with `scratchpad` bytes each. */
typedef struct braid_manycore_group {
  int cores, rows, columns;
  size_t scratchpad;
} braid_manycore_group;

/* Scratchpads begin at multiples of this, and so does all that is taken in them. */
enum { BRAID_MANYCORE_ALIGNMENT = 64 };
/* Marked bytes before and behind each scratchpad, which no program may change. */
enum { BRAID_MANYCORE_MARK_BYTES = 4096 };

/* An operand in shared memory. */
typedef struct braid_manycore_operand {
  uint8_t *data;
  size_t bytes;
} braid_manycore_operand;

/* What a program costs one core, in cycles. Transfers of a step run beside the computation of the one before it where
 * the program has two buffers for them, else one after the other. */
typedef struct braid_manycore_account {
  double total;                  /* of the steps before the last */
  double get, put, compute;      /* of the step under way */
  double computed;               /* of all steps */
  double last_compute, last_put; /* of the step before it */
  double earlier_put;            /* of the one before that */
  int64_t get_bytes, put_bytes;  /* through the memory controller: shared blocks count once in all */
  int64_t macs, steps;
} braid_manycore_account;

/* Elements of the scratchpad from `begin` to before `end`; none: NULL. */
typedef struct braid_manycore_span {
  const float *begin, *end;
} braid_manycore_span;

typedef struct braid_manycore_core {
  const braid_manycore_group *group;
  const char *kernel; /* its name, for sentences */
  int id;
  uint8_t *scratchpad;
  size_t used;
  const braid_manycore_operand *operands;
  bool counts_only;
  bool two_buffers; /* set by the program: transfers overlap with computing */
  /* What this step puts, and what the step did that put before: that goes on while this one computes what it puts. */
  braid_manycore_span put, put_before;
  braid_status status;
  char detail[192];
  braid_manycore_account account;
} braid_manycore_core;

/* A block of an operand, float32: `rows` runs of `run` elements, `stride` elements apart, that begin at element
 * `first`; in the scratchpad the runs are `pitch` elements apart. `sharers`: so many cores get the same block at the
 * same time; each fetches its part and passes it to the others. */
typedef struct braid_manycore_block {
  int operand;
  int64_t first, rows, run, stride, pitch;
  int sharers;
} braid_manycore_block;

void braid_manycore_core_begin(braid_manycore_core *core, const braid_manycore_group *group, const char *kernel, int id,
                               uint8_t *scratchpad, const braid_manycore_operand *operands);
/* Room for `count` float32 in the scratchpad; NULL, and the task fails, if there is less left. In counts_only the
 * address must not be read or written. */
float *braid_manycore_take(braid_manycore_core *core, int64_t count);
void braid_manycore_get(braid_manycore_core *core, float *to, const braid_manycore_block *from);
/* `count` blocks, `stride` elements apart, and `pitch` in the scratchpad: cores that share them may fetch whole ones
 * each. */
void braid_manycore_get_blocks(braid_manycore_core *core, float *to, const braid_manycore_block *from, int64_t count,
                               int64_t stride, int64_t pitch);
/* With two buffers, puts of two steps must come from different places. */
void braid_manycore_put(braid_manycore_core *core, const float *from, const braid_manycore_block *to);
/* Accounts for a computation on the scratchpad, and says whether to do it. */
bool braid_manycore_compute(braid_manycore_core *core, double cycles, int64_t macs);
/* Ends a step: what follows belongs to the next. */
void braid_manycore_step(braid_manycore_core *core);
/* Cycles of the whole program, which has ended. */
double braid_manycore_core_cycles(const braid_manycore_core *core);

/* The memory of a scratchpad with its marks: bytes to allocate, and the scratchpad in it. */
size_t braid_manycore_scratchpad_bytes(const braid_manycore_group *group);
uint8_t *braid_manycore_scratchpad_init(const braid_manycore_group *group, uint8_t *memory);
/* Whether the marks around it are as they were; if not, they are set again. */
bool braid_manycore_scratchpad_check(const braid_manycore_group *group, uint8_t *scratchpad);

#endif
