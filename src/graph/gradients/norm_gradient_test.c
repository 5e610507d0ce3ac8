/* Gradients of normalizations against finite differences, over random shapes. */
#include "gradcheck.h"

#include <stdio.h>
#include <string.h>

static uint32_t draws;

static int64_t draw(int64_t low, int64_t high) { /* both ends included */
  return low + braid_random_below(GRADCHECK_SEED, 3, 0, draws++, (uint32_t)(high - low + 1));
}

static void draw_dims(int rank, int64_t *dims) {
  for (int i = 0; i < rank; i++) dims[i] = draw(i == 0 ? 2 : 1, 4);
}

static void set_int(gradcheck *g, braid_node_id node, const char *name, int64_t value) {
  gradcheck_ok(g, braid_graph_set_int(g->graph, node, name, value));
}

/* --- batch ---------------------------------------------------------------------------------------------------------
 */
/* With a Relu behind it, which fusion makes one with it, there and back. */
static void check_batch(int rank, bool training, bool relu) {
  gradcheck g;
  int64_t dims[5];
  draw_dims(rank, dims);
  int64_t channels = rank > 1 ? dims[1] : 1;
  braid_value_id y[3] = {0, 0, -1};
  gradcheck_begin(&g, training ? "BatchNormalization, training" : "BatchNormalization");
  braid_value_id x = gradcheck_input(&g, rank, dims, -2, 3), scale = gradcheck_input(&g, 1, &channels, 0.5, 2);
  braid_value_id bias = gradcheck_input(&g, 1, &channels, -1, 1);
  braid_value_id mean = gradcheck_tensor(&g, gradcheck_random(&g, 1, &channels, -1, 1), true);
  braid_value_id variance = gradcheck_tensor(&g, gradcheck_random(&g, 1, &channels, 0.5, 2), true);
  braid_value_id inputs[] = {x, scale, bias, mean, variance};
  braid_node_id node = gradcheck_node(&g, "BatchNormalization", inputs, 5, y, training ? 3 : 1);
  set_int(&g, node, "training_mode", training);
  gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "epsilon", 1e-2));
  if (relu) gradcheck_node(&g, "Relu", (braid_value_id[]){y[0]}, 1, &y[0], 1);
  gradcheck_end(&g, y, 1, 1e-6);
}

static void batch_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 5; rank++)
    for (int i = 0; i < 8; i++) check_batch(rank, i & 1, i & 2);
}

/* --- rows ----------------------------------------------------------------------------------------------------------
 */
static void check_layer(const char *op, int rank, int axis, bool with_bias) {
  gradcheck g;
  int64_t dims[5];
  draw_dims(rank, dims);
  braid_value_id y = 0, inputs[3];
  gradcheck_begin(&g, op);
  inputs[0] = gradcheck_input(&g, rank, dims, -2, 3);
  inputs[1] = gradcheck_input(&g, rank - axis, dims + axis, 0.5, 2);
  if (with_bias) inputs[2] = gradcheck_input(&g, rank - axis, dims + axis, -1, 1);
  braid_node_id node = gradcheck_node(&g, op, inputs, with_bias ? 3 : 2, &y, 1);
  set_int(&g, node, "axis", draw(0, 1) ? axis : axis - rank);
  gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "epsilon", 1e-2));
  gradcheck_end(&g, &y, 1, 1e-6);
}

static void layer_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 4; rank++)
    for (int axis = 0; axis < rank; axis++) {
      check_layer("LayerNormalization", rank, axis, true);
      check_layer("LayerNormalization", rank, axis, false);
      check_layer("RMSNormalization", rank, axis, false);
    }
}

static void check_channels(const char *op, int rank, int64_t groups, bool pooled) {
  gradcheck g;
  int64_t dims[5];
  draw_dims(rank, dims);
  for (int i = 2; i < rank && pooled; i++) dims[i] = 1;
  if (groups) dims[1] = groups * draw(1, 3);
  braid_value_id y = 0;
  gradcheck_begin(&g, op);
  braid_value_id x = gradcheck_input(&g, rank, dims, -2, 3), scale = gradcheck_input(&g, 1, &dims[1], 0.5, 2);
  braid_value_id bias = gradcheck_input(&g, 1, &dims[1], -1, 1);
  braid_node_id node = gradcheck_node(&g, op, (braid_value_id[]){x, scale, bias}, 3, &y, 1);
  if (groups) set_int(&g, node, "num_groups", groups);
  gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "epsilon", 1e-2));
  gradcheck_end(&g, &y, 1, 1e-6);
}

static void channel_gradients(void **state) {
  (void)state;
  for (int rank = 2; rank <= 5; rank++)
    for (int pooled = 0; pooled < 2; pooled++) {
      if (rank > 2) check_channels("InstanceNormalization", rank, 0, pooled);
      for (int64_t groups = 1; groups <= 3; groups++) check_channels("GroupNormalization", rank, groups, pooled);
    }
}

/* --- the others ----------------------------------------------------------------------------------------------------
 */
static void axes_gradients(void **state) {
  (void)state;
  for (int rank = 1; rank <= 4; rank++)
    for (int axis = 0; axis < rank; axis++)
      for (int64_t p = 0; p <= 2; p++) { /* 0: mean and variance over the axis and the last one */
        gradcheck g;
        int64_t dims[4], axes[] = {axis, rank - 1};
        draw_dims(rank, dims);
        braid_value_id y = 0;
        const char *op = p ? "LpNormalization" : "MeanVarianceNormalization";
        gradcheck_begin(&g, op);
        dims[axis] += 2;
        braid_value_id x = gradcheck_input(&g, rank, dims, -2, 3);
        braid_node_id node = gradcheck_node(&g, op, &x, 1, &y, 1);
        if (p) {
          set_int(&g, node, "axis", axis);
          set_int(&g, node, "p", p);
        } else {
          gradcheck_ok(&g, braid_graph_set_ints(g.graph, node, "axes", axes, axis == rank - 1 ? 1 : 2));
        }
        gradcheck_end(&g, &y, 1, 1e-6);
      }
}

static void lrn_gradients(void **state) {
  (void)state;
  for (int64_t size = 1; size <= 5; size++) {
    gradcheck g;
    int64_t dims[] = {2, 6, 2, 3};
    braid_value_id y = 0;
    gradcheck_begin(&g, "LRN");
    braid_value_id x = gradcheck_input(&g, 4, dims, -2, 3);
    braid_node_id node = gradcheck_node(&g, "LRN", &x, 1, &y, 1);
    set_int(&g, node, "size", size);
    gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "alpha", 0.5));
    gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "bias", 1.5));
    gradcheck_end(&g, &y, 1, 1e-6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_gradients), cmocka_unit_test(layer_gradients), cmocka_unit_test(channel_gradients),
      cmocka_unit_test(axes_gradients),  cmocka_unit_test(lrn_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
