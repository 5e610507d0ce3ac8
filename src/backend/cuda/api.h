/* CUDA's driver as it is found when the program runs: libcuda is loaded, never linked, and its few functions are
 * written down here, so that the backend is built without CUDA's headers and a machine without a driver has no CUDA
 * devices and nothing else changes. Names, types and numbers are those of NVIDIA's "CUDA Driver API", whose binary
 * interface is stable; cuda_headers_test.c compares them with cuda.h where that is installed. */
#ifndef BRAID_BACKEND_CUDA_API_H
#define BRAID_BACKEND_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

typedef int braid_cuda_result;
typedef int braid_cuda_id; /* CUdevice */
typedef struct CUctx_st *braid_cuda_context_handle;
typedef struct CUstream_st *braid_cuda_stream;
typedef struct CUevent_st *braid_cuda_event_handle;
typedef struct CUmod_st *braid_cuda_module;
typedef struct CUfunc_st *braid_cuda_function;
typedef struct CUgraph_st *braid_cuda_graph;
typedef struct CUgraphNode_st *braid_cuda_node;
typedef struct CUgraphExec_st *braid_cuda_graph_exec;
typedef unsigned long long braid_cuda_address; /* CUdeviceptr */
typedef void (*braid_cuda_host_call)(void *context);

enum { /* CUresult */
       BRAID_CUDA_OUT_OF_MEMORY = 2,
       BRAID_CUDA_NO_DEVICE = 100,
       BRAID_CUDA_NO_BINARY_FOR_GPU = 209,
       BRAID_CUDA_NOT_READY = 600,
       BRAID_CUDA_ALREADY_REGISTERED = 712,
};

enum { /* CUdevice_attribute */
       BRAID_CUDA_MAX_THREADS_PER_BLOCK = 1,
       BRAID_CUDA_MAX_BLOCK_X = 2,
       BRAID_CUDA_SHARED_PER_BLOCK = 8,
       BRAID_CUDA_MULTIPROCESSORS = 16,
       BRAID_CUDA_PCI_BUS = 33,
       BRAID_CUDA_PCI_DEVICE = 34,
       BRAID_CUDA_PCI_DOMAIN = 50,
       BRAID_CUDA_CAPABILITY_MAJOR = 75,
       BRAID_CUDA_CAPABILITY_MINOR = 76,
       BRAID_CUDA_SHARED_PER_BLOCK_AT_MOST = 97,
       BRAID_CUDA_CLUSTER_LAUNCH = 120,
};

enum { /* CUfunction_attribute */
       BRAID_CUDA_DYNAMIC_SHARED = 8,
};

enum { /* CUpointer_attribute */
       BRAID_CUDA_RANGE_START = 11,
       BRAID_CUDA_RANGE_BYTES = 12,
};

enum { /* flags */
       BRAID_CUDA_STREAM_NON_BLOCKING = 1,
       BRAID_CUDA_EVENT_TIMED = 0,
       BRAID_CUDA_EVENT_UNTIMED = 2,
       BRAID_CUDA_HOST_PORTABLE = 1,
       BRAID_CUDA_HOST_MAPPED = 2,
       BRAID_CUDA_CAPTURE_RELAXED = 2,
       BRAID_CUDA_CAPTURE_SET_DEPENDENCIES = 1,
};

/* CUgraphExecUpdateResultInfo */
typedef struct braid_cuda_update {
  int result;
  void *node, *from;
} braid_cuda_update;

/* X(member, name in the library, arguments) */
#define BRAID_CUDA_FUNCTIONS(X)                                                                                        \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(driver_version, "cuDriverGetVersion", (int *version))                                                              \
  X(error_name, "cuGetErrorName", (braid_cuda_result code, const char **text))                                         \
  X(device_count, "cuDeviceGetCount", (int *count))                                                                    \
  X(device_get, "cuDeviceGet", (braid_cuda_id * device, int ordinal))                                                  \
  X(device_name, "cuDeviceGetName", (char *name, int bytes, braid_cuda_id device))                                     \
  X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, braid_cuda_id device))                       \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, braid_cuda_id device))                                      \
  X(context_retain, "cuDevicePrimaryCtxRetain", (braid_cuda_context_handle * context, braid_cuda_id device))           \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (braid_cuda_id device))                                           \
  X(context_push, "cuCtxPushCurrent_v2", (braid_cuda_context_handle context))                                          \
  X(context_pop, "cuCtxPopCurrent_v2", (braid_cuda_context_handle * context))                                          \
  X(memory_info, "cuMemGetInfo_v2", (size_t * unused, size_t * total))                                                 \
  X(memory_allocate, "cuMemAlloc_v2", (braid_cuda_address * address, size_t bytes))                                    \
  X(memory_free, "cuMemFree_v2", (braid_cuda_address address))                                                         \
  X(host_allocate, "cuMemHostAlloc", (void **host, size_t bytes, unsigned flags))                                      \
  X(host_free, "cuMemFreeHost", (void *host))                                                                          \
  X(host_address, "cuMemHostGetDevicePointer_v2", (braid_cuda_address * address, void *host, unsigned flags))          \
  X(host_register, "cuMemHostRegister_v2", (void *host, size_t bytes, unsigned flags))                                 \
  X(pointer_attribute, "cuPointerGetAttribute", (void *value, int attribute, braid_cuda_address pointer))              \
  X(host_unregister, "cuMemHostUnregister", (void *host))                                                              \
  X(write_async, "cuMemcpyHtoDAsync_v2",                                                                               \
    (braid_cuda_address to, const void *from, size_t bytes, braid_cuda_stream stream))                                 \
  X(read_async, "cuMemcpyDtoHAsync_v2", (void *to, braid_cuda_address from, size_t bytes, braid_cuda_stream stream))   \
  X(copy_async, "cuMemcpyDtoDAsync_v2",                                                                                \
    (braid_cuda_address to, braid_cuda_address from, size_t bytes, braid_cuda_stream stream))                          \
  X(stream_create, "cuStreamCreate", (braid_cuda_stream * stream, unsigned flags))                                     \
  X(stream_destroy, "cuStreamDestroy_v2", (braid_cuda_stream stream))                                                  \
  X(stream_wait, "cuStreamWaitEvent", (braid_cuda_stream stream, braid_cuda_event_handle event, unsigned flags))       \
  X(stream_capture, "cuStreamBeginCapture_v2", (braid_cuda_stream stream, int mode))                                   \
  X(stream_captured, "cuStreamEndCapture", (braid_cuda_stream stream, braid_cuda_graph * graph))                       \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                                         \
    (braid_cuda_stream stream, int *capturing, uint64_t *id, braid_cuda_graph *graph, const braid_cuda_node **last,    \
     size_t *last_count))                                                                                              \
  X(capture_after, "cuStreamUpdateCaptureDependencies",                                                                \
    (braid_cuda_stream stream, braid_cuda_node * nodes, size_t count, unsigned flags))                                 \
  X(event_create, "cuEventCreate", (braid_cuda_event_handle * event, unsigned flags))                                  \
  X(event_destroy, "cuEventDestroy_v2", (braid_cuda_event_handle event))                                               \
  X(event_record, "cuEventRecord", (braid_cuda_event_handle event, braid_cuda_stream stream))                          \
  X(event_query, "cuEventQuery", (braid_cuda_event_handle event))                                                      \
  X(event_elapsed, "cuEventElapsedTime",                                                                               \
    (float *milliseconds, braid_cuda_event_handle start, braid_cuda_event_handle end))                                 \
  X(module_load, "cuModuleLoadData", (braid_cuda_module * module, const void *image))                                  \
  X(module_unload, "cuModuleUnload", (braid_cuda_module module))                                                       \
  X(module_function, "cuModuleGetFunction",                                                                            \
    (braid_cuda_function * function, braid_cuda_module module, const char *name))                                      \
  X(function_set, "cuFuncSetAttribute", (braid_cuda_function function, int attribute, int value))                      \
  X(launch, "cuLaunchKernel",                                                                                          \
    (braid_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
     unsigned block_y, unsigned block_z, unsigned shared, braid_cuda_stream stream, void **arguments, void **extra))   \
  X(launch_host, "cuLaunchHostFunc", (braid_cuda_stream stream, braid_cuda_host_call call, void *context))             \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                                  \
    (braid_cuda_graph_exec * exec, braid_cuda_graph graph, unsigned long long flags))                                  \
  X(graph_update, "cuGraphExecUpdate_v2",                                                                              \
    (braid_cuda_graph_exec exec, braid_cuda_graph graph, braid_cuda_update * result))                                  \
  X(graph_launch, "cuGraphLaunch", (braid_cuda_graph_exec exec, braid_cuda_stream stream))                             \
  X(graph_exec_destroy, "cuGraphExecDestroy", (braid_cuda_graph_exec exec))                                            \
  X(graph_destroy, "cuGraphDestroy", (braid_cuda_graph graph))

typedef struct braid_cuda_api {
#define BRAID_CUDA_MEMBER(member, name, arguments) braid_cuda_result(*member) arguments;
  BRAID_CUDA_FUNCTIONS(BRAID_CUDA_MEMBER)
#undef BRAID_CUDA_MEMBER
  int version; /* of CUDA that the driver has: 13000 is 13.0 */
} braid_cuda_api;

/* The driver, loaded and started by the first call and kept. NULL: it can't be used, braid_cuda_missing says why. */
const braid_cuda_api *braid_cuda_load(void);
const char *braid_cuda_missing(void); /* a sentence; "": it is there */

/* "CUDA_ERROR_OUT_OF_MEMORY" */
const char *braid_cuda_error_name(braid_cuda_result code);
/* The status that stands for a code. Where it is DEVICE_LOST the context is of no use any more. */
braid_status braid_cuda_status(braid_cuda_result code);
/* Records "WHAT: NAME OF THE CODE" and returns the status. */
braid_status braid_cuda_fail(braid_cuda_result code, const char *what);

/* BRAID_TRY for a call of the driver. */
#define BRAID_CUDA_TRY(call, what)                                                                                     \
  do {                                                                                                                 \
    braid_cuda_result try_code_ = (call);                                                                              \
    if (try_code_) return braid_cuda_fail(try_code_, what);                                                            \
  } while (0)

#endif
