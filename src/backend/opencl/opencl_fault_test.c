/* Tasks that take long, side by side and beyond their time: those that hang end with a status, everything is freed,
 * others go on. And recipes and tasks that are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/opencl/memory.h"
#include "backend/opencl/program.h"
#include "backend/opencl/test_node.h"
#include "base/clock.h"
#include "base/file.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

static braid_registry *registry;
static char bitstream[64];

static void need_device(void) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
}

/* --- a kernel that takes its time ----------------------------------------------------------------------------------
 * Each step depends on the one before. It ends at last, because PoCL's threads cannot be taken back. */
static const char kSpin[] = "__kernel void spin(__global uint *y, long steps) {\n"
                            "  uint x = y[0];\n"
                            "  for (long i = 0; i < steps; i++) x = x * 1664525u + (x >> 13) + 1013904223u;\n"
                            "  y[0] = x;\n"
                            "}\n";
static int64_t spin_steps = 1000;

static braid_status plan_spin(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  (void)traits, (void)node;
  braid_launch *launch = braid_launch_recipe_add(recipe);
  if (!launch) return BRAID_NO_MEMORY;
  *launch = (braid_launch){
      .source = "spin",
      .function = "spin",
      .dimensions = 1,
      .global = {1},
      .local = {1},
      .argument_count = 2,
      .arguments = {{.kind = BRAID_LAUNCH_OPERAND, .index = 1}, {.kind = BRAID_LAUNCH_LONG, .integer = spin_steps}}};
  return BRAID_OK;
}

static const braid_launch_kernel kSpinPlan = {.plan = plan_spin};
static const braid_kernel kSpinKernel = {.op = "Relu", .name = "spin", .implementation = &kSpinPlan};

/* The kernel's program as a bitstream: the way by which foreign kernels come. */
static void write_spin(void) {
  braid_device *opened;
  assert_int_equal(braid_device_open(registry, "opencl0:cache=off", &opened), BRAID_OK);
  const braid_cl_device *device = braid_device_self(opened);
  const char *text = kSpin;
  size_t bytes = 0;
  cl_int code;
  cl_program program = device->cl->CreateProgramWithSource(device->shared->context, 1, &text, NULL, &code);
  assert_non_null(program);
  assert_int_equal(device->cl->BuildProgram(program, 1, &device->id, NULL, NULL, NULL), CL_SUCCESS);
  uint8_t *binary = braid_cl_program_binary(device, program, &bytes);
  assert_non_null(binary);
  assert_int_equal(braid_file_write(NULL, bitstream, binary, bytes), BRAID_OK);
  braid_free(NULL, binary);
  device->cl->ReleaseProgram(program);
  braid_device_close(opened);
}

/* A node of the spinning kernel; what it needs beyond test_node_open's Relu. */
static void open_spin(test_node *node, const char *options) {
  char spec[160];
  *node = (test_node){0};
  snprintf(spec, sizeof spec, "opencl0%sbitstream=%s", options, bitstream);
  if (braid_device_open(registry, spec, &node->device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  node->backend = braid_device_backend(node->device);
  node->self = braid_device_self(node->device);
  test_node_describe(node, "Relu", 16);
  braid_prepared_info info;
  if (node->backend->prepare(node->self, &kSpinKernel, &node->desc, &node->prepared, &info) != BRAID_OK)
    fail_msg("%s", braid_error_detail());
  assert_int_equal(braid_queue_open(&node->queue, NULL, node->backend, node->self), BRAID_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(node->backend->buffer_create(node->self, 64, &node->buffers[i]), BRAID_OK);
    node->bindings[i] = (braid_binding){.buffer = node->buffers[i], .bytes = 64};
  }
  node->task = (braid_task){.kind = BRAID_TASK_KERNEL,
                            .label = "spin",
                            .prepared = node->prepared,
                            .bindings = node->bindings,
                            .input_count = 1,
                            .output_count = 1,
                            .verdict = &node->verdict};
}

/* How many steps take at least about `seconds`: by the fastest of some runs, since others may have the machine too. */
static int64_t steps_of(double seconds) {
  test_node node;
  spin_steps = 20000000;
  open_spin(&node, ":");
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  double took = INFINITY;
  for (int i = 0; i < 5; i++) {
    int64_t start = braid_now_ns();
    assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
    took = fmin(took, (double)(braid_now_ns() - start) / 1e9);
  }
  test_node_close(&node);
  return (int64_t)(seconds / took * 20000000);
}

/* --- hanging -------------------------------------------------------------------------------------------------------
 */
static const int64_t kPatience = 20000000000, kSoon = 100000000; /* ns */

static void submit(braid_queue *queue, braid_task *task) {
  assert_int_equal(braid_queue_submit(queue, task), BRAID_OK);
  braid_queue_flush(queue);
}

static void check_lost(const braid_queue *queue, const braid_task *task) {
  assert_int_equal(braid_queue_wait(queue, task, kPatience), BRAID_DEVICE_LOST);
  assert_non_null(strstr(braid_error_detail(), "opencl0"));
}

static void check_lost_now(const test_node *node, braid_status status) {
  assert_int_equal(status, BRAID_DEVICE_LOST);
  const char *name = braid_device_get_info(node->device)->name;
  if (!strstr(braid_error_detail(), name)) fail_msg("\"%s\" says nothing of %s", braid_error_detail(), name);
}

/* What a lost device is asked for is refused, and not left to a driver that may not come back. */
static void check_refused(const test_node *node) {
  int64_t start = braid_now_ns();
  void *buffer, *prepared;
  uint64_t free_bytes, total;
  braid_prepared_info info;
  check_lost_now(node, node->backend->status(node->self));
  check_lost_now(node, node->backend->buffer_create(node->self, (size_t)64 << 20, &buffer));
  assert_null(buffer);
  check_lost_now(node, node->backend->prepare(node->self, &kSpinKernel, &node->desc, &prepared, &info));
  assert_null(prepared);
  if (braid_device_get_info(node->device)->memory == BRAID_MEMORY_SEPARATE)
    check_lost_now(node, node->backend->read_memory(node->self, &free_bytes, &total));
  assert_true(braid_now_ns() - start < kSoon);
}

/* The task that hangs, one behind it, one of another queue that waits for it, one submitted later: all end, soon. */
static void check_hang(test_node *node, int64_t *told) {
  uint32_t host[16] = {0};
  braid_queue other, none;
  braid_verdict verdicts[2];
  for (int i = 0; i < 2; i++) braid_verdict_init(&verdicts[i]);
  assert_int_equal(braid_queue_open(&other, NULL, node->backend, node->self), BRAID_OK);
  braid_task behind = {
      .kind = BRAID_TASK_READ, .label = "read", .source = node->bindings[1], .host = host, .verdict = &verdicts[0]};
  braid_task elsewhere = behind, later = behind;
  elsewhere.verdict = &node->verdict;
  later.verdict = &verdicts[1];
  braid_verdict_init(&node->verdict);
  submit(&node->queue, &node->task);
  submit(&node->queue, &behind);
  const braid_point spins = braid_queue_point(&node->queue, &node->task);
  elsewhere.waits = &spins;
  elsewhere.wait_count = 1;
  submit(&other, &elsewhere);
  check_lost(&node->queue, &node->task);
  assert_true(braid_verdict_cancelled(&node->verdict));
  check_lost(&node->queue, &behind);
  check_lost(&other, &elsewhere);
  *told = braid_now_ns();
  assert_int_equal(node->backend->status(node->self), BRAID_DEVICE_LOST);
  submit(&node->queue, &later);
  check_lost(&node->queue, &later);
  assert_int_equal(braid_queue_open(&none, NULL, node->backend, node->self), BRAID_DEVICE_LOST);
  check_refused(node);
  braid_queue_close(&other);
}

static void check_relu(const char *spec) {
  test_node node;
  float x[16], y[16];
  for (int i = 0; i < 16; i++) x[i] = (float)(i - 8);
  if (test_node_open(&node, registry, spec, "Relu", 16) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  assert_int_equal(test_node_transfer(&node, 0, x, true), BRAID_OK);
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  assert_int_equal(test_node_transfer(&node, 1, y, false), BRAID_OK);
  for (int i = 0; i < 16; i++) assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
  test_node_close(&node);
}

enum { kHangMs = 1500 };

static void check_hang_of(const char *options) {
  spin_steps = steps_of(kHangMs / 1e3);
  test_node node;
  open_spin(&node, options);
  int64_t start = braid_now_ns();
  int64_t told, over;
  check_hang(&node, &told);
  over = braid_now_ns();
  test_node_close(&node);
  int64_t took = (braid_now_ns() - start) / 1000000;
  if (took > kHangMs * 3 / 4)
    fail_msg("a hung task of %d ms holds its user up for %d ms: %d until its end is told, %d more until its queue is "
             "gone",
             kHangMs, (int)took, (int)((told - start) / 1000000), (int)((over - told) / 1000000));
}

static void test_deadline(void **state) {
  (void)state;
  need_device();
  check_hang_of(":deadline_ms=100,");
  check_relu("opencl0"); /* once the driver's threads are free again */
  check_hang_of(":deadline_ms=100,memory=separate,");
  check_hang_of(":deadline_ms=100,memory=separate,as=gpu,");
  check_relu("opencl0:memory=separate");
}

/* An allocator that ends with its user. */
typedef struct lender {
  braid_allocator allocator;
  int64_t lent;  /* and not given back; atomic */
  uint32_t gone; /* atomic */
} lender;

static void *lend(void *context, size_t bytes, size_t alignment) {
  (void)__atomic_add_fetch(&((lender *)context)->lent, 1, __ATOMIC_ACQ_REL);
  return braid_allocator_default()->allocate(NULL, bytes, alignment);
}

static void take_back(void *context, void *pointer) {
  lender *own = context;
  if (__atomic_load_n(&own->gone, __ATOMIC_ACQUIRE)) abort();
  if (pointer) (void)__atomic_sub_fetch(&own->lent, 1, __ATOMIC_ACQ_REL);
  braid_allocator_default()->release(NULL, pointer);
}

/* All that was allocated is given back when the device is closed, though the driver still writes; and nothing of it
 * afterwards, when the driver comes back. */
static void check_hang_outlives_the_allocator(lender *own, const char *options) {
  braid_registry *usual = registry;
  own->allocator = (braid_allocator){own, lend, take_back};
  assert_int_equal(braid_registry_create(&own->allocator, &registry), BRAID_OK);
  test_node node;
  open_spin(&node, options);
  braid_verdict_init(&node.verdict);
  submit(&node.queue, &node.task);
  check_lost(&node.queue, &node.task);
  test_node_close(&node);
  braid_registry_destroy(registry);
  assert_int_equal(own->lent, 0);
  __atomic_store_n(&own->gone, 1, __ATOMIC_RELEASE);
  registry = usual;
  for (int i = 0; i < 2; i++) check_relu("opencl0"); /* behind what hung; then all is freed */
}

static void test_hang_outlives_the_allocator(void **state) {
  (void)state;
  need_device();
  static lender lenders[3];
  spin_steps = steps_of(0.4);
  check_hang_outlives_the_allocator(&lenders[0], ":deadline_ms=100,");
  check_hang_outlives_the_allocator(&lenders[1], ":deadline_ms=100,memory=separate,");
  check_hang_outlives_the_allocator(&lenders[2], ":deadline_ms=100,memory=separate,as=gpu,");
}

/* One part hangs; the other, opened before, works on while it does. */
static void test_other_part_goes_on(void **state) {
  (void)state;
  need_device();
  spin_steps = steps_of(kHangMs / 1e3);
  test_node hung, other;
  open_spin(&hung, ".0:parts=2,deadline_ms=100,");
  assert_int_equal(test_node_open(&other, registry, "opencl0.1:parts=2", "Relu", 16), BRAID_OK);
  assert_int_equal(test_node_do(&other, &other.task), BRAID_OK);
  int64_t start = braid_now_ns();
  submit(&hung.queue, &hung.task);
  check_lost(&hung.queue, &hung.task);
  assert_int_equal(test_node_do(&other, &other.task), BRAID_OK);
  int64_t took = (braid_now_ns() - start) / 1000000;
  if (((braid_cl_device *)other.self)->shared->part_count == 2 && took > kHangMs * 3 / 4)
    fail_msg("the other part waits %d ms for one that hangs", (int)took);
  assert_int_equal(other.backend->status(other.self), BRAID_OK);
  test_node_close(&hung);
  test_node_close(&other);
  check_relu("opencl0.0:parts=2"); /* a new context: the part is there again */
}

/* Parts that have cores of their own run at the same time. */
static void test_parts_side_by_side(void **state) {
  (void)state;
  need_device();
  spin_steps = steps_of(0.2);
  test_node parts[2];
  open_spin(&parts[0], ".0:parts=2,");
  open_spin(&parts[1], ".1:parts=2,");
  bool divided = ((braid_cl_device *)parts[0].self)->shared->part_count == 2;
  braid_timing timings[2];
  for (int i = 0; i < 2; i++) {
    parts[i].task.timing = &timings[i];
    submit(&parts[i].queue, &parts[i].task);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(braid_queue_wait(&parts[i].queue, &parts[i].task, kPatience), BRAID_OK);
  for (int i = 0; i < 2; i++) test_node_close(&parts[i]);
  if (!divided) skip_test("device", "opencl0 cannot be divided");
  assert_true(timings[0].start_ns < timings[1].end_ns && timings[1].start_ns < timings[0].end_ns);
}

/* A transfer of another queue does not wait for the kernel that runs. */
static void test_copy_beside_kernel(void **state) {
  (void)state;
  need_device();
  spin_steps = steps_of(0.3);
  test_node node;
  braid_queue other;
  braid_verdict verdict;
  braid_timing kernel, copy;
  static uint8_t host[64];
  open_spin(&node, ":memory=separate,");
  braid_verdict_init(&verdict);
  assert_int_equal(braid_queue_open(&other, NULL, node.backend, node.self), BRAID_OK);
  braid_task write = {.kind = BRAID_TASK_WRITE,
                      .label = "write",
                      .target = node.bindings[0],
                      .host = host,
                      .verdict = &verdict,
                      .timing = &copy};
  node.task.timing = &kernel;
  submit(&node.queue, &node.task);
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  submit(&other, &write);
  assert_int_equal(braid_queue_wait(&other, &write, kPatience), BRAID_OK);
  assert_int_equal(braid_queue_wait(&node.queue, &node.task, kPatience), BRAID_OK);
  bool one_at_a_time = braid_device_get_info(node.device)->compute_units <= 1;
  braid_queue_close(&other);
  test_node_close(&node);
  if (one_at_a_time) skip_test("device", "opencl0 does one thing at a time");
  assert_true(copy.end_ns < kernel.end_ns);
}

/* Without a hang the deadline does nothing, however many tasks there are and however long they wait. */
static void test_deadline_of_waiting(void **state) {
  (void)state;
  need_device();
  spin_steps = steps_of(0.02);
  test_node node;
  open_spin(&node, ":deadline_ms=800,");
  braid_timeline *host;
  assert_int_equal(braid_timeline_create(NULL, &host), BRAID_OK);
  const braid_point gate = {host, 1};
  uint32_t word;
  braid_task read = {.kind = BRAID_TASK_READ,
                     .label = "read",
                     .source = {.buffer = node.buffers[1], .bytes = sizeof word},
                     .host = &word,
                     .verdict = &node.verdict,
                     .waits = &gate,
                     .wait_count = 1};
  submit(&node.queue, &node.task);
  submit(&node.queue, &read);
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 200000000}, NULL);
  braid_timeline_raise(host, 1);
  assert_int_equal(braid_queue_wait(&node.queue, &read, kPatience), BRAID_OK);
  for (int i = 0; i < 10; i++) assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  assert_int_equal(node.backend->status(node.self), BRAID_OK);
  braid_timeline_destroy(host);
  test_node_close(&node);
}

/* --- refusals ------------------------------------------------------------------------------------------------------
 */
/* The driver refuses an overlapping copy; operands that lie outside of their buffers never reach it. The queue goes on
 * after each. */
static void test_refused_tasks(void **state) {
  (void)state;
  need_device();
  test_node node;
  assert_int_equal(test_node_open(&node, registry, "opencl0:memory=separate", "Relu", 4096), BRAID_OK);
  braid_task copy = {.kind = BRAID_TASK_COPY,
                     .label = "copy",
                     .source = {.buffer = node.buffers[0], .bytes = 1000},
                     .target = {.buffer = node.buffers[0], .offset = 500, .bytes = 1000}};
  assert_int_not_equal(test_node_do(&node, &copy), BRAID_OK);
  assert_non_null(strstr(braid_error_detail(), "CL_MEM_COPY_OVERLAP"));
  assert_true(braid_verdict_cancelled(&node.verdict));
  copy.target.offset = SIZE_MAX - 10;
  assert_int_equal(test_node_do(&node, &copy), BRAID_OUT_OF_RANGE);
  copy.target.offset = 1000;
  copy.target.bytes = 10;
  assert_int_equal(test_node_do(&node, &copy), BRAID_OUT_OF_RANGE);
  node.bindings[0].bytes *= 2;
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OUT_OF_RANGE);
  node.bindings[0].bytes /= 2;
  float x;
  braid_binding host = node.bindings[0];
  node.bindings[0] = (braid_binding){.host = &x, .bytes = sizeof x};
  assert_int_equal(test_node_do(&node, &node.task), BRAID_INVALID_ARGUMENT);
  node.bindings[0] = host;
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  test_node_close(&node);
}

static braid_launch_recipe wrong; /* of one launch */

static braid_status plan_wrong(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  (void)traits, (void)node;
  braid_launch *launch = braid_launch_recipe_add(recipe);
  if (!launch) return BRAID_NO_MEMORY;
  *launch = wrong.launches[0];
  return BRAID_OK;
}

static const braid_launch_kernel kWrongPlan = {.plan = plan_wrong};
static const braid_kernel kWrongKernel = {.op = "Relu", .name = "wrong_kernel", .implementation = &kWrongPlan};

static void check_wrong(test_node *node, braid_status expected, const char *says) {
  void *prepared;
  braid_prepared_info info;
  braid_status status = node->backend->prepare(node->self, &kWrongKernel, &node->desc, &prepared, &info);
  if (status != expected || !strstr(braid_error_detail(), says))
    fail_msg("expected %s about \"%s\", got %s: %s", braid_status_text(expected), says, braid_status_text(status),
             braid_error_detail());
  assert_null(prepared);
}

/* Recipes that do not fit their kernel are told apart when they are prepared. */
static void test_wrong_recipes(void **state) {
  (void)state;
  need_device();
  test_node node;
  spin_steps = 10;
  open_spin(&node, ":");
  assert_int_equal(plan_spin(NULL, NULL, &wrong), BRAID_OK);
  braid_launch *launch = &wrong.launches[0];
  launch->argument_count = 1;
  check_wrong(&node, BRAID_INTERNAL, "spin takes 2 arguments");
  launch->argument_count = 2;
  launch->global[0] = 3;
  launch->local[0] = 2;
  check_wrong(&node, BRAID_INTERNAL, "no whole groups");
  launch->global[0] = launch->local[0] = (size_t)1 << 30;
  check_wrong(&node, BRAID_UNSUPPORTED, "the device takes");
  launch->local[0] = launch->global[0] = 1;
  launch->dimensions = 4;
  check_wrong(&node, BRAID_INTERNAL, "4 dimensions");
  launch->dimensions = 1;
  launch->function = "no_such_kernel";
  check_wrong(&node, BRAID_NOT_FOUND, "no_such_kernel");
  launch->function = "spin";
  launch->arguments[1].kind = BRAID_LAUNCH_INT;
  check_wrong(&node, BRAID_INTERNAL, "argument 1 of spin");
  braid_launch_recipe_deinit(&wrong);
  test_node_close(&node);
}

static int set_up(void **state) {
  (void)state;
  registry = open_test_registry(NULL, NULL);
  if (!registry) return 1;
  snprintf(bitstream, sizeof bitstream, "/tmp/braid-spin-XXXXXX");
  int file = mkstemp(bitstream);
  if (file < 0) return 1;
  close(file);
  if (braid_cl_count()) write_spin();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(bitstream);
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deadline),           cmocka_unit_test(test_hang_outlives_the_allocator),
      cmocka_unit_test(test_other_part_goes_on), cmocka_unit_test(test_parts_side_by_side),
      cmocka_unit_test(test_copy_beside_kernel), cmocka_unit_test(test_deadline_of_waiting),
      cmocka_unit_test(test_refused_tasks),      cmocka_unit_test(test_wrong_recipes),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
