/* Random problems, for tests of what every policy promises. */
#ifndef BRAID_SCHEDULE_RANDOM_PROBLEM_H
#define BRAID_SCHEDULE_RANDOM_PROBLEM_H

#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "schedule/problem.h"

enum { kNodes = 40, kDevices = 3, kOffers = 1024, kReads = 4 * kNodes, kMembers = 8 * kOffers };

typedef struct fixture {
  braid_problem problem;
  braid_problem_node nodes[kNodes];
  braid_problem_value values[kNodes + 2];
  braid_problem_device devices[kDevices];
  braid_problem_link links[kDevices * kDevices];
  braid_problem_space spaces[kDevices];
  braid_offer offers[kOffers];
  int32_t reads[kReads], members[kMembers];
  char names[kNodes][16];
  int others[kDevices]; /* per device: one that some offers occupy as well */
  size_t read_count, member_count;
  bool rich; /* it has offers at another clock, or for two devices at once */
} fixture;

static uint32_t seed;

static uint32_t draw(uint32_t below) {
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static void init(fixture *f, size_t nodes, size_t devices, int spaces) {
  memset(f, 0, sizeof *f);
  f->problem = (braid_problem){.nodes = f->nodes,
                               .node_count = nodes,
                               .values = f->values,
                               .value_count = nodes + 2,
                               .reads = f->reads,
                               .devices = f->devices,
                               .device_count = devices,
                               .spaces = f->spaces,
                               .space_count = spaces,
                               .kind_count = spaces,
                               .bus_count = spaces,
                               .links = f->links,
                               .offers = f->offers};
  static const char *const kNames[kDevices] = {"a", "b", "c"};
  for (size_t d = 0; d < devices; d++)
    f->devices[d] = (braid_problem_device){.name = kNames[d], .space = (int)d % spaces};
  for (size_t d = 0; d < devices; d++) f->others[d] = (int)((d + 1) % devices);
  for (int i = 0; i < spaces * spaces; i++) f->links[i] = (braid_problem_link){1e-3 * draw(20), 1e6 * (1 + draw(10))};
  for (int i = 0; i < spaces; i++)
    f->spaces[i] = (braid_problem_space){i, draw(3) ? i : -1, draw(3) ? (int)draw((uint32_t)spaces) : -1};
  for (size_t v = 0; v < nodes + 2; v++)
    f->values[v] = (braid_problem_value){v < nodes ? (int32_t)v : -1, 100 + draw(5000), false};
  for (size_t n = 0; n < nodes; n++) {
    snprintf(f->names[n], sizeof f->names[n], "n%zu", n);
    f->nodes[n] = (braid_problem_node){.name = f->names[n], .fixed = -1};
  }
}

static void read_by(fixture *f, size_t node, int32_t value) {
  if (!f->nodes[node].read_count) f->nodes[node].first_read = f->read_count;
  f->nodes[node].read_count++;
  f->reads[f->read_count++] = value;
}

static braid_offer *offer_for(fixture *f, int device, const int32_t *nodes, size_t count) {
  braid_offer *offer = &f->offers[f->problem.offer_count++];
  assert_true(f->problem.offer_count <= kOffers && f->member_count + count <= kMembers);
  int32_t *members = f->members + f->member_count;
  memcpy(members, nodes, count * sizeof *members);
  f->member_count += count;
  *offer = (braid_offer){.device = device, .nodes = members, .node_count = count};
  return offer;
}

/* 0: no, 1: it holds the other, 2: they cross. */
static int meets(const braid_offer *a, const int32_t *nodes, size_t count) {
  size_t common = 0;
  for (size_t i = 0; i < a->node_count; i++)
    for (size_t k = 0; k < count; k++) common += a->nodes[i] == nodes[k];
  return !common ? 0 : common == a->node_count || common == count ? 1 : 2;
}

/* All times of a problem are of one source, and what a device lists later is not faster if they are modelled. */
static void set_times(fixture *f, braid_number_source source, bool holes) {
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    braid_offer *offer = &f->offers[i];
    double time = 1e-3 * (1 + draw(100)) * (double)offer->node_count;
    if (source == BRAID_MODELLED) time = 1e-3 * (10.0 * (double)offer->node_count * (offer->device + 1) + offer->rank);
    if (!holes || draw(8)) offer->seconds = (braid_number){time, source};
    double share = offer->clock ? 0.5 : 1;
    offer->joules = (braid_number){time * share * (10 + draw(60)), BRAID_MODELLED};
    offer->watts = (braid_number){offer->joules.value / time * (1 + 0.1 * draw(4)), BRAID_MODELLED};
    if (!holes || draw(8)) continue;
    offer->joules = offer->watts = (braid_number){0};
  }
}

/* Classes, idle power, caps, changes of clocks. */
static void set_power(fixture *f, bool capped) {
  for (size_t d = 0; d < f->problem.device_count; d++) {
    braid_problem_device *device = &f->devices[d];
    device->class = draw(4);
    device->clock_seconds = 1e-3 * draw(3);
    if (draw(8)) device->idle_watts = (braid_number){draw(9), BRAID_MODELLED};
    if (capped && !draw(3)) device->cap_watts = (braid_number){40 + draw(60), BRAID_MODELLED};
  }
  if (capped) f->problem.cap_watts = (braid_number){60 + draw(120), BRAID_MODELLED};
}

/* `rich`: with offers at another clock, and for two devices at once. */
static void add_singles(fixture *f, bool rich) {
  for (size_t n = 0; n < f->problem.node_count; n++) {
    if (f->nodes[n].idle) continue;
    uint32_t able = 1 + draw((1u << f->problem.device_count) - 1);
    for (size_t d = 0; d < f->problem.device_count; d++)
      for (uint32_t r = 0; (able >> d & 1) && r < 1 + draw(rich ? 3 : 2); r++) {
        braid_offer *offer = offer_for(f, (int)d, (int32_t[]){(int32_t)n}, 1);
        offer->rank = r;
        offer->clock = r == 2;
        if (!rich || r != 1 || f->problem.device_count < 2 || draw(2)) continue;
        offer->also = &f->others[d];
        offer->also_count = 1;
      }
  }
}

/* Chains in which each value is read once: {a, b} and {a, b, c}, offered by some devices. */
static void add_patterns(fixture *f, const int *read_times) {
  int32_t chains[kNodes][3];
  size_t lengths[kNodes] = {0};
  for (size_t n = 0; n < f->problem.node_count; n++) {
    const braid_problem_node *node = &f->nodes[n];
    lengths[n] = 1;
    chains[n][0] = (int32_t)n;
    if (!node->read_count) continue;
    int32_t before = f->values[f->reads[node->first_read]].producer;
    if (node->idle || before < 0 || f->nodes[before].idle || read_times[before] != 1 || lengths[before] == 3) continue;
    if (f->values[before].wanted) continue;
    lengths[n] = lengths[before] + 1;
    memcpy(chains[n], chains[before], lengths[before] * sizeof chains[n][0]);
    chains[n][lengths[before]] = (int32_t)n;
    for (size_t d = 0; d < f->problem.device_count; d++)
      for (uint32_t r = 0; draw(2) && r < 2; r++) offer_for(f, (int)d, chains[n], lengths[n])->rank = r;
  }
}

static void add_regions(fixture *f) {
  for (int tries = 0; tries < 6; tries++) {
    int32_t nodes[kNodes], outside;
    size_t count = 0, lo = draw((uint32_t)f->problem.node_count), hi = lo + 2 + draw(8);
    bool in_set[kNodes] = {false}, taint[kNodes];
    for (size_t n = lo; n < hi && n < f->problem.node_count; n++)
      if (!f->nodes[n].idle && draw(4)) nodes[count++] = (int32_t)n, in_set[n] = true;
    int device = (int)draw((uint32_t)f->problem.device_count);
    bool fits = count > 1 && braid_problem_is_convex(&f->problem, nodes, count, in_set, taint, &outside);
    for (size_t i = 0; i < f->problem.offer_count; i++)
      if (f->offers[i].device == device && meets(&f->offers[i], nodes, count) == 2) fits = false;
    if (fits) offer_for(f, device, nodes, count)->region = true;
  }
}

static inline void make_random(fixture *f, size_t most, bool regions) {
  size_t nodes = 2 + draw((uint32_t)most - 1), devices = 1 + draw(kDevices);
  int read_times[kNodes] = {0};
  init(f, nodes, devices, 1 + (int)draw((uint32_t)devices));
  for (size_t n = 0; n < nodes; n++) {
    f->nodes[n].idle = n && draw(12) == 0;
    if (!f->nodes[n].idle && draw(10) == 0) f->nodes[n].fixed = (int)draw((uint32_t)devices);
    for (uint32_t r = 0; !f->nodes[n].idle && r < 1 + draw(2); r++) {
      size_t far = draw(3) ? 3 : nodes; /* mostly what was computed just before */
      int32_t value = n == 0 || draw(6) == 0 ? (int32_t)(nodes + draw(2))
                                             : (int32_t)(n - 1 - draw(n < far ? (uint32_t)n : (uint32_t)far));
      if (value < (int32_t)nodes && f->nodes[value].idle) value = (int32_t)nodes;
      read_by(f, n, value);
      if (value < (int32_t)nodes) read_times[value]++;
    }
  }
  for (size_t n = 0; n < nodes; n++) f->values[n].wanted = !read_times[n] || draw(10) == 0;
  f->rich = draw(2);
  add_singles(f, f->rich);
  add_patterns(f, read_times);
  if (regions) add_regions(f);
  set_times(f, draw(2) ? BRAID_MODELLED : BRAID_MEASURED, draw(3) == 0);
  set_power(f, draw(3) == 0);
}

#endif
