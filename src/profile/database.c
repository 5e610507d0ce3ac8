/* One file of SQLite. A file may come from anywhere: it is taken only if its schema is, to the letter, the one that we
 * write, so that no view, trigger or expression of somebody else's runs; then it is looked through as a whole, and
 * every value is checked when it is read. */
#include "profile/database.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "base/vector.h"

enum { kApplication = 0x42726170, kWaitMs = 2000, kMostBytes = 1 << 20 };

/* --- failures ------------------------------------------------------------------------------------------------------
 */
static braid_status sqlite_status(int code) {
  switch (code & 0xff) {
  case SQLITE_NOMEM:
    return BRAID_NO_MEMORY;
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return BRAID_BUSY;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT:
  case SQLITE_SCHEMA:
  case SQLITE_TOOBIG:
  case SQLITE_ERROR:
    return BRAID_INVALID_FILE;
  default:
    return BRAID_IO;
  }
}

braid_status braid_profile_fail(const braid_profile_db *db, const char *what) {
  int code = sqlite3_extended_errcode(db->sqlite);
  braid_status status = sqlite_status(code);
  if (status == BRAID_BUSY)
    return braid_fail(status, "%.200s: %s: another process has it locked (waited %d s)", db->path, what,
                      kWaitMs / 1000);
  if ((code & 0xff) == SQLITE_NOTADB) return braid_fail(status, "%.200s: it is not an SQLite database", db->path);
  return braid_fail(status, "%.200s: %s: %s", db->path, what, sqlite3_errmsg(db->sqlite));
}

/* --- statements ----------------------------------------------------------------------------------------------------
 */
static braid_status prepare_statement(braid_profile_db *db, const char *sql, sqlite3_stmt **out) {
  return sqlite3_prepare_v2(db->sqlite, sql, -1, out, NULL) == SQLITE_OK ? BRAID_OK
                                                                         : braid_profile_fail(db, "it cannot be read");
}

braid_status braid_profile_run(braid_profile_db *db, const char *sql, const char *first) {
  sqlite3_stmt *statement;
  BRAID_TRY(prepare_statement(db, sql, &statement));
  if (first) sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC);
  int code = sqlite3_step(statement);
  braid_status status =
      code == SQLITE_DONE || code == SQLITE_ROW ? BRAID_OK : braid_profile_fail(db, "it cannot be written");
  sqlite3_finalize(statement);
  return status;
}

static braid_status read_number(braid_profile_db *db, const char *sql, int64_t *out) {
  sqlite3_stmt *statement;
  BRAID_TRY(prepare_statement(db, sql, &statement));
  braid_status status = sqlite3_step(statement) == SQLITE_ROW ? BRAID_OK : braid_profile_fail(db, "it cannot be read");
  if (status == BRAID_OK) *out = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return status;
}

braid_status braid_profile_begin(braid_profile_db *db) {
  return braid_profile_run(db, "BEGIN IMMEDIATE", NULL);
}

static braid_status count_rows(braid_profile_db *db, const braid_table *table, size_t *out) {
  char sql[64];
  int64_t count;
  snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table->name);
  BRAID_TRY(read_number(db, sql, &count));
  if (count > BRAID_PROFILE_ROWS)
    return braid_fail(BRAID_INVALID_FILE, "%.200s: table %s has %" PRId64 " rows, at most %d are expected", db->path,
                      table->name, count, BRAID_PROFILE_ROWS);
  *out = (size_t)count;
  return BRAID_OK;
}

/* More rows than are read would be a database that nobody reads again. */
static braid_status check_counts(braid_profile_db *db) {
  size_t count;
  for (int i = 0; i < BRAID_PROFILE_TABLES; i++) BRAID_TRY(count_rows(db, braid_profile_tables[i], &count));
  return BRAID_OK;
}

braid_status braid_profile_end(braid_profile_db *db, braid_status status) {
  if (status == BRAID_OK) status = check_counts(db);
  if (status == BRAID_OK) status = braid_profile_run(db, "COMMIT", NULL);
  if (status != BRAID_OK && !sqlite3_get_autocommit(db->sqlite)) {
    sqlite3_stmt *statement; /* the failure is what is told, not this */
    if (sqlite3_prepare_v2(db->sqlite, "ROLLBACK", -1, &statement, NULL) == SQLITE_OK) sqlite3_step(statement);
    sqlite3_finalize(statement);
  }
  return status;
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static braid_status make_tables(braid_profile_db *db) {
  braid_text text;
  braid_status status = BRAID_OK;
  for (int i = 0; i < BRAID_PROFILE_TABLES && status == BRAID_OK; i++) {
    braid_text_init(&text, db->allocator);
    braid_table_schema(braid_profile_tables[i], &text);
    status = text.failed ? BRAID_NO_MEMORY : braid_profile_run(db, text.data, NULL);
    braid_text_deinit(&text);
  }
  char pragma[64];
  snprintf(pragma, sizeof pragma, "PRAGMA application_id = %d", kApplication);
  if (status == BRAID_OK) status = braid_profile_run(db, pragma, NULL);
  snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", BRAID_PROFILE_SCHEMA);
  return status == BRAID_OK ? braid_profile_run(db, pragma, NULL) : status;
}

static const char kCountObjects[] = "SELECT count(*) FROM sqlite_schema";

/* A file without anything in it; somebody else may make the tables at the same time. */
static braid_status make_if_empty(braid_profile_db *db) {
  int64_t objects, application;
  BRAID_TRY(read_number(db, "PRAGMA application_id", &application));
  BRAID_TRY(read_number(db, kCountObjects, &objects));
  if (objects || application) return BRAID_OK;
  BRAID_TRY(braid_profile_begin(db));
  braid_status status = read_number(db, kCountObjects, &objects);
  if (status == BRAID_OK && !objects) status = make_tables(db);
  return braid_profile_end(db, status);
}

static braid_status check_version(braid_profile_db *db) {
  int64_t application, version, objects;
  BRAID_TRY(read_number(db, "PRAGMA application_id", &application));
  BRAID_TRY(read_number(db, "PRAGMA user_version", &version));
  BRAID_TRY(read_number(db, kCountObjects, &objects));
  if (!objects && !application) return braid_fail(BRAID_INVALID_FILE, "%.200s: the database is empty", db->path);
  if (application != kApplication)
    return braid_fail(BRAID_INVALID_FILE,
                      "%.200s: a database of something else, not of profiles (application id %" PRId64
                      ", %d is expected)",
                      db->path, application, kApplication);
  if (version != BRAID_PROFILE_SCHEMA)
    return braid_fail(BRAID_INVALID_FILE, "%.200s: schema version %" PRId64 ", this Braid reads version %d", db->path,
                      version, BRAID_PROFILE_SCHEMA);
  return BRAID_OK;
}

/* The statement of our own for an object of the schema; INVALID_FILE if the object is none of ours. */
static braid_status check_object(braid_profile_db *db, const char *name, const char *sql, int *found) {
  for (int i = 0; i < BRAID_PROFILE_TABLES; i++) {
    braid_text text;
    if (strcmp(name, braid_profile_tables[i]->name) != 0) continue;
    braid_text_init(&text, db->allocator);
    braid_table_schema(braid_profile_tables[i], &text);
    bool failed = text.failed, same = sql && strcmp(sql, text.data) == 0;
    braid_text_deinit(&text);
    if (failed) return BRAID_NO_MEMORY;
    if (!same)
      return braid_fail(BRAID_INVALID_FILE, "%.200s: table %s does not have the columns of version %d", db->path, name,
                        BRAID_PROFILE_SCHEMA);
    ++*found;
    return BRAID_OK;
  }
  return braid_fail(BRAID_INVALID_FILE, "%.200s: version %d has no \"%.60s\"", db->path, BRAID_PROFILE_SCHEMA, name);
}

static braid_status check_schema(braid_profile_db *db) {
  sqlite3_stmt *statement;
  int found = 0, code;
  BRAID_TRY(prepare_statement(db, "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_autoindex_%'",
                              &statement));
  braid_status status = BRAID_OK;
  while (status == BRAID_OK && (code = sqlite3_step(statement)) != SQLITE_DONE) {
    const char *name = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    const char *sql = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 1) : NULL;
    status = code == SQLITE_ROW ? check_object(db, name ? name : "", sql, &found)
                                : braid_profile_fail(db, "it cannot be read");
  }
  sqlite3_finalize(statement);
  if (status == BRAID_OK && found != BRAID_PROFILE_TABLES)
    status = braid_fail(BRAID_INVALID_FILE, "%.200s: %d of the %d tables of version %d are missing", db->path,
                        BRAID_PROFILE_TABLES - found, BRAID_PROFILE_TABLES, BRAID_PROFILE_SCHEMA);
  return status;
}

static braid_status check_whole(braid_profile_db *db) {
  sqlite3_stmt *statement;
  BRAID_TRY(prepare_statement(db, "PRAGMA quick_check(1)", &statement));
  braid_status status = sqlite3_step(statement) == SQLITE_ROW ? BRAID_OK : braid_profile_fail(db, "it cannot be read");
  const char *said = status == BRAID_OK ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  if (status == BRAID_OK && (!said || strcmp(said, "ok") != 0))
    status = braid_fail(BRAID_INVALID_FILE, "%.200s: the database is damaged: %.300s", db->path, said ? said : "?");
  sqlite3_finalize(statement);
  return status;
}

static braid_status configure(braid_profile_db *db) {
  static const int kSettings[][2] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                     {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                     {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                     {SQLITE_DBCONFIG_ENABLE_VIEW, 0}};
  for (size_t i = 0; i < sizeof kSettings / sizeof *kSettings; i++)
    if (sqlite3_db_config(db->sqlite, kSettings[i][0], kSettings[i][1], (int *)NULL) != SQLITE_OK)
      return braid_profile_fail(db, "it cannot be opened");
  sqlite3_extended_result_codes(db->sqlite, 1);
  sqlite3_busy_timeout(db->sqlite, kWaitMs);
  sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, kMostBytes);
  sqlite3_limit(db->sqlite, SQLITE_LIMIT_ATTACHED, 0);
  return BRAID_OK;
}

/* SQLite has names that are no files (":memory:", ""), and names of its own making ("file:..."). */
static braid_status copy_path(braid_profile_db *db, const char *path) {
  bool other = path[0] == ':' || strncmp(path, "file:", 5) == 0;
  if (!path[0]) return braid_fail(BRAID_NOT_FOUND, "the name of the database is empty");
  size_t bytes = strlen(path) + 3;
  db->path = braid_alloc(db->allocator, bytes);
  if (!db->path) return BRAID_NO_MEMORY;
  snprintf(db->path, bytes, "%s%s", other ? "./" : "", path);
  return BRAID_OK;
}

/* Whether a process was ended while it wrote: its journal is beside the file, and who opens it next takes back what was
 * half written. */
static bool has_journal(const braid_profile_db *db) {
  char journal[4200];
  return snprintf(journal, sizeof journal, "%s-journal", db->path) < (int)sizeof journal &&
         faccessat(AT_FDCWD, journal, F_OK, 0) == 0;
}

static braid_status open_file(braid_profile_db *db, const char *path, braid_profile_access access) {
  int flags = access == BRAID_PROFILE_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  BRAID_TRY(copy_path(db, path));
  if (access == BRAID_PROFILE_READ && faccessat(AT_FDCWD, db->path, F_OK, 0) != 0)
    return braid_fail(BRAID_NOT_FOUND, "%.200s: there is no such database", path);
  if (access == BRAID_PROFILE_READ && has_journal(db)) flags = SQLITE_OPEN_READWRITE;
  int code = sqlite3_open_v2(db->path, &db->sqlite, flags, NULL);
  if (!db->sqlite) return braid_fail(BRAID_NO_MEMORY, "%s", braid_status_text(BRAID_NO_MEMORY));
  if (code != SQLITE_OK) return braid_profile_fail(db, "it cannot be opened");
  BRAID_TRY(configure(db));
  if (access == BRAID_PROFILE_WRITE && sqlite3_db_readonly(db->sqlite, "main") == 1)
    return braid_fail(BRAID_IO, "%.200s: it can be read, but not written", db->path);
  if (access == BRAID_PROFILE_WRITE) BRAID_TRY(make_if_empty(db));
  BRAID_TRY(check_version(db));
  BRAID_TRY(check_schema(db));
  return check_whole(db);
}

braid_status braid_profile_db_open(const braid_allocator *allocator, const char *path, braid_profile_access access,
                                   braid_profile_db **out) {
  *out = NULL;
  braid_profile_db *db = braid_zalloc(allocator, sizeof *db);
  if (!db) return BRAID_NO_MEMORY;
  db->allocator = allocator;
  braid_status status = open_file(db, path, access);
  if (status == BRAID_OK)
    *out = db;
  else
    braid_profile_db_close(db);
  return status;
}

void braid_profile_db_close(braid_profile_db *db) {
  if (!db) return;
  sqlite3_close(db->sqlite);
  braid_free(db->allocator, db->path);
  braid_free(db->allocator, db);
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static int bind_column(sqlite3_stmt *statement, int place, const braid_column *column, const void *record) {
  const char *at = (const char *)record + column->offset;
  switch (column->type) {
  case BRAID_COLUMN_TEXT:
    return sqlite3_bind_text(statement, place, *(const char *const *)at, -1, SQLITE_STATIC); /* NULL is NULL */
  case BRAID_COLUMN_REAL:
    return sqlite3_bind_double(statement, place, *(const double *)at); /* NAN is NULL */
  case BRAID_COLUMN_INTEGER:
    break;
  }
  int64_t value = *(const int64_t *)at;
  return value == -1 ? sqlite3_bind_null(statement, place) : sqlite3_bind_int64(statement, place, value);
}

static braid_status insert_record(braid_profile_db *db, const braid_table *table, const void *record) {
  braid_text sql;
  sqlite3_stmt *statement = NULL;
  for (size_t i = 0; i < table->column_count; i++) {
    braid_status status = braid_column_check(table, &table->columns[i], record);
    if (status != BRAID_OK)
      return braid_fail(BRAID_INTERNAL, "a record that may not be written: %.300s", braid_error_detail());
  }
  braid_text_init(&sql, db->allocator);
  braid_text_printf(&sql, "INSERT OR REPLACE INTO %s VALUES (", table->name);
  for (size_t i = 0; i < table->column_count; i++) braid_text_add(&sql, i ? ", ?" : "?");
  braid_text_add(&sql, ")");
  braid_status status = sql.failed ? BRAID_NO_MEMORY : prepare_statement(db, sql.data, &statement);
  for (size_t i = 0; i < table->column_count && status == BRAID_OK; i++)
    if (bind_column(statement, (int)i + 1, &table->columns[i], record) != SQLITE_OK)
      status = braid_profile_fail(db, "it cannot be written");
  if (status == BRAID_OK && sqlite3_step(statement) != SQLITE_DONE)
    status = braid_profile_fail(db, "it cannot be written");
  sqlite3_finalize(statement);
  braid_text_deinit(&sql);
  return status;
}

braid_status braid_profile_put(braid_profile_db *db, const braid_table *table, const void *record) {
  if (!sqlite3_get_autocommit(db->sqlite)) return insert_record(db, table, record);
  BRAID_TRY(braid_profile_begin(db));
  return braid_profile_end(db, insert_record(db, table, record));
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status read_column(sqlite3_stmt *statement, int place, const braid_table *table,
                                const braid_column *column, braid_arena *arena, void *record) {
  char *at = (char *)record + column->offset;
  if (sqlite3_column_type(statement, place) == SQLITE_NULL) return braid_column_check(table, column, record);
  if (column->type == BRAID_COLUMN_REAL) *(double *)at = sqlite3_column_double(statement, place);
  if (column->type == BRAID_COLUMN_INTEGER) {
    *(int64_t *)at = sqlite3_column_int64(statement, place);
    if (*(int64_t *)at < 0)
      return braid_fail(BRAID_INVALID_FILE, "table %s, column %s is below 0", table->name, column->name);
  }
  if (column->type == BRAID_COLUMN_TEXT) {
    const char *text = (const char *)sqlite3_column_text(statement, place);
    size_t bytes = (size_t)sqlite3_column_bytes(statement, place);
    if (!text) return braid_fail(BRAID_NO_MEMORY, "%s", braid_status_text(BRAID_NO_MEMORY));
    if (strlen(text) != bytes) /* a byte of value 0 */
      return braid_fail(BRAID_INVALID_FILE, "table %s, column %s has control characters", table->name, column->name);
    *(const char **)at = braid_arena_text(arena, text, bytes);
    if (!*(const char **)at) return BRAID_NO_MEMORY;
  }
  return braid_column_check(table, column, record);
}

braid_status braid_profile_read_row(sqlite3_stmt *statement, const braid_table *table, braid_arena *arena,
                                    void *record) {
  braid_table_clear(table, record);
  for (size_t i = 0; i < table->column_count; i++)
    BRAID_TRY(read_column(statement, (int)i, table, &table->columns[i], arena, record));
  return BRAID_OK;
}

static braid_status read_rows(braid_profile_db *db, const braid_table *table, sqlite3_stmt *statement,
                              braid_arena *arena, char *records, size_t most, size_t *count) {
  int code;
  *count = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    void *record = records + *count * table->record_bytes;
    if (*count == most) return braid_fail(BRAID_BUSY, "%.200s: it changed while it was read", db->path);
    braid_status status = braid_profile_read_row(statement, table, arena, record);
    if (status == BRAID_INVALID_FILE) return braid_profile_blame_row(db, statement, table);
    BRAID_TRY(status);
    ++*count;
  }
  return code == SQLITE_DONE ? BRAID_OK : braid_profile_fail(db, "it cannot be read");
}

braid_status braid_profile_get_where(braid_profile_db *db, const braid_table *table, const char *column,
                                     const char *equal, braid_arena *arena, void **records, size_t *count) {
  braid_text sql;
  sqlite3_stmt *statement = NULL;
  size_t most;
  *count = 0;
  BRAID_TRY(count_rows(db, table, &most));
  *records = braid_arena_alloc(arena, (most + 1) * table->record_bytes);
  if (!*records) return BRAID_NO_MEMORY;
  braid_text_init(&sql, db->allocator);
  braid_text_add(&sql, "SELECT ");
  braid_table_columns(table, &sql);
  braid_text_printf(&sql, " FROM %s", table->name);
  if (column) braid_text_printf(&sql, " WHERE %s = ?1", column);
  braid_text_printf(&sql, " ORDER BY %s", table->order);
  braid_status status = sql.failed ? BRAID_NO_MEMORY : prepare_statement(db, sql.data, &statement);
  if (status == BRAID_OK && column && sqlite3_bind_text(statement, 1, equal, -1, SQLITE_STATIC) != SQLITE_OK)
    status = braid_profile_fail(db, "it cannot be read");
  if (status == BRAID_OK) status = read_rows(db, table, statement, arena, *records, most, count);
  sqlite3_finalize(statement);
  braid_text_deinit(&sql);
  return status;
}

braid_status braid_profile_get(braid_profile_db *db, const braid_table *table, braid_arena *arena, void **records,
                               size_t *count) {
  return braid_profile_get_where(db, table, NULL, NULL, arena, records, count);
}

/* --- lists ---------------------------------------------------------------------------------------------------------
 */
braid_status braid_profile_list_create(braid_profile_db *db, const braid_allocator *allocator,
                                       braid_profile_list *out) {
  *out = (braid_profile_list){0};
  BRAID_TRY(braid_arena_create(allocator, &out->arena));
  void *devices = NULL, *entries = NULL;
  braid_status status = braid_profile_get(db, &braid_profile_device_table, out->arena, &devices, &out->device_count);
  if (status == BRAID_OK)
    status = braid_profile_get(db, &braid_profile_entry_table, out->arena, &entries, &out->entry_count);
  out->devices = devices;
  out->entries = entries;
  if (status != BRAID_OK) braid_profile_list_deinit(out);
  return status;
}

void braid_profile_list_deinit(braid_profile_list *list) {
  braid_arena_destroy(list->arena);
  *list = (braid_profile_list){0};
}
