/* Tensors whose numbers are computed when somebody asks: once, whoever asks and however many do at a time. */
#include "tensor/deferred.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "oom.h"

enum { kCount = 1000, kThreads = 4 };

static atomic_int filled, released;

static void double_all(void *context, const void *source, void *data) {
  atomic_fetch_add((atomic_int *)context, 1);
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  for (int i = 0; i < kCount; i++) ((float *)data)[i] = 2 * ((const float *)source)[i];
}

static void count_release(void *context) {
  (void)context;
  atomic_fetch_add(&released, 1);
}

static const braid_desc *vector(void) {
  static braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){kCount}), BRAID_OK);
  return &desc;
}

static braid_tensor *ones(void) {
  braid_tensor *tensor;
  assert_int_equal(braid_tensor_create(NULL, vector(), &tensor), BRAID_OK);
  for (int i = 0; i < kCount; i++) braid_tensor_set_f64(tensor, i, 1);
  return tensor;
}

static braid_tensor *twice(braid_tensor *source) {
  braid_tensor *tensor;
  braid_deferred deferred = {double_all, count_release, &filled, source};
  assert_int_equal(braid_tensor_defer(NULL, vector(), &deferred, &tensor), BRAID_OK);
  return tensor;
}

static int setup(void **state) {
  (void)state;
  atomic_store(&filled, 0), atomic_store(&released, 0);
  return 0;
}

static void *ask(void *context) {
  const float *data = braid_tensor_const_data(context);
  return data[kCount - 1] == 2 ? context : NULL;
}

static void test_once(void **state) {
  (void)state;
  pthread_t threads[kThreads];
  braid_tensor *source = ones(), *tensor = twice(source);
  braid_tensor_release(source);
  assert_int_equal(atomic_load(&filled), 0);
  for (int i = 0; i < kThreads; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, tensor), 0);
  for (int i = 0; i < kThreads; i++) {
    void *right;
    pthread_join(threads[i], &right);
    assert_ptr_equal(right, tensor);
  }
  assert_int_equal(atomic_load(&filled), 1);
  assert_int_equal(atomic_load(&released), 1);
  assert_true(braid_tensor_get_f64(tensor, 3) == 2);
  braid_tensor_release(tensor);
  assert_int_equal(atomic_load(&released), 1);
}

static void test_nobody_asks(void **state) {
  (void)state;
  braid_tensor *source = ones(), *tensor = twice(source);
  braid_tensor_release(source);
  assert_non_null(braid_tensor_address(tensor));
  braid_tensor_release(tensor);
  assert_int_equal(atomic_load(&filled), 0);
  assert_int_equal(atomic_load(&released), 1);
}

/* The numbers of the first that has some; their own once they are there, at the address told before. */
static void test_preview(void **state) {
  (void)state;
  braid_tensor *source = ones(), *tensor = twice(source), *four = twice(tensor);
  const void *address = braid_tensor_address(four);
  assert_ptr_equal(braid_tensor_preview(four), braid_tensor_const_data(source));
  assert_int_equal(atomic_load(&filled), 0);
  assert_true(braid_tensor_get_f64(four, 0) == 4);
  assert_int_equal(atomic_load(&filled), 2);
  assert_ptr_equal(braid_tensor_preview(four), address);
  assert_ptr_equal(braid_tensor_const_data(four), address);
  braid_tensor_release(four);
  braid_tensor_release(tensor);
  braid_tensor_release(source);
}

static void fill_sevens(void *context, const void *source, void *data) {
  assert_null(source);
  atomic_fetch_add((atomic_int *)context, 1);
  for (int i = 0; i < kCount; i++) ((float *)data)[i] = 7;
}

/* Contents that are computed from nothing: looked at before they are asked for, they are there. */
static void test_no_source(void **state) {
  (void)state;
  braid_tensor *tensor, *unasked;
  braid_deferred deferred = {.fill = fill_sevens, .release = count_release, .context = &filled};
  assert_int_equal(braid_tensor_defer(NULL, vector(), &deferred, &tensor), BRAID_OK);
  assert_int_equal(braid_tensor_defer(NULL, vector(), &deferred, &unasked), BRAID_OK);
  const float *preview = braid_tensor_preview(tensor);
  assert_ptr_equal(preview, braid_tensor_address(tensor));
  assert_true(preview[0] == 7 && preview[kCount - 1] == 7);
  assert_true(braid_tensor_get_f64(tensor, kCount - 1) == 7 && braid_tensor_get_f64(tensor, 0) == 7);
  braid_tensor_release(unasked);
  assert_int_equal(atomic_load(&filled), 1);
  assert_int_equal(atomic_load(&released), 2);
  braid_tensor_release(tensor);
}

static braid_status create(const braid_allocator *allocator, void *context) {
  braid_deferred deferred = {double_all, NULL, &filled, context};
  braid_tensor *tensor;
  braid_status status = braid_tensor_defer(allocator, vector(), &deferred, &tensor);
  braid_tensor_release(tensor);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_tensor *source = ones();
  oom_sweep(create, source);
  braid_tensor_release(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_once, setup),          cmocka_unit_test_setup(test_nobody_asks, setup),
      cmocka_unit_test_setup(test_preview, setup),       cmocka_unit_test_setup(test_no_source, setup),
      cmocka_unit_test_setup(test_out_of_memory, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
