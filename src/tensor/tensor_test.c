#include "braid/tensor.h"

#include <math.h>
#include <string.h>

#include "oom.h"

static void test_desc(void **state) {
  (void)state;
  braid_desc desc;
  char text[64];
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 3, 5, 7}), BRAID_OK);
  assert_int_equal(braid_desc_count(&desc), 210);
  assert_int_equal(braid_desc_bytes(&desc), 840);
  desc.layout = BRAID_LAYOUT_BLOCKED16;
  assert_int_equal(braid_desc_bytes(&desc), 2 * 16 * 5 * 7 * 4);
  assert_string_equal(braid_desc_format(&desc, text, sizeof text), "float32[2,3,5,7]");
  assert_string_equal(braid_desc_format(&desc, text, 10), "float32[2");
  assert_int_equal(braid_desc_init(&desc, BRAID_U8, 0, NULL), BRAID_OK);
  assert_int_equal(braid_desc_count(&desc), 1);
  assert_int_equal(braid_desc_init(&desc, BRAID_F64, 3, (int64_t[]){INT64_MAX, INT64_MAX, 0}), BRAID_OK);
  assert_int_equal(braid_desc_bytes(&desc), 0);
}

static void test_desc_refuses(void **state) {
  (void)state;
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){-1}), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, -1, NULL), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_init(&desc, BRAID_U8, 2, (int64_t[]){INT64_MAX, 2}), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_init(&desc, BRAID_F64, 1, (int64_t[]){INT64_MAX / 8 + 1}), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_init(&desc, BRAID_NONE, 0, NULL), BRAID_INVALID_ARGUMENT);
}

/* Each type holds small whole numbers exactly; the narrow ones are in narrow_test.c. */
static void test_elements(void **state) {
  (void)state;
  for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT; dtype++) {
    if (braid_dtype_is_narrow((braid_dtype)dtype)) continue;
    braid_desc desc;
    braid_tensor *tensor;
    assert_int_equal(braid_desc_init(&desc, (braid_dtype)dtype, 1, (int64_t[]){100}), BRAID_OK);
    assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
    assert_int_equal((uintptr_t)braid_tensor_data(tensor) % 64, 0);
    for (int i = 0; i < 100; i++) braid_tensor_set_f64(tensor, i, i);
    for (int i = 0; i < 100; i++) {
      assert_int_equal(braid_tensor_get_i64(tensor, i), dtype == BRAID_BOOL ? i != 0 : i);
      assert_true(braid_tensor_get_f64(tensor, i) == (dtype == BRAID_BOOL ? i != 0 : i));
    }
    braid_tensor_release(tensor);
  }
}

static void test_integers_of_floats(void **state) {
  (void)state;
  double values[] = {NAN, INFINITY, -INFINITY, 1e300, -2.9, 2.9};
  int64_t wanted[] = {INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, -2, 2};
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, BRAID_F64, 1, (int64_t[]){6}), BRAID_OK);
  assert_int_equal(braid_tensor_wrap(NULL, &desc, values, NULL, NULL, &tensor), BRAID_OK);
  for (int i = 0; i < 6; i++) assert_int_equal(braid_tensor_get_i64(tensor, i), wanted[i]);
  braid_tensor_release(tensor);
}

/* What an integer type does not hold is its nearest. */
static void test_floats_for_integers(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    int64_t least, most;
  } kTypes[] = {{BRAID_I8, INT8_MIN, INT8_MAX},    {BRAID_I16, INT16_MIN, INT16_MAX}, {BRAID_I32, INT32_MIN, INT32_MAX},
                {BRAID_I64, INT64_MIN, INT64_MAX}, {BRAID_U8, 0, UINT8_MAX},          {BRAID_U16, 0, UINT16_MAX},
                {BRAID_U32, 0, UINT32_MAX},        {BRAID_U64, 0, -1 /* its bits */}};
  static const double kBeyond[] = {1e30, INFINITY};
  for (size_t t = 0; t < sizeof kTypes / sizeof *kTypes; t++) {
    braid_desc desc;
    braid_tensor *tensor;
    assert_int_equal(braid_desc_init(&desc, kTypes[t].dtype, 1, (int64_t[]){1}), BRAID_OK);
    assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
    for (int i = 0; i < 2; i++) {
      braid_tensor_set_f64(tensor, 0, kBeyond[i]);
      assert_true(braid_tensor_get_i64(tensor, 0) == kTypes[t].most);
      braid_tensor_set_f64(tensor, 0, -kBeyond[i]);
      assert_true(braid_tensor_get_i64(tensor, 0) == kTypes[t].least);
    }
    braid_tensor_set_f64(tensor, 0, NAN);
    assert_true(braid_tensor_get_i64(tensor, 0) == 0);
    braid_tensor_set_f64(tensor, 0, 99.9);
    assert_true(braid_tensor_get_i64(tensor, 0) == 99);
    braid_tensor_release(tensor);
  }
}

static void count_release(void *context) {
  ++*(int *)context;
}

static void test_references(void **state) {
  (void)state;
  int released = 0;
  float data[4] = {0};
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}), BRAID_OK);
  assert_int_equal(braid_tensor_wrap(NULL, &desc, data, count_release, &released, &tensor), BRAID_OK);
  assert_ptr_equal(braid_tensor_retain(tensor), tensor);
  assert_ptr_equal(braid_tensor_data(tensor), data);
  braid_tensor_release(tensor);
  assert_int_equal(released, 0);
  braid_tensor_release(tensor);
  assert_int_equal(released, 1);
  braid_tensor_release(NULL);
}

static braid_status create(const braid_allocator *allocator, void *context) {
  braid_tensor *tensor;
  braid_status status = braid_tensor_create(allocator, context, &tensor);
  braid_tensor_release(tensor);
  return status;
}

static braid_status wrap(const braid_allocator *allocator, void *context) {
  braid_tensor *tensor;
  braid_status status = braid_tensor_wrap(allocator, context, NULL, NULL, NULL, &tensor);
  braid_tensor_release(tensor);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}), BRAID_OK);
  oom_sweep(create, &desc);
  oom_sweep(wrap, &desc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_desc),
      cmocka_unit_test(test_desc_refuses),
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_integers_of_floats),
      cmocka_unit_test(test_floats_for_integers),
      cmocka_unit_test(test_references),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
