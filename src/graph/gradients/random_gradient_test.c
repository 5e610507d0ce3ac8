/* Random small graphs: gradients through many ops at once, of values that are used several times and broadcast, against
 * finite differences. The seed is fixed and printed, with the graph's ops, where they differ. */
#include "gradcheck.h"

#include <stdio.h>
#include <string.h>

enum { kGraphs = 16, kInputs = 3, kNodes = 9, kMostValues = kInputs + kNodes, kMostElements = 120 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct random_graph {
  gradcheck check;
  uint32_t number;
  uint64_t draws;
  braid_value_id values[kMostValues];
  bool used[kMostValues];
  size_t count;
  char text[512];
} random_graph;

static uint32_t draw(random_graph *g, uint32_t below) {
  return braid_random_below(GRADCHECK_SEED, 3, g->number, g->draws++, below);
}

static size_t pick(random_graph *g) {
  return draw(g, (uint32_t)g->count);
}

static braid_desc desc_of(const random_graph *g, size_t value) {
  return braid_graph_value(g->check.graph, g->values[value]).desc;
}

static braid_value_id ints(random_graph *g, const int64_t *values, size_t count) {
  braid_value_id id;
  gradcheck_ok(&g->check, braid_graph_add_int64s(g->check.graph, values, count, &id));
  return id;
}

/* Adds a node over values and notes what it is. */
static braid_node_id node(random_graph *g, const char *op, const braid_value_id *inputs, size_t count,
                          braid_value_id *out) {
  size_t length = strlen(g->text);
  snprintf(g->text + length, sizeof g->text - length, " %s", op);
  *out = 0;
  return gradcheck_node(&g->check, op, inputs, count, out, 1);
}

static void set(random_graph *g, braid_node_id id, const char *name, int64_t value) {
  gradcheck_ok(&g->check, braid_graph_set_int(g->check.graph, id, name, value));
  gradcheck_ok(&g->check, braid_graph_infer_node(g->check.graph, id));
}

/* --- kinds of nodes: each makes one value of those there are -------------------------------------------------------
 */
static braid_value_id elementwise(random_graph *g) {
  static const char *const kOps[] = {"Tanh", "Sigmoid",  "Sin", "Softsign",  "Erf",  "Gelu", "Softplus",
                                     "Relu", "Identity", "Abs", "LeakyRelu", "Atan", "Neg",  "Swish"};
  size_t a = pick(g);
  braid_value_id y;
  g->used[a] = true;
  node(g, kOps[draw(g, COUNT(kOps))], &g->values[a], 1, &y);
  return y;
}

static braid_value_id pair(random_graph *g) {
  static const char *const kOps[] = {"Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum", "PRelu"};
  size_t a = pick(g), b = pick(g), op = draw(g, COUNT(kOps));
  braid_desc da = desc_of(g, a), db = desc_of(g, b), both;
  braid_value_id y;
  bool fits = braid_broadcast(&da, &db, &both) && braid_desc_count(&both) <= kMostElements;
  if (fits && op == 7) fits = braid_desc_same_shape(&both, &da);
  if (!fits) b = a;
  g->used[a] = g->used[b] = true;
  node(g, kOps[op], (braid_value_id[]){g->values[a], g->values[b]}, 2, &y);
  return y;
}

static braid_value_id reduction(random_graph *g) {
  static const char *const kOps[] = {"ReduceSum",  "ReduceMean",      "ReduceMax",      "ReduceMin",
                                     "ReduceProd", "ReduceLogSumExp", "ReduceSumSquare"};
  size_t a = pick(g);
  int64_t axis = draw(g, (uint32_t)desc_of(g, a).rank);
  braid_value_id y;
  g->used[a] = true;
  node(g, kOps[draw(g, COUNT(kOps))], (braid_value_id[]){g->values[a], ints(g, &axis, 1)}, 2, &y);
  return y;
}

static braid_value_id along_axis(random_graph *g) {
  size_t a = pick(g);
  int64_t axis = draw(g, (uint32_t)desc_of(g, a).rank);
  uint32_t kind = draw(g, 4);
  braid_value_id y;
  g->used[a] = true;
  if (kind < 2) {
    set(g, node(g, kind ? "Softmax" : "LogSoftmax", &g->values[a], 1, &y), "axis", axis);
  } else {
    braid_node_id id =
        node(g, kind == 2 ? "CumSum" : "CumProd", (braid_value_id[]){g->values[a], ints(g, &axis, 1)}, 2, &y);
    set(g, id, "exclusive", draw(g, 2));
    set(g, id, "reverse", draw(g, 2));
  }
  return y;
}

static braid_value_id padded(random_graph *g) {
  static const char *const kModes[] = {"constant", "reflect", "edge", "wrap"};
  size_t a = pick(g);
  braid_desc desc = desc_of(g, a);
  int64_t pads[2 * BRAID_MAX_RANK] = {0};
  uint32_t axis = draw(g, (uint32_t)desc.rank);
  pads[axis] = draw(g, 3);
  pads[(uint32_t)desc.rank + axis] = (int64_t)draw(g, 3) - (desc.dims[axis] > 1);
  braid_value_id y;
  g->used[a] = true;
  braid_node_id id = node(g, "Pad", (braid_value_id[]){g->values[a], ints(g, pads, 2 * (size_t)desc.rank)}, 2, &y);
  gradcheck_ok(&g->check, braid_graph_set_string(g->check.graph, id, "mode", kModes[draw(g, 4)]));
  return y;
}

static braid_value_id moved(random_graph *g) {
  size_t a = pick(g);
  braid_desc desc = desc_of(g, a);
  int64_t axis = draw(g, (uint32_t)desc.rank), size = desc.dims[axis], list[3];
  braid_value_id y;
  g->used[a] = true;
  for (size_t i = 0; i < 3; i++) list[i] = (int64_t)draw(g, (uint32_t)(2 * size)) - size;
  switch (draw(g, 4)) {
  case 0: {
    int64_t perm[BRAID_MAX_RANK];
    for (int i = 0; i < desc.rank; i++) perm[i] = (i + 1) % desc.rank;
    braid_node_id id = node(g, "Transpose", &g->values[a], 1, &y);
    gradcheck_ok(&g->check, braid_graph_set_ints(g->check.graph, id, "perm", perm, (size_t)desc.rank));
    gradcheck_ok(&g->check, braid_graph_infer_node(g->check.graph, id));
    return y;
  }
  case 1: /* backwards */
    node(g, "Slice",
         (braid_value_id[]){g->values[a], ints(g, (int64_t[]){-1}, 1), ints(g, (int64_t[]){INT64_MIN}, 1),
                            ints(g, &axis, 1), ints(g, (int64_t[]){-1}, 1)},
         5, &y);
    return y;
  case 2:
    set(g, node(g, "Gather", (braid_value_id[]){g->values[a], ints(g, list, 3)}, 2, &y), "axis", axis);
    return y;
  default:
    set(g, node(g, "Concat", (braid_value_id[]){g->values[a], g->values[a]}, 2, &y), "axis", axis);
    return y;
  }
}

static braid_value_id product(random_graph *g) {
  size_t a = pick(g);
  braid_value_id y;
  g->used[a] = true;
  set(g, node(g, "MatMul", (braid_value_id[]){g->values[a], g->values[a]}, 2, &y), "transB", 1);
  return y;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static void add_node(random_graph *g) {
  static braid_value_id (*const kKinds[])(random_graph *) = {elementwise, elementwise, pair,  pair,   reduction,
                                                             along_axis,  padded,      moved, product};
  braid_value_id y = kKinds[draw(g, COUNT(kKinds))](g);
  braid_desc desc = braid_graph_value(g->check.graph, y).desc;
  if (braid_desc_count(&desc) > kMostElements) /* back to few */
    node(g, "ReduceMean", (braid_value_id[]){y, ints(g, (int64_t[]){-1}, 1)}, 2, &y);
  node(g, "Tanh", (braid_value_id[]){y}, 1, &y); /* keeps numbers small, so that differences are exact enough */
  g->used[g->count] = false;
  g->values[g->count++] = y;
}

static void random_graphs(void **state) {
  (void)state;
  static const int64_t kDims[kInputs][3] = {{2, 3, 4}, {2, 1, 4}, {3, 1, 1}};
  print_message("seed %d\n", GRADCHECK_SEED);
  for (uint32_t n = 0; n < kGraphs; n++) {
    random_graph g = {.number = n};
    braid_value_id outputs[kMostValues];
    size_t count = 0;
    snprintf(g.text, sizeof g.text, "graph %u:", n);
    gradcheck_begin(&g.check, g.text);
    g.check.stream = n * 100;
    for (; g.count < kInputs; g.count++) {
      bool last = g.count + 1 == kInputs;
      g.values[g.count] = gradcheck_input(&g.check, last ? 2 : 3, last ? kDims[2] : kDims[g.count], -1, 1);
    }
    for (size_t i = 0; i < kNodes; i++) add_node(&g);
    for (size_t i = 0; i < kInputs; i++) { /* each reaches the loss */
      if (g.used[i]) continue;
      node(&g, "Sin", &g.values[i], 1, &outputs[count]);
      count++;
    }
    for (size_t i = g.count; i-- > kInputs && count < 8;)
      if (!g.used[i]) outputs[count++] = g.values[i];
    gradcheck_end(&g.check, outputs, count, 1e-6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
