/* What operations of a training step cost on this machine's devices: a profile, corrected by what is measured while it
 * trains. */
#ifndef BRAID_STEERING_COSTS_H
#define BRAID_STEERING_COSTS_H

#include "base/arena.h"
#include "base/map.h"
#include "braid/profile.h"
#include "planning/machine.h"
#include "runtime/machine.h"

typedef struct braid_costs {
  const braid_allocator *allocator;
  const braid_graph *graph;        /* the step, resolved; the caller's */
  braid_modelled_machine *machine; /* device d is device d of the machine that it runs on */
  size_t device_count;
  const char **specs;    /* per device: its name in the profile */
  braid_name_map *nodes; /* a node's name: its number */
  char (*keys)[33];      /* per node; "": nothing runs */
  size_t row_capacity;   /* of the profile's rows */
  braid_arena *arena;
} braid_costs;

/* Takes from a database what the devices named in `specs` (separated by spaces) have there. NOT_FOUND: one of them has
 * nothing. All zero may be deinitialized. */
BRAID_MUST_CHECK braid_status braid_costs_init(braid_costs *costs, const braid_allocator *allocator,
                                               const braid_graph *graph, const char *specs, braid_profile_db *db,
                                               const char *db_path);
void braid_costs_deinit(braid_costs *costs);
/* The number of a node; -1: there is none, or nothing of it runs. */
int64_t braid_costs_node(const braid_costs *costs, const char *name);
/* Seconds of a node on a device; NAN: the profile has none. */
double braid_costs_get(const braid_costs *costs, size_t node, size_t device);
/* Of all nodes, one after the other, on a device; NAN: the profile lacks one. */
double braid_costs_sum(const braid_costs *costs, size_t device);
/* How many of the `*all` nodes the profile has nothing for on a device, though nothing says that it cannot run them;
 * *first is one of them. */
size_t braid_costs_missing(const braid_costs *costs, size_t device, size_t *all, const char **first);
/* Corrects the costs on a device: `seconds` per node, as measured there; < 0: it was not. What was not measured changes
 * by `factor`. Nodes that are the same operation get the mean of those that were measured. What the profile had
 * nothing for has a time now, and no known power. */
BRAID_MUST_CHECK braid_status braid_costs_correct(braid_costs *costs, size_t device, const double *seconds,
                                                  double factor);

#endif
