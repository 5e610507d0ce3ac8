/* The database inside. A record is written and read by a list of its columns (columns.c). */
#ifndef BRAID_PROFILE_DATABASE_H
#define BRAID_PROFILE_DATABASE_H

#include <sqlite3.h>

#include "base/arena.h"
#include "base/text.h"
#include "braid/profile.h"

enum { BRAID_PROFILE_SCHEMA = 1, BRAID_PROFILE_ROWS = 65536, BRAID_PROFILE_TEXT = 4096 };

/* What a profile says of operations that have no rows of their own: "like" (op, as), "others" (as), "threshold_op"
 * (op), "launch_ms" (value). */
typedef struct braid_profile_rule {
  const char *what, *op, *stands; /* stands: the op whose rows count; or "" */
  double value;
} braid_profile_rule;

typedef enum braid_column_type { BRAID_COLUMN_TEXT, BRAID_COLUMN_REAL, BRAID_COLUMN_INTEGER } braid_column_type;

typedef struct braid_column {
  const char *name;
  size_t offset;
  braid_column_type type;
  bool needed;        /* never unknown */
  double least, most; /* of numbers that are known */
} braid_column;

typedef struct braid_table {
  const char *name, *unique; /* columns that identify a row */
  const braid_column *columns;
  size_t column_count, record_bytes;
  const char *order;
  const char *named; /* columns by which messages name a row */
} braid_table;

extern const braid_table braid_profile_device_table, braid_profile_entry_table, braid_profile_rule_table;
enum { BRAID_PROFILE_TABLES = 3 };
extern const braid_table *const braid_profile_tables[BRAID_PROFILE_TABLES];

struct braid_profile_db {
  const braid_allocator *allocator;
  sqlite3 *sqlite;
  char *path;
};

/* Writes one record; one that has the same identity is replaced. On failure the file is as it was; INTERNAL: a record
 * that could not be read again. */
BRAID_MUST_CHECK braid_status braid_profile_put(braid_profile_db *db, const braid_table *table, const void *record);
/* Reads all records into memory of the arena. INVALID_FILE names the table, the row and the column. */
BRAID_MUST_CHECK braid_status braid_profile_get(braid_profile_db *db, const braid_table *table, braid_arena *arena,
                                                void **records, size_t *count);
/* The same of those whose text in a column (of ours, not of a caller) is `equal`. */
BRAID_MUST_CHECK braid_status braid_profile_get_where(braid_profile_db *db, const braid_table *table,
                                                      const char *column, const char *equal, braid_arena *arena,
                                                      void **records, size_t *count);
/* The row that a statement is at, whose columns are the table's in their order; INVALID_FILE names table and column. */
BRAID_MUST_CHECK braid_status braid_profile_read_row(sqlite3_stmt *statement, const braid_table *table,
                                                     braid_arena *arena, void *record);
/* forget.c. INVALID_FILE, its detail (the column that can't be read) behind the row's identity and before what helps.
 */
braid_status braid_profile_blame_row(const braid_profile_db *db, sqlite3_stmt *statement, const braid_table *table);
/* What SQLite says of the last call. */
braid_status braid_profile_fail(const braid_profile_db *db, const char *what);
/* Runs statements of ours; `first`, if not NULL, is bound to ?1. */
BRAID_MUST_CHECK braid_status braid_profile_run(braid_profile_db *db, const char *sql, const char *first);
/* What is put between them is written as a whole, or, if `status` is no success or a table has more rows than are read,
 * not at all; returns it. */
BRAID_MUST_CHECK braid_status braid_profile_begin(braid_profile_db *db);
braid_status braid_profile_end(braid_profile_db *db, braid_status status);

/* CREATE TABLE as this version has it. */
void braid_table_schema(const braid_table *table, braid_text *out);
/* Its columns: "a, b, c". */
void braid_table_columns(const braid_table *table, braid_text *out);
/* A record of which nothing is known. */
void braid_table_clear(const braid_table *table, void *record);
/* Whether a text has no control characters: text goes to terminals and pages, where one could move the cursor. */
bool braid_profile_is_plain(const char *text);
/* Puts '?' in place of control characters, in texts of drivers and compilers. */
void braid_profile_make_plain(char *text);
BRAID_MUST_CHECK braid_status braid_column_check(const braid_table *table, const braid_column *column,
                                                 const void *record);
/* "2026-11-23T10:52:55Z", now; and seconds since 1970 of such a text, -1 if it is none. */
void braid_profile_now(char out[24]);
int64_t braid_profile_time(const char *date);

#endif
