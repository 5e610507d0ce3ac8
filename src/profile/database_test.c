/* Databases of profiles: what is written comes back, also by SQLite itself, and what is no such database is refused
 * with a sentence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "oom.h"
#include "planning/machine.h"
#include "profile/database.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static char path[256];

static int fresh(void **state) {
  (void)state;
  snprintf(path, sizeof path, "%s/profile.db", folder);
  (void)unlink(path);
  return 0;
}

/* Statements run by SQLite, not by us. */
static void by_sqlite(const char *sql) {
  sqlite3 *file;
  char *said = NULL;
  assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
  if (sqlite3_exec(file, sql, NULL, NULL, &said) != SQLITE_OK) fail_msg("%s: %s", sql, said);
  assert_int_equal(sqlite3_close(file), SQLITE_OK);
}

static double number_by_sqlite(const char *sql) {
  sqlite3 *file;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(file, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  double value = sqlite3_column_type(statement, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(file);
  return value;
}

static braid_profile_entry make_entry(const char *op, double seconds) {
  braid_profile_entry entry;
  braid_table_clear(&braid_profile_entry_table, &entry);
  entry.device = "cpu";
  entry.devices = 1;
  entry.op = op;
  entry.key = op;
  entry.beside = "";
  entry.shapes = "8x8 -> 8x8";
  entry.source = "measured";
  entry.date = "2026-11-23T10:52:55Z";
  entry.bytes = 512;
  entry.seconds = seconds;
  return entry;
}

static braid_profile_db *open_to_write(void) {
  braid_profile_db *db;
  OK(braid_profile_db_open(NULL, path, BRAID_PROFILE_WRITE, &db));
  return db;
}

static void put_entry(const char *op, double seconds) {
  braid_profile_db *db = open_to_write();
  braid_profile_entry entry = make_entry(op, seconds);
  OK(braid_profile_put(db, &braid_profile_entry_table, &entry));
  braid_profile_db_close(db);
}

static void test_round_trip(void **state) {
  (void)state;
  put_entry("Relu", 2e-3);
  put_entry("Relu", 1e-3); /* in its place */
  put_entry("Conv", NAN);
  assert_true(number_by_sqlite("SELECT count(*) FROM entries") == 2);
  assert_true(number_by_sqlite("SELECT seconds FROM entries WHERE op = 'Relu'") == 1e-3);
  assert_true(number_by_sqlite("SELECT seconds IS NULL AND joules IS NULL AND runs IS NULL AND kernel IS NULL "
                               "FROM entries WHERE op = 'Conv'") == 1);
  braid_profile_db *db;
  braid_profile_list list;
  OK(braid_profile_db_open(NULL, path, BRAID_PROFILE_READ, &db));
  OK(braid_profile_list_create(db, NULL, &list));
  braid_profile_db_close(db);
  assert_int_equal(list.entry_count, 2);
  assert_string_equal(list.entries[1].op, "Relu");
  assert_true(list.entries[1].seconds == 1e-3 && isnan(list.entries[0].seconds) && list.entries[0].runs == -1);
  assert_null(list.entries[0].kernel);
  braid_profile_list_deinit(&list);
}

static void expect_refused(braid_profile_access access, braid_status expected, const char *said) {
  braid_profile_db *db;
  braid_profile_list list;
  braid_status status = braid_profile_db_open(NULL, path, access, &db);
  if (status == BRAID_OK) {
    status = braid_profile_list_create(db, NULL, &list);
    if (status == BRAID_OK) braid_profile_list_deinit(&list);
    braid_profile_db_close(db);
  }
  if (status != expected) fail_msg("\"%s\": status %d: %s", said, status, braid_error_detail());
  if (!strstr(braid_error_detail(), said) || !strstr(braid_error_detail(), "profile.db"))
    fail_msg("\"%s\" is not in: %s", said, braid_error_detail());
}

static void write_bytes(const char *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  fclose(file);
}

static void test_foreign(void **state) {
  static const struct {
    const char *sql, *said;
  } cases[] = {
      {"PRAGMA application_id = 7", "of something else"},
      {"PRAGMA user_version = 2", "schema version 2, this Braid reads version 1"},
      {"DROP TABLE rules", "1 of the 3 tables"},
      {"CREATE VIEW more AS SELECT 1", "has no \"more\""},
      {"CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END", "has no \"t\""},
      {"DROP TABLE entries; CREATE TABLE entries (device TEXT)", "table entries does not have the columns"},
      {"DROP TABLE entries; CREATE VIEW entries AS SELECT 1 AS device", "table entries does not have the columns"},
      {"UPDATE entries SET seconds = -1", "column seconds is -1, a number from"},
      {"UPDATE entries SET seconds = 9e999", "column seconds is inf"},
      {"UPDATE entries SET runs = -1", "column runs is below 0"},
      {"UPDATE entries SET runs = 0", "column runs is 0"},
      {"UPDATE entries SET op = 'a' || char(27) || '[2J'", "column op has control characters"},
      {"UPDATE entries SET shapes = hex(zeroblob(4000))", "column shapes has 8000 bytes"},
      {"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000) INSERT INTO rules SELECT "
       "'like', i, 'x', 0 FROM n; INSERT INTO entries SELECT 'cpu', 1, 'Relu', op, '', NULL, '', NULL, 1, NULL, 1, "
       "NULL, "
       "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'measured', "
       "'', NULL, NULL, NULL FROM rules",
       "rows, at most 65536"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fresh(state);
    put_entry("Relu", 1e-3);
    by_sqlite(cases[i].sql);
    expect_refused(BRAID_PROFILE_READ, BRAID_INVALID_FILE, cases[i].said);
    expect_refused(BRAID_PROFILE_WRITE, BRAID_INVALID_FILE, cases[i].said);
  }
}

static void test_no_database(void **state) {
  (void)state;
  expect_refused(BRAID_PROFILE_READ, BRAID_NOT_FOUND, "there is no such database");
  write_bytes("", 0);
  expect_refused(BRAID_PROFILE_READ, BRAID_INVALID_FILE, "the database is empty");
  static const char kText[] = "source: not a database, but long enough to have a header of one hundred bytes ......."
                              "...............................";
  write_bytes(kText, sizeof kText);
  expect_refused(BRAID_PROFILE_READ, BRAID_INVALID_FILE, "not an SQLite database");
  expect_refused(BRAID_PROFILE_WRITE, BRAID_INVALID_FILE, "not an SQLite database");
  unlink(path);
  assert_int_equal(mkdir(path, 0777), 0);
  expect_refused(BRAID_PROFILE_WRITE, BRAID_IO, "cannot be opened");
  rmdir(path);
}

/* Every byte of a file damaged in turn, and every length: a failure with a sentence, or values within their bounds. */
static void test_damage(void **state) {
  (void)state;
  put_entry("Relu", 1e-3);
  char bytes[1 << 17];
  FILE *file = fopen(path, "rb");
  size_t count = fread(bytes, 1, sizeof bytes, file), refused = 0, tried = 0;
  fclose(file);
  assert_true(count > 0 && count < sizeof bytes);
  for (size_t at = 0; at < 2 * count; at += at % count < 4096 ? 7 : 97, tried++) {
    char was = bytes[at % count];
    braid_profile_db *db;
    braid_profile_list list;
    bytes[at % count] = (char)(was ^ 0x5a);
    write_bytes(bytes, at < count ? count : at - count);
    bytes[at % count] = was;
    if (braid_profile_db_open(NULL, path, BRAID_PROFILE_READ, &db) == BRAID_OK) {
      if (braid_profile_list_create(db, NULL, &list) == BRAID_OK)
        braid_profile_list_deinit(&list);
      else
        refused++;
      braid_profile_db_close(db);
    } else {
      refused++;
      assert_true(braid_error_detail()[0]);
    }
  }
  assert_true(refused > tried / 4);
}

static void test_locked(void **state) {
  (void)state;
  sqlite3 *other;
  put_entry("Relu", 1e-3);
  braid_profile_db *db = open_to_write();
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  braid_profile_entry entry = make_entry("Conv", 1);
  assert_int_equal(braid_profile_put(db, &braid_profile_entry_table, &entry), BRAID_BUSY);
  assert_non_null(strstr(braid_error_detail(), "another process has it locked"));
  expect_refused(BRAID_PROFILE_READ, BRAID_BUSY, "another process has it locked");
  assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  OK(braid_profile_put(db, &braid_profile_entry_table, &entry));
  braid_profile_db_close(db);
}

/* Half of what belongs together is nothing. */
static void test_undone(void **state) {
  (void)state;
  put_entry("Relu", 1e-3);
  braid_profile_db *db = open_to_write();
  braid_profile_entry entry = make_entry("Conv", 1);
  OK(braid_profile_begin(db));
  OK(braid_profile_put(db, &braid_profile_entry_table, &entry));
  assert_int_equal(braid_profile_end(db, braid_fail(BRAID_IO, "it broke")), BRAID_IO);
  assert_string_equal(braid_error_detail(), "it broke");
  entry.seconds = -3; /* a fault of ours */
  assert_int_equal(braid_profile_put(db, &braid_profile_entry_table, &entry), BRAID_INTERNAL);
  braid_profile_db_close(db);
  assert_true(number_by_sqlite("SELECT count(*) FROM entries") == 1);
}

/* A process that is ended in the middle of a transaction, when a part of it is in the file: what was there before is.
 */
static void test_killed(void **state) {
  (void)state;
  put_entry("Relu", 1e-3);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    sqlite3 *file;
    if (sqlite3_open(path, &file) != SQLITE_OK) _exit(1);
    int code = sqlite3_exec(file,
                            "PRAGMA cache_size = 1; BEGIN; UPDATE entries SET seconds = 7; "
                            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                            "INSERT INTO rules SELECT 'like', i, 'x', 0 FROM n",
                            NULL, NULL, NULL);
    _exit(code == SQLITE_OK ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  char journal[300];
  snprintf(journal, sizeof journal, "%s-journal", path);
  assert_int_equal(access(journal, F_OK), 0); /* or this would prove nothing */
  braid_profile_db *db;
  braid_profile_list list;
  OK(braid_profile_db_open(NULL, path, BRAID_PROFILE_READ, &db));
  OK(braid_profile_list_create(db, NULL, &list));
  braid_profile_db_close(db);
  assert_int_equal(list.entry_count, 1);
  assert_true(list.entries[0].seconds == 1e-3);
  braid_profile_list_deinit(&list);
}

/* A published profile has the same rows in a database as in its file. */
static void test_import(void **state) {
  (void)state;
  size_t count;
  braid_profile_db *db = open_to_write();
  OK(braid_profile_import(db, "hype-training", &count));
  OK(braid_profile_import(db, "hype-training", &count)); /* again: nothing twice */
  braid_profile_db_close(db);
  assert_true(number_by_sqlite("SELECT count(*) FROM entries") == (double)count);
  assert_true(fabs(number_by_sqlite("SELECT seconds FROM entries WHERE device = 'v100' AND op = 'MatMul' AND size = "
                                    "'small'") -
                   1.720e-3) < 1e-12);
  braid_profile *file, *database;
  OK(braid_profile_parse("f", braid_profile_texts[0].text, braid_profile_texts[0].bytes, &file));
  assert_true(braid_profile_is_database(NULL, path));
  OK(braid_profile_read_database(NULL, path, &database));
  assert_int_equal(file->rows_count, count);
  for (unsigned i = 0; i < file->rows_count; i++) {
    braid_profile_row a, b;
    const braid_profile_row *row = &file->rows[i];
    assert_true(braid_profile_at(file, row->device, row->devices, row->op, row->bytes * 1.3, &a));
    assert_true(braid_profile_at(database, row->device, row->devices, row->op, row->bytes * 1.3, &b));
    assert_true(fabs(a.ms / b.ms - 1) < 1e-12 && (a.peak_watts == b.peak_watts));
    assert_true(isnan(a.instructions_per_cycle) == isnan(b.instructions_per_cycle));
  }
  assert_string_equal(braid_profile_like(database, "v100", "Conv"), "Conv2D");
  assert_string_equal(braid_profile_like(database, "stratix10", "Relu"), "Mul");
  assert_null(braid_profile_like(database, "cpu", "Relu"));
  assert_int_equal(database->threshold_ops_count, 2);
  assert_true(database->launch_ms == file->launch_ms);
  braid_profile_free(file);
  braid_profile_free(database);
}

static void put_simple(braid_profile_db *db, const char *source, const char *device, const char *op, const char *size) {
  braid_profile_entry entry;
  braid_table_clear(&braid_profile_entry_table, &entry);
  entry.device = device;
  entry.devices = 1;
  entry.op = entry.key = op;
  entry.beside = "";
  entry.shapes = "";
  entry.size = size;
  entry.bytes = 1e6;
  entry.seconds = 1e-3;
  entry.source = source;
  entry.date = "2026-11-23T10:52:55Z";
  OK(braid_profile_put(db, &braid_profile_entry_table, &entry));
}

/* By which operations candidates are found: those that all devices were measured at, in several sizes; what a model
 * has of them does not count. */
static void test_own_thresholds(void **state) {
  (void)state;
  static const struct {
    const char *source, *device, *op, *size;
    unsigned then;
  } steps[] = {{"a paper", "v", "MatMul", "small", 0}, {"measured", "a", "Relu", "small", 0},
               {"measured", "a", "MatMul", NULL, 0},   {"measured", "a", "MatMul", "small", 1},
               {"measured", "b", "Relu", "small", 0},  {"measured", "b", "MatMul", "medium", 1},
               {"measured", "b", "Conv", "small", 1},  {"measured", "a", "Conv", "large", 2},
               {"measured", "0", "Conv", "large", 1},  {"measured", "0", "MatMul", "large", 2},
               {"measured", "c", "Relu", "large", 0}};
  braid_profile_db *db = open_to_write();
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    braid_profile *profile;
    put_simple(db, steps[i].source, steps[i].device, steps[i].op, steps[i].size);
    OK(braid_profile_from_database(db, NULL, &profile));
    if (profile->threshold_ops_count != steps[i].then)
      fail_msg("step %zu: %u operations", i, profile->threshold_ops_count);
    braid_profile_free(profile);
  }
  braid_profile_db_close(db);
}

static void test_import_refused(void **state) {
  (void)state;
  size_t count;
  braid_profile_db *db = open_to_write();
  assert_int_equal(braid_profile_import(db, "none.yaml", &count), BRAID_NOT_FOUND);
  braid_profile_device device;
  braid_table_clear(&braid_profile_device_table, &device);
  device.device = "v100";
  device.source = "measured";
  device.date = "2026-11-23T10:52:55Z";
  OK(braid_profile_put(db, &braid_profile_device_table, &device));
  assert_int_equal(braid_profile_import(db, "hype-training", &count), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "has a device v100 already, from another source: measured"));
  braid_profile_db_close(db);
  assert_true(number_by_sqlite("SELECT count(*) FROM entries") == 0);
}

/* Of what was measured, some may lie below the idle power by the error of both; all of it is a mistake. */
static void test_idle_power(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: cpu, profile: cpu, idle_watts: 10}\n", NULL},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: cpu, profile: cpu, idle_watts: 30}\n",
       "line 4: device a: idle_watts is 30, more than the "},
  };
  braid_profile_db *db = open_to_write();
  for (int i = 0; i < 2; i++) {
    braid_profile_entry entry = make_entry(i ? "Relu" : "Conv", 1e-3);
    entry.average_watts = i ? 20 : 9.9;
    OK(braid_profile_put(db, &braid_profile_entry_table, &entry));
  }
  braid_profile_db_close(db);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_profile *profile;
    braid_modelled_machine *machine;
    OK(braid_profile_read_database(NULL, path, &profile));
    braid_status status =
        braid_modelled_machine_make(NULL, "m.yaml", cases[i].text, strlen(cases[i].text), profile, &machine);
    braid_modelled_machine_destroy(machine);
    assert_int_equal(status, cases[i].said ? BRAID_INVALID_FILE : BRAID_OK);
    if (cases[i].said && !strstr(braid_error_detail(), cases[i].said)) fail_msg("%s", braid_error_detail());
  }
}

static void expect_entries(size_t count) {
  braid_profile_db *db;
  braid_profile_list list;
  OK(braid_profile_db_open(NULL, path, BRAID_PROFILE_READ, &db));
  OK(braid_profile_list_create(db, NULL, &list));
  assert_int_equal(list.entry_count, count);
  braid_profile_list_deinit(&list);
  braid_profile_db_close(db);
}

/* What reading would refuse is not written: the database is read as before. */
static void test_unreadable(void **state) {
  (void)state;
  static const char *const texts[] = {"e\x1b[31mred", "a\tb", "a\nb", "\x7f", "c1 \xc2\x9b", "cut \xc2"};
  put_entry("Relu", 1e-3);
  braid_profile_db *db = open_to_write();
  braid_profile_entry entry = make_entry("Conv", 1);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char plain[32];
    entry.kernel = texts[i];
    assert_int_equal(braid_profile_put(db, &braid_profile_entry_table, &entry), BRAID_INTERNAL);
    assert_non_null(strstr(braid_error_detail(), "column kernel has control characters"));
    snprintf(plain, sizeof plain, "%s", texts[i]);
    braid_profile_make_plain(plain);
    assert_true(braid_profile_is_plain(plain) && strlen(plain) == strlen(texts[i]));
  }
  assert_true(braid_profile_is_plain("caf\xc3\xa9 \xc2\xb5s"));
  char file[300];
  size_t count;
  snprintf(file, sizeof file, "%s/bad.yaml", folder);
  FILE *out = fopen(file, "w");
  assert_non_null(out);
  fputs("source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1}\n"
        "  - {device: \"e\\e[31mred\", op: Relu, bytes: 2, ms: 1}\n",
        out);
  fclose(out);
  assert_int_equal(braid_profile_import(db, file, &count), BRAID_INVALID_FILE);
  assert_int_equal(count, 0);
  assert_non_null(strstr(braid_error_detail(), "control characters, line: 4"));
  unlink(file);
  braid_profile_db_close(db);
  expect_entries(1);
}

/* A bad row is named, and forgotten without the others. */
static void test_forget(void **state) {
  (void)state;
  braid_profile_db *db;
  size_t count;
  put_entry("Relu", 1e-3);
  put_entry("Conv", 2e-3);
  put_entry("Gemm", 3e-3);
  by_sqlite("UPDATE entries SET kernel = 'a' || char(27) || '[2J' WHERE op = 'Conv'; "
            "UPDATE entries SET seconds = -4, key = key || char(10) WHERE op = 'Gemm'");
  expect_refused(BRAID_PROFILE_READ, BRAID_INVALID_FILE,
                 "a row can't be read, that of device \"cpu\", devices \"1\", op \"Conv\", shapes \"");
  expect_refused(BRAID_PROFILE_READ, BRAID_INVALID_FILE, "column kernel has control characters; `braid profile --db ");
  db = open_to_write();
  OK(braid_profile_forget_bad(db, NULL, &count));
  assert_int_equal(count, 2);
  OK(braid_profile_forget_bad(db, NULL, &count));
  assert_int_equal(count, 0);
  braid_profile_db_close(db);
  expect_entries(1);
  assert_true(number_by_sqlite("SELECT count(*) FROM entries WHERE op = 'Relu' AND seconds = 1e-3") == 1);
  put_entry("Conv", 2e-3);
  expect_entries(2);
  by_sqlite(
      "INSERT INTO rules VALUES ('like', 'a' || char(7), 'Relu', NULL); UPDATE entries SET runs = 0 WHERE op = 'Relu'");
  db = open_to_write();
  OK(braid_profile_forget_bad(db, NULL, &count));
  assert_int_equal(count, 2);
  braid_profile_db_close(db);
  expect_entries(1);
}

static void test_too_many_rows(void **state) {
  (void)state;
  put_entry("Relu", 1e-3);
  by_sqlite("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 65536) INSERT INTO entries "
            "(device, devices, op, key, beside, shapes, bytes, seconds, source, date) "
            "SELECT 'cpu', 1, 'Add', i, '', 's', 1, 1, 'measured', '2026-11-23T10:52:55Z' FROM n");
  put_entry("Relu", 2e-3); /* in its place */
  braid_profile_db *db = open_to_write();
  braid_profile_entry entry = make_entry("Conv", 1);
  size_t count;
  assert_int_equal(braid_profile_put(db, &braid_profile_entry_table, &entry), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "has 65537 rows, at most 65536 are expected"));
  assert_int_equal(braid_profile_import(db, "hype-training", &count), BRAID_INVALID_FILE);
  braid_profile_db_close(db);
  expect_entries(65536);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_profile_db *db;
  braid_profile_list list = {0};
  braid_profile *profile = NULL;
  size_t count;
  braid_status status = braid_profile_db_open(allocator, path, BRAID_PROFILE_WRITE, &db);
  if (status != BRAID_OK) return status;
  status = braid_profile_import(db, "hype-training", &count);
  if (status == BRAID_OK) status = braid_profile_list_create(db, allocator, &list);
  if (status == BRAID_OK) status = braid_profile_read_database(allocator, path, &profile);
  braid_profile_list_deinit(&list);
  braid_profile_free(profile);
  braid_profile_db_close(db);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  oom_sweep(attempt, NULL);
}

/* Failing after rows were deleted brings them all back, and none counts. */
static braid_status forget(const braid_allocator *allocator, void *context) {
  braid_profile_db *db;
  size_t count = 7, *failed = context;
  braid_status status = braid_profile_db_open(allocator, path, BRAID_PROFILE_WRITE, &db);
  if (status != BRAID_OK) return status;
  status = braid_profile_forget_bad(db, NULL, &count);
  braid_profile_db_close(db);
  double left = number_by_sqlite("SELECT count(*) FROM entries WHERE seconds = -4");
  assert_true(count == (status == BRAID_OK ? 2 : 0) && left == (status == BRAID_OK ? 0 : 2));
  *failed += status != BRAID_OK;
  return status;
}

static void test_forget_fails(void **state) {
  (void)state;
  size_t failed = 0;
  put_entry("Relu", 1e-3);
  put_entry("Conv", 2e-3);
  put_entry("Gemm", 3e-3);
  by_sqlite("UPDATE entries SET seconds = -4 WHERE op <> 'Relu'");
  oom_sweep(forget, &failed);
  assert_true(failed > 2); /* some while tables after that of the rows are read */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_round_trip, fresh),     cmocka_unit_test_setup(test_foreign, fresh),
      cmocka_unit_test_setup(test_no_database, fresh),    cmocka_unit_test_setup(test_damage, fresh),
      cmocka_unit_test_setup(test_locked, fresh),         cmocka_unit_test_setup(test_undone, fresh),
      cmocka_unit_test_setup(test_killed, fresh),         cmocka_unit_test_setup(test_import, fresh),
      cmocka_unit_test_setup(test_import_refused, fresh), cmocka_unit_test_setup(test_own_thresholds, fresh),
      cmocka_unit_test_setup(test_idle_power, fresh),     cmocka_unit_test_setup(test_unreadable, fresh),
      cmocka_unit_test_setup(test_too_many_rows, fresh),  cmocka_unit_test_setup(test_no_memory, fresh),
      cmocka_unit_test_setup(test_forget, fresh),         cmocka_unit_test_setup(test_forget_fails, fresh),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
