#include "backend/cpu/power.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "braid/allocator.h"

enum { kMaxPackages = 16 };

typedef struct package {
  int file;
  uint64_t last_uj, range_uj; /* the counter goes back to 0 after range_uj */
} package;

struct braid_cpu_power {
  const braid_allocator *allocator;
  package packages[kMaxPackages];
  int count;
  int64_t last_ns;
};

static int64_t read_number(int file) {
  char text[32];
  ssize_t bytes = pread(file, text, sizeof text - 1, 0);
  if (bytes <= 0) return -1;
  text[bytes] = '\0';
  return strtoll(text, NULL, 10);
}

static int open_counter(int index, const char *name) {
  char path[96];
  snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/%s", index, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static void add_package(braid_cpu_power *power, int index) {
  int file = open_counter(index, "energy_uj"), range_file = open_counter(index, "max_energy_range_uj");
  int64_t energy = file < 0 ? -1 : read_number(file), range = range_file < 0 ? -1 : read_number(range_file);
  if (range_file >= 0) close(range_file);
  if (energy >= 0 && range > 0)
    power->packages[power->count++] = (package){file, (uint64_t)energy, (uint64_t)range};
  else if (file >= 0)
    close(file);
}

braid_status braid_cpu_power_create(const braid_allocator *allocator, braid_cpu_power **out) {
  *out = NULL;
  braid_cpu_power *power = braid_zalloc(allocator, sizeof *power);
  if (!power) return BRAID_NO_MEMORY;
  power->allocator = allocator;
  for (int i = 0; i < kMaxPackages; i++) add_package(power, i);
  power->last_ns = braid_now_ns();
  if (power->count)
    *out = power;
  else
    braid_free(allocator, power);
  return BRAID_OK;
}

void braid_cpu_power_destroy(braid_cpu_power *power) {
  if (!power) return;
  for (int i = 0; i < power->count; i++) close(power->packages[i].file);
  braid_free(power->allocator, power);
}

braid_status braid_cpu_power_read(braid_cpu_power *power, double *out_watts) {
  if (!power) return braid_fail(BRAID_UNSUPPORTED, "this machine has no readable energy counter");
  uint64_t total_uj = 0;
  for (int i = 0; i < power->count; i++) {
    package *one = &power->packages[i];
    int64_t now = read_number(one->file);
    if (now < 0) return braid_fail(BRAID_IO, "the energy counter of package %d cannot be read", i);
    uint64_t energy = (uint64_t)now;
    total_uj += energy >= one->last_uj ? energy - one->last_uj : energy + one->range_uj - one->last_uj;
    one->last_uj = energy;
  }
  int64_t now_ns = braid_now_ns(), elapsed_ns = now_ns - power->last_ns;
  power->last_ns = now_ns;
  *out_watts = elapsed_ns > 0 ? (double)total_uj * 1e3 / (double)elapsed_ns : 0;
  return BRAID_OK;
}
