/* For tests of kernels for tensor cores: on a card if BRAID_TEST_OPENCL names one, else by the driver and the compiler
 * of tests/libraries whose kernels a C++ compiler makes into programs of the host. */
#ifndef BRAID_BACKEND_CUDA_CUDA_EMULATED_H
#define BRAID_BACKEND_CUDA_CUDA_EMULATED_H

#include <dlfcn.h>
#include <stdlib.h>

#include "skip.h"

static bool emulated_is;
static void *emulated_driver;          /* NULL: a card's own */
static const char *emulated_hindrance; /* why the host cannot stand in for a card; NULL: it does, or there is one */

static void emulated_need(void) {
  if (emulated_hindrance) skip_test("products", "%s", emulated_hindrance);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
static const char *emulated_find_hindrance(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
  return "sanitizers do not follow a thread that changes its stack";
#elif defined(BRAID_EMULATED)
  return "c++ makes programs of the machine that emulates this one";
#else
  return system("command -v c++ >/dev/null") == 0 ? NULL : "there is no c++";
#endif
}

/* Without a card: found by these names from now on. */
static void emulated_load(void) {
  emulated_is = !getenv("BRAID_TEST_OPENCL");
  if (!emulated_is) return;
  (void)setenv("BRAID_TEST_OPENCL", "cuda0", 1);
  emulated_hindrance = emulated_find_hindrance();
  if (emulated_hindrance) return;
  emulated_driver = dlopen(BRAID_LIBRARIES "/cuda_emulated.so", RTLD_NOW | RTLD_LOCAL);
  (void)dlopen(BRAID_LIBRARIES "/nvrtc_emulated.so", RTLD_NOW | RTLD_LOCAL);
  (void)setenv("BRAID_TEST_OPENCL", "cuda0:cache=off", 1);
}

#endif
