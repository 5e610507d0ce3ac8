#include "backend/cuda/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/library.h"

enum { kLeastVersion = 12000 }; /* cuGraphExecUpdate_v2 */

static braid_cuda_api api;
static bool usable;
static char missing[200];

static const char *const kLibrary = "libcuda.so.1";

static bool driver_find_functions(void *library) {
  const braid_library_function functions[] = {
#define BRAID_CUDA_ENTRY(member, name, arguments) {name, &api.member},
      BRAID_CUDA_FUNCTIONS(BRAID_CUDA_ENTRY)
#undef BRAID_CUDA_ENTRY
  };
  const char *lacks = braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
  if (lacks)
    snprintf(missing, sizeof missing, "%s has no %s: NVIDIA's driver is older than CUDA 12.0", kLibrary, lacks);
  return !lacks;
}

static void start_driver(void) {
  (void)api.driver_version(&api.version);
  if (api.version < kLeastVersion) {
    snprintf(missing, sizeof missing, "NVIDIA's driver is of CUDA %d.%d, 12.0 or later is needed", api.version / 1000,
             api.version % 1000 / 10);
    return;
  }
  braid_cuda_result code = api.init(0);
  usable = code == 0;
  if (code == BRAID_CUDA_NO_DEVICE)
    snprintf(missing, sizeof missing, "NVIDIA's driver finds no GPU");
  else if (code)
    snprintf(missing, sizeof missing, "NVIDIA's driver does not start: cuInit says %.80s", braid_cuda_error_name(code));
}

/* Kept until the program ends, as the driver itself is. */
static void load_library(void) {
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    snprintf(missing, sizeof missing, "there is no %s, NVIDIA's driver", kLibrary);
  else if (driver_find_functions(library))
    start_driver();
  if (library && !usable) dlclose(library);
}

const braid_cuda_api *braid_cuda_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_library);
  return usable ? &api : NULL;
}

const char *braid_cuda_missing(void) {
  (void)braid_cuda_load();
  return missing;
}

const char *braid_cuda_error_name(braid_cuda_result code) {
  const char *name = NULL;
  if (api.error_name(code, &name) || !name) return "an unknown error";
  return name;
}

/* Those of a kernel or the card that went wrong stay: every later call in the context gives the same. */
braid_status braid_cuda_status(braid_cuda_result code) {
  switch (code) {
  case 0:
    return BRAID_OK;
  case BRAID_CUDA_OUT_OF_MEMORY:
    return BRAID_NO_MEMORY;
  case 4:   /* DEINITIALIZED */
  case 46:  /* DEVICE_UNAVAILABLE */
  case 101: /* INVALID_DEVICE */
  case 214: /* ECC_UNCORRECTABLE */
  case 219: /* INVALID_GRAPHICS_CONTEXT */
  case 220: /* NVLINK_UNCORRECTABLE */
  case 226: /* CONTAINED */
  case 700: /* ILLEGAL_ADDRESS */
  case 702: /* LAUNCH_TIMEOUT */
  case 709: /* CONTEXT_IS_DESTROYED */
  case 710: /* ASSERT */
  case 714: /* HARDWARE_STACK_ERROR */
  case 715: /* ILLEGAL_INSTRUCTION */
  case 716: /* MISALIGNED_ADDRESS */
  case 717: /* INVALID_ADDRESS_SPACE */
  case 718: /* INVALID_PC */
  case 719: /* LAUNCH_FAILED */
  case 721: /* TENSOR_MEMORY_LEAK */
  case 810: /* MPS_CLIENT_TERMINATED */
  case 911: /* EXTERNAL_DEVICE */
  case 999: /* UNKNOWN */
    return BRAID_DEVICE_LOST;
  case 701: /* LAUNCH_OUT_OF_RESOURCES */
  case BRAID_CUDA_NO_BINARY_FOR_GPU:
  case 222: /* UNSUPPORTED_PTX_VERSION */
  case 801: /* NOT_SUPPORTED */
    return BRAID_UNSUPPORTED;
  default:
    return BRAID_INTERNAL;
  }
}

braid_status braid_cuda_fail(braid_cuda_result code, const char *what) {
  return braid_fail(braid_cuda_status(code), "%s: %s", what, braid_cuda_error_name(code));
}
