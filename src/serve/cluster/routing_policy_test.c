/* The router's choice against a look at every replica. */
#include "serve/cluster/routing_policy.h"

#include <string.h>
#include <time.h>

#include "base/philox.h"
#include "oom.h"
#include "serve/cluster/placement_policy.h"
#include "skip.h"

enum { kNodes = 40, kModels = 5 };

static size_t draw_targets(uint64_t seed, braid_cluster_target *targets) {
  size_t count = 0;
  for (uint32_t m = 0; m < kModels; m++)
    for (uint32_t n = 0; n < kNodes; n++)
      if (braid_random_below(seed, 0, m, n, 3) == 0)
        targets[count++] = (braid_cluster_target){m, n, 1000 + braid_random_below(seed, 1, m, n, 6) * 500};
  return count;
}

/* When a request would end there; NEVER. */
static int64_t end_on(const braid_cluster_target *target, int64_t free_ns, int64_t now) {
  if (free_ns == INT64_MAX) return INT64_MAX;
  return (free_ns > now ? free_ns : now) + target->service_ns;
}

static int64_t look(const braid_cluster_target *targets, size_t count, const int64_t *free_ns, size_t model,
                    int64_t now, const size_t *refused, size_t refused_count) {
  int64_t best = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    bool out = targets[i].model != model;
    for (size_t k = 0; k < refused_count; k++) out |= refused[k] == targets[i].node;
    int64_t end = out ? INT64_MAX : end_on(&targets[i], free_ns[targets[i].node], now);
    if (end < best) best = end;
  }
  return best;
}

static void test_choices(void **state) {
  (void)state;
  braid_cluster_target targets[kNodes * kModels];
  size_t refusals = 0;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    int64_t free_ns[kNodes] = {0}, now = 0;
    size_t count = draw_targets(seed, targets);
    braid_cluster_router *router;
    assert_int_equal(braid_cluster_router_create(targets, count, kNodes, kModels, NULL, &router), BRAID_OK);
    for (uint32_t step = 0; step < 400; step++) {
      size_t node = braid_random_below(seed, 2, 0, step, kNodes), refused[2] = {node, (node + 1) % kNodes};
      now += braid_random_below(seed, 3, 0, step, 400);
      free_ns[node] = braid_random_below(seed, 4, 0, step, 10) ? now + braid_random_below(seed, 5, 0, step, 8000) - 2000
                                                               : INT64_MAX;
      braid_cluster_router_set_free(router, node, free_ns[node]);
      assert_true(braid_cluster_router_free(router, node) == free_ns[node]);
      size_t model = step % kModels, refused_count = step % 3;
      int64_t best = look(targets, count, free_ns, model, now, refused, refused_count);
      int64_t deadline = step % 2 ? now + 1500 : 0;
      braid_cluster_route route = braid_cluster_choose(router, model, now, deadline, refused, refused_count);
      assert_true(route.end_ns == best);
      bool refusal = best == INT64_MAX || (deadline && best > deadline);
      assert_int_equal(route.node == BRAID_CLUSTER_NONE, refusal);
      refusals += refusal;
      if (refusal) continue;
      for (size_t i = 0; i < refused_count; i++) assert_true(route.node != refused[i]);
      size_t at = 0;
      while (targets[at].model != model || targets[at].node != route.node) at++;
      assert_true(end_on(&targets[at], free_ns[route.node], now) == best);
    }
    braid_cluster_router_destroy(router);
  }
  assert_true(refusals > 100);
}

static void test_edges(void **state) {
  (void)state;
  braid_cluster_target late[] = {{0, 0, INT64_MAX - 5}}, wrong[] = {{0, 1, 5}, {0, 0, 5}};
  braid_cluster_router *router;
  assert_int_equal(braid_cluster_router_create(NULL, 0, 0, 1, NULL, &router), BRAID_OK);
  assert_true(braid_cluster_choose(router, 0, 7, 0, NULL, 0).node == BRAID_CLUSTER_NONE);
  braid_cluster_router_destroy(router);
  assert_int_equal(braid_cluster_router_create(late, 1, 1, 1, NULL, &router), BRAID_OK);
  assert_true(braid_cluster_choose(router, 0, 7, 0, NULL, 0).end_ns == INT64_MAX); /* and does not wrap */
  braid_cluster_router_destroy(router);
  assert_int_equal(braid_cluster_router_create(wrong, 2, 2, 1, NULL, &router), BRAID_INVALID_ARGUMENT);
  assert_null(router);
  wrong[1].model = 1;
  assert_int_equal(braid_cluster_router_create(wrong, 2, 2, 1, NULL, &router), BRAID_INVALID_ARGUMENT);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_cluster_router *router;
  braid_status status = braid_cluster_router_create(context, 1, 1, 1, allocator, &router);
  braid_cluster_router_destroy(router);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  braid_cluster_target one[] = {{0, 0, 5}};
  assert_int_equal(oom_sweep(attempt, one), 7);
}

/* A model on 10,000 nodes, most of them as fast and idle: no choice may look at all of them. */
static void test_many(void **state) {
  (void)state;
  enum { kMany = 10000, kRequests = 200000 };
  braid_cluster_target *targets = calloc(kMany, sizeof *targets);
  assert_non_null(targets);
  for (size_t i = 0; i < kMany; i++) targets[i] = (braid_cluster_target){0, i, 1000 + (int64_t)(i % 4)};
  braid_cluster_router *router;
  assert_int_equal(braid_cluster_router_create(targets, kMany, kMany, 1, NULL, &router), BRAID_OK);
  clock_t start = clock();
  for (int64_t i = 0; i < kRequests; i++) {
    braid_cluster_route route = braid_cluster_choose(router, 0, i, 0, NULL, 0);
    braid_cluster_router_set_free(router, route.node, route.end_ns);
  }
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  print_message("%d choices among %d: %.3f s\n", kRequests, kMany, seconds);
  assert_true(seconds < 20); /* looking at all would take minutes */
  braid_cluster_router_destroy(router);
  free(targets);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices), cmocka_unit_test(test_edges),
                                     cmocka_unit_test(test_memory), cmocka_unit_test(test_many)};
  return skip_run_group_tests(tests, NULL, NULL);
}
