/* CUPTI, CUDA's library of the cards' counters, as it is found when something is to be counted: loaded, never linked,
 * its functions and structures written down here. Names and fields are those of NVIDIA's "CUPTI Range Profiling API"
 * and "CUPTI Profiler Host API", of CUDA 12.6 and later; cuda_cupti_test.c compares them with NVIDIA's headers where
 * those are installed. A structure begins with its size, by which newer libraries know what an older program knows. */
#ifndef BRAID_BACKEND_CUDA_CUPTI_H
#define BRAID_BACKEND_CUDA_CUPTI_H

#include "backend/cuda/api.h"

typedef int braid_cupti_result;
typedef struct CUpti_Profiler_Host_Object *braid_cupti_host;
typedef struct CUpti_RangeProfiler_Object *braid_cupti_profiler;

enum { /* CUptiResult */
       BRAID_CUPTI_INVALID_DEVICE = 2,
       BRAID_CUPTI_OUT_OF_MEMORY = 8,
       BRAID_CUPTI_NOT_COMPATIBLE = 14,
       BRAID_CUPTI_INVALID_METRIC_NAME = 17,
       BRAID_CUPTI_HARDWARE_BUSY = 26,
       BRAID_CUPTI_NOT_SUPPORTED = 27,
       BRAID_CUPTI_VIRTUALIZED = 33,
       BRAID_CUPTI_INSUFFICIENT_PRIVILEGES = 35,
       BRAID_CUPTI_VIRTUALIZED_PRIVILEGES = 40,
       BRAID_CUPTI_CONFIDENTIAL = 41,
       BRAID_CUPTI_INVALID_CHIP_NAME = 46,
};

enum {
  BRAID_CUPTI_RANGE_PROFILER = 0, /* CUpti_ProfilerType */
  BRAID_CUPTI_USER_RANGE = 2,     /* CUpti_ProfilerRange */
  BRAID_CUPTI_USER_REPLAY = 3,    /* CUpti_ProfilerReplayMode */
};

/* The size that a structure says of itself: up to the end of its last field, without padding. */
#define BRAID_CUPTI_BYTES(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* CUpti_Profiler_Initialize_Params */
typedef struct braid_cupti_initialize {
  size_t bytes;
  void *reserved;
} braid_cupti_initialize;

/* CUpti_Device_GetChipName_Params */
typedef struct braid_cupti_chip {
  size_t bytes;
  void *reserved;
  size_t device;
  const char *name; /* out */
} braid_cupti_chip;

/* CUpti_Profiler_Host_Initialize_Params */
typedef struct braid_cupti_host_create {
  size_t bytes;
  void *reserved;
  int type;
  const char *chip;
  const uint8_t *available;
  braid_cupti_host host; /* out */
} braid_cupti_host_create;

/* CUpti_Profiler_Host_Deinitialize_Params */
typedef struct braid_cupti_host_destroy {
  size_t bytes;
  void *reserved;
  braid_cupti_host host;
} braid_cupti_host_destroy;

/* CUpti_Profiler_Host_ConfigAddMetrics_Params */
typedef struct braid_cupti_metrics {
  size_t bytes;
  void *reserved;
  braid_cupti_host host;
  const char **names;
  size_t count;
} braid_cupti_metrics;

/* CUpti_Profiler_Host_GetConfigImageSize_Params */
typedef struct braid_cupti_config_size {
  size_t bytes;
  void *reserved;
  braid_cupti_host host;
  size_t config_bytes; /* out */
} braid_cupti_config_size;

/* CUpti_Profiler_Host_GetConfigImage_Params */
typedef struct braid_cupti_config {
  size_t bytes;
  void *reserved;
  braid_cupti_host host;
  size_t config_bytes;
  uint8_t *config; /* is written */
} braid_cupti_config;

/* CUpti_Profiler_Host_EvaluateToGpuValues_Params */
typedef struct braid_cupti_evaluate {
  size_t bytes;
  void *reserved;
  braid_cupti_host host;
  const uint8_t *data;
  size_t data_bytes, range;
  const char **names;
  size_t count;
  double *values; /* are written */
} braid_cupti_evaluate;

/* CUpti_RangeProfiler_Enable_Params */
typedef struct braid_cupti_enable {
  size_t bytes;
  void *reserved;
  braid_cuda_context_handle context;
  braid_cupti_profiler profiler; /* out */
} braid_cupti_enable;

/* CUpti_RangeProfiler_Disable_Params, _Start_Params and _PopRange_Params */
typedef struct braid_cupti_plain {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
} braid_cupti_plain;

/* CUpti_RangeProfiler_PushRange_Params */
typedef struct braid_cupti_push {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  const char *name;
} braid_cupti_push;

/* CUpti_RangeProfiler_Stop_Params */
typedef struct braid_cupti_stop {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  size_t pass, level; /* out: of the next Start */
  uint8_t complete;   /* out: no further pass is needed */
} braid_cupti_stop;

/* CUpti_RangeProfiler_SetConfig_Params */
typedef struct braid_cupti_set_config {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  size_t config_bytes;
  const uint8_t *config;
  size_t data_bytes;
  uint8_t *data;
  int range, replay;
  size_t ranges; /* in a pass, at most */
  uint16_t levels, least_level;
  size_t pass;
  uint16_t target_level;
} braid_cupti_set_config;

/* CUpti_RangeProfiler_GetCounterDataSize_Params */
typedef struct braid_cupti_data_size {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  const char **names;
  size_t count, ranges;
  uint32_t nodes;
  size_t data_bytes; /* out */
} braid_cupti_data_size;

/* CUpti_RangeProfiler_CounterDataImage_Initialize_Params */
typedef struct braid_cupti_data {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  size_t data_bytes;
  uint8_t *data;
} braid_cupti_data;

/* CUpti_RangeProfiler_DecodeData_Params */
typedef struct braid_cupti_decode {
  size_t bytes;
  void *reserved;
  braid_cupti_profiler profiler;
  size_t dropped; /* out: ranges */
} braid_cupti_decode;

/* X(member, name in the library, argument) */
#define BRAID_CUPTI_FUNCTIONS(X)                                                                                       \
  X(initialize, "cuptiProfilerInitialize", braid_cupti_initialize)                                                     \
  X(chip_name, "cuptiDeviceGetChipName", braid_cupti_chip)                                                             \
  X(host_create, "cuptiProfilerHostInitialize", braid_cupti_host_create)                                               \
  X(host_destroy, "cuptiProfilerHostDeinitialize", braid_cupti_host_destroy)                                           \
  X(add_metrics, "cuptiProfilerHostConfigAddMetrics", braid_cupti_metrics)                                             \
  X(config_size, "cuptiProfilerHostGetConfigImageSize", braid_cupti_config_size)                                       \
  X(config, "cuptiProfilerHostGetConfigImage", braid_cupti_config)                                                     \
  X(evaluate, "cuptiProfilerHostEvaluateToGpuValues", braid_cupti_evaluate)                                            \
  X(enable, "cuptiRangeProfilerEnable", braid_cupti_enable)                                                            \
  X(disable, "cuptiRangeProfilerDisable", braid_cupti_plain)                                                           \
  X(data_size, "cuptiRangeProfilerGetCounterDataSize", braid_cupti_data_size)                                          \
  X(data_init, "cuptiRangeProfilerCounterDataImageInitialize", braid_cupti_data)                                       \
  X(set_config, "cuptiRangeProfilerSetConfig", braid_cupti_set_config)                                                 \
  X(start, "cuptiRangeProfilerStart", braid_cupti_plain)                                                               \
  X(push, "cuptiRangeProfilerPushRange", braid_cupti_push)                                                             \
  X(pop, "cuptiRangeProfilerPopRange", braid_cupti_plain)                                                              \
  X(stop, "cuptiRangeProfilerStop", braid_cupti_stop)                                                                  \
  X(decode, "cuptiRangeProfilerDecodeData", braid_cupti_decode)

typedef struct braid_cupti_api {
  braid_cupti_result (*result_name)(braid_cupti_result code, const char **name); /* "CUPTI_ERROR_HARDWARE_BUSY" */
#define BRAID_CUPTI_MEMBER(member, name, argument) braid_cupti_result (*member)(argument *);
  BRAID_CUPTI_FUNCTIONS(BRAID_CUPTI_MEMBER)
#undef BRAID_CUPTI_MEMBER
} braid_cupti_api;

/* The library, loaded by the first call and kept; `driver`: the version of CUDA that the driver has. NULL: it can't be
 * used, `why` says why in a sentence that stays valid. */
const braid_cupti_api *braid_cupti_load(int driver, const char **why);
/* Has it take hold of the driver, once; before the functions that ask for a card. */
BRAID_MUST_CHECK braid_status braid_cupti_start(void);

/* Records what was being done and the code's name, or that counting is not permitted. UNSUPPORTED: it will not be
 * later. BUSY: somebody else counts. */
braid_status braid_cupti_fail(braid_cupti_result code, const char *what);
#define BRAID_CUPTI_TRY(call, what)                                                                                    \
  do {                                                                                                                 \
    braid_cupti_result try_code_ = (call);                                                                             \
    if (try_code_) return braid_cupti_fail(try_code_, what);                                                           \
  } while (0)

#endif
