/* The CPU's energy, from made-up powercap folders: which zones count, counters that go round, readers side by side. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cpu/energy.h"
#include "oom.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static char root[64];

static int make_root(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/braid-powercap-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

static void write_file(const char *zone, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s/%s", root, zone, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void set_uj(const char *zone, unsigned long long uj) {
  char text[32];
  snprintf(text, sizeof text, "%llu\n", uj);
  write_file(zone, "energy_uj", text);
}

enum { kRange = 1000000 };

static void add_zone(const char *zone, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, zone);
  assert_int_equal(mkdir(path, 0777), 0);
  write_file(zone, "name", name);
  write_file(zone, "max_energy_range_uj", "1000000\n");
  set_uj(zone, 100);
}

static braid_cpu_energy *open_energy(void) {
  braid_cpu_energy *energy;
  OK(braid_cpu_energy_create(NULL, root, &energy));
  return energy;
}

static double read_uj(braid_cpu_energy *energy) {
  double uj = -1;
  OK(braid_cpu_energy_read(energy, &uj));
  return uj;
}

/* A notebook: one package with its cores and graphics, and the platform around it, shown twice. */
static void test_platform_holds_its_package(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "package-0\n");
  add_zone("intel-rapl:0:0", "core\n");
  add_zone("intel-rapl:0:1", "uncore\n");
  add_zone("intel-rapl:1", "psys\n");
  add_zone("intel-rapl-mmio:0", "package-0\n");
  braid_cpu_energy *energy = open_energy();
  assert_true(read_uj(energy) == 0);
  set_uj("intel-rapl:0", 600);
  set_uj("intel-rapl:0:0", 400);
  set_uj("intel-rapl:0:1", 200);
  set_uj("intel-rapl:1", 1100);
  set_uj("intel-rapl-mmio:0", 600);
  assert_true(read_uj(energy) == 500);
  braid_cpu_energy_destroy(energy);
}

/* A server: two packages, each with memory measured apart, and cores within. */
static void test_two_packages_and_memory(void **state) {
  (void)state;
  static const char *const kZones[][2] = {{"intel-rapl:0", "package-0\n"},
                                          {"intel-rapl:1", "package-1\n"},
                                          {"intel-rapl:0:0", "dram\n"},
                                          {"intel-rapl:1:0", "dram\n"},
                                          {"intel-rapl:1:1", "core\n"}};
  for (size_t i = 0; i < 5; i++) add_zone(kZones[i][0], kZones[i][1]);
  braid_cpu_energy *energy = open_energy();
  for (unsigned i = 0; i < 5; i++) set_uj(kZones[i][0], 100 + (1ull << i));
  assert_true(read_uj(energy) == 1 + 2 + 4 + 8);
  braid_cpu_energy_destroy(energy);
}

static void test_platform_alone(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "psys\n");
  braid_cpu_energy *energy = open_energy();
  set_uj("intel-rapl:0", 107);
  assert_true(read_uj(energy) == 7);
  braid_cpu_energy_destroy(energy);
}

/* Packages that only the memory-mapped registers show. */
static void test_other_control_type(void **state) {
  (void)state;
  add_zone("intel-rapl-mmio:0", "package-0\n");
  add_zone("dtpm:0", "package-0\n");
  braid_cpu_energy *energy = open_energy();
  set_uj("intel-rapl-mmio:0", 103);
  set_uj("dtpm:0", 999);
  assert_true(read_uj(energy) == 3);
  braid_cpu_energy_destroy(energy);
}

/* What is not known in full is unknown, not less. */
static void test_unknown(void **state) {
  (void)state;
  double uj = 5;
  assert_null(open_energy());
  assert_int_equal(braid_cpu_energy_read(NULL, &uj), BRAID_UNSUPPORTED);
  assert_true(uj == 5);
  add_zone("intel-rapl:0", "package-0\n");
  add_zone("intel-rapl:1", "package-1\n");
  braid_cpu_energy_destroy(open_energy());
  char path[256];
  snprintf(path, sizeof path, "%s/intel-rapl:1/energy_uj", root);
  assert_int_equal(unlink(path), 0);
  assert_null(open_energy());
  set_uj("intel-rapl:1", 4);
  write_file("intel-rapl:1", "max_energy_range_uj", "none\n");
  assert_null(open_energy());
}

static void test_round(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "package-0\n");
  set_uj("intel-rapl:0", kRange - 10);
  braid_cpu_energy *energy = open_energy();
  set_uj("intel-rapl:0", 5);
  assert_true(read_uj(energy) == 15);
  double before = 0;
  for (unsigned long long at = 5; at < 8ull * kRange; at += 300007) {
    set_uj("intel-rapl:0", at % kRange);
    double now = read_uj(energy);
    assert_true(now >= before);
    assert_true(now == (double)(at + 10));
    before = now;
  }
  braid_cpu_energy_destroy(energy);
}

/* Each keeps its own last value: what one reads takes nothing from the other. No use, no energy, no watts. */
static void test_readers_side_by_side(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "package-0\n");
  braid_cpu_energy *energy = open_energy();
  double often = 0, rarely = read_uj(energy);
  for (unsigned i = 1; i <= 10; i++) {
    set_uj("intel-rapl:0", 100 + 10 * i);
    double now = read_uj(energy);
    assert_true(now - often == 10);
    assert_true(read_uj(energy) == now);
    often = now;
  }
  assert_true(read_uj(energy) - rarely == 100);
  braid_cpu_energy_destroy(energy);
}

static void test_counter_lost(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "package-0\n");
  add_zone("intel-rapl:1", "package-1\n");
  braid_cpu_energy *energy = open_energy();
  double uj;
  write_file("intel-rapl:0", "energy_uj", "");
  set_uj("intel-rapl:1", 104);
  assert_int_equal(braid_cpu_energy_read(energy, &uj), BRAID_IO);
  set_uj("intel-rapl:0", 102);
  assert_true(read_uj(energy) == 6); /* nothing of the others was lost */
  braid_cpu_energy_destroy(energy);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_cpu_energy *energy;
  braid_status status = braid_cpu_energy_create(allocator, context, &energy);
  braid_cpu_energy_destroy(energy);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  add_zone("intel-rapl:0", "package-0\n");
  assert_int_equal(oom_sweep(attempt, root), 2);
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_ROOT(test_platform_holds_its_package),
      IN_ROOT(test_two_packages_and_memory),
      IN_ROOT(test_platform_alone),
      IN_ROOT(test_other_control_type),
      IN_ROOT(test_unknown),
      IN_ROOT(test_round),
      IN_ROOT(test_readers_side_by_side),
      IN_ROOT(test_counter_lost),
      IN_ROOT(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
