/* A platform file of this machine, for `braid plan`. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "measure/measure.h"

enum { kName = 23 };

/* The database as seen from the platform file: its name alone if both are in one folder. */
static braid_status path_from(const char *platform, const char *db, char out[PATH_MAX]) {
  char folder[PATH_MAX], whole_folder[PATH_MAX], whole_db[PATH_MAX];
  const char *slash = strrchr(platform, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - platform) + 1 : 1, slash ? platform : ".");
  if (!realpath(db, whole_db)) return braid_fail(BRAID_NOT_FOUND, "%.200s: the database is not there", db);
  if (!realpath(folder, whole_folder)) return braid_fail(BRAID_NOT_FOUND, "%.200s: there is no such folder", folder);
  char *name = strrchr(whole_db, '/');
  *name = '\0';
  bool beside = strcmp(whole_db, whole_folder) == 0;
  *name = '/';
  snprintf(out, PATH_MAX, "%s", beside ? name + 1 : whole_db);
  return BRAID_OK;
}

static bool is_measured(const braid_profile_device *device) {
  return strcmp(device->source, "measured") == 0;
}

static const char *class_of(const braid_profile_device *device) {
  static const char *const kClasses[] = {"cpu", "gpu", "fpga"};
  for (int i = 0; i < 3; i++)
    if (device->kind && strcmp(device->kind, kClasses[i]) == 0) return kClasses[i];
  return "other";
}

/* Platform files have letters, digits, '_' and '-' in names; a name with anything else, or too long, gets a number. */
static void name_device(const char *device, size_t index, char out[kName + 1]) {
  static const char kAllowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  size_t length = strlen(device);
  bool plain = length <= kName && strspn(device, kAllowed) == length;
  snprintf(out, kName + 1, "%.*s", plain ? kName : kName - 4, device);
  for (char *at = out; *at; at++)
    if (!strchr(kAllowed, *at)) *at = '_';
  length = strlen(out);
  if (!plain) snprintf(out + length, kName + 1 - length, "_%zu", index % 100);
}

static void add_assumption(braid_text *text, const char *device, const char *what) {
  braid_text line;
  braid_text_init(&line, text->allocator);
  braid_text_printf(&line, "%s%s%s", device, device[0] ? ": " : "", what);
  braid_text_add(text, "  - ");
  braid_text_add_json(text, line.data);
  braid_text_add(text, "\n");
  text->failed |= line.failed;
  braid_text_deinit(&line);
}

static void add_assumptions(braid_text *text, const braid_profile_list *list) {
  size_t cpus = 0;
  braid_text_add(text, "assumptions:\n");
  add_assumption(text, "", "An operation of a size that was not measured takes what lies between the measured ones.");
  for (size_t d = 0; d < list->device_count; d++) {
    const braid_profile_device *device = &list->devices[d];
    if (!is_measured(device)) continue;
    cpus += strcmp(class_of(device), "cpu") == 0;
    if (isnan(device->idle_watts)) add_assumption(text, device->device, "idle power and energy are unknown.");
    if (device->memory && strcmp(device->memory, "separate") == 0 && isnan(device->link_bytes_per_second))
      add_assumption(text, device->device, "its link could not be measured: it is taken to work in the host's memory.");
  }
  if (cpus > 1)
    add_assumption(text, "",
                   "Several devices are the same processor: operations on them side by side would slow each other, "
                   "which is not modelled.");
}

static void add_device(braid_text *text, const braid_profile_device *device, size_t index) {
  char name[kName + 1];
  name_device(device->device, index, name);
  braid_text_printf(text, "  - name: %s\n    class: %s\n    profile: ", name, class_of(device));
  braid_text_add_json(text, device->device);
  braid_text_add(text, "\n");
  if (!isnan(device->idle_watts)) braid_text_printf(text, "    idle_watts: %.6g\n", device->idle_watts);
  if (!isnan(device->link_bytes_per_second))
    braid_text_printf(text, "    link: {latency_ms: %.6g, gigabytes_per_second: %.6g}\n", device->link_seconds * 1e3,
                      device->link_bytes_per_second * 1e-9);
}

void braid_platform_write(const braid_profile_list *list, const char *profile, braid_text *text) {
  braid_text_add(text, "# The devices that braid profile measured. Add cap_watts, clocks or count as docs/planning.md "
                       "has them.\nname: \"this machine, measured\"\nprofile: ");
  braid_text_add_json(text, profile);
  braid_text_add(text, "\n");
  add_assumptions(text, list);
  braid_text_add(text, "devices:\n");
  for (size_t d = 0; d < list->device_count; d++)
    if (is_measured(&list->devices[d])) add_device(text, &list->devices[d], d);
}

braid_status braid_profile_save_platform(const braid_profile_list *list, const char *db_path, const char *path) {
  char db[PATH_MAX];
  size_t count = 0;
  BRAID_TRY(path_from(path, db_path, db));
  for (size_t d = 0; d < list->device_count; d++) count += is_measured(&list->devices[d]);
  if (!count)
    return braid_fail(BRAID_NOT_FOUND, "%.200s has no measured device: a platform file would have none", db_path);
  braid_text text;
  braid_text_init(&text, NULL);
  braid_platform_write(list, db, &text);
  braid_status status = text.failed ? BRAID_NO_MEMORY : braid_file_write(NULL, path, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}
