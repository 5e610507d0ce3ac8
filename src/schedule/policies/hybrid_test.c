/* Longest paths of hybrid.c, which it follows as operations are offloaded, against paths found anew. */
#include <math.h>
#include <stdlib.h>

#include "schedule/policies/hybrid.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static const braid_offer *runs_by(const braid_hybrid *h, int32_t task) {
  return &h->problem->offers[h->offloaded[task] ? h->other[task] : h->base.offer_of[task]];
}

/* From the end of one task to the start of another one: the longest way of a value; < 0: it hands none on. */
static double way_between(const braid_hybrid *h, int32_t from, int32_t to) {
  const braid_problem *problem = h->problem;
  const braid_offer *reader = &problem->offers[h->base.offer_of[to]];
  double longest = -1;
  for (size_t i = 0; i < reader->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[reader->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++) {
      int32_t value = problem->reads[node->first_read + r], producer = problem->values[value].producer;
      if (producer < 0 || braid_choices_task(problem, &h->base, producer) != from) continue;
      int here = problem->devices[runs_by(h, from)->device].space,
          there = problem->devices[runs_by(h, to)->device].space;
      longest = fmax(longest, braid_problem_moving(problem, value, here, there));
    }
  }
  return longest;
}

static void check_paths(const braid_hybrid *h) {
  size_t count = h->base.task_count;
  double head[kNodes] = {0}, tail[kNodes] = {0}, longest = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++) {
      int32_t to = h->base.order[i], from = h->base.order[k];
      double way = way_between(h, from, to);
      if (way >= 0) head[to] = fmax(head[to], head[from] + runs_by(h, from)->seconds.value + way);
    }
  for (size_t i = count; i-- > 0;)
    for (size_t k = i + 1; k < count; k++) {
      int32_t from = h->base.order[i], to = h->base.order[k];
      double way = way_between(h, from, to);
      if (way >= 0) tail[from] = fmax(tail[from], tail[to] + runs_by(h, to)->seconds.value + way);
    }
  for (size_t i = 0; i < count; i++) {
    int32_t task = h->base.order[i];
    assert_true(fabs(head[task] - h->head[task]) < 1e-9 && fabs(tail[task] - h->tail[task]) < 1e-9);
    longest = fmax(longest, head[task] + runs_by(h, task)->seconds.value + tail[task]);
  }
  assert_true(fabs(longest - h->longest) < 1e-9);
}

/* As braid_choosing has it. */
static void sort_ranks(const fixture *f, int32_t *ranks) {
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    const braid_offer *offer = &f->offers[i];
    size_t at = i;
    for (; at; at--) {
      const braid_offer *before = &f->offers[ranks[at - 1]];
      bool larger = before->node_count > offer->node_count, same = before->node_count == offer->node_count;
      bool first = larger || (same && before->rank <= offer->rank);
      if (before->device < offer->device || (before->device == offer->device && first)) break;
      ranks[at] = ranks[at - 1];
    }
    ranks[at] = (int32_t)i;
  }
}

static void test_paths(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  size_t slower = 0;
  for (uint32_t s = 0; s < 2000; s++) {
    seed = 9000 + s;
    make_random(f, kNodes, s % 2);
    bool refused[kOffers] = {false};
    int32_t ranks[kOffers];
    braid_arena *arena;
    braid_choices choices;
    braid_hybrid hybrid;
    for (size_t i = 0; i < f->problem.offer_count; i++) refused[i] = !braid_offer_allowed(&f->problem, &f->offers[i]);
    sort_ranks(f, ranks);
    OK(braid_arena_create(NULL, &arena));
    braid_choosing choosing = {.problem = &f->problem, .arena = arena, .refused = refused, .ranks = ranks};
    OK(braid_choices_init(&choosing, &choices));
    if (braid_hybrid_init(&choosing, &choices, &hybrid) == BRAID_OK) {
      OK(braid_hybrid_offload(&hybrid));
      check_paths(&hybrid);
      for (size_t i = 0; i < hybrid.base.task_count; i++) {
        int32_t task = hybrid.base.order[i];
        double seconds = f->offers[hybrid.base.offer_of[task]].seconds.value;
        slower += hybrid.offloaded[task] && runs_by(&hybrid, task)->seconds.value > seconds;
      }
    }
    braid_arena_destroy(arena);
  }
  free(f);
  assert_true(slower > 100); /* each has moved the paths of others */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
