/* Passes for CUPTI: a card's counters count so much for each launch of the library that passes for the driver (cuda.c,
 * loaded before), and only between the two ends of a range. Calls out of order are refused, as the real library does.
 *
 *   FAKE_CUPTI_PASSES=N      how many passes counting takes (1)
 *   FAKE_CUPTI_REFUSE=N:C    function number N (from 0, by BRAID_CUPTI_FUNCTIONS) gives the code C
 *   FAKE_CUPTI_IDLE=1        the counters stay 0
 *
 * WITHOUT_RANGES: a library of before CUDA 12.6. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti.h"
#include "cupti.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the real headers are not needed */
#define EXPORT __attribute__((visibility("default")))

EXPORT braid_cupti_result cuptiGetResultString(braid_cupti_result code, const char **name) {
  *name = code == 35   ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : code == 7  ? "CUPTI_ERROR_INVALID_OPERATION"
          : code == 46 ? "CUPTI_ERROR_INVALID_CHIP_NAME"
          : code == 26 ? "CUPTI_ERROR_HARDWARE_BUSY"
                       : NULL;
  return *name ? 0 : 1;
}

#ifndef WITHOUT_RANGES
enum { kInvalidParameter = 1, kInvalidOperation = 7, kConfigBytes = 24, kDataBytes = 96 };
enum {
#define NUMBER(member, name, argument) k_##member,
  BRAID_CUPTI_FUNCTIONS(NUMBER)
#undef NUMBER
};

static char an_object;
static bool initialized, enabled, ready, started, pushed;
static size_t hosts;
static long first, counted, passes;
EXPORT int fake_cupti_left(void) {
  return (int)hosts + enabled + started + pushed;
}

static long launches(void) {
  long (*ask)(void);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
       *symbol = driver ? dlsym(driver, "fake_cuda_launches") : NULL;
  memcpy(&ask, &symbol, sizeof ask);
  return symbol ? ask() : 0;
}

static int refusal(int function) {
  const char *text = getenv("FAKE_CUPTI_REFUSE");
  int number, code;
  return text && sscanf(text, "%d:%d", &number, &code) == 2 && number == function ? code : 0;
}

/* A call: its structure has the size that the real one has, and comes when it may. */
#define ENTER(member, p, last, when)                                                                                   \
  if (refusal(k_##member)) return refusal(k_##member);                                                                 \
  if ((p)->bytes != offsetof(__typeof__(*(p)), last) + sizeof((p)->last) || (p)->reserved) return kInvalidParameter;   \
  if (!(when)) return kInvalidOperation

static bool is_profiler(braid_cupti_profiler profiler) {
  return enabled && (char *)(void *)profiler == &an_object;
}
static bool is_host(braid_cupti_host host) {
  return hosts && (char *)(void *)host == &an_object;
}

EXPORT int cuptiProfilerInitialize(braid_cupti_initialize *p) {
  ENTER(initialize, p, reserved, true);
  initialized = true;
  return 0;
}
EXPORT int cuptiDeviceGetChipName(braid_cupti_chip *p) {
  ENTER(chip_name, p, name, initialized);
  p->name = p->device == 0 ? "GH100" : "GX999";
  return 0;
}
EXPORT int cuptiProfilerHostInitialize(braid_cupti_host_create *p) {
  ENTER(host_create, p, host, initialized);
  if (p->type != BRAID_CUPTI_RANGE_PROFILER || strcmp(p->chip, "GH100") != 0) return BRAID_CUPTI_INVALID_CHIP_NAME;
  hosts++;
  p->host = (braid_cupti_host)(void *)&an_object;
  return 0;
}
EXPORT int cuptiProfilerHostDeinitialize(braid_cupti_host_destroy *p) {
  ENTER(host_destroy, p, host, is_host(p->host) && !enabled);
  hosts--;
  return 0;
}

/* What a launch counts; < 0: no such counter. */
static double value_of(const char *name) {
  return strcmp(name, "dram__bytes.sum") == 0         ? FAKE_CUPTI_BYTES
         : strcmp(name, "sm__inst_executed.sum") == 0 ? FAKE_CUPTI_INSTRUCTIONS
         : strcmp(name, "sm__cycles_active.sum") == 0 ? FAKE_CUPTI_CYCLES
                                                      : -1;
}
static bool are_known(const char **names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (value_of(names[i]) < 0) return false;
  return count > 0;
}
EXPORT int cuptiProfilerHostConfigAddMetrics(braid_cupti_metrics *p) {
  ENTER(add_metrics, p, count, is_host(p->host));
  return are_known(p->names, p->count) ? 0 : BRAID_CUPTI_INVALID_METRIC_NAME;
}
EXPORT int cuptiProfilerHostGetConfigImageSize(braid_cupti_config_size *p) {
  ENTER(config_size, p, config_bytes, is_host(p->host));
  p->config_bytes = kConfigBytes;
  return 0;
}
EXPORT int cuptiProfilerHostGetConfigImage(braid_cupti_config *p) {
  ENTER(config, p, config, is_host(p->host));
  if (p->config_bytes != kConfigBytes) return kInvalidParameter;
  memset(p->config, 'c', kConfigBytes);
  return 0;
}

EXPORT int cuptiRangeProfilerEnable(braid_cupti_enable *p) {
  ENTER(enable, p, profiler, initialized && !enabled && p->context);
  enabled = true;
  ready = false;
  p->profiler = (braid_cupti_profiler)(void *)&an_object;
  return 0;
}
EXPORT int cuptiRangeProfilerDisable(braid_cupti_plain *p) {
  ENTER(disable, p, profiler, is_profiler(p->profiler) && !started);
  enabled = false;
  return 0;
}
EXPORT int cuptiRangeProfilerGetCounterDataSize(braid_cupti_data_size *p) {
  ENTER(data_size, p, data_bytes, is_profiler(p->profiler));
  if (!are_known(p->names, p->count) || p->ranges != 1 || p->nodes < p->ranges) return kInvalidParameter;
  p->data_bytes = kDataBytes;
  return 0;
}
EXPORT int cuptiRangeProfilerCounterDataImageInitialize(braid_cupti_data *p) {
  ENTER(data_init, p, data, is_profiler(p->profiler));
  if (p->data_bytes != kDataBytes) return kInvalidParameter;
  memset(p->data, 'd', kDataBytes);
  return 0;
}
EXPORT int cuptiRangeProfilerSetConfig(braid_cupti_set_config *p) {
  ENTER(set_config, p, target_level, is_profiler(p->profiler));
  if (p->config_bytes != kConfigBytes || p->config[kConfigBytes - 1] != 'c' || p->data_bytes != kDataBytes ||
      p->data[kDataBytes - 1] != 'd' || p->range != BRAID_CUPTI_USER_RANGE || p->replay != BRAID_CUPTI_USER_REPLAY ||
      p->ranges != 1 || p->levels != 1 || p->least_level != 1 || p->target_level != 1 || p->pass)
    return kInvalidParameter;
  ready = true;
  counted = passes = 0;
  return 0;
}
EXPORT int cuptiRangeProfilerStart(braid_cupti_plain *p) {
  ENTER(start, p, profiler, is_profiler(p->profiler) && ready && !started);
  started = true;
  return 0;
}
EXPORT int cuptiRangeProfilerPushRange(braid_cupti_push *p) {
  ENTER(push, p, name, is_profiler(p->profiler) && started && !pushed && p->name);
  pushed = true;
  first = launches();
  return 0;
}
EXPORT int cuptiRangeProfilerPopRange(braid_cupti_plain *p) {
  ENTER(pop, p, profiler, is_profiler(p->profiler) && pushed);
  pushed = false;
  counted += launches() - first;
  passes++;
  return 0;
}

static long needed(void) {
  const char *text = getenv("FAKE_CUPTI_PASSES");
  return text ? strtol(text, NULL, 10) : 1;
}
EXPORT int cuptiRangeProfilerStop(braid_cupti_stop *p) {
  ENTER(stop, p, complete, is_profiler(p->profiler) && started && !pushed);
  started = false;
  p->complete = passes >= needed();
  return 0;
}
EXPORT int cuptiRangeProfilerDecodeData(braid_cupti_decode *p) {
  ENTER(decode, p, dropped, is_profiler(p->profiler) && !started && passes == needed());
  p->dropped = 0;
  return 0;
}
EXPORT int cuptiProfilerHostEvaluateToGpuValues(braid_cupti_evaluate *p) {
  ENTER(evaluate, p, values, is_host(p->host) && passes == needed());
  if (p->data_bytes != kDataBytes || p->range || !are_known(p->names, p->count)) return kInvalidParameter;
  for (size_t i = 0; i < p->count; i++)
    p->values[i] = getenv("FAKE_CUPTI_IDLE") ? 0 : value_of(p->names[i]) * (double)counted / (double)passes;
  return 0;
}
#endif
