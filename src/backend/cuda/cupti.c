#include "backend/cuda/cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/library.h"

static braid_cupti_api api;
static char missing[240]; /* why it can't be used; "": it can */
static int driver_version;

static const char *name_of(braid_cupti_result code) {
  const char *name = NULL;
  return api.result_name(code, &name) || !name ? "an unknown error" : name;
}

/* A library of CUPTI may be older than the driver, but not of a later major version. */
static void *open_library(void) {
  char name[32], why[160];
  void *library = NULL;
  for (int major = driver_version / 1000; !library && major >= 12; major--) {
    snprintf(name, sizeof name, "libcupti.so.%d", major);
    library = braid_library_open(name, why, sizeof why);
  }
  return library;
}

static void find_functions(void *library) {
  const braid_library_function functions[] = {{"cuptiGetResultString", &api.result_name},
#define BRAID_CUPTI_FUNCTION(member, name, argument) {name, &api.member},
                                              BRAID_CUPTI_FUNCTIONS(BRAID_CUPTI_FUNCTION)
#undef BRAID_CUPTI_FUNCTION
  };
  const char *lacks = braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
  if (lacks) snprintf(missing, sizeof missing, "libcupti has no %s: CUDA 12.6 or later is needed to count", lacks);
}

static void load_library(void) {
  if (driver_version / 1000 < 12) {
    snprintf(missing, sizeof missing, "the driver is of CUDA %d: 12.6 or later is needed to count",
             driver_version / 1000);
    return;
  }
  void *library = open_library();
  if (!library) {
    snprintf(missing, sizeof missing,
             "there is no libcupti.so.%d, which reads the counters of NVIDIA's cards (it is a part of CUDA's toolkit)",
             driver_version / 1000);
    return;
  }
  find_functions(library);
  if (missing[0]) dlclose(library);
}

const braid_cupti_api *braid_cupti_load(int driver, const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  __atomic_store_n(&driver_version, driver, __ATOMIC_RELAXED); /* the same for all: there is one driver */
  pthread_once(&once, load_library);
  *why = missing;
  return missing[0] ? NULL : &api;
}

static braid_cupti_result started;
static void start_library(void) {
  braid_cupti_initialize initialize = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_initialize, reserved)};
  started = api.initialize(&initialize);
}

braid_status braid_cupti_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_library);
  return started ? braid_cupti_fail(started, "taking hold of the driver") : BRAID_OK;
}

/* The kinds of devices that are not supported came one by one. */
static bool is_unsupported(braid_cupti_result code) {
  return code == BRAID_CUPTI_INVALID_DEVICE || code == BRAID_CUPTI_NOT_COMPATIBLE ||
         code == BRAID_CUPTI_INVALID_METRIC_NAME || code == BRAID_CUPTI_NOT_SUPPORTED ||
         code == BRAID_CUPTI_VIRTUALIZED || (code >= BRAID_CUPTI_CONFIDENTIAL && code <= BRAID_CUPTI_INVALID_CHIP_NAME);
}

braid_status braid_cupti_fail(braid_cupti_result code, const char *what) {
  if (code == BRAID_CUPTI_INSUFFICIENT_PRIVILEGES || code == BRAID_CUPTI_VIRTUALIZED_PRIVILEGES)
    return braid_fail(
        BRAID_UNSUPPORTED,
        "counting is not permitted (%.60s): NVIDIA's driver lets root alone count, or everybody where its "
        "module has NVreg_RestrictProfilingToAdminUsers=0",
        name_of(code));
  braid_status status = code == BRAID_CUPTI_OUT_OF_MEMORY   ? BRAID_NO_MEMORY
                        : code == BRAID_CUPTI_HARDWARE_BUSY ? BRAID_BUSY /* another program counts */
                        : is_unsupported(code)              ? BRAID_UNSUPPORTED
                                                            : BRAID_INTERNAL;
  return braid_fail(status, "CUPTI, %s: %.100s", what, name_of(code));
}
