/* Memory of OpenCL devices: the arena, what does not fit it, memory shared with the host, bindings that change. */
#include <string.h>

#include "backend/opencl/memory.h"
#include "backend/opencl/test_node.h"
#include "base/philox.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

static braid_registry *registry;
static const uint64_t kSeed = 7;

static void open_node(test_node *node, const char *spec, const char *op, int64_t count) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  if (test_node_open(node, registry, spec, op, count) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
}

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* --- the arena -----------------------------------------------------------------------------------------------------
 */
enum { kSlots = 24, kArena = 1 << 18, kSteps = 600, kMost = 30000 };

typedef struct piece {
  void *buffer;
  size_t bytes;
  uint8_t mark;
} piece;

static void transfer(test_node *node, const piece *of, uint8_t *host, bool write) {
  braid_binding place = {.buffer = of->buffer, .bytes = of->bytes};
  braid_task task = {.kind = write ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                     .label = "piece",
                     .source = place,
                     .target = place,
                     .host = host};
  ok(test_node_do(node, &task));
}

static void check_and_free(test_node *node, piece *of) {
  static uint8_t got[kMost];
  transfer(node, of, got, false);
  for (size_t i = 0; i < of->bytes; i++)
    if (got[i] != of->mark) fail_msg("byte %zu of a buffer was overwritten", i);
  node->backend->buffer_destroy(node->self, of->buffer);
  of->buffer = NULL;
}

/* Buffers come and go at random; each keeps its contents, and what is refused says what there is. */
static void test_arena(void **state) {
  (void)state;
  print_message("seed %llu\n", (unsigned long long)kSeed);
  test_node node;
  open_node(&node, "opencl0:arena=262144", "Relu", 16);
  piece pieces[kSlots] = {{0}};
  uint8_t host[kMost];
  uint64_t before, now, total;
  size_t refused = 0, held = 0;
  ok(node.backend->read_memory(node.self, &before, &total));
  assert_int_equal(total, kArena);
  for (uint64_t step = 0; step < kSteps; step++) {
    piece *of = &pieces[braid_random_below(kSeed, 0, 0, step * 2, kSlots)];
    if (of->buffer) {
      held -= of->bytes;
      check_and_free(&node, of);
      continue;
    }
    of->bytes = 1 + braid_random_below(kSeed, 0, 0, step * 2 + 1, kMost);
    of->mark = (uint8_t)step;
    braid_status status = node.backend->buffer_create(node.self, of->bytes, &of->buffer);
    ok(node.backend->read_memory(node.self, &now, &total));
    if (status != BRAID_OK) {
      assert_int_equal(status, BRAID_NO_MEMORY);
      assert_null(of->buffer);
      char free_bytes[64];
      snprintf(free_bytes, sizeof free_bytes, "%llu of %d free", (unsigned long long)now, kArena);
      assert_non_null(strstr(braid_error_detail(), free_bytes));
      refused++;
      continue;
    }
    held += of->bytes;
    assert_true(before - now >= held);
    memset(host, of->mark, of->bytes);
    transfer(&node, of, host, true);
  }
  assert_true(refused > 10);
  for (int i = 0; i < kSlots; i++)
    if (pieces[i].buffer) check_and_free(&node, &pieces[i]);
  ok(node.backend->read_memory(node.self, &now, &total));
  assert_int_equal(now, before);
  test_node_close(&node);
}

/* Without a limit, what the arena has no room for gets memory of its own, up to what the device has. */
static void test_beside_arena(void **state) {
  (void)state;
  test_node node;
  open_node(&node, "opencl0:memory=separate", "Relu", 16);
  const braid_cl_context *shared = ((braid_cl_device *)node.self)->shared;
  if (!shared->pool) {
    test_node_close(&node);
    skip_test("device", "opencl0 gave no arena");
  }
  size_t large = braid_pool_get_stats(shared->pool).bytes + 1;
  piece of = {.bytes = 100};
  if (large <= shared->most_bytes) {
    uint8_t host[100] = {1, 2, 3}, got[100] = {0};
    ok(node.backend->buffer_create(node.self, large, &of.buffer));
    transfer(&node, &of, host, true);
    transfer(&node, &of, got, false);
    assert_memory_equal(host, got, sizeof host);
    node.backend->buffer_destroy(node.self, of.buffer);
    assert_int_equal(shared->plain_bytes, 0);
  }
  assert_int_equal(node.backend->buffer_create(node.self, (size_t)shared->most_bytes + 1, &of.buffer), BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "the largest range has"));
  test_node_close(&node);
  braid_device *device;
  char spec[64];
  snprintf(spec, sizeof spec, "opencl0:arena=%llu", 1ull << 60);
  ok(braid_device_open(registry, spec, &device)); /* the arena is made with the first buffer */
  const braid_backend *backend = braid_device_backend(device);
  assert_int_equal(backend->buffer_create(braid_device_self(device), 100, &of.buffer), BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "arena="));
  braid_device_close(device);
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
enum { kCount = 512 };

static void fill(float *x, int plus) {
  for (int i = 0; i < kCount; i++) x[i] = (float)((i * 7 + plus) % 19 - 9);
}

static void check(const float *y, const float *x) {
  for (int i = 0; i < kCount; i++)
    if (y[i] != (x[i] > 0 ? x[i] : 0)) fail_msg("element %d is %g for %g", i, y[i], x[i]);
}

/* A buffer that is freed and made again may have the same address: the kernel must not go on with the old one. */
static void test_new_buffer_at_old_address(void **state) {
  (void)state;
  test_node node;
  float x[kCount], y[kCount];
  open_node(&node, "opencl0:memory=separate", "Relu", kCount);
  for (int round = 0; round < 5; round++) {
    void *kept = NULL;
    fill(x, round);
    ok(test_node_transfer(&node, 0, x, true));
    ok(test_node_do(&node, &node.task));
    ok(test_node_transfer(&node, 1, y, false));
    check(y, x);
    node.backend->buffer_destroy(node.self, node.buffers[0]);
    ok(node.backend->buffer_create(node.self, 64, &kept)); /* moves the next one */
    ok(node.backend->buffer_create(node.self, sizeof x, &node.buffers[0]));
    node.backend->buffer_destroy(node.self, kept);
    node.bindings[0].buffer = node.buffers[0];
  }
  test_node_close(&node);
}

/* Operands in the caller's memory, in a buffer by address, and one over the other. */
static void test_host_operands(void **state) {
  (void)state;
  test_node node;
  static _Alignas(64) float x[kCount], y[kCount];
  open_node(&node, "opencl0", "Relu", kCount);
  if (braid_device_get_info(node.device)->memory != BRAID_MEMORY_UNIFIED) {
    test_node_close(&node);
    skip_test("device", "opencl0 has memory of its own");
  }
  braid_binding own = node.bindings[0];
  float *mapped = node.backend->buffer_map(node.self, node.buffers[0]);
  for (int round = 0; round < 4; round++) {
    bool by_address = round % 2;
    float *source = by_address ? mapped : x;
    fill(source, round);
    node.bindings[0] = (braid_binding){.host = source, .bytes = sizeof x};
    node.bindings[1] = (braid_binding){.host = y, .bytes = sizeof y};
    ok(test_node_do(&node, &node.task));
    check(y, source);
  }
  fill(mapped, 3);
  fill(x, 3);
  node.bindings[0] = node.bindings[1] = own;
  ok(test_node_do(&node, &node.task));
  check(mapped, x);
  test_node_close(&node);
}

/* A buffer that is larger than the driver's objects may be: operands at its end. Its pages are never touched but
 * there. */
static void test_larger_than_an_object(void **state) {
  (void)state;
  test_node node;
  float x[kCount], y[kCount];
  open_node(&node, "opencl0", "Relu", kCount);
  const braid_cl_context *shared = ((braid_cl_device *)node.self)->shared;
  bool unified = braid_device_get_info(node.device)->memory == BRAID_MEMORY_UNIFIED;
  size_t bytes = (size_t)shared->most_bytes + (1 << 20);
  void *large = NULL;
  if (!unified || bytes > shared->memory_bytes ||
      node.backend->buffer_create(node.self, bytes, &large) == BRAID_NO_MEMORY) {
    test_node_close(&node);
    skip_test("device", "opencl0 has no such memory");
  }
  fill(x, 1);
  node.bindings[0] = (braid_binding){.buffer = large, .offset = bytes - 4096, .bytes = sizeof x};
  node.bindings[1] = (braid_binding){.buffer = large, .offset = bytes - 8192, .bytes = sizeof y};
  ok(test_node_transfer(&node, 0, x, true));
  ok(test_node_do(&node, &node.task));
  ok(test_node_transfer(&node, 1, y, false));
  check(y, x);
  node.bindings[0].offset = bytes - 16;
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OUT_OF_RANGE);
  node.backend->buffer_destroy(node.self, large);
  test_node_close(&node);
}

/* --- the steady state ----------------------------------------------------------------------------------------------
 */
static void test_nothing_is_allocated(void **state) {
  (void)state;
  enum { kTasks = 300 };
  oom_allocator counting;
  braid_registry *own;
  test_node node;
  braid_task tasks[kTasks];
  oom_init(&counting, -1);
  ok(braid_registry_create(&counting.allocator, &own));
  if (!braid_cl_count()) {
    braid_registry_destroy(own);
    skip_test("opencl", "there is no OpenCL device");
  }
  ok(test_node_open(&node, own, "opencl0:memory=separate", "Relu", kCount));
  int64_t requests = 0;
  for (int i = 0; i < kTasks; i++) {
    tasks[i] = node.task;
  }
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < kTasks; i++) ok(braid_queue_submit(&node.queue, &tasks[i]));
    braid_queue_flush(&node.queue);
    ok(braid_queue_wait(&node.queue, &tasks[kTasks - 1], -1));
    if (round == 0) requests = atomic_load(&counting.requests);
    assert_int_equal(atomic_load(&counting.requests), requests);
  }
  test_node_close(&node);
  braid_registry_destroy(own);
  assert_int_equal(atomic_load(&counting.live), 0);
}

static int set_up(void **state) {
  (void)state;
  registry = open_test_registry(NULL, NULL);
  return registry == NULL;
}

static int tear_down(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arena),
      cmocka_unit_test(test_beside_arena),
      cmocka_unit_test(test_new_buffer_at_old_address),
      cmocka_unit_test(test_host_operands),
      cmocka_unit_test(test_larger_than_an_object),
      cmocka_unit_test(test_nothing_is_allocated),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
