/* ONNX Runtime's interface for execution providers in libraries, as far as it is used here.
 *
 * The interface consists of tables of function pointers that only grow at their end, so a function is known by its
 * slot. No header of ONNX Runtime is needed to build this: the slots below are the source. With -DORT_INCLUDE=DIR the
 * build has the official headers too, and api_check.c compares every slot and every layout with them.
 *
 * X(slot, first version, result, name, arguments). `OrtStatus *` results are NULL for success. */
#ifndef BRAID_ORT_API_H
#define BRAID_ORT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/tensor.h"

enum {
  BRAID_ORT_OLDEST = 24, /* 1.23 loads providers too, but refuses their groups in models with loops and branches */
  BRAID_ORT_NEWEST = 29, /* the newest whose structs are below; a newer runtime serves an older table */
};

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtLogger OrtLogger;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtProfilingEvent OrtProfilingEvent;
typedef struct OrtProfilingEventsContainer OrtProfilingEventsContainer;

#define BRAID_ORT_API_MAP(X)                                                                                           \
  X(0, 1, OrtStatus *, CreateStatus, (int code, const char *message))                                                  \
  X(2, 1, const char *, GetErrorMessage, (const OrtStatus *status))                                                    \
  X(51, 1, OrtStatus *, GetTensorMutableData, (OrtValue * value, void **data))                                         \
  X(55, 1, OrtStatus *, CastTypeInfoToTensorInfo, (const OrtTypeInfo *type, const OrtTensorTypeAndShapeInfo **info))   \
  X(56, 1, OrtStatus *, GetOnnxTypeFromTypeInfo, (const OrtTypeInfo *type, int *kind))                                 \
  X(60, 1, OrtStatus *, GetTensorElementType, (const OrtTensorTypeAndShapeInfo *info, int *type))                      \
  X(61, 1, OrtStatus *, GetDimensionsCount, (const OrtTensorTypeAndShapeInfo *info, size_t *rank))                     \
  X(62, 1, OrtStatus *, GetDimensions, (const OrtTensorTypeAndShapeInfo *info, int64_t *dims, size_t rank))            \
  X(65, 1, OrtStatus *, GetTensorTypeAndShape, (const OrtValue *value, OrtTensorTypeAndShapeInfo **info))              \
  X(88, 1, OrtStatus *, KernelContext_GetInputCount, (const OrtKernelContext *context, size_t *count))                 \
  X(90, 1, OrtStatus *, KernelContext_GetInput,                                                                        \
    (const OrtKernelContext *context, size_t index, const OrtValue **value))                                           \
  X(91, 1, OrtStatus *, KernelContext_GetOutput,                                                                       \
    (OrtKernelContext * context, size_t index, const int64_t *dims, size_t rank, OrtValue **value))                    \
  X(93, 1, void, ReleaseStatus, (OrtStatus * status))                                                                  \
  X(96, 1, void, ReleaseValue, (OrtValue * value))                                                                     \
  X(99, 1, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo * info))                                    \
  X(247, 15, OrtStatus *, Logger_LogMessage,                                                                           \
    (const OrtLogger *logger, int level, const char *message, const char *file, int line, const char *function))       \
  X(272, 17, OrtStatus *, ReadOpAttr, (const OrtOpAttr *attr, int type, void *data, size_t bytes, size_t *needed))     \
  X(289, 22, OrtStatus *, GetValueInfoName, (const OrtValueInfo *info, const char **name))                             \
  X(290, 22, OrtStatus *, GetValueInfoTypeInfo, (const OrtValueInfo *info, const OrtTypeInfo **type))                  \
  X(295, 22, void, CreateKeyValuePairs, (OrtKeyValuePairs * *pairs))                                                   \
  X(296, 22, void, AddKeyValuePair, (OrtKeyValuePairs * pairs, const char *key, const char *value))                    \
  X(297, 22, const char *, GetKeyValue, (const OrtKeyValuePairs *pairs, const char *key))                              \
  X(298, 22, void, GetKeyValuePairs,                                                                                   \
    (const OrtKeyValuePairs *pairs, const char *const **keys, const char *const **values, size_t *count))              \
  X(300, 22, void, ReleaseKeyValuePairs, (OrtKeyValuePairs * pairs))                                                   \
  X(307, 22, int, HardwareDevice_Type, (const OrtHardwareDevice *device))                                              \
  X(317, 22, const void *, GetEpApi, (void))                                                                           \
  X(318, 22, OrtStatus *, GetTensorSizeInBytes, (const OrtValue *value, size_t *bytes))                                \
  X(326, 23, OrtStatus *, ValueInfo_GetInitializerValue, (const OrtValueInfo *info, const OrtValue **value))           \
  X(331, 23, OrtStatus *, ValueInfo_IsConstantInitializer, (const OrtValueInfo *info, bool *constant))                 \
  X(336, 23, OrtStatus *, Graph_GetNumOperatorSets, (const OrtGraph *graph, size_t *count))                            \
  X(337, 23, OrtStatus *, Graph_GetOperatorSets,                                                                       \
    (const OrtGraph *graph, const char **domains, int64_t *versions, size_t count))                                    \
  X(338, 23, OrtStatus *, Graph_GetNumInputs, (const OrtGraph *graph, size_t *count))                                  \
  X(339, 23, OrtStatus *, Graph_GetInputs, (const OrtGraph *graph, const OrtValueInfo **infos, size_t count))          \
  X(340, 23, OrtStatus *, Graph_GetNumOutputs, (const OrtGraph *graph, size_t *count))                                 \
  X(341, 23, OrtStatus *, Graph_GetOutputs, (const OrtGraph *graph, const OrtValueInfo **infos, size_t count))         \
  X(344, 23, OrtStatus *, Graph_GetNumNodes, (const OrtGraph *graph, size_t *count))                                   \
  X(345, 23, OrtStatus *, Graph_GetNodes, (const OrtGraph *graph, const OrtNode **nodes, size_t count))                \
  X(346, 23, OrtStatus *, Graph_GetParentNode, (const OrtGraph *graph, const OrtNode **node))                          \
  X(349, 23, OrtStatus *, Node_GetName, (const OrtNode *node, const char **name))                                      \
  X(350, 23, OrtStatus *, Node_GetOperatorType, (const OrtNode *node, const char **op))                                \
  X(351, 23, OrtStatus *, Node_GetDomain, (const OrtNode *node, const char **domain))                                  \
  X(353, 23, OrtStatus *, Node_GetNumInputs, (const OrtNode *node, size_t *count))                                     \
  X(354, 23, OrtStatus *, Node_GetInputs, (const OrtNode *node, const OrtValueInfo **infos, size_t count))             \
  X(355, 23, OrtStatus *, Node_GetNumOutputs, (const OrtNode *node, size_t *count))                                    \
  X(356, 23, OrtStatus *, Node_GetOutputs, (const OrtNode *node, const OrtValueInfo **infos, size_t count))            \
  X(357, 23, OrtStatus *, Node_GetNumImplicitInputs, (const OrtNode *node, size_t *count))                             \
  X(358, 23, OrtStatus *, Node_GetImplicitInputs, (const OrtNode *node, const OrtValueInfo **infos, size_t count))     \
  X(359, 23, OrtStatus *, Node_GetNumAttributes, (const OrtNode *node, size_t *count))                                 \
  X(360, 23, OrtStatus *, Node_GetAttributes, (const OrtNode *node, const OrtOpAttr **attrs, size_t count))            \
  X(362, 23, OrtStatus *, OpAttr_GetTensorAttributeAsOrtValue, (const OrtOpAttr *attr, OrtValue **value))              \
  X(363, 23, OrtStatus *, OpAttr_GetType, (const OrtOpAttr *attr, int *type))                                          \
  X(364, 23, OrtStatus *, OpAttr_GetName, (const OrtOpAttr *attr, const char **name))                                  \
  X(365, 23, OrtStatus *, Node_GetNumSubgraphs, (const OrtNode *node, size_t *count))                                  \
  X(368, 23, OrtStatus *, Node_GetEpName, (const OrtNode *node, const char **name))                                    \
  X(378, 23, OrtStatus *, GetTensorData, (const OrtValue *value, const void **data))                                   \
  X(379, 23, OrtStatus *, GetSessionOptionsConfigEntries, (const OrtSessionOptions *options, OrtKeyValuePairs **out))  \
  X(390, 24, bool, TensorTypeAndShape_HasShape, (const OrtTensorTypeAndShapeInfo *info))                               \
  X(414, 24, OrtStatus *, GetTensorElementTypeAndShapeDataReference,                                                   \
    (const OrtValue *value, int *type, const int64_t **dims, size_t *rank))

/* Options of a group: initializers that only the group reads are not given to it as inputs. */
typedef struct braid_ort_fusion {
  uint32_t version;
  bool drop_constant_initializers;
} braid_ort_fusion;

#define BRAID_ORT_EP_API_MAP(X)                                                                                        \
  X(0, 22, OrtStatus *, CreateEpDevice,                                                                                \
    (void *factory, const OrtHardwareDevice *hardware, const OrtKeyValuePairs *metadata,                               \
     const OrtKeyValuePairs *options, OrtEpDevice **device))                                                           \
  X(1, 22, void, ReleaseEpDevice, (OrtEpDevice * device))                                                              \
  X(2, 23, OrtStatus *, EpGraphSupportInfo_AddNodesToFuse,                                                             \
    (OrtEpGraphSupportInfo * support, const OrtNode *const *nodes, size_t count, const braid_ort_fusion *options))     \
  X(16, 24, OrtStatus *, CreateHardwareDevice,                                                                         \
    (int type, uint32_t vendor, uint32_t device, const char *vendor_name, const OrtKeyValuePairs *metadata,            \
     OrtHardwareDevice **out))                                                                                         \
  X(17, 24, void, ReleaseHardwareDevice, (OrtHardwareDevice * device))                                                 \
  X(65, 25, OrtStatus *, CreateProfilingEvent,                                                                         \
    (int category, int32_t process, int32_t thread, const char *name, int64_t start_us, int64_t us,                    \
     const char *const *keys, const char *const *values, size_t count, OrtProfilingEvent **out))                       \
  X(66, 25, void, ReleaseProfilingEvent, (OrtProfilingEvent * event))                                                  \
  X(72, 25, OrtStatus *, ProfilingEventsContainer_AddEvents,                                                           \
    (OrtProfilingEventsContainer * container, const OrtProfilingEvent *const *events, size_t count))

/* The functions by name; NULL where the runtime is older than the function. */
typedef struct braid_ort_api {
  uint32_t version; /* the negotiated one, stamped into every struct */
#define BRAID_ORT_FIELD(slot, since, result, name, arguments) result(*name) arguments;
  BRAID_ORT_API_MAP(BRAID_ORT_FIELD)
  BRAID_ORT_EP_API_MAP(BRAID_ORT_FIELD)
#undef BRAID_ORT_FIELD
} braid_ort_api;

/* What a runtime hands to CreateEpFactories. */
typedef struct OrtApiBase OrtApiBase;
typedef struct braid_ort_base {
  const void *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} braid_ort_base;

/* The functions of the runtime that loaded this library: set by braid_ort_connect, and the same until the process ends.
 * A process has one ONNX Runtime. */
extern braid_ort_api braid_ort;

/* Fills in `braid_ort`. Returns the runtime's version string, and in *too_old whether it is older than OLDEST. */
const char *braid_ort_connect(const OrtApiBase *base, bool *too_old);

/* --- structs that we fill in: a version, then pointers -------------------------------------------------------------
 */
typedef struct braid_ort_factory_table {
  uint32_t version;
  const char *(*GetName)(const void *factory);
  const char *(*GetVendor)(const void *factory);
  OrtStatus *(*GetSupportedDevices)(void *factory, const OrtHardwareDevice *const *hardware, size_t count,
                                    OrtEpDevice **devices, size_t capacity, size_t *written);
  OrtStatus *(*CreateEp)(void *factory, const OrtHardwareDevice *const *hardware,
                         const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                         const OrtLogger *logger, void **ep);
  void (*ReleaseEp)(void *factory, void *ep);
  uint32_t (*GetVendorId)(const void *factory);
  const char *(*GetVersion)(const void *factory);
  void *ValidateCompiledModelCompatibilityInfo;
  void *CreateAllocator;
  void *ReleaseAllocator;
  OrtStatus *(*CreateDataTransfer)(void *factory, void **transfer);
  bool (*IsStreamAware)(const void *factory);
  void *CreateSyncStreamForDevice;
  void *GetHardwareDeviceIncompatibilityDetails;
  void *CreateExternalResourceImporterForDevice;
  void *GetNumCustomOpDomains;
  void *GetCustomOpDomains;
  void *InitGraphicsInterop;
  void *DeinitGraphicsInterop;
  void *SelectBestModelCandidate;
} braid_ort_factory_table;

typedef struct braid_ort_compute_table {
  uint32_t version;
  OrtStatus *(*CreateState)(void *info, OrtNodeComputeContext *context, void **state);
  OrtStatus *(*Compute)(void *info, void *state, OrtKernelContext *context);
  void (*ReleaseState)(void *info, void *state);
} braid_ort_compute_table;

typedef struct braid_ort_profiler_table {
  uint32_t version;
  void (*Release)(void *profiler);
  OrtStatus *(*StartProfiling)(void *profiler, int64_t offset_ns);
  void *StartEvent;
  void *StopEvent;
  OrtStatus *(*EndProfiling)(void *profiler, OrtProfilingEventsContainer *events);
} braid_ort_profiler_table;

typedef struct braid_ort_ep_table {
  uint32_t version;
  const char *(*GetName)(const void *ep);
  OrtStatus *(*GetCapability)(void *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
  OrtStatus *(*Compile)(void *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                        braid_ort_compute_table **infos, OrtNode **context_nodes);
  void (*ReleaseNodeComputeInfos)(void *ep, braid_ort_compute_table **infos, size_t count);
  void *GetPreferredDataLayout;
  void *ShouldConvertDataLayoutForOp;
  void *SetDynamicOptions;
  void *OnRunStart;
  void *OnRunEnd;
  void *CreateAllocator;
  void *CreateSyncStreamForDevice;
  void *GetCompiledModelCompatibilityInfo;
  void *GetKernelRegistry;
  OrtStatus *(*IsConcurrentRunSupported)(void *ep, bool *supported);
  void *Sync;
  OrtStatus *(*CreateProfiler)(void *ep, void **profiler);
  void *IsGraphCaptureEnabled;
  void *IsGraphCaptured;
  void *ReplayGraph;
  void *GetGraphCaptureNodeAssignmentPolicy;
  void *GetAvailableResource;
  void *OnSessionInitializationEnd;
  void *GetDefaultMemoryDevice;
  void *ReleaseCapturedGraph;
  void *GetWeightlessSupport;
} braid_ort_ep_table;

/* --- numbers of the interface --------------------------------------------------------------------------------------
 */
enum { BRAID_ORT_TENSOR = 1 };       /* ONNXType */
enum { BRAID_ORT_HARDWARE_CPU = 0 }; /* OrtHardwareDeviceType */
enum { BRAID_ORT_HARDWARE_GPU = 1, BRAID_ORT_HARDWARE_NPU = 2 };
enum { BRAID_ORT_LOG_VERBOSE = 0, BRAID_ORT_LOG_INFO = 1, BRAID_ORT_LOG_WARNING = 2 };
enum { BRAID_ORT_EVENT_KERNEL = 2 }; /* OrtProfilingEventCategory */
typedef enum braid_ort_code {
  BRAID_ORT_FAIL = 1,
  BRAID_ORT_INVALID_ARGUMENT = 2,
  BRAID_ORT_RUNTIME_EXCEPTION = 6,
  BRAID_ORT_NOT_IMPLEMENTED = 9,
  BRAID_ORT_INVALID_GRAPH = 10,
  BRAID_ORT_NOT_FOUND = 14,
} braid_ort_code;
typedef enum braid_ort_attr {
  BRAID_ORT_ATTR_INT = 1,
  BRAID_ORT_ATTR_INTS,
  BRAID_ORT_ATTR_FLOAT,
  BRAID_ORT_ATTR_FLOATS,
  BRAID_ORT_ATTR_STRING,
  BRAID_ORT_ATTR_STRINGS,
  BRAID_ORT_ATTR_GRAPH,
  BRAID_ORT_ATTR_TENSOR,
} braid_ort_attr;

/* --- errors and types ----------------------------------------------------------------------------------------------
 */
/* NULL for OK; else a status of the runtime with our sentence. Never the code by which ONNX Runtime's Python interface
 * falls back to its own CPU provider without an exception. */
OrtStatus *braid_ort_status(braid_status status);
/* The reverse: keeps the runtime's sentence as our detail and releases `status`. */
braid_status braid_ort_check(OrtStatus *status);

/* ONNX's number of a type in files, from the runtime's; 0: none. */
int braid_ort_onnx_type(int type);
const char *braid_ort_type_name(int type);
/* Of those that shapes and scales have: float32, int32, int64; BRAID_NONE for others. */
braid_dtype braid_ort_dtype(int type);
/* Elements of less than a byte, which the runtime packs and Braid does not. */
bool braid_ort_type_packed(int type);
/* Numbers and truth values in elements of whole bytes, which a tensor of Braid holds as the runtime does. */
bool braid_ort_type_carried(int type);

#endif
