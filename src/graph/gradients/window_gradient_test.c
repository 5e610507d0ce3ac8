/* Gradients of convolutions and pools against finite differences, over random geometry. */
#include "gradcheck.h"

#include <stdio.h>
#include <string.h>

/* --- random geometry ------------------------------------------------------------------------------------------------
 */
static uint32_t draws;

static int64_t draw(int64_t low, int64_t high) { /* both ends included */
  return low + braid_random_below(GRADCHECK_SEED, 2, 0, draws++, (uint32_t)(high - low + 1));
}

typedef struct shape {
  int rank; /* spatial */
  int64_t size[3], kernel[3], strides[3], dilations[3], pads[6];
} shape;

static shape draw_shape(int rank) {
  shape s = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    s.kernel[i] = draw(1, 3);
    s.strides[i] = draw(1, 3);
    s.dilations[i] = draw(1, 2);
    s.pads[i] = draw(0, s.kernel[i] - 1);
    s.pads[rank + i] = draw(0, s.kernel[i] - 1);
    s.size[i] = (s.kernel[i] - 1) * s.dilations[i] + 1 + draw(0, rank == 3 ? 2 : 4);
  }
  return s;
}

static void set_ints(gradcheck *g, braid_node_id node, const char *name, const int64_t *values, int count) {
  gradcheck_ok(g, braid_graph_set_ints(g->graph, node, name, values, (size_t)count));
}

static void set_steps(gradcheck *g, braid_node_id node, const shape *s) {
  set_ints(g, node, "strides", s->strides, s->rank);
  set_ints(g, node, "dilations", s->dilations, s->rank);
}

static braid_value_id image(gradcheck *g, int64_t batch, int64_t channels, int rank, const int64_t *spatial) {
  int64_t dims[5] = {batch, channels};
  for (int i = 0; i < rank; i++) dims[2 + i] = spatial[i];
  return gradcheck_input(g, rank + 2, dims, -1, 1);
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
static void check_conv(int rank, int64_t groups, const char *auto_pad) {
  gradcheck g;
  shape s = draw_shape(rank);
  int64_t inputs = groups * draw(1, 2), outputs = groups * draw(1, 2);
  braid_value_id y = 0;
  gradcheck_begin(&g, "Conv");
  braid_value_id x = image(&g, 2, inputs, rank, s.size), w = image(&g, outputs, inputs / groups, rank, s.kernel);
  braid_value_id bias = gradcheck_input(&g, 1, &outputs, -1, 1);
  braid_node_id node = gradcheck_node(&g, "Conv", (braid_value_id[]){x, w, bias}, 3, &y, 1);
  set_steps(&g, node, &s);
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "group", groups));
  if (auto_pad)
    gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "auto_pad", auto_pad));
  else
    set_ints(&g, node, "pads", s.pads, 2 * rank);
  gradcheck_end(&g, &y, 1, 1e-7);
}

static void conv_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int64_t groups = 1; groups <= 2; groups++) {
      check_conv(rank, groups, NULL);
      check_conv(rank, groups, "SAME_UPPER");
      check_conv(rank, groups, "SAME_LOWER");
      check_conv(rank, groups, "VALID");
    }
}

static void check_conv_transpose(int rank, int64_t groups, bool with_shape) {
  gradcheck g;
  shape s = draw_shape(rank);
  int64_t inputs = groups * draw(1, 2), outputs = groups * draw(1, 2), extra[3], whole[3], size[3];
  for (int i = 0; i < rank; i++) {
    int64_t room = s.strides[i] > s.dilations[i] ? s.strides[i] : s.dilations[i];
    extra[i] = draw(0, room - 1);
    size[i] = draw(1, 3);
    whole[i] = (size[i] - 1) * s.strides[i] + (s.kernel[i] - 1) * s.dilations[i] + 1 + draw(-1, 2);
    if (whole[i] < 1) whole[i] = 1;
    if (s.pads[i] + s.pads[rank + i] >= s.kernel[i]) s.pads[i] = s.pads[rank + i] = 0;
  }
  braid_value_id y = 0;
  gradcheck_begin(&g, "ConvTranspose");
  braid_value_id x = image(&g, 2, inputs, rank, size), w = image(&g, inputs, outputs / groups, rank, s.kernel);
  braid_value_id bias = gradcheck_input(&g, 1, &outputs, -1, 1);
  braid_node_id node = gradcheck_node(&g, "ConvTranspose", (braid_value_id[]){x, w, bias}, 3, &y, 1);
  set_steps(&g, node, &s);
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "group", groups));
  if (with_shape) {
    set_ints(&g, node, "output_shape", whole, rank);
  } else {
    set_ints(&g, node, "pads", s.pads, 2 * rank);
    set_ints(&g, node, "output_padding", extra, rank);
  }
  gradcheck_end(&g, &y, 1, 1e-7);
}

static void conv_transpose_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int64_t groups = 1; groups <= 2; groups++)
      for (int i = 0; i < 3; i++) check_conv_transpose(rank, groups, i % 2 == 1);
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static void check_pool(const char *op, int rank, bool ceil_mode, int64_t option) {
  gradcheck g;
  shape s = draw_shape(rank);
  braid_value_id y = 0;
  gradcheck_begin(&g, op);
  braid_value_id x = image(&g, 2, 2, rank, s.size);
  braid_node_id node = gradcheck_node(&g, op, &x, 1, &y, 1);
  const char *own = strcmp(op, "LpPool") == 0    ? "p"
                    : strcmp(op, "MaxPool") == 0 ? "storage_order"
                                                 : "count_include_pad";
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, own, option));
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "ceil_mode", ceil_mode));
  set_ints(&g, node, "kernel_shape", s.kernel, rank);
  set_ints(&g, node, "pads", s.pads, 2 * rank);
  set_steps(&g, node, &s);
  gradcheck_end(&g, &y, 1, 1e-6);
}

/* Windows of more than 256 elements, whose places do not fit into bytes. */
static void wide_pool_gradients(void **state) {
  (void)state;
  const int64_t sizes[2][3] = {{19, 18}, {8, 8, 7}}, kernels[2][3] = {{17, 16}, {7, 7, 6}};
  for (int i = 0; i < 2; i++) {
    gradcheck g;
    int rank = 2 + i;
    braid_value_id y = 0;
    gradcheck_begin(&g, "MaxPool");
    braid_value_id x = image(&g, 1, 2, rank, sizes[i]);
    braid_node_id node = gradcheck_node(&g, "MaxPool", &x, 1, &y, 1);
    set_ints(&g, node, "kernel_shape", kernels[i], rank);
    gradcheck_end(&g, &y, 1, 1e-6);
  }
}

static void pool_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int i = 0; i < 4; i++) {
      check_pool("MaxPool", rank, i & 1, 0);
      check_pool("AveragePool", rank, i & 1, i / 2);
      check_pool("LpPool", rank, i & 1, 2 + i / 2);
    }
}

static void check_global(const char *op, int rank) {
  gradcheck g;
  shape s = draw_shape(rank);
  braid_value_id y = 0;
  gradcheck_begin(&g, op);
  braid_value_id x = image(&g, 2, 3, rank, s.size);
  gradcheck_node(&g, op, &x, 1, &y, 1);
  gradcheck_end(&g, &y, 1, 1e-6);
}

static void global_pool_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++) {
    check_global("GlobalMaxPool", rank);
    check_global("GlobalAveragePool", rank);
    check_global("GlobalLpPool", rank);
  }
}

static void unpool_gradient(void **state) {
  (void)state;
  gradcheck g;
  braid_value_id y = 0;
  braid_desc desc;
  braid_tensor *indices;
  int64_t dims[] = {1, 2, 2, 2}, kernel[] = {2, 2}, places[] = {0, 3, 8, 15, 17, 18, 29, 30};
  gradcheck_begin(&g, "MaxUnpool");
  gradcheck_ok(&g, braid_desc_init(&desc, BRAID_I64, 4, dims));
  gradcheck_ok(&g, braid_tensor_create(NULL, &desc, &indices));
  memcpy(braid_tensor_data(indices), places, sizeof places);
  braid_value_id x = gradcheck_input(&g, 4, dims, -1, 1), at = gradcheck_tensor(&g, indices, true);
  braid_node_id node = gradcheck_node(&g, "MaxUnpool", (braid_value_id[]){x, at}, 2, &y, 1);
  set_ints(&g, node, "kernel_shape", kernel, 2);
  set_ints(&g, node, "strides", kernel, 2);
  gradcheck_end(&g, &y, 1, 1e-7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conv_gradients),  cmocka_unit_test(conv_transpose_gradients),
      cmocka_unit_test(pool_gradients),  cmocka_unit_test(global_pool_gradients),
      cmocka_unit_test(unpool_gradient), cmocka_unit_test(wide_pool_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
