/* Products as on a GPU, whatever the device: tiles with loads by fours and without, slices of the inner dimension,
 * matrices times few vectors. Sizes around those of tiles, against the CPU's plain product: see opencl_check.h. */
#include "opencl_check.h"

typedef struct product {
  int64_t batch, rows, columns, inner; /* batch 0: Gemm */
  bool ta, tb, bias;
  const char *activation;
} product;

static void run_product(const char *only, const product *m) {
  check c;
  check_begin(&c);
  int first = m->batch ? 0 : 1;
  const int64_t a[3] = {m->batch, m->ta ? m->inner : m->rows, m->ta ? m->rows : m->inner};
  const int64_t b[3] = {m->batch, m->tb ? m->columns : m->inner, m->tb ? m->inner : m->columns};
  braid_value_id inputs[3] = {check_floats(&c, 3 - first, a + first), check_floats(&c, 3 - first, b + first), -1};
  if (m->bias) inputs[2] = check_floats(&c, 1, &m->columns);
  check_node(&c, m->batch ? "MatMul" : m->activation ? "FusedGemm" : "Gemm", inputs, m->batch ? 2 : 3);
  if (m->ta) CHECK_OK(braid_graph_set_int(c.graph, c.node, "transA", 1));
  if (m->tb) CHECK_OK(braid_graph_set_int(c.graph, c.node, "transB", 1));
  if (m->activation) CHECK_OK(braid_graph_set_string(c.graph, c.node, "activation", m->activation));
  c.only = only;
  check_end(&c, 1e-5);
}

/* Every order of the operands, in sizes that fours divide and in ones that they do not. */
static void test_orders(void **state) {
  (void)state;
  for (int form = 0; form < 8; form++) {
    int64_t grain = form & 4 ? 1 : 4;
    for (int i = 0; i < 3; i++) {
      product m = {.rows = grain * check_draw(1, 140 / grain),
                   .columns = grain * check_draw(1, 140 / grain),
                   .inner = grain * check_draw(1, 90 / grain),
                   .ta = form & 1,
                   .tb = form & 2};
      run_product("tiles_large", &m);
    }
  }
}

/* Added rows, activations and batches; nothing to sum up. */
static void test_endings(void **state) {
  (void)state;
  const product products[] = {
      {0, 70, 100, 33, false, true, true, NULL},  {0, 40, 36, 64, false, false, true, "Relu"},
      {3, 17, 24, 40, false, false, false, NULL}, {2, 66, 9, 31, true, true, false, NULL},
      {0, 1, 1, 1, false, false, true, NULL},     {2, 64, 64, 64, false, true, false, NULL},
      {0, 5, 8, 0, false, false, true, "Relu"},
  };
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) run_product("tiles_large", &products[i]);
}

/* The sizes of tiles that a GPU gets, one product each: compiling them takes long. */
static void test_classes(void **state) {
  (void)state;
  const product m = {.rows = 196, .columns = 132, .inner = 44};
  run_product("tiles_large", &m);
  run_product("tiles_medium", &m);
  run_product("tiles_small", &(product){.rows = 33, .columns = 40, .inner = 2100, .tb = true, .bias = true});
}

static void test_vectors(void **state) {
  (void)state;
  for (int form = 0; form < 8; form++) {
    int64_t grain = form & 4 ? 1 : 4;
    for (int i = 0; i < 2; i++) {
      int64_t few = 1 + form % 4, lines = grain * check_draw(1, 300 / grain);
      product m = {.rows = i ? lines : few,
                   .columns = i ? few : lines,
                   .inner = grain * check_draw(1, 900 / grain),
                   .ta = form & 1,
                   .tb = form & 2,
                   .bias = i,
                   .batch = i ? 0 : form / 2 % 3};
      run_product("vectors", &m);
    }
  }
  run_product("vectors", &(product){0, 2, 30, 70, true, true, true, "Relu"});
  run_product("vectors", &(product){0, 1, 200, 0, false, true, true, NULL});
}

static int open_classes(void **state) {
  check_options = "as=gpu";
  return check_open(state);
}

static int open_tiles(void **state) {
  check_options = "as=gpu,tile=128x128x16x8x8,memory=separate";
  return check_open(state);
}

static int open_slices(void **state) {
  check_options = "as=gpu,tile=32x32x16x4x4,slices=3";
  return check_open(state);
}

int main(void) {
  const struct CMUnitTest classes[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_vectors)};
  const struct CMUnitTest tiles[] = {cmocka_unit_test(test_orders), cmocka_unit_test(test_endings)};
  (void)skip_run_group_tests_name("as on a GPU", classes, open_classes, check_close);
  (void)skip_run_group_tests_name("tiles", tiles, open_tiles, check_close);
  return skip_run_group_tests_name("slices", tiles, open_slices, check_close);
}
