/* Plans for reading, and what differs between two. */
#include <string.h>

#include "runtime/plan/snapshot.h"

enum { kShownItems = 24, kShownBytes = 16, kFieldText = 400 };

static void print_list(const braid_snapshot_list *list, size_t most, const char *open, const char *close,
                       braid_text *out) {
  braid_text_add(out, open);
  for (size_t i = 0; i < list->count && i < most; i++)
    braid_text_printf(out, i ? ",%lld" : "%lld", (long long)list->items[i]);
  if (list->count > most) braid_text_add(out, ",...");
  braid_text_add(out, close);
}

static void print_bytes(const braid_snapshot_bytes *bytes, size_t most, braid_text *out) {
  for (size_t i = 0; i < bytes->count && i < most; i++) braid_text_printf(out, "%02x", bytes->items[i]);
  if (bytes->count > most) braid_text_add(out, "...");
}

static void print_field(const braid_field *field, const void *row, bool json, braid_text *out) {
  const void *member = (const char *)row + field->offset;
  switch (field->type) {
  case BRAID_FIELD_NUMBER:
    braid_text_printf(out, "%lld", (long long)*(const int64_t *)member);
    break;
  case BRAID_FIELD_TEXT:
    if (json)
      braid_text_add_json(out, *(const char *const *)member);
    else
      braid_text_add(out, *(const char *const *)member);
    break;
  case BRAID_FIELD_LIST:
    print_list(member, json ? SIZE_MAX : kShownItems, json ? "[" : "", json ? "]" : "", out);
    break;
  case BRAID_FIELD_BYTES:
    if (json) braid_text_add(out, "\"");
    print_bytes(member, json ? SIZE_MAX : kShownBytes, out);
    if (json) braid_text_add(out, "\"");
    break;
  }
}

static bool is_empty(const braid_field *field, const void *row) {
  const void *member = (const char *)row + field->offset;
  if (field->type == BRAID_FIELD_TEXT) return !**(const char *const *)member;
  if (field->type == BRAID_FIELD_LIST) return !((const braid_snapshot_list *)member)->count;
  return field->type == BRAID_FIELD_BYTES && !((const braid_snapshot_bytes *)member)->count;
}

static void print_row(const braid_table *table, size_t index, const void *row, bool json, braid_text *out) {
  if (json)
    braid_text_add(out, index ? ",\n  {" : "\n  {");
  else
    braid_text_printf(out, "%s %zu:", table->name, index);
  for (size_t f = 0; f < table->field_count; f++) {
    const braid_field *field = &table->fields[f];
    if (!json && is_empty(field, row)) continue;
    if (json)
      braid_text_printf(out, "%s\"%s\": ", f ? ", " : "", field->name);
    else
      braid_text_printf(out, "%s %s ", f ? "," : "", field->name);
    print_field(field, row, json, out);
  }
  braid_text_add(out, json ? "}" : "\n");
}

/* What the plan was made for besides the machine is left out of the text: it is the model's graph. */
static bool is_shown(size_t table, bool json) {
  return json || table <= BRAID_SNAPSHOT_PREMISES_FIRST || table > BRAID_SNAPSHOT_PREMISES_LAST;
}

void braid_snapshot_print(const braid_snapshot *snapshot, bool json, braid_text *out) {
  if (json) braid_text_add(out, "{");
  for (size_t t = 0; t < BRAID_SNAPSHOT_TABLE_COUNT; t++) {
    const braid_table *table = &braid_snapshot_tables[t];
    const braid_rows *rows = braid_snapshot_rows(snapshot, t);
    if (!is_shown(t, json)) continue;
    if (json) braid_text_printf(out, "%s\"%s\": [", t ? ",\n" : "", table->name);
    for (size_t r = 0; r < rows->count; r++)
      print_row(table, r, (const char *)rows->items + r * table->row_bytes, json, out);
    if (json) braid_text_add(out, "]");
  }
  if (json) braid_text_add(out, "}\n");
}

/* --- differences ---------------------------------------------------------------------------------------------------
 */
static bool same_field(const braid_field *field, const void *a, const void *b) {
  const void *x = (const char *)a + field->offset, *y = (const char *)b + field->offset;
  const braid_snapshot_list *list = x, *other_list = y;
  const braid_snapshot_bytes *bytes = x, *other_bytes = y;
  switch (field->type) {
  case BRAID_FIELD_NUMBER:
    return *(const int64_t *)x == *(const int64_t *)y;
  case BRAID_FIELD_TEXT:
    return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
  case BRAID_FIELD_LIST:
    return list->count == other_list->count &&
           (!list->count || memcmp(list->items, other_list->items, list->count * sizeof *list->items) == 0);
  case BRAID_FIELD_BYTES:
    return bytes->count == other_bytes->count &&
           (!bytes->count || memcmp(bytes->items, other_bytes->items, bytes->count) == 0);
  }
  return false;
}

/* What a row is called: its first text. */
static const char *name_of(const braid_table *table, const void *row) {
  for (size_t f = 0; f < table->field_count; f++)
    if (table->fields[f].type == BRAID_FIELD_TEXT)
      return *(const char *const *)((const char *)row + table->fields[f].offset);
  return "";
}

static void print_difference(const braid_table *table, const braid_field *field, size_t index, const void *a,
                             const void *b, const char *a_name, const char *b_name, braid_text *out) {
  if (table->field_count && index + 1) braid_text_printf(out, "%s %zu", table->name, index);
  braid_text_printf(out, " (%.80s): %s is ", name_of(table, a), field->name);
  print_field(field, a, false, out);
  braid_text_printf(out, " %s, ", a_name);
  print_field(field, b, false, out);
  braid_text_printf(out, " %s\n", b_name);
}

size_t braid_snapshot_compare(const braid_snapshot *a, const braid_snapshot *b, size_t first, size_t last, size_t most,
                              const char *a_name, const char *b_name, braid_text *out) {
  size_t found = 0;
  for (size_t t = first; t <= last; t++) {
    const braid_table *table = &braid_snapshot_tables[t];
    const braid_rows *x = braid_snapshot_rows(a, t), *y = braid_snapshot_rows(b, t);
    for (size_t r = 0; r < x->count && r < y->count; r++) {
      const char *row = (const char *)x->items + r * table->row_bytes;
      const char *other = (const char *)y->items + r * table->row_bytes;
      for (size_t f = 0; f < table->field_count; f++)
        if (!same_field(&table->fields[f], row, other) && found++ < most)
          print_difference(table, &table->fields[f], r, row, other, a_name, b_name, out);
    }
    if (x->count != y->count && found++ < most)
      braid_text_printf(out, "%zu rows of %s %s, %zu %s\n", x->count, table->name, a_name, y->count, b_name);
  }
  return found;
}
