/* OpenCL as it is found when the program runs: libOpenCL is loaded, never linked, so that a machine without it has no
 * OpenCL devices and nothing else changes. Only calls of OpenCL 1.2 are used. */
#ifndef BRAID_BACKEND_OPENCL_API_H
#define BRAID_BACKEND_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "braid/status.h"

#define BRAID_CL_FUNCTIONS(X)                                                                                          \
  X(GetPlatformIDs)                                                                                                    \
  X(GetDeviceIDs)                                                                                                      \
  X(GetDeviceInfo)                                                                                                     \
  X(CreateSubDevices)                                                                                                  \
  X(ReleaseDevice)                                                                                                     \
  X(CreateContext)                                                                                                     \
  X(ReleaseContext)                                                                                                    \
  X(CreateCommandQueue)                                                                                                \
  X(ReleaseCommandQueue)                                                                                               \
  X(CreateBuffer)                                                                                                      \
  X(CreateSubBuffer)                                                                                                   \
  X(RetainMemObject)                                                                                                   \
  X(ReleaseMemObject)                                                                                                  \
  X(CreateProgramWithSource)                                                                                           \
  X(CreateProgramWithBinary)                                                                                           \
  X(BuildProgram)                                                                                                      \
  X(GetProgramInfo)                                                                                                    \
  X(GetProgramBuildInfo)                                                                                               \
  X(ReleaseProgram)                                                                                                    \
  X(CreateKernel)                                                                                                      \
  X(ReleaseKernel)                                                                                                     \
  X(SetKernelArg)                                                                                                      \
  X(GetKernelInfo)                                                                                                     \
  X(GetKernelArgInfo)                                                                                                  \
  X(GetKernelWorkGroupInfo)                                                                                            \
  X(RetainEvent)                                                                                                       \
  X(ReleaseEvent)                                                                                                      \
  X(SetEventCallback)                                                                                                  \
  X(GetEventInfo)                                                                                                      \
  X(GetEventProfilingInfo)                                                                                             \
  X(Flush)                                                                                                             \
  X(Finish)                                                                                                            \
  X(EnqueueReadBuffer)                                                                                                 \
  X(EnqueueWriteBuffer)                                                                                                \
  X(EnqueueFillBuffer)                                                                                                 \
  X(EnqueueCopyBuffer)                                                                                                 \
  X(EnqueueMigrateMemObjects)                                                                                          \
  X(EnqueueNDRangeKernel)                                                                                              \
  X(EnqueueMarkerWithWaitList)                                                                                         \
  X(EnqueueBarrierWithWaitList)

typedef struct braid_cl_api {
#define BRAID_CL_MEMBER(name) __typeof__(&cl##name) name;
  BRAID_CL_FUNCTIONS(BRAID_CL_MEMBER)
#undef BRAID_CL_MEMBER
} braid_cl_api;

/* The library, loaded by the first call and kept; NULL where there is none of version 1.2 or later. */
const braid_cl_api *braid_cl_load(void);

/* "CL_OUT_OF_RESOURCES"; for codes of vendors "code -9999". `scratch` of 32 bytes may be used. */
const char *braid_cl_error_name(cl_int code, char *scratch);
/* Records "WHAT: NAME OF THE CODE" and returns the status that stands for the code. */
braid_status braid_cl_fail(cl_int code, const char *what);
/* The status alone. */
braid_status braid_cl_status(cl_int code);

#endif
