/* Pictures that a table lists: which file has which target, what is for testing, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "train/data/dataset.h"

enum { kPictures = 20 };
static void write_text(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* Grey pictures of one pixel; picture i has the value i. */
static int make_data(void **state) {
  char path[128];
  if (make_folder(state) != 0) return -1;
  snprintf(path, sizeof path, "%s/in", folder);
  if (mkdir(path, 0777) != 0) return -1;
  for (int i = 0; i < kPictures; i++) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 1, .height = 1, .format = PNG_FORMAT_GRAY};
    uint8_t pixel = (uint8_t)i;
    snprintf(path, sizeof path, "%s/in/%d.png", folder, i);
    if (!png_image_write_to_file(&image, path, 0, &pixel, 0, NULL)) return -1;
  }
  return 0;
}

static braid_status open_list(const char *keys, const char *split, braid_dataset **out) {
  char spec[512];
  snprintf(spec, sizeof spec, "images:%s/in,channels=1,scale=1,labels=%s/%s", folder, folder, keys);
  return braid_dataset_open(NULL, spec, split, out);
}

static braid_dataset *listed(const char *keys, const char *split) {
  braid_dataset *dataset;
  if (open_list(keys, split, &dataset) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return dataset;
}

/* The pictures from last to first; every tenth row, pictures 10 and 0, is for testing. */
static void test_classes(void **state) {
  (void)state;
  char text[1024] = "file,kind\n";
  for (int i = kPictures - 1; i >= 0; i--)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d.png,%s\n", i, i % 3 ? "other" : "third");
  write_text("list.csv", text);
  braid_dataset *train = listed("list.csv", "train"), *test = listed("list.csv", "test");
  assert_int_equal(braid_dataset_get_info(train).samples, 18);
  assert_string_equal(braid_dataset_get_info(train).class_names[1], "third");
  int64_t counts[2];
  assert_int_equal(braid_dataset_count_classes(train, counts), BRAID_OK);
  assert_true(counts[0] == 12 && counts[1] == 6);
  for (int64_t i = 0; i < 18; i++) {
    float pixel;
    int32_t label;
    int value = kPictures - 1 - (int)i - (i >= 9);
    assert_int_equal(braid_dataset_sample(train, i, &pixel, &label), BRAID_OK);
    assert_true(pixel == (float)value && label == (value % 3 == 0));
  }
  float pixel;
  int32_t label;
  assert_int_equal(braid_dataset_sample(test, 1, &pixel, &label), BRAID_OK);
  assert_true(pixel == 0 && label == 1);
  braid_dataset_close(train);
  braid_dataset_close(test);
}

/* Another target changes the checksum that --resume compares. */
static void test_labels(void **state) {
  (void)state;
  write_text("labels.csv", "wet,where,cold\n1,3.png,0\n0,5.png,1\n");
  braid_dataset *data = listed("labels.csv,columns=where", "train");
  braid_dataset_info info = braid_dataset_get_info(data);
  float pixel, targets[2];
  uint32_t before, after;
  assert_int_equal(info.target, BRAID_TARGET_LABELS);
  assert_string_equal(info.class_names[1], "cold");
  assert_int_equal(braid_dataset_sample(data, 1, &pixel, targets), BRAID_OK);
  assert_true(pixel == 5 && targets[0] == 0 && targets[1] == 1);
  assert_int_equal(braid_dataset_sum(data, &before), BRAID_OK);
  braid_dataset_close(data);
  write_text("labels.csv", "wet,where,cold\n1,3.png,1\n0,5.png,1\n");
  data = listed("labels.csv,columns=where,target=wet/cold", "train");
  assert_int_equal(braid_dataset_sum(data, &after), BRAID_OK);
  assert_true(after != before);
  braid_dataset_close(data);
  data = listed("labels.csv,columns=where,target=cold,targets=numbers", "train");
  assert_int_equal(braid_dataset_get_info(data).classes, 1);
  braid_dataset_close(data);
}

/* The second folder of classes may be named val. */
static void test_val(void **state) {
  (void)state;
  char text[512], spec[128];
  snprintf(text, sizeof text,
           "cd %s && mkdir -p two/train/a two/train/b two/val/b && cp in/1.png two/train/a && cp in/2.png in/3.png "
           "two/train/b && cp in/4.png two/val/b",
           folder);
  assert_int_equal(system(text), 0);
  snprintf(spec, sizeof spec, "images:%s/two,channels=1,scale=1", folder);
  braid_dataset *train, *test;
  assert_int_equal(braid_dataset_open(NULL, spec, "train", &train), BRAID_OK);
  assert_int_equal(braid_dataset_open(NULL, spec, "test", &test), BRAID_OK);
  float pixel;
  int32_t label;
  assert_int_equal(braid_dataset_get_info(train).samples, 3);
  assert_int_equal(braid_dataset_get_info(test).samples, 1);
  assert_int_equal(braid_dataset_sample(test, 0, &pixel, &label), BRAID_OK);
  assert_true(pixel == 4 && label == 1);
  braid_dataset_close(train);
  braid_dataset_close(test);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *keys, *detail;
  } kCases[] = {{"f,y\n1.png,a\n99.png,b\n", "wrong.csv", "99.png: No such file or directory; it is picture 2"},
                {"f,y\n1.png,a\n,b\n", "wrong.csv", "line 3, column 1 (f): \"\" is no value"},
                {"f\n1.png\n", "wrong.csv", "a column beside that of the files"},
                {"f,y\n1.png,a\n", "wrong.csv,columns=f/y", "one column with the files"},
                {"f,y\n1.png,a\n", "wrong.csv,header=no,columns=1,augment=colour,hole=1", "cutout"}};
  braid_dataset *dataset;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    write_text("wrong.csv", kCases[i].text);
    if (open_list(kCases[i].keys, "train", &dataset) == BRAID_OK) fail_msg("%s", kCases[i].detail);
    if (!strstr(braid_error_detail(), kCases[i].detail))
      fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), kCases[i].detail);
  }
  char spec[128];
  snprintf(spec, sizeof spec, "images:%s/in,target=y", folder);
  assert_int_equal(braid_dataset_open(NULL, spec, "train", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "target= has no effect on images without labels="));
  assert_int_equal(braid_dataset_open(NULL, "csv:x.csv,target=y,labels=z", "train", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "labels= has no effect on csv"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_labels),
                                     cmocka_unit_test(test_val), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, make_data, remove_folder);
}
