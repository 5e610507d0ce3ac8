/* Where trained parameters are kept: in the layout that their convolution likes, whatever is no multiple of its blocks,
 * with the same numbers as in plain memory, plain to whoever reads and writes them, and as it is for later plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "runtime/execution/execution_fixture.h"
#include "runtime/execution/weights.h"
#include "skip.h"
#include "tensor/layout.h"

/* The device "plainly": the CPU, but its updates want plain operands, and so nothing is kept in another layout. */
static void stay_plain(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                       braid_layout *outputs) {
  (void)device, (void)kernel;
  if (!strstr(node->op, "Update")) return;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
}

static braid_registry *make_registry(void) {
  braid_backend plainly = renamed_cpu("plainly");
  plainly.layouts = stay_plain;
  return registry_with(&plainly);
}

enum { kSteps = 3 };

/* The two convolutions of a network: what is no multiple of a block; two groups, then one of every channel. */
typedef struct shapes {
  int64_t weights[2][4], groups[2];
} shapes;
static const shapes kWhole = {{{24, 20, 3, 3}, {20, 24, 3, 3}}, {1, 1}};
static const shapes kGrouped = {{{32, 20, 3, 3}, {32, 1, 3, 3}}, {2, 32}};

static braid_value_id conv(braid_graph *graph, braid_value_id x, braid_value_id w, int64_t groups) {
  braid_value_id y;
  braid_node_id id;
  OK(braid_graph_add_node(graph, "Conv", NULL, (braid_value_id[]){x, w}, 2, &y, 1, &id));
  OK(braid_graph_set_ints(graph, id, "pads", (int64_t[]){1, 1, 1, 1}, 4));
  OK(braid_graph_set_int(graph, id, "group", groups));
  return y;
}

static braid_value_id number(braid_graph *graph, float value) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  *(float *)braid_tensor_data(tensor) = value;
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static int64_t image_channels(const shapes *net) {
  return net->weights[0][1] * net->groups[0];
}

/* The first's weights "w" and the second's "v" are trained by `update`. The first filters' sum of squares is an output:
 * a reader of its own shape. */
static braid_graph *make_graph(const shapes *net, int64_t batch, const char *update) {
  bool adam = strcmp(update, "AdamUpdate") == 0;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, weights[2], grads[2];
  OK(braid_graph_create(NULL, "homes", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){batch, image_channels(net), kSide, kSide}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  weights[0] = add_tensor(graph, "w", BRAID_VALUE_PARAMETER, 4, net->weights[0], 0.01f);
  weights[1] = add_tensor(graph, "v", BRAID_VALUE_PARAMETER, 4, net->weights[1], 0.01f);
  braid_value_id y = conv(graph, conv(graph, x, weights[0], net->groups[0]), weights[1], net->groups[1]);
  braid_value_id loss =
      node(graph, "ReduceMean", (braid_value_id[]){node(graph, "Mul", (braid_value_id[]){y, y}, 2)}, 1);
  OK(braid_graph_add_output(graph, loss));
  OK(braid_graph_gradients(graph, loss, weights, 2, grads));
  OK(braid_graph_add_output(graph, node(graph, "ReduceSumSquare", &weights[0], 1)));
  braid_value_id rate = number(graph, 0.01f), count = number(graph, 1);
  for (int i = 0; i < 2; i++) {
    braid_value_id next[3] = {0, 0, 0}, inputs[6] = {weights[i], grads[i], rate};
    braid_node_id id;
    const int64_t *dims = graph->values[weights[i]].desc.dims;
    inputs[3] = add_tensor(graph, i ? "v/m" : "w/m", BRAID_VALUE_STATE, 4, dims, 0);
    if (adam) inputs[4] = add_tensor(graph, i ? "v/v" : "w/v", BRAID_VALUE_STATE, 4, dims, 0), inputs[5] = count;
    OK(braid_graph_add_node(graph, update, NULL, inputs, adam ? 6 : 4, next, adam ? 3 : 2, &id));
    if (!adam) OK(braid_graph_set_float(graph, id, "momentum", 0.9f));
    OK(braid_graph_set_float(graph, id, "weight_decay", 0.01f));
    OK(braid_graph_update_state(graph, inputs[0], next[0]));
    OK(braid_graph_update_state(graph, inputs[3], next[1]));
    if (adam) OK(braid_graph_update_state(graph, inputs[4], next[2]));
  }
  return graph;
}

static braid_tensor *read_weight(const shapes *net, braid_weights *weights, const char *name) {
  braid_desc desc;
  braid_tensor *tensor;
  OK(braid_desc_init(&desc, BRAID_F32, 4, net->weights[name[0] == 'v']));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  OK(braid_weights_read(weights, name, tensor));
  return tensor;
}

static size_t count_conversions(const braid_plan *plan, const char *label) {
  size_t count = 0;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++) {
    braid_plan_line line = braid_plan_get_line(plan, i);
    count += strcmp(line.op, "LayoutConvert") == 0 && strcmp(line.node, label) == 0;
  }
  return count;
}

static braid_layout kept_layout(const shapes *net, braid_weights *weights, const char *name) {
  braid_layout layout = BRAID_LAYOUT_ANY;
  braid_tensor *tensor = read_weight(net, weights, name);
  assert_true(braid_weights_find_layout(weights, name, braid_tensor_desc(tensor), &layout));
  braid_tensor_release(tensor);
  return layout;
}

typedef struct trained {
  braid_machine *machine;
  braid_weights *weights;
  float outputs[kSteps][2];
} trained;

static void run_steps(braid_execution *execution, const shapes *net, int64_t batch, float (*outputs)[2]) {
  size_t count = (size_t)(batch * image_channels(net)) * kSide * kSide;
  float *x = braid_zalloc_array(NULL, count, sizeof *x);
  for (int step = 0; step < kSteps; step++) {
    fill(x, count, step);
    OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){&outputs[step][0], &outputs[step][1]}));
  }
  braid_free(NULL, x);
}

/* Options of a device: "cpu" keeps the weights in blocks, "plainly" does not. */
static void train(braid_registry *registry, const char *device, const shapes *net, const char *update, trained *out) {
  braid_graph *graph = make_graph(net, 2, update);
  braid_plan *plan;
  braid_execution *execution;
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = device, .registry = registry}, &out->machine));
  OK(braid_weights_create(out->machine, &out->weights));
  OK(braid_plan_create(out->machine, graph, &(braid_plan_options){.training = true}, &plan));
  OK(braid_execution_create(plan, out->weights, &execution));
  if (strcmp(device, "cpu") == 0) { /* the outputs' reader alone wants the weights plain */
    assert_int_equal(count_conversions(plan, "convert w"), kept_layout(net, out->weights, "w") != BRAID_LAYOUT_PLAIN);
    assert_int_equal(count_conversions(plan, "convert v"), 0);
  }
  run_steps(execution, net, 2, out->outputs);
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
}

static void end(trained *t) {
  braid_weights_release(t->weights);
  braid_machine_release(t->machine);
}

/* Padding in memory must be what it was: zero, after steps that decay weights and divide by roots. */
static void check_padding(braid_weights *weights, const char *name, size_t count) {
  for (size_t i = 0; i < weights->count; i++) {
    const braid_weight *weight = weights->items[i];
    if (!weight->name || strcmp(weight->name, name) != 0) continue;
    const float *memory = braid_weight_binding(weight).host;
    size_t zeros = 0, all = weight->bytes / sizeof *memory;
    for (size_t k = 0; k < all; k++) zeros += memory[k] == 0;
    assert_true(zeros >= all - count);
    for (size_t k = 0; k < all; k++) assert_true(isfinite(memory[k]));
  }
}

static void check_update(const shapes *net, const char *update) {
  static const char *const kNames[] = {"w", "v", "w/m", "v/m"};
  braid_registry *registry = make_registry();
  trained blocked, plain;
  train(registry, "cpu", net, update, &blocked);
  train(registry, "plainly", net, update, &plain);
  bool keeps = kept_layout(net, blocked.weights, "w") != BRAID_LAYOUT_PLAIN;
  if (!keeps) print_message("plain here: no oneDNN, or another CPU\n");
  assert_memory_equal(blocked.outputs, plain.outputs, sizeof plain.outputs);
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    braid_tensor *a = read_weight(net, blocked.weights, kNames[i]), *b = read_weight(net, plain.weights, kNames[i]);
    size_t count = (size_t)braid_desc_count(braid_tensor_desc(a));
    assert_true(kept_layout(net, plain.weights, kNames[i]) == BRAID_LAYOUT_PLAIN);
    assert_true((kept_layout(net, blocked.weights, kNames[i]) != BRAID_LAYOUT_PLAIN) == keeps);
    assert_true(kept_layout(net, blocked.weights, kNames[i]) == kept_layout(net, blocked.weights, kNames[i % 2]));
    assert_memory_equal(braid_tensor_const_data(a), braid_tensor_const_data(b), count * sizeof(float));
    braid_tensor_release(a);
    braid_tensor_release(b);
    check_padding(blocked.weights, kNames[i], count);
  }
  end(&blocked);
  end(&plain);
  braid_registry_destroy(registry);
}

static void test_sgd(void **state) {
  (void)state;
  check_update(&kWhole, "SgdUpdate");
}

static void test_adam(void **state) {
  (void)state;
  check_update(&kWhole, "AdamUpdate");
}

static void test_groups(void **state) {
  (void)state;
#ifndef __x86_64__
  skip_test("cpu", "oneDNN has blocks of whole weights alone, and kernels of other bits for groups that lie plain");
#endif
  braid_registry *registry = make_registry();
  trained whole, grouped;
  train(registry, "cpu", &kWhole, "SgdUpdate", &whole);
  train(registry, "cpu", &kGrouped, "SgdUpdate", &grouped);
  bool blocks = kept_layout(&kWhole, whole.weights, "w") != BRAID_LAYOUT_PLAIN;
  assert_true((kept_layout(&kGrouped, grouped.weights, "w") != BRAID_LAYOUT_PLAIN) == blocks);
  end(&whole);
  end(&grouped);
  braid_registry_destroy(registry);
  check_update(&kGrouped, "SgdUpdate");
  check_update(&kGrouped, "AdamUpdate");
}

/* Another batch size over the same weights takes them as they are, whatever it would have liked; what is written from
 * outside is what both read. */
static void test_two_plans(void **state) {
  (void)state;
  braid_registry *registry = make_registry();
  trained first;
  train(registry, "cpu", &kWhole, "SgdUpdate", &first);
  braid_layout layout = kept_layout(&kWhole, first.weights, "w");
  braid_graph *graph = make_graph(&kWhole, 5, "SgdUpdate");
  braid_plan *plan;
  braid_execution *execution;
  float outputs[kSteps][2];
  OK(braid_plan_create(first.machine, graph, &(braid_plan_options){.training = true, .weights = first.weights}, &plan));
  OK(braid_execution_create(plan, first.weights, &execution));
  assert_true(kept_layout(&kWhole, first.weights, "w") == layout);
  braid_tensor *tensor = read_weight(&kWhole, first.weights, "w");
  float *data = braid_tensor_data(tensor), square = 0;
  int count = (int)braid_desc_count(braid_tensor_desc(tensor));
  for (int i = 0; i < count; i++) data[i] = (float)(i % 5), square += data[i] * data[i];
  OK(braid_weights_write(first.weights, "w", tensor));
  braid_tensor *back = read_weight(&kWhole, first.weights, "w");
  assert_memory_equal(braid_tensor_const_data(back), data, (size_t)count * sizeof(float));
  run_steps(execution, &kWhole, 5, outputs);
  assert_true(outputs[0][1] == square); /* small whole numbers: exact in any order */
  braid_tensor_release(tensor);
  braid_tensor_release(back);
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  end(&first);
  braid_registry_destroy(registry);
}

/* OpenCL's kernels take parameters as they come: a step on the device converts nothing, wherever its memory is and
 * whichever kernels it picks. */
static void check_opencl(const char *devices, const shapes *net, const char *update) {
  braid_graph *graph = make_graph(net, 2, update);
  braid_machine *machine;
  braid_plan *plan;
  size_t convolutions = 0;
  braid_status status = braid_machine_create(NULL, &(braid_machine_options){.devices = devices}, &machine);
  if (status == BRAID_NOT_FOUND) skip_test("opencl", "there is no OpenCL device");
  OK(status);
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.training = true}, &plan));
  for (size_t i = 0; i < braid_plan_line_count(plan); i++) {
    braid_plan_line line = braid_plan_get_line(plan, i);
    if (strcmp(line.op, "LayoutConvert") == 0) fail_msg("%s: %s is converted", devices, line.node);
    if (strncmp(line.op, "Conv", 4) && strcmp(line.op, update)) continue;
    if (strncmp(line.device, "opencl0", 7)) fail_msg("%s: %s is on %s", devices, line.node, line.device);
    convolutions += line.op[0] == 'C';
  }
  assert_true(convolutions >= 5); /* two forward, three gradients */
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
}

static void test_opencl(void **state) {
  (void)state;
  static const char *const kDevices[] = {"opencl0 cpu", "opencl0:memory=separate cpu", "opencl0:as=gpu cpu",
                                         "opencl0:as=fpga cpu"};
  for (size_t i = 0; i < sizeof kDevices / sizeof *kDevices; i++) {
    check_opencl(kDevices[i], &kWhole, "SgdUpdate");
    check_opencl(kDevices[i], &kGrouped, "AdamUpdate");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sgd), cmocka_unit_test(test_adam),
                                     cmocka_unit_test(test_groups), cmocka_unit_test(test_two_plans),
                                     cmocka_unit_test(test_opencl)};
  return skip_run_group_tests(tests, NULL, NULL);
}
