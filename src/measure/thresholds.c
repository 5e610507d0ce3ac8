/* Both thresholds of Hype-training from what was measured. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "braid/profile.h"
#include "planning/machine.h"

static const char *const kOps[] = {"MatMul", "Conv", "Conv2D"};

static bool is_counted(const char *op) {
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(kOps[i], op) == 0) return true;
  return false;
}

/* The first GPU; without one, what takes least time for the largest of these operations. */
static const char *fast_device(const braid_profile *profile, const braid_profile_list *list) {
  const braid_profile_row *largest = NULL;
  const char *fast = list->device_count ? list->devices[0].device : "";
  double least = INFINITY;
  for (size_t i = 0; i < list->device_count; i++)
    if (list->devices[i].kind && strcmp(list->devices[i].kind, "gpu") == 0) return list->devices[i].device;
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (is_counted(profile->rows[i].op) && (!largest || profile->rows[i].bytes > largest->bytes))
      largest = &profile->rows[i];
  for (size_t i = 0; i < list->device_count && largest; i++) {
    braid_profile_row row;
    if (!braid_profile_at(profile, list->devices[i].device, 1, largest->op, largest->bytes, &row)) continue;
    if (row.ms < least) fast = list->devices[i].device, least = row.ms;
  }
  return fast;
}

static bool has_row(const braid_profile *profile, const char *device, const char *op) {
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (strcmp(profile->rows[i].device, device) == 0 && strcmp(profile->rows[i].op, op) == 0) return true;
  return false;
}

/* Whether the other device takes less time at a size of the fast one's rows. */
static bool is_ever_faster(const braid_profile *profile, const char *fast, const char *other, const char *op) {
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const braid_profile_row *row = &profile->rows[i];
    braid_profile_row at;
    if (strcmp(row->device, fast) != 0 || strcmp(row->op, op) != 0) continue;
    for (int64_t together = 1; together <= BRAID_PROFILE_DEVICES; together++)
      if (braid_profile_at(profile, other, together, op, row->bytes, &at) && at.ms < row->ms) return true;
  }
  return false;
}

static void find_thresholds(const braid_profile *profile, const braid_profile_list *list, const char *fast,
                            braid_profile_threshold *out, size_t *count) {
  for (size_t d = 0; d < list->device_count; d++)
    for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
      const char *other = list->devices[d].device;
      if (strcmp(other, fast) == 0 || !has_row(profile, fast, kOps[i]) || !has_row(profile, other, kOps[i])) continue;
      braid_modelled_thresholds at;
      braid_profile_threshold *made = &out[(*count)++];
      *made = (braid_profile_threshold){.op = kOps[i], .fast = fast, .other = other};
      made->stops = braid_profile_crossing(profile, fast, other, BRAID_PROFILE_DEVICES, kOps[i], &at);
      made->ever = is_ever_faster(profile, fast, other, kOps[i]);
      made->gigabytes_per_second = at.gigabytes_per_second;
      made->instructions_per_cycle = at.instructions_per_cycle;
    }
}

braid_status braid_profile_thresholds(braid_profile_db *db, const braid_profile_list *list, const char *fast,
                                      const braid_allocator *allocator, braid_profile_threshold **out, size_t *count) {
  braid_profile *profile;
  *count = 0;
  *out = braid_zalloc_array(allocator, 3 * list->device_count + 1, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  braid_status status = braid_profile_from_database(db, allocator, &profile);
  if (status != BRAID_OK) {
    braid_free(allocator, *out);
    *out = NULL;
    return status;
  }
  find_thresholds(profile, list, fast ? fast : fast_device(profile, list), *out, count);
  braid_profile_free(profile);
  return BRAID_OK;
}
