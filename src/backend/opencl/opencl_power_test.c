/* Power of OpenCL devices: by a driver in front of the driver that says the device is a card of NVIDIA, and a library
 * that passes for NVML (tests/libraries/nvml.c). */
#include <dlfcn.h>
#include <string.h>

#include "../../../tests/libraries/nvml.h"
#include "backend/opencl/device.h"
#include "registry.h"
#include "skip.h"

static braid_registry *registry;
static fake_nvml_card *cards;

static const braid_cl_api *real;
static braid_cl_api front;
static cl_uint vendor, khronos[4], nvidia[3]; /* domain, bus, device, function; bus, slot, domain */
static bool tells_khronos, tells_nvidia, tells_domain;

static cl_int CL_API_CALL tell(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *used) {
  const struct {
    cl_device_info what;
    const cl_uint *value;
    size_t bytes;
    bool told;
  } facts[] = {{CL_DEVICE_VENDOR_ID, &vendor, 4, true},
               {0x410F, khronos, 16, tells_khronos},
               {0x4008, &nvidia[0], 4, tells_nvidia},
               {0x4009, &nvidia[1], 4, tells_nvidia},
               {0x400A, &nvidia[2], 4, tells_nvidia && tells_domain}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    if (facts[i].what != what) continue;
    if (!facts[i].told || bytes < facts[i].bytes) return CL_INVALID_VALUE;
    memcpy(out, facts[i].value, facts[i].bytes);
    *used = facts[i].bytes;
    return CL_SUCCESS;
  }
  return real->GetDeviceInfo(device, what, bytes, out, used);
}

static braid_cl_device *open_front(const char *spec, braid_device **device) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  if (braid_device_open(registry, spec, device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  braid_cl_device *self = braid_device_self(*device);
  real = braid_cl_load();
  front = *real;
  front.GetDeviceInfo = tell;
  self->cl = &front;
  vendor = 0x10DE;
  tells_khronos = tells_nvidia = tells_domain = false;
  return self;
}

static void expect_refused(braid_cl_device *self, braid_status status, const char *detail) {
  double value = -1;
  braid_status got = braid_backend_opencl.read_power(self, &value);
  if (got != status || !strstr(braid_error_detail(), detail))
    fail_msg("%s: %s, expected %s", braid_status_text(got), braid_error_detail(), detail);
  assert_int_equal(braid_backend_opencl.read_energy(self, &value), status);
  assert_true(value == -1); /* unknown is no number */
}

static void expect_watts(braid_cl_device *self, double expected) {
  double watts;
  if (braid_backend_opencl.read_power(self, &watts) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_true(watts == expected);
}

static void test_nvidia(void **state) {
  (void)state;
  double uj;
  braid_device *device;
  braid_cl_device *self = open_front("opencl0", &device);
  expect_refused(self, BRAID_UNSUPPORTED, "opencl0: the driver does not tell which card it is");
  tells_nvidia = true;
  nvidia[0] = 0x65;
  nvidia[1] = 3 << 3;
  expect_refused(self, BRAID_NOT_FOUND, "the card at 00000000:65:03.0");
  tells_domain = true;
  nvidia[2] = 0x10;
  expect_watts(self, 300); /* the first */
  cards[0].millijoules += 2000;
  assert_int_equal(braid_backend_opencl.read_energy(self, &uj), BRAID_OK);
  assert_true(uj == 2e6);
  __atomic_store_n(&self->lost, 1, __ATOMIC_RELEASE);
  assert_int_equal(braid_backend_opencl.read_power(self, &uj), BRAID_DEVICE_LOST); /* nothing is asked any more */
  braid_device_close(device);
  self = open_front("opencl0", &device);
  tells_khronos = tells_nvidia = tells_domain = true;
  memcpy(khronos, (cl_uint[]){0, 0xb1, 0, 0}, sizeof khronos);
  expect_watts(self, 90); /* the second */
  braid_device_close(device);
}

static void test_others(void **state) {
  (void)state;
  braid_device *device;
  braid_cl_device *self = open_front("opencl0", &device);
  vendor = 0x1002;
  tells_khronos = true;
  memcpy(khronos, (cl_uint[]){0, 0xb1, 0, 0}, sizeof khronos);
  expect_refused(self, BRAID_UNSUPPORTED,
                 "opencl0: OpenCL tells no power, and only NVIDIA's cards are asked otherwise");
  braid_device_close(device);
  self = open_front("opencl0:parts=2,part=1", &device);
  tells_khronos = true;
  expect_refused(self, BRAID_UNSUPPORTED, "opencl0.1 is a part: the power is that of the whole card");
  braid_device_close(device);
}

static int set_up(void **state) {
  (void)state;
  void *library = dlopen(BRAID_LIBRARIES "/nvml_cards.so", RTLD_NOW | RTLD_LOCAL);
  cards = library ? dlsym(library, "fake_nvml_cards") : NULL;
  registry = open_test_registry(NULL, NULL);
  if (!cards || !registry) return -1;
  cards[0] = (fake_nvml_card){.domain = 0x10, .bus = 0x65, .device = 3, .instant_milliwatts = 300000};
  cards[1] = (fake_nvml_card){.bus = 0xb1, .instant_milliwatts = 90000};
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nvidia), cmocka_unit_test(test_others)};
  return skip_run_group_tests(tests, set_up, tear_down);
}
