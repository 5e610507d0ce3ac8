/* Every device of this machine through the conformance suite; and the registry. */
#include <string.h>

#include "backend/cpu/evaluate.h"
#include "braid/conformance.h"
#include "device/conformance_samples.h"
#include "oom.h"
#include "registry.h"

static void report(void *context, const char *name, braid_case_result result, const char *detail) {
  static const char *const kWords[] = {
      [BRAID_CASE_PASSED] = "ok  ", [BRAID_CASE_FAILED] = "FAIL", [BRAID_CASE_UNSUPPORTED] = "none"};
  if (result == BRAID_CASE_FAILED || strcmp(context, "null") == 0)
    print_message("%s: %s %s: %s\n", (const char *)context, kWords[result], name, detail);
}

/* All kernels, or the contract and one kernel. ThreadSanitizer looks at queues: under it, and on an emulated processor,
 * all the arithmetic would take a quarter of an hour. AddressSanitizer sees nothing of what a driver has compiled, and
 * the CPU's kernels are the same whatever its memory. */
static bool judges_all(const char *spec) {
#if defined(__SANITIZE_THREAD__) || defined(BRAID_EMULATED)
  (void)spec;
  return false;
#elif defined(BRAID_ADDRESS_SANITIZER)
  return strncmp(spec, "opencl", 6) != 0 && strncmp(spec, "cpu:", 4) != 0;
#else
  (void)spec;
  return true;
#endif
}

static void check_cases(braid_device *device, const char *spec, const char *only) {
  braid_check_counts counts;
  const braid_check_options options = {.only = only};
  assert_int_equal(braid_device_conformance(device, &options, report, (void *)spec, &counts), BRAID_OK);
  print_message("%s: seed %llu: %zu passed, %zu failed, %zu not claimed\n", spec, (unsigned long long)counts.seed,
                counts.passed, counts.failed, counts.not_claimed);
  assert_int_equal(counts.failed, 0);
}

static void check_device(braid_registry *registry, const char *spec) {
  static const char *const kContract[] = {"task", "buffer",  "memory", "transfers", "order",  "waits",   "queues",
                                          "done", "threads", "cancel", "Add by",    "values", "failure", "replay"};
  braid_device *device;
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  if (judges_all(spec)) {
    check_cases(device, spec, NULL);
  } else {
    for (size_t i = 0; i < sizeof kContract / sizeof *kContract; i++) check_cases(device, spec, kContract[i]);
  }
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

/* --- the samples ---------------------------------------------------------------------------------------------------
 * Which ops do they show? But for those that are folded, resolved or made of others before a device sees them. */
static const char *const kNever[] = {"Constant", "If", "IfBranch", "NonMaxSuppression", "Shape", "Size"};
enum { kMostOps = 1024 };
static const char *shown[kMostOps];
static size_t shown_count;

static bool is_shown(const char *op) {
  for (size_t i = 0; i < shown_count; i++)
    if (strcmp(shown[i], op) == 0) return true;
  return false;
}

static bool show(const braid_draw *draw, const braid_evaluator *evaluator) {
  braid_sample_graph sample;
  if (braid_sample_make(draw, &sample) != BRAID_OK) return false;
  bool computed = braid_sample_compute(&sample, evaluator) == BRAID_OK;
  for (size_t i = 0; computed && i < sample.graph->node_count; i++) {
    const char *op = sample.graph->nodes[i].op->name;
    assert_true(shown_count < kMostOps);
    if (!is_shown(op)) shown[shown_count++] = op;
  }
  braid_sample_free(&sample);
  return computed;
}

static void test_samples(void **state) {
  (void)state;
  braid_cpu_evaluator references;
  assert_int_equal(braid_cpu_evaluator_init(&references, NULL), BRAID_OK);
  const braid_evaluator evaluator = {braid_cpu_evaluate, &references};
  size_t count;
  const braid_sample *samples = braid_samples(&count);
  for (uint32_t i = 0; i < count; i++) {
    size_t computed = 0;
    for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT; dtype++)
      for (int gradient = 0; gradient < 2; gradient++)
        computed += show(&(braid_draw){7, i, (braid_dtype)dtype, BRAID_SAMPLE_MIDDLE, gradient}, &evaluator);
    if (!computed)
      fail_msg("sample %u, %s \"%s\": no type gives a node: %s", i, samples[i].op, samples[i].inputs,
               braid_error_detail());
  }
  braid_cpu_evaluator_deinit(&references);
  for (size_t i = 0; i < braid_op_count(); i++) {
    const char *op = braid_op_at(i)->name;
    bool never = braid_op_at(i)->flags & BRAID_OP_FUNCTION;
    for (size_t k = 0; k < sizeof kNever / sizeof *kNever; k++) never |= strcmp(op, kNever[k]) == 0;
    if (!never && !is_shown(op)) fail_msg("no sample shows %s: kernels for it would not be judged", op);
  }
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

static braid_status holder_submit(void *queue, braid_task *task) {
  holder *h = queue;
  if (task->kind == BRAID_TASK_KERNEL) {
    if (h->prepared == task->prepared && !braid_timeline_reached(h->timeline, h->value))
      h->last->bindings = task->bindings;
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

static void test_false_claim_of_sharing(void **state) {
  (void)state;
  for (int claims = 0; claims < 2; claims++) {
    braid_backend backend = braid_backend_cpu;
    backend.name = "holder";
    backend.enumerate = holder_enumerate;
    backend.info = holder_info;
    backend.queue_create = holder_create;
    backend.queue_destroy = holder_destroy;
    backend.submit = holder_submit;
    backend.record = NULL;
    backend.run = NULL;
    backend.shares_prepared = claims;
    braid_registry *registry;
    braid_device *device;
    assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
    assert_int_equal(braid_registry_add(registry, &backend), BRAID_OK);
    int found = 0;
    assert_int_equal(braid_device_open(registry, "holder", &device), BRAID_OK);
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
  assert_true(oom_sweep(attempt, "null") > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_false_claim_of_sharing),
      cmocka_unit_test(test_samples),
      cmocka_unit_test(test_all_devices),
      cmocka_unit_test(test_open_errors),
      cmocka_unit_test(test_backends_are_checked),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
