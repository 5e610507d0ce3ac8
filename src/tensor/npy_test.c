#include "tensor/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "oom.h"

static const char *data_file(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/npy/%s.npy", BRAID_TEST_DATA, name);
  return path;
}

static void check_counting(const char *name, const char *wanted_desc) {
  braid_tensor *tensor;
  char text[64];
  if (braid_npy_load(NULL, data_file(name), &tensor) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_string_equal(braid_desc_format(braid_tensor_desc(tensor), text, sizeof text), wanted_desc);
  bool is_bool = braid_tensor_desc(tensor)->dtype == BRAID_BOOL;
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++) {
    assert_int_equal(braid_tensor_get_i64(tensor, i), is_bool ? i % 2 : i);
    assert_true(braid_tensor_get_f64(tensor, i) == (double)(is_bool ? i % 2 : i));
  }
  braid_tensor_release(tensor);
}

/* tests/data/npy/make.py says what the files hold. */
static void test_files_of_numpy(void **state) {
  (void)state;
  static const char *const types[][2] = {{"f2", "float16"}, {"f4", "float32"}, {"f8", "float64"}, {"i1", "int8"},
                                         {"i2", "int16"},   {"i4", "int32"},   {"i8", "int64"},   {"u1", "uint8"},
                                         {"u2", "uint16"},  {"u4", "uint32"},  {"u8", "uint64"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char name[32], desc[64];
    snprintf(desc, sizeof desc, "%s[2,3,4]", types[i][1]);
    snprintf(name, sizeof name, "little_%s", types[i][0]);
    check_counting(name, desc);
    snprintf(name, sizeof name, "big_%s", types[i][0]);
    check_counting(name, desc);
  }
  check_counting("bool", "bool[2,3,4]");
  check_counting("fortran", "float32[2,3,4]");
  check_counting("fortran_big", "int32[2,3,4]");
  check_counting("scalar", "int64[]");
  check_counting("vector", "float32[5]");
  check_counting("empty", "float32[0,3]");
  check_counting("version2", "float32[2,3,4]");
  check_counting("version3", "float32[2,3,4]");
}

/* What NumPy wrote, written again, is the same file to the byte (versions 2 and 3 apart). */
static void test_written_as_numpy_does(void **state) {
  (void)state;
  static const char *const names[] = {"little_f4", "little_f2", "little_i8", "little_u1", "bool", "vector", "scalar"};
  char path[64];
  snprintf(path, sizeof path, "/tmp/braid-npy-test-%ld", (long)getpid());
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    braid_tensor *tensor;
    braid_file_view ours, theirs;
    assert_int_equal(braid_npy_load(NULL, data_file(names[i]), &tensor), BRAID_OK);
    assert_int_equal(braid_npy_save(path, tensor), BRAID_OK);
    braid_tensor_release(tensor);
    assert_int_equal(braid_file_open(NULL, path, 0, &ours), BRAID_OK);
    assert_int_equal(braid_file_open(NULL, data_file(names[i]), 0, &theirs), BRAID_OK);
    assert_int_equal(ours.bytes, theirs.bytes);
    assert_memory_equal(ours.data, theirs.data, ours.bytes);
    braid_file_close(&ours);
    braid_file_close(&theirs);
  }
  unlink(path);
}

/* The file says no more than that it holds bytes; the type is the reader's to know. */
static void test_narrow(void **state) {
  (void)state;
  char path[64];
  braid_tensor *codes, *numbers;
  braid_file_view ours, theirs;
  snprintf(path, sizeof path, "/tmp/braid-npy-test-%ld", (long)getpid());
  assert_int_equal(braid_npy_load(NULL, data_file("int4"), &codes), BRAID_OK);
  braid_desc desc = *braid_tensor_desc(codes);
  assert_true(desc.dtype == BRAID_U8 && desc.rank == 1 && desc.dims[0] == 16);
  desc.dtype = BRAID_I4;
  assert_int_equal(braid_tensor_wrap(NULL, &desc, braid_tensor_data(codes), NULL, NULL, &numbers), BRAID_OK);
  for (int i = 0; i < 16; i++) assert_int_equal(braid_tensor_get_i64(numbers, i), i - 8);
  assert_int_equal(braid_npy_save(path, numbers), BRAID_OK);
  braid_tensor_release(numbers);
  braid_tensor_release(codes);
  assert_int_equal(braid_file_open(NULL, path, 0, &ours), BRAID_OK);
  assert_int_equal(braid_file_open(NULL, data_file("int4"), 0, &theirs), BRAID_OK);
  assert_int_equal(ours.bytes, theirs.bytes);
  assert_memory_equal(ours.data, theirs.data, ours.bytes);
  braid_file_close(&ours);
  braid_file_close(&theirs);
  unlink(path);
}

/* A version 1 file of `header` and `count` zero bytes. */
static braid_status parse(const char *header, size_t count, braid_tensor **out) {
  uint8_t bytes[512] = "\x93NUMPY\1";
  size_t length = strlen(header);
  bytes[8] = (uint8_t)length;
  bytes[9] = (uint8_t)(length >> 8);
  memcpy(bytes + 10, header, length);
  return braid_npy_parse(NULL, "test.npy", bytes, 10 + length + count, out);
}

static void test_hostile_headers(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t bytes;
    braid_status status;
    const char *says;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 7, BRAID_INVALID_FILE, "takes 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 9, BRAID_INVALID_FILE, "takes 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2), }", 8, BRAID_INVALID_FILE, "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", 8, BRAID_INVALID_FILE, "2^63"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9223372036854775807, 9223372036854775807), }", 0, BRAID_OK,
       ""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8, BRAID_INVALID_FILE, "a dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, BRAID_UNSUPPORTED, "dimensions"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, BRAID_UNSUPPORTED, "<c8"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", 8, BRAID_UNSUPPORTED, "\"\""},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, BRAID_UNSUPPORTED, "structured"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 4, BRAID_UNSUPPORTED, "|O"},
      {"{'descr': '<f4', 'fortran_order': False, }", 4, BRAID_INVALID_FILE, "shape"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, BRAID_INVALID_FILE, "once"},
      {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4, BRAID_INVALID_FILE, "True or False"},
      {"{'descr': '<f4", 4, BRAID_INVALID_FILE, "byte 24"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4, BRAID_INVALID_FILE, "nothing more"},
      {"", 4, BRAID_INVALID_FILE, "\"{\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_tensor *tensor;
    assert_int_equal(parse(cases[i].header, cases[i].bytes, &tensor), cases[i].status);
    if (cases[i].status == BRAID_OK) {
      braid_tensor_release(tensor);
      continue;
    }
    assert_null(tensor);
    assert_non_null(strstr(braid_error_detail(), "test.npy"));
    if (!strstr(braid_error_detail(), cases[i].says)) fail_msg("%s lacks %s", braid_error_detail(), cases[i].says);
  }
}

/* Every prefix of a good file fails, and so does every file with one byte of its head changed, or it is still read
 * within its bounds. */
static void test_truncated_and_changed(void **state) {
  (void)state;
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, data_file("little_f4"), 0, &view), BRAID_OK);
  uint8_t *copy = malloc(view.bytes);
  assert_non_null(copy);
  braid_tensor *tensor;
  for (size_t bytes = 0; bytes < view.bytes; bytes++) {
    uint8_t *cut = malloc(bytes ? bytes : 1);
    assert_non_null(cut);
    memcpy(cut, view.data, bytes);
    assert_int_equal(braid_npy_parse(NULL, "cut", cut, bytes, &tensor), BRAID_INVALID_FILE);
    free(cut);
  }
  for (size_t at = 0; at < 128; at++) {
    for (unsigned value = 0; value < 256; value++) {
      memcpy(copy, view.data, view.bytes);
      copy[at] = (uint8_t)value;
      if (braid_npy_parse(NULL, "changed", copy, view.bytes, &tensor) == BRAID_OK)
        braid_tensor_release(tensor);
      else
        assert_null(tensor);
    }
  }
  free(copy);
  braid_file_close(&view);
}

static braid_status load(const braid_allocator *allocator, void *context) {
  braid_tensor *tensor;
  braid_status status = braid_npy_load(allocator, context, &tensor);
  braid_tensor_release(tensor);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(load, (void *)(uintptr_t)data_file("fortran"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_of_numpy),  cmocka_unit_test(test_written_as_numpy_does),
      cmocka_unit_test(test_hostile_headers), cmocka_unit_test(test_truncated_and_changed),
      cmocka_unit_test(test_narrow),          cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
