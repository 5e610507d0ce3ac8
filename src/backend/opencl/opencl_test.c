/* The OpenCL backend, on whatever driver is here (PoCL where there is no card). */
#include <string.h>

#include "backend/opencl/device.h"
#include "oom.h"

static braid_registry *registry;

static void report(void *context, const char *name, bool passed, const char *detail) {
  if (!passed) print_message("%s: FAIL %s: %s\n", (const char *)context, name, detail);
}

/* Opens a device or, where there is no OpenCL, skips the test. */
static braid_device *open_device(const char *spec) {
  if (!braid_cl_count()) {
    print_message("skipped: there is no OpenCL device\n");
    skip();
  }
  braid_device *device;
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  return device;
}

static void check_conformance(const char *spec) {
  braid_device *device = open_device(spec);
  size_t failures;
  assert_int_equal(braid_device_conformance(device, report, (void *)spec, &failures), BRAID_OK);
  assert_int_equal(failures, 0);
  braid_device_close(device);
}

static void test_memory_of_its_own(void **state) {
  (void)state;
  check_conformance("opencl0:memory=separate");
  check_conformance("opencl0:arena=4194304");
}

static void test_parts(void **state) {
  (void)state;
  check_conformance("opencl0.0:parts=2");
  check_conformance("opencl0.1:parts=2,memory=separate");
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_registry *own;
  braid_device *device = NULL;
  braid_status status = braid_registry_create(allocator, &own);
  if (status == BRAID_OK) status = braid_device_open(own, context, &device);
  if (status == BRAID_OK) {
    const braid_backend *backend = braid_device_backend(device);
    void *self = braid_device_self(device), *queue = NULL, *buffer = NULL;
    status = backend->queue_create(self, &queue);
    if (status == BRAID_OK) status = backend->buffer_create(self, 1000, &buffer);
    if (buffer) backend->buffer_destroy(self, buffer);
    if (queue) backend->queue_destroy(self, queue);
  }
  braid_device_close(device);
  braid_registry_destroy(own);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_device_close(open_device("opencl0"));
  assert_true(oom_sweep(attempt, "opencl0") > 5);
  assert_true(oom_sweep(attempt, "opencl0:memory=separate") > 5);
}

static int set_up(void **state) {
  (void)state;
  return braid_registry_create(NULL, &registry) != BRAID_OK;
}

static int tear_down(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_of_its_own),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
