/* What augmentation makes of a picture: each result is the picture seen through a window that is moved by at most the
 * padding, with black outside, and perhaps mirrored; each such view comes up; and the ways that bytes and floats take
 * through the data set agree. */
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

#include "tensor/npy.h"
#include "train/data/dataset.h"

enum { kChannels = 3, kHeight = 5, kWidth = 6, kPad = 2, kMoves = 2 * kPad + 1, kDraws = 1000, kSeed = 5 };
enum { kPixels = kChannels * kHeight * kWidth };
static char folder[] = "/tmp/braid-augment-XXXXXX";
static uint8_t picture[kChannels][kHeight][kWidth];

static void save(const char *name, braid_dtype dtype, int rank, const int64_t *dims, const double *numbers) {
  char path[128];
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) braid_tensor_set_f64(tensor, i, numbers[i]);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(braid_npy_save(path, tensor), BRAID_OK);
  braid_tensor_release(tensor);
}

static int make_data(void **state) {
  (void)state;
  double numbers[kPixels];
  if (!mkdtemp(folder)) return -1;
  for (int i = 0; i < kPixels; i++) numbers[i] = (&picture[0][0][0])[i] = (uint8_t)(2 * i + 1); /* no two alike */
  save("bytes.npy", BRAID_U8, 4, (int64_t[]){1, kChannels, kHeight, kWidth}, numbers);
  save("floats.npy", BRAID_F32, 4, (int64_t[]){1, kChannels, kHeight, kWidth}, numbers);
  save("labels.npy", BRAID_I32, 1, (int64_t[]){1}, (double[]){0});
  return 0;
}

static int remove_data(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static braid_dataset *open_data(const char *images, const char *keys) {
  char spec[256];
  braid_dataset *dataset;
  snprintf(spec, sizeof spec, "npy:%s/%s+%s/labels.npy,%s", folder, images, folder, keys);
  if (braid_dataset_open(NULL, spec, "train", &dataset) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return dataset;
}

static void read_drawn(const braid_dataset *dataset, uint64_t position, float *pixels) {
  braid_augment how = {kSeed, (uint32_t)(position / 100), position % 100};
  float *scratch = malloc(braid_dataset_scratch(dataset) * sizeof *scratch);
  int32_t label;
  assert_non_null(scratch);
  assert_int_equal(braid_dataset_read(dataset, 0, &how, scratch, pixels, &label), BRAID_OK);
  free(scratch);
}

/* Is it the picture through the window at (top, left), black being 0? */
static bool is_view(const float *pixels, int top, int left, bool mirrored) {
  for (int c = 0; c < kChannels; c++)
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++) {
        int from_y = y + top, from_x = (mirrored ? kWidth - 1 - x : x) + left;
        bool in = from_y >= 0 && from_y < kHeight && from_x >= 0 && from_x < kWidth;
        float wanted = in ? picture[c][from_y][from_x] : 0;
        if (fabsf(pixels[(c * kHeight + y) * kWidth + x] - wanted) > 1e-3f) return false;
      }
  return true;
}

/* Which of the views; -1: none. */
static int find_view(const float *pixels, int pad, bool flip) {
  for (int view = 0; view < kMoves * kMoves * 2; view++) {
    int top = view / 2 / kMoves - kPad, left = view / 2 % kMoves - kPad;
    if (abs(top) <= pad && abs(left) <= pad && (flip || view % 2 == 0) && is_view(pixels, top, left, view % 2))
      return view;
  }
  return -1;
}

static void check_views(const char *keys, int pad, bool flip) {
  char as_stored[128];
  snprintf(as_stored, sizeof as_stored, "std=%.17g,%s", 1.0 / 255, keys); /* bytes come as they are stored */
  braid_dataset *bytes = open_data("bytes.npy", as_stored), *floats = open_data("floats.npy", keys);
  int seen[kMoves * kMoves * 2] = {0}, different = 0;
  for (uint64_t i = 0; i < kDraws; i++) {
    float a[kPixels], b[kPixels];
    read_drawn(bytes, i, a);
    read_drawn(floats, i, b);
    int view = find_view(a, pad, flip);
    if (view < 0) fail_msg("%s: draw %d of bytes is no view of the picture", keys, (int)i);
    if (!is_view(b, view / 2 / kMoves - kPad, view / 2 % kMoves - kPad, view % 2))
      fail_msg("%s: draw %d of floats is not that of bytes", keys, (int)i);
    different += seen[view]++ == 0;
  }
  assert_int_equal(different, (2 * pad + 1) * (2 * pad + 1) * (flip ? 2 : 1));
  braid_dataset_close(bytes);
  braid_dataset_close(floats);
}

static void test_views(void **state) {
  (void)state;
  check_views("augment=crop+flip,pad=2", 2, true);
  check_views("augment=crop,pad=1", 1, false);
  check_views("augment=flip", 0, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_views)};
  return cmocka_run_group_tests(tests, make_data, remove_data);
}
