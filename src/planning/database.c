/* Databases of measured and published times (braid/profile.h) as profiles, and profile files as rows of a database. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "device/yaml.h"
#include "planning/machine.h"
#include "profile/database.h"

bool braid_profile_is_database(const braid_allocator *allocator, const char *path) {
  static const char kMagic[] = "SQLite format 3";
  char head[sizeof kMagic];
  braid_reader *reader;
  if (braid_reader_open(allocator, path, 0, &reader) != BRAID_OK) return false;
  bool is = braid_reader_bytes(reader) >= sizeof head && braid_reader_get(reader, 0, head, sizeof head) == BRAID_OK &&
            memcmp(head, kMagic, sizeof head) == 0;
  braid_reader_close(reader);
  return is;
}

static const char *const kThresholdOps[] = {"MatMul", "Conv"};
enum { kThresholdCount = sizeof kThresholdOps / sizeof *kThresholdOps };

/* --- a database as a profile ---------------------------------------------------------------------------------------
 */
/* The structs of files have text that could be changed; here nobody does. */
static char *text_of(const char *text) {
  return (char *)(uintptr_t)text;
}

static void add_row(braid_profile *profile, const braid_profile_entry *entry) {
  if (isnan(entry->seconds) && entry->why)
    profile->refusals[profile->refusals_count++] = (braid_profile_refusal){entry->device, entry->key};
  if (isnan(entry->seconds) || entry->bytes < 1) return;
  bool measured = strcmp(entry->source, "measured") == 0;
  profile->rows[profile->rows_count++] = (braid_profile_row){
      .device = text_of(entry->device),
      .op = text_of(entry->op),
      .size = text_of(entry->size),
      .devices = entry->devices,
      .bytes = entry->bytes,
      .ms = entry->seconds * 1e3,
      .average_watts = entry->average_watts,
      .peak_watts = fmax(entry->peak_watts, entry->average_watts), /* NAN if both are */
      .gigabytes_per_second = entry->bytes_per_second * 1e-9,
      .instructions_per_cycle = entry->instructions_per_cycle,
      .key = measured ? entry->key : NULL,
  };
  if (isnan(entry->peak_watts)) profile->rows[profile->rows_count - 1].peak_watts = NAN;
  profile->keyed |= measured;
}

static bool any_row(const braid_profile *profile, const char *op) {
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (strcmp(profile->rows[i].op, op) == 0) return true;
  return false;
}

/* Rules whose operation has no rows count for nothing. */
static void add_rule(braid_profile *profile, const braid_profile_rule *rule) {
  bool known = any_row(profile, rule->stands);
  if (strcmp(rule->what, "like") == 0 && known)
    profile->likenesses[profile->likenesses_count++] =
        (braid_profile_likeness){.op = text_of(rule->op), .as = text_of(rule->stands)};
  if (strcmp(rule->what, "others") == 0 && known) profile->others = text_of(rule->stands);
  if (strcmp(rule->what, "launch_ms") == 0 && !isnan(rule->value)) profile->launch_ms = rule->value;
  if (strcmp(rule->what, "threshold_op") == 0 && any_row(profile, rule->op))
    profile->threshold_ops[profile->threshold_ops_count++] = text_of(rule->op);
}

/* Whether every device that was measured was so at given sizes of the operation. Entries come device by device. */
static bool is_measured_by_size(const braid_profile_entry *entries, size_t count, const char *op) {
  const char *device = NULL;
  bool found = true, any = false;
  for (size_t i = 0; i < count; i++) {
    const braid_profile_entry *entry = &entries[i];
    if (strcmp(entry->source, "measured") != 0) continue;
    bool next = !device || strcmp(entry->device, device) != 0;
    if (next && !found) return false;
    found = (!next && found) || (entry->size && !isnan(entry->seconds) && strcmp(entry->op, op) == 0);
    device = entry->device;
    any = true;
  }
  return any && found;
}

/* Where no publication names operations for thresholds: the paper's two, by our names. */
static void add_own_thresholds(braid_profile *profile, const braid_profile_entry *entries, size_t count) {
  if (profile->threshold_ops_count) return;
  for (size_t i = 0; i < kThresholdCount; i++)
    if (is_measured_by_size(entries, count, kThresholdOps[i]))
      profile->threshold_ops[profile->threshold_ops_count++] = text_of(kThresholdOps[i]);
}

static braid_status read_into(braid_profile_db *db, braid_profile *profile) {
  void *entries, *rules;
  size_t entry_count, rule_count;
  BRAID_TRY(
      braid_profile_get_where(db, &braid_profile_entry_table, "beside", "", profile->arena, &entries, &entry_count));
  BRAID_TRY(braid_profile_get(db, &braid_profile_rule_table, profile->arena, &rules, &rule_count));
  profile->rows = braid_arena_alloc(profile->arena, (entry_count + 1) * sizeof *profile->rows);
  profile->refusals = braid_arena_alloc(profile->arena, (entry_count + 1) * sizeof *profile->refusals);
  profile->likenesses = braid_arena_alloc(profile->arena, (rule_count + 1) * sizeof *profile->likenesses);
  profile->threshold_ops =
      braid_arena_alloc(profile->arena, (rule_count + kThresholdCount) * sizeof *profile->threshold_ops);
  if (!profile->rows || !profile->refusals || !profile->likenesses || !profile->threshold_ops) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < entry_count; i++) add_row(profile, (const braid_profile_entry *)entries + i);
  for (size_t i = 0; i < rule_count; i++) add_rule(profile, (const braid_profile_rule *)rules + i);
  add_own_thresholds(profile, entries, entry_count);
  profile->source = text_of("measured and imported");
  return BRAID_OK;
}

braid_status braid_profile_from_database(braid_profile_db *db, const braid_allocator *allocator, braid_profile **out) {
  braid_arena *arena;
  *out = NULL;
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_profile *profile = braid_arena_alloc(arena, sizeof *profile);
  braid_status status = profile ? BRAID_OK : BRAID_NO_MEMORY;
  if (profile) profile->arena = arena;
  if (status == BRAID_OK) status = braid_profile_run(db, "BEGIN", NULL); /* one state of the file */
  if (status == BRAID_OK) status = braid_profile_end(db, read_into(db, profile));
  if (status == BRAID_OK)
    *out = profile;
  else
    braid_arena_destroy(arena);
  return status;
}

braid_status braid_profile_read_database(const braid_allocator *allocator, const char *path, braid_profile **out) {
  braid_profile_db *db;
  *out = NULL;
  BRAID_TRY(braid_profile_db_open(allocator, path, BRAID_PROFILE_READ, &db));
  braid_status status = braid_profile_from_database(db, allocator, out);
  braid_profile_db_close(db);
  return status;
}

/* --- a profile file into a database --------------------------------------------------------------------------------
 */
static braid_status put_row(braid_profile_db *db, const braid_profile *profile, const braid_profile_row *row,
                            const char *date) {
  braid_profile_device device;
  braid_profile_entry entry;
  char key[256], assumed[BRAID_PROFILE_TEXT];
  braid_table_clear(&braid_profile_device_table, &device);
  device.device = row->device;
  device.source = profile->source;
  device.date = date;
  BRAID_TRY(braid_profile_put(db, &braid_profile_device_table, &device));
  braid_table_clear(&braid_profile_entry_table, &entry);
  snprintf(key, sizeof key, "published %s %s %.17g", row->op, row->size ? row->size : "", row->bytes);
  entry.device = row->device;
  entry.devices = row->devices;
  entry.op = row->op;
  entry.key = key;
  entry.beside = "";
  entry.size = row->size;
  entry.shapes = "not published";
  entry.bytes = row->bytes;
  entry.seconds = row->ms * 1e-3;
  entry.average_watts = row->average_watts;
  entry.peak_watts = row->peak_watts;
  entry.bytes_per_second = row->gigabytes_per_second * 1e9;
  entry.instructions_per_cycle = row->instructions_per_cycle;
  entry.source = profile->source;
  if (row->size && strcmp(row->size, "assumed") == 0) {
    snprintf(assumed, sizeof assumed, "assumed, not in: %s", profile->source);
    entry.source = assumed;
  }
  entry.date = date;
  return braid_profile_put(db, &braid_profile_entry_table, &entry);
}

static braid_status put_rule(braid_profile_db *db, const char *what, const char *op, const char *stands, double value) {
  braid_profile_rule rule = {.what = what, .op = op, .stands = stands, .value = value};
  return braid_profile_put(db, &braid_profile_rule_table, &rule);
}

/* A published device is not one of this machine by the same name. */
static braid_status check_names(braid_profile_db *db, const braid_profile *profile) {
  braid_profile_list list;
  BRAID_TRY(braid_profile_list_create(db, db->allocator, &list));
  braid_status status = BRAID_OK;
  for (size_t d = 0; d < list.device_count && status == BRAID_OK; d++)
    for (unsigned i = 0; i < profile->rows_count && status == BRAID_OK; i++)
      if (strcmp(list.devices[d].device, profile->rows[i].device) == 0 &&
          strcmp(list.devices[d].source, profile->source) != 0)
        status = braid_fail(BRAID_INVALID_ARGUMENT, "%.200s has a device %.60s already, from another source: %.200s",
                            db->path, list.devices[d].device, list.devices[d].source);
  braid_profile_list_deinit(&list);
  return status;
}

static braid_status put_profile(braid_profile_db *db, const braid_profile *profile) {
  char date[24];
  braid_profile_now(date);
  BRAID_TRY(check_names(db, profile));
  for (unsigned i = 0; i < profile->rows_count; i++) BRAID_TRY(put_row(db, profile, &profile->rows[i], date));
  for (unsigned i = 0; i < profile->likenesses_count; i++)
    BRAID_TRY(put_rule(db, "like", profile->likenesses[i].op, profile->likenesses[i].as, NAN));
  for (unsigned i = 0; i < profile->threshold_ops_count; i++)
    BRAID_TRY(put_rule(db, "threshold_op", profile->threshold_ops[i], "", NAN));
  if (profile->others) BRAID_TRY(put_rule(db, "others", "", profile->others, NAN));
  return profile->launch_ms > 0 ? put_rule(db, "launch_ms", "", "", profile->launch_ms) : BRAID_OK;
}

static braid_status load_file(const braid_allocator *allocator, const char *path, braid_profile **out) {
  braid_file_view view;
  for (size_t i = 0; i < braid_profile_text_count; i++)
    if (strcmp(braid_profile_texts[i].name, path) == 0)
      return braid_profile_parse(path, braid_profile_texts[i].text, braid_profile_texts[i].bytes, out);
  BRAID_TRY(braid_file_open(allocator, path, BRAID_YAML_BYTES, &view));
  braid_status status = braid_profile_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

braid_status braid_profile_import_check(const braid_allocator *allocator, const char *path_or_name) {
  braid_profile *profile;
  BRAID_TRY(load_file(allocator, path_or_name, &profile));
  braid_profile_free(profile);
  return BRAID_OK;
}

braid_status braid_profile_import(braid_profile_db *db, const char *path_or_name, size_t *count) {
  braid_profile *profile;
  *count = 0;
  BRAID_TRY(load_file(db->allocator, path_or_name, &profile));
  braid_status status = braid_profile_begin(db);
  if (status == BRAID_OK) status = braid_profile_end(db, put_profile(db, profile));
  if (status == BRAID_OK) *count = profile->rows_count;
  braid_profile_free(profile);
  return status;
}
