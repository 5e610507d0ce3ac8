/* Runs that update weights and do not come to their end: what they had begun to write is refused until it is written
 * again, and nothing else is. The device is the CPU, whose tasks fail, or are cancelled, where the test says; what was
 * written is seen by looking at the memory. */
#include "skip.h"

#include <stdlib.h>

#include "braid/host_queue.h"
#include "braid/session.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_fixture.h"
#include "runtime/execution/weights.h"

enum { kParameters = 4, kCount = 4 };

/* --- a device whose tasks fail -------------------------------------------------------------------------------------
 */
extern const braid_backend braid_backend_cpu;

typedef enum failure { FAIL_NONE, FAIL_BEFORE, FAIL_AFTER, CANCEL_BEFORE, CANCEL_AFTER, LOSE, REFUSE } failure;

static _Atomic failure fails;
static atomic_int fail_at, tasks_run; /* the task of a run, of all queues, at which it happens */
static atomic_bool is_gone;
static braid_execution *victim; /* what is cancelled */

typedef struct frail_queue {
  void *inner;
  braid_timeline *timeline; /* of inner */
  braid_host_queue *queue;
  uint64_t last;
} frail_queue;

/* The real task, to its end. */
static braid_status run_inner(frail_queue *own, const braid_task *task) {
  braid_verdict verdict;
  braid_verdict_init(&verdict);
  braid_task inner = *task;
  inner.verdict = &verdict;
  inner.wait_count = 0;
  inner.timing = NULL;
  inner.value = ++own->last;
  braid_status status = braid_backend_cpu.submit(own->inner, &inner);
  if (status == BRAID_OK) status = braid_timeline_wait(own->timeline, inner.value, -1);
  return status == BRAID_OK ? braid_verdict_status(&verdict) : status;
}

static braid_status frail_run(void *context, const braid_task *task) {
  bool chosen = fails != FAIL_NONE && atomic_fetch_add(&tasks_run, 1) == fail_at;
  if (chosen && fails == CANCEL_BEFORE) braid_execution_cancel(victim);
  if (chosen && fails == FAIL_BEFORE) return braid_fail(BRAID_IO, "the kernel does not start");
  braid_status status = run_inner(context, task);
  if (chosen && fails == LOSE) is_gone = true;
  if (chosen && fails == CANCEL_AFTER) braid_execution_cancel(victim);
  return chosen && (fails == FAIL_AFTER || fails == LOSE) ? braid_fail(BRAID_IO, "the kernel fails") : status;
}

static const braid_host_queue_ops kQueueOps = {.run = frail_run};

static braid_status frail_queue_create(void *device, braid_timeline *timeline, void **out) {
  frail_queue *own = *out = calloc(1, sizeof *own);
  assert_non_null(own);
  OK(braid_timeline_create(NULL, &own->timeline));
  OK(braid_backend_cpu.queue_create(device, own->timeline, &own->inner));
  return braid_host_queue_create(NULL, "frail", &kQueueOps, own, timeline, &own->queue);
}

static void frail_queue_destroy(void *device, void *queue) {
  frail_queue *own = queue;
  braid_host_queue_destroy(own->queue);
  braid_backend_cpu.queue_destroy(device, own->inner);
  braid_timeline_destroy(own->timeline);
  free(own);
}

static braid_status frail_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(((frail_queue *)queue)->queue, task);
}

static braid_status frail_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(((frail_queue *)queue)->queue, tasks, count, recording);
}

static void frail_erase(void *queue, void *recording) {
  braid_host_queue_erase(((frail_queue *)queue)->queue, recording);
}

/* What the first device was given of this run; NULL: nothing. */
static const braid_part *part_of_first(void) {
  for (size_t q = 0; q < victim->plan->queue_count; q++)
    if (victim->plan->queues[q].device == 0 && victim->parts[q].submitted) return &victim->parts[q];
  return NULL;
}

/* Refuses once the other device has ended two tasks of its part. */
static braid_status frail_replay(void *queue, void *recording, uint64_t first) {
  const braid_part *other = fails == REFUSE ? part_of_first() : NULL;
  if (other) {
    OK(braid_timeline_wait(other->queue->timeline, other->before + 2, 10000000000));
    return braid_fail(BRAID_NO_MEMORY, "no room for a part of a run");
  }
  return braid_host_queue_replay(((frail_queue *)queue)->queue, recording, first);
}

static braid_status frail_status(void *self) {
  (void)self;
  return is_gone ? braid_fail(BRAID_DEVICE_LOST, "it fell off the bus") : BRAID_OK;
}

static braid_status rename_infos(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (status == BRAID_OK && capacity) (void)snprintf(infos[0].name, sizeof infos[0].name, "frail");
  return status;
}

static void frail_info(void *device, braid_device_info *info) {
  braid_backend_cpu.info(device, info);
  (void)snprintf(info->name, sizeof info->name, "frail");
}

/* records, marks: what the device can. */
static braid_registry *open_registry(bool records, bool marks) {
  static braid_backend frail;
  braid_registry *registry;
  frail = braid_backend_cpu;
  frail.name = "frail";
  frail.enumerate = rename_infos;
  frail.info = frail_info;
  frail.queue_create = frail_queue_create;
  frail.queue_destroy = frail_queue_destroy;
  frail.submit = frail_submit;
  frail.run = NULL;
  frail.record = records ? frail_record : NULL;
  frail.erase = frail_erase;
  frail.replay = frail_replay;
  frail.status = frail_status;
  frail.marks_begun = marks;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_add(registry, &frail));
  return registry;
}

/* --- a step --------------------------------------------------------------------------------------------------------
 * y = ((x * p0) * p1) ..., and each p <- p + x where it stands in that chain. */
static void parameter_name(char *name, int i) {
  (void)snprintf(name, 8, "p%d", i);
}

static braid_graph *step_graph(bool trains) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y;
  OK(braid_graph_create(NULL, "step", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){kCount}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  y = x;
  for (int i = 0; i < kParameters; i++) {
    char name[8], label[16];
    parameter_name(name, i);
    braid_value_id p = add_tensor(graph, name, BRAID_VALUE_PARAMETER, 1, (int64_t[]){kCount}, 0.5f), next = 0;
    (void)snprintf(label, sizeof label, "use%d", i);
    braid_value_id product = 0;
    OK(braid_graph_add_node(graph, "Mul", label, (braid_value_id[]){y, p}, 2, &product, 1, NULL));
    y = product;
    (void)snprintf(label, sizeof label, "update%d", i);
    if (trains) OK(braid_graph_add_node(graph, "Add", label, (braid_value_id[]){p, x}, 2, &next, 1, NULL));
    if (trains) OK(braid_graph_update_state(graph, p, next));
  }
  OK(braid_graph_add_output(graph, y));
  return graph;
}

typedef struct scene {
  braid_registry *registry;
  braid_machine *machine;
  braid_plan *train, *look;
  braid_weights *weights;
  braid_execution *step, *eval;
} scene;

static braid_plan *placed_plan(braid_machine *machine, braid_graph *graph, const char *place) {
  braid_plan *plan;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.training = true, .place = place, .loose_place = true},
                       &plan));
  braid_graph_destroy(graph);
  return plan;
}

static scene open_scene(braid_registry *registry, const char *devices, const char *place) {
  scene s = {.registry = registry};
  fails = FAIL_NONE;
  is_gone = false;
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = devices, .registry = registry}, &s.machine));
  OK(braid_weights_create(s.machine, &s.weights));
  s.train = placed_plan(s.machine, step_graph(true), place);
  s.look = placed_plan(s.machine, step_graph(false), place);
  OK(braid_execution_create(s.train, s.weights, &s.step));
  OK(braid_execution_create(s.look, s.weights, &s.eval));
  victim = s.step;
  return s;
}

static void close_scene(scene *s) {
  braid_execution_destroy(s->step);
  braid_execution_destroy(s->eval);
  braid_plan_release(s->train);
  braid_plan_release(s->look);
  braid_weights_release(s->weights);
  braid_machine_release(s->machine);
  braid_registry_destroy(s->registry);
}

static braid_weight *weight_of(const scene *s, int i) {
  char name[8];
  parameter_name(name, i);
  for (size_t k = 0; k < s->weights->count; k++)
    if (strcmp(s->weights->items[k]->name, name) == 0) return s->weights->items[k];
  fail_msg("no weight %s", name);
  return NULL;
}

/* Its contents, whatever they are worth. */
static float first_number(const scene *s, int i) {
  braid_weight *weight = weight_of(s, i);
  float numbers[kCount];
  bool torn = weight->torn;
  weight->torn = false;
  OK(braid_weights_fetch(s->weights, weight, numbers));
  weight->torn = torn;
  return numbers[0];
}

static braid_tensor *vector(void) {
  braid_desc desc;
  braid_tensor *tensor;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){kCount}));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  return tensor;
}

static braid_status read_parameter(const scene *s, int i) {
  char name[8];
  parameter_name(name, i);
  braid_tensor *tensor = vector();
  braid_status status = braid_weights_read(s->weights, name, tensor);
  braid_tensor_release(tensor);
  return status;
}

static void write_parameter(const scene *s, int i, float number) {
  char name[8];
  parameter_name(name, i);
  braid_tensor *tensor = vector();
  for (int k = 0; k < kCount; k++) ((float *)braid_tensor_data(tensor))[k] = number;
  OK(braid_weights_write(s->weights, name, tensor));
  braid_tensor_release(tensor);
}

static braid_status run_one(braid_execution *execution, bool submits) {
  float x[kCount] = {1, 1, 1, 1}, y[kCount];
  tasks_run = 0;
  if (!submits) return braid_execution_run(execution, (const void *[]){x}, (void *[]){y});
  OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL));
  return braid_execution_wait(execution, -1);
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
/* After a run that ended at some task: what changed is torn unless all of it did, what did not is not, but for what was
 * about to. `exactly`: nothing else is torn. */
static void check_torn(const scene *s, bool exactly) {
  int changed = 0, torn = 0;
  fails = FAIL_NONE;
  for (int i = 0; i < kParameters; i++) {
    bool is_torn = weight_of(s, i)->torn, is_changed = first_number(s, i) != (float)i;
    changed += is_changed;
    torn += is_torn;
    assert_int_equal(read_parameter(s, i), is_torn ? BRAID_TORN : BRAID_OK);
    if (is_torn) assert_non_null(strstr(braid_error_detail(), "load a checkpoint"));
  }
  assert_int_equal(s->weights->torn, torn);
  for (int i = 0; torn && i < kParameters; i++) assert_true(weight_of(s, i)->torn || first_number(s, i) == (float)i);
  if (!torn) assert_true(changed == 0 || changed == kParameters);
  if (torn && exactly) assert_in_range(torn - changed, 0, 1);
  braid_status expected = torn ? BRAID_TORN : BRAID_OK;
  assert_int_equal(run_one(s->eval, false), expected);
  float x[kCount] = {1, 1, 1, 1}, y[kCount];
  if (torn) assert_int_equal(run_one(s->step, false), BRAID_TORN);
  if (torn)
    assert_int_equal(braid_execution_submit(s->step, (const void *[]){x}, (void *[]){y}, NULL, NULL), BRAID_TORN);
}

/* Written one by one, and used as before. */
static void mend(const scene *s) {
  fails = FAIL_NONE;
  for (int i = 0; i < kParameters; i++) {
    if (s->weights->torn) assert_int_equal(run_one(s->eval, false), BRAID_TORN);
    write_parameter(s, i, (float)i);
    OK(read_parameter(s, i));
  }
  assert_int_equal(s->weights->torn, 0);
  OK(run_one(s->step, false));
  for (int i = 0; i < kParameters; i++) assert_true(first_number(s, i) == (float)i + 1);
  for (int i = 0; i < kParameters; i++) write_parameter(s, i, (float)i);
}

static void test_every_task(void **state) {
  (void)state;
  static const struct {
    const char *devices, *place;
    bool records, marks;
    bool first; /* a run begins on the device that fails */
  } kCases[] = {
      {"frail:threads=1", NULL, true, true, true},
      {"frail:threads=1", NULL, false, true, true},
      {"frail:threads=1", NULL, true, false, false},
      {"frail:memory=separate,threads=1", NULL, true, true, true},
      {"frail:threads=1 cpu:threads=1", "*1=cpu,*2=cpu", true, true, true},
      {"cpu:threads=1 frail:memory=separate,threads=1", "*2=frail", false, true, false},
      {"cpu:threads=1 frail:memory=separate,threads=1", "*1=frail,*2=frail", true, true, false},
  };
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    scene s = open_scene(open_registry(kCases[c].records, kCases[c].marks), kCases[c].devices, kCases[c].place);
    int tasks = (int)braid_plan_line_count(s.train), untouched = 0, torn = 0;
    mend(&s);
    for (int n = 0; n < tasks; n++) {
      for (failure kind = FAIL_BEFORE; kind <= CANCEL_AFTER; kind++) {
        for (int submits = 0; submits < 2; submits++) {
          fails = kind;
          fail_at = n;
          braid_status status = run_one(s.step, submits);
          fails = FAIL_NONE;
          if (tasks_run <= n) assert_int_equal(status, BRAID_OK); /* fewer are on the device that fails */
          if (status == BRAID_OK) {
            for (int i = 0; i < kParameters; i++) write_parameter(&s, i, (float)i);
            continue;
          }
          assert_int_equal(status, kind < CANCEL_BEFORE ? BRAID_IO : BRAID_CANCELLED);
          if (s.weights->torn)
            torn++;
          else
            untouched++;
          check_torn(&s, kCases[c].marks);
          mend(&s);
        }
      }
    }
    assert_true(torn > 0);
    if (kCases[c].first) assert_true(untouched > 0); /* elsewhere updates may begin before any task that fails */
    close_scene(&s);
  }
}

/* A device refuses its part of a run while tasks of another device are at it: none runs on, and what they wrote is
 * torn.
 */
static void test_refused_part(void **state) {
  (void)state;
  float x[kCount] = {1, 1, 1, 1}, y[kCount];
  scene s = open_scene(open_registry(true, true), "cpu:threads=1 frail:memory=separate,threads=1", "*2=frail");
  mend(&s);
  for (int submits = 0; submits < 2; submits++) {
    fails = REFUSE;
    braid_status status = submits ? braid_execution_submit(s.step, (const void *[]){x}, (void *[]){y}, NULL, NULL)
                                  : run_one(s.step, false);
    assert_int_equal(status, BRAID_NO_MEMORY);
    assert_int_equal(weight_of(&s, 0)->torn, true); /* it waits for nothing of the other device */
    assert_int_equal(weight_of(&s, 2)->torn, false);
    assert_int_equal(weight_of(&s, 3)->torn, false); /* it waits for use2 */
    check_torn(&s, true);
    mend(&s);
  }
  close_scene(&s);
}

/* The device goes while it trains: what it did not have is as good as before, or torn. */
static void test_lost_device(void **state) {
  (void)state;
  bool some_torn = false;
  for (int n = 0; n < 4; n++) {
    scene s = open_scene(open_registry(true, true), "cpu:threads=1 frail:threads=1", "*1=frail,*2=frail");
    fails = LOSE;
    fail_at = n;
    assert_int_equal(run_one(s.step, n % 2), BRAID_IO);
    fails = FAIL_NONE;
    is_gone = false; /* to look at its memory */
    for (int i = 0; i < kParameters; i++)
      assert_true(weight_of(&s, i)->torn || !s.weights->torn || first_number(&s, i) == first_number(&s, 3));
    some_torn |= s.weights->torn;
    close_scene(&s);
  }
  assert_true(some_torn);
}

/* A parameter that somebody fails to write is torn itself. */
static void test_failed_write(void **state) {
  (void)state;
  scene s = open_scene(open_registry(true, true), "frail:memory=separate,threads=1", NULL);
  braid_tensor *tensor = vector();
  memset(braid_tensor_data(tensor), 0, kCount * sizeof(float));
  fails = FAIL_AFTER;
  fail_at = tasks_run = 0;
  assert_int_equal(braid_weights_write(s.weights, "p1", tensor), BRAID_IO);
  fails = FAIL_NONE;
  assert_int_equal(read_parameter(&s, 1), BRAID_TORN);
  OK(read_parameter(&s, 0));
  assert_int_equal(run_one(s.eval, false), BRAID_TORN);
  OK(braid_weights_write(s.weights, "p1", tensor));
  OK(run_one(s.eval, false));
  braid_tensor_release(tensor);
  close_scene(&s);
}

static void *run_step(void *context) {
  const scene *s = context;
  return (void *)(intptr_t)run_one(s->step, false);
}

/* Nothing has begun of a run that is cancelled while it waits for the weights, whatever the device can tell. */
static void test_cancelled_before_it_begins(void **state) {
  (void)state;
  for (int marks = 0; marks < 2; marks++) {
    scene s = open_scene(open_registry(marks, marks), "frail:threads=1", NULL);
    pthread_t thread;
    void *status;
    uint64_t arrived = s.weights->arrived;
    OK(braid_weights_enter(s.weights, true, 0));
    assert_int_equal(pthread_create(&thread, NULL, run_step, &s), 0);
    for (bool there = false; !there; pause_a_little()) {
      pthread_mutex_lock(&s.weights->turn);
      there = s.weights->arrived == arrived + 2;
      pthread_mutex_unlock(&s.weights->turn);
    }
    braid_execution_cancel(s.step);
    braid_weights_leave(s.weights, true, 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, BRAID_CANCELLED);
    assert_int_equal(s.weights->torn, 0);
    mend(&s);
    close_scene(&s);
  }
}

/* Weights that a session has for itself. */
static void test_session(void **state) {
  (void)state;
  braid_registry *registry = open_registry(true, true);
  braid_graph *graph = step_graph(true);
  braid_session *session;
  braid_session_options options = {.devices = "frail", .training = true, .registry = registry};
  float x[kCount] = {1, 1, 1, 1}, y[kCount];
  braid_tensor *tensor = vector();
  fails = FAIL_NONE;
  OK(braid_session_create(graph, &options, &session));
  int refused = 0;
  fails = FAIL_AFTER;
  fail_at = (int)braid_session_plan_count(session) - 3;
  tasks_run = 0;
  assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_IO);
  fails = FAIL_NONE;
  assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){y}), BRAID_TORN);
  for (int i = 0; i < kParameters; i++) {
    char name[8];
    parameter_name(name, i);
    refused += braid_session_read(session, name, tensor) == BRAID_TORN;
  }
  assert_in_range(refused, 1, kParameters);
  for (int i = 0; i < kParameters; i++) {
    char name[8];
    parameter_name(name, i);
    OK(braid_session_write(session, name, tensor));
    OK(braid_session_read(session, name, tensor));
  }
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_tensor_release(tensor);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
}

/* --- OpenCL --------------------------------------------------------------------------------------------------------
 */
static void *cancel_soon(void *context) {
  nanosleep(&(struct timespec){.tv_nsec = *(const long *)context}, NULL);
  braid_execution_cancel(victim);
  return NULL;
}

static void test_cancelled_any_time(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu:threads=1", "opencl0"};
  for (int d = 0; d < 2; d++) {
    braid_registry *registry;
    braid_device *device;
    OK(braid_registry_create(NULL, &registry));
    if (braid_device_open(registry, kDevices[d], &device) != BRAID_OK) {
      braid_registry_destroy(registry);
      skip_test("opencl", "no OpenCL device");
    }
    braid_device_close(device);
    scene s = open_scene(registry, kDevices[d], NULL);
    mend(&s);
    for (long round = 0; round < 200; round++) {
      pthread_t thread;
      long pause = round * 700;
      assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &pause), 0);
      braid_status status = run_one(s.step, round % 2);
      assert_int_equal(pthread_join(thread, NULL), 0);
      if (status != BRAID_OK) {
        assert_int_equal(status, BRAID_CANCELLED);
        check_torn(&s, false);
      }
      for (int i = 0; i < kParameters; i++) write_parameter(&s, i, (float)i);
    }
    close_scene(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_task),
      cmocka_unit_test(test_refused_part),
      cmocka_unit_test(test_lost_device),
      cmocka_unit_test(test_failed_write),
      cmocka_unit_test(test_cancelled_before_it_begins),
      cmocka_unit_test(test_session),
      cmocka_unit_test(test_cancelled_any_time),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
