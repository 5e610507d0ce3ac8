/* Memory of values on a device that runs tasks beside each other: kept longer in plans that update states, while the
 * arena is no larger than an eighth of the device's memory; the same results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/session.h"
#include "runtime/execution/execution_fixture.h"
#include "skip.h"

enum { kRows = 64, kLayers = 12, kValue = kRows * kRows * sizeof(float) };

static uint64_t memory_bytes;

static void info_with_memory(void *self, braid_device_info *out) {
  renamed_info(self, out);
  out->memory_bytes = memory_bytes;
}

/* y = x * w * w ..., and w <- w + x of a training step. */
static braid_graph *chain(bool trains) {
  const int64_t dims[] = {kRows, kRows};
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "chain", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, dims));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = add_tensor(graph, "w", BRAID_VALUE_PARAMETER, 2, dims, 0.01f), y = x;
  for (int i = 0; i < kLayers; i++) y = node(graph, "MatMul", (braid_value_id[]){y, w}, 2);
  OK(braid_graph_add_output(graph, y));
  if (trains) OK(braid_graph_update_state(graph, w, node(graph, "Add", (braid_value_id[]){w, x}, 2)));
  return graph;
}

/* Bytes of the arena. */
static size_t run(uint32_t lingers, uint64_t bytes, bool trains, float *y) {
  static float x[kRows * kRows];
  braid_backend lingering = renamed_cpu("lingering");
  lingering.lingers = lingers;
  lingering.info = info_with_memory;
  memory_bytes = bytes;
  braid_registry *registry = registry_with(&lingering);
  braid_graph *graph = chain(trains);
  braid_session *session;
  OK(braid_session_create(
      graph, &(braid_session_options){.devices = "lingering", .training = trains, .registry = registry}, &session));
  fill(x, kRows * kRows, 1);
  for (int i = 0; i < 2; i++) OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  size_t arena = braid_session_get_stats(session).arena_bytes;
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
  return arena;
}

static void test_lingers(void **state) {
  (void)state;
  static float plain[kRows * kRows], other[kRows * kRows];
  const uint64_t kMuch = UINT64_C(1) << 40, kLittle = 8 * 3 * kValue;
  size_t least = run(0, kMuch, true, plain);
  assert_true(least >= 2 * kValue && least < 4 * kValue);
  static const struct {
    uint32_t lingers;
    size_t values; /* of the arena, at least */
  } kCases[] = {{2, 4}, {6, 8}, {INT32_MAX, kLayers - 1}, {UINT32_MAX, kLayers - 1}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    size_t arena = run(kCases[i].lingers, kMuch, true, other);
    assert_true(arena >= kCases[i].values * kValue && arena <= (kLayers + 1) * kValue);
    assert_memory_equal(other, plain, sizeof plain);
  }
  assert_int_equal(run(6, kLittle, true, other), least);
  assert_memory_equal(other, plain, sizeof plain);
  assert_int_equal(run(6, 0, true, other), least);
  size_t forward = run(0, kMuch, false, plain);
  assert_int_equal(run(6, kMuch, false, other), forward);
  assert_memory_equal(other, plain, sizeof plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lingers)};
  return skip_run_group_tests(tests, NULL, NULL);
}
