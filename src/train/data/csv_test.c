/* Tables: what RFC 4180 says of fields, quotes and lines; which rows, columns, classes and targets a data set has; and
 * that what is wrong is refused with its line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "oom.h"
#include "train/data/csv.h"
#include "train/data/dataset.h"

static void write_file(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static braid_status open_table(const char *name, const char *keys, const char *split, braid_dataset **out) {
  char spec[512];
  snprintf(spec, sizeof spec, "csv:%s/%s,%s", folder, name, keys);
  return braid_dataset_open(NULL, spec, split, out);
}

static braid_dataset *table(const char *name, const char *keys, const char *split) {
  braid_dataset *dataset;
  if (open_table(name, keys, split, &dataset) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return dataset;
}

static void test_fields(void **state) {
  (void)state;
  static const char kText[] = "\xef\xbb\xbf"
                              "a, b ,\"c\"\r\n"
                              "\"1,5\",\"say \"\"no\"\"\",\"two\nlines\" \n"
                              ",\t,x y\n\r\n\n";
  static const char *const kFields[] = {"a", "b", "c", "1,5", "say \"no\"", "two\nlines", "", "", "x y"};
  static const size_t kLines[] = {1, 2, 4};
  braid_csv csv;
  assert_int_equal(braid_csv_parse(NULL, "t", (const uint8_t *)kText, sizeof kText - 1, &csv), BRAID_OK);
  assert_int_equal(csv.rows, 3);
  assert_int_equal(csv.columns, 3);
  for (size_t i = 0; i < 9; i++) assert_string_equal(csv.fields[i], kFields[i]);
  for (size_t i = 0; i < 3; i++) assert_int_equal(csv.lines[i], kLines[i]);
  braid_csv_deinit(&csv);
}

static void test_wrong_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *detail;
  } kCases[] = {{"", "is empty"},
                {" \n\r\n", "is empty"},
                {"a,b\n1\n", "line 2 has 1 fields, the first line has 2"},
                {"a,b\n1,2,3\n", "line 2 has more than 2 fields"},
                {"a,b\n\n1,2\n", "line 2 has 1 fields"},
                {"a\n\"b", "line 2, column 1: the quotes are not closed"},
                {"a,b\n1,\"b\"c\n", "line 2, column 2: text after the closing quote"},
                {"a,b\n1,b\"c\n", "line 2, column 2: a quote inside"},
                {"a\rb\n", "line 1, column 1: a carriage return"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_csv csv;
    const char *text = kCases[i].text;
    assert_int_equal(braid_csv_parse(NULL, "t", (const uint8_t *)text, strlen(text), &csv), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), kCases[i].detail)) fail_msg("%s", braid_error_detail());
  }
  braid_csv csv;
  assert_int_equal(braid_csv_parse(NULL, "t", (const uint8_t *)"a\0b", 3, &csv), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "byte 1 has the value 0"));
}

/* 25 rows: 10, 20 are for testing. Classes that are numbers are in the order of their values. */
static void test_classes(void **state) {
  (void)state;
  char text[2048] = "id,width,kind,height\r\n";
  for (int i = 1; i <= 25; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d.5,%d,%d\r\n", i, i, i % 3 * 5 + 5, 100 - i);
  write_file("kinds.csv", text);
  braid_dataset *train = table("kinds.csv", "target=kind,columns=height/2", "train"),
                *test = table("kinds.csv", "target=3", "test");
  braid_dataset_info info = braid_dataset_get_info(train);
  assert_int_equal(info.samples, 23);
  assert_int_equal(info.classes, 3);
  assert_int_equal(info.target, BRAID_TARGET_CLASS);
  assert_true(info.channels == 1 && info.height == 1 && info.width == 2 && info.table);
  assert_string_equal(info.class_names[0], "5");
  assert_string_equal(info.class_names[1], "10");
  assert_string_equal(info.class_names[2], "15");
  float numbers[3];
  int32_t label;
  assert_int_equal(braid_dataset_sample(train, 9, numbers, &label), BRAID_OK); /* row 11 */
  assert_true(numbers[0] == 89 && numbers[1] == 11.5f && label == 2);
  braid_dataset *all = table("kinds.csv", "target=3,split=all", "test");
  assert_int_equal(braid_dataset_get_info(all).samples, 25);
  braid_dataset_close(all);
  assert_int_equal(braid_dataset_get_info(test).samples, 2);
  assert_int_equal(braid_dataset_sample(test, 1, numbers, &label), BRAID_OK); /* row 20 */
  assert_true(numbers[0] == 20 && numbers[1] == 20.5f && numbers[2] == 80 && label == 2);
  braid_dataset_close(train);
  braid_dataset_close(test);
}

static void expect_target(const char *keys, braid_target_kind kind, const char *name) {
  braid_dataset *dataset = table("targets.csv", keys, "train");
  braid_dataset_info info = braid_dataset_get_info(dataset);
  assert_int_equal(info.target, kind);
  assert_string_equal(info.class_names[info.classes - 1], name);
  braid_dataset_close(dataset);
}

static void test_targets(void **state) {
  (void)state;
  write_file("targets.csv", "x,wet,cold,price,rooms,who\n1,0,1,2.5,3,ann\n2,1,1,3.5,4,\"bob, jr\"\n");
  expect_target("target=who,columns=x", BRAID_TARGET_CLASS, "bob, jr");
  expect_target("target=wet/cold,columns=x", BRAID_TARGET_LABELS, "cold");
  expect_target("target=price,columns=x", BRAID_TARGET_NUMBERS, "price");
  expect_target("target=price/rooms,columns=x", BRAID_TARGET_NUMBERS, "rooms");
  expect_target("target=rooms,columns=x", BRAID_TARGET_CLASS, "4");
  expect_target("target=rooms,targets=numbers,columns=x", BRAID_TARGET_NUMBERS, "rooms");
  expect_target("target=wet,targets=labels,columns=x", BRAID_TARGET_LABELS, "wet");
  braid_dataset *dataset = table("targets.csv", "target=rooms/price,columns=x", "train");
  float number, targets[2];
  assert_int_equal(braid_dataset_sample(dataset, 1, &number, targets), BRAID_OK);
  assert_true(number == 2 && targets[0] == 4 && targets[1] == 3.5f);
  braid_dataset_close(dataset);
  write_file("bare.csv", "1,2,3\n4,5,6\n");
  dataset = table("bare.csv", "target=3", "train");
  assert_int_equal(braid_dataset_get_info(dataset).samples, 2);
  braid_dataset_close(dataset);
  dataset = table("bare.csv", "target=3,header=yes", "train");
  assert_int_equal(braid_dataset_get_info(dataset).samples, 1);
  braid_dataset_close(dataset);
}

/* The classes are those of train.csv, also where test.csv lacks one. */
static void test_two_files(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/two", folder);
  assert_int_equal(mkdir(path, 0777), 0);
  write_file("two/train.csv", "x,y\n1,a\n2,b\n3,c\n");
  write_file("two/test.csv", "x,y\n7,c\n8,a\n");
  braid_dataset *test = table("two", "target=y", "test"), *train = table("two", "target=y", "train");
  float number;
  int32_t label;
  assert_int_equal(braid_dataset_get_info(train).samples, 3);
  assert_int_equal(braid_dataset_get_info(test).samples, 2);
  assert_int_equal(braid_dataset_get_info(test).classes, 3);
  assert_int_equal(braid_dataset_sample(test, 0, &number, &label), BRAID_OK);
  assert_true(number == 7 && label == 2);
  braid_dataset_close(train);
  braid_dataset_close(test);
  braid_dataset *dataset;
  write_file("two/test.csv", "x,y\n7,d\n");
  assert_int_equal(open_table("two", "target=y", "test", &dataset), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "line 2, column 2 (y): \"d\" is no class of the training part"));
  write_file("two/test.csv", "z,y\n7,a\n");
  assert_int_equal(open_table("two", "target=y", "test", &dataset), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "column 1 is \"z\", \"x\" in train.csv"));
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *keys, *detail;
  } kCases[] = {{"x,y\n1,a\n,b\n", "target=y", "line 3, column 1 (x): \"\" is no value"},
                {"x,y\n1,a\n2,\n", "target=y", "line 3, column 2 (y): \"\" is no value"},
                {"x,y\n1,a\nNA,b\n", "target=y", "line 3, column 1 (x): \"NA\" is no number"},
                {"x,y\nnan,a\n", "target=y", "\"nan\" is no number"},
                {"x,y\n1e39,a\n", "target=y", "no number that float32 can hold"},
                {"x,y\n1,a\n", "target=z", "there is no column \"z\""},
                {"x,y\n1,a\n", "target=3", "there is no column \"3\""},
                {"1,2\n", "target=y", "and no names"},
                {"x,y\n1,a\n", "target=y/y", "given twice"},
                {"x,y\n1,a\n", "target=y,columns=x/y", "is a target"},
                {"x,y\n", "target=y", "no rows"},
                {"y\na\n", "target=y", "0 columns beside the target"},
                {"x,y,z\n1,0,2\n", "target=y/z,targets=labels", "line 2, column 3 (z): \"2\" is no label from 0 to 1"},
                {"x,y,z\n1,0,2\n", "target=y/z,targets=class", "targets=class is of one column"},
                {"x,y\n1,a\n", "columns=x", "target=COLUMN is expected"},
                {"x,y\n1,a\n", "target=y,augment=flip", "augment= has no effect on csv"},
                {"x,y\n1,a\n", "target=y,size=3x3", "size= has no effect on csv"},
                {"x,y\n1,a\n", "target=y,header=maybe", "yes or no is expected"}};
  braid_dataset *dataset;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    write_file("wrong.csv", kCases[i].text);
    if (open_table("wrong.csv", kCases[i].keys, "train", &dataset) == BRAID_OK) fail_msg("%s", kCases[i].detail);
    if (!strstr(braid_error_detail(), kCases[i].detail))
      fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), kCases[i].detail);
  }
  assert_int_equal(braid_dataset_open(NULL, "builtin:glyphs,target=x", "train", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "target= has no effect on builtin"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields),    cmocka_unit_test(test_wrong_text),
                                     cmocka_unit_test(test_classes),   cmocka_unit_test(test_targets),
                                     cmocka_unit_test(test_two_files), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
