/* What becomes a layer and which, what is refused and why, parts of graphs, hostile graphs, no memory. */
#include "overlay/networks.h"

#include <stdlib.h>

#include "braid/overlay.h"
#include "braid/session.h"
#include "oom.h"
#include "overlay/reference.h"

/* --- graphs by hand ---------------------------------------------------------------------------------------------- */
static net_builder begin(int channels, int rows, int columns, net_map *x) {
  net_builder b = {.state = 99};
  braid_desc desc;
  *x = (net_map){-1, channels, rows, columns, 0};
  net_ok(braid_graph_create(NULL, "overlay", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, channels, rows, columns}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x->value));
  *x = net_quantize(&b, x->value, *x, -4);
  return b;
}

static braid_value_id convolve(net_builder *b, net_map x, int outputs, int size, int groups) {
  int64_t dims[4] = {outputs, x.channels / groups, size, size}, pads[4] = {size / 2, size / 2, size / 2, size / 2};
  braid_value_id inputs[2] = {x.value, net_weights(b, 4, dims, 90, -7, BRAID_I8)};
  braid_node_id id;
  braid_value_id y = net_node(b, "Conv", inputs, 2, &id);
  net_ok(braid_graph_set_ints(b->graph, id, "pads", pads, 4));
  net_ok(braid_graph_set_int(b->graph, id, "group", groups));
  return y;
}

static net_map layer(net_builder *b, net_map x, int outputs, int size, int groups, int exponent) {
  net_map y = {convolve(b, x, outputs, size, groups), outputs, x.rows, x.columns, exponent};
  return net_quantize(b, y.value, y, exponent);
}

static braid_overlay_network *lower(net_builder *b, braid_value_id out) {
  braid_overlay_network *network;
  if (out >= 0) net_ok(braid_graph_add_output(b->graph, out));
  net_ok(braid_resolve(b->graph));
  net_ok(braid_overlay_lower(b->graph, NULL, &network));
  return network;
}

static void end(net_builder *b, braid_overlay_network *network) {
  braid_overlay_network_destroy(network);
  braid_graph_destroy(b->graph);
}

static void expect_kinds(const braid_overlay_network *network, const char *kinds) {
  char text[400] = "";
  for (size_t i = 0; i < network->layer_count; i++)
    strcat(strcat(text, i ? " " : ""), braid_overlay_kind_name(network->layers[i].kind));
  assert_string_equal(text, kinds);
}

/* --- structure --------------------------------------------------------------------------------------------------- */
/* A residual: the later convolution takes the sum and its activation; shifts are differences of exponents. */
static void test_residual(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(16, 6, 5, &x);
  net_map first = layer(&b, x, 16, 3, 1, -2), second = layer(&b, first, 16, 1, 1, -1);
  braid_value_id sum = net_node(&b, "Add", (braid_value_id[]){x.value, second.value}, 2, NULL);
  net_map y = net_quantize(&b, net_node(&b, "Relu", &sum, 1, NULL), x, 0);
  braid_overlay_network *n = lower(&b, y.value);
  expect_kinds(n, "conv conv");
  const braid_overlay_layer *a = &n->layers[0], *c = &n->layers[1];
  assert_true(a->shift == -2 + 4 + 7 && a->other < 0 && a->low == -128 && a->high == 127);
  assert_true(c->x == a->y && c->other == a->x && c->rounds_first);
  assert_true(c->shift == -1 + 2 + 7 && c->left == 3 && c->other_left == 0 && c->add_shift == 4);
  assert_true(c->low == 0 && c->high == 127);
  assert_true(n->map_count == 3 && n->batch == 2);
  assert_true(n->inputs[0].real && n->inputs[0].value == b.graph->inputs[0] && n->inputs[0].map == a->x);
  assert_true(n->outputs[0].real && n->outputs[0].value == b.graph->outputs[0] && n->outputs[0].map == c->y);
  assert_int_equal(n->maps[c->y].exponent, 0);
  assert_int_equal(braid_overlay_macs(n, a), 16 * 16 * 9 * 30);
  end(&b, n);
}

/* What is read elsewhere keeps its map, so the sum is a layer of its own. */
static void test_sum_alone(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(8, 4, 4, &x);
  net_map y = layer(&b, x, 8, 3, 1, -2);
  net_ok(braid_graph_add_output(b.graph, y.value));
  net_map z = net_quantize(&b, net_node(&b, "Add", (braid_value_id[]){x.value, y.value}, 2, NULL), x, -1);
  braid_overlay_network *n = lower(&b, z.value);
  expect_kinds(n, "conv add");
  assert_true(n->output_count == 2 && n->layers[1].left == 0 && n->layers[1].other_left == 2);
  assert_int_equal(n->layers[1].shift, 3);
  end(&b, n);
}

/* Parts that begin at planes are written where they belong; others are copied there, and so is what has another scale.
 */
static void test_parts(void **state) {
  (void)state;
  for (int variant = 0; variant < 3; variant++) {
    net_map x;
    net_builder b = begin(4, 5, 5, &x);
    net_map parts[2] = {layer(&b, x, variant == 1 ? 17 : 32, 3, 1, -1), layer(&b, x, 6, 1, 1, variant == 2 ? -2 : -1)};
    braid_node_id id;
    net_map y = {-1, parts[0].channels + 6, 5, 5, 0};
    y.value = net_node(&b, "Concat", (braid_value_id[]){parts[0].value, parts[1].value}, 2, &id);
    net_ok(braid_graph_set_int(b.graph, id, "axis", -3));
    y = net_quantize(&b, y.value, y, -1);
    braid_overlay_network *n = lower(&b, y.value);
    /* behind 17 channels the second part begins at the next plane, and the last convolution closes the gap */
    expect_kinds(n, variant == 0 ? "conv conv" : variant == 1 ? "conv conv conv" : "conv conv copy");
    const braid_overlay_layer *last = &n->layers[variant == 1 ? 1 : n->layer_count - 1];
    assert_int_equal(last->y_channel, 32);
    assert_int_equal(last->out_channels, 6);
    assert_int_equal(n->maps[n->outputs[0].map].channels, y.channels);
    if (last->kind == BRAID_OVERLAY_COPY) assert_int_equal(last->shift, variant == 2);
    if (variant == 1) assert_true(n->maps[last->y].channels == 48 && n->layers[2].y == n->outputs[0].map);
    end(&b, n);
  }
}

static void test_groups(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(48, 4, 4, &x);
  net_map parts = layer(&b, x, 96, 3, 3, 0), dense = layer(&b, parts, 48, 3, 12, 0),
          deep = layer(&b, dense, 48, 3, 48, 0);
  braid_overlay_network *n = lower(&b, deep.value);
  expect_kinds(n, "conv conv conv conv depthwise");
  for (int g = 0; g < 3; g++) {
    assert_true(n->layers[g].x_channel == 16 * g && n->layers[g].y_channel == 32 * g);
    assert_true(n->layers[g].in_channels == 16 && n->layers[g].out_channels == 32);
  }
  const braid_overlay_layer *spread = &n->layers[3];
  assert_true(spread->in_channels == 96 && spread->out_channels == 48);
  for (int o = 0; o < 48; o++)
    for (int i = 0; i < 96; i++)
      for (int k = 0; k < 9; k++)
        if (i / 8 != o / 4) assert_int_equal(spread->weights[(o * 96 + i) * 9 + k], 0);
  end(&b, n);
}

/* A product's window is the whole map; what is flat is the same map. */
static void test_product(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(5, 3, 4, &x);
  braid_value_id flat = net_node(&b, "Flatten", &x.value, 1, NULL);
  net_map again = net_quantize(&b, flat, x, -4); /* as `braid quantize` writes it */
  int64_t dims[2] = {60, 7};
  braid_value_id weights = net_weights(&b, 2, dims, 100, -6, BRAID_I8);
  net_map y = {net_node(&b, "MatMul", (braid_value_id[]){again.value, weights}, 2, NULL), 7, 1, 1, 0};
  y = net_quantize(&b, y.value, y, -2);
  braid_overlay_network *n = lower(&b, y.value);
  expect_kinds(n, "conv");
  const braid_overlay_layer *l = &n->layers[0];
  assert_true(l->window.kernel_rows == 3 && l->window.kernel_columns == 4 && l->in_channels == 5);
  const braid_tensor *real = b.graph->values[b.graph->nodes[b.graph->node_count - 3].inputs[1]].tensor;
  for (int o = 0; o < 7; o++)
    for (int k = 0; k < 60; k++)
      assert_true(ldexp(l->weights[o * 60 + k], -6) == braid_tensor_get_f64(real, k * 7 + o));
  assert_int_equal(n->map_count, 2);
  end(&b, n);
}

/* Sequences have one row. */
static void test_sequences(void **state) {
  (void)state;
  net_builder b = {.state = 4};
  braid_desc desc;
  braid_value_id x;
  braid_node_id id;
  net_ok(braid_graph_create(NULL, "sequence", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 3, (int64_t[]){1, 6, 20}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x));
  net_map map = net_quantize(&b, x, (net_map){x, 6, 1, 20, 0}, -4);
  int64_t dims[3] = {9, 6, 5};
  braid_value_id inputs[2] = {map.value, net_weights(&b, 3, dims, 127, -7, BRAID_I8)};
  braid_value_id y = net_node(&b, "Conv", inputs, 2, &id);
  net_ok(braid_graph_set_ints(b.graph, id, "strides", (int64_t[]){2}, 1));
  map = net_quantize(&b, y, (net_map){y, 9, 1, 8, 0}, -1);
  y = net_node(&b, "MaxPool", &map.value, 1, &id);
  net_ok(braid_graph_set_ints(b.graph, id, "kernel_shape", (int64_t[]){3}, 1));
  map = net_quantize(&b, y, (net_map){y, 9, 1, 6, 0}, -1);
  braid_overlay_network *n = lower(&b, map.value);
  expect_kinds(n, "conv max");
  assert_true(n->layers[0].window.kernel_rows == 1 && n->layers[0].window.kernel_columns == 5);
  assert_true(n->layers[0].window.stride_columns == 2 && n->layers[1].window.kernel_columns == 3);
  float numbers[120], theirs[54];
  int8_t in[120], out[54];
  for (int i = 0; i < 120; i++) numbers[i] = (float)(net_draw(&b, 200) - 100) / 16;
  braid_session *session;
  net_ok(braid_session_create(b.graph, NULL, &session));
  net_ok(braid_session_run(session, (const void *[]){numbers}, (void *[]){theirs}));
  braid_session_destroy(session);
  braid_overlay_read_port(n, &n->inputs[0], numbers, in);
  net_ok(braid_overlay_reference(n, (const int8_t *[]){in}, (int8_t *[]){out}, NULL));
  for (int i = 0; i < 54; i++) assert_true((float)out[i] * 0.5F == theirs[i]);
  end(&b, n);
}

/* --- refusals ---------------------------------------------------------------------------------------------------- */
static void expect_refusal(net_builder *b, braid_value_id out, const char *part) {
  braid_overlay_network *network;
  net_ok(braid_graph_add_output(b->graph, out));
  net_ok(braid_resolve(b->graph));
  braid_status status = braid_overlay_lower(b->graph, NULL, &network);
  if (status != BRAID_UNSUPPORTED || !strstr(braid_error_detail(), part))
    fail_msg("\"%s\" is expected: %s, %s", part, braid_status_text(status), braid_error_detail());
  if (!strstr(braid_error_detail(), "cannot run on the overlay: ")) fail_msg("%s", braid_error_detail());
  assert_null(network);
  braid_graph_destroy(b->graph);
}

static braid_value_id quantize_by(net_builder *b, braid_value_id x, double scale, braid_dtype dtype, double zero) {
  braid_value_id inputs[3] = {x, net_scalar(b, BRAID_F32, scale), net_scalar(b, dtype, zero)};
  return net_node(b, "QuantizeLinear", inputs, 3, NULL);
}

static void test_refused_scales(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(2, 3, 3, &x);
  expect_refusal(&b, quantize_by(&b, convolve(&b, x, 2, 1, 1), 0.1, BRAID_I8, 0),
                 "its scale 0.1 is not a power of two");
  b = begin(2, 3, 3, &x);
  expect_refusal(&b, quantize_by(&b, convolve(&b, x, 2, 1, 1), 0.25, BRAID_I8, 3), "its zero point is not");
  b = begin(2, 3, 3, &x);
  expect_refusal(&b, quantize_by(&b, convolve(&b, x, 2, 1, 1), 0.25, BRAID_U8, 0), "its result is uint8, not int8");
  b = begin(2, 3, 3, &x);
  expect_refusal(&b, quantize_by(&b, convolve(&b, x, 2, 1, 1), 0x1p50, BRAID_I8, 0), "2^-16 to 2^31 is possible");
  b = begin(2, 3, 3, &x);
  expect_refusal(&b, quantize_by(&b, convolve(&b, x, 2, 1, 1), 0x1p-40, BRAID_I8, 0), "finer scale than its sums");
  b = begin(2, 3, 3, &x);
  net_map y = net_quantize(&b, convolve(&b, x, 2, 1, 1), x, 14);
  braid_value_id sum = net_node(&b, "Add", (braid_value_id[]){x.value, y.value}, 2, NULL);
  expect_refusal(&b, quantize_by(&b, sum, 0x1p14, BRAID_I8, 0), "too far apart");
}

static void test_refused_nodes(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(2, 3, 3, &x);
  braid_value_id y = net_node(&b, "Sigmoid", (braid_value_id[]){convolve(&b, x, 2, 1, 1)}, 1, NULL);
  expect_refusal(&b, quantize_by(&b, y, 0.25, BRAID_I8, 0),
                 "(Sigmoid) cannot run on the overlay: the overlay has no such op");
  b = begin(2, 3, 3, &x);
  expect_refusal(&b, convolve(&b, x, 2, 1, 1), "its result is not quantized");
  b = begin(2, 3, 3, &x);
  y = convolve(&b, x, 2, 1, 1);
  net_ok(braid_graph_add_output(b.graph, y));
  expect_refusal(&b, quantize_by(&b, y, 0.25, BRAID_I8, 0), "something else too");
  b = begin(2, 3, 3, &x);
  y = net_node(&b, "MatMul", (braid_value_id[]){x.value, x.value}, 2, NULL);
  expect_refusal(&b, quantize_by(&b, y, 0.25, BRAID_I8, 0), "its weights are not constant");
  b = begin(2, 3, 3, &x);
  braid_node_id id;
  y = net_node(&b, "Concat", (braid_value_id[]){x.value, x.value}, 2, &id);
  net_ok(braid_graph_set_int(b.graph, id, "axis", 2));
  expect_refusal(&b, quantize_by(&b, y, 0.25, BRAID_I8, 0), "it does not join channels");
  b = begin(2, 3, 3, &x);
  y = net_node(&b, "Reshape",
               (braid_value_id[]){x.value, net_tensor(&b, BRAID_I64, 1, (int64_t[]){2}, (double[]){1, 36})}, 2, NULL);
  expect_refusal(&b, quantize_by(&b, y, 0.0625, BRAID_I8, 0), "its batch is 1, that of others 2");
}

static void test_refused_weights(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(2, 3, 3, &x);
  double numbers[4] = {0.3, 0.7, -1, 0.25};
  braid_value_id inputs[3] = {x.value, net_tensor(&b, BRAID_F32, 4, (int64_t[]){2, 2, 1, 1}, numbers), -1};
  expect_refusal(&b, quantize_by(&b, net_node(&b, "Conv", inputs, 2, NULL), 0.25, BRAID_I8, 0),
                 "not int8 with one scale that is a power of two");
  b = begin(2, 3, 3, &x);
  inputs[0] = x.value;
  inputs[1] = net_tensor(&b, BRAID_F32, 4, (int64_t[]){2, 2, 1, 1}, (double[]){0.5, 0.25, 31.75, 1});
  inputs[2] = net_tensor(&b, BRAID_F32, 1, (int64_t[]){2}, (double[]){0.1, 0.2});
  expect_refusal(&b, quantize_by(&b, net_node(&b, "Conv", inputs, 3, NULL), 0.25, BRAID_I8, 0),
                 "its biases are not integers");
  b = begin(40, 60, 60, &x);
  braid_value_id flat = net_node(&b, "Flatten", &x.value, 1, NULL);
  int64_t dims[2] = {144000, 1};
  double *many = malloc(sizeof *many * 144000);
  for (int i = 0; i < 144000; i++) many[i] = i % 2 ? 127 : -127;
  braid_value_id weights = net_steps(&b, "DequantizeLinear", net_tensor(&b, BRAID_I8, 2, dims, many), 0, BRAID_I8);
  free(many);
  braid_value_id y = net_node(&b, "MatMul", (braid_value_id[]){flat, weights}, 2, NULL);
  expect_refusal(&b, quantize_by(&b, y, 0x1p10, BRAID_I8, 0), "sums of channel 0 could leave int32");
}

/* Weights whose bytes are not known, found in the real numbers; biases that ask for a finer scale of theirs. */
static void test_weights_of_numbers(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(2, 3, 3, &x);
  braid_value_id inputs[3] = {x.value,
                              net_tensor(&b, BRAID_F32, 4, (int64_t[]){2, 2, 1, 1}, (double[]){0.5, -1.5, 3, 2}),
                              net_tensor(&b, BRAID_F32, 1, (int64_t[]){2}, (double[]){0x1p-6, -1})};
  net_map y = net_quantize(&b, net_node(&b, "Conv", inputs, 3, NULL), x, -2);
  braid_overlay_network *n = lower(&b, y.value);
  const braid_overlay_layer *l = &n->layers[0];
  assert_int_equal(l->weight_exponent, -2);
  assert_true(l->weights[0] == 2 && l->weights[1] == -6 && l->weights[2] == 12 && l->weights[3] == 8);
  assert_true(l->biases[0] == 1 && l->biases[1] == -64 && l->shift == 4 && !l->half_up);
  end(&b, n);
}

/* --- ports ------------------------------------------------------------------------------------------------------- */
/* Inputs that are quantized in another order than the graph has them, outputs that it has in another order than they
 * are computed, one of them bytes: ports have the graph's names and its order. */
static void test_ports(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(8, 4, 4, &x);
  braid_desc desc;
  net_map z = {-1, 8, 4, 4, 0};
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 8, 4, 4}));
  net_ok(braid_graph_add_input(b.graph, "late", &desc, &z.value));
  net_map early = {-1, 8, 4, 4, 0};
  net_ok(braid_graph_add_input(b.graph, "early", &desc, &early.value));
  early = net_quantize(&b, early.value, early, -4);
  z = net_quantize(&b, z.value, z, -4);
  net_map first = layer(&b, early, 8, 3, 1, -2), second = layer(&b, z, 8, 1, 1, -1), third = layer(&b, x, 8, 1, 1, -1);
  braid_value_id bytes = b.graph->nodes[b.graph->values[second.value].producer].inputs[0];
  const braid_value_id outputs[] = {third.value, bytes, first.value};
  const char *names_out[3];
  for (int o = 0; o < 3; o++) {
    net_ok(braid_graph_add_output(b.graph, outputs[o]));
    names_out[o] = b.graph->values[outputs[o]].name;
  }
  braid_overlay_network *n = lower(&b, -1);
  assert_true(n->input_count == 3 && n->output_count == 3);
  static const char *const names_in[] = {"x", "late", "early"};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(n->inputs[i].name, names_in[i]);
    assert_true(n->inputs[i].value == b.graph->inputs[i] && n->inputs[i].real);
    assert_string_equal(n->outputs[i].name, names_out[i]);
    assert_true(n->outputs[i].value == b.graph->outputs[i] && n->outputs[i].real == (i != 1));
  }
  end(&b, n);
}

/* --- sets of nodes ----------------------------------------------------------------------------------------------- */
/* A Sigmoid in the middle goes to the host with the product that it needs in floating point; both sides are left, of
 * which one alone can be lowered, for a path leads from the first to the second. */
static void test_selection(void **state) {
  (void)state;
  net_map x;
  net_builder b = begin(4, 6, 6, &x);
  net_map y = layer(&b, x, 8, 3, 1, -1);
  braid_value_id gate = net_node(&b, "Sigmoid", (braid_value_id[]){convolve(&b, y, 8, 1, 1)}, 1, NULL);
  net_map z = layer(&b, net_quantize(&b, gate, y, -6), 8, 3, 1, -1);
  net_ok(braid_graph_add_output(b.graph, z.value));
  net_ok(braid_resolve(b.graph));
  size_t nodes = b.graph->node_count, refused, convs = 0;
  bool *takes = malloc(nodes);
  braid_overlay_refusal refusals[40];
  char why[200];
  braid_overlay_network *n;
  memset(takes, 1, nodes);
  net_ok(braid_overlay_select(b.graph, takes, refusals, &refused));
  assert_int_equal(refused, 2);
  for (size_t i = 0; i < nodes; i++) {
    const char *op = b.graph->nodes[i].op->name;
    convs += takes[i] && strcmp(op, "Conv") == 0;
    if (strcmp(op, "Sigmoid") == 0) {
      assert_false(takes[i]);
      assert_false(braid_overlay_can(b.graph, (braid_node_id)i, why, sizeof why));
      assert_string_equal(why, "the overlay has no such op");
    } else {
      assert_true(braid_overlay_can(b.graph, (braid_node_id)i, why, sizeof why));
    }
  }
  assert_int_equal(convs, 2);
  assert_int_equal(braid_overlay_lower(b.graph, takes, &n), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "a path leaves the nodes of the overlay and comes back"));
  size_t at = 0;
  while (strcmp(b.graph->nodes[at].op->name, "Sigmoid") != 0) at++;
  memset(takes + at, 0, nodes - at);
  net_ok(braid_overlay_lower(b.graph, takes, &n));
  expect_kinds(n, "conv");
  assert_true(n->output_count == 1 && n->outputs[0].real);
  braid_overlay_network_destroy(n);
  assert_false(braid_overlay_can(b.graph, -1, why, sizeof why));
  assert_false(braid_overlay_can(b.graph, (braid_node_id)nodes, why, sizeof why));
  free(takes);
  braid_graph_destroy(b.graph);
}

/* A package of a network with a Sigmoid in its middle is the larger side of it; both the op and the other side are
 * named. */
static void test_divided(void **state) {
  (void)state;
  for (int later = 0; later < 2; later++) {
    net_map x;
    net_builder b = begin(4, 6, 6, &x);
    net_map y = layer(&b, x, 8, later ? 1 : 3, 1, -1);
    braid_value_id gate = net_node(&b, "Sigmoid", &y.value, 1, NULL);
    net_map z = layer(&b, net_quantize(&b, gate, y, -6), 8, later ? 3 : 1, 1, -1);
    net_ok(braid_graph_add_output(b.graph, z.value));
    net_ok(braid_resolve(b.graph));
    const braid_overlay_design *design;
    braid_overlay_package *package;
    char *host;
    net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
    net_ok(braid_overlay_compile(b.graph, design, NULL, &host, &package));
    assert_non_null(strstr(host, "(Sigmoid): the overlay has no such op\n"));
    assert_non_null(strstr(host, "(Conv), 5 nodes: a package is one part of a network"));
    braid_overlay_package_info info = braid_overlay_package_get_info(package);
    assert_int_equal(info.layers, 1);
    assert_int_equal(info.macs, (later ? 8 : 4) * 8 * 9 * 36);
    braid_overlay_package_destroy(package);
    braid_free(NULL, host);
    braid_overlay_design_destroy(design);
    braid_graph_destroy(b.graph);
  }
}

/* A layer that no design can run is left to the host, in a package too; where there is no other one, it is named. */
static void test_wide_mean(void **state) {
  (void)state;
  for (int alone = 0; alone < 2; alone++) {
    net_map x;
    net_builder b = begin(4, 6, 42, &x);
    net_map y = alone ? x : layer(&b, x, 8, 3, 1, -1);
    net_map z = {net_node(&b, "GlobalAveragePool", &y.value, 1, NULL), y.channels, 1, 1, 0};
    net_ok(braid_graph_add_output(b.graph, net_quantize(&b, z.value, z, -3).value));
    net_ok(braid_resolve(b.graph));
    const braid_overlay_design *design;
    braid_overlay_package *package;
    char *host;
    net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
    braid_status status = braid_overlay_compile(b.graph, design, NULL, &host, &package);
    const char *told = alone ? braid_error_detail() : host;
    assert_int_equal(status, alone ? BRAID_UNSUPPORTED : BRAID_OK);
    assert_non_null(strstr(told, "(GlobalAveragePool): MISC: kernel_columns is 42"));
    if (!alone) assert_int_equal(braid_overlay_package_get_info(package).layers, 1);
    braid_overlay_package_destroy(package);
    braid_free(NULL, host);
    braid_overlay_design_destroy(design);
    braid_graph_destroy(b.graph);
  }
}

/* --- hostile graphs ---------------------------------------------------------------------------------------------- */
/* One thing in the graph becomes something else, without regard to what fits. */
static void damage(net_builder *b, braid_graph *graph) {
  static const int64_t kOdd[] = {-1, 0, 1, 2, 3, 7, 65536, INT32_MAX, INT64_MAX, INT64_MIN, -5};
  static const double kNumbers[] = {0, -1, 0.5, 3, 1e30, -1e-30, 1e300, (double)NAN, (double)INFINITY};
  braid_node *node = &graph->nodes[net_draw(b, (int)graph->node_count)];
  braid_value *value = &graph->values[net_draw(b, (int)graph->value_count)];
  switch (net_draw(b, 7)) {
  case 0:
    if (node->input_count)
      node->inputs[net_draw(b, (int)node->input_count)] = net_draw(b, (int)graph->value_count + 1) - 1;
    break;
  case 1:
    value->desc.dims[net_draw(b, 4)] = kOdd[net_draw(b, 7)];
    break;
  case 2:
    value->desc.rank = net_draw(b, 6) - 1;
    break;
  case 3:
    if (value->tensor) {
      braid_tensor *tensor = value->tensor;
      int64_t count = braid_desc_count(braid_tensor_desc(tensor));
      if (count) braid_tensor_set_f64(tensor, net_draw(b, (int)count), kNumbers[net_draw(b, 9)]);
    }
    break;
  case 4: {
    static const char *const kNames[] = {"group", "axis", "transB", "ceil_mode", "transA", "block_size"};
    static const char *const kLists[] = {"pads", "strides", "dilations", "kernel_shape"};
    braid_node_id id = (braid_node_id)(node - graph->nodes);
    int64_t list[4];
    for (int i = 0; i < 4; i++) list[i] = kOdd[net_draw(b, 11)];
    /* many an op has no such attribute */
    braid_status refused[2] = {braid_graph_set_int(graph, id, kNames[net_draw(b, 6)], kOdd[net_draw(b, 11)]),
                               braid_graph_set_ints(graph, id, kLists[net_draw(b, 4)], list, (size_t)net_draw(b, 5))};
    (void)refused;
    break;
  }
  case 5:
    value->kind = (braid_value_kind)net_draw(b, 4);
    break;
  default:
    value->desc.dtype = (braid_dtype)(1 + net_draw(b, 12));
  }
}

/* Whatever is lowered of it runs within its maps. */
static void run_small(const braid_overlay_network *n) {
  int64_t bytes = 0, macs = 0;
  for (size_t i = 0; i < n->map_count; i++) bytes += braid_overlay_map_bytes(&n->maps[i]);
  for (size_t i = 0; i < n->layer_count; i++) {
    const braid_overlay_layer *l = &n->layers[i];
    macs += braid_overlay_map_bytes(&n->maps[l->y]) * l->window.kernel_rows * l->window.kernel_columns * l->in_channels;
    assert_true(l->x_channel + l->in_channels <= n->maps[l->x].channels);
    assert_true(l->y_channel + l->out_channels <= n->maps[l->y].channels);
  }
  if (bytes > 1 << 20 || macs > 1 << 22) return;
  int8_t *inputs[40], *outputs[40];
  assert_true(n->input_count < 40 && n->output_count < 40);
  for (size_t i = 0; i < n->input_count; i++)
    inputs[i] = calloc(1, (size_t)braid_overlay_map_bytes(&n->maps[n->inputs[i].map]));
  for (size_t i = 0; i < n->output_count; i++)
    outputs[i] = malloc((size_t)braid_overlay_map_bytes(&n->maps[n->outputs[i].map]));
  net_ok(braid_overlay_reference(n, (const int8_t *const *)inputs, outputs, NULL));
  for (size_t i = 0; i < n->input_count; i++) free(inputs[i]);
  for (size_t i = 0; i < n->output_count; i++) free(outputs[i]);
}

static void test_hostile_graphs(void **state) {
  (void)state;
  net_builder b = {.state = 12345};
  int lowered = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    bool odd;
    char why[200];
    size_t count;
    braid_overlay_network *n;
    braid_graph *graph = net_random(seed, 1, &odd);
    if (seed % 4) net_ok(braid_resolve(graph));
    for (int i = net_draw(&b, 4); i >= 0; i--) damage(&b, graph);
    for (size_t i = 0; i < graph->node_count; i++) (void)braid_overlay_can(graph, (braid_node_id)i, why, sizeof why);
    braid_status status = braid_overlay_lower(graph, NULL, &n);
    if (status == BRAID_OK) run_small(n);
    lowered += status == BRAID_OK;
    refused += status == BRAID_UNSUPPORTED || status == BRAID_INVALID_ARGUMENT;
    braid_overlay_network_destroy(n);
    bool *takes = malloc(graph->node_count);
    memset(takes, 1, graph->node_count);
    net_ok(braid_overlay_select(graph, takes, NULL, &count));
    if (braid_overlay_lower(graph, takes, &n) == BRAID_OK) run_small(n);
    braid_overlay_network_destroy(n);
    free(takes);
    braid_graph_destroy(graph);
  }
  assert_int_equal(lowered + refused, 400);
  assert_true(lowered > 20 && refused > 200);
}

/* No memory at any of its places: NO_MEMORY, and nothing stays. */
static void test_memory(void **state) {
  (void)state;
  bool odd;
  braid_graph *graph = net_random(11, 1, &odd);
  net_ok(braid_resolve(graph));
  const braid_allocator *allocator = graph->allocator;
  for (int64_t n = 0;; n++) {
    oom_allocator oom;
    braid_overlay_network *network;
    oom_init(&oom, n);
    graph->allocator = &oom.allocator;
    braid_status status = braid_overlay_lower(graph, NULL, &network);
    graph->allocator = allocator;
    bool failed = atomic_load(&oom.failed);
    assert_int_equal(status, failed ? BRAID_NO_MEMORY : BRAID_OK);
    braid_overlay_network_destroy(network);
    assert_int_equal(atomic_load(&oom.live), 0);
    if (!failed) {
      assert_true(n > 20);
      break;
    }
  }
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_residual),        cmocka_unit_test(test_sum_alone),
                                     cmocka_unit_test(test_parts),           cmocka_unit_test(test_groups),
                                     cmocka_unit_test(test_product),         cmocka_unit_test(test_sequences),
                                     cmocka_unit_test(test_refused_scales),  cmocka_unit_test(test_refused_nodes),
                                     cmocka_unit_test(test_refused_weights), cmocka_unit_test(test_weights_of_numbers),
                                     cmocka_unit_test(test_ports),           cmocka_unit_test(test_divided),
                                     cmocka_unit_test(test_wide_mean),       cmocka_unit_test(test_selection),
                                     cmocka_unit_test(test_hostile_graphs),  cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
