/* Resize's gradient against finite differences and (where BRAID_PYTHON names a Python that has it) PyTorch. */
#include "torchcheck.h"

typedef struct resizing {
  const char *mode, *coordinates, *nearest, *expression;
  int rank;
  int64_t dims[5], sizes[5];
  int antialias, exclude_outside;
} resizing;

static const resizing kCases[] = {
    {"nearest", "asymmetric", "floor", "(F.interpolate(x0, (7, 9)),)", 4, {2, 2, 3, 4}, {2, 2, 7, 9}, 0, 0},
    {"nearest", "half_pixel", "round_prefer_floor", NULL, 4, {1, 2, 5, 4}, {1, 2, 3, 9}, 0, 0},
    {"linear", "half_pixel", NULL, "(F.interpolate(x0, 11, mode='linear'),)", 3, {2, 3, 4}, {2, 3, 11}, 0, 0},
    {"linear",
     "half_pixel",
     NULL,
     "(F.interpolate(x0, (9, 3), mode='bilinear'),)",
     4,
     {1, 2, 5, 4},
     {1, 2, 9, 3},
     0,
     0},
    {"linear",
     "align_corners",
     NULL,
     "(F.interpolate(x0, (9, 3), mode='bilinear', align_corners=True),)",
     4,
     {1, 2, 5, 4},
     {1, 2, 9, 3},
     0,
     0},
    {"linear",
     "half_pixel",
     NULL,
     "(F.interpolate(x0, (2, 9), mode='bilinear', antialias=True),)",
     4,
     {1, 2, 7, 5},
     {1, 2, 2, 9},
     1,
     1},
    {"linear",
     "half_pixel",
     NULL,
     "(F.interpolate(x0, (4, 5, 3), mode='trilinear'),)",
     5,
     {1, 1, 2, 3, 5},
     {1, 1, 4, 5, 3},
     0,
     0},
    {"cubic", "half_pixel", NULL, "(F.interpolate(x0, (9, 6), mode='bicubic'),)", 4, {1, 1, 5, 4}, {1, 1, 9, 6}, 0, 0},
    {"cubic", "pytorch_half_pixel", NULL, NULL, 4, {1, 1, 5, 4}, {1, 1, 3, 7}, 0, 1},
};

static void build(const resizing *c, gradcheck *g, braid_value_id *y) {
  gradcheck_begin(g, "Resize");
  braid_value_id inputs[4] = {gradcheck_input(g, c->rank, c->dims, -1, 1), -1, -1};
  gradcheck_ok(g, braid_graph_add_int64s(g->graph, c->sizes, (size_t)c->rank, &inputs[3]));
  braid_node_id node = gradcheck_node(g, "Resize", inputs, 4, y, 1);
  gradcheck_ok(g, braid_graph_set_string(g->graph, node, "mode", c->mode));
  gradcheck_ok(g, braid_graph_set_string(g->graph, node, "coordinate_transformation_mode", c->coordinates));
  if (c->nearest) gradcheck_ok(g, braid_graph_set_string(g->graph, node, "nearest_mode", c->nearest));
  gradcheck_ok(g, braid_graph_set_int(g->graph, node, "antialias", c->antialias));
  gradcheck_ok(g, braid_graph_set_int(g->graph, node, "exclude_outside", c->exclude_outside));
}

static void test_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    gradcheck g;
    braid_value_id y;
    build(&kCases[i], &g, &y);
    gradcheck_end(&g, &y, 1, 1e-7);
  }
}

static void test_torch(void **state) {
  (void)state;
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    if (!kCases[i].expression) continue;
    gradcheck g;
    braid_value_id y;
    build(&kCases[i], &g, &y);
    torchcheck_case(&t, &g, &y, 1, kCases[i].expression);
  }
  torchcheck_close(&t);
}

/* Scales whose float lies below the number that was written: PyTorch makes 7, 7 and 13 of these sides. */
static void test_scales(void **state) {
  (void)state;
  static const struct {
    float scale;
    int64_t side;
    const char *expression;
  } kScaled[] = {{0.7F, 10, "(F.interpolate(x0, scale_factor=0.7),)"},
                 {1.4F, 5, "(F.interpolate(x0, scale_factor=1.4),)"},
                 {2.6F, 5, "(F.interpolate(x0, scale_factor=2.6),)"}};
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kScaled / sizeof *kScaled; i++) {
    gradcheck g;
    braid_tensor *scales;
    braid_value_id y, inputs[3] = {-1, -1, -1};
    gradcheck_begin(&g, "Resize");
    inputs[0] = gradcheck_input(&g, 4, (int64_t[]){1, 2, kScaled[i].side, kScaled[i].side}, -1, 1);
    gradcheck_ok(&g, braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {4}}, &scales));
    for (int k = 0; k < 4; k++) ((float *)braid_tensor_data(scales))[k] = k < 2 ? 1 : kScaled[i].scale;
    gradcheck_ok(&g, braid_graph_add_tensor(g.graph, NULL, BRAID_VALUE_CONSTANT, scales, &inputs[2]));
    braid_tensor_release(scales);
    braid_node_id node = gradcheck_node(&g, "Resize", inputs, 3, &y, 1);
    gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "coordinate_transformation_mode", "asymmetric"));
    gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "nearest_mode", "floor"));
    torchcheck_case(&t, &g, &y, 1, kScaled[i].expression);
  }
  torchcheck_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences), cmocka_unit_test(test_torch),
                                     cmocka_unit_test(test_scales)};
  return skip_run_group_tests(tests, NULL, NULL);
}
