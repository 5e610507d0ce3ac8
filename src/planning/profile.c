#include "planning/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "device/yaml.h"

enum { kRows = 65536, kNames = 4096, kNameBytes = 64, kSourceBytes = 512 };

#define NUMBER(key, flags) CYAML_FIELD_FLOAT(#key, CYAML_FLAG_DEFAULT | (flags), braid_profile_row, key)

static const cyaml_schema_field_t kRowFields[] = {
    CYAML_FIELD_STRING_PTR("device", CYAML_FLAG_POINTER, braid_profile_row, device, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("op", CYAML_FLAG_POINTER, braid_profile_row, op, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("size", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_profile_row, size, 1,
                           kNameBytes - 1),
    CYAML_FIELD_INT("devices", CYAML_FLAG_OPTIONAL, braid_profile_row, devices),
    NUMBER(bytes, 0),
    NUMBER(ms, 0),
    NUMBER(average_watts, CYAML_FLAG_OPTIONAL),
    NUMBER(peak_watts, CYAML_FLAG_OPTIONAL),
    NUMBER(gigabytes_per_second, CYAML_FLAG_OPTIONAL),
    NUMBER(instructions_per_cycle, CYAML_FLAG_OPTIONAL),
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

/* A number that the file leaves out is 0, which none of them can be. */
static braid_status check_row(braid_profile_row *row, const char **key) {
  struct {
    const char *key;
    double *value;
    bool needed;
    double least, limit;
  } numbers[] = {{"bytes", &row->bytes, true, 1, 1e18},
                 {"ms", &row->ms, true, 1e-9, 1e9},
                 {"average_watts", &row->average_watts, false, 1e-9, 1e9},
                 {"peak_watts", &row->peak_watts, false, 1e-9, 1e9},
                 {"gigabytes_per_second", &row->gigabytes_per_second, false, 1e-9, 1e9},
                 {"instructions_per_cycle", &row->instructions_per_cycle, false, 1e-9, 1e9}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    *key = numbers[i].key;
    if (*numbers[i].value >= numbers[i].least && *numbers[i].value < numbers[i].limit) continue;
    if (*numbers[i].value != 0 || numbers[i].needed)
      return braid_fail(BRAID_INVALID_FILE, "%s is %g, a number from %g to %g is expected", *key, *numbers[i].value,
                        numbers[i].least, numbers[i].limit);
    *numbers[i].value = NAN;
  }
  if (!row->devices) row->devices = 1;
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

static braid_status check_profile(braid_profile *profile, char *path, size_t bytes) {
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const char *key;
    braid_status status = check_row(&profile->rows[i], &key);
    snprintf(path, bytes, "rows/%u/%s", i, key);
    if (status != BRAID_OK) return status;
  }
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
  braid_status status = check_profile(document, path, sizeof path);
  if (status == BRAID_OK) {
    *out = document;
    return BRAID_OK;
  }
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
