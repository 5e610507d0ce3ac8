/* What the builder refuses, so that nothing is read as something else. */
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void refused(braid_status status, braid_status expected, const char *sentence) {
  if (status != expected || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s: %s", braid_status_text(status), braid_error_detail(), braid_status_text(expected),
             sentence);
}

static void test_layouts(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc plain, last;
  braid_value_id x, id;
  braid_node_id node;
  braid_tensor *tensor;
  const char *kSentence = "is in layout BHWC, a graph's values are plain";
  ok(braid_graph_create(NULL, "layouts", &graph));
  ok(braid_desc_init(&plain, BRAID_F32, 4, (int64_t[]){1, 2, 2, 3}));
  last = plain;
  ok(braid_desc_set_layout(&last, BRAID_LAYOUT_BHWC));
  ok(braid_tensor_create(NULL, &last, &tensor));
  ok(braid_graph_add_input(graph, "x", &plain, &x));
  ok(braid_graph_add_node(graph, "Constant", NULL, NULL, 0, &id, 1, &node));
  size_t values = braid_graph_value_count(graph);
  refused(braid_graph_add_input(graph, "z", &last, &id), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(id, -1);
  refused(braid_graph_add_tensor(graph, "k", BRAID_VALUE_CONSTANT, tensor, &id), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(id, -1);
  refused(braid_graph_bind_input(graph, x, tensor), BRAID_INVALID_ARGUMENT, kSentence);
  refused(braid_graph_set_tensor(graph, node, "value", tensor), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(braid_graph_value_count(graph), values);
  assert_int_equal(braid_graph_input_count(graph), 1);
  braid_tensor_release(tensor);
  braid_graph_destroy(graph);
}

static void test_attributes(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y = 0;
  braid_node_id node;
  const int64_t kTwo[] = {2, 2};
  ok(braid_graph_create(NULL, "attributes", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 8, 8}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  ok(braid_graph_add_node(graph, "MaxPool", "pool", &x, 1, &y, 1, &node));
  ok(braid_graph_set_ints(graph, node, "kernel_shape", kTwo, 2));
  ok(braid_graph_set_string(graph, node, "__note", "a tool's"));
  refused(braid_graph_set_int(graph, node, "kernel_shape", 2), BRAID_INVALID_GRAPH,
          "node pool (MaxPool): attribute kernel_shape is an integer, expected integers");
  size_t count;
  assert_non_null(braid_attr_ints(braid_graph_node(graph, node).attrs, "kernel_shape", &count));
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_attributes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
