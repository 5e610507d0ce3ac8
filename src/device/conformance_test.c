/* Every device of this machine through the conformance suite; and the registry. */
#include <string.h>

#include "braid/device.h"
#include "oom.h"

static void report(void *context, const char *name, bool passed, const char *detail) {
  print_message("%s: %s %s%s%s\n", (const char *)context, passed ? "ok  " : "FAIL", name, detail[0] ? ": " : "",
                detail);
}

static void check_device(braid_registry *registry, const char *spec) {
  braid_device *device;
  size_t failures;
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  assert_int_equal(braid_device_conformance(device, report, (void *)spec, &failures), BRAID_OK);
  assert_int_equal(failures, 0);
  braid_device_close(device);
}

static void test_all_devices(void **state) {
  (void)state;
  braid_registry *registry;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_device_info infos[32];
  size_t count;
  assert_int_equal(braid_registry_devices(registry, infos, 32, &count), BRAID_OK);
  assert_true(count >= 2);
  for (size_t i = 0; i < count && i < 32; i++) check_device(registry, infos[i].name);
  check_device(registry, "cpu:memory=separate,threads=1");
  braid_registry_destroy(registry);
}

static void test_open_errors(void **state) {
  (void)state;
  braid_registry *registry;
  braid_device *device;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  assert_int_equal(braid_device_open(registry, "gpu7", &device), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "cpu"));
  assert_null(device);
  assert_int_equal(braid_device_open(registry, "", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, ":threads=2", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu:threads=0", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu:threads=2,,", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu.1", &device), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "part=1"));
  assert_int_equal(braid_device_open(registry, "null:memory=lots", &device), BRAID_INVALID_ARGUMENT);
  braid_registry_destroy(registry);
}

static void test_backends_are_checked(void **state) {
  (void)state;
  extern const braid_backend braid_backend_null;
  braid_registry *registry;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_backend other = braid_backend_null;
  assert_int_equal(braid_registry_add(registry, NULL), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_registry_add(registry, &other), BRAID_INVALID_ARGUMENT); /* its name is taken */
  other.name = "other";
  other.abi = BRAID_DEVICE_ABI + 1;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_UNSUPPORTED);
  other.abi = BRAID_DEVICE_ABI;
  other.submit = NULL;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "submit"));
  other.submit = braid_backend_null.submit;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_OK);
  braid_registry_destroy(registry);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_registry *registry;
  braid_device *device = NULL;
  braid_status status = braid_registry_create(allocator, &registry);
  if (status == BRAID_OK) status = braid_device_open(registry, context, &device);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt, "cpu:threads=1") > 3);
  assert_true(oom_sweep(attempt, "null") > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_devices),
      cmocka_unit_test(test_open_errors),
      cmocka_unit_test(test_backends_are_checked),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
