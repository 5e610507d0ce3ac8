/* Every device of this machine through the conformance suite; and the registry. */
#include <stdatomic.h>
#include <string.h>

#include "braid/conformance.h"
#include "graph/graph.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

static void report(void *context, const char *name, braid_case_result result, const char *detail) {
  static const char *const kWords[] = {
      [BRAID_CASE_PASSED] = "ok  ", [BRAID_CASE_FAILED] = "FAIL", [BRAID_CASE_UNSUPPORTED] = "none"};
  if (result == BRAID_CASE_FAILED || strcmp(context, "null") == 0)
    print_message("%s: %s %s: %s\n", (const char *)context, kWords[result], name, detail);
}

/* What is judged beside the contract. The CPU's kernels are the same whatever its memory. A driver compiles each
 * kernel of an OpenCL device, which takes an hour for all of them: elementwise ops there, made of the same expressions
 * as in cl_kernels_test, are shown by a few, FusedConv by Conv, and those of integers by cl_integer_test.
 * ThreadSanitizer looks at queues: under it, and on an emulated processor, all the arithmetic would take a quarter of
 * an hour. AddressSanitizer sees nothing of what a driver has compiled. What the management core of manycore runs are
 * the CPU's kernels. */
typedef enum judged { NO_KERNELS, SOME_KERNELS, COMPUTE_CORES, ALL_KERNELS } judged;

static judged judged_of(const char *spec) {
#if defined(__SANITIZE_THREAD__) || defined(BRAID_EMULATED)
  (void)spec;
  return NO_KERNELS;
#else
  if (strncmp(spec, "cpu:", 4) == 0) return NO_KERNELS;
  if (strcmp(spec, "manycore") == 0) return COMPUTE_CORES;
  if (strncmp(spec, "opencl", 6) != 0) return ALL_KERNELS;
#if defined(BRAID_ADDRESS_SANITIZER)
  return NO_KERNELS;
#else
  return SOME_KERNELS;
#endif
#endif
}

static bool is_shown_elsewhere(const braid_op *op) {
  static const char *const kFew[] = {"Add", "AddRelu", "Relu", "Cast", "PRelu"};
  for (size_t i = 0; i < sizeof kFew / sizeof *kFew; i++)
    if (strcmp(op->name, kFew[i]) == 0) return false;
  return (op->flags & BRAID_OP_ELEMENTWISE) != 0 || strcmp(op->name, "FusedConv") == 0 ||
         strncmp(op->name, "Integer", strlen("Integer")) == 0;
}

static void check_cases(braid_device *device, const char *spec, const char *only) {
  braid_check_counts counts;
  const braid_check_options options = {.only = only};
  assert_int_equal(braid_device_conformance(device, &options, report, (void *)spec, &counts), BRAID_OK);
  print_message("%s: %s: seed %llu: %zu passed, %zu failed, %zu not claimed\n", spec, only ? only : "all",
                (unsigned long long)counts.seed, counts.passed, counts.failed, counts.not_claimed);
  assert_int_equal(counts.failed, 0);
}

static void check_kernels(braid_device *device, const char *spec) {
  for (size_t i = 0; i < braid_op_count(); i++) {
    const braid_op *op = braid_op_at(i);
    char name[64];
    if (!is_shown_elsewhere(op) && snprintf(name, sizeof name, "%s by ", op->name) > 0) check_cases(device, spec, name);
  }
}

static void check_device(braid_registry *registry, const char *spec) {
  static const char *const kContract[] = {"task", "buffer",  "memory", "transfers", "order",  "waits",   "queues",
                                          "done", "threads", "cancel", "Relu by",   "values", "failure", "replay"};
  braid_device *device;
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  judged kernels = judged_of(spec);
  for (size_t i = 0; kernels != ALL_KERNELS && i < sizeof kContract / sizeof *kContract; i++)
    check_cases(device, spec, kContract[i]);
  if (kernels == ALL_KERNELS) check_cases(device, spec, NULL);
  if (kernels == SOME_KERNELS) check_kernels(device, spec);
  if (kernels == COMPUTE_CORES) check_cases(device, spec, " by core_");
  braid_device_close(device);
}

static void test_all_devices(void **state) {
  (void)state;
  braid_registry *registry = open_test_registry(NULL, NULL);
  assert_non_null(registry);
  braid_device_info infos[32];
  size_t count;
  assert_int_equal(braid_registry_devices(registry, infos, 32, &count), BRAID_OK);
  assert_true(count >= 2);
  for (size_t i = 0; i < count && i < 32; i++) check_device(registry, infos[i].name);
  check_device(registry, "cpu:memory=separate,threads=1");
  braid_registry_destroy(registry);
}

/* The scratch memory of one thread ends at a guard; that of several may run into the next one's unseen. */
static void test_scratch_memory(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip_test("speed", "ThreadSanitizer has nothing to see in one thread");
#endif
  braid_registry *registry = open_test_registry(NULL, NULL);
  braid_device *device;
  assert_non_null(registry);
  assert_int_equal(braid_device_open(registry, "cpu:threads=1", &device), BRAID_OK);
  check_cases(device, "cpu:threads=1", " by dnnl_");
  braid_device_close(device);
  braid_registry_destroy(registry);
}

static void test_open_errors(void **state) {
  (void)state;
  braid_registry *registry;
  braid_device *device;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  assert_int_equal(braid_device_open(registry, "gpu7", &device), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "cpu"));
  assert_null(device);
  assert_int_equal(braid_device_open(registry, "", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, ":threads=2", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu:threads=0", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu:threads=2,,", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "cpu.1", &device), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "part=1"));
  assert_int_equal(braid_device_open(registry, "null:memory=lots", &device), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_device_open(registry, "manycore:cores=0", &device), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "from 1 to 4096"));
  assert_int_equal(braid_device_open(registry, "manycore:scratchpad=1000", &device), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "multiple of 64"));
  assert_int_equal(braid_device_open(registry, "manycore:mesh=8", &device), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "cores=, scratchpad= or threads="));
  braid_registry_destroy(registry);
}

static void test_backends_are_checked(void **state) {
  (void)state;
  extern const braid_backend braid_backend_null;
  braid_registry *registry;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_backend other = braid_backend_null;
  assert_int_equal(braid_registry_add(registry, NULL), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_registry_add(registry, &other), BRAID_INVALID_ARGUMENT); /* its name is taken */
  other.name = "other";
  other.abi = BRAID_DEVICE_ABI + 1;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_UNSUPPORTED);
  other.abi = BRAID_DEVICE_ABI;
  other.submit = NULL;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "submit"));
  other.submit = braid_backend_null.submit;
  other.size = sizeof other - 1;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "inside"));
  other.size = sizeof other;
  assert_int_equal(braid_registry_add(registry, &other), BRAID_OK);
  braid_registry_destroy(registry);
}

/* --- a backend that claims what it does not keep -------------------------------------------------------------------
 * The CPU, but what was prepared holds the operands of the task submitted last, as a driver's kernel object would. */
extern const braid_backend braid_backend_cpu;

typedef struct holder {
  void *inner;
  braid_timeline *timeline;
  braid_task *last;
  const void *prepared; /* of the last */
  uint64_t value;
} holder;

static void holder_info(void *device, braid_device_info *out) {
  braid_backend_cpu.info(device, out);
  strcpy(out->name, "holder");
}

static braid_status holder_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (status == BRAID_OK && capacity) strcpy(infos[0].name, "holder");
  return status;
}

static braid_status holder_create(void *device, braid_timeline *timeline, void **queue) {
  holder *h = braid_zalloc(NULL, sizeof *h);
  if (!h) return BRAID_NO_MEMORY;
  h->timeline = timeline;
  *queue = h;
  return braid_backend_cpu.queue_create(device, timeline, &h->inner);
}

static void holder_destroy(void *device, void *queue) {
  braid_backend_cpu.queue_destroy(device, ((holder *)queue)->inner);
  braid_free(NULL, queue);
}

static atomic_bool spoiled;

static braid_status holder_submit(void *queue, braid_task *task) {
  holder *h = queue;
  if (task->kind == BRAID_TASK_KERNEL) {
    if (h->prepared == task->prepared && !braid_timeline_reached(h->timeline, h->value)) {
      h->last->bindings = task->bindings;
      spoiled = true;
    }
    h->last = task;
    h->prepared = task->prepared;
    h->value = task->value;
  }
  return braid_backend_cpu.submit(h->inner, task);
}

static void note_failure(void *context, const char *name, braid_case_result result, const char *detail) {
  (void)name;
  if (result == BRAID_CASE_FAILED && strstr(detail, "shared by two tasks")) ++*(int *)context;
}

static braid_device *open_holder(braid_backend *backend, bool claims, braid_registry **registry) {
  braid_device *device;
  *backend = braid_backend_cpu;
  backend->name = "holder";
  backend->enumerate = holder_enumerate;
  backend->info = holder_info;
  backend->queue_create = holder_create;
  backend->queue_destroy = holder_destroy;
  backend->submit = holder_submit;
  backend->record = NULL;
  backend->run = NULL;
  backend->shares_prepared = claims;
  assert_int_equal(braid_registry_create(NULL, registry), BRAID_OK);
  assert_int_equal(braid_registry_add(*registry, backend), BRAID_OK);
  assert_int_equal(braid_device_open(*registry, "holder", &device), BRAID_OK);
  return device;
}

static void test_false_claim_of_sharing(void **state) {
  (void)state;
  for (int claims = 0; claims < 2; claims++) {
    braid_backend backend;
    braid_registry *registry;
    braid_device *device = open_holder(&backend, claims, &registry);
    int found = 0;
    const braid_check_options options = {.only = "Relu by"};
    braid_check_counts counts;
    assert_int_equal(braid_device_conformance(device, &options, note_failure, &found, &counts), BRAID_OK);
    assert_true(counts.passed + counts.failed > 0);
    assert_int_equal(counts.failed != 0, claims);
    assert_int_equal(found != 0, claims);
    braid_device_close(device);
    braid_registry_destroy(registry);
  }
}

/* Cancelled `after` questions since a kernel was spoiled. */
typedef struct impatience {
  int found, asked, after;
} impatience;

static bool is_impatient(void *context) {
  impatience *i = context;
  return spoiled && ++i->asked > i->after;
}

/* What a kernel has got wrong by then is told. */
static void test_cancelled_after_a_failure(void **state) {
  (void)state;
  braid_backend backend;
  braid_registry *registry;
  braid_device *device = open_holder(&backend, true, &registry);
  impatience context = {.after = 40};
  const braid_check_options options = {.only = "Relu by", .cancelled = is_impatient};
  braid_check_counts counts;
  spoiled = false;
  assert_int_equal(braid_device_conformance(device, &options, note_failure, &context, &counts), BRAID_CANCELLED);
  assert_int_equal(counts.passed, 0);
  assert_int_equal(counts.failed, 1);
  assert_int_equal(context.found, 1);
  assert_string_equal(braid_error_detail(), "interrupted after 1 case: 0 passed, 1 failed");
  braid_device_close(device);
  braid_registry_destroy(registry);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_registry *registry;
  braid_device *device = NULL;
  braid_status status = braid_registry_create(allocator, &registry);
  if (status == BRAID_OK) status = braid_device_open(registry, context, &device);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt, "cpu:threads=1") > 3);
  assert_true(oom_sweep(attempt, "manycore:threads=3") > 6);
  assert_true(oom_sweep(attempt, "null") > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_false_claim_of_sharing),
      cmocka_unit_test(test_cancelled_after_a_failure),
      cmocka_unit_test(test_all_devices),
      cmocka_unit_test(test_scratch_memory),
      cmocka_unit_test(test_open_errors),
      cmocka_unit_test(test_backends_are_checked),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
