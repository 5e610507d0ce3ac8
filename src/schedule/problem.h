/* The placement problem as plain numbers: all that a policy sees. It does not refer to devices, graphs or executions;
 * problems come from a machine's devices (runtime/plan/place.c), from published figures or from tests.
 *
 *   node     an operation; nodes are in topological order
 *   value    the result of a node or an input on the host: its size and the nodes that read it
 *   offer    a candidate: a device can run a set of nodes as one task, by a kernel for one node, a fused pattern, or
 *            a region that a backend runs whole
 *   device   runs one task at a time; accesses one memory space; runs at one of its clocks at a time
 *   link     a connection between two memory spaces; its numbers depend on the kinds of both
 *   kept     what nodes read and keep from run to run: weights, states
 *
 * Sets of nodes: a pattern is read from outside at its last node only; the patterns of all devices together are nested
 * or disjoint. A region may be read at any of its nodes, its set is convex, and it is nested in or disjoint from every
 * other offer of its own device. Every number has an origin (measured, modelled, unknown); unknown is never treated as
 * zero. */
#ifndef BRAID_SCHEDULE_PROBLEM_H
#define BRAID_SCHEDULE_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef enum braid_number_source { BRAID_UNKNOWN, BRAID_MODELLED, BRAID_MEASURED } braid_number_source;

typedef struct braid_number {
  double value; /* >= 0; 0 if unknown */
  braid_number_source source;
} braid_number;

typedef struct braid_problem_node {
  const char *name; /* for messages */
  bool idle;        /* no task is run for it: its result is a view of the same memory */
  int fixed;        /* the device that the caller has fixed; -1: none */
  /* The values that it reads: braid_problem.reads[first_read ... first_read + read_count - 1]. Idle nodes have no reads
   * and no readers: readers of their result read the value that it is a view of. */
  size_t first_read, read_count;
} braid_problem_node;

typedef struct braid_problem_value {
  int32_t producer; /* the node; -1: an input, on the host */
  size_t bytes;
  bool wanted; /* an output, needed on the host */
} braid_problem_value;

typedef struct braid_offer {
  int device; /* what it reads is brought into this one's space, and its results are there */
  /* Other devices that it occupies meanwhile, each with a part of the work; ascending, without `device`. Their share of
   * the inputs is not brought one by one. */
  const int *also;
  size_t also_count;
  int clock;     /* the state of the clocks of all of them that it needs; 0: the one in which they start */
  uint32_t rank; /* position in the device's order of offers for the same nodes; 0 is best */
  bool region;   /* else a kernel for one node or a pattern */
  const int32_t *nodes;
  size_t node_count; /* >= 1; ascending, none idle */
  /* Energy and peak power: all that the occupied devices draw while it runs, what they draw when idle included. */
  braid_number seconds, joules, watts;
  /* What it demands of the device's memory and of its units, per clock cycle. Unknown where nobody counted. */
  braid_number bytes_per_second, instructions_per_cycle;
  size_t workspace_bytes;
} braid_offer;

typedef enum braid_device_class {
  BRAID_CLASS_OTHER,
  BRAID_CLASS_CPU,
  BRAID_CLASS_GPU,
  BRAID_CLASS_FPGA
} braid_device_class;

typedef struct braid_problem_device {
  const char *name;         /* for messages */
  braid_device_class class; /* for policies that are defined by it */
  int space;
  braid_number idle_watts;
  braid_number cap_watts; /* of this device; unknown: no limit */
  double clock_seconds;   /* a change of its clock takes that long, and it does nothing else meanwhile */
  /* By which part of its time a task takes longer that starts while other devices run tasks, and while a transfer
   * from or to the device's space is under way; unknown: not modelled. */
  braid_number slower_beside, slower_with_traffic;
  /* It has no memory of its own: what its tasks read stays where it came from until they end, and what they make is
   * where it goes from their start on. */
  bool borrows;
} braid_problem_device;

typedef struct braid_problem_link {
  double seconds;          /* latency */
  double bytes_per_second; /* > 0 */
} braid_problem_link;

/* Transfers over one bus exclude each other; -1: what leaves, or what arrives, excludes nothing. */
typedef struct braid_problem_space {
  int kind; /* row and column of `links` */
  int out_bus, in_bus;
} braid_problem_space;

/* A weight or a state: in every space in which a node works that uses it, all the time. */
typedef struct braid_problem_kept {
  const char *name; /* for messages */
  size_t bytes;
  int32_t next;                  /* the value that is written over it, if a node that uses it computes that; -1: none */
  size_t first_user, user_count; /* nodes: braid_problem.users[first_user ... first_user + user_count - 1] */
} braid_problem_kept;

typedef struct braid_problem {
  const braid_problem_node *nodes;
  size_t node_count;
  const braid_problem_value *values;
  size_t value_count;
  const int32_t *reads; /* values */
  const braid_problem_device *devices;
  size_t device_count;
  const braid_problem_space *spaces; /* space 0 is the host's */
  int space_count, bus_count, kind_count;
  const braid_problem_link *links; /* from kind x to kind; between two spaces of a kind too */
  /* Bytes that fit into each space; 0: no limit, as the host's always is; NULL: no space has one. */
  const size_t *capacities;
  const braid_problem_kept *kept;
  size_t kept_count;
  const int32_t *users;
  const braid_offer *offers;
  size_t offer_count;
  braid_number cap_watts; /* for all devices together; unknown: no limit */
  /* Below which bandwidth, or below how many instructions per cycle, a node of a fast device may be as fast on another
   * one (Hype-training, section 3.2); unknown: no such filter. */
  braid_number bandwidth_threshold, instructions_threshold;
} braid_problem;

/* Checks ranges and the rules for sets above; INVALID_ARGUMENT names the node or offer. Linear in the size of the
 * problem, except for regions, whose cost is the span of their nodes. */
BRAID_MUST_CHECK braid_status braid_problem_check(const braid_problem *problem, const braid_allocator *allocator);

/* Between two different spaces. */
const braid_problem_link *braid_problem_link_between(const braid_problem *problem, int from_space, int to_space);
/* Seconds of a transfer from one space to another, if nothing else uses the link; 0 within one. */
double braid_problem_moving(const braid_problem *problem, int32_t value, int from_space, int to_space);
/* What the devices that the offer occupies draw when they are idle; an unknown one counts as 0. */
double braid_offer_idle_watts(const braid_problem *problem, const braid_offer *offer);
/* Whether fixed nodes allow the offer. */
bool braid_offer_allowed(const braid_problem *problem, const braid_offer *offer);

/* Whether the set is convex (no path leaves it and returns). `nodes` is ascending; `in_set` marks its members among all
 * nodes. If it is not, *outside is a node on such a path. `taint`: working memory of node_count bytes. */
bool braid_problem_is_convex(const braid_problem *problem, const int32_t *nodes, size_t count, const bool *in_set,
                             bool *taint, int32_t *outside);

#endif
