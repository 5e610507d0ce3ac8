/* Whole networks on an OpenCL device alone, run and trained, against the CPU: one of each family that the kernels are
 * made for, small. */
#include "adamcheck.h"
#include "braid/session.h"
#include "opencl_check.h"

enum { kSteps = 2, kBatch = 4, kClasses = 5 };

typedef struct net {
  braid_graph *graph;
  braid_value_id x, labels, loss;
  braid_value_id parameters[64];
  size_t count;
  char names[64][16];
} net;

/* --- building ------------------------------------------------------------------------------------------------------
 */
static braid_value_id parameter(net *n, int rank, const int64_t *dims, double low, double high) {
  check c = {.graph = n->graph};
  braid_desc desc;
  braid_tensor *tensor;
  (void)c;
  CHECK_OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  CHECK_OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    braid_tensor_set_f64(tensor, i, low + (high - low) * (double)braid_random_uniform(CHECK_SEED, 2, 0, check_draws++));
  (void)snprintf(n->names[n->count], sizeof n->names[n->count], "p%zu", n->count);
  CHECK_OK(
      braid_graph_add_tensor(n->graph, n->names[n->count], BRAID_VALUE_PARAMETER, tensor, &n->parameters[n->count]));
  braid_tensor_release(tensor);
  return n->parameters[n->count++];
}

static braid_value_id node(net *n, const char *op, const braid_value_id *inputs, size_t count, braid_node_id *id) {
  braid_value_id out = 0;
  CHECK_OK(braid_graph_add_node(n->graph, op, NULL, inputs, count, &out, 1, id));
  return out;
}

static braid_value_id unary(net *n, const char *op, braid_value_id x) {
  return node(n, op, &x, 1, NULL);
}

static int64_t dim(const net *n, braid_value_id value, int at) {
  return n->graph->values[value].desc.dims[at];
}

static braid_value_id conv(net *n, braid_value_id x, int64_t channels, int64_t side, int64_t stride, int64_t groups,
                           bool bias) {
  braid_node_id id;
  int64_t inputs = dim(n, x, 1) / groups, pad = side / 2;
  double bound = 1.5 / sqrt((double)(inputs * side * side));
  braid_value_id w = parameter(n, 4, (int64_t[]){channels, inputs, side, side}, -bound, bound);
  braid_value_id list[3] = {x, w, bias ? parameter(n, 1, &channels, -0.1, 0.1) : -1};
  braid_value_id y = node(n, "Conv", list, bias ? 3 : 2, &id);
  CHECK_OK(braid_graph_set_ints(n->graph, id, "strides", (int64_t[]){stride, stride}, 2));
  CHECK_OK(braid_graph_set_ints(n->graph, id, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  CHECK_OK(braid_graph_set_int(n->graph, id, "group", groups));
  return y;
}

static braid_value_id pool(net *n, const char *op, braid_value_id x, int64_t side, int64_t stride) {
  braid_node_id id;
  braid_value_id y = node(n, op, &x, 1, &id);
  CHECK_OK(braid_graph_set_ints(n->graph, id, "kernel_shape", (int64_t[]){side, side}, 2));
  CHECK_OK(braid_graph_set_ints(n->graph, id, "strides", (int64_t[]){stride, stride}, 2));
  return y;
}

static braid_value_id dense(net *n, braid_value_id x, int64_t outputs) {
  braid_node_id id;
  int64_t inputs = dim(n, x, 1);
  double bound = 1.5 / sqrt((double)inputs);
  braid_value_id w = parameter(n, 2, (int64_t[]){outputs, inputs}, -bound, bound);
  braid_value_id y = node(n, "Gemm", (braid_value_id[]){x, w, parameter(n, 1, &outputs, -0.1, 0.1)}, 3, &id);
  CHECK_OK(braid_graph_set_int(n->graph, id, "transB", 1));
  return y;
}

static braid_value_id state(net *n, int64_t channels, double value) {
  check c = {.graph = n->graph};
  return check_tensor(&c, BRAID_F32, 1, &channels, value, value);
}

/* In training mode; running statistics become the new ones. */
static braid_value_id normalize(net *n, braid_value_id x) {
  int64_t channels = dim(n, x, 1);
  braid_value_id mean = state(n, channels, 0), variance = state(n, channels, 1), outputs[3] = {0};
  braid_value_id list[5] = {x, parameter(n, 1, &channels, 0.5, 1.5), parameter(n, 1, &channels, -0.2, 0.2), mean,
                            variance};
  braid_node_id id;
  CHECK_OK(braid_graph_add_node(n->graph, "BatchNormalization", NULL, list, 5, outputs, 3, &id));
  CHECK_OK(braid_graph_set_int(n->graph, id, "training_mode", 1));
  CHECK_OK(braid_graph_update_state(n->graph, mean, outputs[1]));
  CHECK_OK(braid_graph_update_state(n->graph, variance, outputs[2]));
  return outputs[0];
}

static braid_value_id alexnet(net *n, braid_value_id x) {
  braid_node_id id;
  x = unary(n, "Relu", conv(n, x, 16, 5, 2, 1, true));
  x = node(n, "LRN", &x, 1, &id);
  CHECK_OK(braid_graph_set_int(n->graph, id, "size", 5));
  x = pool(n, "MaxPool", x, 3, 2);
  x = unary(n, "Relu", conv(n, x, 24, 5, 1, 2, true));
  x = pool(n, "MaxPool", unary(n, "Relu", conv(n, x, 24, 3, 1, 2, true)), 3, 2);
  x = unary(n, "Relu", dense(n, unary(n, "Flatten", x), 40));
  check c = {.graph = n->graph};
  braid_value_id list[3] = {x, check_tensor(&c, BRAID_F32, 0, NULL, 0.5, 0.5),
                            check_tensor(&c, BRAID_BOOL, 0, NULL, 1, 1)};
  for (int i = 1; i < 3; i++) n->graph->values[list[i]].kind = BRAID_VALUE_CONSTANT;
  return dense(n, node(n, "Dropout", list, 3, NULL), kClasses);
}

static braid_value_id vgg(net *n, braid_value_id x) {
  for (int i = 0; i < 3; i++) {
    x = unary(n, "Relu", conv(n, x, 8 << i, 3, 1, 1, true));
    x = pool(n, "MaxPool", unary(n, "Relu", conv(n, x, 8 << i, 3, 1, 1, true)), 2, 2);
  }
  return dense(n, unary(n, "Relu", dense(n, unary(n, "Flatten", x), 32)), kClasses);
}

static braid_value_id residual(net *n, braid_value_id x, int64_t channels, int64_t stride) {
  braid_value_id y = unary(n, "Relu", normalize(n, conv(n, x, channels, 3, stride, 1, false)));
  y = normalize(n, conv(n, y, channels, 3, 1, 1, false));
  if (stride > 1) x = normalize(n, conv(n, x, channels, 1, stride, 1, false));
  return unary(n, "Relu", node(n, "Add", (braid_value_id[]){y, x}, 2, NULL));
}

static braid_value_id resnet(net *n, braid_value_id x) {
  x = pool(n, "MaxPool", unary(n, "Relu", normalize(n, conv(n, x, 8, 7, 2, 1, false))), 3, 2);
  x = residual(n, residual(n, x, 8, 1), 16, 2);
  return dense(n, unary(n, "Flatten", unary(n, "GlobalAveragePool", x)), kClasses);
}

/* Rows of the pictures as steps. */
static braid_value_id lstm(net *n, braid_value_id x) {
  enum { kHidden = 24 };
  check c = {.graph = n->graph};
  int64_t side = dim(n, x, 3), count = dim(n, x, 1);
  braid_node_id id;
  x = node(n, "Transpose", &x, 1, &id);
  CHECK_OK(braid_graph_set_ints(n->graph, id, "perm", (int64_t[]){2, 0, 1, 3}, 4));
  x = node(n, "Reshape", (braid_value_id[]){x, check_ints(&c, (int64_t[]){side, kBatch, count * side}, 3)}, 2, NULL);
  braid_value_id list[4] = {x, parameter(n, 3, (int64_t[]){1, 4 * kHidden, count * side}, -0.15, 0.15),
                            parameter(n, 3, (int64_t[]){1, 4 * kHidden, kHidden}, -0.2, 0.2),
                            parameter(n, 2, (int64_t[]){1, 8 * kHidden}, -0.1, 0.1)};
  braid_value_id outputs[2] = {-1, 0};
  CHECK_OK(braid_graph_add_node(n->graph, "LSTM", NULL, list, 4, outputs, 2, &id));
  CHECK_OK(braid_graph_set_int(n->graph, id, "hidden_size", kHidden));
  x = node(n, "Squeeze", (braid_value_id[]){outputs[1], check_ints(&c, (int64_t[]){0}, 1)}, 2, NULL);
  return dense(n, x, kClasses);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static void finish(net *n, braid_value_id scores, bool adam) {
  check c = {.graph = n->graph};
  braid_value_id grads[64], probabilities = unary(n, "Softmax", scores);
  n->loss = node(n, "SoftmaxCrossEntropyLoss", (braid_value_id[]){scores, n->labels}, 2, NULL);
  CHECK_OK(braid_graph_add_output(n->graph, n->loss));
  CHECK_OK(braid_graph_add_output(n->graph, probabilities));
  CHECK_OK(braid_resolve(n->graph));
  CHECK_OK(braid_graph_gradients(n->graph, n->loss, n->parameters, n->count, grads));
  braid_value_id rate = check_tensor(&c, BRAID_F32, 0, NULL, 0.01, 0.01);
  braid_value_id step = check_tensor(&c, BRAID_I64, 0, NULL, 1, 1);
  for (size_t i = 0; i < n->count; i++) {
    const braid_desc desc = n->graph->values[n->parameters[i]].desc;
    braid_value_id m = check_tensor(&c, BRAID_F32, desc.rank, desc.dims, 0, 0);
    braid_value_id v = check_tensor(&c, BRAID_F32, desc.rank, desc.dims, 0, 0), next[3] = {0};
    braid_value_id sgd[] = {n->parameters[i], grads[i], rate, m},
                   adams[] = {n->parameters[i], grads[i], rate, m, v, step};
    braid_node_id id;
    CHECK_OK(braid_graph_add_node(n->graph, adam ? "AdamUpdate" : "SgdUpdate", NULL, adam ? adams : sgd, adam ? 6 : 4,
                                  next, adam ? 3 : 2, &id));
    if (!adam) CHECK_OK(braid_graph_set_float(n->graph, id, "momentum", 0.9));
    if (adam) CHECK_OK(braid_graph_set_float(n->graph, id, "epsilon", 1e-3)); /* no step follows a gradient's noise */
    CHECK_OK(braid_graph_update_state(n->graph, n->parameters[i], next[0]));
    CHECK_OK(braid_graph_update_state(n->graph, m, next[1]));
    if (adam) CHECK_OK(braid_graph_update_state(n->graph, v, next[2]));
  }
}

static void near(const char *what, const braid_desc *desc, const float *expected, const float *got, double bound) {
  double most = 0;
  for (int64_t i = 0; i < braid_desc_count(desc); i++) most = fmax(most, fabs((double)expected[i]));
  for (int64_t i = 0; i < braid_desc_count(desc); i++)
    if (!(fabs((double)expected[i] - (double)got[i]) <= bound * most))
      fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, (double)got[i], (double)expected[i]);
}

static void compare_parameters(const net *n, braid_session *cpu, braid_session *cl) {
  for (size_t i = 0; i < n->count; i++) {
    const braid_desc *desc = &n->graph->values[n->parameters[i]].desc;
    braid_tensor *a, *b;
    CHECK_OK(braid_tensor_create(NULL, desc, &a));
    CHECK_OK(braid_tensor_create(NULL, desc, &b));
    CHECK_OK(braid_session_read(cpu, n->names[i], a));
    CHECK_OK(braid_session_read(cl, n->names[i], b));
    near(n->names[i], desc, braid_tensor_const_data(a), braid_tensor_const_data(b), 1e-4);
    braid_tensor_release(a);
    braid_tensor_release(b);
  }
}

static void check_net_on(const char *spec, braid_value_id (*build)(net *n, braid_value_id x), int64_t side, bool adam) {
  net n = {0};
  braid_desc image, labels;
  CHECK_OK(braid_desc_init(&image, BRAID_F32, 4, (int64_t[]){kBatch, 3, side, side}));
  CHECK_OK(braid_desc_init(&labels, BRAID_I64, 1, (int64_t[]){kBatch}));
  CHECK_OK(braid_graph_create(NULL, "net", &n.graph));
  CHECK_OK(braid_graph_add_input(n.graph, "x", &image, &n.x));
  CHECK_OK(braid_graph_add_input(n.graph, "labels", &labels, &n.labels));
  finish(&n, build(&n, n.x), adam);
  braid_session *sessions[2];
  CHECK_OK(braid_session_create(n.graph, &(braid_session_options){.training = true}, &sessions[0]));
  CHECK_OK(braid_session_create(
      n.graph, &(braid_session_options){.training = true, .devices = spec, .registry = check_on.registry},
      &sessions[1]));
  static float pixels[kBatch * 3 * 64 * 64];
  const int64_t classes[kBatch] = {1, 4, 0, 2};
  for (int step = 0; step < kSteps; step++) {
    float loss[2], probabilities[2][kBatch * kClasses];
    for (int64_t i = 0; i < kBatch * 3 * side * side; i++)
      pixels[i] = 2 * braid_random_uniform(CHECK_SEED, 3, 0, check_draws++) - 1;
    for (int s = 0; s < 2; s++)
      CHECK_OK(
          braid_session_run(sessions[s], (const void *[]){pixels, classes}, (void *[]){&loss[s], probabilities[s]}));
    near("the loss", &(braid_desc){.rank = 0}, &loss[0], &loss[1], 1e-4);
    near("a probability", &(braid_desc){.rank = 2, .dims = {kBatch, kClasses}}, probabilities[0], probabilities[1],
         1e-4);
    compare_parameters(&n, sessions[0], sessions[1]);
  }
  for (int s = 0; s < 2; s++) braid_session_destroy(sessions[s]);
  braid_graph_destroy(n.graph);
}

/* As the device is, as a GPU that counts in 64 bits, and as an FPGA: each has kernels or forms of them of its own. */
static void check_net(braid_value_id (*build)(net *n, braid_value_id x), int64_t side, bool adam) {
  static const char *const kForms[] = {"", "as=gpu,index_bits=64", "as=fpga,cu=2,simd=4"};
  check probe;
  check_begin(&probe);
  braid_graph_destroy(probe.graph);
  const char *wanted = getenv("BRAID_TEST_OPENCL");
  if (!wanted) wanted = "opencl0";
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    char spec[512];
    if (strncmp(wanted, "cuda", 4) == 0 && strstr(kForms[i], "as=fpga")) continue; /* its kernels are a GPU's alone */
    (void)snprintf(spec, sizeof spec, "%s%s%s", wanted, !*kForms[i] ? "" : strchr(wanted, ':') ? "," : ":", kForms[i]);
    check_net_on(spec, build, side, adam);
  }
}

static void test_alexnet(void **unused) {
  (void)unused;
  check_net(alexnet, 31, false);
}
static void test_vgg(void **unused) {
  (void)unused;
  check_net(vgg, 16, false);
}
static void test_resnet(void **unused) {
  (void)unused;
  check_net(resnet, 32, false);
}
static void test_lstm(void **unused) {
  (void)unused;
  check_net(lstm, 12, true);
}

static void test_adam(void **unused) {
  (void)unused;
  check probe;
  check_begin(&probe);
  braid_graph_destroy(probe.graph);
  const char *wanted = getenv("BRAID_TEST_OPENCL");
  const braid_session_options options = {
      .training = true, .devices = wanted ? wanted : "opencl0", .registry = check_on.registry};
  adamcheck_run(&options);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_alexnet), cmocka_unit_test(test_vgg),
                                     cmocka_unit_test(test_resnet), cmocka_unit_test(test_lstm),
                                     cmocka_unit_test(test_adam)};
  return skip_run_group_tests(tests, check_open, check_close);
}
