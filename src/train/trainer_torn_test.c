/* A training step that fails half way: what it leaves is no model and no checkpoint, and the run goes on from the last
 * checkpoint to the bits that it would have had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "graph/graph.h"
#include "train/trainer.h"

enum { kClasses = 10, kPixels = 3 * 32 * 32, kHidden = 8 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* --- the CPU, which once takes no more tasks ----------------------------------------------------------------------
 */
extern const braid_backend braid_backend_cpu;
static long submits, refused_at = -1;

static braid_status frail_submit(void *queue, braid_task *task) {
  if (submits++ == refused_at) {
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* what was submitted before has been run */
    return braid_fail(BRAID_IO, "the card takes no more");
  }
  return braid_backend_cpu.submit(queue, task);
}

static braid_status rename_infos(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (status == BRAID_OK && capacity) (void)snprintf(infos[0].name, sizeof infos[0].name, "frail");
  return status;
}

/* --- a network of two layers --------------------------------------------------------------------------------------
 */
static braid_value_id constant(braid_graph *graph, const char *name, int64_t rows, int64_t columns) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){rows, columns}));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i * 37 % 101 - 50) * 0.0005f;
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id node(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &out, 1, NULL));
  return out;
}

static braid_graph *network(void) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "two", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = node(graph, "Flatten", x, -1);
  x = node(graph, "MatMul", x, constant(graph, "first", kPixels, kHidden));
  x = node(graph, "Relu", x, -1);
  x = node(graph, "MatMul", x, constant(graph, "second", kHidden, kClasses));
  ok(braid_graph_add_output(graph, x));
  return graph;
}

/* --- the test ------------------------------------------------------------------------------------------------------
 */
static bool go_on(void *context, const braid_train_progress *progress) {
  (void)progress;
  return !context || --*(int *)context;
}

static braid_tensor *trained(braid_trainer *trainer, const char *name) {
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, &trainer->step->values[braid_graph_find_value(trainer->step, name)].desc, &tensor));
  ok(braid_session_read(trainer->session, name, tensor));
  return tensor;
}

static void test_failed_step(void **state) {
  (void)state;
  char folder[] = "torn-test-XXXXXX", command[64];
  assert_non_null(mkdtemp(folder));
  braid_backend frail = braid_backend_cpu;
  frail.name = "frail";
  frail.enumerate = rename_infos;
  frail.submit = frail_submit;
  frail.run = NULL;
  frail.record = NULL;
  braid_registry *registry;
  ok(braid_registry_create(NULL, &registry));
  ok(braid_registry_add(registry, &frail));
  braid_dataset *data;
  ok(braid_dataset_open(NULL, "builtin:glyphs,limit=320,seed=3,split=train", "train", &data));
  braid_graph *graph = network();
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = 32;
  options.epochs = 2;
  options.devices = "frail:threads=1";
  options.registry = registry;
  braid_trainer *whole, *trainer, *resumed;
  ok(braid_trainer_create(graph, data, NULL, &options, &whole));
  ok(braid_trainer_run(whole, go_on, NULL));
  options.out_directory = folder;
  options.checkpoint_steps = 5;
  options.resume = true;
  int steps = 7;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  submits = 0;
  assert_int_equal(braid_trainer_run(trainer, go_on, &steps), BRAID_CANCELLED); /* between two steps */
  long tasks = submits / 7;
  refused_at = submits + tasks - 1; /* the last task of a step: an update */
  assert_int_equal(braid_trainer_run(trainer, go_on, NULL), BRAID_IO);
  braid_graph *model;
  assert_int_equal(braid_trainer_model(trainer, &model), BRAID_TORN);
  assert_int_equal(braid_trainer_save(trainer), BRAID_TORN);
  assert_int_equal(braid_trainer_run(trainer, go_on, NULL), BRAID_TORN);
  braid_trainer_destroy(trainer);
  ok(braid_trainer_create(graph, data, NULL, &options, &resumed));
  assert_int_equal(resumed->epoch_step, 7); /* as it was left between the steps */
  ok(braid_trainer_run(resumed, go_on, NULL));
  static const char *const kNames[] = {"first", "second"};
  for (int i = 0; i < 2; i++) {
    braid_tensor *a = trained(whole, kNames[i]), *b = trained(resumed, kNames[i]);
    assert_memory_equal(braid_tensor_const_data(a), braid_tensor_const_data(b), braid_desc_bytes(braid_tensor_desc(a)));
    braid_tensor_release(a);
    braid_tensor_release(b);
  }
  braid_trainer_destroy(whole);
  braid_trainer_destroy(resumed);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
  braid_registry_destroy(registry);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_failed_step)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
