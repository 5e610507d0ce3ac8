#include "backend/cpu/energy.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vector.h"

typedef struct energy_zone {
  int file;
  uint64_t last_uj, range_uj; /* the counter goes back to 0 after range_uj */
} energy_zone;

struct braid_cpu_energy {
  const braid_allocator *allocator;
  pthread_mutex_t lock; /* of the zones' last_uj and total_uj */
  energy_zone *zones;
  size_t count, capacity;
  uint64_t total_uj;
};

/* --- files of a zone -----------------------------------------------------------------------------------------------
 */
static int open_file(const char *root, const char *zone, const char *name) {
  char path[512];
  int length = snprintf(path, sizeof path, "%s/%s/%s", root, zone, name);
  return length > 0 && length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* -1: it cannot be read. */
static int64_t read_number(int file) {
  char text[32];
  ssize_t bytes = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
  if (bytes <= 0 || text[0] < '0' || text[0] > '9') return -1;
  text[bytes] = '\0';
  return strtoll(text, NULL, 10);
}

/* Empty if there is none. */
static void read_name(const char *root, const char *zone, char *out, size_t bytes) {
  int file = open_file(root, zone, "name");
  ssize_t got = file < 0 ? 0 : read(file, out, bytes - 1);
  if (file >= 0) close(file);
  out[got > 0 ? got : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

/* --- choosing zones ------------------------------------------------------------------------------------------------
 * Of a control type's zones, "type:0" is a whole and "type:0:1" a part of it. */
static bool is_package(const char *root, const char *zone) {
  char name[64];
  read_name(root, zone, name, sizeof name);
  return strncmp(name, "package-", 8) == 0;
}

static bool is_memory_of_package(const char *root, const char *zone) {
  char name[64], parent[64];
  read_name(root, zone, name, sizeof name);
  if (strcmp(name, "dram") != 0) return false;
  snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(zone, ':') - zone), zone);
  return is_package(root, parent);
}

static bool is_platform(const char *root, const char *zone) {
  char name[64];
  read_name(root, zone, name, sizeof name);
  return strcmp(name, "psys") == 0;
}

typedef bool zone_rule(const char *root, const char *zone);

/* How deep a zone of this control type lies: 1 a whole, 2 a part; 0: another type's. */
static int depth_of(const char *zone, const char *type) {
  size_t length = strlen(type);
  if (strncmp(zone, type, length) != 0 || zone[length] != ':') return 0;
  return strchr(zone + length + 1, ':') ? 2 : 1;
}

/* Adds a zone that must be counted; *whole turns false if it cannot be. */
static braid_status add_zone(braid_cpu_energy *energy, const char *root, const char *name, bool *whole) {
  energy_zone *zones = braid_grow(energy->allocator, energy->zones, energy->count, &energy->capacity, sizeof *zones);
  if (!zones) return BRAID_NO_MEMORY;
  energy->zones = zones;
  int file = open_file(root, name, "energy_uj"), range_file = open_file(root, name, "max_energy_range_uj");
  int64_t now = read_number(file), range = read_number(range_file);
  if (range_file >= 0) close(range_file);
  if (now < 0 || range <= 0) *whole = false;
  if (file >= 0) zones[energy->count++] = (energy_zone){file, (uint64_t)now, (uint64_t)range};
  return BRAID_OK;
}

static braid_status add_zones(braid_cpu_energy *energy, const char *root, const char *type, int depth, zone_rule *rule,
                              bool *whole) {
  DIR *folder = opendir(root);
  if (!folder) return BRAID_OK;
  braid_status status = BRAID_OK;
  const struct dirent *entry;
  while (status == BRAID_OK && (entry = readdir(folder)))
    if (strlen(entry->d_name) < 64 && depth_of(entry->d_name, type) == depth && rule(root, entry->d_name))
      status = add_zone(energy, root, entry->d_name, whole);
  closedir(folder);
  return status;
}

/* Packages with their memory by the first control type that shows any; without packages the platform. */
static braid_status choose_zones(braid_cpu_energy *energy, const char *root, bool *whole) {
  static const char *const kTypes[] = {"intel-rapl", "intel-rapl-mmio"};
  enum { kTypeCount = sizeof kTypes / sizeof *kTypes };
  braid_status status = BRAID_OK;
  for (int i = 0; status == BRAID_OK && *whole && !energy->count && i < kTypeCount; i++) {
    status = add_zones(energy, root, kTypes[i], 1, is_package, whole);
    if (status == BRAID_OK && energy->count)
      status = add_zones(energy, root, kTypes[i], 2, is_memory_of_package, whole);
  }
  for (int i = 0; status == BRAID_OK && *whole && !energy->count && i < kTypeCount; i++)
    status = add_zones(energy, root, kTypes[i], 1, is_platform, whole);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
braid_status braid_cpu_energy_create(const braid_allocator *allocator, const char *root, braid_cpu_energy **out) {
  *out = NULL;
  braid_cpu_energy *energy = braid_zalloc(allocator, sizeof *energy);
  if (!energy) return BRAID_NO_MEMORY;
  energy->allocator = allocator;
  pthread_mutex_init(&energy->lock, NULL);
  bool whole = true;
  braid_status status = choose_zones(energy, root, &whole);
  if (status == BRAID_OK && whole && energy->count)
    *out = energy;
  else
    braid_cpu_energy_destroy(energy);
  return status;
}

void braid_cpu_energy_destroy(braid_cpu_energy *energy) {
  if (!energy) return;
  for (size_t i = 0; i < energy->count; i++) close(energy->zones[i].file);
  pthread_mutex_destroy(&energy->lock);
  braid_free(energy->allocator, energy->zones);
  braid_free(energy->allocator, energy);
}

braid_status braid_cpu_energy_read(braid_cpu_energy *energy, double *out_uj) {
  if (!energy) return braid_fail(BRAID_UNSUPPORTED, "this machine has no energy counters that can be read");
  bool read = true;
  pthread_mutex_lock(&energy->lock);
  for (size_t i = 0; i < energy->count; i++) {
    energy_zone *one = &energy->zones[i];
    int64_t now = read_number(one->file);
    read = read && now >= 0;
    if (now < 0) continue;
    uint64_t energy_uj = (uint64_t)now;
    bool round = energy_uj < one->last_uj;
    energy->total_uj += energy_uj + (round ? one->range_uj : 0) - one->last_uj;
    one->last_uj = energy_uj;
  }
  *out_uj = (double)energy->total_uj;
  pthread_mutex_unlock(&energy->lock);
  return read ? BRAID_OK : braid_fail(BRAID_IO, "an energy counter of the CPU cannot be read any more");
}
