/* How runs end that do not end well: whatever fails, nothing of a run is in flight when the call returns; nothing waits
 * without end for a device that is lost. The device is the CPU with a memory of its own, some of whose calls fail. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "braid/custom.h"
#include "braid/op.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/execution/weights.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kCount = 8 };

/* --- a device that fails when it is told to ------------------------------------------------------------------------
 */
extern const braid_backend braid_backend_cpu;

static int refuse_after = -1;     /* submits until one is refused; < 0: never */
static atomic_bool lost, swallow; /* the device is gone; tasks are taken and never end */
static const char *swallow_only;  /* a part of the labels of those; NULL: all */
static struct {
  braid_task *task;
  void *queue;
} swallowed[64];
static size_t swallowed_count;

static braid_status rename_infos(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (status == BRAID_OK && capacity) (void)snprintf(infos[0].name, sizeof infos[0].name, "frail");
  return status;
}

/* A queue with its timeline. */
typedef struct frail_queue {
  void *queue;
  braid_timeline *timeline;
} frail_queue;

static braid_status frail_queue_create(void *device, braid_timeline *timeline, void **out) {
  frail_queue *made = malloc(sizeof *made);
  assert_non_null(made);
  made->timeline = timeline;
  *out = made;
  return braid_backend_cpu.queue_create(device, timeline, &made->queue);
}

static void frail_queue_destroy(void *device, void *queue) {
  braid_backend_cpu.queue_destroy(device, ((frail_queue *)queue)->queue);
  free(queue);
}

static braid_status frail_submit(void *queue, braid_task *task) {
  const frail_queue *own = queue;
  if (refuse_after >= 0 && refuse_after-- == 0) return braid_fail(BRAID_IO, "the card takes no more");
  if (!swallow || (swallow_only && !strstr(task->label, swallow_only)))
    return braid_backend_cpu.submit(own->queue, task);
  assert_true(swallowed_count < sizeof swallowed / sizeof *swallowed);
  swallowed[swallowed_count].queue = queue;
  swallowed[swallowed_count++].task = task;
  return BRAID_OK;
}

static braid_status frail_status(void *self) {
  (void)self;
  return lost ? braid_fail(BRAID_DEVICE_LOST, "it fell off the bus") : BRAID_OK;
}

/* --- an op that takes its time -------------------------------------------------------------------------------------
 */
static atomic_int running, sleep_ms;

static braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status slow(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                         const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  atomic_fetch_add(&running, 1);
  if (sleep_ms) nanosleep(&(struct timespec){.tv_nsec = sleep_ms * 1000000L}, NULL);
  memcpy(outputs[0].data, inputs[0].data, kCount * sizeof(float));
  atomic_fetch_sub(&running, 1);
  return BRAID_OK;
}

static const braid_custom_op kSlow = {"test.Slow", 1, 1, 1, infer_same, slow};

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
static braid_backend frail;

static braid_registry *open_registry(void) {
  braid_registry *registry;
  frail = braid_backend_cpu;
  frail.name = "frail";
  frail.enumerate = rename_infos;
  frail.queue_create = frail_queue_create;
  frail.queue_destroy = frail_queue_destroy;
  frail.submit = frail_submit;
  frail.run = NULL;
  frail.record = NULL;
  frail.status = frail_status;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_add(registry, &frail));
  return registry;
}

/* y = Neg(Neg(... Slow(x) + p)) */
static braid_session *open_session(braid_registry *registry, int64_t timeout_ms) {
  braid_graph *graph;
  braid_session *session;
  braid_tensor *tensor;
  braid_desc desc;
  braid_value_id x, p, y = 0;
  int64_t count = kCount;
  OK(braid_graph_create(NULL, "ends", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  memset(braid_tensor_data(tensor), 0, kCount * sizeof(float));
  OK(braid_graph_add_tensor(graph, "p", BRAID_VALUE_PARAMETER, tensor, &p));
  braid_tensor_release(tensor);
  OK(braid_graph_add_node(graph, "test.Slow", "slow", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_node(graph, "Add", "add", (braid_value_id[]){y, p}, 2, &y, 1, NULL));
  for (int i = 0; i < 6; i++) OK(braid_graph_add_node(graph, i % 2 ? "Neg" : "Abs", NULL, &y, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  OK(braid_session_create(graph,
                          &(braid_session_options){.devices = "frail:memory=separate,threads=1",
                                                   .training = true,
                                                   .timeout_ms = timeout_ms,
                                                   .registry = registry},
                          &session));
  braid_graph_destroy(graph);
  return session;
}

/* Wherever submitting stops, the tasks before it have ended when the run returns, and the next run is a whole one. */
static void test_refused_submit(void **state) {
  (void)state;
  braid_registry *registry = open_registry();
  braid_session *session = open_session(registry, 0);
  float x[kCount] = {1, 2, 3}, y[kCount];
  int tasks = (int)braid_session_get_stats(session).nodes;
  assert_true(tasks >= 10); /* transfers too */
  sleep_ms = 30;
  for (int i = 0; i < tasks; i++) {
    refuse_after = i;
    assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_IO);
    assert_int_equal(running, 0);
    assert_non_null(strstr(braid_error_detail(), "the card takes no more"));
  }
  refuse_after = -1;
  sleep_ms = 0;
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  assert_true(y[2] == -3);
  braid_session_destroy(session);
  braid_registry_destroy(registry);
}

static braid_tensor *parameter(void) {
  braid_desc desc;
  braid_tensor *tensor;
  int64_t count = kCount;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int i = 0; i < kCount; i++) ((float *)braid_tensor_data(tensor))[i] = 77;
  return tensor;
}

/* Tasks that the lost device never ended come back when nobody waits for them any more, and are run: what they work on
 * must still be there. */
static void come_back(void) {
  assert_true(swallowed_count > 0);
  lost = swallow = false;
  for (size_t i = 0; i < swallowed_count; i++) {
    const frail_queue *own = swallowed[i].queue;
    uint64_t value = swallowed[i].task->value;
    OK(braid_backend_cpu.submit(own->queue, swallowed[i].task));
    OK(braid_timeline_wait(own->timeline, value, -1));
  }
  swallowed_count = 0;
}

static void check_soon(int64_t start_ns) {
  assert_true(braid_now_ns() - start_ns < 5000000000);
}

static void test_lost_while_reading(void **state) {
  (void)state;
  for (int which = 0; which < 4; which++) { /* read, write; noticed by the device's status, by the time limit */
    bool write = which & 1, limited = which & 2;
    braid_registry *registry = open_registry();
    braid_session *session = open_session(registry, limited ? 50 : 0);
    braid_tensor *tensor = parameter();
    swallow = true;
    lost = !limited;
    int64_t start = braid_now_ns();
    braid_status status = write ? braid_session_write(session, "p", tensor) : braid_session_read(session, "p", tensor);
    assert_int_equal(status, limited ? BRAID_TIMEOUT : BRAID_DEVICE_LOST);
    check_soon(start);
    assert_int_equal(braid_session_read(session, "p", tensor), BRAID_DEVICE_LOST); /* and at once from now on */
    float x[kCount] = {0}, y[kCount];
    assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_DEVICE_LOST);
    come_back();
    for (int i = 0; i < kCount; i++) assert_true(((float *)braid_tensor_data(tensor))[i] == 77);
    braid_tensor_release(tensor);
    braid_session_destroy(session);
    braid_registry_destroy(registry);
  }
}

/* A device that is lost takes nothing with it that runs elsewhere, however long that takes. */
static void test_another_device_is_lost(void **state) {
  (void)state;
  braid_registry *registry = open_registry();
  braid_machine *machine;
  OK(braid_machine_create(
      NULL, &(braid_machine_options){.devices = "cpu:threads=1 frail:memory=separate", .registry = registry},
      &machine));
  braid_graph *graph;
  braid_session *session;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "elsewhere", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){kCount}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_node(graph, "test.Slow", "slow", &x, 1, &x, 1, NULL));
  OK(braid_graph_add_output(graph, x));
  OK(braid_session_create(graph, &(braid_session_options){.machine = machine, .timeout_ms = 20000}, &session));
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  float in[kCount] = {4}, out[kCount];
  lost = true;
  sleep_ms = 900;
  OK(braid_session_run(session, (const void *[]){in}, (void *[]){out}));
  assert_true(out[0] == 4);
  sleep_ms = 0;
  lost = false;
  braid_session_destroy(session);
  braid_registry_destroy(registry);
}

static braid_execution *relu_execution(braid_machine *machine, const braid_desc *desc) {
  braid_graph *graph;
  braid_plan *plan;
  braid_execution *execution;
  braid_value_id x;
  OK(braid_graph_create(NULL, "relu", &graph));
  OK(braid_graph_add_input(graph, "x", desc, &x));
  OK(braid_graph_add_node(graph, "Relu", NULL, &x, 1, &x, 1, NULL));
  OK(braid_graph_add_output(graph, x));
  OK(braid_plan_create(machine, graph, NULL, &plan));
  OK(braid_execution_create(plan, NULL, &execution));
  braid_graph_destroy(graph);
  braid_plan_release(plan);
  return execution;
}

/* Without a time limit a run ends too, when the device says that it is lost. */
static void test_lost_while_running(void **state) {
  (void)state;
  braid_registry *registry = open_registry();
  braid_session *session = open_session(registry, 0);
  float x[kCount] = {0}, y[kCount];
  swallow = lost = true;
  int64_t start = braid_now_ns();
  assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_DEVICE_LOST);
  check_soon(start);
  assert_non_null(strstr(braid_error_detail(), "is lost"));
  assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_DEVICE_LOST);
  come_back();
  braid_session_destroy(session);
  braid_registry_destroy(registry);
}

static void count_release(void *context) {
  ++*(int *)context;
}

/* Memory that is left to a lost device stays to the end of the process; nobody is to take it for a leak. */
static _Alignas(64) uint8_t left_pool[4 << 20];
static atomic_size_t left_used;

static void *left_allocate(void *context, size_t bytes, size_t alignment) {
  (void)context, (void)alignment;
  size_t at = atomic_fetch_add(&left_used, (bytes + 63) / 64 * 64);
  return at + bytes <= sizeof left_pool ? left_pool + at : NULL;
}

static void left_release(void *context, void *pointer) {
  (void)context, (void)pointer;
}

static const braid_allocator kLeft = {NULL, left_allocate, left_release};

/* Buffers of a call and of an execution whose tasks have not ended stay for as long as these may come back to them. */
static void test_buffers_of_a_lost_run(void **state) {
  (void)state;
  for (int bound = 1; bound >= 0; bound--) {
    static braid_registry *registry; /* of the call it is left, too */
    braid_machine *machine;
    braid_desc desc;
    braid_buffer *in, *out = NULL;
    static float x[kCount];
    int released = 0;
    registry = open_registry();
    OK(braid_machine_create(bound ? NULL : &kLeft,
                            &(braid_machine_options){.devices = "frail:threads=1", .registry = registry}, &machine));
    OK(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){kCount}));
    OK(braid_buffer_wrap(machine, &desc, x, count_release, &released, &in));
    swallow = lost = true;
    if (bound) {
      braid_execution *execution = relu_execution(machine, &desc);
      float y[kCount];
      OK(braid_execution_bind_input(execution, 0, in));
      assert_int_equal(braid_execution_run(execution, NULL, (void *[]){y}), BRAID_DEVICE_LOST);
      braid_buffer_release(in);
      assert_int_equal(braid_execution_bind_input(execution, 0, NULL), BRAID_DEVICE_LOST);
      assert_int_equal(released, 0);
      come_back();
      braid_execution_destroy(execution);
      assert_int_equal(released, 1);
    } else {
      const braid_op_call call = {.op = "Relu", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
      assert_int_equal(braid_machine_call(machine, &call), BRAID_DEVICE_LOST);
      assert_null(out);
      braid_buffer_release(in);
      assert_int_equal(released, 0);
      come_back();
    }
    braid_machine_release(machine);
    if (bound) braid_registry_destroy(registry);
  }
}

/* --- who else waits ------------------------------------------------------------------------------------------------
 */
typedef struct shared {
  braid_registry *registry;
  braid_machine *machine;
  braid_weights *weights;
  braid_execution *execution;
} shared;

/* x + p, of weights that others may use. */
static void open_shared(shared *s) {
  braid_graph *graph;
  braid_plan *plan;
  braid_tensor *tensor = parameter();
  braid_desc desc;
  braid_value_id x, p;
  s->registry = open_registry();
  OK(braid_machine_create(
      NULL, &(braid_machine_options){.devices = "frail:memory=separate,threads=1", .registry = s->registry},
      &s->machine));
  OK(braid_graph_create(NULL, "shared", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){kCount}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_tensor(graph, "p", BRAID_VALUE_PARAMETER, tensor, &p));
  braid_tensor_release(tensor);
  OK(braid_graph_add_node(graph, "Add", "add", (braid_value_id[]){x, p}, 2, &x, 1, NULL));
  OK(braid_graph_add_output(graph, x));
  OK(braid_plan_create(s->machine, graph, &(braid_plan_options){.training = true}, &plan));
  braid_graph_destroy(graph);
  OK(braid_weights_create(s->machine, &s->weights));
  OK(braid_execution_create(plan, s->weights, &s->execution));
  braid_plan_release(plan);
}

static void close_shared(shared *s) {
  braid_execution_destroy(s->execution);
  braid_weights_release(s->weights);
  braid_machine_release(s->machine);
  braid_registry_destroy(s->registry);
}

/* A run that nobody waits for holds weights on a device that is lost: who wants to write them is told, and so is the
 * next; once its tasks have ended after all, writing works. */
static void test_weights_of_a_lost_run(void **state) {
  (void)state;
  shared s;
  float x[kCount] = {1}, y[kCount];
  braid_tensor *tensor = parameter();
  open_shared(&s);
  swallow = true;
  OK(braid_execution_submit(s.execution, (const void *[]){x}, (void *[]){y}, NULL, NULL));
  lost = true;
  int64_t start = braid_now_ns();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(braid_weights_write(s.weights, "p", tensor), BRAID_DEVICE_LOST);
    assert_non_null(strstr(braid_error_detail(), "held by a run"));
  }
  check_soon(start);
  come_back();
  OK(braid_execution_wait(s.execution, -1));
  assert_true(y[0] == 78);
  OK(braid_weights_write(s.weights, "p", tensor));
  braid_tensor_release(tensor);
  close_shared(&s);
}

static void *leave_later(void *context) {
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
  braid_weights_leave(context, false, 1);
  return NULL;
}

/* Only the devices of those who hold the weights now count, not those of readers who have left. */
static void test_weights_after_a_lost_reader(void **state) {
  (void)state;
  braid_registry *registry = open_registry();
  braid_machine *machine;
  braid_weights *weights;
  pthread_t thread;
  OK(braid_machine_create(
      NULL, &(braid_machine_options){.devices = "cpu:threads=1 frail:memory=separate", .registry = registry},
      &machine));
  OK(braid_weights_create(machine, &weights));
  OK(braid_weights_enter(weights, false, 2));
  OK(braid_weights_enter(weights, false, 1));
  braid_weights_leave(weights, false, 2);
  lost = true;
  assert_int_equal(pthread_create(&thread, NULL, leave_later, weights), 0);
  OK(braid_weights_enter(weights, true, 1));
  pthread_join(thread, NULL);
  lost = false;
  braid_weights_leave(weights, true, 1);
  braid_weights_release(weights);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

static atomic_int told_count;
static _Atomic braid_status told_status;

static void note_end(void *context, braid_status status) {
  (void)context;
  told_status = status;
  told_count++;
}

/* Who gives a run up tells of its end; its tasks, when they end after all, do not tell again. */
static void test_told_of_a_lost_run(void **state) {
  (void)state;
  shared s;
  float x[kCount] = {1}, y[kCount];
  open_shared(&s);
  swallow = lost = true;
  told_count = 0;
  OK(braid_execution_submit(s.execution, (const void *[]){x}, (void *[]){y}, note_end, NULL));
  assert_int_equal(braid_execution_wait(s.execution, 1000000), BRAID_TIMEOUT);
  assert_int_equal(told_count, 0);
  for (int i = 0; i < 2; i++) assert_int_equal(braid_execution_wait(s.execution, -1), BRAID_DEVICE_LOST);
  assert_int_equal(told_count, 1);
  assert_int_equal(told_status, BRAID_DEVICE_LOST);
  assert_int_equal(braid_execution_submit(s.execution, (const void *[]){x}, (void *[]){y}, note_end, NULL),
                   BRAID_DEVICE_LOST);
  come_back();
  assert_int_equal(braid_execution_wait(s.execution, -1), BRAID_DEVICE_LOST);
  assert_int_equal(told_count, 1);
  close_shared(&s);
}

/* --- what a lost device may still read -----------------------------------------------------------------------------
 */
static bool released;

static void *allocate_block(void *context, size_t bytes, size_t alignment) {
  const braid_allocator *heap = context;
  return heap->allocate(heap->context, bytes, alignment);
}

static void release_block(void *context, void *pointer) {
  const braid_allocator *heap = context;
  released = true;
  heap->release(heap->context, pointer);
}

/* A parameter on its way to a device that is lost stays where it is, though graph, plan and execution are gone. */
static void test_lost_while_binding(void **state) {
  (void)state;
  const braid_allocator noting = {(void *)braid_allocator_default(), allocate_block, release_block};
  braid_registry *registry = open_registry();
  braid_machine *machine;
  braid_weights *weights;
  braid_plan *plan;
  braid_execution *execution;
  braid_graph *graph;
  braid_tensor *tensor;
  braid_desc desc;
  braid_value_id x, p;
  OK(braid_machine_create(
      NULL, &(braid_machine_options){.devices = "frail:memory=separate,threads=1", .registry = registry}, &machine));
  OK(braid_graph_create(NULL, "binding", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){kCount}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_tensor_create(&noting, &desc, &tensor));
  OK(braid_graph_add_tensor(graph, "p", BRAID_VALUE_PARAMETER, tensor, &p));
  braid_tensor_release(tensor);
  OK(braid_graph_add_node(graph, "Add", "add", (braid_value_id[]){x, p}, 2, &x, 1, NULL));
  OK(braid_graph_add_output(graph, x));
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.training = true}, &plan));
  OK(braid_weights_create(machine, &weights));
  braid_graph_destroy(graph);
  swallow = lost = true;
  assert_int_equal(braid_execution_create(plan, weights, &execution), BRAID_DEVICE_LOST);
  braid_plan_release(plan);
  assert_int_equal(swallowed_count, 1);
  assert_int_equal(swallowed[0].task->kind, BRAID_TASK_WRITE);
  assert_false(released);
  come_back();
  braid_weights_release(weights);
  assert_true(released);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

/* What is left to a lost device stays, and is no leak: of LeakSanitizer, where it is. */
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);

/* A constant that is converted for a kernel: the conversion has a kernel and a workspace of its own, and works in the
 * memory of an execution that is not there in the end. */
static void test_lost_while_converting(void **state) {
  (void)state;
  braid_registry *registry = open_registry();
  braid_machine *machine;
  braid_plan *plan;
  braid_execution *execution;
  braid_graph *graph;
  braid_tensor *tensors[2];
  braid_desc desc;
  braid_value_id x, w, c;
  OK(braid_machine_create(
      NULL, &(braid_machine_options){.devices = "frail:memory=separate,threads=1", .registry = registry}, &machine));
  OK(braid_graph_create(NULL, "converting", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 16, 8, 8}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_tensor_create(NULL, &desc, &tensors[0]));
  memset(braid_tensor_data(tensors[0]), 0, braid_desc_bytes(&desc));
  OK(braid_graph_add_tensor(graph, "c", BRAID_VALUE_CONSTANT, tensors[0], &c));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){16, 16, 1, 1}));
  OK(braid_tensor_create(NULL, &desc, &tensors[1]));
  memset(braid_tensor_data(tensors[1]), 0, braid_desc_bytes(&desc));
  OK(braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, tensors[1], &w));
  for (int i = 0; i < 2; i++) braid_tensor_release(tensors[i]);
  OK(braid_graph_add_node(graph, "Conv", "conv", (braid_value_id[]){x, w}, 2, &x, 1, NULL));
  OK(braid_graph_add_node(graph, "Mul", "mul", (braid_value_id[]){x, c}, 2, &x, 1, NULL));
  OK(braid_graph_add_output(graph, x));
  OK(braid_plan_create(machine, graph, NULL, &plan));
  braid_graph_destroy(graph);
  swallow = true;
  swallow_only = "convert";
  lost = true;
  if (__lsan_disable) __lsan_disable();
  braid_status status = braid_execution_create(plan, NULL, &execution);
  if (__lsan_enable) __lsan_enable();
  braid_plan_release(plan);
  swallow_only = NULL;
  if (status == BRAID_OK) { /* without oneDNN there is nothing to convert */
    swallow = lost = false;
    braid_execution_destroy(execution);
  } else {
    assert_int_equal(status, BRAID_DEVICE_LOST);
    assert_int_equal(swallowed_count, 1);
    assert_int_equal(swallowed[0].task->kind, BRAID_TASK_KERNEL);
    come_back();
  }
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

int main(void) {
  if (braid_custom_op_register(&kSlow) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused_submit),         cmocka_unit_test(test_lost_while_reading),
      cmocka_unit_test(test_another_device_is_lost), cmocka_unit_test(test_lost_while_running),
      cmocka_unit_test(test_lost_while_binding),     cmocka_unit_test(test_lost_while_converting),
      cmocka_unit_test(test_weights_of_a_lost_run),  cmocka_unit_test(test_told_of_a_lost_run),
      cmocka_unit_test(test_buffers_of_a_lost_run),  cmocka_unit_test(test_weights_after_a_lost_reader)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
