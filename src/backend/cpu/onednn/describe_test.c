/* Descriptions of oneDNN's primitives are asked for once: of equal nodes, of the match, the query and the preparation
 * of one node, and of other plans, as long as a device is open. */
#include "backend/cpu/onednn/describe.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/machine.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

static void product_of(int64_t rows, braid_dnnl_request *out) {
  braid_dnnl_request_of(BRAID_DNNL_MATMUL, out);
  out->x = braid_md_plain(2, (int64_t[]){rows, 8});
  out->w = braid_md_plain(2, (int64_t[]){8, 4});
  out->y = braid_md_plain(2, (int64_t[]){rows, 4});
}

static braid_description *describe(int64_t rows) {
  braid_dnnl_request request;
  braid_description *description;
  product_of(rows, &request);
  OK(braid_describe_single(&request, &description));
  return description;
}

static void test_kept_while_used(void **state) {
  (void)state;
  uint64_t before = braid_descriptions_made();
  braid_descriptions_enter();
  braid_description *first = describe(3), *again = describe(3), *other = describe(4);
  assert_ptr_equal(first, again);
  assert_ptr_not_equal(first, other);
  assert_int_equal(braid_descriptions_made() - before, 2);
  braid_descriptions_enter();
  braid_descriptions_leave();
  braid_description_release(describe(3));
  assert_int_equal(braid_descriptions_made() - before, 2);
  braid_descriptions_leave();
  braid_description_release(describe(3)); /* nobody keeps this one */
  braid_description_release(describe(3));
  assert_int_equal(braid_descriptions_made() - before, 4);
  braid_md weights = braid_description_md(first, dnnl_query_weights_md); /* ours still, though no longer kept */
  assert_int_equal(braid_md_bytes(&weights), 8 * 4 * sizeof(float));
  braid_description_release(first), braid_description_release(again), braid_description_release(other);
}

/* What oneDNN has not is known too. */
static void test_refusals_are_kept(void **state) {
  (void)state;
  braid_dnnl_request request;
  braid_description *description;
  product_of(3, &request);
  request.w = braid_md_plain(2, (int64_t[]){9, 4}); /* does not go with the other */
  braid_descriptions_enter();
  uint64_t before = braid_descriptions_made();
  for (int i = 0; i < 3; i++) {
    assert_int_equal(braid_describe_single(&request, &description), BRAID_UNSUPPORTED);
    assert_null(description);
  }
  assert_int_equal(braid_descriptions_made() - before, 1);
  braid_descriptions_leave();
}

enum { kMany = 4000, kBound = 1024 };

static void test_bounded(void **state) {
  (void)state;
  braid_descriptions_enter();
  for (int i = 1; i <= kMany; i++) braid_description_release(describe(i));
  uint64_t before = braid_descriptions_made();
  braid_description_release(describe(kMany));
  assert_int_equal(braid_descriptions_made() - before, 0);
  for (int i = 1; i <= kMany; i++) braid_description_release(describe(i));
  assert_true(braid_descriptions_made() - before >= kMany - kBound);
  braid_descriptions_leave();
}

enum { kThreads = 4, kRounds = 200, kShapes = 20 };

static void *describe_all(void *context) {
  for (int i = 0; i < kRounds; i++)
    for (int rows = 1; rows <= kShapes; rows++) {
      braid_dnnl_request request;
      braid_description *description;
      product_of(rows, &request);
      if (braid_describe_single(&request, &description) != BRAID_OK) return context;
      braid_description_release(description);
    }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[kThreads];
  static char failure;
  braid_descriptions_enter();
  for (int i = 0; i < kThreads; i++) assert_int_equal(pthread_create(&threads[i], NULL, describe_all, &failure), 0);
  for (int i = 0; i < kThreads; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  braid_descriptions_leave();
}

enum { kLayers = 6, kChannels = 32 };

/* Equal convolutions, one after another. */
static braid_graph *equal_layers(void) {
  braid_graph *graph;
  braid_desc image, filter;
  braid_value_id value, weights;
  OK(braid_graph_create(NULL, "layers", &graph));
  OK(braid_desc_init(&image, BRAID_F32, 4, (int64_t[]){1, kChannels, 9, 9}));
  OK(braid_desc_init(&filter, BRAID_F32, 4, (int64_t[]){kChannels, kChannels, 3, 3}));
  OK(braid_graph_add_input(graph, "x", &image, &value));
  for (int i = 0; i < kLayers; i++) {
    braid_tensor *tensor;
    braid_node_id node;
    OK(braid_tensor_create(NULL, &filter, &tensor));
    for (int64_t k = 0; k < braid_desc_count(&filter); k++) braid_tensor_set_f64(tensor, k, 0.01);
    OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &weights));
    braid_tensor_release(tensor);
    OK(braid_graph_add_node(graph, "Conv", NULL, (braid_value_id[]){value, weights}, 2, &value, 1, &node));
    OK(braid_graph_set_ints(graph, node, "pads", (int64_t[]){1, 1, 1, 1}, 4));
    OK(braid_graph_add_node(graph, "Relu", NULL, &value, 1, &value, 1, NULL));
  }
  OK(braid_graph_add_output(graph, value));
  return graph;
}

static void test_plans(void **state) {
  (void)state;
  braid_graph *graph = equal_layers();
  braid_machine *machine;
  braid_plan *plan, *other, *third;
  braid_execution *execution;
  OK(braid_machine_create(NULL, NULL, &machine));
  uint64_t before = braid_descriptions_made();
  OK(braid_plan_create(machine, graph, NULL, &plan));
  uint64_t planned = braid_descriptions_made();
  /* with and without the activation; two threads may ask for the same at once */
  assert_in_range(planned - before, 1, 4);
  OK(braid_plan_create(machine, graph, NULL, &other));
  OK(braid_execution_create(plan, NULL, &execution));
  assert_true(braid_descriptions_made() - planned <= kLayers); /* how weights are packed is asked for once each */
  uint64_t ready = braid_descriptions_made();
  braid_execution_destroy(execution);
  OK(braid_plan_create(machine, graph, NULL, &third));
  assert_int_equal(braid_descriptions_made(), ready);
  braid_plan_release(plan), braid_plan_release(other), braid_plan_release(third);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept_while_used), cmocka_unit_test(test_refusals_are_kept),
                                     cmocka_unit_test(test_bounded), cmocka_unit_test(test_threads),
                                     cmocka_unit_test(test_plans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
