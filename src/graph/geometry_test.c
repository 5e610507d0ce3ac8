/* Windows: answers of the ONNX specification's formulas and of PyTorch worked out by hand, and refusals. */
#include "graph/geometry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "graph/graph.h"

/* Attributes are those of a node that is never inferred. */
typedef struct fixture {
  braid_graph *graph;
  braid_node_id node;
} fixture;

static fixture begin(const char *op) {
  fixture f;
  braid_value_id outputs[1] = {0}, input;
  int inputs = strncmp(op, "Conv", 4) == 0 ? 2 : 1;
  assert_int_equal(braid_graph_create(NULL, "test", &f.graph), BRAID_OK);
  braid_desc open = {.rank = -1};
  assert_int_equal(braid_graph_add_value(f.graph, NULL, BRAID_VALUE_INPUT, &input), BRAID_OK);
  f.graph->values[input].desc = open;
  assert_int_equal(
      braid_graph_add_node(f.graph, op, "n", (braid_value_id[]){input, input}, inputs, outputs, 1, &f.node), BRAID_OK);
  return f;
}

static void set(fixture *f, const char *name, int count, const int64_t *values) {
  assert_int_equal(braid_graph_set_ints(f->graph, f->node, name, values, (size_t)count), BRAID_OK);
}

#define SET(f, name, ...)                                                                                              \
  set(f, name, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static void set_int(fixture *f, const char *name, int64_t value) {
  assert_int_equal(braid_graph_set_int(f->graph, f->node, name, value), BRAID_OK);
}

static void set_text(fixture *f, const char *name, const char *value) {
  assert_int_equal(braid_graph_set_string(f->graph, f->node, name, value), BRAID_OK);
}

static const braid_attrs *attrs(const fixture *f) {
  return &f->graph->nodes[f->node].attrs;
}

static void end(fixture *f) {
  braid_graph_destroy(f->graph);
}

static braid_desc shape(int rank, const int64_t *dims) {
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, rank, dims), BRAID_OK);
  return desc;
}

#define SHAPE(...) shape((int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

#define EXPECT(window, i, out, b, e)                                                                                   \
  do {                                                                                                                 \
    assert_int_equal((window).output[i], out);                                                                         \
    assert_int_equal((window).begin[i], b);                                                                            \
    assert_int_equal((window).end[i], e);                                                                              \
  } while (0)

static void refused(braid_status status, const char *part) {
  assert_int_equal(status, BRAID_INVALID_GRAPH);
  if (!strstr(braid_error_detail(), part)) fail_msg("\"%s\" does not say \"%s\"", braid_error_detail(), part);
}

static void conv_pads(void **state) {
  (void)state;
  fixture f = begin("Conv");
  braid_convolution conv;
  braid_desc x = SHAPE(2, 6, 5, 8), w = SHAPE(4, 3, 3, 2);
  set_int(&f, "group", 2);
  SET(&f, "strides", 2, 3);
  SET(&f, "pads", 1, 0, 2, 1);
  assert_int_equal(braid_geometry_conv(attrs(&f), &x, &w, &conv), BRAID_OK);
  assert_int_equal(conv.batch, 2);
  assert_int_equal(conv.groups, 2);
  assert_int_equal(conv.inputs, 6);
  assert_int_equal(conv.outputs, 4);
  EXPECT(conv.window, 0, 1, 0, 0);
  EXPECT(conv.window, 1, 3, 1, 2);
  EXPECT(conv.window, 2, 3, 0, 1);
  set_text(&f, "auto_pad", "SAME_UPPER");
  assert_int_equal(braid_geometry_conv(attrs(&f), &x, &w, &conv), BRAID_OK);
  EXPECT(conv.window, 1, 3, 1, 1);
  EXPECT(conv.window, 2, 3, 0, 0);
  set_text(&f, "auto_pad", "SAME_LOWER");
  SET(&f, "strides", 2, 7);
  SET(&f, "dilations", 1, 8);
  assert_int_equal(braid_geometry_conv(attrs(&f), &x, &w, &conv), BRAID_OK);
  EXPECT(conv.window, 1, 3, 1, 1);
  EXPECT(conv.window, 2, 2, 4, 4);
  set_text(&f, "auto_pad", "VALID");
  SET(&f, "dilations", 1, 1);
  assert_int_equal(braid_geometry_conv(attrs(&f), &x, &w, &conv), BRAID_OK);
  EXPECT(conv.window, 1, 2, 0, 0);
  EXPECT(conv.window, 2, 1, 0, 0);
  end(&f);
}

static void transposed(void **state) {
  (void)state;
  fixture f = begin("ConvTranspose");
  braid_convolution conv;
  braid_desc x = SHAPE(1, 4, 3, 3), w = SHAPE(4, 2, 3, 3);
  SET(&f, "strides", 3, 2);
  SET(&f, "output_padding", 1, 1);
  assert_int_equal(braid_geometry_conv_transpose(attrs(&f), &x, &w, &conv), BRAID_OK);
  assert_int_equal(conv.window.input[1], 10);
  assert_int_equal(conv.window.input[2], 8);
  assert_int_equal(conv.inputs, 2);
  SET(&f, "output_shape", 9, 12); /* one is cut, the other is longer than what the windows reach */
  assert_int_equal(braid_geometry_conv_transpose(attrs(&f), &x, &w, &conv), BRAID_OK);
  assert_int_equal(conv.window.input[1], 9);
  assert_int_equal(conv.window.input[2], 12);
  EXPECT(conv.window, 1, 3, 1, 0);
  EXPECT(conv.window, 2, 3, 0, 0);
  SET(&f, "output_shape", 0, 1);
  refused(braid_geometry_conv_transpose(attrs(&f), &x, &w, &conv), "output_shape[0] is 0");
  end(&f);
}

static void ceilings(void **state) {
  (void)state;
  fixture f = begin("MaxPool");
  braid_window window;
  braid_desc x = SHAPE(1, 1, 4, 7);
  SET(&f, "kernel_shape", 3, 1);
  SET(&f, "strides", 2, 3);
  assert_int_equal(braid_geometry_pool(attrs(&f), &x, &window), BRAID_OK);
  assert_int_equal(window.output[1], 1);
  assert_int_equal(window.output[2], 3);
  set_int(&f, "ceil_mode", 1);
  assert_int_equal(braid_geometry_pool(attrs(&f), &x, &window), BRAID_OK);
  assert_int_equal(window.output[1], 2);
  assert_int_equal(window.output[2], 3);
  /* the fourth window would begin in the padding at the end */
  SET(&f, "kernel_shape", 2, 2);
  SET(&f, "strides", 3, 3);
  SET(&f, "pads", 1, 0, 1, 1);
  x = SHAPE(1, 1, 5, 8);
  assert_int_equal(braid_geometry_pool(attrs(&f), &x, &window), BRAID_OK);
  assert_int_equal(window.output[1], 2);
  assert_int_equal(window.output[2], 3);
  end(&f);
}

static void hostile(void **state) {
  (void)state;
  fixture f = begin("Conv");
  braid_window window;
  braid_convolution conv;
  braid_desc x = SHAPE(1, 4, 5, 5), w = SHAPE(4, 2, 3, 3), flat = SHAPE(3, 4), odd = SHAPE(4, 2, 3);
  refused(braid_geometry_pool(attrs(&f), &x, &window), "kernel_shape is missing");
  refused(braid_geometry_pool(attrs(&f), &flat, &window), "rank 2");
  refused(braid_geometry_global(&flat, &window), "rank 2");
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "4 channels where the weights and group ask for 2");
  refused(braid_geometry_conv(attrs(&f), &x, &odd, &conv), "rank 3 and the input has rank 4");
  set_int(&f, "group", 0);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "group is 0");
  set_int(&f, "group", 2);
  SET(&f, "strides", 1, 0);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "strides[1] is 0");
  SET(&f, "strides", 1, 1);
  SET(&f, "pads", 0, 0, 0);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "pads has 3 numbers");
  SET(&f, "pads", -1, 0, 0, 0);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "pads[0] is -1");
  SET(&f, "pads", 0, 0, INT64_MAX, 0);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "pads[2]");
  SET(&f, "pads", 0, 0, 0, 0);
  SET(&f, "dilations", INT32_MAX, 1);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "dilation included");
  SET(&f, "dilations", 3, 1);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "does not fit into spatial dimension 0");
  set_text(&f, "auto_pad", "SAME");
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "auto_pad is SAME");
  set_text(&f, "auto_pad", "SAME_UPPER");
  SET(&f, "kernel_shape", 3, 2);
  refused(braid_geometry_conv(attrs(&f), &x, &w, &conv), "kernel_shape says 2 where the weights have 3");
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conv_pads),
      cmocka_unit_test(transposed),
      cmocka_unit_test(ceilings),
      cmocka_unit_test(hostile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
