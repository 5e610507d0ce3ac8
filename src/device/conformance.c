/* The conformance suite's frame and the device's own calls; memory, queues, ends of tasks and kernels have a file each.
 */
#include "device/conformance.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool braid_suite_fail(char *detail, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, kSuiteDetail, format, arguments);
  va_end(arguments);
  return false;
}

bool braid_suite_pass_over(braid_suite *suite, char *detail, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, kSuiteDetail, format, arguments);
  va_end(arguments);
  suite->passed_over = true;
  return true;
}

bool braid_suite_over(const braid_suite *suite) {
  return suite->stopped || suite->lost || suite->cancelled(suite->context);
}

bool braid_suite_names(const braid_suite *suite, const char *name) {
  const char *only = suite->only, *at = name;
  if (!only || !*only) return true;
  for (; (at = strstr(at, only)); at++)
    if (at == name || !isalnum((unsigned char)*only) || !isalnum((unsigned char)at[-1])) return true;
  return false;
}

bool braid_suite_wants(const braid_suite *suite, const char *name) {
  return !braid_suite_over(suite) && braid_suite_names(suite, name);
}

void braid_suite_tell(braid_suite *suite, const char *name, braid_suite_result result, const char *detail) {
  suite->counts[result]++;
  suite->report(suite->context, name, result, detail);
  if (result == BRAID_SUITE_FAILED && suite->backend->status)
    suite->lost |= suite->backend->status(suite->self) == BRAID_DEVICE_LOST;
}

void braid_suite_case(braid_suite *suite, const char *name, bool (*run)(braid_suite *suite, char *detail)) {
  char detail[kSuiteDetail] = "";
  if (!braid_suite_wants(suite, name)) return;
  suite->passed_over = false;
  bool passed = run(suite, detail);
  if (braid_suite_over(suite) && !suite->stopped) return; /* it may have been broken off */
  braid_suite_tell(suite, name,
                   !passed              ? BRAID_SUITE_FAILED
                   : suite->passed_over ? BRAID_SUITE_NOT_CLAIMED
                                        : BRAID_SUITE_PASSED,
                   detail);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
braid_status braid_suite_wait(braid_suite *suite, const braid_queue *queue, const braid_task *task) {
  if (braid_timeline_wait(queue->timeline, task->value, suite->patience_ns) == BRAID_OK)
    return braid_verdict_status(task->verdict);
  suite->stopped = true;
  return braid_fail(BRAID_TIMEOUT, "a task did not end within %.0f s", (double)suite->patience_ns * 1e-9);
}

/* A hung task may still come back to its memory, which is therefore left to it. */
typedef struct single_task {
  braid_task task;
  braid_verdict verdict;
} single_task;

braid_status braid_suite_do(braid_suite *suite, braid_queue *queue, const braid_task *task) {
  single_task *single = braid_zalloc(NULL, sizeof *single);
  if (!single) return BRAID_NO_MEMORY;
  single->task = *task;
  single->task.verdict = &single->verdict;
  if (!single->task.label) single->task.label = "conformance";
  braid_status status = braid_queue_submit(queue, &single->task);
  if (status == BRAID_OK) braid_queue_flush(queue);
  if (status == BRAID_OK) status = braid_suite_wait(suite, queue, &single->task);
  if (!suite->stopped) braid_free(NULL, single);
  return status;
}

braid_status braid_suite_write(braid_suite *suite, void *buffer, size_t offset, const void *host, size_t bytes) {
  return braid_suite_do(suite, suite->queue,
                        &(braid_task){.kind = BRAID_TASK_WRITE,
                                      .target = {.buffer = buffer, .offset = offset, .bytes = bytes},
                                      .host = (void *)host});
}

braid_status braid_suite_read(braid_suite *suite, void *buffer, size_t offset, void *host, size_t bytes) {
  return braid_suite_do(suite, suite->queue,
                        &(braid_task){.kind = BRAID_TASK_READ,
                                      .source = {.buffer = buffer, .offset = offset, .bytes = bytes},
                                      .host = host});
}

size_t braid_suite_at_most(const braid_suite *suite, size_t bytes) {
  uint64_t share = suite->info->memory_bytes / 8;
  return share && share < bytes ? (size_t)share : bytes;
}

size_t braid_suite_align(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

void braid_suite_fill(uint8_t *bytes, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(seed >> 24);
  }
}

/* --- the device's own calls ----------------------------------------------------------------------------------------
 */
static bool case_description(braid_suite *suite, char *detail) {
  braid_device_info again;
  suite->backend->info(suite->self, &again);
  SUITE_CHECK(memchr(again.name, 0, sizeof again.name) && memchr(again.kind, 0, sizeof again.kind) &&
                  memchr(again.description, 0, sizeof again.description) &&
                  memchr(again.software, 0, sizeof again.software) && memchr(again.lacks, 0, sizeof again.lacks),
              "a text in the description is not terminated");
  SUITE_CHECK(again.kind[0] && again.description[0], "kind or description is empty");
  SUITE_CHECK(again.memory == suite->info->memory && again.alignment == suite->info->alignment,
              "two descriptions of the device differ");
  return true;
}

static bool case_unknown_option(braid_suite *suite, char *detail) {
  void *other = NULL;
  braid_status status = suite->backend->open(NULL, 0, "no-such-option=1", &other);
  if (status == BRAID_OK) suite->backend->close(other);
  SUITE_CHECK(status == BRAID_INVALID_ARGUMENT, "an unknown option gives \"%s\", not \"%s\"", braid_status_text(status),
              braid_status_text(BRAID_INVALID_ARGUMENT));
  SUITE_CHECK(strstr(braid_error_detail(), "no-such-option"), "the message does not name the option");
  return true;
}

static bool case_no_such_device(braid_suite *suite, char *detail) {
  size_t count = 0;
  SUITE_CHECK(suite->backend->enumerate(NULL, 0, &count) == BRAID_OK, "enumerate fails: %s", braid_error_detail());
  void *other = NULL;
  braid_status status = suite->backend->open(NULL, count + 1000, NULL, &other);
  if (status == BRAID_OK) suite->backend->close(other);
  SUITE_CHECK(status != BRAID_OK, "a device beyond the last opens");
  return true;
}

static bool case_sensors(braid_suite *suite, char *detail) {
  const braid_backend *backend = suite->backend;
  double value = -1;
  braid_status status = backend->read_power ? backend->read_power(suite->self, &value) : BRAID_UNSUPPORTED;
  SUITE_CHECK(status != BRAID_OK || (isfinite(value) && value >= 0 && value < 1e5), "power is %g W", value);
  double energy_uj[2] = {0, 0};
  status = BRAID_OK;
  for (int i = 0; i < 2 && status == BRAID_OK; i++)
    status = backend->read_energy ? backend->read_energy(suite->self, &energy_uj[i]) : BRAID_UNSUPPORTED;
  SUITE_CHECK(status != BRAID_OK || (isfinite(energy_uj[1]) && energy_uj[0] >= 0 && energy_uj[1] >= energy_uj[0]),
              "energy goes from %g to %g uJ: the counter only grows", energy_uj[0], energy_uj[1]);
  status = backend->read_temperature ? backend->read_temperature(suite->self, &value) : BRAID_UNSUPPORTED;
  SUITE_CHECK(status != BRAID_OK || (isfinite(value) && value > -100 && value < 200), "temperature is %g C", value);
  uint64_t free_bytes = 0, total = 0;
  status = backend->read_memory ? backend->read_memory(suite->self, &free_bytes, &total) : BRAID_UNSUPPORTED;
  SUITE_CHECK(status != BRAID_OK || free_bytes <= total, "%" PRIu64 " of %" PRIu64 " bytes free", free_bytes, total);
  SUITE_CHECK(!backend->status || backend->status(suite->self) == BRAID_OK, "the device says it is not well: %s",
              braid_error_detail());
  return true;
}

static bool case_kernel_table(braid_suite *suite, char *detail) {
  size_t count = 0;
  const braid_kernel *const *kernels = suite->backend->kernels(suite->self, &count);
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++)
      SUITE_CHECK(strcmp(kernels[i]->name, kernels[j]->name) != 0 || strcmp(kernels[i]->op, kernels[j]->op) != 0,
                  "kernel %s for %s stands in the table twice", kernels[i]->name, kernels[i]->op);
  return true;
}

static void run_cases(braid_suite *suite) {
  braid_suite_case(suite, "description", case_description);
  braid_suite_case(suite, "unknown option", case_unknown_option);
  braid_suite_case(suite, "no such device", case_no_such_device);
  braid_suite_case(suite, "sensors", case_sensors);
  braid_suite_case(suite, "kernel table", case_kernel_table);
  braid_suite_once(suite);
  braid_suite_memory(suite);
  braid_suite_queues(suite);
  braid_suite_ends(suite);
  braid_suite_replays(suite);
  braid_suite_kernels(suite);
  braid_suite_regions(suite);
}

braid_status braid_suite_run(braid_suite *suite) {
  braid_status status = braid_queue_open(&suite->queues[0], NULL, suite->backend, suite->self);
  if (status != BRAID_OK) return braid_fail_prefix(status, "device %s: no queue", suite->info->name);
  bool two = suite->info->max_queues > 1;
  suite->queue = &suite->queues[0];
  suite->second = &suite->queues[two];
  if (two) status = braid_queue_open(suite->second, NULL, suite->backend, suite->self);
  if (status == BRAID_OK) run_cases(suite);
  if (suite->stopped) {
    braid_suite_tell(suite, "all other cases", BRAID_SUITE_FAILED,
                     "not run: what a task may still touch cannot be freed");
    return BRAID_OK;
  }
  char why[kSuiteDetail] = "";
  if (suite->lost && suite->backend->status(suite->self) == BRAID_DEVICE_LOST) /* once more, for its sentence */
    snprintf(why, sizeof why, "%s", braid_error_detail());
  for (int i = 0; i < 2; i++) braid_queue_close(&suite->queues[i]);
  if (suite->lost)
    return braid_fail(BRAID_DEVICE_LOST, "device %s is lost, and no further case is run: %s", suite->info->name, why);
  return status == BRAID_OK ? BRAID_OK : braid_fail_prefix(status, "device %s: no second queue", suite->info->name);
}
