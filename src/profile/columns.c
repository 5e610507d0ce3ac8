/* The tables: each column once, for the schema, for writing and for reading. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "profile/database.h"

#define TEXT(record, key, needed)                                                                                      \
  { #key, offsetof(record, key), BRAID_COLUMN_TEXT, needed, 0, 0 }
#define REAL(record, key, needed, least, most)                                                                         \
  { #key, offsetof(record, key), BRAID_COLUMN_REAL, needed, least, most }
#define INTEGER(record, key, needed, least, most)                                                                      \
  { #key, offsetof(record, key), BRAID_COLUMN_INTEGER, needed, least, most }

static const braid_column kDeviceColumns[] = {
    TEXT(braid_profile_device, device, true),
    TEXT(braid_profile_device, kind, false),
    TEXT(braid_profile_device, description, false),
    TEXT(braid_profile_device, software, false),
    TEXT(braid_profile_device, version, false),
    INTEGER(braid_profile_device, threads, false, 1, 65536),
    TEXT(braid_profile_device, memory, false),
    TEXT(braid_profile_device, source, true),
    TEXT(braid_profile_device, date, true),
    REAL(braid_profile_device, idle_watts, false, 0, 1e9),
    REAL(braid_profile_device, idle_watts_error, false, 0, 1e9),
    TEXT(braid_profile_device, energy_source, false),
    TEXT(braid_profile_device, energy_note, false),
    REAL(braid_profile_device, window_seconds, false, 0, 1e6),
    REAL(braid_profile_device, link_seconds, false, 0, 1e6),
    REAL(braid_profile_device, link_bytes_per_second, false, 1, 1e15),
};

static const braid_column kEntryColumns[] = {
    TEXT(braid_profile_entry, device, true),
    INTEGER(braid_profile_entry, devices, true, 1, 64),
    TEXT(braid_profile_entry, op, true),
    TEXT(braid_profile_entry, key, true),
    TEXT(braid_profile_entry, beside, true),
    TEXT(braid_profile_entry, size, false),
    TEXT(braid_profile_entry, shapes, true),
    TEXT(braid_profile_entry, kernel, false),
    REAL(braid_profile_entry, bytes, true, 0, 1e18),
    REAL(braid_profile_entry, macs, false, 0, 1e18),
    REAL(braid_profile_entry, seconds, false, 1e-12, 1e6),
    REAL(braid_profile_entry, seconds_mad, false, 0, 1e6),
    REAL(braid_profile_entry, seconds_mean, false, 0, 1e6),
    INTEGER(braid_profile_entry, runs, false, 1, 1e9),
    TEXT(braid_profile_entry, why, false),
    REAL(braid_profile_entry, joules, false, 0, 1e12),
    REAL(braid_profile_entry, joules_error, false, 0, 1e12),
    REAL(braid_profile_entry, average_watts, false, 0, 1e9),
    REAL(braid_profile_entry, peak_watts, false, 0, 1e9),
    REAL(braid_profile_entry, busy, false, 0, 1),
    TEXT(braid_profile_entry, energy_source, false),
    REAL(braid_profile_entry, bytes_per_second, false, 0, 1e15),
    REAL(braid_profile_entry, instructions_per_cycle, false, 0, 1e6),
    TEXT(braid_profile_entry, ipc_note, false),
    TEXT(braid_profile_entry, description, false),
    TEXT(braid_profile_entry, software, false),
    TEXT(braid_profile_entry, version, false),
    INTEGER(braid_profile_entry, threads, false, 1, 65536),
    TEXT(braid_profile_entry, source, true),
    TEXT(braid_profile_entry, date, true),
    TEXT(braid_profile_entry, previous_date, false),
    REAL(braid_profile_entry, previous_seconds, false, 1e-12, 1e6),
    REAL(braid_profile_entry, drift, false, 0, 1e12),
};

static const braid_column kRuleColumns[] = {
    TEXT(braid_profile_rule, what, true),
    TEXT(braid_profile_rule, op, true),
    TEXT(braid_profile_rule, stands, true),
    REAL(braid_profile_rule, value, false, 0, 1e9),
};

#define COLUMNS(list) list, sizeof list / sizeof *list
const braid_table braid_profile_device_table = {
    "devices", "device", COLUMNS(kDeviceColumns), sizeof(braid_profile_device), "device", "device"};
const braid_table braid_profile_entry_table = {"entries",
                                               "device, devices, key, beside",
                                               COLUMNS(kEntryColumns),
                                               sizeof(braid_profile_entry),
                                               "device, op, beside, bytes, devices, key",
                                               "device, devices, op, shapes, beside, key"};
const braid_table braid_profile_rule_table = {"rules",    "what, op", COLUMNS(kRuleColumns), sizeof(braid_profile_rule),
                                              "what, op", "what, op"};
const braid_table *const braid_profile_tables[BRAID_PROFILE_TABLES] = {
    &braid_profile_device_table, &braid_profile_entry_table, &braid_profile_rule_table};

void braid_table_schema(const braid_table *table, braid_text *out) {
  static const char *const kTypes[] = {"TEXT", "REAL", "INTEGER"};
  braid_text_printf(out, "CREATE TABLE %s (", table->name);
  for (size_t i = 0; i < table->column_count; i++)
    braid_text_printf(out, "%s %s%s, ", table->columns[i].name, kTypes[table->columns[i].type],
                      table->columns[i].needed ? " NOT NULL" : "");
  braid_text_printf(out, "PRIMARY KEY (%s)) STRICT", table->unique);
}

void braid_table_columns(const braid_table *table, braid_text *out) {
  for (size_t i = 0; i < table->column_count; i++)
    braid_text_printf(out, "%s%s", i ? ", " : "", table->columns[i].name);
}

void braid_table_clear(const braid_table *table, void *record) {
  memset(record, 0, table->record_bytes);
  for (size_t i = 0; i < table->column_count; i++) {
    char *at = (char *)record + table->columns[i].offset;
    if (table->columns[i].type == BRAID_COLUMN_REAL) *(double *)at = NAN;
    if (table->columns[i].type == BRAID_COLUMN_INTEGER) *(int64_t *)at = -1;
  }
}

/* The bytes of the control character that a text begins with: 0, 1, or 2 in UTF-8. */
static size_t control_bytes(const char *text) {
  unsigned char c = (unsigned char)text[0];
  if (c && (c < ' ' || c == 0x7f)) return 1;
  return c == 0xc2 && (unsigned char)text[1] < 0xa0 ? (text[1] ? 2 : 1) : 0;
}

bool braid_profile_is_plain(const char *text) {
  for (; *text; text++)
    if (control_bytes(text)) return false;
  return true;
}

void braid_profile_make_plain(char *text) {
  for (; *text; text++) {
    size_t bytes = control_bytes(text);
    if (bytes) memset(text, '?', bytes);
  }
}

static braid_status refuse_number(const braid_table *table, const braid_column *column, double value) {
  return braid_fail(BRAID_INVALID_FILE, "table %s, column %s is %g, a number from %g to %g is expected", table->name,
                    column->name, value, column->least, column->most);
}

braid_status braid_column_check(const braid_table *table, const braid_column *column, const void *record) {
  const char *at = (const char *)record + column->offset;
  bool unknown = false;
  double value = 0;
  switch (column->type) {
  case BRAID_COLUMN_TEXT: {
    const char *text = *(const char *const *)at;
    unknown = !text;
    if (text && strlen(text) > BRAID_PROFILE_TEXT)
      return braid_fail(BRAID_INVALID_FILE, "table %s, column %s has %zu bytes, at most %d are expected", table->name,
                        column->name, strlen(text), BRAID_PROFILE_TEXT);
    if (text && !braid_profile_is_plain(text))
      return braid_fail(BRAID_INVALID_FILE, "table %s, column %s has control characters", table->name, column->name);
    break;
  }
  case BRAID_COLUMN_REAL:
    value = *(const double *)at;
    unknown = isnan(value);
    if (!unknown && !(value >= column->least && value <= column->most)) return refuse_number(table, column, value);
    break;
  case BRAID_COLUMN_INTEGER:
    value = (double)*(const int64_t *)at;
    unknown = value == -1;
    if (!unknown && !(value >= column->least && value <= column->most)) return refuse_number(table, column, value);
    break;
  }
  if (unknown && column->needed)
    return braid_fail(BRAID_INVALID_FILE, "table %s, column %s is missing", table->name, column->name);
  return BRAID_OK;
}

/* --- dates ---------------------------------------------------------------------------------------------------------
 */
void braid_profile_now(char out[24]) {
  time_t now = time(NULL);
  struct tm parts;
  gmtime_r(&now, &parts);
  strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

int64_t braid_profile_time(const char *date) {
  struct tm parts = {0};
  const char *end = date ? strptime(date, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;
  return end && !*end ? (int64_t)timegm(&parts) : -1;
}
