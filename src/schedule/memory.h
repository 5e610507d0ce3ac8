/* What a plan holds in each space over time, and plans that fit.
 *
 * A weight or a state is in every space in which a node works that uses it, all the time. A value is in the space where
 * it is made from the start of its task until the last task that reads it there, or its last transfer away, has ended;
 * in another space from the start of its transfer until the last task that reads it there has ended. What is written
 * over a state takes no memory of its own. Of a task that several devices share, the space of the first has everything.
 * Instants are half-open: what ends when something begins makes room for it. Bytes add up as they are: what alignment,
 * fragments and the working memory of kernels take is not known here. */
#ifndef BRAID_SCHEDULE_MEMORY_H
#define BRAID_SCHEDULE_MEMORY_H

#include "schedule/policy.h"

typedef struct braid_memory_peak {
  size_t bytes; /* at most at once */
  double at;    /* the first instant with so many, in seconds from the start of the run */
} braid_memory_peak;

/* Of simulated choices. `out`: for each space, also those without a limit; the host's holds inputs all the time, and
 * outputs from their transfer on. O(n log n) in values and transfers. */
BRAID_MUST_CHECK braid_status braid_memory_peaks(const braid_problem *problem, const braid_choices *choices,
                                                 const braid_allocator *allocator, braid_memory_peak *out);

/* Whether simulated choices hold no more than fits, in every space and at every instant. */
BRAID_MUST_CHECK braid_status braid_memory_fits(const braid_choosing *choosing, const braid_choices *choices,
                                                bool *fits);

/* Refuses offers in the spaces that are too small for the choices: at every instant that is over, for the tasks that
 * make or read the largest of what is held, if all of them could run elsewhere, until the rest would fit. `all`: for
 * all tasks in these spaces that could. A node keeps an offer in any case. *count: of tasks; 0: there is nothing to
 * refuse. */
BRAID_MUST_CHECK braid_status braid_memory_crowd_out(const braid_choosing *choosing, const braid_choices *choices,
                                                     bool all, size_t *count);

/* UNSUPPORTED, with the device whose memory is too small by most, the instant, the bytes and what is largest. */
BRAID_MUST_CHECK braid_status braid_memory_refuse(const braid_problem *problem, const braid_choices *choices,
                                                  const braid_allocator *allocator);

#endif
