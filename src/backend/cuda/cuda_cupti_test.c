/* What cupti.h says of CUPTI, beside NVIDIA's own headers and, as far as that does without a card, NVIDIA's own
 * library, where those are installed. */
#include "backend/cuda/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "base/library.h"
#include "oom.h"
#include "skip.h"

#if __has_include(<cupti_range_profiler.h>)
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_version.h>

/* Newer headers may have more fields behind ours. */
#define SAME(type, field, theirs, their_field)                                                                         \
  _Static_assert(offsetof(type, field) == offsetof(theirs, their_field) &&                                             \
                     sizeof(((type *)0)->field) == sizeof(((theirs *)0)->their_field),                                 \
                 #theirs "." #their_field)
#define HEAD(type, theirs)                                                                                             \
  SAME(type, bytes, theirs, structSize);                                                                               \
  SAME(type, reserved, theirs, pPriv)

HEAD(braid_cupti_initialize, CUpti_Profiler_Initialize_Params);
_Static_assert(BRAID_CUPTI_BYTES(braid_cupti_initialize, reserved) == CUpti_Profiler_Initialize_Params_STRUCT_SIZE, "");

HEAD(braid_cupti_chip, CUpti_Device_GetChipName_Params);
SAME(braid_cupti_chip, device, CUpti_Device_GetChipName_Params, deviceIndex);
SAME(braid_cupti_chip, name, CUpti_Device_GetChipName_Params, pChipName);

HEAD(braid_cupti_host_create, CUpti_Profiler_Host_Initialize_Params);
SAME(braid_cupti_host_create, type, CUpti_Profiler_Host_Initialize_Params, profilerType);
SAME(braid_cupti_host_create, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
SAME(braid_cupti_host_create, available, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
SAME(braid_cupti_host_create, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);

HEAD(braid_cupti_host_destroy, CUpti_Profiler_Host_Deinitialize_Params);
SAME(braid_cupti_host_destroy, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);

HEAD(braid_cupti_metrics, CUpti_Profiler_Host_ConfigAddMetrics_Params);
SAME(braid_cupti_metrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
SAME(braid_cupti_metrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
SAME(braid_cupti_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);

HEAD(braid_cupti_config_size, CUpti_Profiler_Host_GetConfigImageSize_Params);
SAME(braid_cupti_config_size, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject);
SAME(braid_cupti_config_size, config_bytes, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);

HEAD(braid_cupti_config, CUpti_Profiler_Host_GetConfigImage_Params);
SAME(braid_cupti_config, host, CUpti_Profiler_Host_GetConfigImage_Params, pHostObject);
SAME(braid_cupti_config, config_bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
SAME(braid_cupti_config, config, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);

HEAD(braid_cupti_evaluate, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
SAME(braid_cupti_evaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
SAME(braid_cupti_evaluate, data, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
SAME(braid_cupti_evaluate, data_bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
SAME(braid_cupti_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
SAME(braid_cupti_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
SAME(braid_cupti_evaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
SAME(braid_cupti_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);

HEAD(braid_cupti_enable, CUpti_RangeProfiler_Enable_Params);
SAME(braid_cupti_enable, context, CUpti_RangeProfiler_Enable_Params, ctx);
SAME(braid_cupti_enable, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);

HEAD(braid_cupti_plain, CUpti_RangeProfiler_Disable_Params);
SAME(braid_cupti_plain, profiler, CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject);
SAME(braid_cupti_plain, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
SAME(braid_cupti_plain, profiler, CUpti_RangeProfiler_PopRange_Params, pRangeProfilerObject);

HEAD(braid_cupti_push, CUpti_RangeProfiler_PushRange_Params);
SAME(braid_cupti_push, profiler, CUpti_RangeProfiler_PushRange_Params, pRangeProfilerObject);
SAME(braid_cupti_push, name, CUpti_RangeProfiler_PushRange_Params, pRangeName);

HEAD(braid_cupti_stop, CUpti_RangeProfiler_Stop_Params);
SAME(braid_cupti_stop, profiler, CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject);
SAME(braid_cupti_stop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
SAME(braid_cupti_stop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel);
SAME(braid_cupti_stop, complete, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);

HEAD(braid_cupti_set_config, CUpti_RangeProfiler_SetConfig_Params);
SAME(braid_cupti_set_config, profiler, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject);
SAME(braid_cupti_set_config, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
SAME(braid_cupti_set_config, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
SAME(braid_cupti_set_config, data_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
SAME(braid_cupti_set_config, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
SAME(braid_cupti_set_config, range, CUpti_RangeProfiler_SetConfig_Params, range);
SAME(braid_cupti_set_config, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
SAME(braid_cupti_set_config, ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
SAME(braid_cupti_set_config, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
SAME(braid_cupti_set_config, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
SAME(braid_cupti_set_config, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
SAME(braid_cupti_set_config, target_level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);

HEAD(braid_cupti_data_size, CUpti_RangeProfiler_GetCounterDataSize_Params);
SAME(braid_cupti_data_size, profiler, CUpti_RangeProfiler_GetCounterDataSize_Params, pRangeProfilerObject);
SAME(braid_cupti_data_size, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
SAME(braid_cupti_data_size, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
SAME(braid_cupti_data_size, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
SAME(braid_cupti_data_size, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
SAME(braid_cupti_data_size, data_bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);

HEAD(braid_cupti_data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
SAME(braid_cupti_data, profiler, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pRangeProfilerObject);
SAME(braid_cupti_data, data_bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
SAME(braid_cupti_data, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);

HEAD(braid_cupti_decode, CUpti_RangeProfiler_DecodeData_Params);
SAME(braid_cupti_decode, profiler, CUpti_RangeProfiler_DecodeData_Params, pRangeProfilerObject);
SAME(braid_cupti_decode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);

_Static_assert(sizeof(braid_cupti_result) == sizeof(CUptiResult), "CUptiResult");
_Static_assert((int)BRAID_CUPTI_INVALID_DEVICE == CUPTI_ERROR_INVALID_DEVICE, "");
_Static_assert((int)BRAID_CUPTI_OUT_OF_MEMORY == CUPTI_ERROR_OUT_OF_MEMORY, "");
_Static_assert((int)BRAID_CUPTI_NOT_COMPATIBLE == CUPTI_ERROR_NOT_COMPATIBLE, "");
_Static_assert((int)BRAID_CUPTI_INVALID_METRIC_NAME == CUPTI_ERROR_INVALID_METRIC_NAME, "");
_Static_assert((int)BRAID_CUPTI_HARDWARE_BUSY == CUPTI_ERROR_HARDWARE_BUSY, "");
_Static_assert((int)BRAID_CUPTI_NOT_SUPPORTED == CUPTI_ERROR_NOT_SUPPORTED, "");
_Static_assert((int)BRAID_CUPTI_VIRTUALIZED == CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "");
_Static_assert((int)BRAID_CUPTI_INSUFFICIENT_PRIVILEGES == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "");
_Static_assert((int)BRAID_CUPTI_VIRTUALIZED_PRIVILEGES == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "");
_Static_assert((int)BRAID_CUPTI_CONFIDENTIAL == CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, "");
_Static_assert((int)BRAID_CUPTI_INVALID_CHIP_NAME == CUPTI_ERROR_INVALID_CHIP_NAME, "");
_Static_assert((int)BRAID_CUPTI_RANGE_PROFILER == CUPTI_PROFILER_TYPE_RANGE_PROFILER, "");
_Static_assert((int)BRAID_CUPTI_USER_RANGE == CUPTI_UserRange, "");
_Static_assert((int)BRAID_CUPTI_USER_REPLAY == CUPTI_UserReplay, "");

enum { kDriver = CUPTI_API_VERSION < 130000 ? 12000 : 13000 };

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_cuda_counters *counters;
  braid_status status = braid_cuda_counters_create(allocator, context, "GH100", &counters);
  braid_cuda_counters_destroy(counters);
  return status;
}

/* What the counters are set to is made without a card, for chips of the last generations: one pass counts it all. */
static void test_config(void **state) {
  (void)state;
  static const char *const kChips[] = {"TU102", "GA100", "AD102", "GH100"};
  const char *why;
  braid_cuda_counters *counters;
  CUptiResult (*passes)(CUpti_Profiler_Host_GetNumOfPasses_Params *);
  const braid_cupti_api *cupti = braid_cupti_load(kDriver, &why);
  if (!cupti) skip_test("libcupti", "%s", why);
  void *library = dlopen(kDriver == 13000 ? "libcupti.so.13" : "libcupti.so.12", RTLD_NOW);
  assert_true(library && braid_library_find(library, "cuptiProfilerHostGetNumOfPasses", &passes, sizeof passes));
  for (size_t i = 0; i < sizeof kChips / sizeof *kChips; i++) {
    if (braid_cuda_counters_create(NULL, cupti, kChips[i], &counters) != BRAID_OK)
      fail_msg("%s: %s", kChips[i], braid_error_detail());
    CUpti_Profiler_Host_GetNumOfPasses_Params count = {.structSize =
                                                           CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE,
                                                       .configImageSize = counters->config_bytes,
                                                       .pConfigImage = counters->config};
    assert_int_equal(passes(&count), CUPTI_SUCCESS);
    assert_int_equal(count.numOfPasses, 1);
    braid_cuda_counters_destroy(counters);
  }
  assert_int_equal(braid_cuda_counters_create(NULL, cupti, "GX999", &counters), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "the chip's counters: CUPTI_ERROR"));
  assert_null(counters);
  braid_cupti_api copy = *cupti;
  assert_int_equal(oom_sweep(attempt, &copy), 2);
}
#else
static void test_config(void **state) {
  (void)state;
  skip_test("cupti_range_profiler.h", "CUPTI's headers of CUDA 12.6 or later are not installed");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_config)};
  return skip_run_group_tests(tests, NULL, NULL);
}
