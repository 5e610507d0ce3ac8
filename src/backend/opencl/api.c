#include "backend/opencl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"

static braid_cl_api functions;
static const braid_cl_api *loaded;

static void load_library(void) {
  char why[160];
  void *library = braid_library_open("libOpenCL.so.1", why, sizeof why);
  if (!library) library = braid_library_open("libOpenCL.so", why, sizeof why);
  if (!library) return;
  bool complete = true;
#define BRAID_CL_FIND(name) complete &= braid_library_find(library, "cl" #name, &functions.name, sizeof functions.name);
  BRAID_CL_FUNCTIONS(BRAID_CL_FIND)
#undef BRAID_CL_FIND
  if (complete)
    loaded = &functions;
  else
    dlclose(library);
}

const braid_cl_api *braid_cl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_library);
  return loaded;
}

#define BRAID_CL_ERRORS(X)                                                                                             \
  X(DEVICE_NOT_FOUND)                                                                                                  \
  X(DEVICE_NOT_AVAILABLE)                                                                                              \
  X(COMPILER_NOT_AVAILABLE)                                                                                            \
  X(MEM_OBJECT_ALLOCATION_FAILURE)                                                                                     \
  X(OUT_OF_RESOURCES)                                                                                                  \
  X(OUT_OF_HOST_MEMORY)                                                                                                \
  X(PROFILING_INFO_NOT_AVAILABLE)                                                                                      \
  X(MEM_COPY_OVERLAP)                                                                                                  \
  X(BUILD_PROGRAM_FAILURE)                                                                                             \
  X(MISALIGNED_SUB_BUFFER_OFFSET)                                                                                      \
  X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                                         \
  X(COMPILE_PROGRAM_FAILURE)                                                                                           \
  X(LINK_PROGRAM_FAILURE)                                                                                              \
  X(DEVICE_PARTITION_FAILED)                                                                                           \
  X(KERNEL_ARG_INFO_NOT_AVAILABLE)                                                                                     \
  X(INVALID_VALUE)                                                                                                     \
  X(INVALID_PLATFORM)                                                                                                  \
  X(INVALID_DEVICE)                                                                                                    \
  X(INVALID_CONTEXT)                                                                                                   \
  X(INVALID_QUEUE_PROPERTIES)                                                                                          \
  X(INVALID_COMMAND_QUEUE)                                                                                             \
  X(INVALID_HOST_PTR)                                                                                                  \
  X(INVALID_MEM_OBJECT)                                                                                                \
  X(INVALID_BINARY)                                                                                                    \
  X(INVALID_BUILD_OPTIONS)                                                                                             \
  X(INVALID_PROGRAM)                                                                                                   \
  X(INVALID_PROGRAM_EXECUTABLE)                                                                                        \
  X(INVALID_KERNEL_NAME)                                                                                               \
  X(INVALID_KERNEL_DEFINITION)                                                                                         \
  X(INVALID_KERNEL)                                                                                                    \
  X(INVALID_ARG_INDEX)                                                                                                 \
  X(INVALID_ARG_VALUE)                                                                                                 \
  X(INVALID_ARG_SIZE)                                                                                                  \
  X(INVALID_KERNEL_ARGS)                                                                                               \
  X(INVALID_WORK_DIMENSION)                                                                                            \
  X(INVALID_WORK_GROUP_SIZE)                                                                                           \
  X(INVALID_WORK_ITEM_SIZE)                                                                                            \
  X(INVALID_GLOBAL_OFFSET)                                                                                             \
  X(INVALID_EVENT_WAIT_LIST)                                                                                           \
  X(INVALID_EVENT)                                                                                                     \
  X(INVALID_OPERATION)                                                                                                 \
  X(INVALID_BUFFER_SIZE)                                                                                               \
  X(INVALID_GLOBAL_WORK_SIZE)                                                                                          \
  X(INVALID_PROPERTY)                                                                                                  \
  X(INVALID_DEVICE_PARTITION_COUNT)

const char *braid_cl_error_name(cl_int code, char *scratch) {
  switch (code) {
#define BRAID_CL_CASE(name)                                                                                            \
  case CL_##name:                                                                                                      \
    return "CL_" #name;
    BRAID_CL_ERRORS(BRAID_CL_CASE)
#undef BRAID_CL_CASE
  default:
    snprintf(scratch, 32, "code %d", (int)code);
    return scratch;
  }
}

braid_status braid_cl_status(cl_int code) {
  switch (code) {
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_OUT_OF_RESOURCES:
  case CL_OUT_OF_HOST_MEMORY:
  case CL_INVALID_BUFFER_SIZE:
    return BRAID_NO_MEMORY;
  case CL_DEVICE_NOT_AVAILABLE:
    return BRAID_DEVICE_LOST;
  case CL_COMPILER_NOT_AVAILABLE:
    return BRAID_UNSUPPORTED;
  default:
    return code <= -1000 ? BRAID_DEVICE_LOST : BRAID_INTERNAL; /* vendors report crashed kernels with their own codes */
  }
}

braid_status braid_cl_fail(cl_int code, const char *what) {
  char scratch[32];
  return braid_fail(braid_cl_status(code), "%s: %s", what, braid_cl_error_name(code, scratch));
}
