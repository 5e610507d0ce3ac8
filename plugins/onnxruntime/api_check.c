/* Compares every slot and every layout of api.h with the official headers, where a build has them (-DORT_INCLUDE=DIR).
 */
#include "api.h"
#include "onnxruntime_c_api.h"

#define CHECK_SLOT(slot, since, result, name, arguments)                                                               \
  _Static_assert(offsetof(OrtApi, name) == (slot) * sizeof(void *), #name);
#define CHECK_EP_SLOT(slot, since, result, name, arguments)                                                            \
  _Static_assert(offsetof(OrtEpApi, name) == (slot) * sizeof(void *), #name);
BRAID_ORT_API_MAP(CHECK_SLOT)
BRAID_ORT_EP_API_MAP(CHECK_EP_SLOT)

#define SAME(ours, theirs, name) _Static_assert(offsetof(ours, name) == offsetof(theirs, name), #theirs "." #name)
SAME(braid_ort_base, OrtApiBase, GetApi);
SAME(braid_ort_base, OrtApiBase, GetVersionString);
SAME(braid_ort_fusion, OrtNodeFusionOptions, drop_constant_initializers);
SAME(braid_ort_factory_table, OrtEpFactory, GetName);
SAME(braid_ort_factory_table, OrtEpFactory, GetVendor);
SAME(braid_ort_factory_table, OrtEpFactory, GetSupportedDevices);
SAME(braid_ort_factory_table, OrtEpFactory, CreateEp);
SAME(braid_ort_factory_table, OrtEpFactory, ReleaseEp);
SAME(braid_ort_factory_table, OrtEpFactory, GetVendorId);
SAME(braid_ort_factory_table, OrtEpFactory, GetVersion);
SAME(braid_ort_factory_table, OrtEpFactory, CreateDataTransfer);
SAME(braid_ort_factory_table, OrtEpFactory, IsStreamAware);
SAME(braid_ort_compute_table, OrtNodeComputeInfo, CreateState);
SAME(braid_ort_compute_table, OrtNodeComputeInfo, Compute);
SAME(braid_ort_compute_table, OrtNodeComputeInfo, ReleaseState);
SAME(braid_ort_profiler_table, OrtEpProfilerImpl, Release);
SAME(braid_ort_profiler_table, OrtEpProfilerImpl, StartProfiling);
SAME(braid_ort_profiler_table, OrtEpProfilerImpl, EndProfiling);
SAME(braid_ort_ep_table, OrtEp, GetName);
SAME(braid_ort_ep_table, OrtEp, GetCapability);
SAME(braid_ort_ep_table, OrtEp, Compile);
SAME(braid_ort_ep_table, OrtEp, ReleaseNodeComputeInfos);
SAME(braid_ort_ep_table, OrtEp, IsConcurrentRunSupported);
SAME(braid_ort_ep_table, OrtEp, CreateProfiler);
#if ORT_API_VERSION >= 29
_Static_assert(sizeof(braid_ort_factory_table) <= sizeof(OrtEpFactory), "OrtEpFactory");
_Static_assert(sizeof(braid_ort_ep_table) <= sizeof(OrtEp), "OrtEp");
#endif

_Static_assert((int)ONNX_TYPE_TENSOR == (int)BRAID_ORT_TENSOR, "ONNXType");
_Static_assert((int)ORT_OP_ATTR_TENSOR == (int)BRAID_ORT_ATTR_TENSOR, "OrtOpAttrType");
_Static_assert((int)ORT_OP_ATTR_INTS == (int)BRAID_ORT_ATTR_INTS, "OrtOpAttrType");
_Static_assert((int)ORT_LOGGING_LEVEL_WARNING == (int)BRAID_ORT_LOG_WARNING, "OrtLoggingLevel");
_Static_assert((int)OrtHardwareDeviceType_NPU == (int)BRAID_ORT_HARDWARE_NPU, "OrtHardwareDeviceType");
_Static_assert((int)OrtProfilingEventCategory_KERNEL == (int)BRAID_ORT_EVENT_KERNEL, "OrtProfilingEventCategory");
_Static_assert((int)ORT_NOT_IMPLEMENTED == (int)BRAID_ORT_NOT_IMPLEMENTED, "OrtErrorCode");
_Static_assert((int)ORT_NOT_FOUND == (int)BRAID_ORT_NOT_FOUND, "OrtErrorCode");
_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 == 26, "ONNXTensorElementDataType");
