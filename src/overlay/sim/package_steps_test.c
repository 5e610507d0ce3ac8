/* A package a layer at a time: whatever number of cores computes which layers, the results are those of the reference's
 * plain loops, bit for bit. */
#include "overlay/sim/package_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oom.h"

#include "overlay/compiler/compiler_fixture.h"
#include "overlay/reference.h"
#include "overlay/sim/package_run.h"

enum { kTrials = 40, kKinds = 3 };

typedef struct subject {
  drawn_network n;
  braid_package *package;
  braid_overlay_design design;
  int8_t *bytes, *expected[kMostMaps];
  braid_tensor *input;
} subject;

static size_t numbers_of(const braid_overlay_map *map) {
  return (size_t)map->channels * (size_t)map->rows * (size_t)map->columns;
}

static bool subject_init(subject *s) {
  *s = (subject){0};
  draw_network(&s->n);
  s->design = draw_design();
  s->design.host_gigabytes_per_second = 3;
  braid_status status = braid_package_compile(&s->n.network, &s->design, NULL, &s->package);
  assert_true(status == BRAID_OK || status == BRAID_UNSUPPORTED);
  if (status != BRAID_OK) return false;
  const braid_overlay_map *map = &s->n.maps[s->n.inputs[0].map];
  const int64_t dims[] = {1, map->channels, map->rows, map->columns};
  braid_desc desc;
  s->bytes = malloc(numbers_of(map));
  for (size_t i = 0; i < numbers_of(map); i++) s->bytes[i] = (int8_t)draw(-128, 127);
  assert_int_equal(braid_desc_init(&desc, BRAID_I8, 4, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &s->input), BRAID_OK);
  memcpy(braid_tensor_data(s->input), s->bytes, numbers_of(map));
  for (size_t o = 0; o < s->n.network.output_count; o++)
    s->expected[o] = malloc(numbers_of(&s->n.maps[s->n.outputs[o].map]));
  assert_int_equal(braid_overlay_reference(&s->n.network, (const int8_t *const[]){s->bytes}, s->expected, NULL),
                   BRAID_OK);
  return true;
}

static void subject_deinit(subject *s) {
  for (size_t o = 0; o < kMostMaps; o++) free(s->expected[o]);
  free(s->bytes);
  braid_tensor_release(s->input);
  braid_package_destroy(s->package);
  drawn_free(&s->n);
}

static void expect_outputs(const subject *s, const braid_overlay_image *image) {
  for (size_t o = 0; o < s->n.network.output_count; o++) {
    const braid_overlay_map *map = &s->n.maps[s->n.outputs[o].map];
    braid_tensor *tensor;
    assert_int_equal(braid_package_get_output(s->package, o, image, NULL, &tensor), BRAID_OK);
    assert_int_equal(braid_tensor_desc(tensor)->dtype, BRAID_I8);
    assert_memory_equal(braid_tensor_const_data(tensor), s->expected[o], numbers_of(map));
    braid_tensor_release(tensor);
  }
}

/* Some numbers of cores take turns after stretches of random length. */
static void run_turns(const subject *s) {
  braid_package_steps *steps[kKinds];
  braid_overlay_image image;
  for (int i = 0; i < kKinds; i++)
    assert_int_equal(braid_package_steps_create(s->package, &s->design, draw(1, s->design.cores), NULL, &steps[i]),
                     BRAID_OK);
  assert_int_equal(braid_package_make_image(s->package, NULL, &image), BRAID_OK);
  assert_int_equal(braid_package_put_input(s->package, 0, s->input, &image), BRAID_OK);
  size_t layers = braid_package_steps_get_info(steps[0]).layers;
  assert_int_equal(layers, s->package->layer_count);
  for (size_t layer = 0, end; layer < layers; layer = end) {
    end = layer + (size_t)draw(1, (int32_t)(layers - layer));
    if (braid_package_steps_run(steps[draw(0, kKinds - 1)], &image, layer, end) != BRAID_OK)
      fail_msg("%s", braid_error_detail());
  }
  expect_outputs(s, &image);
  assert_int_equal(braid_package_steps_run(steps[0], &image, layers, layers), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_package_steps_run(steps[0], &image, 0, layers + 1), BRAID_INVALID_ARGUMENT);
  braid_free(NULL, image.ddr);
  for (int i = 0; i < kKinds; i++) braid_package_steps_destroy(steps[i]);
}

/* The modelled time of a layer is the compiler's estimate, as `braid compile` shows it. */
static void expect_times(const subject *s) {
  braid_package_steps *steps;
  braid_overlay_program_info program;
  assert_int_equal(braid_package_steps_create(s->package, &s->design, 1, NULL, &steps), BRAID_OK);
  assert_int_equal(braid_overlay_package_share(s->package, 1, NULL, &program), BRAID_OK);
  braid_package_steps_info info = braid_package_steps_get_info(steps);
  double cycles = info.seconds * s->design.clock_mhz * 1e6, sum = 0;
  for (size_t i = 0; i < info.layers; i++) sum += info.layer_seconds[i];
  assert_true(cycles > 0.999999 * (double)program.cycles && cycles < 1.000001 * (double)program.cycles);
  assert_true(sum == info.seconds && info.bytes == (size_t)program.bytes && info.compile_microseconds >= 0);
  braid_package_steps_destroy(steps);
}

static void test_turns(void **state) {
  (void)state;
  int done = 0;
  draw_key = 91;
  for (int trial = 0; trial < kTrials; trial++) {
    subject s;
    if (subject_init(&s)) {
      run_turns(&s);
      expect_times(&s);
      done++;
    }
    subject_deinit(&s);
  }
  assert_true(done > kTrials / 3);
}

static void test_refused(void **state) {
  (void)state;
  subject s;
  braid_package_steps *steps;
  draw_key = 92;
  while (!subject_init(&s)) subject_deinit(&s);
  assert_int_equal(braid_package_steps_create(s.package, &s.design, 0, NULL, &steps), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_package_steps_create(s.package, &s.design, s.design.cores + 1, NULL, &steps),
                   BRAID_INVALID_ARGUMENT);
  assert_null(steps);
  s.design.channels_out *= 2;
  assert_int_equal(braid_package_steps_create(s.package, &s.design, 1, NULL, &steps), BRAID_INVALID_ARGUMENT);
  subject_deinit(&s);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  const subject *s = context;
  braid_package_steps *steps = NULL;
  braid_overlay_image image = {0};
  braid_status status = braid_package_make_image(s->package, allocator, &image);
  if (status == BRAID_OK) status = braid_package_steps_create(s->package, &s->design, 1, allocator, &steps);
  if (status == BRAID_OK) status = braid_package_steps_run(steps, &image, 0, s->package->layer_count);
  braid_package_steps_destroy(steps);
  braid_free(allocator, image.ddr);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  subject s;
  draw_key = 93;
  while (!subject_init(&s)) subject_deinit(&s);
  assert_true(oom_sweep(attempt, &s) > 5);
  subject_deinit(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
