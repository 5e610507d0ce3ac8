/* What every policy promises, on random problems, and on tiny ones against all solutions there are. */
#include "schedule/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oom.h"

enum { kNodes = 40, kDevices = 3, kOffers = 1024, kReads = 4 * kNodes, kMembers = 8 * kOffers };

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* --- problems ------------------------------------------------------------------------------------------------------
 */
typedef struct fixture {
  braid_problem problem;
  braid_problem_node nodes[kNodes];
  braid_problem_value values[kNodes + 2];
  braid_problem_device devices[kDevices];
  braid_problem_link links[kDevices * kDevices];
  braid_offer offers[kOffers];
  int32_t reads[kReads], members[kMembers];
  char names[kNodes][16];
  size_t read_count, member_count;
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
                               .space_count = spaces,
                               .bus_count = spaces,
                               .links = f->links,
                               .offers = f->offers};
  static const char *const kNames[kDevices] = {"a", "b", "c"};
  for (size_t d = 0; d < devices; d++)
    f->devices[d] = (braid_problem_device){.name = kNames[d], .space = (int)d % spaces};
  for (int i = 0; i < spaces * spaces; i++)
    f->links[i] = (braid_problem_link){1e-3 * draw(20), 1e6 * (1 + draw(10)), i % 2 ? i / spaces : -1};
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
    offer->joules = (braid_number){time * 30, BRAID_MODELLED};
  }
}

static void add_singles(fixture *f) {
  for (size_t n = 0; n < f->problem.node_count; n++) {
    if (f->nodes[n].idle) continue;
    uint32_t able = 1 + draw((1u << f->problem.device_count) - 1);
    for (size_t d = 0; d < f->problem.device_count; d++)
      for (uint32_t r = 0; (able >> d & 1) && r < 1 + draw(2); r++)
        offer_for(f, (int)d, (int32_t[]){(int32_t)n}, 1)->rank = r;
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

static void make_random(fixture *f, size_t most, bool regions) {
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
  add_singles(f);
  add_patterns(f, read_times);
  if (regions) add_regions(f);
  set_times(f, draw(2) ? BRAID_MODELLED : BRAID_MEASURED, draw(3) == 0);
}

/* --- what must hold ------------------------------------------------------------------------------------------------
 */
static void check_choices(const fixture *f, const braid_policy *policy, const braid_choices *c) {
  const braid_problem *problem = &f->problem;
  int32_t position[kNodes];
  size_t covered = 0, running = 0;
  for (size_t n = 0; n < kNodes; n++) position[n] = -1;
  for (size_t i = 0; i < c->task_count; i++) { /* every node in exactly one task */
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    assert_true(braid_offer_allowed(problem, offer));
    assert_int_equal(offer->nodes[offer->node_count - 1], c->order[i]);
    assert_non_null(c->reasons[c->order[i]]);
    for (size_t k = 0; k < offer->node_count; k++) {
      assert_int_equal(position[offer->nodes[k]], -1);
      assert_int_equal(c->offer_of[offer->nodes[k]], c->offer_of[c->order[i]]);
      position[offer->nodes[k]] = (int32_t)i;
      covered++;
    }
  }
  double free_at[kDevices] = {0}, last = 0;
  for (size_t n = 0; n < problem->node_count; n++) running += !f->nodes[n].idle;
  assert_int_equal(covered, running);
  for (size_t i = 0; i < c->task_count; i++) {
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    double start = c->start[c->order[i]], end = c->end[c->order[i]];
    assert_true(start >= free_at[offer->device]); /* one at a time */
    assert_true(fabs(end - start - offer->seconds.value) < 1e-9);
    free_at[offer->device] = end;
    if (end > last) last = end;
    for (size_t k = 0; k < offer->node_count; k++) {
      const braid_problem_node *node = &f->nodes[offer->nodes[k]];
      for (size_t r = 0; r < node->read_count; r++) {
        int32_t value = f->reads[node->first_read + r], before = f->values[value].producer;
        if (before >= 0 && position[before] == (int32_t)i) continue;
        int from = before < 0 ? 0 : f->devices[f->offers[c->offer_of[before]].device].space;
        int space = f->devices[offer->device].space;
        double there = before < 0 ? 0 : c->end[before];
        const braid_problem_link *link = &f->links[from * problem->space_count + space];
        if (from != space) there += link->seconds + (double)f->values[value].bytes / link->bytes_per_second;
        if (before >= 0 && position[before] >= (int32_t)i)
          fail_msg("%s: n%d before what it reads", policy->name, node->first_read ? 0 : 1);
        assert_true(start >= there - 1e-12);
      }
    }
  }
  if (c->seconds.source != BRAID_UNKNOWN) assert_true(c->seconds.value >= last);
}

static bool all_known(const fixture *f, const braid_choices *c) {
  for (size_t i = 0; i < c->task_count; i++)
    if (f->offers[c->offer_of[c->order[i]]].seconds.source == BRAID_UNKNOWN) return false;
  return true;
}

static bool solve(const fixture *f, const braid_policy *policy, braid_arena *arena, braid_choices *out) {
  braid_status status = braid_schedule(policy, &f->problem, NULL, arena, out);
  if (status == BRAID_OK) return true;
  assert_int_equal(status, BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "no offer is left"));
  return false;
}

/* Whoever may run alone, though fixed, is never left over. */
static bool has_singles(const fixture *f) {
  for (size_t n = 0; n < f->problem.node_count; n++) {
    bool found = f->nodes[n].idle;
    for (size_t i = 0; i < f->problem.offer_count && !found; i++)
      found = f->offers[i].node_count == 1 && f->offers[i].nodes[0] == (int32_t)n &&
              braid_offer_allowed(&f->problem, &f->offers[i]);
    if (!found) return false;
  }
  return true;
}

/* On the first device that runs it alone, or on one before that; and in no smaller set than is offered there. */
static void check_first(const fixture *f, const braid_choices *c) {
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    const braid_offer *offer = &f->offers[i];
    if (!braid_offer_allowed(&f->problem, offer)) continue;
    bool smaller = true;
    for (size_t k = 0; k < offer->node_count; k++) {
      const braid_offer *taken = &f->offers[c->offer_of[offer->nodes[k]]];
      if (offer->node_count == 1) assert_true(taken->device <= offer->device);
      smaller &= taken->device == offer->device && taken->node_count < offer->node_count;
    }
    if (!offer->region) assert_false(smaller);
  }
}

static void test_random(void **state) {
  (void)state;
  size_t solved = 0, unsolved = 0, with_regions = 0;
  fixture *f = malloc(sizeof *f);
  for (uint32_t s = 0; s < 3000; s++) {
    seed = s;
    make_random(f, kNodes, s % 2);
    OK(braid_problem_check(&f->problem, NULL));
    braid_arena *arena;
    OK(braid_arena_create(NULL, &arena));
    for (size_t p = 0; p < braid_policy_count(); p++) {
      const braid_policy *policy = braid_policy_at(p);
      braid_choices choices, again;
      if (!solve(f, policy, arena, &choices)) {
        assert_false(has_singles(f));
        unsolved++;
        continue;
      }
      solved++;
      check_choices(f, policy, &choices);
      if (policy == &braid_policy_first && has_singles(f)) check_first(f, &choices);
      for (size_t i = 0; i < choices.task_count; i++)
        with_regions += f->offers[choices.offer_of[choices.order[i]]].region;
      assert_true(solve(f, policy, arena, &again));
      assert_memory_equal(choices.offer_of, again.offer_of, f->problem.node_count * sizeof *again.offer_of);
    }
    braid_arena_destroy(arena);
  }
  free(f);
  assert_true(solved > 5000 && unsolved < solved / 2 && with_regions > 500);
}

/* --- all solutions -------------------------------------------------------------------------------------------------
 */
typedef struct search {
  const fixture *f;
  braid_choosing choosing;
  braid_choices choices;
  double best, alone[kDevices]; /* seconds; INFINITY: there is no solution of known time */
} search;

static void visit(search *s) {
  int32_t cycle;
  bool used[kDevices] = {false};
  OK(braid_choices_sort(&s->choosing, &s->choices, &cycle));
  if (cycle >= 0) return;
  OK(braid_choices_play(&s->choosing, &s->choices));
  if (!all_known(s->f, &s->choices)) return;
  double seconds = s->choices.seconds.value;
  for (size_t i = 0; i < s->choices.task_count; i++)
    used[s->f->offers[s->choices.offer_of[s->choices.order[i]]].device] = true;
  int devices = used[0] + used[1] + used[2];
  if (seconds < s->best) s->best = seconds;
  for (size_t d = 0; d < kDevices; d++)
    if (devices == 1 && used[d] && seconds < s->alone[d]) s->alone[d] = seconds;
}

static void search_from(search *s, int32_t node) {
  const fixture *f = s->f;
  int32_t count = (int32_t)f->problem.node_count;
  while (node < count && (f->nodes[node].idle || s->choices.offer_of[node] >= 0)) node++;
  if (node == count) {
    visit(s);
    return;
  }
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    const braid_offer *offer = &f->offers[i];
    bool has = false;
    for (size_t k = 0; k < offer->node_count; k++) has |= offer->nodes[k] == node;
    if (!has || !braid_choices_free(&s->choosing, &s->choices, (int32_t)i)) continue;
    braid_choices_take(&s->choosing, &s->choices, (int32_t)i, "");
    search_from(s, node + 1);
    for (size_t k = 0; k < offer->node_count; k++) s->choices.offer_of[offer->nodes[k]] = -1;
  }
}

static void test_all_solutions(void **state) {
  (void)state;
  size_t optimal = 0, compared = 0;
  double worst = 1;
  fixture *f = malloc(sizeof *f);
  for (uint32_t s = 0; s < 2000; s++) {
    seed = 77777 + s;
    make_random(f, 6, s % 2);
    braid_arena *arena;
    OK(braid_arena_create(NULL, &arena));
    bool refused[kOffers];
    for (size_t i = 0; i < f->problem.offer_count; i++) refused[i] = !braid_offer_allowed(&f->problem, &f->offers[i]);
    search all = {.f = f, .choosing = {.problem = &f->problem, .arena = arena, .refused = refused}, .best = INFINITY};
    for (size_t d = 0; d < kDevices; d++) all.alone[d] = INFINITY;
    OK(braid_choices_init(&all.choosing, &all.choices));
    search_from(&all, 0);
    for (size_t p = 0; p < braid_policy_count(); p++) {
      const braid_policy *policy = braid_policy_at(p);
      braid_choices choices;
      if (!solve(f, policy, arena, &choices)) continue;
      if (choices.seconds.source != BRAID_UNKNOWN) assert_true(choices.seconds.value >= all.best - 1e-9);
      if (policy != &braid_policy_auto) continue;
      for (size_t d = 0; d < f->problem.device_count; d++) {
        if (isinf(all.alone[d])) continue;
        assert_int_not_equal(choices.seconds.source, BRAID_UNKNOWN); /* what is known comes before what is not */
        /* With transfers a set may wait for what only its last node reads: then smaller ones would end sooner. */
        if (f->problem.space_count == 1) assert_true(choices.seconds.value <= all.alone[d] + 1e-9);
      }
      if (choices.seconds.source == BRAID_UNKNOWN || isinf(all.best)) continue;
      compared++;
      optimal += choices.seconds.value <= all.best + 1e-9;
      if (choices.seconds.value > worst * all.best) worst = choices.seconds.value / all.best;
    }
    braid_arena_destroy(arena);
  }
  free(f);
  print_message("auto: the best there is in %zu of %zu, at worst %.2f times as long\n", optimal, compared, worst);
  assert_true(compared > 500 && optimal > compared / 2);
}

/* --- one by one ----------------------------------------------------------------------------------------------------
 */
/* 0 -> 1 and 2 -> 3: {0, 3} and {1, 2} are convex, and wait for each other. */
static void test_cycle(void **state) {
  (void)state;
  fixture f;
  init(&f, 4, 1, 1);
  read_by(&f, 0, 4), read_by(&f, 1, 0), read_by(&f, 2, 5), read_by(&f, 3, 2);
  for (int32_t n = 0; n < 4; n++) offer_for(&f, 0, &n, 1);
  offer_for(&f, 0, (int32_t[]){0, 3}, 2)->region = true;
  offer_for(&f, 0, (int32_t[]){1, 2}, 2)->region = true;
  for (size_t i = 0; i < f.problem.offer_count; i++) f.offers[i].seconds = (braid_number){1, BRAID_MODELLED};
  OK(braid_problem_check(&f.problem, NULL));
  for (size_t p = 0; p < braid_policy_count(); p++) {
    braid_arena *arena;
    braid_choices choices;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_schedule(braid_policy_at(p), &f.problem, NULL, arena, &choices));
    check_choices(&f, braid_policy_at(p), &choices);
    assert_int_equal(choices.task_count, 3);
    assert_int_equal(choices.offer_of[0], 4);
    assert_int_equal(choices.offer_of[3], 4);
    braid_arena_destroy(arena);
  }
}

/* What ends soonest step by step, and what first.c does, is slow here: n0 is done sooner on a, which cannot run n1, and
 * bringing it to b takes long. On b alone both are done before that. */
static void test_never_slower_than_one_device(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices choices;
  init(&f, 2, 2, 2);
  read_by(&f, 0, 2), read_by(&f, 1, 0);
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){1e-3, 1e6, -1};
  f.values[0].bytes = 50000;
  f.values[2].bytes = 100;
  offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = (braid_number){9e-3, BRAID_MODELLED};
  offer_for(&f, 1, (int32_t[]){0}, 1)->seconds = (braid_number){10e-3, BRAID_MODELLED};
  offer_for(&f, 1, (int32_t[]){1}, 1)->seconds = (braid_number){1e-3, BRAID_MODELLED};
  OK(braid_arena_create(NULL, &arena));
  OK(braid_schedule(&braid_policy_first, &f.problem, NULL, arena, &choices));
  assert_true(choices.seconds.value > 60e-3);
  OK(braid_schedule(&braid_policy_auto, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 1);
  assert_true(choices.seconds.value < 13e-3);
  assert_non_null(strstr(choices.reasons[0], "all on b"));
  braid_arena_destroy(arena);
}

/* Numbers that no policy should take for what they are not. */
static void test_unknown(void **state) {
  (void)state;
  fixture f;
  init(&f, 1, 2, 1);
  read_by(&f, 0, 1);
  offer_for(&f, 0, (int32_t[]){0}, 1);
  offer_for(&f, 1, (int32_t[]){0}, 1)->seconds = (braid_number){5, BRAID_MODELLED};
  braid_arena *arena;
  braid_choices choices;
  OK(braid_arena_create(NULL, &arena));
  OK(braid_schedule(&braid_policy_auto, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 1);
  assert_int_equal(choices.seconds.source, BRAID_MODELLED);
  assert_int_equal(choices.joules.source, BRAID_UNKNOWN);
  OK(braid_schedule(&braid_policy_first, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 0);
  assert_int_equal(choices.seconds.source, BRAID_UNKNOWN);
  f.nodes[0].fixed = 0;
  OK(braid_schedule(&braid_policy_auto, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 0);
  /* joules: 5 s of idling at 2 W and of 7 J of work */
  f.nodes[0].fixed = -1;
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){2, BRAID_MEASURED};
  f.offers[1].joules = (braid_number){7, BRAID_MEASURED};
  OK(braid_schedule(&braid_policy_auto, &f.problem, NULL, arena, &choices));
  assert_true(fabs(choices.joules.value - 27) < 1e-9);
  braid_arena_destroy(arena);
}

/* A device's later kernel is taken when both were measured and it is the faster one, and not on a model's word. */
static void test_measured(void **state) {
  (void)state;
  static const struct {
    braid_number first, second;
    int taken;
  } cases[] = {{{3, BRAID_MODELLED}, {1, BRAID_MODELLED}, 0},
               {{3, BRAID_MEASURED}, {1, BRAID_MODELLED}, 0},
               {{3, BRAID_MODELLED}, {1, BRAID_MEASURED}, 0},
               {{3, BRAID_MEASURED}, {1, BRAID_MEASURED}, 1},
               {{0, BRAID_UNKNOWN}, {1, BRAID_MEASURED}, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    init(&f, 1, 1, 1);
    read_by(&f, 0, 1);
    offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = cases[i].first;
    offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = cases[i].second;
    f.offers[1].rank = 1;
    braid_arena *arena;
    braid_choices choices;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_schedule(&braid_policy_auto, &f.problem, NULL, arena, &choices));
    assert_int_equal(choices.offer_of[0], cases[i].taken);
    braid_arena_destroy(arena);
  }
}

static void test_refused_problems(void **state) {
  (void)state;
  static const struct {
    const char *said;
    int what;
  } cases[] = {{"has no device", 0},         {"negative", 1},          {"unknown and not 0", 1},
               {"twice or out of order", 2}, {"lies between its", 3},  {"computed after it", 4},
               {"has no bandwidth", 5},      {"fixed to no device", 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    init(&f, 3, 2, 2);
    read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 1);
    braid_offer *offer = offer_for(&f, 0, (int32_t[]){0, 1, 2}, 3);
    offer->seconds = (braid_number){1, BRAID_MODELLED};
    OK(braid_problem_check(&f.problem, NULL));
    switch (cases[i].what) {
    case 0:
      offer->device = 2;
      break;
    case 1:
      offer->seconds = (braid_number){i == 1 ? -1 : 1, i == 1 ? BRAID_MODELLED : BRAID_UNKNOWN};
      break;
    case 2:
      f.members[1] = 0;
      break;
    case 3:
      f.members[1] = 2, offer->node_count = 2;
      break;
    case 4:
      f.reads[0] = 2;
      break;
    case 5:
      f.links[1].bytes_per_second = 0;
      break;
    default:
      f.nodes[0].fixed = 2;
    }
    assert_int_equal(braid_problem_check(&f.problem, NULL), BRAID_INVALID_ARGUMENT);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
}

static braid_status schedule_all(const braid_allocator *allocator, void *context) {
  const fixture *f = context;
  braid_status status = braid_problem_check(&f->problem, allocator);
  for (size_t p = 0; p < braid_policy_count() && status == BRAID_OK; p++) {
    braid_arena *arena;
    braid_choices choices;
    status = braid_arena_create(allocator, &arena);
    if (status == BRAID_OK) status = braid_schedule(braid_policy_at(p), &f->problem, allocator, arena, &choices);
    braid_arena_destroy(arena);
  }
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  seed = 5;
  do make_random(f, 12, true);
  while (!has_singles(f) || f->problem.offer_count < 20);
  (void)oom_sweep(schedule_all, f);
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_all_solutions),
      cmocka_unit_test(test_cycle),
      cmocka_unit_test(test_never_slower_than_one_device),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_measured),
      cmocka_unit_test(test_refused_problems),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
