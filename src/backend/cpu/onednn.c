#include "backend/cpu/onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/library.h"

#define TEXT(x) #x
#define NAME_OF(major) "libdnnl.so." TEXT(major)

braid_dnnl_api braid_dnnl_functions;
static bool loaded;

/* oneDNN tells Intel's profiler of every kernel it makes, and looks for it in some hundred folders first. */
static void forgo_profiler(void) {
  if (!getenv("ONEDNN_JIT_PROFILE") && !getenv("DNNL_JIT_PROFILE"))
    (void)DNNL(set_jit_profiling_flags)(DNNL_JIT_PROFILE_NONE);
}

static void load(void) {
  void *library = dlopen(NAME_OF(DNNL_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  loaded = true;
#define BRAID_DNNL_FIND(name)                                                                                          \
  loaded &= braid_library_find(library, "dnnl_" #name, &braid_dnnl_functions.name, sizeof braid_dnnl_functions.name);
  BRAID_DNNL_FUNCTIONS(BRAID_DNNL_FIND)
#undef BRAID_DNNL_FIND
  if (loaded)
    forgo_profiler();
  else
    dlclose(library);
}

bool braid_dnnl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return loaded;
}
