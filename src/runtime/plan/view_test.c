/* Views in plans: a name for memory costs nothing where some layout has the new shape in the same memory, and a
 * conversion where none has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "braid/session.h"
#include "runtime/execution/execution_fixture.h"

static braid_layout wanted; /* by Relu of the device "choosy", which is the CPU otherwise */

static void choose(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                   braid_layout *outputs) {
  (void)device, (void)kernel;
  if (strcmp(node->op, "Relu") == 0) inputs[0] = outputs[0] = wanted;
}

static braid_registry *make_registry(void) {
  braid_backend choosy = renamed_cpu("choosy");
  choosy.layouts = choose;
  return registry_with(&choosy);
}

static size_t count_conversions(const braid_session *session) {
  size_t count = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    count += strcmp(braid_session_plan(session, i).op, "LayoutConvert") == 0;
  return count;
}

/* x -> Relu (in `layout`) -> Reshape -> Neg -> y, which is to be -max(x, 0). Returns the conversions. */
static size_t run(const char *layout, const int64_t dims[4], int rank, const int64_t *to) {
  braid_graph *graph;
  braid_value_id x, shape, relu, reshaped, y;
  braid_desc desc, shape_desc;
  braid_tensor *tensor;
  braid_session *session;
  braid_registry *registry = make_registry();
  OK(braid_layout_parse(layout, &wanted));
  OK(braid_graph_create(NULL, "views", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, dims));
  OK(braid_desc_init(&shape_desc, BRAID_I64, 1, (int64_t[]){rank}));
  OK(braid_tensor_create(NULL, &shape_desc, &tensor));
  memcpy(braid_tensor_data(tensor), to, (size_t)rank * sizeof *to);
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_tensor(graph, "shape", BRAID_VALUE_CONSTANT, tensor, &shape));
  OK(braid_graph_add_node(graph, "Relu", "relu", &x, 1, &relu, 1, NULL));
  OK(braid_graph_add_node(graph, "Reshape", "reshape", (braid_value_id[]){relu, shape}, 2, &reshaped, 1, NULL));
  OK(braid_graph_add_node(graph, "Neg", "neg", &reshaped, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "choosy", .no_fusion = true, .registry = registry},
                          &session));
  int64_t count = braid_desc_count(&desc);
  float *in = braid_zalloc_array(NULL, (size_t)count, sizeof *in),
        *out = braid_zalloc_array(NULL, (size_t)count, sizeof *out);
  for (int64_t i = 0; i < count; i++) in[i] = (float)(i * 37 % 101) - 50;
  OK(braid_session_run(session, (const void *const[]){in}, (void *const[]){out}));
  for (int64_t i = 0; i < count; i++)
    if (out[i] != -fmaxf(in[i], 0)) fail_msg("%s: element %lld is %g", layout, (long long)i, (double)out[i]);
  size_t conversions = count_conversions(session);
  braid_free(NULL, in);
  braid_free(NULL, out);
  braid_session_destroy(session);
  braid_tensor_release(tensor);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
  return conversions;
}

/* One conversion brings x into the layout, one y out of it: none is left for the view. */
static void test_views(void **state) {
  (void)state;
  const int64_t image[] = {8, 6, 4, 5}, pixel[] = {8, 32, 1, 1}, odd[] = {8, 20, 2, 3}, single[] = {8, 1, 4, 5};
  assert_int_equal(run("CHWB", image, 2, (int64_t[]){8, 120}), 2);
  assert_int_equal(run("CHWB", image, 3, (int64_t[]){8, 6, 20}), 2);
  assert_int_equal(run("CHWB", image, 5, (int64_t[]){8, 6, 1, 20, 1}), 2);
  assert_int_equal(run("BHWC", image, 3, (int64_t[]){8, 6, 20}), 2);
  assert_int_equal(run("dcba", image, 6, (int64_t[]){2, 4, 6, 4, 5, 1}), 2);
  assert_int_equal(run("aBcd16b", odd, 3, (int64_t[]){8, 20, 6}), 2);
  /* the memory of these is plain already */
  assert_int_equal(run("aBcd16b", pixel, 2, (int64_t[]){8, 32}), 0);
  assert_int_equal(run("BHWC", pixel, 2, (int64_t[]){8, 32}), 0);
  assert_int_equal(run("BHWC", single, 2, (int64_t[]){8, 20}), 0);
  assert_int_equal(run("plain", image, 2, (int64_t[]){8, 120}), 0);
}

/* No layout has these shapes in the same memory: plain first, and plain it stays. */
static void test_conversions(void **state) {
  (void)state;
  const int64_t image[] = {8, 6, 4, 5}, blocks[] = {8, 32, 2, 3}, odd[] = {8, 20, 2, 3};
  assert_int_equal(run("CHWB", image, 2, (int64_t[]){48, 20}), 2);
  assert_int_equal(run("BHWC", image, 2, (int64_t[]){8, 120}), 2);
  assert_int_equal(run("aBcd16b", blocks, 2, (int64_t[]){8, 192}), 2);
  assert_int_equal(run("aBcd16b", odd, 1, (int64_t[]){960}), 2);
}

/* What a kernel asks for must be a layout of its operands. */
static void test_refused(void **state) {
  (void)state;
  braid_graph *graph;
  braid_value_id x, y;
  braid_desc desc;
  braid_session *session;
  braid_registry *registry = make_registry();
  wanted = ~(braid_layout)0;
  OK(braid_graph_create(NULL, "refused", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 2, 3, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_node(graph, "Relu", "relu", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  assert_int_equal(
      braid_session_create(graph, &(braid_session_options){.devices = "choosy", .registry = registry}, &session),
      BRAID_INTERNAL);
  assert_non_null(strstr(braid_error_detail(), "relu"));
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_conversions),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
