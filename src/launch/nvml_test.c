/* NVML by libraries that pass for it: what a card says, in watts and microjoules; what it can't say, as a sentence. A
 * library is loaded once in a program, so each other one has a child of its own. */
#include "launch/nvml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tests/libraries/nvml.h"

static const braid_pci_address kFirst = {0x10, 0x65, 0, 0}, kSecond = {0, 0xb1, 3, 0};

static void *open_library(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", BRAID_LIBRARIES, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  return library;
}

static void expect(braid_status got, braid_status status, const char *detail) {
  if (got != status || !strstr(braid_error_detail(), detail))
    fail_msg("%s: %s, expected %s: %s", braid_status_text(got), braid_error_detail(), braid_status_text(status),
             detail);
}

/* --- libraries that do not do --------------------------------------------------------------------------------------
 */
static int refuses_card(const char *library, int init_code, const char *detail) {
  braid_nvml_card *card;
  void *loaded = library ? open_library(library) : NULL;
  if (init_code) *(int *)dlsym(loaded, "fake_nvml_init_code") = init_code;
  for (int i = 0; i < 2; i++) {
    braid_status status = braid_nvml_open(&kFirst, &card);
    if (status == BRAID_UNSUPPORTED && !card && strstr(braid_error_detail(), detail)) continue;
    fprintf(stderr, "%s: %s, expected %s\n", braid_status_text(status), braid_error_detail(), detail);
    return 1;
  }
  return 0;
}

static void expect_refused(const char *library, int init_code, const char *detail) {
  int status;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(refuses_card(library, init_code, detail));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_libraries(void **state) {
  (void)state;
  void *real = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (real)
    dlclose(real);
  else
    expect_refused(NULL, 0, "there is no libnvidia-ml.so.1, which tells the power of NVIDIA's cards");
  expect_refused("nvml_empty.so", 0, "libnvidia-ml.so.1 has no nvmlErrorString");
  expect_refused("nvml_cards.so", 9, "nvmlInit_v2: Unknown Error");
}

/* --- cards ---------------------------------------------------------------------------------------------------------
 */
static fake_nvml_card *cards;

static int setup(void **state) {
  (void)state;
  void *library = open_library("nvml_cards.so");
  cards = dlsym(library, "fake_nvml_cards");
  return cards ? 0 : -1;
}

static void set_cards(void) {
  cards[0] = (fake_nvml_card){.domain = 0x10,
                              .bus = 0x65,
                              .average_milliwatts = 211500,
                              .instant_milliwatts = 340250,
                              .millijoules = 123456789012345};
  cards[1] = (fake_nvml_card){.bus = 0xb1, .device = 3, .average_milliwatts = 61000, .instant_code = 3};
}

static void test_power(void **state) {
  (void)state;
  double watts;
  braid_nvml_card *card;
  set_cards();
  assert_int_equal(braid_nvml_open(&kFirst, &card), BRAID_OK);
  assert_int_equal(braid_nvml_read_power(card, &watts), BRAID_OK);
  assert_true(watts == 340.25); /* of this instant */
  cards[0].instant_code = 15;
  assert_int_equal(braid_nvml_read_power(card, &watts), BRAID_OK);
  assert_true(watts == 211.5);
  cards[0].power_code = 15;
  expect(braid_nvml_read_power(card, &watts), BRAID_DEVICE_LOST,
         "the card at 00000010:65:00.0: nvmlDeviceGetPowerUsage: GPU is lost");
  braid_nvml_close(card);
  assert_int_equal(braid_nvml_open(&kSecond, &card), BRAID_OK);
  assert_int_equal(braid_nvml_read_power(card, &watts), BRAID_OK);
  assert_true(watts == 61);
  cards[1].power_code = 3;
  expect(braid_nvml_read_power(card, &watts), BRAID_UNSUPPORTED, "nvmlDeviceGetPowerUsage: Not Supported");
  braid_nvml_close(card);
  braid_nvml_close(NULL);
}

static void test_energy(void **state) {
  (void)state;
  double uj;
  braid_nvml_card *card;
  set_cards();
  assert_int_equal(braid_nvml_open(&kFirst, &card), BRAID_OK);
  assert_int_equal(braid_nvml_read_energy(card, &uj), BRAID_OK);
  assert_true(uj == 0); /* since it was opened */
  cards[0].millijoules += 1500;
  assert_int_equal(braid_nvml_read_energy(card, &uj), BRAID_OK);
  assert_true(uj == 1.5e6);
  cards[0].millijoules = 70; /* the driver was loaded anew: it never falls */
  assert_int_equal(braid_nvml_read_energy(card, &uj), BRAID_OK);
  assert_true(uj == 1.5e6);
  cards[0].millijoules = 1070;
  assert_int_equal(braid_nvml_read_energy(card, &uj), BRAID_OK);
  assert_true(uj == 2.5e6);
  cards[0].energy_code = 15;
  uj = -1;
  expect(braid_nvml_read_energy(card, &uj), BRAID_DEVICE_LOST, "nvmlDeviceGetTotalEnergyConsumption: GPU is lost");
  assert_true(uj == -1); /* unknown is no number */
  braid_nvml_close(card);
  cards[1].energy_code = 3; /* as cards before Volta */
  cards[1].millijoules = 5000;
  assert_int_equal(braid_nvml_open(&kSecond, &card), BRAID_OK);
  expect(braid_nvml_read_energy(card, &uj), BRAID_UNSUPPORTED,
         "the card at 00000000:b1:03.0: nvmlDeviceGetTotalEnergyConsumption: Not Supported");
  cards[1].energy_code = 0; /* what it counted before is nobody's */
  assert_int_equal(braid_nvml_read_energy(card, &uj), BRAID_OK);
  assert_true(uj == 0);
  braid_nvml_close(card);
}

static void test_refused(void **state) {
  (void)state;
  braid_nvml_card *card;
  set_cards();
  expect(braid_nvml_open(&(braid_pci_address){0, 0x65, 0, 0}, &card), BRAID_NOT_FOUND,
         "the card at 00000000:65:00.0: nvmlDeviceGetHandleByPciBusId_v2: Not Found");
  assert_null(card);
  cards[0].can_divide = true;
  assert_int_equal(braid_nvml_open(&kFirst, &card), BRAID_OK);
  braid_nvml_close(card);
  cards[0].divided = 1;
  expect(braid_nvml_open(&kFirst, &card), BRAID_UNSUPPORTED, "is divided (MIG)");
  assert_null(card);
}

int main(void) {
  const struct CMUnitTest libraries[] = {cmocka_unit_test(test_libraries)};
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_power), cmocka_unit_test(test_energy),
                                     cmocka_unit_test(test_refused)};
  int failed = cmocka_run_group_tests(libraries, NULL, NULL);
  return failed + cmocka_run_group_tests(tests, setup, NULL);
}
