/* The update of a step against PyTorch's (figures written by tests/oracle/update_figures.py): accumulation, clipping,
 * groups of parameters, freezing, the moving average, the losses of each kind of targets; and which parameters have no
 * weight decay. */
#include <math.h>
#include <string.h>

#include "skip.h"

#include "graph/graph.h"
#include "registry.h"
#include "train/schedule.h"
#include "train/step.h"
#include "train/update.h"
#include "train/update_figures.h"

enum { kBatch = 4, kMostBatch = 12, kWidth = 2, kClasses = 3, kUpdates = 6 };
static braid_registry *registry;
static const char *device = "cpu";
static braid_target_kind targets;
static bool multiplies;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* The figures' sequence. */
static double number(uint64_t i) {
  return (double)(i * 2654435761u % 4294967296u) / 2147483648.0 - 1;
}

static braid_value_id constant(braid_graph *graph, const char *name, int rank, const int64_t *dims, uint64_t first) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) braid_tensor_set_f64(tensor, i, number(first + (uint64_t)i));
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, NULL));
  return out;
}

/* Sums of x w b by an op that is a function of others. */
static braid_value_id einsum(braid_graph *graph, braid_value_id x, braid_value_id w, braid_value_id b, int rank) {
  braid_value_id out = 0;
  braid_node_id id;
  ok(braid_graph_add_node(graph, "Einsum", NULL, (braid_value_id[]){x, w, b}, 3, &out, 1, &id));
  ok(braid_graph_set_string(graph, id, "equation", rank == 1 ? "bi,ic,c->bc" : "bi,ic,ac->bc"));
  return out;
}

/* x w + b, or their products, with a bias of `rank` dimensions. */
static braid_graph *linear(int rank) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "linear", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {-1, kWidth}}, &x));
  braid_value_id w = constant(graph, "net.w", 2, (int64_t[]){kWidth, kClasses}, 1),
                 b = constant(graph, "net.b", rank, rank == 1 ? (int64_t[]){kClasses} : (int64_t[]){1, kClasses}, 101);
  if (multiplies)
    x = einsum(graph, x, w, b, rank);
  else
    x = node(graph, "Add", (braid_value_id[]){node(graph, "MatMul", (braid_value_id[]){x, w}, 2), b}, 2);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static const braid_dataset_info kInfo = {
    .spec = "made", .samples = 100, .channels = 1, .height = 1, .width = kWidth, .classes = kClasses};

/* Numbers, or labels where they are above 0. */
static void fill_numbers(const braid_train_options *o, int64_t batch, float *out) {
  for (int64_t i = 0; i < o->batch * kClasses; i++) {
    double value = number(5000 + (uint64_t)(batch * o->batch * kClasses + i));
    out[i] = targets == BRAID_TARGET_LABELS ? value > 0 : (float)(2 * value);
  }
}

static void run_batch(braid_session *session, const braid_train_options *o, int64_t update, int64_t part) {
  int64_t batch = update * o->accumulate + part;
  float images[kMostBatch * kWidth], loss, scores[kMostBatch * kClasses];
  int32_t labels[kMostBatch];
  for (int64_t i = 0; i < o->batch * kWidth; i++)
    images[i] = (float)number(1000 + (uint64_t)(batch * o->batch * kWidth + i));
  for (int64_t i = 0; i < o->batch; i++) {
    int64_t sample = batch * o->batch + i;
    labels[i] = (int32_t)((sample / kBatch + sample % kBatch) % kClasses);
  }
  int32_t mixed[kMostBatch];
  for (int64_t i = 0; i < o->batch; i++) mixed[i] = labels[o->batch - 1 - i];
  bool last = part + 1 == o->accumulate;
  braid_step_numbers numbers = {.rate = (float)o->learning_rate,
                                .batch = batch + 1,
                                .update = update + 1,
                                .kept = part > 0,
                                .last = last,
                                .mix = 0.3f,
                                .mixed_targets = mixed,
                                .average = last ? (float)braid_kept_weight(o, update + 1, kUpdates) : 0};
  float values[kMostBatch * kClasses], mixed_values[kMostBatch * kClasses];
  if (targets != BRAID_TARGET_CLASS) {
    fill_numbers(o, batch, values);
    for (int64_t i = 0; i < o->batch; i++)
      memcpy(mixed_values + i * kClasses, values + (o->batch - 1 - i) * kClasses, kClasses * sizeof *values);
    numbers.mixed_targets = mixed_values;
  }
  const void *inputs[BRAID_STEP_MOST_INPUTS] = {images, targets == BRAID_TARGET_CLASS ? (void *)labels : values};
  assert_int_equal(braid_step_bind(o, &numbers, inputs), braid_session_input_count(session));
  ok(braid_session_run(session, inputs, (void *[]){&loss, scores}));
}

static void read_numbers(braid_session *session, const char *name, const braid_desc *desc, double *out) {
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, desc, &tensor));
  ok(braid_session_read(session, name, tensor));
  for (int64_t i = 0; i < braid_desc_count(desc); i++) out[i] = braid_tensor_get_f64(tensor, i);
  braid_tensor_release(tensor);
}

/* w and b, or their averages, after six updates. */
static void train(const braid_train_options *o, int rank, double result[9]) {
  braid_graph *model = linear(rank), *graph;
  braid_session *session;
  braid_dataset_info info = kInfo;
  info.target = targets;
  ok(braid_step_graph(model, &info, o, &graph));
  ok(braid_session_create(
      graph, &(braid_session_options){.training = true, .devices = device, .threads = 1, .registry = registry},
      &session));
  for (int64_t update = 0; update < kUpdates; update++)
    for (int64_t part = 0; part < o->accumulate; part++) run_batch(session, o, update, part);
  const char *const names[] = {"net.w", "net.b"};
  for (int i = 0; i < 2; i++) {
    braid_value_id id =
        braid_keeps_parameters(o) ? braid_step_average(graph, names[i]) : braid_graph_find_value(graph, names[i]);
    assert_true(id >= 0);
    read_numbers(session, graph->values[id].name, &graph->values[id].desc, result + (i ? kWidth * kClasses : 0));
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_graph_destroy(model);
}

static void expect(const char *name, const double result[9]) {
  for (size_t i = 0; i < sizeof kFigures / sizeof *kFigures; i++) {
    if (strcmp(kFigures[i].name, name) != 0) continue;
    for (int k = 0; k < 9; k++)
      if (fabs(result[k] - kFigures[i].expected[k]) > 2e-6)
        fail_msg("%s: number %d is %.9f, PyTorch has %.9f", name, k, result[k], kFigures[i].expected[k]);
    return;
  }
  fail_msg("no figures for %s", name);
}

static braid_train_options basic(void) {
  braid_train_options o;
  braid_train_options_init(&o);
  o.batch = kBatch;
  o.learning_rate = 0.1;
  o.weight_decay = 0;
  return o;
}

static void check_figures(void) {
  static const double kWeights[kClasses] = {0.5, 2, 1.25};
  static const braid_parameter_group kGroup = {"*.b", 0.25, 0.5}, kFrozen = {"net.b", 0, NAN};
  for (size_t i = 0; i < sizeof kFigures / sizeof *kFigures; i++) {
    const char *name = kFigures[i].name;
    braid_train_options o = basic();
    double result[9];
    if (strstr(name, "class weights")) {
      o.class_weights = kWeights;
      o.class_weight_count = kClasses;
    }
    if (strstr(name, "positive weights")) {
      o.positive_weights = kWeights;
      o.positive_weight_count = kClasses;
    }
    multiplies = strstr(name, "einsum") != NULL;
    targets = strstr(name, "labels")    ? BRAID_TARGET_LABELS
              : strstr(name, "numbers") ? BRAID_TARGET_NUMBERS
                                        : BRAID_TARGET_CLASS;
    o.loss = braid_loss_of(targets);
    if (strstr(name, "absolute")) o.loss = BRAID_ABSOLUTE_ERROR;
    if (strstr(name, "huber")) o.loss = BRAID_HUBER;
    o.huber_delta = 0.75;
    if (strstr(name, "mixup")) o.mixup = 1;
    if (strstr(name, "smoothing")) o.label_smoothing = 0.2;
    if (strstr(name, "adamw")) o.optimizer = BRAID_ADAMW;
    if (strstr(name, "accumulate")) o.accumulate = 3;
    if (strstr(name, "average")) o.average_decay = 0.75;
    o.nesterov = strcmp(name, "nesterov") == 0;
    if (strstr(name, "lookahead")) o.lookahead_steps = strstr(name, "adamw") ? 4 : 2;
    if (strcmp(name, "lookahead to the end") == 0) {
      o.lookahead_share = 1;
      o.lookahead_end = 0.25;
    }
    if (strcmp(name, "clip norm") == 0 || strstr(name, "adamw")) o.clip_norm = 0.05;
    if (strcmp(name, "clip value") == 0) o.clip_value = 0.02;
    if (strcmp(name, "clip value and norm") == 0) {
      o.clip_value = 0.05;
      o.clip_norm = 0.06;
    }
    if (o.nesterov || strcmp(name, "plain") == 0 || strcmp(name, "group") == 0 || strcmp(name, "frozen") == 0 ||
        strstr(name, "adamw"))
      o.weight_decay = 0.1;
    if (strcmp(name, "group") == 0) o.groups = &kGroup;
    if (strcmp(name, "frozen") == 0) o.groups = &kFrozen;
    o.group_count = o.groups != NULL;
    if (strcmp(name, "no bias decay") == 0) {
      o.weight_decay = 0.5;
      o.no_bias_decay = true;
    }
    train(&o, 1, result);
    expect(name, result);
    train(&o, 2, result);
    expect(name, result);
  }
  targets = BRAID_TARGET_CLASS;
  multiplies = false;
}

static void test_figures(void **state) {
  (void)state;
  check_figures();
}

static void test_figures_on_opencl(void **state) {
  (void)state;
  braid_machine *machine;
  if (braid_machine_create(NULL, &(braid_machine_options){.devices = "opencl0", .registry = registry}, &machine) !=
      BRAID_OK)
    skip_test("opencl", "there is no OpenCL device");
  braid_machine_release(machine);
  device = "opencl0";
  check_figures();
  device = "cpu";
}

/* Three batches of 4 make the step that one of 12 makes. */
static void test_one_large_batch(void **state) {
  (void)state;
  for (int adamw = 0; adamw < 2; adamw++) {
    braid_train_options o = basic();
    double parts[9], whole[9];
    if (adamw) o.optimizer = BRAID_ADAMW;
    o.clip_norm = 0.05;
    o.accumulate = 3;
    train(&o, 1, parts);
    o.accumulate = 1;
    o.batch = kMostBatch;
    train(&o, 1, whole);
    for (int i = 0; i < 9; i++) assert_true(fabs(parts[i] - whole[i]) < 2e-6);
  }
}

/* A gradient under the limits is not touched, not even by a rounding. */
static void test_limits_not_reached(void **state) {
  (void)state;
  braid_train_options o = basic();
  double free[9], limited[9];
  train(&o, 1, free);
  o.clip_norm = 1e6;
  o.clip_value = 1e3;
  train(&o, 1, limited);
  assert_memory_equal(free, limited, sizeof free);
}

static void refuse(const braid_parameter_group *groups, size_t count, braid_status expected, const char *detail) {
  braid_train_options o = basic();
  braid_graph *model = linear(1), *graph;
  o.groups = groups;
  o.group_count = count;
  assert_int_equal(braid_step_graph(model, &kInfo, &o, &graph), expected);
  assert_null(graph);
  assert_non_null(strstr(braid_error_detail(), detail));
  braid_graph_destroy(model);
}

static void test_wrong_groups(void **state) {
  (void)state;
  refuse((braid_parameter_group[]){{"conv*", 1, 0}}, 1, BRAID_NOT_FOUND, "\"conv*\" matches no parameter");
  refuse((braid_parameter_group[]){{"*", 0.5, 0}, {"net.w", 1, 0}}, 2, BRAID_NOT_FOUND, "that an earlier group leaves");
  refuse((braid_parameter_group[]){{"net.*", 0, 0}}, 1, BRAID_INVALID_ARGUMENT, "all 2 parameters are frozen");
}

/* A frozen parameter has no gradient and no state, and stays one that trains. */
static void test_frozen(void **state) {
  (void)state;
  braid_train_options o = basic();
  o.groups = (braid_parameter_group[]){{"net.w", 0, NAN}};
  o.group_count = 1;
  o.average_decay = 0.5;
  braid_graph *model = linear(1), *graph;
  ok(braid_step_graph(model, &kInfo, &o, &graph));
  assert_int_equal(graph->values[braid_graph_find_value(graph, "net.w")].kind, BRAID_VALUE_PARAMETER);
  assert_int_equal(braid_graph_find_value(graph, "net.w/momentum"), -1);
  assert_int_equal(braid_step_average(graph, "net.w"), -1);
  assert_true(braid_graph_find_value(graph, "net.b/momentum") >= 0);
  assert_true(braid_step_average(graph, "net.b") >= 0);
  for (size_t i = 0; i < graph->node_count; i++) /* of w's gradient there is no product */
    if (graph->nodes[i].backward) assert_string_not_equal(graph->nodes[i].op->name, "MatMul");
  braid_graph_destroy(graph);
  braid_graph_destroy(model);
}

int main(void) {
  registry = open_test_registry(NULL, NULL);
  if (!registry) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures),         cmocka_unit_test(test_figures_on_opencl),
                                     cmocka_unit_test(test_one_large_batch), cmocka_unit_test(test_limits_not_reached),
                                     cmocka_unit_test(test_wrong_groups),    cmocka_unit_test(test_frozen)};
  int result = skip_run_group_tests(tests, NULL, NULL);
  braid_registry_destroy(registry);
  return result;
}
