/* Gradients of the ops that move elements, against finite differences and (where BRAID_PYTHON names a Python that has
 * it) against PyTorch. */
#include "torchcheck.h"

enum { kLists = 4, kMostInts = 24 };

/* An integer (or bool) input that is known before the run. */
typedef struct list {
  braid_dtype dtype; /* BRAID_NONE: no such input */
  int rank;          /* -1: left out */
  int64_t dims[4], values[kMostInts];
} list;

typedef struct movement {
  const char *op, *expression; /* in PyTorch over x0, x1; NULL: has no such function */
  size_t outputs, wanted;      /* double inputs, all differentiated by */
  struct {
    int rank;
    int64_t dims[5];
  } inputs[3];
  size_t lists_at; /* the lists stand before this input */
  list lists[kLists];
  struct {
    const char *name;
    int count; /* 0: one integer; -1: text */
    int64_t values[4];
    const char *text;
  } attrs[4];
} movement;

#define LIST(count, ...)                                                                                               \
  {                                                                                                                    \
    BRAID_I64, 1, {count}, {                                                                                           \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#define SCALAR(value)                                                                                                  \
  {                                                                                                                    \
    BRAID_I64, 0, {0}, {                                                                                               \
      value                                                                                                            \
    }                                                                                                                  \
  }
#define NONE                                                                                                           \
  {                                                                                                                    \
    BRAID_I64, -1, {0}, {                                                                                              \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define MODE(mode)                                                                                                     \
  { "mode", -1, {0}, mode }

static const movement kCases[] = {
    {"Reshape", "(x0.reshape(4, 15),)", 1, 1, {{3, {3, 4, 5}}}, 1, {LIST(2, 4, -1)}, {{0}}},
    {"Flatten", "(x0.flatten(0, 1),)", 1, 1, {{3, {3, 4, 5}}}, 1, {{0}}, {{"axis", 0, {2}, NULL}}},
    {"Squeeze", "(x0.squeeze(1),)", 1, 1, {{3, {3, 1, 5}}}, 1, {LIST(1, 1)}, {{0}}},
    {"Unsqueeze", "(x0[:, None, :, None],)", 1, 1, {{2, {3, 5}}}, 1, {LIST(2, 1, -1)}, {{0}}},
    {"Identity", "(x0 * 1,)", 1, 1, {{2, {3, 5}}}, 1, {{0}}, {{0}}},
    {"Transpose", "(x0.permute(2, 0, 1),)", 1, 1, {{3, {3, 4, 5}}}, 1, {{0}}, {{"perm", 3, {2, 0, 1}, NULL}}},
    {"Concat",
     "(torch.cat((x0, x1, x2), 1),)",
     1,
     3,
     {{3, {2, 3, 4}}, {3, {2, 1, 4}}, {3, {2, 5, 4}}},
     3,
     {{0}},
     {{"axis", 0, {-2}, NULL}}},
    {"Split", "tuple(x0.split((2, 1, 4), 1))", 3, 1, {{3, {2, 7, 3}}}, 1, {LIST(3, 2, 1, 4)}, {{"axis", 0, {1}, NULL}}},
    {"Slice",
     "(x0[1:, 1:4].flip(1)[:, :, 0::2],)",
     1,
     1,
     {{3, {3, 4, 5}}},
     1,
     {LIST(3, 1, -1, 0), LIST(3, INT64_MAX, -4, 5), LIST(3, 0, 1, 2), LIST(3, 1, -1, 2)},
     {{0}}},
    {"Slice", NULL, 1, 1, {{2, {6, 5}}}, 1, {LIST(2, -1, 4), LIST(2, -7, 0), LIST(2, 0, 1)}, {{0}}},
    {"Expand", "(x0.expand(2, 3, 4),)", 1, 1, {{2, {3, 1}}}, 1, {LIST(3, 2, 1, 4)}, {{0}}},
    {"Tile", "(x0.tile(2, 1, 3),)", 1, 1, {{3, {2, 3, 4}}}, 1, {LIST(3, 2, 1, 3)}, {{0}}},
    {"Pad", "(F.pad(x0, (1, -1, 2, 0)),)", 1, 1, {{3, {2, 3, 4}}}, 1, {LIST(6, 0, 2, 1, 0, 0, -1)}, {{0}}},
    {"Pad",
     "(F.pad(x0, (3, 1, 2, 0), mode='reflect'),)",
     1,
     1,
     {{4, {1, 2, 4, 5}}},
     1,
     {LIST(8, 0, 0, 2, 3, 0, 0, 0, 1)},
     {MODE("reflect")}},
    {"Pad",
     "(F.pad(x0, (3, 7, 2, 0), mode='replicate'),)",
     1,
     1,
     {{4, {1, 2, 4, 5}}},
     1,
     {LIST(8, 0, 0, 2, 3, 0, 0, 0, 7)},
     {MODE("edge")}},
    {"Pad",
     "(F.pad(x0, (3, 5, 2, 0), mode='circular'),)",
     1,
     1,
     {{4, {1, 2, 4, 5}}},
     1,
     {LIST(8, 0, 0, 2, 3, 0, 0, 0, 5)},
     {MODE("wrap")}},
    {"Pad", NULL, 1, 1, {{2, {3, 4}}}, 1, {LIST(4, 7, -1, 0, 2)}, {MODE("reflect")}},
    {"Pad", NULL, 1, 1, {{3, {3, 4, 2}}}, 1, {LIST(2, 2, 1), NONE, LIST(1, -2)}, {MODE("edge")}},
    {"DepthToSpace",
     "(F.pixel_shuffle(x0, 2),)",
     1,
     1,
     {{4, {2, 8, 2, 3}}},
     1,
     {{0}},
     {{"blocksize", 0, {2}, NULL}, MODE("CRD")}},
    {"DepthToSpace", NULL, 1, 1, {{4, {2, 8, 2, 3}}}, 1, {{0}}, {{"blocksize", 0, {2}, NULL}, MODE("DCR")}},
    {"SpaceToDepth", NULL, 1, 1, {{4, {2, 3, 4, 6}}}, 1, {{0}}, {{"blocksize", 0, {2}, NULL}}},
    {"Gather",
     "(x0[:, torch.tensor([[0, 3], [3, 1]])],)",
     1,
     1,
     {{3, {2, 4, 3}}},
     1,
     {{BRAID_I64, 2, {2, 2}, {0, 3, -1, 1}}},
     {{"axis", 0, {1}, NULL}}},
    {"Gather", "(x0[2],)", 1, 1, {{2, {4, 3}}}, 1, {SCALAR(-2)}, {{0}}},
    {"GatherElements",
     "(torch.gather(x0, 1, torch.tensor([[0, 0, 3], [2, 3, 3]])),)",
     1,
     1,
     {{2, {3, 4}}},
     1,
     {{BRAID_I64, 2, {2, 3}, {0, 0, 3, 2, -1, 3}}},
     {{"axis", 0, {1}, NULL}}},
    {"GatherND",
     "(x0[torch.tensor([2, 2, 0]), torch.tensor([1, 1, 3])],)",
     1,
     1,
     {{3, {3, 4, 2}}},
     1,
     {{BRAID_I64, 2, {3, 2}, {2, 1, -1, 1, 0, 3}}},
     {{0}}},
    {"GatherND",
     "(torch.stack([x0[0][[1, 1]], x0[1][[3, 0]]]),)",
     1,
     1,
     {{3, {2, 4, 3}}},
     1,
     {{BRAID_I32, 3, {2, 2, 1}, {1, 1, 3, 0}}},
     {{"batch_dims", 0, {1}, NULL}}},
    {"GatherND",
     NULL,
     1,
     1,
     {{4, {2, 2, 3, 2}}},
     1,
     {{BRAID_I64, 4, {2, 2, 1, 2}, {0, 1, 2, 0, 1, 1, -1, -1}}},
     {{"batch_dims", 0, {2}, NULL}}},
    {"ScatterElements",
     "(torch.scatter(x0, 1, torch.tensor([[0, 2], [3, 1]]), x1),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 2}}},
     1,
     {{BRAID_I64, 2, {2, 2}, {0, 2, -1, 1}}},
     {{"axis", 0, {1}, NULL}}},
    {"ScatterElements",
     "(torch.scatter_add(x0, 0, torch.tensor([[0, 2], [0, 1]]), x1),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 2}}},
     1,
     {{BRAID_I64, 2, {2, 2}, {0, 2, 0, 1}}},
     {{"reduction", -1, {0}, "add"}}},
    {"ScatterElements",
     "(torch.scatter_reduce(x0, 1, torch.tensor([[0, 2, 2], [3, 1, 3]]), x1, 'prod'),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 3}}},
     1,
     {{BRAID_I64, 2, {2, 3}, {0, 2, 2, -1, 1, -1}}},
     {{"axis", 0, {1}, NULL}, {"reduction", -1, {0}, "mul"}}},
    {"ScatterElements",
     "(torch.scatter_reduce(x0, 0, torch.tensor([[0, 2, 2], [2, 1, 2]]), x1, 'amax'),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 3}}},
     1,
     {{BRAID_I64, 2, {2, 3}, {0, 2, 2, 2, 1, 2}}},
     {{"reduction", -1, {0}, "max"}}},
    {"ScatterElements",
     "(torch.scatter_reduce(x0, 1, torch.tensor([[0, 2, 2], [3, 1, 3]]), x1, 'amin'),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 3}}},
     1,
     {{BRAID_I64, 2, {2, 3}, {0, 2, 2, -1, 1, -1}}},
     {{"axis", 0, {1}, NULL}, {"reduction", -1, {0}, "min"}}},
    {"CumProd", "(x0.cumprod(1),)", 1, 1, {{3, {2, 5, 3}}}, 1, {SCALAR(1)}, {{0}}},
    {"CumProd", "(x0.flip(0).cumprod(0).flip(0),)", 1, 1, {{2, {5, 3}}}, 1, {SCALAR(-2)}, {{"reverse", 0, {1}, NULL}}},
    {"ScatterND",
     "(x0.index_put((torch.tensor([2, 0]), torch.tensor([1, 3])), x1),)",
     1,
     2,
     {{3, {3, 4, 2}}, {2, {2, 2}}},
     1,
     {{BRAID_I64, 2, {2, 2}, {2, 1, 0, 3}}},
     {{0}}},
    {"ScatterND",
     "(x0.index_put((torch.tensor([2, 2]),), x1, accumulate=True),)",
     1,
     2,
     {{2, {3, 4}}, {2, {2, 4}}},
     1,
     {{BRAID_I64, 2, {2, 1}, {2, -1}}},
     {{"reduction", -1, {0}, "add"}}},
    {"ReverseSequence",
     "(torch.stack([torch.cat((x0[:k, i].flip(0), x0[k:, i])) for i, k in enumerate((3, 1, 2))], 1),)",
     1,
     1,
     {{3, {4, 3, 2}}},
     1,
     {LIST(3, 3, 1, 2)},
     {{0}}},
    {"Compress",
     "(x0[:, [0, 2]],)",
     1,
     1,
     {{2, {3, 4}}},
     1,
     {{BRAID_BOOL, 1, {3}, {1, 0, 1}}},
     {{"axis", 0, {1}, NULL}}},
    {"Compress", "(x0.flatten()[[1, 4]],)", 1, 1, {{2, {3, 4}}}, 1, {{BRAID_BOOL, 1, {5}, {0, 1, 0, 0, 1}}}, {{0}}},
    {"Trilu", "(x0.tril(1),)", 1, 1, {{3, {2, 3, 4}}}, 1, {SCALAR(1)}, {{"upper", 0, {0}, NULL}}},
};

static braid_value_id add_list(gradcheck *g, const list *from) {
  if (from->rank < 0) return -1;
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  gradcheck_ok(g, braid_desc_init(&desc, from->dtype, from->rank, from->dims));
  gradcheck_ok(g, braid_tensor_create(NULL, &desc, &tensor));
  assert_true(braid_desc_count(&desc) <= kMostInts);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    if (from->dtype == BRAID_BOOL)
      ((uint8_t *)braid_tensor_data(tensor))[i] = (uint8_t)from->values[i];
    else if (from->dtype == BRAID_I32)
      ((int32_t *)braid_tensor_data(tensor))[i] = (int32_t)from->values[i];
    else
      ((int64_t *)braid_tensor_data(tensor))[i] = from->values[i];
  }
  gradcheck_ok(g, braid_graph_add_tensor(g->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static void build(const movement *c, gradcheck *g, braid_value_id *outputs) {
  braid_value_id inputs[3 + kLists], lists[kLists];
  size_t list_count = 0, count = 0;
  gradcheck_begin(g, c->op);
  while (list_count < kLists && c->lists[list_count].dtype) {
    lists[list_count] = add_list(g, &c->lists[list_count]);
    list_count++;
  }
  for (size_t i = 0; i <= c->wanted; i++) {
    if (i == c->lists_at)
      for (size_t k = 0; k < list_count; k++) inputs[count++] = lists[k];
    if (i < c->wanted) inputs[count++] = gradcheck_input(g, c->inputs[i].rank, c->inputs[i].dims, -1, 1);
  }
  braid_node_id node;
  gradcheck_ok(g, braid_graph_add_node(g->graph, c->op, c->op, inputs, count, outputs, c->outputs, &node));
  for (size_t i = 0; i < 4 && c->attrs[i].name; i++) {
    if (c->attrs[i].count < 0)
      gradcheck_ok(g, braid_graph_set_string(g->graph, node, c->attrs[i].name, c->attrs[i].text));
    else if (c->attrs[i].count == 0)
      gradcheck_ok(g, braid_graph_set_int(g->graph, node, c->attrs[i].name, c->attrs[i].values[0]));
    else
      gradcheck_ok(
          g, braid_graph_set_ints(g->graph, node, c->attrs[i].name, c->attrs[i].values, (size_t)c->attrs[i].count));
  }
}

static void test_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    gradcheck g;
    braid_value_id outputs[4] = {0};
    build(&kCases[i], &g, outputs);
    gradcheck_end(&g, outputs, kCases[i].outputs, 1e-7);
  }
}

/* The gradient of [0] goes back to [3,0], which is no place of its own: 0 in a shape means a dimension that is kept. */
static void test_empty(void **state) {
  (void)state;
  static const char *const kOps[] = {"Reshape", "Flatten"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    gradcheck g;
    gradcheck_begin(&g, kOps[i]);
    braid_value_id x = gradcheck_input(&g, 2, (int64_t[]){3, 4}, -1, 1), inputs[4] = {x}, y, sum;
    for (int k = 0; k < 3; k++)
      gradcheck_ok(&g, braid_graph_add_int64s(g.graph, (int64_t[]){k == 2 ? 1 : 4}, 1, &inputs[1 + k]));
    gradcheck_node(&g, "Slice", inputs, 4, &y, 1);
    inputs[0] = y;
    gradcheck_ok(&g, braid_graph_add_int64s(g.graph, (int64_t[]){-1}, 1, &inputs[1]));
    gradcheck_node(&g, kOps[i], inputs, i == 0 ? 2 : 1, &y, 1);
    gradcheck_node(&g, "ReduceSum", &y, 1, &y, 1);
    gradcheck_node(&g, "Add", (braid_value_id[]){x, y}, 2, &sum, 1);
    gradcheck_end(&g, &sum, 1, 1e-7);
  }
}

/* The check itself: a quotient that is not finite agrees with nothing. */
static void test_not_finite(void **state) {
  (void)state;
  assert_true(gradcheck_agree(2, 2 + 1e-9, 1e-7));
  assert_false(gradcheck_agree(2, 2.1, 1e-7));
  assert_false(gradcheck_agree(2, INFINITY, 1e-7));
  assert_false(gradcheck_agree(INFINITY, INFINITY, 1e-7));
  assert_false(gradcheck_agree(INFINITY, 2, 1e-7));
  assert_false(gradcheck_agree(NAN, 2, 1e-7));
  assert_false(gradcheck_agree(2, NAN, 1e-7));
}

static void test_torch(void **state) {
  (void)state;
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    if (!kCases[i].expression) continue;
    gradcheck g;
    braid_value_id outputs[4] = {0};
    build(&kCases[i], &g, outputs);
    torchcheck_case(&t, &g, outputs, kCases[i].outputs, kCases[i].expression);
  }
  torchcheck_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences), cmocka_unit_test(test_empty),
                                     cmocka_unit_test(test_not_finite), cmocka_unit_test(test_torch)};
  return skip_run_group_tests(tests, NULL, NULL);
}
