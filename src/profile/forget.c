/* Rows that can't be read: which they are, and how a database is rid of them. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "profile/database.h"

enum { kShownBytes = 160 };

/* 'device "cpu", devices "1", op "Conv" ...': the columns that name a row, which is at most made plain and cut. */
static void describe_row(sqlite3_stmt *statement, const braid_table *table, char *out, size_t bytes) {
  size_t used = 0;
  out[0] = '\0';
  for (const char *at = table->named; *at && used < bytes;) {
    size_t length = strcspn(at, ",");
    for (size_t i = 0; i < table->column_count && used < bytes; i++) {
      const char *name = table->columns[i].name;
      if (strlen(name) != length || strncmp(name, at, length) != 0) continue;
      char text[kShownBytes + 4];
      const char *value = (const char *)sqlite3_column_text(statement, (int)i);
      snprintf(text, sizeof text, "%.*s%s", kShownBytes, value ? value : "",
               value && strlen(value) > kShownBytes ? "..." : "");
      braid_profile_make_plain(text);
      if (*text) used += (size_t)snprintf(out + used, bytes - used, "%s%s \"%s\"", used ? ", " : "", name, text);
    }
    at += length;
    at += strspn(at, ", ");
  }
}

braid_status braid_profile_blame_row(const braid_profile_db *db, sqlite3_stmt *statement, const braid_table *table) {
  char row[1024], why[512];
  snprintf(why, sizeof why, "%s", braid_error_detail());
  describe_row(statement, table, row, sizeof row);
  return braid_fail(
      BRAID_INVALID_FILE,
      "%.200s: a row can't be read, that of %s: %s; `braid profile --db %.200s --forget-bad` deletes such "
      "rows and keeps the others",
      db->path, row, why, db->path);
}

/* Deletes the bad rows of a table, by their numbers, which SQLite gives. */
static braid_status forget_rows(braid_profile_db *db, const braid_table *table, const braid_log *log, size_t *count) {
  braid_text sql;
  braid_arena *arena;
  sqlite3_stmt *rows = NULL, *removal = NULL;
  int code = SQLITE_DONE;
  BRAID_TRY(braid_arena_create(db->allocator, &arena));
  void *record = braid_arena_alloc(arena, table->record_bytes);
  braid_text_init(&sql, db->allocator);
  braid_text_add(&sql, "SELECT ");
  braid_table_columns(table, &sql);
  braid_text_printf(&sql, ", rowid FROM %s", table->name);
  braid_status status = sql.failed || !record ? BRAID_NO_MEMORY : BRAID_OK;
  char remove_sql[96];
  snprintf(remove_sql, sizeof remove_sql, "DELETE FROM %s WHERE rowid = ?1", table->name);
  if (status == BRAID_OK && (sqlite3_prepare_v2(db->sqlite, sql.data, -1, &rows, NULL) != SQLITE_OK ||
                             sqlite3_prepare_v2(db->sqlite, remove_sql, -1, &removal, NULL) != SQLITE_OK))
    status = braid_profile_fail(db, "it cannot be read");
  while (status == BRAID_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
    status = braid_profile_read_row(rows, table, arena, record);
    if (status != BRAID_INVALID_FILE) continue;
    char row[1024];
    describe_row(rows, table, row, sizeof row);
    braid_log_write(log, BRAID_LOG_WARNING, "%.200s: deleted the row of %s: %s", db->path, row, braid_error_detail());
    sqlite3_reset(removal);
    sqlite3_bind_int64(removal, 1, sqlite3_column_int64(rows, (int)table->column_count));
    status = sqlite3_step(removal) == SQLITE_DONE ? BRAID_OK : braid_profile_fail(db, "it cannot be written");
    ++*count;
  }
  if (status == BRAID_OK && code != SQLITE_DONE) status = braid_profile_fail(db, "it cannot be read");
  sqlite3_finalize(rows);
  sqlite3_finalize(removal);
  braid_text_deinit(&sql);
  braid_arena_destroy(arena);
  return status;
}

braid_status braid_profile_forget_bad(braid_profile_db *db, const braid_log *log, size_t *count) {
  *count = 0;
  BRAID_TRY(braid_profile_begin(db));
  braid_status status = BRAID_OK;
  for (int i = 0; i < BRAID_PROFILE_TABLES && status == BRAID_OK; i++)
    status = forget_rows(db, braid_profile_tables[i], log, count);
  status = braid_profile_end(db, status);
  if (status != BRAID_OK) *count = 0; /* they are all there again */
  return status;
}
