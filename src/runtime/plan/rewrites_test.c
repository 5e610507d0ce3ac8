/* Rewrites for every device (braid_graph_fold): which nodes of a training's graph change places, and that the results
 * are those of the graph as it was, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "braid/graph.h"
#include "braid/session.h"
#include "graph/onnx_dtype.h"

#define OK(expression) assert_int_equal(expression, BRAID_OK)

enum { kImage = 2 * 16 * 7 * 9, kMost = kImage };

typedef struct pool_case {
  const char *plan; /* the ops as they run, from the first Relu on */
  int64_t kernel, stride, pad;
  bool other_reader; /* of the pool's gradient */
  bool other_image;  /* the Relu's gradient is of another image */
  bool normalized;   /* the Relu's input */
} pool_case;

static braid_value_id add(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b) {
  braid_value_id y = 0;
  OK(braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &y, 1, NULL));
  return y;
}

static braid_value_id input(braid_graph *graph, const char *name, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_graph_add_input(graph, name, &desc, &id));
  return id;
}

static braid_value_id cast(braid_graph *graph, braid_value_id x, braid_dtype dtype) {
  braid_value_id y = 0;
  braid_node_id node;
  if (dtype == BRAID_NONE) return x;
  OK(braid_graph_add_node(graph, "Cast", NULL, &x, 1, &y, 1, &node));
  OK(braid_graph_set_int(graph, node, "to", braid_dtype_to_onnx(dtype)));
  return y;
}

static void set_window(braid_graph *graph, braid_node_id node, const pool_case *c) {
  OK(braid_graph_set_ints(graph, node, "kernel_shape", (int64_t[]){c->kernel, c->kernel}, 2));
  OK(braid_graph_set_ints(graph, node, "strides", (int64_t[]){c->stride, c->stride}, 2));
  OK(braid_graph_set_ints(graph, node, "pads", (int64_t[]){c->pad, c->pad, c->pad, c->pad}, 4));
}

static braid_value_id normalize(braid_graph *graph, braid_value_id x) {
  const int64_t channels = 16;
  braid_value_id inputs[5] = {x}, y[5];
  braid_node_id node;
  braid_value_id factors = input(graph, "factors", 1, &channels);
  for (int i = 1; i < 5; i++) inputs[i] = factors;
  OK(braid_graph_add_node(graph, "BatchNormalization", NULL, inputs, 5, y, 5, &node));
  OK(braid_graph_set_int(graph, node, "training_mode", 1));
  return y[0];
}

/* `half`: the type of the images between inputs and outputs of float32; BRAID_NONE: float32. */
static braid_graph *pool_graph(const pool_case *c, braid_dtype half) {
  const int64_t dims[] = {2, 16, 7, 9};
  int64_t small[] = {2, 16, (7 + 2 * c->pad - c->kernel) / c->stride + 1, (9 + 2 * c->pad - c->kernel) / c->stride + 1};
  braid_graph *graph;
  braid_node_id node;
  braid_value_id pooled[3], dx;
  OK(braid_graph_create(NULL, "pool", &graph));
  braid_dtype whole = half == BRAID_NONE ? BRAID_NONE : BRAID_F32;
  braid_value_id x = cast(graph, input(graph, "x", 4, dims), half);
  braid_value_id dy = cast(graph, input(graph, "dy", 4, small), half);
  braid_value_id y = add(graph, "Relu", c->normalized ? normalize(graph, x) : x, -1);
  OK(braid_graph_add_node(graph, "MaxPool", NULL, &y, 1, pooled, 3, &node));
  set_window(graph, node, c);
  OK(braid_graph_add_node(graph, "MaxPoolGrad", NULL, (braid_value_id[]){dy, pooled[2]}, 2, &dx, 1, &node));
  set_window(graph, node, c);
  OK(braid_graph_set_ints(graph, node, "input_shape", dims + 2, 2));
  OK(braid_graph_add_output(graph, cast(graph, add(graph, "ReluGrad", dx, c->other_image ? x : y), whole)));
  OK(braid_graph_add_output(graph, cast(graph, pooled[0], whole)));
  if (c->other_reader) OK(braid_graph_add_output(graph, cast(graph, dx, whole)));
  return graph;
}

/* "Op Op" from the first Relu on, without conversions. */
static const char *plan_of(const braid_session *session) {
  static char text[256];
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    const char *op = braid_session_plan(session, i).op;
    if (strcmp(op, "LayoutConvert") == 0 || strcmp(op, "Cast") == 0 || (!used && !strstr(op, "Relu"))) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", op);
  }
  return text;
}

/* Small numbers, so that maxima are equal and are 0, and a NaN. */
static void run_case(const braid_graph *graph, bool no_fusion, const char *plan, float out[3][kMost]) {
  static float x[kMost], dy[kMost], factors[16];
  braid_session *session;
  for (int i = 0; i < kMost; i++) {
    x[i] = (float)((i * 37 + i / 7) % 11 - 7) / 4;
    dy[i] = (float)(i % 13 - 6) / 8;
  }
  for (int i = 0; i < 16; i++) factors[i] = 1;
  x[100] = NAN;
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu", .no_fusion = no_fusion}, &session));
  if (plan) assert_string_equal(plan_of(session), plan);
  OK(braid_session_run(session, (const void *[]){x, dy, factors}, (void *[]){out[0], out[1], out[2]}));
  braid_session_destroy(session);
}

static void test_relu_before_pool(void **state) {
  (void)state;
  static const pool_case kCases[] = {
      {"Relu MaxPool ReluGrad MaxPoolGrad", 2, 2, 0, false, false, false},
      {"Relu MaxPool ReluGrad MaxPoolGrad", 3, 2, 1, false, false, false}, /* windows overlap: sums of errors */
      {"Relu MaxPool MaxPoolGrad ReluGrad", 2, 2, 0, true, false, false},
      {"Relu MaxPool MaxPoolGrad ReluGrad", 2, 2, 0, false, true, false},
      {"BatchNormalizationRelu MaxPool MaxPoolGrad ReluGrad", 2, 2, 0, false, false, true},
  };
  static const braid_dtype kTypes[] = {BRAID_NONE, BRAID_F16, BRAID_BF16};
  for (size_t n = 0; n < sizeof kCases / sizeof *kCases * 3; n++) {
    size_t i = n / 3;
    static float given[3][kMost], rewritten[3][kMost];
    braid_graph *graph = pool_graph(&kCases[i], kTypes[n % 3]);
    memset(given, 0, sizeof given);
    memset(rewritten, 0, sizeof rewritten);
    run_case(graph, true, "Relu MaxPool MaxPoolGrad ReluGrad", given);
    run_case(graph, false, kCases[i].plan, rewritten);
    for (int o = 0; o < 3; o++)
      for (int k = 0; k < kMost; k++)
        if (given[o][k] != rewritten[o][k] && !(isnan(given[o][k]) && isnan(rewritten[o][k])))
          fail_msg("case %zu: element %d of output %d is %g, not %g", i, k, o, (double)rewritten[o][k],
                   (double)given[o][k]);
    braid_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_relu_before_pool)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
