/* Convolutions, pools, normalizations and recurrent cells against PyTorch, results and gradients, where BRAID_PYTHON
 * names a Python that has it. */
#include "torchcheck.h"

typedef struct torch_case {
  const char *op, *expression;
  size_t wanted; /* inputs from the first on that are differentiated by */
  struct {
    int rank;
    int64_t dims[5];
    double low, high;
  } inputs[5];
  struct {
    const char *name;
    int count; /* 0: one integer, not a list */
    int64_t values[6];
  } attrs[6];
} torch_case;

#define IMAGE(...)                                                                                                     \
  { 4, {__VA_ARGS__}, -1, 1 }
#define VECTOR(count, low, high)                                                                                       \
  { 1, {count}, low, high }

static const torch_case kCases[] = {
    {"Conv",
     "(F.conv1d(x0, x1, x2, stride=2, padding=3, dilation=2),)",
     3,
     {{3, {2, 3, 11}, -1, 1}, {3, {4, 3, 4}, -1, 1}, VECTOR(4, -1, 1)},
     {{"strides", 1, {2}}, {"pads", 2, {3, 3}}, {"dilations", 1, {2}}}},
    {"Conv",
     "(F.conv2d(F.pad(x0, (2, 0, 1, 3)), x1, x2, stride=(2, 1), groups=2),)",
     3,
     {IMAGE(3, 4, 9, 20), IMAGE(6, 2, 3, 5), VECTOR(6, -1, 1)},
     {{"strides", 2, {2, 1}}, {"pads", 4, {1, 2, 3, 0}}, {"group", 0, {2}}}},
    {"Conv",
     "(F.conv2d(x0, x1, padding='same', dilation=(2, 3)),)",
     2,
     {IMAGE(2, 3, 17, 40), IMAGE(5, 3, 3, 3)},
     {{"dilations", 2, {2, 3}}, {"pads", 4, {2, 3, 2, 3}}}},
    {"Conv",
     "(F.conv3d(x0, x1, x2, stride=(1, 2, 3), padding=(1, 0, 2)),)",
     3,
     {{5, {2, 2, 4, 5, 7}, -1, 1}, {5, {3, 2, 2, 3, 3}, -1, 1}, VECTOR(3, -1, 1)},
     {{"strides", 3, {1, 2, 3}}, {"pads", 6, {1, 0, 2, 1, 0, 2}}}},
    {"ConvTranspose",
     "(F.conv_transpose2d(x0, x1, x2, stride=3, padding=1, output_padding=(2, 1), groups=2, dilation=2),)",
     3,
     {IMAGE(2, 4, 3, 5), IMAGE(4, 3, 3, 2), VECTOR(6, -1, 1)},
     {{"strides", 2, {3, 3}},
      {"pads", 4, {1, 1, 1, 1}},
      {"output_padding", 2, {2, 1}},
      {"group", 0, {2}},
      {"dilations", 2, {2, 2}}}},
    {"ConvTranspose",
     "(F.conv_transpose1d(x0, x1, stride=2, dilation=4, output_padding=3),)",
     2,
     {{3, {2, 3, 6}, -1, 1}, {3, {3, 2, 3}, -1, 1}},
     {{"strides", 1, {2}}, {"dilations", 1, {4}}, {"output_padding", 1, {3}}}},
    {"MaxPool",
     "(F.max_pool2d(x0, 3, stride=2, padding=1, ceil_mode=True),)",
     1,
     {IMAGE(2, 3, 10, 8)},
     {{"kernel_shape", 2, {3, 3}}, {"strides", 2, {2, 2}}, {"pads", 4, {1, 1, 1, 1}}, {"ceil_mode", 0, {1}}}},
    {"MaxPool",
     "(F.max_pool1d(x0, 20, stride=3, dilation=2),)",
     1,
     {{3, {2, 3, 64}, -1, 1}},
     {{"kernel_shape", 1, {20}}, {"strides", 1, {3}}, {"dilations", 1, {2}}}},
    {"MaxPool",
     "(F.max_pool3d(x0, (7, 7, 6), stride=1),)",
     1,
     {{5, {1, 2, 8, 8, 8}, -1, 1}},
     {{"kernel_shape", 3, {7, 7, 6}}}},
    {"AveragePool",
     "(F.avg_pool2d(x0, (3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=True),)",
     1,
     {IMAGE(2, 3, 8, 9)},
     {{"kernel_shape", 2, {3, 2}},
      {"strides", 2, {2, 2}},
      {"pads", 4, {1, 1, 1, 1}},
      {"ceil_mode", 0, {1}},
      {"count_include_pad", 0, {1}}}},
    {"AveragePool",
     "(F.avg_pool3d(x0, 3, stride=2, padding=1, count_include_pad=False),)",
     1,
     {{5, {2, 2, 4, 5, 6}, -1, 1}},
     {{"kernel_shape", 3, {3, 3, 3}}, {"strides", 3, {2, 2, 2}}, {"pads", 6, {1, 1, 1, 1, 1, 1}}}},
    {"LpPool",
     "(F.lp_pool2d(x0, 3, (2, 3), stride=2),)",
     1,
     {{4, {2, 3, 6, 7}, 0.1, 1}},
     {{"kernel_shape", 2, {2, 3}}, {"strides", 2, {2, 2}}, {"p", 0, {3}}}},
    {"GlobalAveragePool", "(F.adaptive_avg_pool2d(x0, 1),)", 1, {IMAGE(2, 5, 4, 6)}, {{NULL}}},
    {"GlobalMaxPool", "(F.adaptive_max_pool2d(x0, 1),)", 1, {IMAGE(2, 5, 4, 6)}, {{NULL}}},
    {"BatchNormalization",
     "(F.batch_norm(x0, x3, x4, x1, x2),)",
     3,
     {IMAGE(3, 5, 4, 3), VECTOR(5, 0.5, 2), VECTOR(5, -1, 1), VECTOR(5, -1, 1), VECTOR(5, 0.5, 2)},
     {{NULL}}},
    {"BatchNormalization",
     "(F.batch_norm(x0, None, None, x1, x2, training=True),)",
     3,
     {IMAGE(3, 5, 7, 5), VECTOR(5, 0.5, 2), VECTOR(5, -1, 1), VECTOR(5, -1, 1), VECTOR(5, 0.5, 2)},
     {{"training_mode", 0, {1}}}},
    {"InstanceNormalization",
     "(F.instance_norm(x0, weight=x1, bias=x2),)",
     3,
     {IMAGE(3, 5, 4, 3), VECTOR(5, 0.5, 2), VECTOR(5, -1, 1)},
     {{NULL}}},
    {"GroupNormalization",
     "(F.group_norm(x0, 3, x1, x2),)",
     3,
     {IMAGE(3, 6, 4, 3), VECTOR(6, 0.5, 2), VECTOR(6, -1, 1)},
     {{"num_groups", 0, {3}}}},
    {"GroupNormalization", /* what was pooled: one pixel a channel */
     "(F.group_norm(x0, 3, x1, x2),)",
     3,
     {IMAGE(3, 6, 1, 1), VECTOR(6, 0.5, 2), VECTOR(6, -1, 1)},
     {{"num_groups", 0, {3}}}},
    {"LayerNormalization",
     "(F.layer_norm(x0, (7, 70), x1, x2),)",
     3,
     {{3, {4, 7, 70}, -1, 2}, {2, {7, 70}, 0.5, 2}, {2, {7, 70}, -1, 1}},
     {{"axis", 0, {1}}}},
    {"RMSNormalization",
     "(F.rms_norm(x0, (9,), x1, eps=1e-5),)",
     2,
     {{3, {4, 7, 9}, -1, 2}, VECTOR(9, 0.5, 2)},
     {{NULL}}},
    {"LpNormalization", "(F.normalize(x0, dim=1),)", 1, {IMAGE(2, 3, 4, 5)}, {{"axis", 0, {1}}}},
    {"LRN", "(F.local_response_norm(x0, 5),)", 1, {IMAGE(2, 9, 4, 5)}, {{"size", 0, {5}}}},
    {"LSTM",
     "[(torch._VF.lstm(x0, (z, z), [x1[0][p], x2[0][p], x3[0][:12][p], x3[0][12:][p]], True, 1, 0., True, False, "
     "False)[0].unsqueeze(1),) for p in [[0, 1, 2, 6, 7, 8, 9, 10, 11, 3, 4, 5]] for z in [x0.new_zeros(1, 2, 3)]][0]",
     4,
     {{3, {5, 2, 4}, -1, 1}, {3, {1, 12, 4}, -1, 1}, {3, {1, 12, 3}, -1, 1}, {2, {1, 24}, -1, 1}},
     {{NULL}}},
    {"GRU",
     "[(torch._VF.gru(x0, x0.new_zeros(1, 2, 3), [x1[0][p], x2[0][p], x3[0][:9][p], x3[0][9:][p]], True, 1, 0., True, "
     "False, False)[0].unsqueeze(1),) for p in [[3, 4, 5, 0, 1, 2, 6, 7, 8]]][0]",
     4,
     {{3, {5, 2, 4}, -1, 1}, {3, {1, 9, 4}, -1, 1}, {3, {1, 9, 3}, -1, 1}, {2, {1, 18}, -1, 1}},
     {{"linear_before_reset", 0, {1}}}},
    {"RNN",
     "(torch._VF.rnn_tanh(x0, x0.new_zeros(1, 2, 3), [x1[0], x2[0], x3[0][:3], x3[0][3:]], True, 1, 0., True, False, "
     "False)[0].unsqueeze(1),)",
     4,
     {{3, {5, 2, 4}, -1, 1}, {3, {1, 3, 4}, -1, 1}, {3, {1, 3, 3}, -1, 1}, {2, {1, 6}, -1, 1}},
     {{NULL}}},
};

static void set_attrs(gradcheck *g, const torch_case *c, braid_node_id node) {
  for (size_t i = 0; i < sizeof c->attrs / sizeof *c->attrs && c->attrs[i].name; i++) {
    int count = c->attrs[i].count;
    const int64_t *values = c->attrs[i].values;
    gradcheck_ok(g, count ? braid_graph_set_ints(g->graph, node, c->attrs[i].name, values, (size_t)count)
                          : braid_graph_set_int(g->graph, node, c->attrs[i].name, *values));
  }
}

static void torch_agrees(void **state) {
  (void)state;
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const torch_case *c = &kCases[i];
    gradcheck g;
    braid_value_id y = 0, ids[5];
    size_t inputs = 0;
    gradcheck_begin(&g, c->op);
    for (; inputs < 5 && c->inputs[inputs].rank; inputs++) {
      braid_tensor *tensor = gradcheck_random(&g, c->inputs[inputs].rank, c->inputs[inputs].dims, c->inputs[inputs].low,
                                              c->inputs[inputs].high);
      ids[inputs] = gradcheck_tensor(&g, tensor, inputs >= c->wanted);
    }
    set_attrs(&g, c, gradcheck_node(&g, c->op, ids, inputs, &y, 1));
    torchcheck_case(&t, &g, &y, 1, c->expression);
  }
  torchcheck_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(torch_agrees)};
  return skip_run_group_tests(tests, NULL, NULL);
}
