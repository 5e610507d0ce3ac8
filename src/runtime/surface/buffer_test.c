/* Buffers: memory of devices that goes from one execution to the next, and to and from other libraries. */
#include <sched.h>
#include <stdio.h>

#include "base/try.h"
#include "braid/buffer.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_fixture.h"
#include "runtime/surface/dlpack.h"
#include "skip.h"

enum { kCount = 24 };

static braid_desc vector_of(int64_t count) {
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  return desc;
}

static bool has_opencl(void) {
  braid_machine *machine;
  if (braid_machine_create(NULL, &(braid_machine_options){.devices = "opencl0"}, &machine) != BRAID_OK) return false;
  braid_machine_release(machine);
  return true;
}

/* --- buffers alone -------------------------------------------------------------------------------------------------
 */
static void test_contents(void **state) {
  (void)state;
  static const char *const kDevices[] = {NULL, "cpu", "0", "1"};
  braid_machine *machine = open_machine("cpu cpu:memory=separate");
  braid_desc desc = vector_of(kCount);
  for (size_t d = 0; d < sizeof kDevices / sizeof *kDevices; d++) {
    braid_buffer *buffer, *view;
    float x[kCount], y[kCount] = {0};
    fill(x, kCount, 1);
    OK(braid_buffer_create(machine, kDevices[d], &desc, &buffer));
    assert_string_equal(braid_buffer_device(buffer), d == 3 ? "cpu#1" : "host");
    assert_true((braid_buffer_host(buffer) == NULL) == (d == 3));
    OK(braid_buffer_write(buffer, x, sizeof x, d % 2 ? -1 : 10000000000));
    OK(braid_buffer_read(buffer, y, sizeof y, d % 2 ? 10000000000 : -1));
    assert_memory_equal(x, y, sizeof x);
    braid_desc part;
    OK(braid_desc_init(&part, BRAID_F32, 2, (int64_t[]){2, 4}));
    OK(braid_buffer_view(buffer, 64, &part, &view));
    braid_buffer_release(buffer); /* the view keeps the memory */
    OK(braid_buffer_read(view, y, 32, -1));
    assert_memory_equal(x + 16, y, 32);
    braid_buffer_release(view);
  }
  braid_machine_release(machine);
}

static int released;

static void count_release(void *context) {
  assert_string_equal(context, "context");
  released++;
}

static void test_memory_of_the_caller(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_desc desc = vector_of(kCount), half = vector_of(kCount / 2);
  braid_buffer *buffer, *view;
  float x[kCount], y[kCount / 2];
  fill(x, kCount, 1);
  released = 0;
  static char kContext[] = "context";
  OK(braid_buffer_wrap(machine, &desc, x, count_release, kContext, &buffer));
  assert_ptr_equal(braid_buffer_host(buffer), x);
  OK(braid_buffer_view(buffer, sizeof y, &half, &view));
  braid_machine_release(machine); /* which the buffers keep */
  braid_buffer_release(buffer);
  OK(braid_buffer_read(view, y, sizeof y, -1));
  assert_memory_equal(y, x + kCount / 2, sizeof y);
  assert_int_equal(released, 0);
  braid_buffer_release(view);
  assert_int_equal(released, 1);
}

static void expect_refusal(braid_status status, braid_status expected, const char *sentence) {
  if (status != expected || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s: %s", braid_status_text(status), braid_error_detail(), braid_status_text(expected),
             sentence);
}

static void test_what_is_refused(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:memory=separate");
  braid_desc desc = vector_of(kCount), one = vector_of(1), blocked = desc;
  braid_buffer *buffer, *view;
  float x[kCount];
  expect_refusal(braid_buffer_create(machine, "gpu7", &desc, &buffer), BRAID_NOT_FOUND, "gpu7 is not among");
  expect_refusal(braid_buffer_create(machine, "1", &desc, &buffer), BRAID_NOT_FOUND, "devices: cpu");
  expect_refusal(braid_buffer_wrap(machine, &desc, NULL, NULL, NULL, &buffer), BRAID_INVALID_ARGUMENT,
                 "96 bytes without memory");
  blocked.layout = BRAID_LAYOUT_BHWC;
  expect_refusal(braid_buffer_create(machine, NULL, &blocked, &buffer), BRAID_UNSUPPORTED, "in layout");
  blocked = (braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {-1}};
  assert_int_equal(braid_buffer_create(machine, NULL, &blocked, &buffer), BRAID_OUT_OF_RANGE);
  OK(braid_buffer_create(machine, "cpu", &desc, &buffer));
  expect_refusal(braid_buffer_view(buffer, 4, &one, &view), BRAID_INVALID_ARGUMENT, "expected a multiple of 64");
  expect_refusal(braid_buffer_view(buffer, 96, &one, &view), BRAID_OUT_OF_RANGE, "at offset 96 of a buffer of 96");
  expect_refusal(braid_buffer_view(buffer, SIZE_MAX - 1, &one, &view), BRAID_OUT_OF_RANGE, "a view of 4 bytes");
  expect_refusal(braid_buffer_read(buffer, x, 4, -1), BRAID_INVALID_ARGUMENT, "4 bytes given for a buffer of 96");
  braid_buffer_release(buffer);
  braid_machine_release(machine);
}

/* --- executions ----------------------------------------------------------------------------------------------------
 */
/* What a session gives for conv_graph, on the same devices. */
static void reference(const char *devices, const float *x, float *y) {
  braid_session *session;
  braid_graph *graph = conv_graph(1);
  OK(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* y = softmax(2 * x) */
static braid_graph *second_graph(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "second", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, kClasses}));
  OK(braid_graph_add_input(graph, "scores", &desc, &x));
  x = node(graph, "Softmax", (braid_value_id[]){node(graph, "Add", (braid_value_id[]){x, x}, 2)}, 1);
  OK(braid_graph_add_output(graph, x));
  return graph;
}

static size_t transfers(const braid_plan *plan) {
  size_t count = 0;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++)
    count += strcmp(braid_plan_get_line(plan, i).op, "Transfer") == 0;
  return count;
}

typedef struct piped {
  braid_machine *machine;
  braid_plan *plans[2];
  braid_execution *executions[2];
} piped;

static piped open_pipe(const char *devices, bool device_io) {
  piped p = {.machine = open_machine(devices)};
  for (int i = 0; i < 2; i++) {
    braid_graph *graph = i ? second_graph() : conv_graph(1);
    OK(braid_plan_create(p.machine, graph, &(braid_plan_options){.device_io = device_io}, &p.plans[i]));
    OK(braid_execution_create(p.plans[i], NULL, &p.executions[i]));
    braid_graph_destroy(graph);
  }
  return p;
}

static void close_pipe(piped *p) {
  for (int i = 0; i < 2; i++) {
    braid_execution_destroy(p->executions[i]);
    braid_plan_release(p->plans[i]);
  }
  braid_machine_release(p->machine);
}

static braid_buffer *buffer_for(const piped *p, int plan, bool input, const char *device) {
  braid_buffer *buffer;
  const braid_desc *desc = input ? braid_plan_input(p->plans[plan], 0) : braid_plan_output(p->plans[plan], 0);
  OK(braid_buffer_create(p->machine, device, desc, &buffer));
  return buffer;
}

/* Both plans on one device, the result of the first in its memory: nothing but the first input and the last output
 * crosses, and those are moved by the test. */
static void pipe_on(const char *devices) {
  static float x[kImage];
  float y[kClasses], z[kClasses], expected[kClasses], sum = 0;
  fill(x, kImage, 3);
  reference(devices, x, expected);
  piped p = open_pipe(devices, true);
  const char *where = braid_plan_output_device(p.plans[0], 0);
  assert_true(where == braid_plan_input_device(p.plans[1], 0)); /* one name, or none */
  assert_int_equal(transfers(p.plans[0]) + transfers(p.plans[1]), 0);
  braid_buffer *first = buffer_for(&p, 0, true, where), *between = buffer_for(&p, 0, false, where),
               *last = buffer_for(&p, 1, false, where);
  OK(braid_execution_bind_input(p.executions[0], 0, first));
  OK(braid_execution_bind_output(p.executions[0], 0, between));
  OK(braid_execution_bind_input(p.executions[1], 0, between));
  OK(braid_execution_bind_output(p.executions[1], 0, last));
  for (int turn = 0; turn < 3; turn++) {
    fill(x, kImage, 3 + turn);
    reference(devices, x, expected);
    OK(braid_buffer_write(first, x, sizeof x, -1));
    OK(braid_execution_run(p.executions[0], NULL, NULL));
    OK(braid_execution_submit(p.executions[1], NULL, NULL, NULL, NULL));
    OK(braid_execution_wait(p.executions[1], -1));
    OK(braid_buffer_read(between, y, sizeof y, -1));
    assert_memory_equal(y, expected, sizeof y);
    OK(braid_buffer_read(last, z, sizeof z, -1));
    sum = 0;
    for (int i = 0; i < kClasses; i++) sum += z[i];
    assert_true(sum > 0.999f && sum < 1.001f);
  }
  /* Host pointers go before what is bound, on any device. */
  float other[kClasses];
  OK(braid_execution_run(p.executions[0], (const void *[]){x}, (void *[]){other}));
  assert_memory_equal(other, expected, sizeof other);
  braid_buffer_release(first);
  braid_buffer_release(last);
  braid_buffer_release(between); /* which executions keep */
  OK(braid_execution_run(p.executions[1], NULL, (void *[]){other}));
  assert_memory_equal(other, z, sizeof z);
  close_pipe(&p);
}

static void test_one_result_is_the_next_input(void **state) {
  (void)state;
  pipe_on("cpu");
  pipe_on("cpu:memory=separate");
  pipe_on("cpu:memory=separate cpu");
}

static void test_one_result_is_the_next_input_on_opencl(void **state) {
  (void)state;
  if (!has_opencl()) skip_test("opencl", "there is no OpenCL device");
  pipe_on("opencl0");
}

/* Buffers that are not where the plan wants them, in every combination. */
static void test_what_lies_elsewhere_is_moved(void **state) {
  (void)state;
  static float x[kImage];
  static const char *const kHome[] = {NULL, "0", "1"};
  const char *devices = "cpu:memory=separate cpu:memory=separate";
  float expected[kClasses], y[kClasses];
  fill(x, kImage, 5);
  reference(devices, x, expected);
  for (int io = 0; io < 2; io++) {
    piped p = open_pipe(devices, io);
    assert_int_equal(transfers(p.plans[0]), io ? 0 : 2);
    for (int from = 0; from < 3; from++)
      for (int to = 0; to < 3; to++) {
        braid_buffer *in = buffer_for(&p, 0, true, kHome[from]), *out = buffer_for(&p, 0, false, kHome[to]);
        OK(braid_buffer_write(in, x, sizeof x, -1));
        OK(braid_execution_bind_input(p.executions[0], 0, in));
        OK(braid_execution_bind_output(p.executions[0], 0, out));
        OK(braid_execution_submit(p.executions[0], NULL, NULL, NULL, NULL));
        OK(braid_execution_wait(p.executions[0], -1));
        OK(braid_buffer_read(out, y, sizeof y, -1));
        assert_memory_equal(y, expected, sizeof y);
        braid_buffer_release(in);
        braid_buffer_release(out);
      }
    close_pipe(&p);
  }
}

/* Until a run is waited for its outputs are on their way to where they were wanted when it was submitted. */
static void test_bound_between_submit_and_wait(void **state) {
  (void)state;
  static float x[kImage];
  const char *devices = "cpu:memory=separate";
  float expected[kClasses], y[kClasses];
  fill(x, kImage, 6);
  reference(devices, x, expected);
  piped p = open_pipe(devices, true);
  braid_execution *execution = p.executions[0];
  braid_buffer *first = buffer_for(&p, 0, false, NULL), *second = buffer_for(&p, 0, false, NULL);
  OK(braid_execution_bind_output(execution, 0, first));
  OK(braid_execution_submit(execution, (const void *[]){x}, NULL, NULL, NULL));
  while (__atomic_load_n(&execution->state, __ATOMIC_ACQUIRE) != BRAID_RUN_ENDED) sched_yield();
  expect_refusal(braid_execution_bind_output(execution, 0, second), BRAID_BUSY, "when it is waited for");
  OK(braid_execution_wait(execution, -1));
  OK(braid_execution_bind_output(execution, 0, second));
  OK(braid_buffer_read(first, y, sizeof y, -1));
  assert_memory_equal(y, expected, sizeof y);
  braid_buffer_release(first);
  braid_buffer_release(second);
  close_pipe(&p);
}

static void nobody(void *context, braid_status status) {
  (void)context, (void)status;
}

static void test_what_does_not_fit_is_refused(void **state) {
  (void)state;
  piped p = open_pipe("cpu:memory=separate", true);
  braid_machine *other = open_machine("cpu");
  braid_buffer *in = buffer_for(&p, 0, true, "0"), *out = buffer_for(&p, 0, false, "0"), *host, *foreign, *view;
  braid_desc half = vector_of(kImage / 2);
  host = buffer_for(&p, 0, false, NULL);
  OK(braid_buffer_create(other, NULL, braid_plan_input(p.plans[0], 0), &foreign));
  braid_execution *execution = p.executions[0];
  expect_refusal(braid_execution_bind_input(execution, 1, in), BRAID_INVALID_ARGUMENT, "input 1 of a plan that has 1");
  expect_refusal(braid_execution_bind_input(execution, 0, out), BRAID_INVALID_ARGUMENT,
                 "x is float32[1,16,8,8], the buffer is float32[1,10]");
  expect_refusal(braid_execution_bind_input(execution, 0, foreign), BRAID_INVALID_ARGUMENT, "of another machine");
  expect_refusal(braid_execution_run(execution, NULL, NULL), BRAID_INVALID_ARGUMENT, "no memory given for input x");
  OK(braid_buffer_view(in, 0, &half, &view));
  expect_refusal(braid_execution_bind_input(execution, 0, view), BRAID_INVALID_ARGUMENT, "the buffer is float32[512]");
  braid_buffer_release(view);
  OK(braid_buffer_view(in, 64, braid_plan_output(p.plans[0], 0), &view));
  OK(braid_execution_bind_input(execution, 0, in));
  expect_refusal(braid_execution_bind_output(execution, 0, view), BRAID_INVALID_ARGUMENT, "overlaps that of x");
  OK(braid_execution_bind_output(execution, 0, host));
  expect_refusal(braid_execution_submit(execution, NULL, NULL, nobody, NULL), BRAID_INVALID_ARGUMENT,
                 "a run with a callback");
  OK(braid_execution_bind_output(execution, 0, NULL));
  OK(braid_execution_bind_output(execution, 0, out));
  OK(braid_execution_submit(execution, NULL, NULL, nobody, NULL));
  OK(braid_execution_wait(execution, -1));
  braid_buffer_release(view);
  braid_buffer_release(host);
  braid_buffer_release(in);
  braid_buffer_release(out);
  braid_buffer_release(foreign);
  close_pipe(&p);
  braid_machine_release(other);
}

/* --- DLPack --------------------------------------------------------------------------------------------------------
 */
static int deleted;

static void delete_plain(struct DLManagedTensor *self) {
  (void)self;
  deleted++;
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
  (void)self;
  deleted++;
}

static float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static braid_dlpack_tensor tensor_2x3(void) {
  static int64_t shape[] = {2, 3}, strides[] = {3, 1};
  return (braid_dlpack_tensor){.data = numbers,
                               .device = kDlpackCpu,
                               .rank = 2,
                               .type = {kDlpackFloat, 32, 1},
                               .shape = shape,
                               .strides = strides,
                               .byte_offset = 4};
}

static void test_import(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_buffer *buffer;
  struct DLManagedTensor plain = {tensor_2x3(), NULL, delete_plain};
  deleted = 0;
  OK(braid_buffer_import_dlpack(machine, &plain, &buffer));
  assert_ptr_equal(braid_buffer_host(buffer), numbers + 1);
  assert_int_equal(braid_buffer_desc(buffer)->dims[1], 3);
  braid_buffer_release(buffer);
  assert_int_equal(deleted, 1);
  struct DLManagedTensorVersioned read_only = {1, 0, NULL, delete_versioned, kDlpackReadOnly, tensor_2x3()};
  OK(braid_buffer_import_dlpack_versioned(machine, &read_only, &buffer));
  expect_refusal(braid_buffer_write(buffer, numbers, 24, -1), BRAID_INVALID_ARGUMENT, "read-only");
  struct DLManagedTensor *out;
  expect_refusal(braid_buffer_export_dlpack(buffer, &out), BRAID_UNSUPPORTED, "only a versioned");
  struct DLManagedTensorVersioned *versioned;
  OK(braid_buffer_export_dlpack_versioned(buffer, &versioned));
  assert_int_equal(versioned->flags, kDlpackReadOnly);
  braid_buffer_release(buffer);
  assert_int_equal(deleted, 1);
  versioned->deleter(versioned);
  assert_int_equal(deleted, 2);
  braid_machine_release(machine);
}

static void refuse_import(braid_machine *machine, braid_dlpack_tensor tensor, const char *sentence) {
  braid_buffer *buffer;
  struct DLManagedTensor managed = {tensor, NULL, delete_plain};
  braid_status status = braid_buffer_import_dlpack(machine, &managed, &buffer);
  assert_null(buffer);
  assert_int_not_equal(status, BRAID_OK);
  if (!strstr(braid_error_detail(), sentence)) fail_msg("%s, expected %s", braid_error_detail(), sentence);
}

static void test_imports_that_are_refused(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_dlpack_tensor tensor = tensor_2x3();
  int64_t turned[] = {1, 2}, negative[] = {2, -3}, huge[] = {INT64_MAX, 8};
  deleted = 0;
  tensor.strides = turned;
  refuse_import(machine, tensor, "float32[2,3] with strides that are not row-major");
  tensor = tensor_2x3(), tensor.shape = negative;
  refuse_import(machine, tensor, "");
  tensor = tensor_2x3(), tensor.shape = huge;
  refuse_import(machine, tensor, "");
  tensor = tensor_2x3(), tensor.shape = NULL;
  refuse_import(machine, tensor, "without a shape");
  tensor = tensor_2x3(), tensor.rank = 9;
  refuse_import(machine, tensor, "9 dimensions");
  tensor = tensor_2x3(), tensor.rank = -1;
  refuse_import(machine, tensor, "-1 dimensions");
  tensor = tensor_2x3(), tensor.type.lanes = 4;
  refuse_import(machine, tensor, "4 lanes");
  tensor = tensor_2x3(), tensor.type.code = 5;
  refuse_import(machine, tensor, "type code 5");
  tensor = tensor_2x3(), tensor.device = 2;
  refuse_import(machine, tensor, "device type 2");
  tensor = tensor_2x3(), tensor.data = NULL;
  refuse_import(machine, tensor, "without memory");
  struct DLManagedTensorVersioned next = {2, 0, NULL, delete_versioned, 0, tensor_2x3()};
  braid_buffer *buffer;
  expect_refusal(braid_buffer_import_dlpack_versioned(machine, &next, &buffer), BRAID_UNSUPPORTED, "version 2.0");
  assert_int_equal(deleted, 0);
  braid_machine_release(machine);
}

/* Strides of single elements and of nothing mean nothing. */
static void test_strides_without_meaning(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_buffer *buffer;
  struct DLManagedTensor managed = {tensor_2x3(), NULL, NULL};
  managed.tensor.shape = (int64_t[]){1, 3};
  managed.tensor.strides = (int64_t[]){77, 1};
  OK(braid_buffer_import_dlpack(machine, &managed, &buffer));
  braid_buffer_release(buffer);
  managed.tensor.shape = (int64_t[]){0, 3};
  managed.tensor.strides = (int64_t[]){5, 9};
  managed.tensor.data = NULL;
  OK(braid_buffer_import_dlpack(machine, &managed, &buffer));
  braid_buffer_release(buffer);
  braid_machine_release(machine);
}

static void test_export_keeps_the_buffer(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu cpu:memory=separate");
  braid_desc desc;
  braid_buffer *buffer, *card, *again;
  struct DLManagedTensor *managed;
  OK(braid_desc_init(&desc, BRAID_BF16, 3, (int64_t[]){2, 3, 4}));
  OK(braid_buffer_create(machine, NULL, &desc, &buffer));
  OK(braid_buffer_create(machine, "1", &desc, &card));
  expect_refusal(braid_buffer_export_dlpack(card, &managed), BRAID_UNSUPPORTED, "a buffer on device cpu#1");
  OK(braid_desc_init(&desc, BRAID_I4, 1, (int64_t[]){3}));
  OK(braid_buffer_create(machine, NULL, &desc, &again));
  expect_refusal(braid_buffer_export_dlpack(again, &managed), BRAID_UNSUPPORTED, "DLPack packs int4");
  braid_buffer_release(again);
  OK(braid_buffer_export_dlpack(buffer, &managed));
  memset(braid_buffer_host(buffer), 3, 48);
  braid_buffer_release(buffer);
  braid_buffer_release(card);
  braid_machine_release(machine);
  assert_int_equal(managed->tensor.type.code, kDlpackBfloat);
  assert_int_equal(managed->tensor.type.bits, 16);
  assert_int_equal(managed->tensor.strides[0], 12);
  assert_int_equal(((char *)managed->tensor.data)[47], 3);
  machine = open_machine("cpu"); /* and into another one */
  OK(braid_buffer_import_dlpack(machine, managed, &again));
  assert_int_equal(((char *)braid_buffer_host(again))[0], 3);
  braid_buffer_release(again);
  braid_machine_release(machine);
}

/* NumPy's and PyTorch's own tensors, through the public functions alone. */
static void test_other_libraries(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
#ifdef BRAID_SANITIZED
  skip_test("system", "Python cannot load a library that is built for a sanitizer");
#endif
  char text[1024];
  snprintf(text, sizeof text, "'%s' -c 'import torch, numpy' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(text) != 0) skip_test("peers", "BRAID_PYTHON names no Python with torch");
  snprintf(text, sizeof text, "'%s' '%s/../oracle/dlpack_check.py' '%s'", python, BRAID_TEST_DATA, BRAID_LIBRARY);
  assert_int_equal(system(text), 0);
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
static braid_status attempt_buffers(const braid_allocator *allocator, void *context) {
  braid_machine *machine;
  braid_buffer *buffer = NULL, *view = NULL, *wrapped = NULL;
  struct DLManagedTensorVersioned *managed = NULL;
  braid_desc desc = vector_of(kCount);
  BRAID_TRY(braid_machine_create(allocator, &(braid_machine_options){.devices = context}, &machine));
  braid_status status = braid_buffer_create(machine, "0", &desc, &buffer);
  if (status == BRAID_OK) status = braid_buffer_view(buffer, 0, &desc, &view);
  float numbers_in[kCount] = {0};
  if (status == BRAID_OK) status = braid_buffer_write(view, numbers_in, sizeof numbers_in, 10000000000);
  if (status == BRAID_OK) status = braid_buffer_wrap(machine, &desc, numbers_in, NULL, NULL, &wrapped);
  if (status == BRAID_OK) status = braid_buffer_export_dlpack_versioned(wrapped, &managed);
  if (managed) managed->deleter(managed);
  braid_buffer_release(wrapped);
  braid_buffer_release(view);
  braid_buffer_release(buffer);
  braid_machine_release(machine);
  return status;
}

static braid_status attempt_runs(const braid_allocator *allocator, void *context) {
  static float x[kCount];
  float y[kCount];
  braid_machine *machine;
  braid_graph *graph = NULL;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  braid_buffer *in = NULL, *out = NULL;
  braid_desc desc = vector_of(kCount);
  braid_value_id at;
  BRAID_TRY(braid_machine_create(allocator, &(braid_machine_options){.devices = context, .threads = 1}, &machine));
  braid_status status = braid_graph_create(allocator, "net", &graph);
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &at);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Relu", NULL, &at, 1, &at, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, at);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, &(braid_plan_options){.device_io = true}, &plan);
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  if (status == BRAID_OK) status = braid_buffer_wrap(machine, &desc, x, NULL, NULL, &in);
  if (status == BRAID_OK) status = braid_buffer_wrap(machine, &desc, y, NULL, NULL, &out);
  if (status == BRAID_OK) status = braid_execution_bind_input(execution, 0, in);
  if (status == BRAID_OK) status = braid_execution_bind_output(execution, 0, out);
  if (status == BRAID_OK) status = braid_execution_run(execution, NULL, NULL);
  braid_execution_destroy(execution);
  braid_buffer_release(in);
  braid_buffer_release(out);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  static char kCard[] = "cpu:memory=separate,threads=1", kHost[] = "cpu:threads=1";
  oom_sweep(attempt_buffers, kCard);
  oom_sweep(attempt_buffers, kHost);
  oom_sweep(attempt_runs, kCard);
  oom_sweep(attempt_runs, kHost);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_contents),
      cmocka_unit_test(test_memory_of_the_caller),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_one_result_is_the_next_input),
      cmocka_unit_test(test_one_result_is_the_next_input_on_opencl),
      cmocka_unit_test(test_what_lies_elsewhere_is_moved),
      cmocka_unit_test(test_bound_between_submit_and_wait),
      cmocka_unit_test(test_what_does_not_fit_is_refused),
      cmocka_unit_test(test_import),
      cmocka_unit_test(test_imports_that_are_refused),
      cmocka_unit_test(test_strides_without_meaning),
      cmocka_unit_test(test_export_keeps_the_buffer),
      cmocka_unit_test(test_other_libraries),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
