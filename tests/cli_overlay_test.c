/* `braid evaluate overlay`: what was published is what the tables of data say, and ours stays within physical bounds.
 */
#include <math.h>

#include "clicheck.h"

/* --- rows of JSON --------------------------------------------------------------------------------------------------
 */
/* The text of a section; freed by the caller. */
static char *section_of(const char *out, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "{\"name\":\"%s\"", name);
  const char *at = strstr(out, key);
  if (!at) fail_msg("no section %s", name);
  const char *end = strstr(at, "],\"note\"");
  assert_non_null(end);
  return strndup(at, (size_t)(end - at));
}

/* NAN: null or not there. */
static double number_of(const char *out, const char *section, const char *of, const char *what, const char *key) {
  char *text = section_of(out, section), row[160], quoted[32];
  double number = NAN;
  snprintf(row, sizeof row, "{\"of\":\"%s\",\"what\":\"%s\"", of, what);
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  char *at = strstr(text, row);
  if (at) {
    *strchr(at, '}') = '\0';
    char *value = strstr(at, quoted);
    if (value && strncmp(value + strlen(quoted), "null", 4) != 0) number = strtod(value + strlen(quoted), NULL);
  }
  free(text);
  return number;
}

static void expect_number(const char *out, const char *section, const char *of, const char *what, const char *key,
                          double wanted) {
  double number = number_of(out, section, of, what, key);
  if (!(fabs(number - wanted) <= 1e-9 * (1 + fabs(wanted))))
    fail_msg("%s, %s, %s, %s: %g, not %g", section, of, what, key, number, wanted);
}

/* A range, which is one number where both ends are equal. */
static void expect_range(const char *out, const char *section, const char *of, const char *what, double low,
                         double high) {
  expect_number(out, section, of, what, "published", low);
  if (low != high) expect_number(out, section, of, what, "published_to", high);
}

/* --- tables of data ------------------------------------------------------------------------------------------------
 */
enum { MOST_FIELDS = 12 };

/* Cuts a line at its commas, those within quotes left alone. */
static size_t cut_fields(char *line, char *fields[MOST_FIELDS]) {
  size_t count = 0;
  for (char *at = line; at && count < MOST_FIELDS;) {
    bool quoted = *at == '"';
    char *end = quoted ? strchr(at + 1, '"') : at + strcspn(at, ",");
    assert_non_null(end);
    fields[count++] = quoted ? at + 1 : at;
    char *next = quoted ? end + 1 : end;
    char *behind = *next == ',' ? next + 1 : NULL;
    *end = '\0';
    at = behind;
  }
  return count;
}

typedef void row_check(const char *out, char *fields[MOST_FIELDS], size_t count);

static void for_rows(const char *file, const char *out, row_check *check) {
  char path[PATH_MAX], *saved = NULL;
  snprintf(path, sizeof path, "%s/%s", BRAID_PUBLISHED, file);
  char *text = get_file(path, NULL);
  char *line = strtok_r(text, "\r\n", &saved);
  size_t rows = 0;
  while ((line = strtok_r(NULL, "\r\n", &saved))) {
    char *fields[MOST_FIELDS];
    check(out, fields, cut_fields(line, fields));
    rows++;
  }
  assert_true(rows > 3);
  free(text);
}

/* "virtualized CNN 16x512" of U200: the VU9P's rows leave out CNN in the two static ones. */
static void check_resources(const char *out, char *fields[MOST_FIELDS], size_t count) {
  static const char *const what[] = {"thousand LUTs", "thousand FFs", "BRAMs", "URAMs", "DSPs"};
  char of[96];
  assert_int_equal(count, 7);
  bool short_name = strncmp(fields[1], "static 1", 8) == 0;
  snprintf(of, sizeof of, "%s, %s%s", fields[0], short_name ? "static CNN " : "", fields[1] + (short_name ? 7 : 0));
  for (size_t i = 0; i < 5; i++) expect_number(out, "table 1", of, what[i], "published", atof(fields[2 + i]));
}

/* Of the networks that are there. */
static void check_compilers(const char *out, char *fields[MOST_FIELDS], size_t count) {
  assert_int_equal(count, 8);
  if (isnan(number_of(out, "table 2", fields[0], "static ms", "ours"))) return;
  expect_number(out, "table 2", fields[0], "static ms", "published", atof(fields[1]));
  expect_range(out, "table 2", fields[0], "dynamic ms", atof(fields[2]), atof(fields[3]));
  expect_range(out, "table 2", fields[0], "transfer ms", atof(fields[4]), atof(fields[5]));
  expect_range(out, "table 2", fields[0], "switch ms", atof(fields[6]), atof(fields[7]));
}

static const char *const kScales[] = {"512", "2 x 512", "4 x 512", "8 x 512", "16 x 512"};

static void check_scaling(const char *out, char *fields[MOST_FIELDS], size_t count) {
  static const char *const names[][2] = {{"multi-core width tiling", "by width"},
                                         {"multi-core output-channel tiling", "by channels"},
                                         {"multi-core optimized", "optimized"},
                                         {"single core of the same parallelism", "single core"}};
  size_t n = 0;
  assert_int_equal(count, 7);
  while (n < 4 && strcmp(names[n][0], fields[0]) != 0) n++;
  assert_true(n < 4);
  for (size_t i = 0; i < 5; i++)
    expect_number(out, "table 3", names[n][1], kScales[i], "published", atof(fields[1 + i]));
  expect_number(out, "table 3", names[n][1], "average loss %", "published", atof(fields[6]));
}

static void check_isolation(const char *out, char *fields[MOST_FIELDS], size_t count) {
  static const struct {
    const char *name, *section, *of, *what;
  } rows[] = {
      {"CNN virtualized FPGA", "figure 12", "MobileNet", "50%"},
      {"CNN V100 MPS 75% share", "figure 12", "V100 with MPS", "75%"},
      {"CNN V100 MPS 50% share", "figure 12", "V100 with MPS", "50%"},
      {"CNN V100 MPS 25% share", "figure 12", "V100 with MPS", "25%"},
      {"LSTM virtualized FPGA", "figure 13", "LSTM_100", "25%"},
      {"LSTM_100 V100 MPS", "figure 13", "LSTM_100, V100 with MPS", "25%"},
      {"shared DDR bank virtualized FPGA", "figure 14", "MobileNet", "50%"},
  };
  assert_int_equal(count, 3);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, fields[0]) == 0)
      expect_range(out, rows[i].section, rows[i].of, rows[i].what, atof(fields[1]), atof(fields[2]));
}

/* Numbers of the text, by their place in the table. */
static void check_text(const char *out, char *fields[MOST_FIELDS], size_t count) {
  static const struct {
    const char *id, *section, *of, *what, *key;
  } rows[] = {
      {"002-128", "figure 15", "MobileNet, optimized", "average loss %", "published"},
      {"002-129", "figure 15", "MobileNet, 2 x bandwidth", "average loss %", "published"},
      {"002-131", "figure 16", "MobileNet", "Load", "published"},
      {"002-142", "figure 17", "LSTM_100: queries/s", "average loss %", "published"},
      {"002-150", "figure 17", "LSTM_100: ELE busy, %", "16 cores", "published"},
      {"002-151", "figure 17", "LSTM_100: Load busy, %", "16 cores", "published"},
      {"002-158", "figure 19", "over static single, sums", "gain, times", "published"},
      {"002-159", "figure 19", "over static single, sums", "gain, times", "published_to"},
      {"002-160", "figure 19", "over static multi-core, sums", "gain, times", "published"},
      {"002-161", "figure 19", "over static multi-core, sums", "gain, times", "published_to"},
      {"002-163", "figure 20", "over static multi-core, mean of quotients", "gain, times", "published"},
      {"002-164", "figure 20", "over static multi-core, mean of quotients", "gain, times", "published_to"},
      {"002-165", "figure 20", "over static single, mean of quotients", "gain, times", "published"},
      {"002-166", "figure 20", "over static single, mean of quotients", "gain, times", "published_to"},
  };
  assert_true(count > 6);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].id, fields[0]) == 0)
      expect_number(out, rows[i].section, rows[i].of, rows[i].what, rows[i].key, atof(fields[5]));
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
/* Two small networks, all tables and figures, policies on random traces and on one more: computed once. */
static outcome everything;

static int begin_all(void **state) {
  static const char kTrace[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2023-11-16 18:15:46.6,374,44\n"
                               "2023-11-16 18:15:46.6,396,109\n"
                               "2023-11-16 18:15:51.2,879,55\n";
  if (make_folder(state)) return -1;
  put_file("trace.csv", kTrace, sizeof kTrace - 1);
  everything = run_quietly("evaluate overlay --model MobileNet,LSTM_100 --trace $/trace.csv --json");
  return 0;
}

static int end_all(void **state) {
  discard(&everything);
  return remove_folder(state);
}

/* What is known without computing much. */
static void test_published(void **state) {
  (void)state;
  const outcome o = everything;
  assert_true(is_one_document(o.out));
  for_rows("resources.csv", o.out, check_resources);
  for_rows("isolation.csv", o.out, check_isolation);
  for_rows("text.csv", o.out, check_text);
  char *page = section_of(o.out, "table 3"); /* of ResNet-50 alone */
  assert_null(strstr(page, "\"of\""));
  free(page);
  /* A card computes no faster than its multipliers, and no module is busy for more than the whole time. */
  for (int k = 0; k < 5; k++) {
    static const char *const kCores[] = {"1 core", "2 cores", "4 cores", "8 cores", "16 cores"};
    double bound = number_of(o.out, "figure 15", "MobileNet, bound of operations", kCores[k], "ours");
    assert_true(fabs(bound / ((1 << k) * 153.6e9 / (2 * 568740352.0)) - 1) < 1e-6);
    static const char *const kRows[] = {"by width", "by channels", "optimized", "all our tilings", "single core"};
    for (int r = 0; r < 5; r++) {
      char of[64];
      snprintf(of, sizeof of, "MobileNet, %s", kRows[r]);
      double ours = number_of(o.out, "figure 15", of, kCores[k], "ours");
      assert_true(ours > 0 && ours <= bound);
    }
  }
  static const char *const kUnits[] = {"Load", "Save", "Conv", "Misc"};
  for (int u = 0; u < 4; u++) {
    double busy = number_of(o.out, "figure 16", "MobileNet", kUnits[u], "ours");
    assert_true(busy >= 0 && busy <= 100);
  }
  expect_number(o.out, "figure 19", "MobileNet, virtualized", "16 tasks", "ours",
                number_of(o.out, "figure 19", "MobileNet, static multi-core", "16 tasks", "ours"));
  expect_text(o.out, "\"must_hold\":[{\"what\":\"MobileNet: average loss of several cores\",\"at_most\":31.64");
  expect_text(o.out, "MobileNet: preemption at a tile, worst");
}

/* Loss by the paper's definition: recomputed from what is printed. What is simulated is twice the same. */
static void test_scaling(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate overlay --figure 16,18 --model MobileNet,LSTM_100 --json"),
          again = run_quietly("evaluate overlay --figure 16,18 --model MobileNet,LSTM_100 --json");
  assert_string_equal(o.out, again.out);
  discard(&o);
  discard(&again);
  o = run_quietly("evaluate overlay --table 3 --json");
  for_rows("scaling.csv", o.out, check_scaling);
  static const char *const kRows[] = {"by width", "by channels", "optimized", "all our tilings"};
  for (int r = 0; r < 4; r++) {
    double sum = 0;
    for (int k = 0; k < 5; k++) {
      double ours = number_of(o.out, "table 3", kRows[r], kScales[k], "ours");
      assert_true(ours <= number_of(o.out, "table 3", "bound of operations", kScales[k], "ours"));
      sum += 1 - ours / number_of(o.out, "table 3", "single core", kScales[k], "ours");
    }
    double loss = number_of(o.out, "table 3", kRows[r], "average loss %", "ours");
    assert_true(fabs(loss - 20 * sum) < 1e-3); /* numbers are printed with some digits */
  }
  assert_null(strstr(o.out, "\"name\":\"table 1\""));
  assert_null(strstr(o.out, "VGG16"));
  discard(&o);
}

static void test_compilers(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate overlay --table 2 --model MobileNet,LSTM_100,LSTM_400 --json");
  for_rows("compile.csv", o.out, check_compilers);
  double compile = number_of(o.out, "table 2", "MobileNet", "static ms", "ours");
  double dynamic = number_of(o.out, "table 2", "MobileNet", "dynamic ms", "ours");
  double transfer = number_of(o.out, "table 2", "MobileNet", "transfer ms", "ours");
  double change = number_of(o.out, "table 2", "MobileNet", "switch ms", "ours");
  assert_true(compile > 1 && dynamic > 0 && transfer > 0.01 && change >= dynamic + transfer * (1 - 1e-9));
  assert_true(isnan(number_of(o.out, "table 2", "LSTM_400", "static ms", "published")));
  discard(&o);
}

/* Ratios and what must hold follow from the figures printed; a trace is one more case. */
static void test_policies(void **state) {
  (void)state;
  static const char *const kCases[] = {"random, 8 jobs, load 1", "random, 8 jobs, load 2",
                                       "random, 2000 jobs, load 0.9", "trace, load 0.7"};
  outcome o = everything;
  expect_number(o.out, "policies", "prema", "STP, times more", "published", 1.4);
  for (size_t c = 0; c < 4; c++) {
    char fcfs[96], ours[96], prema[96], hold[256];
    snprintf(fcfs, sizeof fcfs, "fcfs: %s", kCases[c]);
    snprintf(prema, sizeof prema, "prema: %s", kCases[c]);
    snprintf(ours, sizeof ours, "lookahead: %s", kCases[c]);
    double first = number_of(o.out, "policies", fcfs, "ANTT", "ours");
    double antt = number_of(o.out, "policies", ours, "ANTT", "ours"), less = first / antt;
    double theirs = number_of(o.out, "policies", prema, "ANTT", "ours");
    assert_true(first >= 1 && antt >= 1 && theirs >= 1);
    double printed = number_of(o.out, "policies", ours, "ANTT, times less", "ours");
    assert_true(fabs(printed / less - 1) < 1e-6);
    snprintf(
        hold, sizeof hold,
        "{\"what\":\"lookahead, %s: ANTT, that of prema\",\"at_most\":%.9g,\"ours\":%.9g,\"unit\":\"\",\"holds\":%s}",
        kCases[c], theirs, antt, antt <= theirs ? "true" : "false");
    expect_text(o.out, hold);
  }
  o = run_quietly("evaluate overlay --policies --model LSTM_100");
  assert_null(strstr(o.out, "Table 1"));
  expect_text(o.out, "None of the chosen networks is in it.");
  discard(&o);
}

static void test_text(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate overlay --table 1 --figure 16,18 --model MobileNet,LSTM_100 --html $/overlay.html");
  static const char *const kSaid[] = {"Table 1: resources", "Figure 16: share",          "Figure 18: queries", "V",
                                      "estimated",          "There is no such hardware", "16 x 64: queries/s"};
  for (size_t i = 0; i < sizeof kSaid / sizeof *kSaid; i++) expect_text(o.out, kSaid[i]);
  assert_null(strstr(o.out, "Table 2"));
  assert_null(strstr(o.out, "ResNet50"));
  discard(&o);
  char *page = get_file(in_folder("overlay.html"), NULL);
  expect_text(page, "Figure 18: queries");
  free(page);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *line, *said;
  } cases[] = {
      {"evaluate overlay --table 4", "--table: there is no \"4\"; there are 1 to 3"},
      {"evaluate overlay --table=", "--table: there is no \"\""},
      {"evaluate overlay --table 1,", "--table: there is no \"\""},
      {"evaluate overlay --table 1x", "--table: there is no \"1x\""},
      {"evaluate overlay --figure 11", "--figure: there is no \"11\"; there are 12 to 20"},
      {"evaluate overlay --figure 99999999999999999999", "--figure: there is no"},
      {"evaluate overlay --model LSTM_200", "there is no \"LSTM_200\"; there are VGG16"},
      {"evaluate overlay --measure", "--measure has no effect on overlay"},
      {"evaluate hybrid --table 1", "--table and --figure are for overlay"},
      {"evaluate hybrid --policies", "--policies and --trace are for overlay"},
      {"evaluate overlay --table 1 --trace $/none.csv", "--policies asks for it"},
      {"evaluate overlay --trace $/none.csv", "none.csv"},
      {"evaluate overlay --trace $/trace.csv --html $/trace.csv", "--html"},
      {"evaluate overlay hybrid", "one subject is expected"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    outcome o = run(cases[i].line);
    assert_int_equal(o.code, 2);
    expect_text(o.err, cases[i].said);
    discard(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published), cmocka_unit_test(test_scaling), cmocka_unit_test(test_compilers),
      cmocka_unit_test(test_policies),  cmocka_unit_test(test_text),    cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, begin_all, end_all);
}
