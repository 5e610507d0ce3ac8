#include "planning/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "device/yaml.h"
#include "profile/database.h"

enum { kRows = 65536, kNames = 4096, kNameBytes = 64, kSourceBytes = 512 };

#define NUMBER(key) CYAML_FIELD_FLOAT(#key, CYAML_FLAG_DEFAULT, braid_profile_row, key)
#define OPTIONAL(key, member)                                                                                          \
  CYAML_FIELD_FLOAT_PTR(#key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile_row, member)

static const cyaml_schema_field_t kRowFields[] = {
    CYAML_FIELD_STRING_PTR("device", CYAML_FLAG_POINTER, braid_profile_row, device, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("op", CYAML_FLAG_POINTER, braid_profile_row, op, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("size", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile_row, size, 1,
                           kNameBytes - 1),
    CYAML_FIELD_INT_PTR("devices", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile_row, shared),
    NUMBER(bytes),
    NUMBER(ms),
    OPTIONAL(average_watts, average),
    OPTIONAL(peak_watts, peak),
    OPTIONAL(gigabytes_per_second, rate),
    OPTIONAL(instructions_per_cycle, instructions),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kRow = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_profile_row, kRowFields)};

static const cyaml_schema_field_t kLikenessFields[] = {
    CYAML_FIELD_STRING_PTR("op", CYAML_FLAG_POINTER, braid_profile_likeness, op, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("as", CYAML_FLAG_POINTER, braid_profile_likeness, as, 1, kNameBytes - 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kLikeness = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_profile_likeness, kLikenessFields)};

static const cyaml_schema_value_t kName = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, kNameBytes - 1)};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, braid_profile, source, 1, kSourceBytes - 1),
    CYAML_FIELD_STRING_PTR("others", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile, others, 1,
                           kNameBytes - 1),
    CYAML_FIELD_FLOAT("launch_ms", CYAML_FLAG_OPTIONAL, braid_profile, launch_ms),
    CYAML_FIELD_SEQUENCE("threshold_ops", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile, threshold_ops,
                         &kName, 0, kNames),
    CYAML_FIELD_SEQUENCE("rows", CYAML_FLAG_POINTER, braid_profile, rows, &kRow, 1, kRows),
    CYAML_FIELD_SEQUENCE("likenesses", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile, likenesses, &kLikeness,
                         0, kNames),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kProfile = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_profile, kFields)};

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static bool has_rows_on(const braid_profile *profile, const char *device, const char *op) {
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (strcmp(profile->rows[i].op, op) == 0 && (!device || strcmp(profile->rows[i].device, device) == 0)) return true;
  return false;
}

static bool has_rows(const braid_profile *profile, const char *op) {
  return has_rows_on(profile, NULL, op);
}

/* Within what a database takes (profile/columns.c). What the file leaves out is NAN. */
static braid_status check_row(braid_profile_row *row, const char **key) {
  struct {
    const char *key;
    const double *given;
    double *value, least, limit;
  } numbers[] = {{"bytes", &row->bytes, &row->bytes, 1, 1e18},
                 {"ms", &row->ms, &row->ms, 1e-8, 1e9},
                 {"average_watts", row->average, &row->average_watts, 1e-9, 1e9},
                 {"peak_watts", row->peak, &row->peak_watts, 1e-9, 1e9},
                 {"gigabytes_per_second", row->rate, &row->gigabytes_per_second, 1e-9, 1e6},
                 {"instructions_per_cycle", row->instructions, &row->instructions_per_cycle, 1e-9, 1e6}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    *key = numbers[i].key;
    *numbers[i].value = numbers[i].given ? *numbers[i].given : NAN;
    if (!numbers[i].given || (*numbers[i].value >= numbers[i].least && *numbers[i].value < numbers[i].limit)) continue;
    return braid_fail(BRAID_INVALID_FILE, "%s is %g, a number from %g to %g is expected", *key, *numbers[i].value,
                      numbers[i].least, numbers[i].limit);
  }
  row->devices = row->shared ? *row->shared : 1;
  *key = "devices";
  if (row->devices < 1 || row->devices > BRAID_PROFILE_DEVICES)
    return braid_fail(BRAID_INVALID_FILE, "%lld devices, 1 to %d are expected", (long long)row->devices,
                      BRAID_PROFILE_DEVICES);
  *key = "peak_watts";
  if (row->peak_watts < row->average_watts)
    return braid_fail(BRAID_INVALID_FILE, "the peak of %g W is below the average of %g W", row->peak_watts,
                      row->average_watts);
  return BRAID_OK;
}

/* Two rows that stand for the same are next to each other, the earlier one first. */
static int by_subject(const void *left, const void *right) {
  const braid_profile_row *a = *(const braid_profile_row *const *)left, *b = *(const braid_profile_row *const *)right;
  int device = strcmp(a->device, b->device), op = strcmp(a->op, b->op);
  if (device || op) return device ? device : op;
  if (a->devices != b->devices) return a->devices < b->devices ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return a < b ? -1 : a > b;
}

static braid_status check_twice(const braid_profile *profile, const void *text, size_t size, char *path, size_t bytes) {
  const braid_profile_row **rows = braid_zalloc_array(NULL, profile->rows_count + 1, sizeof *rows);
  braid_status status = rows ? BRAID_OK : BRAID_NO_MEMORY;
  for (unsigned i = 0; rows && i < profile->rows_count; i++) rows[i] = &profile->rows[i];
  if (rows) qsort(rows, profile->rows_count, sizeof *rows, by_subject);
  for (unsigned i = 1; rows && i < profile->rows_count && status == BRAID_OK; i++) {
    const braid_profile_row *a = rows[i - 1], *b = rows[i];
    if (strcmp(a->device, b->device) != 0 || strcmp(a->op, b->op) != 0 || a->devices != b->devices ||
        a->bytes != b->bytes)
      continue;
    snprintf(path, bytes, "rows/%zu", (size_t)(a - profile->rows));
    size_t line = braid_yaml_line(text, size, path);
    snprintf(path, bytes, "rows/%zu", (size_t)(b - profile->rows));
    status = braid_fail(BRAID_INVALID_FILE,
                        "line %zu has a row of %s on %lld %s at %g bytes already, one for each size is expected", line,
                        b->op, (long long)b->devices, b->device, b->bytes);
  }
  braid_free(NULL, rows);
  return status;
}

/* Databases take no line breaks and tabs either. */
static braid_status check_texts(const braid_profile *profile, char *path, size_t bytes) {
  snprintf(path, bytes, "source");
  bool plain = braid_profile_is_plain(profile->source);
  for (unsigned i = 0; i < profile->rows_count && plain; i++) {
    const braid_profile_row *row = &profile->rows[i];
    snprintf(path, bytes, "rows/%u", i);
    plain = braid_profile_is_plain(row->device) && braid_profile_is_plain(row->op) &&
            (!row->size || braid_profile_is_plain(row->size));
  }
  for (unsigned i = 0; i < profile->likenesses_count && plain; i++) {
    snprintf(path, bytes, "likenesses/%u", i);
    plain = braid_profile_is_plain(profile->likenesses[i].op); /* what it is taken as has rows */
  }
  return plain ? BRAID_OK
               : braid_fail(BRAID_INVALID_FILE, "a text holds control characters, a single line is expected");
}

static braid_status check_profile(braid_profile *profile, const void *text, size_t size, char *path, size_t bytes) {
  BRAID_TRY(check_texts(profile, path, bytes));
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const char *key;
    braid_status status = check_row(&profile->rows[i], &key);
    snprintf(path, bytes, "rows/%u/%s", i, key);
    if (status != BRAID_OK) return status;
  }
  BRAID_TRY(check_twice(profile, text, size, path, bytes));
  snprintf(path, bytes, "launch_ms");
  if (!(profile->launch_ms >= 0 && profile->launch_ms < 1e6))
    return braid_fail(BRAID_INVALID_FILE, "launch_ms is %g, a number of at least 0 is expected", profile->launch_ms);
  for (unsigned i = 0; i < profile->likenesses_count; i++) {
    snprintf(path, bytes, "likenesses/%u/as", i);
    if (!has_rows(profile, profile->likenesses[i].as))
      return braid_fail(BRAID_INVALID_FILE, "\"%s\" has no rows", profile->likenesses[i].as);
  }
  for (unsigned i = 0; i < profile->threshold_ops_count; i++) {
    snprintf(path, bytes, "threshold_ops/%u", i);
    if (!has_rows(profile, profile->threshold_ops[i]))
      return braid_fail(BRAID_INVALID_FILE, "\"%s\" has no rows", profile->threshold_ops[i]);
  }
  snprintf(path, bytes, "others");
  if (profile->others && !has_rows(profile, profile->others))
    return braid_fail(BRAID_INVALID_FILE, "\"%s\" has no rows", profile->others);
  return BRAID_OK;
}

braid_status braid_profile_parse(const char *name, const void *text, size_t bytes, braid_profile **out) {
  void *document;
  char path[64];
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kProfile, &document));
  braid_status status = check_profile(document, text, bytes, path, sizeof path);
  if (status == BRAID_OK) {
    *out = document;
    return BRAID_OK;
  }
  if (status == BRAID_INVALID_FILE)
    status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, path));
  braid_profile_free(document);
  return status;
}

void braid_profile_free(braid_profile *profile) {
  if (profile && profile->arena)
    braid_arena_destroy(profile->arena);
  else
    braid_yaml_free(&kProfile, profile);
}

/* --- asking --------------------------------------------------------------------------------------------------------
 */
const char *braid_profile_like(const braid_profile *profile, const char *device, const char *op) {
  if (has_rows_on(profile, device, op)) return op;
  for (unsigned i = 0; i < profile->likenesses_count; i++)
    if (strcmp(profile->likenesses[i].op, op) == 0 && has_rows_on(profile, device, profile->likenesses[i].as))
      return profile->likenesses[i].as;
  return profile->others && has_rows_on(profile, device, profile->others) ? profile->others : NULL;
}

const braid_profile_row *braid_profile_exact(const braid_profile *profile, const char *device, int64_t devices,
                                             const char *key) {
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const braid_profile_row *row = &profile->rows[i];
    if (row->key && strcmp(row->key, key) == 0 && row->devices == devices && strcmp(row->device, device) == 0)
      return row;
  }
  return NULL;
}

bool braid_profile_refuses(const braid_profile *profile, const char *device, const char *key) {
  for (unsigned i = 0; i < profile->refusals_count; i++)
    if (strcmp(profile->refusals[i].key, key) == 0 && strcmp(profile->refusals[i].device, device) == 0) return true;
  return false;
}

bool braid_profile_has(const braid_profile *profile, const char *device, int64_t devices) {
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (profile->rows[i].devices == devices && strcmp(profile->rows[i].device, device) == 0) return true;
  return false;
}

/* The share of the way from a to b, in logarithms. */
static double share_of(double at, double a, double b) {
  if (at <= a || a == b) return 0;
  return at >= b ? 1 : (log(at) - log(a)) / (log(b) - log(a));
}

static double between(double a, double b, double share) {
  return a == b ? a : a + (b - a) * share; /* NAN if either is unknown */
}

bool braid_profile_at(const braid_profile *profile, const char *device, int64_t devices, const char *op, double bytes,
                      braid_profile_row *out) {
  const braid_profile_row *below = NULL, *above = NULL;
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const braid_profile_row *row = &profile->rows[i];
    if (row->devices != devices || strcmp(row->device, device) != 0 || strcmp(row->op, op) != 0) continue;
    if (row->bytes <= bytes && (!below || row->bytes > below->bytes)) below = row;
    if (row->bytes >= bytes && (!above || row->bytes < above->bytes)) above = row;
  }
  if (!below && !above) return false;
  const braid_profile_row *a = below ? below : above, *b = above ? above : below;
  double share = share_of(bytes, a->bytes, b->bytes);
  *out = *a;
  out->bytes = bytes;
  out->ms = exp(log(a->ms) + (log(b->ms) - log(a->ms)) * share);
  if (a == b && bytes > 0) out->ms = a->ms * bytes / a->bytes; /* beyond the rows, in proportion */
  if (bytes <= 0) out->ms = 0;
  if (!a->key && out->ms < profile->launch_ms) out->ms = profile->launch_ms; /* measured times have their launch */
  out->average_watts = between(a->average_watts, b->average_watts, share);
  out->peak_watts = between(a->peak_watts, b->peak_watts, share);
  out->gigabytes_per_second = between(a->gigabytes_per_second, b->gigabytes_per_second, share);
  out->instructions_per_cycle = between(a->instructions_per_cycle, b->instructions_per_cycle, share);
  return true;
}
