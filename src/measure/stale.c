/* Entries that count no more: of another device, driver, version or number of threads, or too old. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"
#include "base/try.h"
#include "braid/version.h"
#include "measure/measure.h"

void braid_identity_of(braid_device *device, int threads, braid_identity *out) {
  const braid_device_info *info = braid_device_get_info(device);
  bool ours = strcmp(braid_device_backend(device)->name, "cpu") == 0;
  snprintf(out->description, sizeof out->description, "%s", info->description);
  snprintf(out->software, sizeof out->software, "%s", info->software[0] ? info->software : "none");
  braid_profile_make_plain(out->description);
  braid_profile_make_plain(out->software);
  out->version = BRAID_VERSION;
  out->threads = !ours ? -1 : threads ? threads : braid_cpu_count();
}

static bool differs(braid_stale *out, const char *what, const char *then, const char *now) {
  if (then && strcmp(then, now) == 0) return false;
  snprintf(out->why, sizeof out->why, "%s was %.150s, and is %.150s", what, then ? then : "unknown", now);
  return true;
}

void braid_entry_check(const braid_profile_entry *entry, const braid_identity *now, double most_days,
                       braid_stale *out) {
  int64_t then = braid_profile_time(entry->date);
  double days = (double)((int64_t)time(NULL) - then) / 86400;
  out->why[0] = '\0';
  if (differs(out, "the device", entry->description, now->description)) return;
  if (differs(out, "its driver or library", entry->software, now->software)) return;
  if (differs(out, "Braid's version", entry->version, now->version)) return;
  if (entry->threads != now->threads)
    snprintf(out->why, sizeof out->why, "it was measured with %lld threads, there are %lld now",
             (long long)entry->threads, (long long)now->threads);
  else if (then < 0)
    snprintf(out->why, sizeof out->why, "its date, \"%.40s\", is none", entry->date);
  else if (days < -1)
    snprintf(out->why, sizeof out->why, "it was measured in the future, on %s", entry->date);
  else if (days > most_days)
    snprintf(out->why, sizeof out->why, "it is %.0f days old, at most %g are taken", days, most_days);
}

double braid_drift(double seconds, double mad, double previous, double previous_mad) {
  double least = 0.01 * previous;
  if (isnan(mad) || isnan(previous_mad)) least = 0.05 * previous;
  double unit = fmax(least, fmax(isnan(mad) ? 0 : mad, isnan(previous_mad) ? 0 : previous_mad));
  return fabs(seconds - previous) / unit;
}

/* --- of a whole list -----------------------------------------------------------------------------------------------
 */
static braid_status keep_reason(braid_profile_list *list, braid_profile_entry *entry, const braid_stale *stale) {
  entry->stale = NULL;
  if (!stale->why[0]) return BRAID_OK;
  entry->stale = braid_arena_text(list->arena, stale->why, strlen(stale->why));
  return entry->stale ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status check_device(braid_profile_list *list, braid_registry *registry, int threads, double most_days,
                                 const char *name) {
  braid_device *device;
  braid_identity now;
  braid_stale stale = {""};
  braid_status status = braid_device_open(registry, name, &device);
  if (status == BRAID_NO_MEMORY) return status;
  bool here = status == BRAID_OK;
  if (here) {
    braid_identity_of(device, threads, &now);
    braid_device_close(device);
  }
  for (size_t i = 0; i < list->entry_count; i++) {
    braid_profile_entry *entry = &list->entries[i];
    if (strcmp(entry->device, name) != 0 || strcmp(entry->source, "measured") != 0) continue;
    if (here)
      braid_entry_check(entry, &now, most_days, &stale);
    else
      snprintf(stale.why, sizeof stale.why, "the device is not here");
    BRAID_TRY(keep_reason(list, entry, &stale));
  }
  return BRAID_OK;
}

braid_status braid_profile_list_check(braid_profile_list *list, braid_registry *registry, int threads,
                                      double most_days) {
  for (size_t d = 0; d < list->device_count; d++)
    if (strcmp(list->devices[d].source, "measured") == 0)
      BRAID_TRY(check_device(list, registry, threads, most_days, list->devices[d].device));
  return BRAID_OK;
}
