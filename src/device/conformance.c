/* The conformance suite: what a backend must do, tried on one of its devices. Here the frame and the device's own
 * calls; memory, queues and kernels have a file each. */
#include "device/conformance.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

bool braid_suite_fail(char *detail, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, kSuiteDetail, format, arguments);
  va_end(arguments);
  return false;
}

void braid_suite_case(braid_suite *suite, const char *name, bool (*run)(braid_suite *suite, char *detail)) {
  char detail[kSuiteDetail] = "";
  bool passed = run(suite, detail);
  if (!passed) suite->failures++;
  suite->report(suite->context, name, passed, detail);
}

braid_status braid_suite_do(void *queue, const braid_suite *suite, braid_task *task) {
  braid_event *event;
  braid_status status = braid_event_create(NULL, &event);
  if (status != BRAID_OK) return status;
  task->done = event;
  if (!task->label) task->label = "conformance";
  status = suite->backend->submit(queue, task);
  if (status == BRAID_OK && suite->backend->flush) suite->backend->flush(queue);
  if (status == BRAID_OK) status = braid_event_wait(event, kSuitePatience);
  if (status != BRAID_TIMEOUT) braid_event_destroy(event); /* a hung task may still come back to it */
  return status;
}

braid_status braid_suite_write(const braid_suite *suite, void *queue, void *buffer, size_t offset, const void *host,
                               size_t bytes) {
  braid_task task = {
      .kind = BRAID_TASK_WRITE, .target = {.buffer = buffer, .offset = offset, .bytes = bytes}, .host = (void *)host};
  return braid_suite_do(queue, suite, &task);
}

braid_status braid_suite_read(const braid_suite *suite, void *queue, void *buffer, size_t offset, void *host,
                              size_t bytes) {
  braid_task task = {
      .kind = BRAID_TASK_READ, .source = {.buffer = buffer, .offset = offset, .bytes = bytes}, .host = host};
  return braid_suite_do(queue, suite, &task);
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

braid_status braid_device_conformance(braid_device *device, braid_conformance_report *report, void *context,
                                      size_t *failures) {
  *failures = 0;
  braid_suite suite = {.device = device,
                       .backend = braid_device_backend(device),
                       .self = braid_device_self(device),
                       .info = braid_device_get_info(device),
                       .report = report,
                       .context = context};
  braid_status status = suite.backend->queue_create(suite.self, &suite.queue);
  if (status != BRAID_OK) return braid_fail_prefix(status, "device %s: no queue", suite.info->name);
  braid_suite_case(&suite, "description", case_description);
  braid_suite_case(&suite, "unknown option", case_unknown_option);
  braid_suite_case(&suite, "no such device", case_no_such_device);
  braid_suite_case(&suite, "sensors", case_sensors);
  braid_suite_case(&suite, "kernel table", case_kernel_table);
  braid_suite_memory(&suite);
  braid_suite_queues(&suite);
  braid_suite_kernels(&suite);
  suite.backend->queue_destroy(suite.self, suite.queue);
  *failures = suite.failures;
  return BRAID_OK;
}
