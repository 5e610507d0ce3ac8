/* Drivers that fail: each call that the backend makes is made to fail in turn, by a table of functions of our own
 * before the driver's. Whatever fails, tasks end with a status that says so, and what follows works. */
#include <string.h>

#include "backend/opencl/memory.h"
#include "backend/opencl/test_node.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

enum { kCount = 64 };
static braid_registry *registry;

/* --- a driver in front of the driver -------------------------------------------------------------------------------
 */
static const braid_cl_api *real;
static braid_cl_api front;
static int good_calls; /* before the one that fails */
static cl_int failure;

static bool fails(void) {
  return good_calls-- == 0;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                         const size_t *offset, const size_t *global, const size_t *local,
                                         cl_uint wait_count, const cl_event *waits, cl_event *event) {
  if (fails()) return failure;
  return real->EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, wait_count, waits, event);
}

static cl_int CL_API_CALL enqueue_write(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                        size_t bytes, const void *host, cl_uint wait_count, const cl_event *waits,
                                        cl_event *event) {
  if (fails()) return failure;
  return real->EnqueueWriteBuffer(queue, memory, blocking, offset, bytes, host, wait_count, waits, event);
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint wait_count, const cl_event *waits,
                                         cl_event *event) {
  if (fails()) return failure;
  return real->EnqueueMarkerWithWaitList(queue, wait_count, waits, event);
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
  if (fails()) return failure;
  return real->SetKernelArg(kernel, index, bytes, value);
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                        cl_int *code) {
  *code = failure;
  if (fails()) return NULL;
  return real->CreateBuffer(context, flags, bytes, host, code);
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem memory, cl_mem_flags flags, cl_buffer_create_type type,
                                            const void *region, cl_int *code) {
  *code = failure;
  if (fails()) return NULL;
  return real->CreateSubBuffer(memory, flags, type, region, code);
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int *code) {
  *code = failure;
  if (fails()) return NULL;
  return real->CreateCommandQueue(context, device, properties, code);
}

static cl_int CL_API_CALL migrate(cl_command_queue queue, cl_uint count, const cl_mem *memory,
                                  cl_mem_migration_flags flags, cl_uint wait_count, const cl_event *waits,
                                  cl_event *event) {
  if (fails()) return failure;
  return real->EnqueueMigrateMemObjects(queue, count, memory, flags, wait_count, waits, event);
}

typedef void CL_CALLBACK on_event(cl_event event, cl_int status, void *context);

static cl_int CL_API_CALL refuse_callback(cl_event event, cl_int when, on_event *call, void *context) {
  if (fails()) return failure;
  return real->SetEventCallback(event, when, call, context);
}

/* The command runs, but is said to have failed. */
static cl_int CL_API_CALL change_status(cl_event event, cl_event_info what, size_t bytes, void *value, size_t *used) {
  cl_int code = real->GetEventInfo(event, what, bytes, value, used);
  if (what == CL_EVENT_COMMAND_EXECUTION_STATUS && *(cl_int *)value == CL_COMPLETE && fails())
    *(cl_int *)value = failure;
  return code;
}

/* Puts the table before the driver's for the device's calls; the queue is made anew, because it keeps the table. */
static void open_fronted(test_node *node, const char *spec) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  if (test_node_open(node, registry, spec, "Relu", kCount) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  braid_cl_device *device = node->self;
  real = braid_cl_load();
  front = *real;
  failure = CL_SUCCESS;
  device->cl = &front;
  braid_queue_close(&node->queue);
  node->backend->discard(node->self, node->prepared);
  node->prepared = NULL;
  assert_int_equal(braid_queue_open(&node->queue, NULL, node->backend, node->self), BRAID_OK);
  braid_prepared_info info;
  assert_int_equal(node->backend->prepare(node->self, node->kernel, &node->desc, &node->prepared, &info), BRAID_OK);
  node->task.prepared = node->prepared;
}

static void fail_with(int after, cl_int code) {
  good_calls = after;
  failure = code;
}

/* --- cases ---------------------------------------------------------------------------------------------------------
 */
static void check_failed(braid_status status, braid_status expected, const char *says) {
  if (status == expected && strstr(braid_error_detail(), says)) return;
  fail_msg("expected %s about %s, got %s: %s", braid_status_text(expected), says, braid_status_text(status),
           braid_error_detail());
}

static void check_works(test_node *node) {
  float x[kCount], y[kCount];
  front = *real;
  for (int i = 0; i < kCount; i++) x[i] = (float)(i % 9 - 4);
  assert_int_equal(test_node_transfer(node, 0, x, true), BRAID_OK);
  assert_int_equal(test_node_do(node, &node->task), BRAID_OK);
  assert_int_equal(test_node_transfer(node, 1, y, false), BRAID_OK);
  for (int i = 0; i < kCount; i++) assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
}

static void test_enqueueing(void **state) {
  (void)state;
  test_node node;
  float x[kCount] = {0};
  open_fronted(&node, "opencl0:memory=separate");
  front.CreateSubBuffer = create_sub_buffer;
  fail_with(0, CL_MISALIGNED_SUB_BUFFER_OFFSET);
  check_failed(test_node_do(&node, &node.task), BRAID_INTERNAL, "CL_MISALIGNED_SUB_BUFFER_OFFSET");
  check_works(&node);
  front.EnqueueNDRangeKernel = enqueue_kernel;
  fail_with(0, CL_OUT_OF_RESOURCES);
  check_failed(test_node_do(&node, &node.task), BRAID_NO_MEMORY, "CL_OUT_OF_RESOURCES");
  check_works(&node);
  front.EnqueueWriteBuffer = enqueue_write;
  fail_with(0, CL_INVALID_VALUE);
  check_failed(test_node_transfer(&node, 0, x, true), BRAID_INTERNAL, "CL_INVALID_VALUE");
  check_works(&node);
  front.EnqueueMarkerWithWaitList = enqueue_marker;
  fail_with(0, CL_OUT_OF_HOST_MEMORY);
  braid_task nothing = {.kind = BRAID_TASK_WRITE, .target = {.buffer = node.buffers[0]}, .host = x};
  check_failed(test_node_do(&node, &nothing), BRAID_NO_MEMORY, "marker");
  check_works(&node);
  assert_int_equal(test_node_do(&node, &nothing), BRAID_OK);
  test_node_close(&node);
}

/* An argument that could not be set must not pass for set the next time. */
static void test_arguments(void **state) {
  (void)state;
  test_node node;
  open_fronted(&node, "opencl0:memory=separate");
  for (int after = 0; after < 2; after++) {
    void *other;
    assert_int_equal(node.backend->buffer_create(node.self, kCount * sizeof(float), &other), BRAID_OK);
    node.backend->buffer_destroy(node.self, node.buffers[after]);
    node.buffers[after] = node.bindings[after].buffer = other;
    front.SetKernelArg = set_argument;
    fail_with(0, CL_INVALID_MEM_OBJECT);
    check_failed(test_node_do(&node, &node.task), BRAID_INTERNAL, "CL_INVALID_MEM_OBJECT");
    check_works(&node);
  }
  test_node_close(&node);
}

static void test_creating(void **state) {
  (void)state;
  test_node node;
  void *made;
  open_fronted(&node, "opencl0:memory=separate");
  front.CreateCommandQueue = create_queue;
  fail_with(0, CL_OUT_OF_HOST_MEMORY);
  braid_queue refused;
  check_failed(braid_queue_open(&refused, NULL, node.backend, node.self), BRAID_NO_MEMORY, "CL_OUT_OF_HOST_MEMORY");
  assert_null(refused.self);
  front = *real;
  braid_cl_context *shared = ((braid_cl_device *)node.self)->shared;
  size_t beside = shared->pool ? braid_pool_get_stats(shared->pool).bytes + 1 : 1024;
  if (beside <= shared->most_bytes) {
    front.CreateBuffer = create_buffer;
    fail_with(0, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    check_failed(node.backend->buffer_create(node.self, beside, &made), BRAID_NO_MEMORY,
                 "the driver says CL_MEM_OBJECT_ALLOCATION_FAILURE");
    front = *real;
    front.EnqueueMigrateMemObjects = migrate;
    fail_with(0, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    check_failed(node.backend->buffer_create(node.self, beside, &made), BRAID_NO_MEMORY, "the driver says");
    assert_null(made);
  }
  check_works(&node);
  test_node_close(&node);
}

static void test_callbacks(void **state) {
  (void)state;
  test_node node;
  open_fronted(&node, "opencl0");
  front.SetEventCallback = refuse_callback;
  for (int i = 0; i < 3; i++) {
    fail_with(0, CL_OUT_OF_HOST_MEMORY);
    assert_int_equal(test_node_do(&node, &node.task), BRAID_OK); /* asked instead */
  }
  front.GetEventInfo = change_status;
  fail_with(0, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  check_failed(test_node_do(&node, &node.task), BRAID_NO_MEMORY, "ended with CL_MEM_OBJECT_ALLOCATION_FAILURE");
  fail_with(0, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  check_failed(test_node_do(&node, &node.task), BRAID_INTERNAL, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
  check_works(&node);
  assert_int_equal(node.backend->status(node.self), BRAID_OK);
  test_node_close(&node);
}

/* A kernel that crashed, as drivers of graphics cards report it: the device is lost, and opens anew. */
static void test_crash(void **state) {
  (void)state;
  static const struct {
    cl_int code;
    const char *says;
  } kCases[] = {{-9999, "code -9999"},
                {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
                {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"}};
  for (int i = 0; i < 3; i++) {
    test_node node;
    braid_queue other;
    open_fronted(&node, "opencl0");
    front.GetEventInfo = change_status;
    fail_with(0, kCases[i].code);
    check_failed(test_node_do(&node, &node.task), BRAID_DEVICE_LOST, kCases[i].says);
    assert_int_equal(node.backend->status(node.self), BRAID_DEVICE_LOST);
    check_failed(test_node_do(&node, &node.task), BRAID_DEVICE_LOST, "is lost");
    assert_int_equal(braid_queue_open(&other, NULL, node.backend, node.self), BRAID_DEVICE_LOST);
    test_node_close(&node);
    open_fronted(&node, "opencl0");
    check_works(&node);
    test_node_close(&node);
  }
}

/* --- parts of a card's memory --------------------------------------------------------------------------------------
 * What one driver needs: parts released newest first, and only with what they are a part of. */
enum { kMostParts = 64 };
static cl_mem made_parts[kMostParts], released[kMostParts];
static size_t made_count, released_count;

static cl_mem CL_API_CALL note_part(cl_mem memory, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                                    cl_int *code) {
  cl_mem part = real->CreateSubBuffer(memory, flags, type, region, code);
  assert_true(made_count < kMostParts);
  made_parts[made_count++] = part;
  return part;
}

/* Set once the operands have let go: what is released then is the last of a part. */
static cl_int CL_API_CALL note_release(cl_mem memory) {
  for (size_t i = 0; i < made_count; i++)
    if (made_parts[i] == memory && released_count < kMostParts) released[released_count++] = memory;
  return real->ReleaseMemObject(memory);
}

static void test_parts(void **state) {
  (void)state;
  test_node node;
  open_fronted(&node, "opencl0:memory=separate");
  made_count = released_count = 0;
  front.CreateSubBuffer = note_part;
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  size_t parts = made_count;
  assert_true(parts >= 2);
  node.backend->discard(node.self, node.prepared);
  braid_prepared_info info;
  assert_int_equal(node.backend->prepare(node.self, node.kernel, &node.desc, &node.prepared, &info), BRAID_OK);
  node.task.prepared = node.prepared;
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  assert_int_equal(made_count, parts); /* the same places, the same parts */
  node.backend->discard(node.self, node.prepared);
  node.prepared = NULL;
  front.ReleaseMemObject = note_release;
  ((braid_cl_device *)node.self)->shared->cl = &front;
  test_node_close(&node);
  assert_int_equal(released_count, parts);
  for (size_t i = 0; i < parts; i++) assert_ptr_equal(released[i], made_parts[parts - 1 - i]);
}

static int set_up(void **state) {
  (void)state;
  registry = open_test_registry(NULL, NULL);
  return registry == NULL;
}

static int tear_down(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_enqueueing), cmocka_unit_test(test_arguments), cmocka_unit_test(test_creating),
      cmocka_unit_test(test_callbacks),  cmocka_unit_test(test_crash),     cmocka_unit_test(test_parts),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
