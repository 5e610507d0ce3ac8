/* Pools' gradients over images whose channels lie last: when they are, and which kernel they get. What the kernels
 * compute is up to the conformance suite. */
#include "launch/channels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "launch/families.h"

static const braid_kernel *gradient_kernel(void) {
  for (size_t i = 0; i < braid_launch_family_pool.count; i++)
    if (strcmp(braid_launch_family_pool.kernels[i].op, "MaxPoolGrad") == 0) return &braid_launch_family_pool.kernels[i];
  fail_msg("there is no kernel for MaxPoolGrad");
  return NULL;
}

typedef struct gradient {
  int64_t kernel[2], strides[2], input[2], output[2], channels;
  const char *function; /* of what is launched */
} gradient;

/* The layouts of dy and window as they come, and then of all three. */
static void expect_layouts(const gradient *g, const braid_layout *given, braid_layout expected) {
  const braid_operand inputs[] = {
      {.present = true, .desc = {.dtype = BRAID_BF16, .rank = 4, .dims = {2, g->channels, g->output[0], g->output[1]}}},
      {.present = true, .desc = {.dtype = BRAID_U8, .rank = 4, .dims = {2, g->channels, g->output[0], g->output[1]}}}};
  const braid_operand output = {
      .present = true, .desc = {.dtype = BRAID_BF16, .rank = 4, .dims = {2, g->channels, g->input[0], g->input[1]}}};
  const braid_node_desc node = {
      .op = "MaxPoolGrad", .name = "test", .input_count = 2, .output_count = 1, .inputs = inputs, .outputs = &output};
  braid_layout layouts[3] = {given[0], given[1], BRAID_LAYOUT_PLAIN};
  gradient_kernel()->layouts(&node, layouts, layouts + 2);
  for (int i = 0; i < 3; i++)
    if (layouts[i] != expected) fail_msg("%d channels: operand %d has another layout", (int)g->channels, i);
}

/* A plain error, as behind a Flatten, is turned and not the larger window and result. */
static void test_layouts(void **state) {
  (void)state;
  const braid_layout plain = BRAID_LAYOUT_PLAIN, last = BRAID_LAYOUT_BHWC;
  const gradient eights = {{2, 2}, {2, 2}, {8, 6}, {4, 3}, 16, NULL},
                 others = {{2, 2}, {2, 2}, {8, 6}, {4, 3}, 12, NULL};
  expect_layouts(&eights, (braid_layout[]){plain, plain}, plain);
  expect_layouts(&eights, (braid_layout[]){last, plain}, last);
  expect_layouts(&eights, (braid_layout[]){plain, last}, last);
  expect_layouts(&eights, (braid_layout[]){last, last}, last);
  expect_layouts(&others, (braid_layout[]){plain, last}, plain);
}

static void expect_function(const gradient *g) {
  braid_attr items[] = {{.name = "kernel_shape", .kind = BRAID_ATTR_INTS, .count = 2, .ints = g->kernel},
                        {.name = "strides", .kind = BRAID_ATTR_INTS, .count = 2, .ints = g->strides},
                        {.name = "input_shape", .kind = BRAID_ATTR_INTS, .count = 2, .ints = g->input}};
  const braid_attrs attrs = {.items = items, .count = 3};
  const braid_desc small = {
      .dtype = BRAID_F32, .rank = 4, .dims = {2, g->channels, g->output[0], g->output[1]}, .layout = BRAID_LAYOUT_BHWC};
  braid_desc window = small, large = small;
  window.dtype = BRAID_U8, large.dims[2] = g->input[0], large.dims[3] = g->input[1];
  const braid_operand inputs[] = {{.present = true, .desc = small}, {.present = true, .desc = window}};
  const braid_operand output = {.present = true, .desc = large};
  const braid_node_desc node = {.op = "MaxPoolGrad",
                                .name = "test",
                                .attrs = &attrs,
                                .input_count = 2,
                                .output_count = 1,
                                .inputs = inputs,
                                .outputs = &output};
  braid_launch_traits traits = {.gpu = true, .compute_units = 132, .local_bytes = 49152, .max_group = 1024};
  braid_launch_recipe recipe = {0};
  const braid_launch_kernel *kernel = gradient_kernel()->implementation;
  braid_launch_tune(&traits, &(braid_launch_knobs){0});
  assert_int_equal(kernel->plan(&traits, &node, &recipe), BRAID_OK);
  assert_int_equal(recipe.launch_count, 1);
  assert_string_equal(recipe.launches[0].function, g->function);
  braid_launch_recipe_deinit(&recipe);
}

static void test_tiles(void **state) {
  (void)state;
  static const gradient kGradients[] = {
      {{2, 2}, {2, 2}, {8, 6}, {4, 3}, 16, "max_pool_grad_tiles"},
      {{3, 1}, {3, 1}, {9, 5}, {3, 5}, 8, "max_pool_grad_tiles"},
      {{2, 2}, {2, 2}, {9, 6}, {4, 3}, 16, "max_pool_grad_last"},  /* a row that no window has */
      {{3, 3}, {2, 2}, {9, 7}, {4, 3}, 16, "max_pool_grad_last"},  /* windows overlap */
      {{1, 1}, {2, 2}, {7, 5}, {4, 3}, 16, "max_pool_grad_last"},  /* and leave places out */
      {{5, 4}, {5, 4}, {10, 8}, {2, 2}, 16, "max_pool_grad_last"}, /* many places */
  };
  for (size_t i = 0; i < sizeof kGradients / sizeof *kGradients; i++) expect_function(&kGradients[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
