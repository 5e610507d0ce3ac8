/* Plans as data: what a plan is, in rows of named fields that refer to nothing. Saving, loading, printing and comparing
 * plans go through this one list: a new field is a line here and where it is taken (snapshot.c).
 *
 * A saved plan holds what was decided, and what kernels answered, and also what followed from that (offsets, waits).
 * Loading (restore.c) takes the decisions and the answers, lets the same code draw the consequences, and compares:
 * so memory is never laid out by a file. */
#ifndef BRAID_RUNTIME_SNAPSHOT_H
#define BRAID_RUNTIME_SNAPSHOT_H

#include "base/text.h"
#include "runtime/plan/plan.h"

/* X(type, name): NUMBER, TEXT, LIST of numbers, BYTES; the others are stored as one of these and shown in their way. */
#define BRAID_SNAPSHOT_PLAN(X)                                                                                         \
  X(TEXT, library)                                                                                                     \
  X(TEXT, processor)                                                                                                   \
  X(FLAG, training)                                                                                                    \
  X(FLAG, no_fusion)                                                                                                   \
  X(FLAG, no_reuse)                                                                                                    \
  X(FLAG, device_io)                                                                                                   \
  X(FLAG, callers_thread)                                                                                              \
  X(PRECISION, precision)                                                                                              \
  X(LIST, given_inputs)                                                                                                \
  X(LIST, given_outputs)                                                                                               \
  X(LIST, inputs)                                                                                                      \
  X(LIST, outputs)                                                                                                     \
  X(LIST, order)                                                                                                       \
  X(LAYOUTS, homes)                                                                                                    \
  X(LIST, arena_bytes)                                                                                                 \
  X(LIST, weight_bytes)
#define BRAID_SNAPSHOT_DEVICE(X)                                                                                       \
  X(TEXT, name)                                                                                                        \
  X(TEXT, backend)                                                                                                     \
  X(TEXT, kind)                                                                                                        \
  X(TEXT, description)                                                                                                 \
  X(TEXT, software)                                                                                                    \
  X(NUMBER, threads)                                                                                                   \
  X(FLAG, separate_memory)                                                                                             \
  X(NUMBER, queues)                                                                                                    \
  X(NUMBER, alignment)                                                                                                 \
  X(NUMBER, host_alignment)                                                                                            \
  X(HASH, kernels)
#define BRAID_SNAPSHOT_VALUE(X)                                                                                        \
  X(TEXT, name)                                                                                                        \
  X(VALUE_KIND, kind)                                                                                                  \
  X(TYPE, type)                                                                                                        \
  X(SHAPE, shape)                                                                                                      \
  X(NUMBER, next)                                                                                                      \
  X(BYTES, contents)
#define BRAID_SNAPSHOT_NODE(X)                                                                                         \
  X(TEXT, name)                                                                                                        \
  X(TEXT, op)                                                                                                          \
  X(LIST, inputs)                                                                                                      \
  X(LIST, outputs)                                                                                                     \
  X(FLAG, backward)                                                                                                    \
  X(NAMES, absorbed)
#define BRAID_SNAPSHOT_ATTRIBUTE(X)                                                                                    \
  X(NUMBER, node)                                                                                                      \
  X(TEXT, name)                                                                                                        \
  X(ATTRIBUTE_KIND, kind)                                                                                              \
  X(NUMBER, number)                                                                                                    \
  X(TEXT, text)                                                                                                        \
  X(LIST, list)                                                                                                        \
  X(BYTES, contents)
#define BRAID_SNAPSHOT_PLACE(X)                                                                                        \
  X(DEVICE, device)                                                                                                    \
  X(TEXT, kernel)                                                                                                      \
  X(TEXT, why)
#define BRAID_SNAPSHOT_STEP(X)                                                                                         \
  X(TEXT, label)                                                                                                       \
  X(TEXT, op)                                                                                                          \
  X(DEVICE, device)                                                                                                    \
  X(NUMBER, queue)                                                                                                     \
  X(NUMBER, node)                                                                                                      \
  X(NUMBER, value)                                                                                                     \
  X(TEXT, kernel)                                                                                                      \
  X(LAYOUTS, layouts)                                                                                                  \
  X(NUMBER, workspace)                                                                                                 \
  X(NUMBER, folded)                                                                                                    \
  X(LIST, packings)                                                                                                    \
  X(LIST, storages)                                                                                                    \
  X(LIST, waits)
#define BRAID_SNAPSHOT_STORAGE(X)                                                                                      \
  X(STORAGE_KIND, kind)                                                                                                \
  X(NUMBER, space)                                                                                                     \
  X(NUMBER, bytes)                                                                                                     \
  X(NUMBER, offset)                                                                                                    \
  X(NUMBER, part_of)

/* Y(TABLE, row's name, member): one list per kind of row, in the order of the file. */
#define BRAID_SNAPSHOT_TABLES(Y)                                                                                       \
  Y(PLAN, plan, plan)                                                                                                  \
  Y(DEVICE, device, devices)                                                                                           \
  Y(VALUE, given_value, given_values)                                                                                  \
  Y(NODE, given_node, given_nodes)                                                                                     \
  Y(ATTRIBUTE, given_attribute, given_attributes)                                                                      \
  Y(VALUE, value, values)                                                                                              \
  Y(NODE, node, nodes)                                                                                                 \
  Y(ATTRIBUTE, attribute, attributes)                                                                                  \
  Y(PLACE, place, places)                                                                                              \
  Y(STEP, setup_step, setup)                                                                                           \
  Y(STEP, step, steps)                                                                                                 \
  Y(STORAGE, storage, storages)

typedef struct braid_snapshot_list {
  const int64_t *items;
  size_t count;
} braid_snapshot_list;

typedef struct braid_snapshot_bytes {
  const uint8_t *items;
  size_t count;
} braid_snapshot_bytes;

#define BRAID_SNAPSHOT_TYPE_NUMBER int64_t
#define BRAID_SNAPSHOT_TYPE_TEXT const char *
#define BRAID_SNAPSHOT_TYPE_LIST braid_snapshot_list
#define BRAID_SNAPSHOT_TYPE_BYTES braid_snapshot_bytes
#define BRAID_SNAPSHOT_TYPE_FLAG int64_t
#define BRAID_SNAPSHOT_TYPE_HASH int64_t
#define BRAID_SNAPSHOT_TYPE_DEVICE int64_t
#define BRAID_SNAPSHOT_TYPE_TYPE int64_t
#define BRAID_SNAPSHOT_TYPE_PRECISION int64_t
#define BRAID_SNAPSHOT_TYPE_VALUE_KIND int64_t
#define BRAID_SNAPSHOT_TYPE_ATTRIBUTE_KIND int64_t
#define BRAID_SNAPSHOT_TYPE_STORAGE_KIND int64_t
#define BRAID_SNAPSHOT_TYPE_NAMES const char *
#define BRAID_SNAPSHOT_TYPE_SHAPE braid_snapshot_list
#define BRAID_SNAPSHOT_TYPE_LAYOUTS braid_snapshot_list
#define BRAID_SNAPSHOT_MEMBER(type, name) BRAID_SNAPSHOT_TYPE_##type name;
typedef struct braid_plan_row {
  BRAID_SNAPSHOT_PLAN(BRAID_SNAPSHOT_MEMBER)
} braid_plan_row;
typedef struct braid_device_row {
  BRAID_SNAPSHOT_DEVICE(BRAID_SNAPSHOT_MEMBER)
} braid_device_row;
typedef struct braid_value_row {
  BRAID_SNAPSHOT_VALUE(BRAID_SNAPSHOT_MEMBER)
} braid_value_row;
typedef struct braid_node_row {
  BRAID_SNAPSHOT_NODE(BRAID_SNAPSHOT_MEMBER)
} braid_node_row;
typedef struct braid_attribute_row {
  BRAID_SNAPSHOT_ATTRIBUTE(BRAID_SNAPSHOT_MEMBER)
} braid_attribute_row;
typedef struct braid_place_row {
  BRAID_SNAPSHOT_PLACE(BRAID_SNAPSHOT_MEMBER)
} braid_place_row;
typedef struct braid_step_row {
  BRAID_SNAPSHOT_STEP(BRAID_SNAPSHOT_MEMBER)
} braid_step_row;
typedef struct braid_storage_row {
  BRAID_SNAPSHOT_STORAGE(BRAID_SNAPSHOT_MEMBER)
} braid_storage_row;

typedef enum braid_field_type {
  BRAID_FIELD_NUMBER,
  BRAID_FIELD_TEXT,
  BRAID_FIELD_LIST,
  BRAID_FIELD_BYTES,
  BRAID_FIELD_FLAG, /* from here on numbers */
  BRAID_FIELD_HASH,
  BRAID_FIELD_DEVICE, /* -1: none */
  BRAID_FIELD_TYPE,   /* of elements */
  BRAID_FIELD_PRECISION,
  BRAID_FIELD_VALUE_KIND,
  BRAID_FIELD_ATTRIBUTE_KIND,
  BRAID_FIELD_STORAGE_KIND,
  BRAID_FIELD_NAMES,  /* a text: names with a newline behind each */
  BRAID_FIELD_SHAPE,  /* a list; INT64_MIN alone: not known */
  BRAID_FIELD_LAYOUTS /* a list */
} braid_field_type;

/* The name of a precision in a file, where it may be any number. */
static inline const char *braid_snapshot_precision_name(int64_t precision) {
  return precision < 0 || precision > BRAID_FLOAT16 ? "unknown" : braid_precision_name((braid_precision)precision);
}

/* NUMBER, TEXT, LIST or BYTES. */
static inline braid_field_type braid_field_stored(braid_field_type type) {
  if (type == BRAID_FIELD_NAMES) return BRAID_FIELD_TEXT;
  if (type == BRAID_FIELD_SHAPE || type == BRAID_FIELD_LAYOUTS) return BRAID_FIELD_LIST;
  return type > BRAID_FIELD_BYTES ? BRAID_FIELD_NUMBER : type;
}

typedef enum braid_row_kind {
  BRAID_ROW_PLAN,
  BRAID_ROW_DEVICE,
  BRAID_ROW_VALUE,
  BRAID_ROW_NODE,
  BRAID_ROW_ATTRIBUTE,
  BRAID_ROW_PLACE,
  BRAID_ROW_STEP,
  BRAID_ROW_STORAGE
} braid_row_kind;

typedef struct braid_field {
  const char *name;
  braid_field_type type;
  size_t offset;
} braid_field;

typedef struct braid_rows {
  void *items;
  size_t count;
} braid_rows;

typedef struct braid_table {
  const char *name; /* of a row */
  braid_row_kind kind;
  size_t row_bytes, rows_offset; /* in the snapshot */
  const braid_field *fields;
  size_t field_count;
} braid_table;

#define BRAID_SNAPSHOT_ROWS(table, row, member) braid_rows member;
typedef struct braid_snapshot {
  BRAID_SNAPSHOT_TABLES(BRAID_SNAPSHOT_ROWS)
} braid_snapshot;

#define BRAID_SNAPSHOT_INDEX(table, row, member) BRAID_TABLE_##row,
enum { BRAID_SNAPSHOT_TABLES(BRAID_SNAPSHOT_INDEX) BRAID_SNAPSHOT_TABLE_COUNT };
extern const braid_table braid_snapshot_tables[BRAID_SNAPSHOT_TABLE_COUNT];

static inline braid_rows *braid_snapshot_rows(const braid_snapshot *snapshot, size_t table) {
  return (braid_rows *)(void *)((char *)(uintptr_t)snapshot + braid_snapshot_tables[table].rows_offset);
}

/* Rows may point into the plan and the graph: they must stay as long as the snapshot. `given`: the graph that the plan
 * was made of; NULL: left out. */
BRAID_MUST_CHECK braid_status braid_snapshot_take(const braid_plan *plan, const braid_graph *given, braid_arena *arena,
                                                  braid_snapshot *out);
/* Only what the plan was made for: machine and graph, with the contents of constants in `read`. */
BRAID_MUST_CHECK braid_status braid_snapshot_take_premises(const braid_machine *machine, const braid_graph *given,
                                                           const braid_read_set *read, braid_arena *arena,
                                                           braid_snapshot *out);
/* The values of the given graph that the snapshot has contents of. */
BRAID_MUST_CHECK braid_status braid_snapshot_find_read(const braid_snapshot *snapshot, braid_arena *arena,
                                                       braid_read_set *out);

/* What saved plans compare of the graph that they are made of, as a digest. */
BRAID_MUST_CHECK braid_status braid_snapshot_digest(const braid_graph *given, const braid_read_set *read,
                                                    braid_digest *out);
/* INVALID_ARGUMENT: the plan was not made of this graph. */
BRAID_MUST_CHECK braid_status braid_snapshot_check_given(const braid_plan *plan, const braid_graph *given);

/* snapshot_file.c. Decoding copies: INVALID_FILE says what is wrong, UNSUPPORTED: another version of the format. */
BRAID_MUST_CHECK braid_status braid_snapshot_encode(const braid_snapshot *snapshot, braid_text *out);
BRAID_MUST_CHECK braid_status braid_snapshot_decode(const void *data, size_t bytes, braid_arena *arena,
                                                    braid_snapshot *out);

/* snapshot_text.c */
void braid_snapshot_print_json(const braid_snapshot *snapshot, braid_text *out);
/* Adds a line for each of the first `most` differences; returns how many there are. `first` and `last`: the tables that
 * are looked at. */
size_t braid_snapshot_compare(const braid_snapshot *a, const braid_snapshot *b, size_t first, size_t last, size_t most,
                              const char *a_name, const char *b_name, braid_text *out);
enum { BRAID_SNAPSHOT_PREMISES_LAST = BRAID_TABLE_given_attribute };
/* Of snapshots that were read nothing need fit together: */
const char *braid_snapshot_device_name(const braid_snapshot *snapshot, int64_t device); /* "none" */
/* The value that operand `operand` of a step is, inputs before outputs; NULL: none. */
const braid_value_row *braid_snapshot_operand(const braid_snapshot *snapshot, const braid_step_row *step,
                                              size_t operand);
const char *braid_snapshot_layout_text(int64_t layout, const braid_value_row *value, char *buffer, size_t bytes);

/* snapshot_view.c: what a reader looks for. */
void braid_snapshot_print_text(const braid_snapshot *snapshot, braid_text *out);

#endif
