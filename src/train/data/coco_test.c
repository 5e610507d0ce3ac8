/* COCO's annotations as labels and as classes, JSON as RFC 8259 has it, and the place of what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "oom.h"
#include "train/data/json_reader.h"
#include "train/data/listing.h"

/* Categories out of order, ids with gaps, a picture without annotations, two boxes of one, and what is passed over. */
static const char kText[] =
    "{\"info\": {\"year\": 2024, \"x\": [1, -2.5e3, true, false, null, {}, []]},\n"
    " \"annotations\": [\n"
    "  {\"id\": 1, \"image_id\": 20, \"category_id\": 9, \"bbox\": [0, 0, 2, 3], \"segmentation\": [[1, 2]]},\n"
    "  {\"id\": 2, \"image_id\": 20, \"category_id\": 3, \"bbox\": [1, 1, 4.0, 2], \"iscrowd\": 0},\n"
    "  {\"id\": 3, \"image_id\": 5, \"category_id\": 9, \"bbox\": [0, 0, 1, 1]},\n"
    "  {\"id\": 4, \"image_id\": 5, \"category_id\": 9, \"bbox\": [0, 0, 1, 1]}],\n"
    " \"images\": [{\"id\": 20, \"file_name\": \"a.png\"}, {\"file_name\": \"b.png\", \"id\": 7},\n"
    "  {\"id\": 5, \"file_name\": \"c.png\", \"width\": 1}],\n"
    " \"categories\": [{\"id\": 9, \"name\": \"dog\"}, {\"id\": 3, \"name\": \"caf\\u00e9 \\ud83d\\ude00\"}]}\n";

static int make_data(void **state) {
  char path[128];
  if (make_folder(state) != 0) return -1;
  for (int i = 0; i < 3; i++) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 1, .height = 1, .format = PNG_FORMAT_GRAY};
    uint8_t pixel = (uint8_t)(10 + i);
    snprintf(path, sizeof path, "%s/%c.png", folder, 'a' + i);
    if (!png_image_write_to_file(&image, path, 0, &pixel, 0, NULL)) return -1;
  }
  snprintf(path, sizeof path, "%s/list.json", folder);
  FILE *file = fopen(path, "w");
  return file && fputs(kText, file) >= 0 && fclose(file) == 0 ? 0 : -1;
}

static braid_status parse(const char *text, braid_target_kind kind, braid_listing *out) {
  return braid_coco_parse(NULL, "t", (const uint8_t *)text, strlen(text), kind, out);
}

static void test_labels(void **state) {
  (void)state;
  char spec[256];
  braid_dataset *data;
  snprintf(spec, sizeof spec, "coco:%s/list.json,images=%s,channels=1,scale=1", folder, folder);
  if (braid_dataset_open(NULL, spec, "train", &data) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_dataset_info info = braid_dataset_get_info(data);
  assert_true(info.samples == 3 && info.classes == 2 && info.target == BRAID_TARGET_LABELS && info.one_part);
  assert_string_equal(info.class_names[0], "caf\xc3\xa9 \xf0\x9f\x98\x80");
  assert_string_equal(info.class_names[1], "dog");
  static const float kLabels[3][2] = {{1, 1}, {0, 0}, {0, 1}};
  for (int i = 0; i < 3; i++) {
    float pixel, labels[2];
    assert_int_equal(braid_dataset_sample(data, i, &pixel, labels), BRAID_OK);
    assert_true(pixel == (float)(10 + i));
    assert_memory_equal(labels, kLabels[i], sizeof labels);
  }
  braid_dataset_close(data);
}

/* The box of 4 x 2 is larger than that of 2 x 3; the picture without one is left out. */
static void test_classes(void **state) {
  (void)state;
  char spec[256];
  braid_dataset *data;
  snprintf(spec, sizeof spec, "coco:%s/list.json,images=%s,targets=class,channels=1,scale=1", folder, folder);
  if (braid_dataset_open(NULL, spec, "train", &data) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(braid_dataset_get_info(data).samples, 2);
  float pixel;
  int32_t label;
  assert_int_equal(braid_dataset_sample(data, 0, &pixel, &label), BRAID_OK);
  assert_true(pixel == 10 && label == 0);
  assert_int_equal(braid_dataset_sample(data, 1, &pixel, &label), BRAID_OK);
  assert_true(pixel == 12 && label == 1);
  braid_dataset_close(data);
}

#define LISTS(a, i, c) "{\"annotations\":[" a "],\"images\":[" i "],\"categories\":[" c "]}"
#define PICTURE "{\"id\":1,\"file_name\":\"a\"}"
#define CATEGORY "{\"id\":1,\"name\":\"c\"}"

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *detail;
  } kCases[] = {
      {"", "line 1, column 1: { is expected"},
      {"[]", "{ is expected"},
      {"{}", "no list of images"},
      {"{\n \"images\": [,]}", "line 2, column 13: { is expected"},
      {"{\"a\": 01}", "column 8: , or } is expected"},
      {"{\"a\": +1}", "a value is expected"},
      {"{\"a\": 1.}", "a number is expected"},
      {"{\"a\": tru}", "a value is expected"},
      {"{\"a\": \"\\x\"}", "an escape"},
      {"{\"a\": \"b", "column 7: the text is not ended"},
      {"{\"a\": \"\t\"}", "control character"},
      {"{\"\\ud800\": 1}", "gives no character"},
      {"{\"a\": [1,]}", "a value is expected"},
      {"{\"a\" 1}", ": is expected"},
      {LISTS("", PICTURE, CATEGORY) "x", "the end is expected"},
      {LISTS("", "", CATEGORY), "0 images"},
      {LISTS("", "{\"id\":1}", CATEGORY), "an id and a file_name are expected"},
      {LISTS("", "{\"id\":1.5,\"file_name\":\"a\"}", CATEGORY), "a whole number is expected"},
      {LISTS("", PICTURE "," PICTURE, CATEGORY), "the id is there twice"},
      {LISTS("{\"image_id\":2,\"category_id\":1}", PICTURE, CATEGORY), "column 17: its image_id is of no image"},
      {LISTS("{\"image_id\":1,\"category_id\":2}", PICTURE, CATEGORY), "its category_id is of no category"},
      {LISTS("{\"image_id\":1}", PICTURE, CATEGORY), "an image_id and a category_id are expected"},
      {LISTS("{\"image_id\":1,\"category_id\":1,\"bbox\":[1,2,3]}", PICTURE, CATEGORY), "four numbers"},
      {LISTS("{\"image_id\":1,\"category_id\":1,\"bbox\":[1,2,-3,1]}", PICTURE, CATEGORY), "not below 0"},
      {"{\"images\":[],\"images\":[]}", "there twice"}};
  braid_listing list;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    if (parse(kCases[i].text, BRAID_TARGET_LABELS, &list) != BRAID_INVALID_FILE) fail_msg("%s", kCases[i].text);
    if (!strstr(braid_error_detail(), kCases[i].detail))
      fail_msg("%s: \"%s\" lacks \"%s\"", kCases[i].text, braid_error_detail(), kCases[i].detail);
  }
  assert_int_equal(parse(LISTS("{\"image_id\":1,\"category_id\":1}", PICTURE, CATEGORY), BRAID_TARGET_CLASS, &list),
                   BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "largest bbox"));
  char deep[256] = "{\"a\":";
  memset(deep + 5, '[', 200);
  assert_int_equal(parse(deep, BRAID_TARGET_LABELS, &list), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "64 deep"));
}

static void test_keys(void **state) {
  (void)state;
  static const struct {
    const char *spec, *detail;
  } kCases[] = {{"coco:x.json", "images=DIR is expected"},
                {"coco:x.json,images=y,split=test", "split=test has no effect on coco"},
                {"coco:x.json,images=y,labels=z", "labels= has no effect on coco"},
                {"coco:x.json,images=y,targets=numbers", "labels or class"},
                {"images:x,images=y", "images= has no effect on images"},
                {"builtin:glyphs,split=all", "split=all has no effect on builtin"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_dataset *data;
    assert_int_equal(braid_dataset_open(NULL, kCases[i].spec, "train", &data), BRAID_INVALID_ARGUMENT);
    if (!strstr(braid_error_detail(), kCases[i].detail))
      fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), kCases[i].detail);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_labels), cmocka_unit_test(test_classes),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_keys)};
  return cmocka_run_group_tests(tests, make_data, remove_folder);
}
