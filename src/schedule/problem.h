/* Where and how the nodes of a graph run, as numbers: all that a policy sees. No device, graph or run is known here; a
 * problem may come from a machine's devices (runtime/plan/place.c), from published figures or from a test.
 *
 *   node     something to be computed; nodes stand in a topological order
 *   value    what a node computes or what is given on the host, with its bytes; which nodes read it
 *   offer    one way in which a device could run a set of nodes as one task: a kernel for one node, a fused pattern, or
 *            a region that a backend runs whole
 *   device   runs one task at a time; works on the memory of one space
 *   link     how data gets from one space to another
 *
 * Sets of nodes: a pattern is read from outside at its last node only; the patterns of all devices together are nested
 * or disjoint. A region may be read at any of its nodes, its set is convex, and it is nested in or disjoint from every
 * other offer of its own device. Every number says where it comes from: what is unknown is never taken for zero. */
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
  bool idle;        /* nothing is to be run for it: another name for the same memory */
  int fixed;        /* the device that the caller has fixed; -1: none */
  /* What it reads: braid_problem.reads[first_read] and those behind it. Idle nodes read and are read nothing: who reads
   * them reads the value that they rename. */
  size_t first_read, read_count;
} braid_problem_node;

typedef struct braid_problem_value {
  int32_t producer; /* the node; -1: it is given, on the host */
  size_t bytes;
  bool wanted; /* on the host, at the end */
} braid_problem_value;

typedef struct braid_offer {
  int device;
  uint32_t rank; /* among the device's offers for the same nodes: its own order, 0 is best */
  bool region;   /* else a kernel for one node or a pattern */
  const int32_t *nodes;
  size_t node_count;                   /* >= 1; ascending, none idle */
  braid_number seconds, joules, watts; /* watts: the peak */
  size_t workspace_bytes;
} braid_offer;

typedef struct braid_problem_device {
  const char *name; /* for messages */
  int space;
  braid_number idle_watts;
} braid_problem_device;

typedef struct braid_problem_link {
  double seconds;          /* until the first byte is there */
  double bytes_per_second; /* > 0 */
  int bus;                 /* transfers over links of one bus take turns; -1: they do not */
} braid_problem_link;

typedef struct braid_problem {
  const braid_problem_node *nodes;
  size_t node_count;
  const braid_problem_value *values;
  size_t value_count;
  const int32_t *reads; /* values */
  const braid_problem_device *devices;
  size_t device_count;
  int space_count; /* space 0 is the host's */
  int bus_count;
  const braid_problem_link *links; /* from space x to space; unused where both are the same */
  const braid_offer *offers;
  size_t offer_count;
  braid_number cap_watts; /* for all devices together; unknown: there is none */
} braid_problem;

/* Is everything in range, are sets what this page says? INVALID_ARGUMENT with a sentence that names the node or offer.
 * Linear in the size of the problem, but for regions: each takes the span of its nodes. */
BRAID_MUST_CHECK braid_status braid_problem_check(const braid_problem *problem, const braid_allocator *allocator);

/* May the offer be taken, as far as what the caller has fixed goes? */
bool braid_offer_allowed(const braid_problem *problem, const braid_offer *offer);

/* Is the set convex: does no path leave it and come back? `nodes` ascends; `in_set` marks its members among all nodes.
 * If not, *outside is a node on such a path. `taint` has room for node_count bytes. */
bool braid_problem_is_convex(const braid_problem *problem, const int32_t *nodes, size_t count, const bool *in_set,
                             bool *taint, int32_t *outside);

#endif
