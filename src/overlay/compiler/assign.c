/* Which core computes which tile. */
#include <string.h>

#include "overlay/compiler/dynamic.h"

typedef struct braid_assignment {
  int count, cores;
  uint8_t order[BRAID_ASSIGN_MOST]; /* tiles, the longest first */
  const uint64_t *cycles;
  uint64_t load[BRAID_OVERLAY_MOST_CORES];
  uint8_t now[BRAID_ASSIGN_MOST], best[BRAID_ASSIGN_MOST];
  uint64_t best_longest, bound;
} braid_assignment;

static uint64_t longest_of(const uint64_t *load, int cores) {
  uint64_t longest = 0;
  for (int c = 0; c < cores; c++)
    if (load[c] > longest) longest = load[c];
  return longest;
}

static void assign_greedily(braid_assignment *a) {
  for (int i = 0; i < a->count; i++) {
    int core = 0;
    for (int c = 1; c < a->cores; c++)
      if (a->load[c] < a->load[core]) core = c;
    a->load[core] += a->cycles[a->order[i]];
    a->best[a->order[i]] = (uint8_t)core;
  }
  a->best_longest = longest_of(a->load, a->cores);
}

/* Moves a tile of the longest core, or swaps it for a shorter one of another core, where both then stay below it. */
static bool improve(braid_assignment *a) {
  int longest = 0;
  for (int c = 1; c < a->cores; c++)
    if (a->load[c] > a->load[longest]) longest = c;
  for (int i = 0; i < a->count; i++) {
    if (a->best[i] != longest) continue;
    for (int c = 0; c < a->cores; c++)
      if (a->load[c] + a->cycles[i] < a->load[longest]) {
        a->load[c] += a->cycles[i];
        a->load[longest] -= a->cycles[i];
        a->best[i] = (uint8_t)c;
        return true;
      }
    for (int j = 0; j < a->count; j++) {
      int c = a->best[j];
      if (c == longest || a->cycles[j] >= a->cycles[i]) continue;
      uint64_t more = a->cycles[i] - a->cycles[j];
      if (a->load[c] + more >= a->load[longest]) continue;
      a->load[c] += more;
      a->load[longest] -= more;
      a->best[i] = (uint8_t)c;
      a->best[j] = (uint8_t)longest;
      return true;
    }
  }
  return false;
}

/* Tries every core for the tile at `at`; of empty cores only one. */
static void search(braid_assignment *a, int at, uint64_t longest) {
  if (longest >= a->best_longest || a->best_longest == a->bound) return;
  if (at == a->count) {
    a->best_longest = longest;
    memcpy(a->best, a->now, sizeof a->best);
    return;
  }
  int tile = a->order[at];
  for (int c = 0; c < a->cores; c++) {
    uint64_t load = a->load[c] + a->cycles[tile];
    bool empty = a->load[c] == 0;
    if (load < a->best_longest) {
      a->load[c] = load;
      a->now[tile] = (uint8_t)c;
      search(a, at + 1, load > longest ? load : longest);
      a->load[c] -= a->cycles[tile];
    }
    if (empty) break;
  }
}

/* Cores are alike: one that has the tile of its own number keeps it, whose instructions say that number already. */
static void number_cores(const braid_assignment *a, uint8_t *core_of) {
  int number[BRAID_OVERLAY_MOST_CORES], next = 0;
  bool taken[BRAID_OVERLAY_MOST_CORES] = {false};
  for (int c = 0; c < a->cores; c++) number[c] = -1;
  for (int i = 0; i < a->count && i < a->cores; i++) {
    if (number[a->best[i]] >= 0) continue;
    number[a->best[i]] = i;
    taken[i] = true;
  }
  for (int c = 0; c < a->cores; c++) {
    if (number[c] >= 0) continue;
    while (taken[next]) next++;
    number[c] = next++;
  }
  for (int i = 0; i < a->count; i++) core_of[i] = (uint8_t)number[a->best[i]];
}

uint64_t braid_tiles_assign(const uint64_t *cycles, int count, int cores, uint8_t *core_of, uint64_t *bound) {
  uint64_t sum = 0, longest = 0;
  for (int i = 0; i < count; i++) {
    sum += cycles[i];
    if (cycles[i] > longest) longest = cycles[i];
  }
  if (count <= cores) {
    for (int i = 0; i < count; i++) core_of[i] = (uint8_t)i;
    return *bound = longest;
  }
  braid_assignment a = {.count = count, .cores = cores, .cycles = cycles};
  for (int i = 0; i < count; i++) {
    int at = i;
    for (; at > 0 && cycles[a.order[at - 1]] < cycles[i]; at--) a.order[at] = a.order[at - 1];
    a.order[at] = (uint8_t)i;
  }
  uint64_t mean = (sum + (uint64_t)cores - 1) / (uint64_t)cores;
  *bound = a.bound = longest > mean ? longest : mean;
  assign_greedily(&a);
  while (a.best_longest > a.bound && improve(&a)) a.best_longest = longest_of(a.load, cores);
  if (count <= BRAID_ASSIGN_EXACT && a.best_longest > a.bound) {
    memset(a.load, 0, sizeof a.load);
    search(&a, 0, 0);
    *bound = a.best_longest;
  }
  number_cores(&a, core_of);
  return a.best_longest;
}
