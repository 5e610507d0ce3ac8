#include "train/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>
#include <zlib.h>

#include "base/file.h"
#include "braid/tensor.h"
#include "damage.h"
#include "folder.h"
#include "oom.h"
#include "skip.h"
#include "train/data/augment.h"
#include "train/data/idx.h"
#include "train/data/image.h"

static const char *in_folder(const char *name) {
  static char paths[4][256];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const void *bytes, size_t count) {
  assert_int_equal(braid_file_write(NULL, in_folder(name), bytes, count), BRAID_OK);
}

static braid_dataset *open_spec(const char *spec, const char *split) {
  braid_dataset *dataset;
  if (braid_dataset_open(NULL, spec, split, &dataset) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  return dataset;
}

static void refuse(const char *spec, braid_status status, const char *says) {
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_open(NULL, spec, "test", &dataset), status);
  assert_null(dataset);
  if (!strstr(braid_error_detail(), says)) fail_msg("%s: \"%s\" lacks \"%s\"", spec, braid_error_detail(), says);
}

static void write_png(const char *name, int height, int width, const uint8_t *rgb) {
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = (unsigned)width, .height = (unsigned)height, .format = PNG_FORMAT_RGB};
  assert_true(png_image_write_to_file(&image, in_folder(name), 0, rgb, 0, NULL));
}

static void test_spec(void **state) {
  (void)state;
  braid_spec spec;
  assert_int_equal(braid_spec_parse(NULL,
                                    "builtin:/a,b/c,mean=1/2/3,std=0.5,order=bgr,size=8x9,augment=crop+flip,pad=2,"
                                    "limit=7,seed=11,scale=2,split=train,channels=1",
                                    false, "test", &spec),
                   BRAID_OK);
  assert_string_equal(spec.path, "/a,b/c");
  assert_string_equal(spec.split, "train");
  assert_true(spec.means == 3 && spec.mean[2] == 3 && spec.stds == 1 && spec.std[0] == 0.5f && spec.bgr);
  assert_true(spec.height == 8 && spec.width == 9 && spec.crop && spec.flip && spec.pad == 2 && spec.limit == 7);
  assert_true(spec.seed == 11 && spec.scale == 2 && spec.channels == 1);
  braid_spec_deinit(NULL, &spec);
  static const char *const wrong[][2] = {
      {"glyphs", "KIND:PATH"},
      {"tapes:/x", "tapes"},
      {"builtin:stars", "builtin:glyphs"},
      {"builtin:glyphs,colour=red", "colour"},
      {"builtin:glyphs,mean=1/2", "mean"},
      {"builtin:glyphs,mean=a", "mean=a"},
      {"builtin:glyphs,std=0", "std=0"},
      {"builtin:glyphs,size=0x3", "size=0x3"},
      {"builtin:glyphs,size=3", "HEIGHTxWIDTH"},
      {"builtin:glyphs,augment=turn", "turn"},
      {"builtin:glyphs,augment=crop+resized-crop", "one of the two crops"},
      {"builtin:glyphs,augment=flip+crop+flip", "augment: flip is given twice"},
      {"builtin:glyphs,augment=none+flip", "none alone"},
      {"builtin:glyphs,views=shift+shift", "views: shift is given twice"},
      {"builtin:glyphs,augment=resized-crop,area=0.5/0.2", "area="},
      {"builtin:glyphs,augment=resized-crop,area=0.5", "2 numbers from 0 to 1"},
      {"builtin:glyphs,augment=colour,jitter=1/2/3", "3 numbers from 0 to 1"},
      {"builtin:glyphs,augment=colour,jitter=0.1/0.1/0.1/0.6", "0 to 0.5"},
      {"builtin:glyphs,jitter=0.1/0.1/0.1", "augment=colour"},
      {"builtin:glyphs,augment=cutout,hole=0", "hole=0"},
      {"builtin:glyphs,order=rbg", "rgb or bgr"},
      {"builtin:glyphs,limit=0", "limit=0"},
      {"builtin:glyphs,limit=x", "limit=x"},
      {"builtin:glyphs,channels=2", "2"},
      {"npy:/x.npy", "TARGETS"},
      {"idx:/x,augmnt=crop", "augmnt"},
      {"idx:/x,seed=3", "seed=3"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    refuse(wrong[i][0], i == 2 ? BRAID_NOT_FOUND : BRAID_INVALID_ARGUMENT, wrong[i][1]);
}

/* The same picture from the same numbers, another from another split, index or seed; all ten shapes occur. */
static void test_glyphs(void **state) {
  (void)state;
  enum { FLOATS = 3 * 32 * 32 };
  static float a[FLOATS], b[FLOATS];
  int32_t label_a, label_b;
  braid_dataset *train = open_spec("builtin:glyphs", "train"), *again = open_spec("builtin:glyphs,split=train", "test");
  braid_dataset *test = open_spec("builtin:glyphs", "test"), *other = open_spec("builtin:glyphs,seed=1", "train");
  bool seen[10] = {false};
  for (int64_t i = 0; i < 200; i++) {
    assert_int_equal(braid_dataset_sample(train, i, a, &label_a), BRAID_OK);
    assert_int_equal(braid_dataset_sample(again, i, b, &label_b), BRAID_OK);
    assert_int_equal(label_a, label_b);
    assert_memory_equal(a, b, sizeof a);
    seen[label_a] = true;
    for (int k = 0; k < FLOATS; k++) assert_true(a[k] >= 0 && a[k] <= 1);
  }
  for (int i = 0; i < 10; i++) assert_true(seen[i]);
  assert_int_equal(braid_dataset_sample(test, 199, b, &label_b), BRAID_OK);
  assert_memory_not_equal(a, b, sizeof a);
  assert_int_equal(braid_dataset_sample(other, 199, b, &label_b), BRAID_OK);
  assert_memory_not_equal(a, b, sizeof a);
  assert_int_equal(braid_dataset_sample(train, 20000, b, &label_b), BRAID_OUT_OF_RANGE);
  braid_dataset_close(train), braid_dataset_close(again), braid_dataset_close(test), braid_dataset_close(other);
}

/* A file of 10,000 records of label 0, with holes where the pixels are black. */
static void put_cifar(const char *name, long long records, int record_bytes) {
  put(name, "", 0);
  assert_int_equal(truncate(in_folder(name), records * record_bytes), 0);
}

static void patch(const char *name, long long offset, const void *bytes, size_t count) {
  FILE *file = fopen(in_folder(name), "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static void put_names(const char *name, int count) {
  FILE *file = fopen(in_folder(name), "w");
  assert_non_null(file);
  for (int i = 0; i < count; i++) fprintf(file, "name %d\r\n", i);
  assert_int_equal(fclose(file), 0);
}

static void test_cifar(void **state) {
  (void)state;
  enum { RECORD = 3073 };
  static uint8_t record[RECORD];
  for (int i = 0; i < RECORD; i++) record[i] = (uint8_t)(i * 7);
  record[0] = 9;
  char spec[320];
  snprintf(spec, sizeof spec, "cifar10:%s,order=bgr,scale=1,mean=1/2/3", folder);
  put_cifar("test_batch.bin", 10000, RECORD);
  patch("test_batch.bin", RECORD, record, sizeof record);
  braid_dataset *set = open_spec(spec, "test");
  static float pixels[3072];
  int32_t label;
  assert_int_equal(braid_dataset_get_info(set).samples, 10000);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_OK);
  assert_int_equal(label, 9);
  assert_string_equal(braid_dataset_get_info(set).class_names[label], "truck");
  assert_true(pixels[5] == (float)record[1 + 2048 + 5] - 1);
  assert_true(pixels[2048 + 5] == (float)record[1 + 5] - 3);
  static uint8_t rgb[3072];
  assert_int_equal(braid_dataset_picture(set, 1, rgb), BRAID_OK);
  for (int c = 0; c < 3; c++) assert_int_equal(rgb[5 * 3 + c], record[1 + 1024 * c + 5]);
  braid_dataset_close(set);
  patch("test_batch.bin", 4321 * RECORD, "\012", 1);
  refuse(spec, BRAID_INVALID_FILE, "test_batch.bin: record 4321 has label 10");
  put_cifar("test_batch.bin", 9999, RECORD);
  refuse(spec, BRAID_INVALID_FILE, "30730000");
  snprintf(spec, sizeof spec, "cifar10:%s/none", folder);
  refuse(spec, BRAID_NOT_FOUND, "test_batch.bin");
}

/* Two label bytes, of which the second counts; the names beside the data, or our own. */
static void test_cifar100(void **state) {
  (void)state;
  enum { RECORD = 3074 };
  char spec[320];
  snprintf(spec, sizeof spec, "cifar100:%s", folder);
  put_cifar("test.bin", 10000, RECORD);
  patch("test.bin", 9999LL * RECORD, "\377\143\377", 3);
  braid_dataset *set = open_spec(spec, "test");
  static float pixels[3072];
  int32_t label;
  assert_int_equal(braid_dataset_sample(set, 9999, pixels, &label), BRAID_OK);
  assert_int_equal(label, 99);
  assert_true(pixels[0] == 1 && pixels[1] == 0);
  assert_string_equal(braid_dataset_get_info(set).class_names[99], "worm");
  braid_dataset_close(set);
  put("fine_label_names.txt", "one\0two\n", 8);
  refuse(spec, BRAID_INVALID_FILE, "fine_label_names.txt: holds a byte of value 0");
  put_names("fine_label_names.txt", 99);
  refuse(spec, BRAID_INVALID_FILE, "99 names");
  FILE *names = fopen(in_folder("fine_label_names.txt"), "a");
  assert_non_null(names);
  fputs("the last\n\n", names);
  fclose(names);
  set = open_spec(spec, "test");
  assert_string_equal(braid_dataset_get_info(set).class_names[3], "name 3");
  assert_string_equal(braid_dataset_get_info(set).class_names[99], "the last");
  braid_dataset_close(set);
}

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 11};

/* Two pictures of 1 x 2, packed, and their labels. */
static void put_idx(void) {
  gzFile packed = gzopen(in_folder("t10k-images-idx3-ubyte.gz"), "wb");
  assert_int_equal(gzwrite(packed, images, sizeof images), sizeof images);
  assert_int_equal(gzclose(packed), Z_OK);
  put("t10k-labels-idx1-ubyte", labels, sizeof labels);
}

static void test_idx(void **state) {
  (void)state;
  char spec[320];
  snprintf(spec, sizeof spec, "idx:%s,scale=1", folder);
  put_idx();
  braid_dataset *set = open_spec(spec, "test");
  float pixels[2];
  int32_t label;
  assert_int_equal(braid_dataset_get_info(set).classes, 12);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_OK);
  assert_true(pixels[0] == 30 && pixels[1] == 40 && label == 11);
  braid_dataset_close(set);
  put("t10k-labels-idx1-ubyte", labels, sizeof labels - 1);
  refuse(spec, BRAID_INVALID_FILE, "t10k-labels");
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, in_folder("t10k-images-idx3-ubyte.gz"), 0, &view), BRAID_OK);
  put("cut", view.data, view.bytes - 9);
  braid_file_close(&view);
  assert_int_equal(rename(in_folder("cut"), in_folder("t10k-images-idx3-ubyte.gz")), 0);
  refuse(spec, BRAID_INVALID_FILE, "t10k-images");
  const uint8_t huge[] = {0, 0, 8, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  braid_idx idx;
  assert_int_equal(braid_idx_parse("huge", huge, sizeof huge, &idx), BRAID_INVALID_FILE);
  for (size_t bytes = 0; bytes < sizeof images; bytes++)
    assert_int_equal(braid_idx_parse("cut", images, bytes, &idx), BRAID_INVALID_FILE);
}

/* Every sample of an open set is what it was, whatever becomes of the files; the check is on all bytes. */
static uint32_t checksum(braid_dataset *set) {
  braid_dataset_info info = braid_dataset_get_info(set);
  size_t count = (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  float *pixels = malloc(count * sizeof *pixels);
  uLong sum = 0;
  assert_non_null(pixels);
  for (int64_t i = 0; i < info.samples; i++) {
    int32_t label;
    assert_int_equal(braid_dataset_sample(set, i, pixels, &label), BRAID_OK);
    sum = crc32(crc32(sum, (const Bytef *)pixels, (uInt)(count * sizeof *pixels)), (const Bytef *)&label, sizeof label);
  }
  free(pixels);
  return (uint32_t)sum;
}

static void put_npy(const char *name, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memset(braid_tensor_data(tensor), 1, braid_desc_bytes(&desc));
  assert_int_equal(braid_npy_save(in_folder(name), tensor), BRAID_OK);
  braid_tensor_release(tensor);
}

static void put_plain_idx(const char *within) {
  enum { IMAGES = 100, SIDE = 28 };
  static uint8_t file[16 + IMAGES * SIDE * SIDE] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
  char path[80];
  snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", within);
  put(path, file, sizeof file);
  static uint8_t names[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
  snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", within);
  put(path, names, sizeof names);
}

static void test_files_that_change_under_an_open_set(void **state) {
  (void)state;
  static const struct {
    const char *spec, *files[2];
  } sets[] = {
      {"cifar10:%s/changing", {"changing/test_batch.bin"}},
      {"idx:%s/changing", {"changing/t10k-images-idx3-ubyte", "changing/t10k-labels-idx1-ubyte"}},
      {"npy:%s/changing/x.npy+%s/changing/y.npy", {"changing/x.npy", "changing/y.npy"}},
  };
  assert_int_equal(braid_make_directories(in_folder("changing")), BRAID_OK);
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
      char spec[640];
      put_cifar("changing/test_batch.bin", 10000, 3073);
      put_plain_idx("changing");
      put_npy("changing/x.npy", BRAID_F32, 4, (int64_t[]){50, 3, 32, 32});
      put_npy("changing/y.npy", BRAID_U8, 1, (int64_t[]){50});
      snprintf(spec, sizeof spec, sets[i].spec, folder, folder);
      braid_dataset *set = open_spec(spec, "test");
      uint32_t before = checksum(set);
      for (int f = 0; f < 2 && sets[i].files[f]; f++) damage(in_folder(sets[i].files[f]), kind);
      assert_int_equal(checksum(set), before);
      braid_dataset_close(set);
    }
}

static uint32_t sum_of(const char *spec) {
  braid_dataset *set = open_spec(spec, "test");
  uint32_t sum;
  if (braid_dataset_sum(set, &sum) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  braid_dataset_close(set);
  return sum;
}

/* A byte anywhere in the files of a set that counts changes its checksum, one behind `limit` does not. */
static void test_sum(void **state) {
  (void)state;
  static const struct {
    const char *spec, *file;
    long long first, last; /* offsets that count */
  } sets[] = {
      {"cifar10:%s/summed", "summed/test_batch.bin", 0, 30729999},
      {"cifar10:%s/summed,limit=3", "summed/test_batch.bin", 0, 3 * 3073 - 1},
      {"idx:%s/summed", "summed/t10k-images-idx3-ubyte", 16, 16 + 78399},
      {"idx:%s/summed", "summed/t10k-labels-idx1-ubyte", 8, 107},
      {"npy:%s/summed/x.npy+%s/summed/y.npy", "summed/x.npy", 128, 128 + 4LL * 50 * 12 - 1},
      {"npy:%s/summed/x.npy+%s/summed/y.npy,limit=7", "summed/y.npy", 128, 128 + 6},
      {"images:%s/summed,size=8x8", "summed/test/a/1.png", 0, 999},
      {"images:%s/summed,size=8x8", "summed/test/b/1.png", 0, 999},
      {"images:%s/summed,size=8x8,limit=1", "summed/test/a/1.png", 0, 999},
  };
  assert_int_equal(braid_make_directories(in_folder("summed/test/a")), BRAID_OK);
  assert_int_equal(braid_make_directories(in_folder("summed/test/b")), BRAID_OK);
  put_cifar("summed/test_batch.bin", 10000, 3073);
  put_plain_idx("summed");
  put_npy("summed/x.npy", BRAID_F32, 4, (int64_t[]){50, 3, 2, 2});
  put_npy("summed/y.npy", BRAID_U8, 1, (int64_t[]){50});
  static const uint8_t zeros[1000];
  put("summed/test/a/1.png", zeros, sizeof zeros);
  put("summed/test/b/1.png", zeros, sizeof zeros);
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    char spec[640];
    snprintf(spec, sizeof spec, sets[i].spec, folder, folder);
    uint32_t before = sum_of(spec);
    braid_file_view view;
    assert_int_equal(braid_file_open(NULL, in_folder(sets[i].file), 0, &view), BRAID_OK);
    long long middle = (sets[i].first + sets[i].last) / 2, last = (long long)view.bytes - 1;
    long long offsets[] = {sets[i].first, middle, sets[i].last, last};
    for (int k = 0; k < 4; k++) {
      uint8_t byte = view.data[offsets[k]] ^ 1;
      patch(sets[i].file, offsets[k], &byte, 1);
      assert_true((sum_of(spec) != before) == (offsets[k] <= sets[i].last));
      byte ^= 1;
      patch(sets[i].file, offsets[k], &byte, 1);
    }
    braid_file_close(&view);
    assert_int_equal(sum_of(spec), before);
  }
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/summed,size=8x8", folder);
  uint32_t before = sum_of(spec);
  assert_int_equal(rename(in_folder("summed/test/b/1.png"), in_folder("summed/test/b/2.png")), 0);
  assert_int_not_equal(sum_of(spec), before);
}

/* Too large to be read at once: names and sizes of all, the bytes of every second one. */
static void test_sum_of_many_bytes(void **state) {
  (void)state;
  assert_int_equal(braid_make_directories(in_folder("large/test/a")), BRAID_OK);
  static const char *const files[] = {"large/test/a/1.png", "large/test/a/2.png", "large/test/a/3.png"};
  enum { BYTES = 100 << 20 };
  for (int i = 0; i < 3; i++) put_cifar(files[i], 1, BYTES); /* holes */
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/large,size=8x8", folder);
  uint32_t before = sum_of(spec);
  for (int i = 0; i < 3; i++) {
    patch(files[i], 5, "x", 1);
    assert_true((sum_of(spec) != before) == (i != 1));
    patch(files[i], 5, "", 1);
    assert_int_equal(sum_of(spec), before);
    assert_int_equal(truncate(in_folder(files[i]), BYTES - 1), 0);
    assert_int_not_equal(sum_of(spec), before);
    assert_int_equal(truncate(in_folder(files[i]), BYTES), 0);
  }
}

static void test_folder(void **state) {
  (void)state;
  assert_int_equal(braid_make_directories(in_folder("pictures/test/ant")), BRAID_OK);
  assert_int_equal(braid_make_directories(in_folder("pictures/test/bee")), BRAID_OK);
  uint8_t rgb[12] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};
  write_png("pictures/test/ant/1.png", 2, 2, rgb);
  write_png("pictures/test/bee/1.PNG", 1, 4, rgb);
  put("pictures/test/bee/notes.txt", "no picture", 10);
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/pictures,scale=1", folder);
  braid_dataset *set = open_spec(spec, "test");
  braid_dataset_info info = braid_dataset_get_info(set);
  assert_true(info.samples == 2 && info.classes == 2 && info.height == 2 && info.width == 2);
  assert_string_equal(info.class_names[1], "bee");
  float pixels[12];
  int32_t label;
  assert_int_equal(braid_dataset_sample(set, 0, pixels, &label), BRAID_OK);
  for (int i = 0; i < 12; i++) assert_true(pixels[(i % 3) * 4 + i / 3] == rgb[i]);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_OK);
  assert_int_equal(label, 1);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_OK); /* again, and it is the same */
  rgb[0] = 7;
  write_png("pictures/test/bee/1.PNG", 1, 4, rgb);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "1.PNG: changed since it was first read"));
  braid_dataset_close(set);
  put("pictures/test/bee/1.PNG", "\x89PNG\r\n\x1a\nbroken", 14);
  set = open_spec(spec, "test");
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "1.PNG"));
  braid_dataset_close(set);
  snprintf(spec, sizeof spec, "images:%s/pictures/test/ant", folder);
  refuse(spec, BRAID_INVALID_FILE, "folder per class");
}

/* The window of a folder's picture is cut out before the picture is made smaller. */
static void test_folder_window(void **state) {
  (void)state;
  enum { SIDE = 40, SMALL = 4, PLANE = SIDE * SIDE };
  static uint8_t rgb[PLANE * 3];
  static float cut[PLANE * 3], scratch[PLANE * 3];
  for (int i = 0; i < PLANE * 3; i++) rgb[i] = (uint8_t)(i * 37 % 251);
  assert_int_equal(braid_make_directories(in_folder("window/test/x")), BRAID_OK);
  write_png("window/test/x/1.png", SIDE, SIDE, rgb);
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/window,scale=1,size=4x4,augment=resized-crop,area=0.1/0.5", folder);
  braid_dataset *set = open_spec(spec, "test");
  float *room = malloc(braid_dataset_scratch(set) * sizeof *room);
  assert_non_null(room);
  for (uint64_t draw = 0; draw < 20; draw++) {
    braid_augment how = {9, 1, draw};
    float got[SMALL * SMALL * 3], wanted[SMALL * SMALL * 3];
    int32_t label;
    assert_int_equal(braid_dataset_read(set, 0, &how, room, got, &label), BRAID_OK);
    braid_window w = braid_augment_window(braid_dataset_spec(set), &how, SIDE, SIDE);
    float *at = cut;
    for (int c = 0; c < 3; c++)
      for (int y = 0; y < w.height; y++)
        for (int x = 0; x < w.width; x++) *at++ = rgb[((w.top + y) * SIDE + w.left + x) * 3 + c];
    braid_image_resize(cut, 3, w.height, w.width, wanted, SMALL, SMALL, scratch);
    assert_memory_equal(got, wanted, sizeof got);
  }
  free(room);
  braid_dataset_close(set);
}

/* Both splits give a class the same label, whatever folders the test split has. */
static void test_folder_classes(void **state) {
  (void)state;
  static const char *const folders[] = {"two/train/ant", "two/train/bee", "two/train/cat", "two/test/cat", "one/x"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    assert_int_equal(braid_make_directories(in_folder(folders[i])), BRAID_OK);
  uint8_t rgb[12] = {0};
  write_png("two/train/ant/1.png", 2, 2, rgb);
  write_png("two/test/cat/1.png", 2, 2, rgb);
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/two", folder);
  braid_dataset *set = open_spec(spec, "test");
  float pixels[12];
  int32_t label;
  assert_int_equal(braid_dataset_get_info(set).classes, 3);
  assert_int_equal(braid_dataset_sample(set, 0, pixels, &label), BRAID_OK);
  assert_int_equal(label, 2);
  braid_dataset_close(set);
  assert_int_equal(braid_make_directories(in_folder("two/test/dog")), BRAID_OK);
  refuse(spec, BRAID_INVALID_FILE, "test/dog");
  snprintf(spec, sizeof spec, "images:%s/one", folder);
  refuse(spec, BRAID_INVALID_FILE, "for testing");
  for (int i = 0; i < 23; i++) {
    char name[32];
    snprintf(name, sizeof name, "one/x/%02d.png", i);
    rgb[0] = (uint8_t)i;
    write_png(name, 2, 2, rgb);
  }
  set = open_spec(spec, "train");
  assert_int_equal(braid_dataset_get_info(set).samples, 21);
  braid_dataset_close(set);
  set = open_spec(spec, "test");
  assert_int_equal(braid_dataset_get_info(set).samples, 2);
  assert_int_equal(braid_dataset_sample(set, 1, pixels, &label), BRAID_OK);
  assert_true(pixels[0] == (float)19 * (float)(1.0 / 255));
  braid_dataset_close(set);
}

static void test_real_data(void **state) {
  (void)state;
  const char *data = getenv("BRAID_DATA");
  if (!data) skip_test("data", "BRAID_DATA does not say where CIFAR-10 and Fashion-MNIST are");
  char spec[4096];
  snprintf(spec, sizeof spec, "cifar10:%s/cifar10", data);
  braid_dataset *set = open_spec(spec, "train");
  assert_int_equal(braid_dataset_get_info(set).samples, 50000);
  braid_dataset_close(set);
  snprintf(spec, sizeof spec, "idx:%s/fashion-mnist", data);
  set = open_spec(spec, "test");
  assert_int_equal(braid_dataset_get_info(set).samples, 10000);
  int counts[10] = {0};
  for (int64_t i = 0; i < 10000; i++) {
    static float pixels[784];
    int32_t label;
    assert_int_equal(braid_dataset_sample(set, i, pixels, &label), BRAID_OK);
    counts[label]++;
  }
  for (int i = 0; i < 10; i++) assert_int_equal(counts[i], 1000);
  braid_dataset_close(set);
}

static braid_status open_folder(const braid_allocator *allocator, void *context) {
  braid_dataset *dataset;
  braid_status status = braid_dataset_open(allocator, context, "test", &dataset);
  braid_dataset_close(dataset);
  return status;
}

static void put_zeros(const char *name, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
  assert_int_equal(braid_npy_save(in_folder(name), tensor), BRAID_OK);
  braid_tensor_release(tensor);
}

static void test_out_of_memory(void **state) {
  (void)state;
  uint8_t rgb[12] = {0};
  write_png("pictures/test/bee/1.PNG", 2, 2, rgb);
  char spec[320];
  snprintf(spec, sizeof spec, "images:%s/pictures", folder);
  oom_sweep(open_folder, spec);
  put_cifar("test_batch.bin", 10000, 3073);
  snprintf(spec, sizeof spec, "cifar10:%s", folder);
  oom_sweep(open_folder, spec);
  put_names("batches.meta.txt", 10);
  oom_sweep(open_folder, spec);
  put_idx();
  snprintf(spec, sizeof spec, "idx:%s", folder);
  oom_sweep(open_folder, spec);
  put_zeros("images.npy", BRAID_U8, 4, (int64_t[]){2, 1, 3, 4});
  put_zeros("labels.npy", BRAID_I64, 1, (int64_t[]){2});
  snprintf(spec, sizeof spec, "npy:%s/images.npy+%s/labels.npy", folder, folder);
  oom_sweep(open_folder, spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spec),
      cmocka_unit_test(test_glyphs),
      cmocka_unit_test(test_cifar),
      cmocka_unit_test(test_cifar100),
      cmocka_unit_test(test_idx),
      cmocka_unit_test(test_folder),
      cmocka_unit_test(test_files_that_change_under_an_open_set),
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_sum_of_many_bytes),
      cmocka_unit_test(test_folder_window),
      cmocka_unit_test(test_folder_classes),
      cmocka_unit_test(test_real_data),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
