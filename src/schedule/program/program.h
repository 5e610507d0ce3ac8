/* A placement problem as a linear program: which offer runs each node, when it starts, what has to move; least energy,
 * while the schedule takes no longer than a limit. Every schedule that the simulator can play is a solution, so no plan
 * costs less than the program's optimum.
 *
 * Exact (small problems): offers are taken or not, and of two tasks of one device one comes first. Relaxed (a bound for
 * large ones): shares of offers, and devices that are alike count as one that is so many times as fast; the order on a
 * device, the changes of its clocks and waiting for a bus are left out, but not that all of its work, or all that goes
 * over a bus, fits into the time.
 *
 * Columns, in units of the limit and of a scale of energy:
 *   share of an offer      0 to 1; its cost is what it draws beyond the idle power of its devices
 *   start of a node        of the task that covers it
 *   end                    of the schedule; its cost is the idle power of all devices
 *   movement               of a value that a reader needs in another space; 0 to 1
 *   order of two nodes     1: the task of the first one ends before that of the second starts (exact only) */
#ifndef BRAID_SCHEDULE_PROGRAM_H
#define BRAID_SCHEDULE_PROGRAM_H

#include "schedule/policy.h"

enum { BRAID_PROGRAM_GROUPS = 64 }; /* of devices or of spaces, at most */

typedef struct braid_program_column {
  double cost, lower, upper;
  bool whole; /* it must be 0 or 1 */
} braid_program_column;

typedef struct braid_program_row {
  double lower, upper; /* either may be infinite, or both be equal */
} braid_program_row;

typedef struct braid_program_term {
  size_t row, column;
  double value;
} braid_program_term;

typedef struct braid_program_pair {
  int32_t first, second; /* nodes */
} braid_program_pair;

typedef struct braid_program {
  const braid_problem *problem;
  const braid_allocator *allocator;
  bool exact, capped;
  double seconds, joules; /* that are 1 in its columns */
  /* Devices and spaces that are alike are one group each; if exact, every one is its own. */
  int *group_of_device, *group_of_space;
  size_t device_groups, space_groups;
  size_t *group_devices;
  int *space_kinds; /* per group of spaces: their kind */
  size_t *bus_rows; /* per group of spaces: of what comes over its buses; SIZE_MAX: not all of them have one */
  size_t *out_rows; /* the same of what leaves */
  int32_t *offers;  /* of the first columns */
  size_t offer_count;
  const braid_offer *unweighed; /* the first that is left out since its time or energy is unknown; NULL: none is */
  size_t *first_offer;          /* per node: its columns, node_offers[first_offer[n]] to [first_offer[n + 1]] */
  int32_t *node_offers;
  size_t starts, end, orders; /* columns: start of node 0, the end, the first pair's order */
  braid_program_pair *pairs;
  size_t pair_count;
  braid_program_column *columns;
  size_t column_count, column_capacity;
  braid_program_row *rows;
  size_t row_count, row_capacity;
  braid_program_term *terms;
  size_t term_count, term_capacity;
  braid_arena *memory; /* of what does not grow */
} braid_program;

/* `refused`: per offer. `limit`: seconds, > 0. Offers of unknown time or energy are left out, so that where there is
 * one
 * (`unweighed`) a solution is no bound of all plans. *possible: false if some
 * node then has none, if idle power is unknown, if devices or spaces make too many groups, or if it is exact and would
 * have more than `most` terms; a relaxed one then lacks some of what comes after what, and its bound is lower. */
BRAID_MUST_CHECK braid_status braid_program_make(const braid_problem *problem, const bool *refused, double limit,
                                                 bool capped, bool exact, size_t most, const braid_allocator *allocator,
                                                 braid_program *out, bool *possible);
void braid_program_free(braid_program *program);

/* --- for building it: every one of them fails with NO_MEMORY only --------------------------------------------------
 */
BRAID_MUST_CHECK braid_status braid_program_add_column(braid_program *program, double cost, double upper, bool whole,
                                                       size_t *column);
BRAID_MUST_CHECK braid_status braid_program_add_row(braid_program *program, double lower, double upper, size_t *row);
/* Terms of one row and column are summed up. */
BRAID_MUST_CHECK braid_status braid_program_add_term(braid_program *program, size_t row, size_t column, double value);
/* What the offer of a column takes, in the program's unit. */
double braid_program_seconds(const braid_program *program, size_t column);
bool braid_program_covers(const braid_program *program, size_t column, int32_t node);
/* order.c: what makes it exact. */
BRAID_MUST_CHECK braid_status braid_program_add_order(braid_program *program);

/* --- solving, by GLPK (solve.c); UNSUPPORTED: it is not there ------------------------------------------------------
 */
/* A lower bound of the relaxed program: its optimum, or what so many iterations of the dual simplex method prove.
 * INFINITY: it has no solution. In joules. */
BRAID_MUST_CHECK braid_status braid_program_relax(const braid_program *program, int iterations, double *joules);

typedef struct braid_program_search {
  /* Asked with whole shares, one per offer's column, and the column values of the whole program: the true end of such
   * a schedule, in the program's unit (INFINITY: it has none), and what it costs. It keeps the best schedule. */
  braid_status (*judge)(const double *values, double *end, double *cost, void *context);
  void *context;
  double best;   /* what is known before; INFINITY: nothing */
  size_t nodes;  /* of the search, at most */
  double joules; /* out: no schedule costs less */
  bool finished; /* out: the search was not cut short */
} braid_program_search;
BRAID_MUST_CHECK braid_status braid_program_search_run(const braid_program *program, braid_program_search *search);

/* --- the bound -----------------------------------------------------------------------------------------------------
 */
/* Joules that every plan needs at least which takes no longer than `limit` seconds, and, if `capped`, keeps the caps;
 * unknown if there is no such number: an unknown idle power, an offer of unknown time or energy that such a plan could
 * take (*unweighed: the first; NULL: there is none), no GLPK, or too many kinds of devices. */
BRAID_MUST_CHECK braid_status braid_problem_bound(const braid_problem *problem, double limit, bool capped,
                                                  const braid_allocator *allocator, braid_number *out,
                                                  const braid_offer **unweighed);

#endif
