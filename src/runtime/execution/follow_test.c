/* Evaluation beside training: a plan made before the weights were trained gives, at every batch size and while they
 * train, what a fresh inference plan gives over a copy of them. Its kernels read parameters where the weights keep
 * them, in the layout that training chose; the fresh plan folds and packs. */
#include "skip.h"

#include <math.h>
#include <stdio.h>

#include "runtime/execution/execution_fixture.h"

enum { kMost = 4, kParameters = 4 };
static const char *const kNames[kParameters] = {"w", "f", "scale", "shift"};

/* conv_graph, with a step: each parameter p <- p + p * rate. */
static braid_graph *training_graph(void) {
  braid_graph *graph = conv_graph(2);
  braid_desc desc;
  braid_value_id rate;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){1}));
  OK(braid_graph_add_input(graph, "rate", &desc, &rate));
  for (int i = 0; i < kParameters; i++) {
    braid_value_id p = braid_graph_find_value(graph, kNames[i]);
    braid_value_id change = node(graph, "Mul", (braid_value_id[]){p, rate}, 2);
    OK(braid_graph_update_state(graph, p, node(graph, "Add", (braid_value_id[]){p, change}, 2)));
  }
  return graph;
}

static braid_plan *plan_over(braid_machine *machine, braid_graph *graph, braid_weights *weights) {
  braid_plan *plan;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.training = true, .weights = weights}, &plan));
  braid_graph_destroy(graph);
  return plan;
}

/* The same network as constants of the numbers that the weights have now. */
static void fresh_scores(braid_machine *machine, braid_weights *weights, int64_t batch, const float *x, float *y) {
  braid_graph *graph = conv_graph(batch);
  for (int i = 0; i < kParameters; i++) {
    braid_value *value = &graph->values[braid_graph_find_value(graph, kNames[i])];
    braid_tensor *now;
    OK(braid_tensor_create(NULL, &value->desc, &now));
    OK(braid_weights_read(weights, kNames[i], now));
    braid_tensor_release(value->tensor);
    value->tensor = now;
  }
  for (size_t i = 0; i < graph->value_count; i++) /* so that the normalization is folded into the convolution */
    if (graph->values[i].kind == BRAID_VALUE_PARAMETER) graph->values[i].kind = BRAID_VALUE_CONSTANT;
  braid_plan *plan = make_plan(machine, graph, false);
  braid_execution *execution;
  OK(braid_execution_create(plan, NULL, &execution));
  OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
  braid_execution_destroy(execution);
  braid_plan_release(plan);
}

static void check_near(const float *a, const float *b, size_t count) {
  float most = 0;
  for (size_t i = 0; i < count; i++) most = fmaxf(most, fabsf(b[i]));
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-4f * most)) fail_msg("%zu: %g, fresh %g", i, (double)a[i], (double)b[i]);
}

typedef struct scene {
  braid_machine *machine;
  braid_weights *weights;
  braid_execution *step, *eval[kMost]; /* of batch 1, 2, 3, 4 */
} scene;

static void open_scene(scene *s, const char *devices) {
  if (braid_machine_create(NULL, &(braid_machine_options){.devices = devices}, &s->machine) != BRAID_OK)
    skip_test("opencl", "there is no OpenCL device");
  OK(braid_weights_create(s->machine, &s->weights));
  braid_plan *train = plan_over(s->machine, training_graph(), s->weights);
  OK(braid_execution_create(train, s->weights, &s->step));
  braid_plan_release(train);
  for (int b = 0; b < kMost; b++) {
    braid_plan *plan = plan_over(s->machine, conv_graph(b + 1), s->weights);
    OK(braid_execution_create(plan, s->weights, &s->eval[b]));
    braid_plan_release(plan);
  }
}

static void close_scene(scene *s) {
  for (int b = 0; b < kMost; b++) braid_execution_destroy(s->eval[b]);
  braid_execution_destroy(s->step);
  braid_weights_release(s->weights);
  braid_machine_release(s->machine);
}

static void train(const scene *s, int steps) {
  static float x[2 * kImage];
  float rate = 0.125f, y[2 * kClasses];
  for (int i = 0; i < steps; i++) OK(braid_execution_run(s->step, (const void *[]){x, &rate}, (void *[]){y}));
}

static void check_follows(const scene *s) {
  static float x[kMost * kImage];
  float followed[kMost * kClasses], fresh[kMost * kClasses];
  fill(x, kMost * kImage, 1);
  for (int b = 0; b < kMost; b++) {
    OK(braid_execution_run(s->eval[b], (const void *[]){x}, (void *[]){followed}));
    fresh_scores(s->machine, s->weights, b + 1, x, fresh);
    check_near(followed, fresh, (size_t)(b + 1) * kClasses);
  }
}

static const char *const kDevices[] = {"cpu:threads=1", "cpu", "cpu:memory=separate", "opencl0", "cpu opencl0"};

static void write_parameter(const scene *s, const char *name, float number) {
  braid_graph *graph = conv_graph(1);
  braid_tensor *tensor = graph->values[braid_graph_find_value(graph, name)].tensor;
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++) data[i] = number * (float)(i % 5 - 2);
  OK(braid_weights_write(s->weights, name, tensor));
  braid_graph_destroy(graph);
}

static void test_follows(void **state) {
  (void)state;
  for (size_t d = 0; d < sizeof kDevices / sizeof *kDevices; d++) {
    scene s;
    open_scene(&s, kDevices[d]);
    check_follows(&s);
    for (int k = 1; k < 4; k++) {
      train(&s, k);
      check_follows(&s);
      write_parameter(&s, kNames[k], 0.25f * (float)k);
      check_follows(&s);
    }
    close_scene(&s);
  }
}

/* --- at the same time ----------------------------------------------------------------------------------------------
 */
typedef struct trainer {
  const scene *scene;
  atomic_bool done;
} trainer;

static void *train_on(void *context) {
  trainer *own = context;
  for (int i = 0; i < 40; i++) train(own->scene, 1);
  own->done = true;
  return NULL;
}

/* Every evaluation sees the weights between two steps, and never goes back: scores of a network whose parameters all
 * grow by the same factor are known for each step from the first. */
static void test_follows_while_training(void **state) {
  (void)state;
  enum { kSteps = 40 };
  static float x[kMost * kImage], known[kSteps + 1][kMost * kClasses];
  fill(x, kMost * kImage, 1);
  for (int d = 1; d < 4; d += 2) { /* cpu, opencl0 */
    scene reference, s;
    open_scene(&reference, kDevices[d]);
    for (int k = 0; k <= kSteps; k++) {
      OK(braid_execution_run(reference.eval[1], (const void *[]){x}, (void *[]){known[k]}));
      train(&reference, 1);
    }
    close_scene(&reference);
    open_scene(&s, kDevices[d]);
    trainer own = {.scene = &s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, train_on, &own), 0);
    for (int at = 0, last = 0; !last;) {
      float y[kMost * kClasses];
      last = own.done;
      OK(braid_execution_run(s.eval[1], (const void *[]){x}, (void *[]){y}));
      while (at <= kSteps && memcmp(y, known[at], 2 * kClasses * sizeof(float)) != 0) at++;
      assert_true(at <= kSteps && (!last || at == kSteps));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_scene(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows), cmocka_unit_test(test_follows_while_training)};
  return skip_run_group_tests(tests, NULL, NULL);
}
