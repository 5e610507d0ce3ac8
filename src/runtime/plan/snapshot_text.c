/* Rows in words: as JSON, and what differs between two plans. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/plan/snapshot.h"
#include "tensor/half.h"
#include "tensor/narrow.h"

enum { kShownItems = 24 };

/* --- words ---------------------------------------------------------------------------------------------------------
 */
static const char *const kValueKinds[] = {[BRAID_VALUE_RESULT] = "result",
                                          [BRAID_VALUE_INPUT] = "input",
                                          [BRAID_VALUE_CONSTANT] = "constant",
                                          [BRAID_VALUE_PARAMETER] = "parameter",
                                          [BRAID_VALUE_STATE] = "state"};
static const char *const kAttributeKinds[] = {
    [BRAID_ATTR_INT] = "int",       [BRAID_ATTR_FLOAT] = "float",   [BRAID_ATTR_STRING] = "string",
    [BRAID_ATTR_INTS] = "ints",     [BRAID_ATTR_FLOATS] = "floats", [BRAID_ATTR_STRINGS] = "strings",
    [BRAID_ATTR_TENSOR] = "tensor",
};
static const char *const kStorageKinds[] = {[BRAID_STORAGE_ARENA] = "arena",
                                            [BRAID_STORAGE_PERSISTENT] = "weights",
                                            [BRAID_STORAGE_TENSOR] = "constant",
                                            [BRAID_STORAGE_INPUT] = "input",
                                            [BRAID_STORAGE_OUTPUT] = "output"};
#define WORD(words, number) word_of(words, sizeof(words) / sizeof *(words), number)

static const char *word_of(const char *const *words, size_t count, int64_t number) {
  return number >= 0 && (uint64_t)number < count ? words[number] : "unknown";
}

/* A file may say anything. */
const char *braid_snapshot_device_name(const braid_snapshot *snapshot, int64_t device) {
  const braid_rows *rows = &snapshot->devices;
  if (device < 0 || (uint64_t)device >= rows->count) return "none";
  return ((const braid_device_row *)rows->items)[device].name;
}

static const braid_value_row *value_at(const braid_snapshot *snapshot, int64_t id) {
  const braid_rows *rows = &snapshot->values;
  return id >= 0 && (uint64_t)id < rows->count ? (const braid_value_row *)rows->items + id : NULL;
}

static const braid_node_row *node_at(const braid_rows *rows, int64_t id) {
  return id >= 0 && (uint64_t)id < rows->count ? (const braid_node_row *)rows->items + id : NULL;
}

const braid_value_row *braid_snapshot_operand(const braid_snapshot *snapshot, const braid_step_row *step,
                                              size_t operand) {
  const braid_node_row *node = node_at(&snapshot->nodes, step->node);
  if (!node) return value_at(snapshot, step->value);
  size_t inputs = node->inputs.count;
  if (operand < inputs) return value_at(snapshot, node->inputs.items[operand]);
  return operand - inputs < node->outputs.count ? value_at(snapshot, node->outputs.items[operand - inputs]) : NULL;
}

const char *braid_snapshot_layout_text(int64_t layout, const braid_value_row *value, char *buffer, size_t bytes) {
  int rank = value && value->shape.count <= BRAID_MAX_RANK ? (int)value->shape.count : BRAID_MAX_RANK;
  return braid_layout_format((braid_layout)layout, rank, buffer, bytes);
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
static void print_number(double number, bool json, braid_text *out) {
  if (json && !isfinite(number))
    braid_text_add(out, "null");
  else
    braid_text_printf(out, "%.9g", number);
}

#define ELEMENT(type) *(const type *)(const void *)at
static void print_element(braid_dtype type, const uint8_t *bytes, bool json, braid_text *out) {
  uint64_t aligned = 0; /* what a file holds is aligned to nothing */
  const uint8_t *at = (const uint8_t *)&aligned;
  memcpy(&aligned, bytes, braid_dtype_size(type));
  switch (type) {
  case BRAID_F32:
    print_number((double)ELEMENT(float), json, out);
    break;
  case BRAID_F64:
    print_number(ELEMENT(double), json, out);
    break;
  case BRAID_F16:
    print_number((double)braid_f16_to_f32(ELEMENT(uint16_t)), json, out);
    break;
  case BRAID_BF16:
    print_number((double)braid_bf16_to_f32(ELEMENT(uint16_t)), json, out);
    break;
  case BRAID_I8:
    braid_text_printf(out, "%d", ELEMENT(int8_t));
    break;
  case BRAID_I16:
    braid_text_printf(out, "%d", ELEMENT(int16_t));
    break;
  case BRAID_I32:
    braid_text_printf(out, "%" PRId32, ELEMENT(int32_t));
    break;
  case BRAID_I64:
    braid_text_printf(out, "%" PRId64, ELEMENT(int64_t));
    break;
  default: /* what has no sign */
    if (braid_dtype_is_narrow(type))
      print_number(braid_narrow_to_f64(type, *at), json, out);
    else
      braid_text_printf(out, "%" PRIu64, aligned);
  }
}

/* Contents of a tensor of this type; bytes where the type is none. */
static void print_elements(int64_t type, const braid_snapshot_bytes *bytes, bool json, braid_text *out) {
  braid_dtype dtype = type > BRAID_NONE && type < BRAID_DTYPE_COUNT ? (braid_dtype)type : BRAID_U8;
  size_t size = braid_dtype_size(dtype), count = bytes->count / size, most = json ? SIZE_MAX : kShownItems;
  braid_text_add(out, "[");
  for (size_t i = 0; i < count && i < most; i++) {
    if (i) braid_text_add(out, ",");
    print_element(dtype, bytes->items + i * size, json, out);
  }
  braid_text_add(out, count > most ? ",...]" : "]");
}

static void print_list(const braid_snapshot_list *list, bool json, braid_text *out) {
  size_t most = json ? SIZE_MAX : kShownItems;
  braid_text_add(out, "[");
  for (size_t i = 0; i < list->count && i < most; i++)
    braid_text_printf(out, i ? ",%" PRId64 : "%" PRId64, list->items[i]);
  braid_text_add(out, list->count > most ? ",...]" : "]");
}

static void print_shape(const braid_snapshot_list *shape, bool json, braid_text *out) {
  if (shape->count == 1 && shape->items[0] == INT64_MIN)
    braid_text_add(out, json ? "null" : "not known");
  else
    print_list(shape, json, out);
}

static void print_text(const char *text, bool json, braid_text *out) {
  if (json)
    braid_text_add_json(out, text);
  else
    braid_text_add(out, text);
}

/* Names with a newline behind each. */
static void print_names(const char *names, bool json, braid_text *out) {
  if (json) braid_text_add(out, "[");
  for (bool first = true; *names; first = false) {
    char name[256];
    size_t length = strcspn(names, "\n");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), names);
    if (!first) braid_text_add(out, json ? "," : ", ");
    print_text(name, json, out);
    names += names[length] ? length + 1 : length;
  }
  if (json) braid_text_add(out, "]");
}

/* --- fields --------------------------------------------------------------------------------------------------------
 */
typedef struct field_of {
  const braid_snapshot *snapshot;
  const braid_table *table;
  const braid_field *field;
  const void *row;
  size_t index; /* of the row */
} field_of;

/* Of a step's operands; of the plan's homes, one for each value. */
static void print_layouts(const field_of *f, const braid_snapshot_list *list, bool json, braid_text *out) {
  char text[BRAID_LAYOUT_TEXT];
  size_t most = json ? SIZE_MAX : kShownItems;
  braid_text_add(out, "[");
  for (size_t i = 0; i < list->count && i < most; i++) {
    const braid_value_row *value = f->table->kind == BRAID_ROW_STEP ? braid_snapshot_operand(f->snapshot, f->row, i)
                                                                    : value_at(f->snapshot, (int64_t)i);
    if (i) braid_text_add(out, ",");
    print_text(braid_snapshot_layout_text(list->items[i], value, text, sizeof text), json, out);
  }
  braid_text_add(out, list->count > most ? ",...]" : "]");
}

static void print_strings(const braid_attribute_row *row, braid_text *out) {
  const char *at = (const char *)row->contents.items, *end = at + row->contents.count;
  braid_text_add(out, "[");
  for (int64_t i = 0; i < row->number && at < end; i++, at += strlen(at) + 1) { /* terminated behind the last byte */
    if (i) braid_text_add(out, ",");
    braid_text_add_json(out, at);
  }
  braid_text_add(out, "]");
}

static void print_attribute(const braid_attribute_row *row, bool json, braid_text *out) {
  double number;
  memcpy(&number, &row->number, sizeof number);
  switch (row->kind) {
  case BRAID_ATTR_INT:
    braid_text_printf(out, "%" PRId64, row->number);
    break;
  case BRAID_ATTR_FLOAT:
    print_number(number, json, out);
    break;
  case BRAID_ATTR_STRING:
    print_text(row->text, json, out);
    break;
  case BRAID_ATTR_INTS:
    print_list(&row->list, json, out);
    break;
  case BRAID_ATTR_FLOATS:
    print_elements(BRAID_F32, &row->contents, json, out);
    break;
  case BRAID_ATTR_STRINGS:
    print_strings(row, out);
    break;
  default:
    print_elements(row->number, &row->contents, json, out);
  }
}

/* A word stands in JSON as a string. */
static void print_number_field(const field_of *f, int64_t number, bool json, braid_text *out) {
  switch (f->field->type) {
  case BRAID_FIELD_FLAG:
    braid_text_add(out, json ? (number ? "true" : "false") : number ? "yes" : "no");
    break;
  case BRAID_FIELD_DEVICE:
    print_text(braid_snapshot_device_name(f->snapshot, number), json, out);
    break;
  case BRAID_FIELD_TYPE:
    print_text(braid_dtype_name((braid_dtype)(number < 0 || number >= BRAID_DTYPE_COUNT ? 0 : number)), json, out);
    break;
  case BRAID_FIELD_PRECISION:
    print_text(braid_snapshot_precision_name(number), json, out);
    break;
  case BRAID_FIELD_VALUE_KIND:
    print_text(WORD(kValueKinds, number), json, out);
    break;
  case BRAID_FIELD_ATTRIBUTE_KIND:
    print_text(WORD(kAttributeKinds, number), json, out);
    break;
  case BRAID_FIELD_STORAGE_KIND:
    print_text(WORD(kStorageKinds, number), json, out);
    break;
  case BRAID_FIELD_HASH:
    braid_text_printf(out, json ? "\"%016" PRIx64 "\"" : "%016" PRIx64, (uint64_t)number);
    break;
  default:
    braid_text_printf(out, "%" PRId64, number);
  }
}

static void print_field(const field_of *f, bool json, braid_text *out) {
  const void *member = (const char *)f->row + f->field->offset;
  switch (braid_field_stored(f->field->type)) {
  case BRAID_FIELD_TEXT:
    if (f->field->type == BRAID_FIELD_NAMES)
      print_names(*(const char *const *)member, json, out);
    else
      print_text(*(const char *const *)member, json, out);
    break;
  case BRAID_FIELD_LIST:
    if (f->field->type == BRAID_FIELD_LAYOUTS)
      print_layouts(f, member, json, out);
    else if (f->field->type == BRAID_FIELD_SHAPE)
      print_shape(member, json, out);
    else
      print_list(member, json, out);
    break;
  case BRAID_FIELD_BYTES:
    print_elements(((const braid_value_row *)f->row)->type, member, json, out);
    break;
  default:
    print_number_field(f, *(const int64_t *)member, json, out);
  }
}

/* What an attribute is takes the fields from "number" on: they are shown as one. */
static size_t shown_fields(const braid_table *table) {
  size_t count = table->field_count;
  if (table->kind != BRAID_ROW_ATTRIBUTE) return count;
  for (size_t f = 0; f < count; f++)
    if (strcmp(table->fields[f].name, "number") == 0) return f;
  return count;
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void print_row(const braid_snapshot *snapshot, const braid_table *table, size_t index, const void *row,
                      braid_text *out) {
  size_t count = shown_fields(table);
  braid_text_add(out, index ? ",\n  {" : "\n  {");
  for (size_t f = 0; f < count; f++) {
    const field_of field = {snapshot, table, &table->fields[f], row, index};
    braid_text_printf(out, "%s\"%s\": ", f ? ", " : "", field.field->name);
    print_field(&field, true, out);
  }
  if (count < table->field_count) {
    braid_text_add(out, ", \"value\": ");
    print_attribute(row, true, out);
  }
  braid_text_add(out, "}");
}

void braid_snapshot_print_json(const braid_snapshot *snapshot, braid_text *out) {
  braid_text_add(out, "{");
  for (size_t t = 0; t < BRAID_SNAPSHOT_TABLE_COUNT; t++) {
    const braid_table *table = &braid_snapshot_tables[t];
    const braid_rows *rows = braid_snapshot_rows(snapshot, t);
    braid_text_printf(out, "%s\"%s\": [", t ? ",\n" : "", table->name);
    for (size_t r = 0; r < rows->count; r++)
      print_row(snapshot, table, r, (const char *)rows->items + r * table->row_bytes, out);
    braid_text_add(out, "]");
  }
  braid_text_add(out, "}\n");
}

/* --- differences ---------------------------------------------------------------------------------------------------
 */
static bool same_field(const braid_field *field, const void *a, const void *b) {
  const void *x = (const char *)a + field->offset, *y = (const char *)b + field->offset;
  const braid_snapshot_list *list = x, *other_list = y;
  const braid_snapshot_bytes *bytes = x, *other_bytes = y;
  switch (braid_field_stored(field->type)) {
  case BRAID_FIELD_TEXT:
    return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
  case BRAID_FIELD_LIST:
    return list->count == other_list->count &&
           (!list->count || memcmp(list->items, other_list->items, list->count * sizeof *list->items) == 0);
  case BRAID_FIELD_BYTES:
    return bytes->count == other_bytes->count &&
           (!bytes->count || memcmp(bytes->items, other_bytes->items, bytes->count) == 0);
  default:
    return *(const int64_t *)x == *(const int64_t *)y;
  }
}

/* What the rows of a table are: one, several, and of what. */
static const struct {
  const char *one, *several, *of;
} kNouns[BRAID_SNAPSHOT_TABLE_COUNT] = {
    [BRAID_TABLE_plan] = {"the plan", "plans", ""},
    [BRAID_TABLE_device] = {"device", "devices", ""},
    [BRAID_TABLE_given_value] = {"value", "values", " of the model"},
    [BRAID_TABLE_given_node] = {"node", "nodes", " of the model"},
    [BRAID_TABLE_given_attribute] = {"attribute", "attributes", " of the model"},
    [BRAID_TABLE_value] = {"value", "values", ""},
    [BRAID_TABLE_node] = {"node", "nodes", ""},
    [BRAID_TABLE_attribute] = {"attribute", "attributes", ""},
    [BRAID_TABLE_place] = {"the choice for node", "choices", ""},
    [BRAID_TABLE_setup_step] = {"setup step", "setup steps", ""},
    [BRAID_TABLE_step] = {"step", "steps", ""},
    [BRAID_TABLE_storage] = {"memory", "pieces of memory", ""},
};

static void print_subject(const braid_snapshot *snapshot, size_t t, size_t index, const void *row, braid_text *out) {
  const braid_table *table = &braid_snapshot_tables[t];
  const braid_node_row *node = NULL;
  braid_text_add(out, kNouns[t].one);
  if (t == BRAID_TABLE_place) node = node_at(&snapshot->nodes, (int64_t)index);
  if (table->kind == BRAID_ROW_ATTRIBUTE)
    node = node_at(t == BRAID_TABLE_attribute ? &snapshot->nodes : &snapshot->given_nodes,
                   ((const braid_attribute_row *)row)->node);
  if (table->kind == BRAID_ROW_PLAN) return;
  if (t == BRAID_TABLE_place)
    braid_text_printf(out, " %.120s", node ? node->name : "");
  else if (table->fields[0].type == BRAID_FIELD_TEXT)
    braid_text_printf(out, " %.120s", *(const char *const *)((const char *)row + table->fields[0].offset));
  else if (table->kind == BRAID_ROW_ATTRIBUTE)
    braid_text_printf(out, " %.80s of node %.120s", ((const braid_attribute_row *)row)->name, node ? node->name : "");
  else
    braid_text_printf(out, " %zu", index);
  braid_text_add(out, kNouns[t].of);
}

/* `field` of table->field_count: an attribute's value. */
static bool rows_differ(const braid_table *table, size_t field, const void *a, const void *b) {
  size_t shown = shown_fields(table);
  bool differ = false;
  if (field < shown) return !same_field(&table->fields[field], a, b);
  for (size_t f = shown; f < table->field_count; f++) differ |= !same_field(&table->fields[f], a, b);
  return differ;
}

static void print_side(const braid_snapshot *snapshot, const braid_table *table, size_t field, size_t index,
                       const void *row, braid_text *out) {
  size_t before = out->length;
  if (field < shown_fields(table))
    print_field(&(field_of){snapshot, table, &table->fields[field], row, index}, false, out);
  else
    print_attribute(row, false, out);
  if (out->length == before) braid_text_add(out, "empty");
}

size_t braid_snapshot_compare(const braid_snapshot *a, const braid_snapshot *b, size_t first, size_t last, size_t most,
                              const char *a_name, const char *b_name, braid_text *out) {
  size_t found = 0;
  for (size_t t = first; t <= last; t++) {
    const braid_table *table = &braid_snapshot_tables[t];
    const braid_rows *x = braid_snapshot_rows(a, t), *y = braid_snapshot_rows(b, t);
    size_t shown = shown_fields(table), compared = shown < table->field_count ? shown + 1 : shown;
    for (size_t r = 0; r < x->count && r < y->count; r++) {
      const char *row = (const char *)x->items + r * table->row_bytes;
      const char *other = (const char *)y->items + r * table->row_bytes;
      for (size_t f = 0; f < compared; f++) {
        if (!rows_differ(table, f, row, other) || found++ >= most) continue;
        print_subject(a, t, r, row, out);
        braid_text_printf(out, ": %s is ", f < shown ? table->fields[f].name : "its value");
        print_side(a, table, f, r, row, out);
        braid_text_printf(out, " %s, ", a_name);
        print_side(b, table, f, r, other, out);
        braid_text_printf(out, " %s\n", b_name);
      }
    }
    if (x->count != y->count && found++ < most)
      braid_text_printf(out, "%zu %s%s %s, %zu %s\n", x->count, kNouns[t].several, kNouns[t].of, a_name, y->count,
                        b_name);
  }
  return found;
}
