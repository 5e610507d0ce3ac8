/* `braid profile`: on a device of known watts and times (plugins/metered.c), what SQLite itself finds in the database.
 */
#include <math.h>

#include <sqlite3.h>

#include "clicheck.h"

#define METERED "--plugin " BRAID_PLUGIN_FOLDER "/metered.so --devices metered "
#define LENET BRAID_MODELS "/lenet.cfg"

static void set_meter(const char *settings) {
  assert_int_equal(setenv("BRAID_METERED", settings, 1), 0);
}

/* NAN: NULL, or no row. */
static double ask(const char *name, const char *sql) {
  sqlite3 *file;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open_v2(in_folder(name), &file, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
  sqlite3_busy_timeout(file, 10000);
  if (sqlite3_prepare_v2(file, sql, -1, &statement, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(file));
  bool row = sqlite3_step(statement) == SQLITE_ROW;
  double value = !row || sqlite3_column_type(statement, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(file);
  return value;
}

static void expect_between(double value, double least, double most, const char *what) {
  if (!(value >= least && value <= most)) fail_msg("%s: %g is not within %g and %g", what, value, least, most);
}

/* A kernel of 2 ms at 50 W in a device that idles at 10 W: 0.1 J. The machine may be busy, so times have room above. */
static void test_known(void **state) {
  (void)state;
  set_meter("");
  outcome o = run_quietly("profile --db $/known.db " METERED "--ops Relu,Add,Conv --sizes small,medium --seconds 0.2 "
                          "--show");
  expect_text(o.out, "4 measured");
  expect_text(o.out, "2 that the device cannot run");
  expect_text(o.out, "metered has no kernel for Conv");
  expect_text(o.out, "instructions of this kind of device are not counted");
  discard(&o);
  expect_between(ask("known.db", "SELECT min(seconds) FROM entries"), 2e-3, 10e-3, "seconds");
  expect_between(ask("known.db", "SELECT max(seconds) FROM entries"), 2e-3, 20e-3, "seconds");
  expect_between(ask("known.db", "SELECT min(joules) FROM entries"), 0.085, 0.5, "joules");
  expect_between(ask("known.db", "SELECT max(joules_error / joules) FROM entries"), 0, 0.3, "error");
  expect_between(ask("known.db", "SELECT min(average_watts) FROM entries"), 40, 60, "average");
  expect_between(ask("known.db", "SELECT min(peak_watts) FROM entries"), 40, 60, "peak");
  expect_between(ask("known.db", "SELECT min(busy) FROM entries"), 0.1, 1, "busy");
  expect_between(ask("known.db", "SELECT idle_watts FROM devices"), 8.5, 11.5, "idle");
  expect_between(ask("known.db", "SELECT window_seconds FROM devices"), 3e-3, 20e-3, "window");
  expect_between(ask("known.db", "SELECT min(runs) FROM entries"), 10, 400, "runs");
  assert_true(ask("known.db", "SELECT count(*) FROM entries WHERE energy_source = 'counter'") == 4);
  assert_true(ask("known.db", "SELECT bytes FROM entries WHERE op = 'Add' AND size = 'small'") == 3 * 512 * 512 * 4);
  assert_true(ask("known.db", "SELECT count(*) FROM entries WHERE op = 'Conv' AND seconds IS NULL AND joules IS NULL "
                              "AND why IS NOT NULL") == 2);
  assert_true(ask("known.db", "SELECT count(*) FROM entries WHERE instructions_per_cycle IS NULL AND "
                              "(ipc_note IS NOT NULL OR why IS NOT NULL)") == 6);
  assert_true(ask("known.db", "SELECT count(*) FROM entries WHERE software = 'metered driver 1' AND description = "
                              "'a device of known watts' AND date LIKE '20__-__-__T__:__:__Z'") == 6);
}

/* What a device counts is its instructions per cycle and its bandwidth, in the database, in JSON and for forecasts;
 * what it cannot count is said. */
static void test_counters(void **state) {
  (void)state;
#define COUNTED "profile --db $/counted.db " METERED "--ops Relu,Add --sizes small --seconds 0.05 --again "
  set_meter("stuck=1,sensor=0,counters=1");
  outcome o = run_quietly(COUNTED "--show --json");
  expect_text(o.out, "\"instructions_per_cycle\":1.5");
  expect_text(o.out, "by the device's counters, as is the bandwidth");
  discard(&o);
  assert_true(ask("counted.db", "SELECT count(*) FROM entries WHERE instructions_per_cycle = 1.5 AND "
                                "abs(bytes_per_second * seconds / 50000 - 1) < 1e-9") == 2);
  set_meter("stuck=1,sensor=0,counters=2");
  o = run_quietly(COUNTED "--show");
  expect_text(o.out, "metered: instructions per cycle: metered may not count");
  discard(&o);
#define UNCOUNTED                                                                                                      \
  "SELECT count(*) FROM entries WHERE instructions_per_cycle IS NULL AND why IS NULL AND "                             \
  "abs(bytes_per_second * seconds / bytes - 1) < 1e-9 AND ipc_note = "
  assert_true(ask("counted.db", UNCOUNTED "'metered may not count'") == 2);
  set_meter("stuck=1,sensor=0,counters=3");
  o = run_quietly(COUNTED);
  discard(&o);
  assert_true(ask("counted.db", UNCOUNTED "'somebody else counts'") == 1);
  assert_true(ask("counted.db", "SELECT count(*) FROM entries WHERE instructions_per_cycle = 1.5") == 1);
  set_meter("stuck=1,sensor=0,counters=4");
  o = run_quietly(COUNTED);
  discard(&o);
  assert_true(ask("counted.db", UNCOUNTED "'the device''s counters counted nothing'") == 2);
}

/* Two runs to warm up, three that are timed, and then those that are counted, twice. */
static void test_lost_while_counting(void **state) {
  (void)state;
  set_meter("stuck=1,sensor=0,counters=1,sleep_us=10000,kernels=6");
  outcome o = run("profile --db $/gone.db " METERED "--ops Relu --sizes small --seconds 0.001");
  assert_int_equal(o.code, 1);
  expect_text(o.err, "somebody pulled the plug");
  discard(&o);
  assert_true(ask("gone.db", "SELECT count(*) FROM entries") == 0);
  set_meter("stuck=1,sensor=0,counters=2,sleep_us=10000,kernels=6"); /* who does not count needs five */
  o = run_quietly("profile --db $/gone.db " METERED "--ops Relu --sizes small --seconds 0.001");
  discard(&o);
}

/* Only a counter, only a sensor, neither that moves. */
static void test_sensors(void **state) {
  (void)state;
  set_meter("sensor=0");
  outcome o = run_quietly("profile --db $/counter.db " METERED "--ops Relu --sizes small --seconds 0.1 --show");
  expect_text(o.out, "no power sensor to hold the counter against");
  discard(&o);
  expect_between(ask("counter.db", "SELECT average_watts FROM entries"), 40, 60, "average by the counter");
  expect_between(ask("counter.db", "SELECT peak_watts FROM entries"), 30, 65, "peak by the counter");
  set_meter("sensor=2");
  o = run_quietly("profile --db $/sensor.db " METERED "--ops Relu --sizes small --seconds 0.1 --show");
  expect_text(o.out, "the power sensor is polled");
  discard(&o);
  expect_between(ask("sensor.db", "SELECT average_watts FROM entries"), 35, 60, "average by polling");
  expect_between(ask("sensor.db", "SELECT joules_error / joules FROM entries"), 1e-6, 0.2, "error of polling");
  assert_true(ask("sensor.db", "SELECT energy_source = 'polling' FROM entries") == 1);
  set_meter("sensor=0,stuck=1");
  o = run_quietly("profile --db $/stuck.db " METERED "--ops Relu --sizes small --seconds 0.1 --show");
  expect_text(o.out, "its energy counter does not move");
  discard(&o);
  assert_true(ask("stuck.db", "SELECT joules IS NULL AND average_watts IS NULL AND peak_watts IS NULL FROM entries"));
  assert_true(ask("stuck.db", "SELECT idle_watts IS NULL FROM devices"));
}

/* A counter that counts 1.7 times what the sensor says, as has been seen: it is refused, with all that it said before.
 */
static void test_lying_counter(void **state) {
  (void)state;
  set_meter("");
  outcome o = run_quietly("profile --db $/lie.db " METERED "--ops Relu --sizes small --seconds 0.1");
  discard(&o);
  assert_true(ask("lie.db", "SELECT count(joules) FROM entries") == 1);
  set_meter("counts=170");
  o = run("profile --db $/lie.db " METERED "--ops Add --sizes small --seconds 0.1 --show");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "metered: its energy is unknown: its energy counter says ");
  expect_text(o.err, "so neither is used");
  expect_text(o.out, " times as much (up to 1.");
  discard(&o);
  assert_true(ask("lie.db", "SELECT count(*) FROM entries WHERE seconds > 0") == 2);
  assert_true(ask("lie.db", "SELECT count(joules) + count(peak_watts) + count(average_watts) FROM entries") == 0);
  assert_true(ask("lie.db", "SELECT energy_source IS NULL AND idle_watts IS NULL FROM devices") == 1);
  set_meter("counts=108"); /* within what two sensors may differ by: taken, with an error that has the difference */
  o = run_quietly("profile --db $/near.db " METERED "--ops Add --sizes small --seconds 0.1");
  discard(&o);
  expect_between(ask("near.db", "SELECT joules_error / joules FROM entries"), 0.03, 0.4, "error");
}

/* A machine that stalls for longer than an operation's time, at its first runs or at those that count: what is kept is
 * what the operation takes. One that takes longer than its time in every run is run three times all the same. */
static void test_stalls(void **state) {
  (void)state;
  static const char *const settings[] = {"stuck=1,sensor=0,stalls=1,stall_us=300000",
                                         "stuck=1,sensor=0,stalls=2,stall_us=300000",
                                         "stuck=1,sensor=0,stalls=3,stall_at=3,stall_us=300000"};
  for (int i = 0; i < 3; i++) {
    set_meter(settings[i]);
    outcome o = run_quietly("profile --db $/stalls.db " METERED "--ops Relu --sizes small --seconds 0.05");
    discard(&o);
    expect_between(ask("stalls.db", "SELECT seconds FROM entries"), 2e-3, 40e-3, settings[i]);
    expect_between(ask("stalls.db", "SELECT runs FROM entries"), 10, 100, "runs");
    assert_int_equal(unlink(in_folder("stalls.db")), 0);
  }
  set_meter("stuck=1,sensor=0,sleep_us=100000");
  outcome o = run_quietly("profile --db $/stalls.db " METERED "--ops Relu --sizes small --seconds 0.01");
  discard(&o);
  assert_true(ask("stalls.db", "SELECT runs FROM entries") == 3);
  expect_between(ask("stalls.db", "SELECT seconds FROM entries"), 0.1, 0.3, "a long operation");
  assert_true(ask("stalls.db", "SELECT seconds_mad IS NOT NULL FROM entries") == 1);
}

static void test_goes_on(void **state) {
  (void)state;
  set_meter("");
#define AGAIN "profile --db $/on.db " METERED "--sizes small --seconds 0.05 "
  outcome o = run_quietly(AGAIN "--ops Relu");
  discard(&o);
  o = run_quietly(AGAIN "--ops Relu,Add --checks 0");
  expect_text(o.out, "1 measured (0 of them stale before), 1 there already; 0 measured again");
  discard(&o);
  o = run_quietly(AGAIN "--ops Relu,Add,MatMul --checks 1 --drift 1000");
  expect_text(o.out, "1 measured (0 of them stale before), 2 there already; 1 measured again for drift, 0 drift");
  discard(&o);
  set_meter("driver=2");
  o = run_quietly(AGAIN "--ops Relu,Add,MatMul");
  expect_text(o.out, "3 measured (3 of them stale before), 0 there already");
  discard(&o);
  set_meter("driver=3");
  o = run_quietly("profile --db $/on.db --plugin " BRAID_PLUGIN_FOLDER "/metered.so --show");
  expect_text(o.out, "stale: its driver or library was metered driver 2, and is metered driver 3");
  expect_text(o.out, "3 of 3 entries are stale");
  discard(&o);
  o = run_quietly("profile --db $/on.db --show"); /* without the plug-in */
  expect_text(o.out, "stale: the device is not here");
  discard(&o);
  assert_true(ask("on.db", "SELECT count(*) FROM entries") == 3);
}

static void test_too_old(void **state) {
  (void)state;
  set_meter("");
  outcome o = run_quietly(AGAIN "--ops Relu");
  discard(&o);
  sqlite3 *file;
  assert_int_equal(sqlite3_open(in_folder("on.db"), &file), SQLITE_OK);
  assert_int_equal(sqlite3_exec(file, "UPDATE entries SET date = '2001-01-01T00:00:00Z', software = 'metered driver 1'",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(file);
  o = run_quietly("profile --db $/on.db --plugin " BRAID_PLUGIN_FOLDER "/metered.so --show");
  expect_text(o.out, "days old, at most 90 are taken");
  discard(&o);
  o = run_quietly(AGAIN "--ops Relu --max-age 1000000 --checks 0");
  expect_text(o.out, "1 there already");
  discard(&o);
  o = run_quietly(AGAIN "--ops Relu");
  expect_text(o.out, "1 measured (1 of them stale before)");
  discard(&o);
}

static void test_drift(void **state) {
  (void)state;
  set_meter("sleep_us=2000");
  outcome o = run_quietly("profile --db $/drift.db " METERED "--ops Relu,Add --sizes small --seconds 0.05");
  discard(&o);
  set_meter("sleep_us=60000");
  o = run("profile --db $/drift.db " METERED "--ops Relu,Add --sizes small --seconds 0.05 --checks 1");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "2 there already; 1 measured again for drift, 1 drift");
  expect_text(o.err, "metered: ");
  expect_text(o.err, " drifts: ");
  expect_text(o.err, "MADs apart (up to 8 are taken)");
  discard(&o);
  o = run("profile --db $/drift.db " METERED "--ops Relu,Add --sizes small --seconds 0.05 --again");
  expect_text(o.out, "2 measured (0 of them stale before), 0 there already; 0 measured again for drift, 1 drift");
  discard(&o);
  expect_between(ask("drift.db", "SELECT min(seconds) FROM entries"), 60e-3, 1, "seconds now");
  expect_between(ask("drift.db", "SELECT max(drift) FROM entries"), 8, 1e6, "drift");
  assert_true(ask("drift.db", "SELECT count(previous_date) FROM entries") == 2);
}

/* What was measured before a device is lost stays, and the next call goes on there. */
static void test_lost(void **state) {
  (void)state;
  set_meter("kernels=1500,sleep_us=1000");
  outcome o = run("profile --db $/lost.db " METERED "--ops Relu,Add,MatMul --seconds 0.1");
  assert_int_equal(o.code, 1);
  expect_text(o.err, "somebody pulled the plug");
  discard(&o);
  double kept = ask("lost.db", "SELECT count(*) FROM entries");
  expect_between(kept, 1, 8, "kept");
  set_meter("sleep_us=1000");
  o = run_quietly("profile --db $/lost.db " METERED "--ops Relu,Add,MatMul --seconds 0.01 --checks 0 --json");
  assert_true(is_one_document(o.out));
  char expected[64];
  snprintf(expected, sizeof expected, "\"kept\":%.0f", kept);
  expect_text(o.out, expected);
  discard(&o);
  assert_true(ask("lost.db", "SELECT count(*) FROM entries WHERE seconds > 0") == 9);
}

static void test_interrupted(void **state) {
  (void)state;
  set_meter("sleep_us=1000");
  char *out = strdup(in_folder("out")), *err = strdup(in_folder("err"));
  pid_t child = start("profile --db $/stop.db " METERED "--ops Relu,Add,MatMul --seconds 1", "/dev/null", out, err);
  for (int i = 0; i < 200; i++) {
    nap(0.1);
    if (access(in_folder("stop.db"), F_OK) == 0 && ask("stop.db", "SELECT count(*) FROM sqlite_schema") > 0 &&
        ask("stop.db", "SELECT count(*) FROM entries") >= 1)
      break;
  }
  kill(child, SIGINT);
  assert_int_equal(await(child), 130);
  char *said = get_file(err, NULL);
  expect_text(said, "call again to go on");
  free(said);
  free(out);
  free(err);
  assert_true(ask("stop.db", "PRAGMA integrity_check") == 0); /* "ok" is no number */
  expect_between(ask("stop.db", "SELECT count(*) FROM entries WHERE seconds > 0"), 1, 8, "kept");
  outcome o = run_quietly("profile --db $/stop.db " METERED "--ops Relu --sizes small --seconds 0.01 --checks 0");
  discard(&o);
}

/* A disk that is full in the middle: what was there is there. */
static void test_full_disk(void **state) {
  (void)state;
  set_meter("sleep_us=100,sensor=0,stuck=1");
  outcome o = run_quietly("profile --db $/full.db " METERED "--ops Relu,Add --sizes small --seconds 0.01");
  discard(&o);
  struct stat before;
  assert_int_equal(stat(in_folder("full.db"), &before), 0);
  o = run_within("profile --db $/full.db --import hype-training", (rlim_t)before.st_size);
  assert_int_equal(o.code, 1);
  expect_text(o.err, "full.db: it cannot be written");
  discard(&o);
  assert_true(ask("full.db", "SELECT count(*) FROM entries") == 2);
  o = run_quietly("profile --db $/full.db --show");
  discard(&o);
}

static void test_beside(void **state) {
  (void)state;
  set_meter("");
  outcome o = run_quietly("profile --db $/beside.db " METERED "--ops Relu --sizes small --seconds 0.05 --beside "
                          "Mul:small@cpu");
  discard(&o);
  o = run_quietly("profile --db $/beside.db " METERED "--ops Relu --sizes small --seconds 0.05 --show");
  expect_text(o.out, "cpu Mul small");
  discard(&o);
  assert_true(ask("beside.db", "SELECT count(*) FROM entries WHERE beside = 'cpu Mul small' AND joules IS NULL AND "
                               "seconds > 0") == 1);
  assert_true(ask("beside.db", "SELECT count(*) FROM entries WHERE beside = '' AND joules > 0") == 1);
}

static double number_of(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  assert_non_null(at);
  return strtod(at + strlen(quoted), NULL);
}

/* A model's operations, a platform file of the machine, and a forecast that is the sum of what was measured. */
static void test_forecast(void **state) {
  (void)state;
  set_meter("");
  outcome o = run_quietly("profile --db $/lenet.db --devices cpu --model " LENET " --seconds 0.01 --save-platform "
                          "$/lenet.yaml");
  discard(&o);
  o = run_quietly("plan " LENET " --platform $/lenet.yaml --policy cpu-only --json --explain");
  assert_true(is_one_document(o.out));
  double operations = number_of(o.out, "operations"), measured = ask("lenet.db", "SELECT count(*) FROM entries");
  double sum = ask("lenet.db", "SELECT sum(seconds) * 1e3 FROM entries");
  assert_true(operations == measured); /* no operation of it comes twice */
  expect_between(number_of(o.out, "modelled_ms") / sum, 0.999, 1.001, "forecast");
  if (ask("lenet.db", "SELECT count(joules) FROM entries") == 0) expect_text(o.out, "\"energy_j\":null");
  discard(&o);
  char *text = get_file(in_folder("lenet.yaml"), NULL);
  expect_text(text, "profile: \"lenet.db\"");
  expect_text(text, "class: cpu");
  free(text);
}

static void test_metered_platform(void **state) {
  (void)state;
  set_meter("link_us=1000");
  outcome o = run_quietly("profile --db $/watts.db " METERED "--ops Relu --sizes small --seconds 0.1 --save-platform "
                          "$/watts.yaml --html $/watts.html");
  discard(&o);
  char *text = get_file(in_folder("watts.yaml"), NULL), *page = get_file(in_folder("watts.html"), NULL);
  const char *idle = strstr(text, "idle_watts: "), *latency = strstr(text, "latency_ms: ");
  assert_non_null(idle);
  assert_non_null(latency);
  expect_between(strtod(idle + 12, NULL), 8.5, 11.5, "idle_watts");
  expect_between(strtod(latency + 12, NULL), 1, 10, "latency_ms");
  expect_text(text, "class: other");
  expect_text(page, "<svg");
  expect_text(page, "Relu: power");
  expect_text(page, "Table 1 of Hype-training");
  expect_text(page, "Thresholds");
  free(text);
  free(page);
}

static void test_published(void **state) {
  (void)state;
  outcome o = run_quietly("profile --db $/published.db --import hype-training --show --html $/published.html");
  expect_text(o.out, "rows imported");
  size_t assumed = 0;
  for (const char *at = o.out; (at = strstr(at, "assumed")); at++) assumed++;
  assert_int_equal(assumed, 2 * 28); /* as sizes, and as what is to be known of them */
  expect_text(o.out, "3 x stratix10");
  expect_text(o.out, "57.7"); /* GB/s of MatMul, large */
  discard(&o);
  o = run_quietly("profile --db $/published.db --show --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"source\":\"Hype-training, Table 1\"");
  expect_text(o.out, "\"source\":\"assumed, not in: Hype-training, Table 1\"");
  expect_text(o.out, "\"thresholds\":[{\"op\":\"MatMul\",\"fast\":\"v100\",\"other\":\"stratix10\"");
  discard(&o);
  /* Table 1 has seven operations at three sizes on two devices; the rest is ours. */
  assert_true(ask("published.db", "SELECT count(*) FROM entries WHERE source = 'Hype-training, Table 1'") == 42);
  assert_true(ask("published.db", "SELECT count(*) FROM entries WHERE source LIKE 'assumed, %' AND size = 'assumed'") ==
              28);
  char *page = get_file(in_folder("published.html"), NULL);
  expect_text(page, "<td>assumed</td>");
  expect_text(page, "W over megabytes read and written, 42 operations on 2 devices"); /* drawn */
  free(page);
}

/* A database that one bad entry made unreadable is of use again. */
static void test_forget_bad(void **state) {
  (void)state;
  sqlite3 *file;
  outcome o = run_quietly("profile --db $/bad.db --import hype-training");
  discard(&o);
  assert_int_equal(sqlite3_open(in_folder("bad.db"), &file), SQLITE_OK);
  assert_int_equal(sqlite3_exec(file, "UPDATE entries SET kernel = 'a' || char(27) WHERE rowid = 3", NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(file);
  expect_failure("profile --db $/bad.db --show", 2, "--forget-bad` deletes such rows");
  o = run("profile --db $/bad.db --forget-bad --json");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "\"forgotten\":1");
  expect_text(o.err, "deleted the row of device \"");
  expect_text(o.err, ", op \"");
  discard(&o);
  assert_int_equal(sqlite3_open(in_folder("bad.db"), &file), SQLITE_OK);
  assert_int_equal(sqlite3_exec(file, "UPDATE entries SET kernel = 'a' || char(27) WHERE rowid = 4", NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(file);
  o = run("profile --db $/bad.db --forget-bad");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "1 row that can't be read was deleted");
  discard(&o);
  o = run_quietly("profile --db $/bad.db --forget-bad --show");
  expect_text(o.out, "0 rows that can't be read were deleted");
  expect_text(o.out, "stratix10");
  discard(&o);
}

static void test_refused(void **state) {
  (void)state;
  put_file(in_folder("text.db"), "this is no database at all, and it is quite long enough to look like one .......\n",
           80);
  set_meter("");
  expect_failure("profile", 2, "--db is expected");
  expect_failure("profile --db $/x.db --train", 2, "--model is expected");
  expect_failure("profile --db $/x.db --sizes small --show", 2, "--sizes are of --ops");
  expect_failure("profile --db $/x.db --ops Sin --devices cpu", 2, "there is no operation \"Sin\" at given sizes");
  expect_failure("profile --db $/x.db --ops Mul --sizes tiny --devices cpu", 2, "there is no size \"tiny\"");
  expect_failure("profile --db $/x.db --ops Mul --devices cpu9", 2, "cpu9");
  expect_failure("profile --db $/x.db --ops Mul --beside Mul", 2, "OP:SIZE@DEVICE is expected");
  expect_failure("profile --db $/x.db --ops Mul --devices cpu --beside Mul:small@cpu", 2, "kept busy");
  expect_failure("profile --db $/x.db --import nowhere.yaml", 2, "nowhere.yaml");
  expect_failure("profile --db $/x.db --seconds 0", 2, "--seconds");
  expect_failure("profile --db $/text.db --show", 2, "text.db: it is not an SQLite database");
  expect_failure("profile --db $/none/x.db", 1, "cannot be opened");
  expect_failure("profile --db $/none.db --forget-bad", 2, "none.db: there is no such database");
  expect_failure("profile --db $/none.db --show", 2, "none.db: there is no such database");
  expect_failure("profile --db $/x.db --model none.onnx", 2, "none.onnx");
  expect_failure("profile --db $/x.db --ops Mul --beside Foo:small@cpu", 2, "there is no operation \"Foo\"");
  assert_int_equal(access(in_folder("x.db"), F_OK), -1); /* nothing of it was begun */
}

static void test_locked(void **state) {
  (void)state;
  sqlite3 *other;
  set_meter("stuck=1,sensor=0,sleep_us=10");
  outcome o = run_quietly("profile --db $/locked.db " METERED "--ops Relu --sizes small --seconds 0.01");
  discard(&o);
  assert_int_equal(sqlite3_open(in_folder("locked.db"), &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  expect_failure("profile --db $/locked.db --show", 1, "another process has it locked");
  sqlite3_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known),
      cmocka_unit_test(test_counters),
      cmocka_unit_test(test_lost_while_counting),
      cmocka_unit_test(test_sensors),
      cmocka_unit_test(test_lying_counter),
      cmocka_unit_test(test_stalls),
      cmocka_unit_test(test_goes_on),
      cmocka_unit_test(test_too_old),
      cmocka_unit_test(test_drift),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_interrupted),
      cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_forecast),
      cmocka_unit_test(test_metered_platform),
      cmocka_unit_test(test_published),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_forget_bad),
      cmocka_unit_test(test_locked),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
