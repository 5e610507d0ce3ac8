/* Large problems for tests and measurements: layers of nodes, each of which reads two of the layer before; GPUs with
 * two clocks, and FPGAs; each node may run on some of them, which follow each other around. */
#ifndef BRAID_SCHEDULE_LARGE_PROBLEM_H
#define BRAID_SCHEDULE_LARGE_PROBLEM_H

#include <stdio.h>
#include <stdlib.h>

#include "schedule/problem.h"

typedef struct large_problem {
  braid_problem problem;
  braid_problem_node *nodes;
  braid_problem_value *values;
  braid_problem_device *devices;
  braid_problem_space *spaces;
  braid_problem_link links[4];
  braid_offer *offers;
  int32_t *reads, *ids;
} large_problem;

enum { LARGE_WINDOW = 16 }; /* devices that may run a node, at most */

static inline void large_free(large_problem *l) {
  free(l->nodes), free(l->values), free(l->devices), free(l->spaces), free(l->offers), free(l->reads), free(l->ids);
}

static inline void large_offers(large_problem *l, size_t node, size_t devices) {
  size_t window = devices < LARGE_WINDOW ? devices : LARGE_WINDOW;
  for (size_t k = 0; k < window; k++) {
    size_t d = (node * window + k) % devices;
    bool fpga = d % 2;
    for (int clock = 0; clock < (fpga ? 1 : 2); clock++) {
      double seconds = 1e-3 * (double)(1 + node % 7) * (fpga ? 1.5 : 1) * (clock ? 1.2 : 1);
      double watts = fpga ? 30 : clock ? 180 : 250;
      l->offers[l->problem.offer_count++] = (braid_offer){.device = (int)d,
                                                          .clock = clock,
                                                          .rank = (uint32_t)clock,
                                                          .nodes = &l->ids[node],
                                                          .node_count = 1,
                                                          .seconds = {seconds, BRAID_MODELLED},
                                                          .joules = {seconds * watts, BRAID_MODELLED},
                                                          .watts = {watts * 1.1, BRAID_MODELLED}};
    }
  }
}

/* False: out of memory. */
static inline bool large_make(large_problem *l, size_t nodes, size_t width, size_t devices) {
  *l = (large_problem){.links = {{0, 1e10}, {1e-5, 1e10}, {1e-5, 1e10}, {2e-5, 5e9}}};
  l->nodes = calloc(nodes, sizeof *l->nodes);
  l->values = calloc(nodes + 1, sizeof *l->values);
  l->devices = calloc(devices, sizeof *l->devices);
  l->spaces = calloc(devices + 1, sizeof *l->spaces);
  l->offers = calloc(nodes * LARGE_WINDOW * 2, sizeof *l->offers);
  l->reads = calloc(2 * nodes, sizeof *l->reads);
  l->ids = calloc(nodes, sizeof *l->ids);
  if (!l->nodes || !l->values || !l->devices || !l->spaces || !l->offers || !l->reads || !l->ids) return false;
  l->problem = (braid_problem){.nodes = l->nodes,
                               .node_count = nodes,
                               .values = l->values,
                               .value_count = nodes + 1,
                               .reads = l->reads,
                               .devices = l->devices,
                               .device_count = devices,
                               .spaces = l->spaces,
                               .space_count = (int)devices + 1,
                               .bus_count = 2 * (int)devices + 2,
                               .kind_count = 2,
                               .links = l->links,
                               .offers = l->offers};
  l->spaces[0] = (braid_problem_space){0, -1, -1};
  for (size_t d = 0; d < devices; d++) {
    l->devices[d] = (braid_problem_device){.name = d % 2 ? "fpga" : "gpu",
                                           .class = d % 2 ? BRAID_CLASS_FPGA : BRAID_CLASS_GPU,
                                           .space = (int)d + 1,
                                           .idle_watts = {d % 2 ? 10 : 40, BRAID_MODELLED},
                                           .clock_seconds = 1e-5};
    l->spaces[d + 1] = (braid_problem_space){1, 2 * (int)d + 2, 2 * (int)d + 3};
  }
  l->values[nodes] = (braid_problem_value){.producer = -1, .bytes = 1000};
  for (size_t n = 0; n < nodes; n++) {
    size_t layer = n / width, count = n < width ? 1 : 2;
    l->ids[n] = (int32_t)n;
    l->values[n] = (braid_problem_value){(int32_t)n, 1000 + n % 5000, n + width >= nodes};
    l->nodes[n] = (braid_problem_node){.name = "node", .fixed = -1, .first_read = 2 * n, .read_count = count};
    l->reads[2 * n] = (int32_t)(layer ? (layer - 1) * width + n % width : nodes);
    l->reads[2 * n + 1] = (int32_t)(layer ? (layer - 1) * width + (n * 7 + 3) % width : nodes);
    if (l->reads[2 * n] == l->reads[2 * n + 1]) l->nodes[n].read_count = 1;
    large_offers(l, n, devices);
  }
  return true;
}

#endif
