/* Reading and resizing of images. */
#include "train/data/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

#include "base/file.h"
#include "braid/tensor.h"
#include "folder.h"

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* Of one picture, only the keys that change it count. */
static void test_preprocess(void **state) {
  (void)state;
  static const char *const wrong[] = {"split=test", "augment=crop", "pad=2",      "limit=3",      "seed=1",
                                      "size=8x9",   "channels=1",   "colour=red", "mean=1,scal=3"};
  braid_tensor *tensor;
  uint8_t rgb[12] = {0};
  png_image image = {.version = PNG_IMAGE_VERSION, .width = 2, .height = 2, .format = PNG_FORMAT_RGB};
  assert_true(png_image_write_to_file(&image, in_folder("preprocess.png"), 0, rgb, 0, NULL));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(braid_image_load(NULL, in_folder("preprocess.png"), 3, 4, 4, wrong[i], &tensor),
                     BRAID_INVALID_ARGUMENT);
    assert_null(tensor);
    const char *key = i == 8 ? "scal" : wrong[i];
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(key, "="), key);
    if (!strstr(braid_error_detail(), name)) fail_msg("%s: %s", wrong[i], braid_error_detail());
  }
  assert_int_equal(braid_image_load(NULL, in_folder("preprocess.png"), 3, 4, 4, "size=4x4,channels=3", &tensor),
                   BRAID_OK);
  braid_tensor_release(tensor);
  assert_int_equal(braid_image_load(NULL, in_folder("preprocess.png"), 0, 0, 0, "size=8x9", &tensor), BRAID_OK);
  assert_int_equal(braid_tensor_desc(tensor)->dims[braid_tensor_desc(tensor)->rank - 2], 8);
  braid_tensor_release(tensor);
}

/* A grey JPEG of one value decodes to it; cut anywhere in its data it is refused, not filled in. */
static void test_jpeg(void **state) {
  (void)state;
  enum { SIDE = 64 };
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long count = 0;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = info.image_height = SIDE;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  uint8_t line[SIDE];
  for (int y = 0; y < SIDE; y++) {
    for (int x = 0; x < SIDE; x++) line[x] = (uint8_t)(64 + 2 * x);
    JSAMPROW row = line;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  braid_image image;
  assert_int_equal(braid_image_decode(NULL, "grey.jpg", bytes, count, &image), BRAID_OK);
  assert_true(image.channels == 1 && image.height == SIDE && image.width == SIDE);
  for (int x = 0; x < SIDE; x++) assert_true(abs(image.pixels[x] - line[x]) <= 3);
  braid_free(NULL, image.pixels);
  for (size_t cut = 0; cut < count - 2; cut += 7) {
    uint8_t *part = malloc(cut + 1);
    assert_non_null(part);
    memcpy(part, bytes, cut);
    assert_int_equal(braid_image_decode(NULL, "cut.jpg", part, cut, &image), BRAID_INVALID_FILE);
    free(part);
  }
  assert_int_equal(braid_file_write(NULL, in_folder("grey.jpg"), bytes, count), BRAID_OK);
  braid_tensor *tensor;
  assert_int_equal(braid_image_load(NULL, in_folder("grey.jpg"), 3, 16, 32, "scale=1,mean=64", &tensor), BRAID_OK);
  const float *pixels = braid_tensor_const_data(tensor);
  for (int c = 0; c < 3; c++)
    for (int x = 2; x < 30; x++) assert_true(fabsf(pixels[(c * 16 + 8) * 32 + x] - (float)(4 * x + 1)) < 3);
  braid_tensor_release(tensor);
  free(bytes);
}

/* Pillow's BILINEAR of 0, 10, ... 50 to 3 and to 12 values. */
static void test_resize(void **state) {
  (void)state;
  const float line[6] = {0, 10, 20, 30, 40, 50};
  const float shrunk[3] = {7.142857f, 25, 42.857143f};
  const float grown[12] = {0, 2.5f, 7.5f, 12.5f, 17.5f, 22.5f, 27.5f, 32.5f, 37.5f, 42.5f, 47.5f, 50};
  float out[12], scratch[64];
  braid_image_resize(line, 1, 1, 6, out, 1, 3, scratch);
  for (int i = 0; i < 3; i++) assert_true(fabsf(out[i] - shrunk[i]) < 1e-4f);
  braid_image_resize(line, 1, 6, 1, out, 12, 1, scratch);
  for (int i = 0; i < 12; i++) assert_true(fabsf(out[i] - grown[i]) < 1e-4f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_preprocess), cmocka_unit_test(test_jpeg),
                                     cmocka_unit_test(test_resize)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
