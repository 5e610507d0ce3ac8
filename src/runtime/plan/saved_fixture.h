/* What the tests of saved plans share. */
#ifndef BRAID_RUNTIME_SAVED_FIXTURE_H
#define BRAID_RUNTIME_SAVED_FIXTURE_H

#include "braid/plan.h"
#include "runtime/execution/execution_fixture.h"

static inline void run(braid_plan *plan, const float *x, float *y) {
  braid_execution *execution;
  OK(braid_execution_create(plan, NULL, &execution));
  OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
  braid_execution_destroy(execution);
}

static inline braid_plan *plan_of(braid_machine *machine, const braid_graph *graph, const braid_plan_options *options) {
  braid_plan *plan;
  OK(braid_plan_create(machine, graph, options, &plan));
  return plan;
}

static inline void expect_same(braid_plan *a, braid_plan *b) {
  char *text;
  OK(braid_plan_compare(a, b, NULL, &text));
  if (text[0]) fail_msg("%s", text);
  braid_free(NULL, text);
}

/* A network in which every constant is few numbers. `scale`: of those that training changes. `bound`, `rows`: of those
 * that decide what is run: the end of a Clip that a convolution takes in, and numbers from which a shape is computed.
 */
static inline braid_graph *narrow_graph(float scale, float bound, int64_t rows) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, low, high, parts[2], minus;
  OK(braid_graph_create(NULL, "narrow", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 4, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  const int64_t kFour[] = {4, 1, 1, 1}, kOne[] = {1};
  braid_value_id conv[] = {x, add_tensor(graph, "w", BRAID_VALUE_CONSTANT, 4, kFour, scale),
                           add_tensor(graph, "b", BRAID_VALUE_CONSTANT, 1, kFour, scale)};
  OK(braid_graph_add_scalar(graph, BRAID_F32, 0, &low));
  OK(braid_graph_add_scalar(graph, BRAID_F32, bound, &high));
  braid_value_id norm[5] = {node(graph, "Clip", (braid_value_id[]){node(graph, "Conv", conv, 3), low, high}, 3)};
  static const char *const kNorm[] = {"scale", "shift", "mean", "variance"};
  for (int i = 0; i < 4; i++) {
    norm[1 + i] = add_tensor(graph, kNorm[i], BRAID_VALUE_CONSTANT, 1, kFour, scale);
    float *data = braid_tensor_data((braid_tensor *)(uintptr_t)braid_graph_value(graph, norm[1 + i]).tensor);
    for (int k = 0; i == 3 && k < 4; k++) data[k] = 1 + scale * (float)k;
  }
  braid_value_id y = node(graph, "BatchNormalization", norm, 5);
  y = node(graph, "PRelu", (braid_value_id[]){y, add_tensor(graph, "slope", BRAID_VALUE_CONSTANT, 1, kOne, scale)}, 2);
  y = node(graph, "Mul", (braid_value_id[]){y, add_tensor(graph, "gain", BRAID_VALUE_CONSTANT, 1, kOne, scale)}, 2);
  OK(braid_graph_add_int64s(graph, &rows, 1, &parts[0]));
  OK(braid_graph_add_int64s(graph, (int64_t[]){-1}, 1, &minus));
  parts[0] = node(graph, "Mul", (braid_value_id[]){parts[0], parts[0]}, 2); /* folded: read as what it came from */
  parts[1] = minus;
  braid_value_id shape = 0;
  braid_node_id concat;
  OK(braid_graph_add_node(graph, "Concat", NULL, parts, 2, &shape, 1, &concat));
  OK(braid_graph_set_int(graph, concat, "axis", 0));
  y = node(graph, "Reshape", (braid_value_id[]){y, shape}, 2);
  int64_t columns = 64 / (rows * rows);
  braid_value_id shift = add_tensor(graph, "apart", BRAID_VALUE_CONSTANT, 1, &columns, scale);
  OK(braid_graph_add_output(graph, node(graph, "Add", (braid_value_id[]){y, shift}, 2)));
  return graph;
}

#endif
