/* What augmentation makes of a picture: each result is the picture seen through a window that is moved by at most the
 * padding, with black or the mirrored picture outside, and perhaps mirrored itself; each such view comes up; and the
 * ways that bytes and floats take through the data set agree. */
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
#include "train/data/augment.h"
#include "train/data/image.h"

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

static bool reflecting; /* outside of the picture it is mirrored at its edge, which is there once; else it is black */

static int place_of(int at, int count) {
  if (!reflecting) return at;
  while (at < 0 || at >= count) at = at < 0 ? -at : 2 * (count - 1) - at;
  return at;
}

/* Is it the picture through the window at (top, left), black being 0? */
static bool is_view(const float *pixels, int top, int left, bool mirrored) {
  for (int c = 0; c < kChannels; c++)
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++) {
        int from_y = place_of(y + top, kHeight), from_x = place_of((mirrored ? kWidth - 1 - x : x) + left, kWidth);
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

static void test_reflected_views(void **state) {
  (void)state;
  reflecting = true;
  check_views("augment=crop+flip,pad=2,border=reflect", 2, true);
  check_views("augment=crop,pad=1,border=reflect", 1, false);
  reflecting = false;
  char spec[256];
  braid_dataset *dataset;
  snprintf(spec, sizeof spec, "npy:%s/bytes.npy+%s/labels.npy,augment=crop,pad=3,border=reflect", folder, folder);
  assert_int_equal(braid_dataset_open(NULL, spec, "train", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "pad=3 with border=reflect on pictures of 5x6; less than half of the"));
}

/* Every sample is mirrored in every second epoch, about half of them in the first, wherever in it they come. */
static void test_alternating_flip(void **state) {
  (void)state;
  enum { kSamples = 64, kSide = 32, kFloats = 3 * kSide * kSide };
  static float plain[kFloats], drawn[kFloats];
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_open(NULL, "builtin:glyphs,augment=alternating-flip", "train", &dataset), BRAID_OK);
  float *scratch = malloc(braid_dataset_scratch(dataset) * sizeof *scratch);
  int32_t label;
  int first = 0;
  assert_true(braid_dataset_get_info(dataset).augments);
  for (int64_t sample = 0; sample < kSamples; sample++) {
    assert_int_equal(braid_dataset_read(dataset, sample, NULL, scratch, plain, &label), BRAID_OK);
    bool before = false;
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
      braid_augment how = {kSeed, epoch, (uint64_t)(epoch * 7 + 1)};
      assert_int_equal(braid_dataset_read(dataset, sample, &how, scratch, drawn, &label), BRAID_OK);
      bool same = true, mirrored = true;
      for (int i = 0; i < kFloats; i++) {
        same &= drawn[i] == plain[i];
        mirrored &= drawn[i] == plain[i / kSide * kSide + kSide - 1 - i % kSide];
      }
      assert_true(same != mirrored);
      if (epoch > 0) assert_true(mirrored != before);
      first += epoch == 0 && mirrored;
      before = mirrored;
    }
  }
  if (first < 20 || first > 44) fail_msg("%d of 64 samples are mirrored in the first epoch", first);
  free(scratch);
  braid_dataset_close(dataset);
}

/* Windows of resized-crop keep to their limits and reach them, and a sample is its window, resized. */
static void test_resized_crop(void **state) {
  (void)state;
  braid_spec spec = {.resized_crop = true, .area = {0.25f, 0.5f}};
  double least = 1, most = 0, narrow = 2, wide = 0;
  for (uint64_t i = 0; i < kDraws; i++) {
    braid_augment how = {kSeed, 3, i};
    braid_window w = braid_augment_window(&spec, &how, 300, 500);
    assert_true(w.top >= 0 && w.left >= 0 && w.top + w.height <= 300 && w.left + w.width <= 500);
    double share = (double)w.height * w.width / (300.0 * 500), ratio = (double)w.width / w.height;
    assert_true(share > 0.249 && share < 0.501 && ratio > 0.745 && ratio < 1.342);
    least = fmin(least, share), most = fmax(most, share), narrow = fmin(narrow, ratio), wide = fmax(wide, ratio);
  }
  assert_true(least < 0.26 && most > 0.49 && narrow < 0.76 && wide > 1.32);
  braid_augment how = {kSeed, 3, 1};
  braid_window strip = braid_augment_window(&spec, &how, 10, 1000); /* nothing of the ratios has this area */
  assert_true(strip.top == 0 && strip.height == 10 && strip.width == 13 && strip.left == 493);
  braid_dataset *set = open_data("floats.npy", "augment=resized-crop,area=0.3/0.9");
  spec.area[0] = 0.3f, spec.area[1] = 0.9f;
  for (uint64_t i = 0; i < 200; i++) {
    float got[kPixels], cut[kPixels], wanted[kPixels], scratch[4 * kPixels];
    braid_augment drawn = {kSeed, (uint32_t)(i / 100), i % 100};
    braid_window w = braid_augment_window(&spec, &drawn, kHeight, kWidth);
    read_drawn(set, i, got);
    int at = 0;
    for (int c = 0; c < kChannels; c++)
      for (int y = 0; y < w.height; y++)
        for (int x = 0; x < w.width; x++) cut[at++] = picture[c][w.top + y][w.left + x];
    braid_image_resize(cut, kChannels, w.height, w.width, wanted, kHeight, kWidth, scratch);
    assert_memory_equal(got, wanted, sizeof got);
  }
  braid_dataset_close(set);
}

/* torchvision's adjust_brightness(1.3), adjust_contrast(0.7), adjust_saturation(1.5), in double precision. */
static void test_colour(void **state) {
  (void)state;
  float pixels[12] = {158, 60, 218, 120, 23, 181, 83, 241, 143, 46, 204, 106};
  static const float kTorch[12] = {229.3021f, 71.692f,   255,       138.2725f, 45.0271f, 236.857f,
                                   102.956f,  242.2225f, 208.8271f, 52.582f,   255,      119.1625f};
  braid_augment_colour((float[]){1.3f, 0.7f, 1.5f, 0}, 255, pixels, 3, 4);
  for (int i = 0; i < 12; i++)
    if (fabsf(pixels[i] - kTorch[i]) > 0.05f) fail_msg("number %d is %f, torchvision has %f", i, pixels[i], kTorch[i]);
  braid_spec spec = {.jitter = {0.5f, 0.25f, 0, 0.1f}};
  float least[4] = {2, 2, 2, 2}, most[4] = {0};
  for (uint64_t i = 0; i < kDraws; i++) {
    float factors[4];
    braid_augment_draw_colour(&spec, &(braid_augment){kSeed, 1, i}, factors);
    for (int k = 0; k < 4; k++) least[k] = fminf(least[k], factors[k]), most[k] = fmaxf(most[k], factors[k]);
  }
  assert_true(least[0] >= 0.5f && least[0] < 0.51f && most[0] > 1.49f && most[0] <= 1.5f);
  assert_true(least[1] >= 0.75f && least[1] < 0.76f && most[1] > 1.24f && most[2] == 1 && least[2] == 1);
  assert_true(least[3] >= -0.1f && least[3] < -0.09f && most[3] > 0.09f && most[3] <= 0.1f);
}

/* torchvision's adjust_hue, in double precision; the last pixel is grey. Values of any range turn alike. */
static void test_hue(void **state) {
  (void)state;
  static const float kPixels12[12] = {158, 60, 218, 120, 23, 181, 83, 120, 143, 46, 204, 120};
  static const struct {
    float turn, torch[12];
  } kCases[] = {{0.1f,
                 {158.0000f, 46.0000f, 218.0000f, 120.0000f, 23.0000f, 181.0000f, 83.0000f, 120.0000f, 62.0000f,
                  112.9999f, 123.0000f, 120.0000f}},
                {-0.3f,
                 {23.0000f, 181.0000f, 83.0000f, 120.0000f, 116.0000f, 58.9999f, 177.0000f, 120.0000f, 158.0000f,
                  46.0000f, 218.0000f, 120.0000f}},
                {0.5f,
                 {23.0000f, 167.0000f, 83.0000f, 120.0000f, 158.0000f, 46.0000f, 218.0000f, 120.0000f, 38.0000f,
                  181.0000f, 97.0000f, 120.0000f}}};
  for (size_t k = 0; k < sizeof kCases / sizeof *kCases; k++) {
    float pixels[12], moved[12];
    for (int i = 0; i < 12; i++) pixels[i] = kPixels12[i], moved[i] = kPixels12[i] / 100 - 2;
    braid_augment_colour((float[]){1, 1, 1, kCases[k].turn}, 255, pixels, 3, 4);
    braid_augment_colour((float[]){1, 1, 1, kCases[k].turn}, 0, moved, 3, 4);
    for (int i = 0; i < 12; i++) {
      assert_true(fabsf(pixels[i] - kCases[k].torch[i]) < 0.01f);
      assert_true(fabsf((moved[i] + 2) * 100 - kCases[k].torch[i]) < 0.01f);
    }
  }
}

/* Zeros are a square, cut off by the edges, around every place. */
static void test_cutout(void **state) {
  (void)state;
  braid_dataset *bytes = open_data("bytes.npy", "augment=cutout,hole=3,mean=0.5,std=0.25"),
                *plain = open_data("bytes.npy", "mean=0.5,std=0.25");
  bool seen[kHeight][kWidth] = {{false}};
  float whole[kPixels];
  read_drawn(plain, 0, whole);
  for (uint64_t i = 0; i < kDraws; i++) {
    float pixels[kPixels];
    int top = kHeight, left = kWidth, bottom = -1, right = -1;
    read_drawn(bytes, i, pixels);
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++)
        if (pixels[y * kWidth + x] == 0) {
          top = y < top ? y : top, bottom = y > bottom ? y : bottom;
          left = x < left ? x : left, right = x > right ? x : right;
        }
    assert_true(bottom - top < 3 && right - left < 3 && bottom >= top);
    for (int k = 0; k < kPixels; k++) {
      int y = k / kWidth % kHeight, x = k % kWidth;
      assert_true(pixels[k] == (y >= top && y <= bottom && x >= left && x <= right ? 0 : whole[k]));
    }
    seen[(top + bottom) / 2][(left + right) / 2] = true;
  }
  for (int y = 1; y < kHeight - 1; y++)
    for (int x = 1; x < kWidth - 1; x++) assert_true(seen[y][x]);
  braid_dataset_close(bytes);
  braid_dataset_close(plain);
}

/* Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)). */
static void test_mix(void **state) {
  (void)state;
  static const double kAlphas[] = {0.2, 1, 8};
  for (int a = 0; a < 3; a++) {
    enum { kBatches = 20000 };
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < kBatches; i++) {
      double s = braid_augment_mix(kAlphas[a], kSeed, 2, i);
      assert_true(s >= 0 && s <= 1);
      sum += s, squares += (s - 0.5) * (s - 0.5);
    }
    assert_true(fabs(sum / kBatches - 0.5) < 0.01);
    assert_true(fabs(squares / kBatches * 4 * (2 * kAlphas[a] + 1) - 1) < 0.04);
  }
}

static void test_label_noise(void **state) {
  (void)state;
  enum { kLabels = 50000, kOf = 5 };
  int counts[kOf] = {0}, changed = 0;
  for (uint64_t i = 0; i < kLabels; i++) {
    int32_t label = braid_augment_label(0.3, kSeed, 1, i, 2, kOf);
    assert_true(label >= 0 && label < kOf && braid_augment_label(0, kSeed, 1, i, 2, kOf) == 2);
    counts[label]++;
    changed += label != braid_augment_label(0.3, kSeed, 2, i, 2, kOf);
  }
  for (int c = 0; c < kOf; c++) assert_true(fabs((double)counts[c] / kLabels - (c == 2 ? 0.76 : 0.06)) < 0.006);
  assert_true(changed > kLabels / 3); /* another epoch draws anew */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_views),
                                     cmocka_unit_test(test_reflected_views),
                                     cmocka_unit_test(test_alternating_flip),
                                     cmocka_unit_test(test_resized_crop),
                                     cmocka_unit_test(test_colour),
                                     cmocka_unit_test(test_hue),
                                     cmocka_unit_test(test_cutout),
                                     cmocka_unit_test(test_mix),
                                     cmocka_unit_test(test_label_noise)};
  return cmocka_run_group_tests(tests, make_data, remove_data);
}
