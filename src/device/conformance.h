/* The conformance suite's own: what its cases share. */
#ifndef BRAID_DEVICE_CONFORMANCE_H
#define BRAID_DEVICE_CONFORMANCE_H

#include "braid/device.h"

typedef struct braid_suite {
  braid_device *device;
  const braid_backend *backend;
  void *self;
  const braid_device_info *info;
  void *queue;
  braid_conformance_report *report;
  void *context;
  size_t failures;
} braid_suite;

/* Records why the case fails (first reason wins) and returns false. */
bool braid_suite_fail(char *detail, const char *format, ...) BRAID_PRINTF(2, 3);
enum { kSuiteDetail = 512 };
#define SUITE_CHECK(condition, ...)                                                                                    \
  do {                                                                                                                 \
    if (!(condition)) return braid_suite_fail(detail, __VA_ARGS__);                                                    \
  } while (0)

/* How long a case waits for a task before the device counts as hung. */
static const int64_t kSuitePatience = 20000000000; /* ns */

/* Submits the task and waits for its event. */
braid_status braid_suite_do(void *queue, const braid_suite *suite, braid_task *task);
braid_status braid_suite_write(const braid_suite *suite, void *queue, void *buffer, size_t offset, const void *host,
                               size_t bytes);
braid_status braid_suite_read(const braid_suite *suite, void *queue, void *buffer, size_t offset, void *host,
                              size_t bytes);
void braid_suite_case(braid_suite *suite, const char *name, bool (*run)(braid_suite *suite, char *detail));

void braid_suite_memory(braid_suite *suite);  /* buffers and transfers */
void braid_suite_queues(braid_suite *suite);  /* order, waits, failures */
void braid_suite_kernels(braid_suite *suite); /* results */

#endif
