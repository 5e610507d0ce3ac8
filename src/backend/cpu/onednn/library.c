#include "backend/cpu/onednn/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/onednn/describe.h"
#include "base/library.h"

enum { kLatestMajor = 9 }; /* of those looked for when ours is not there, to say what is */

braid_dnnl_api braid_dnnl_functions;
static bool loaded;
static char description[256]; /* of what was loaded, or of why nothing was */

/* oneDNN tells Intel's profiler of every kernel it makes, and looks for it in some hundred folders first. */
static void forgo_profiler(void) {
  if (!getenv("ONEDNN_JIT_PROFILE") && !getenv("DNNL_JIT_PROFILE"))
    (void)DNNL(set_jit_profiling_flags)(DNNL_JIT_PROFILE_NONE);
}

static void *open_major(int major, char *why, size_t why_bytes) {
  char name[32];
  snprintf(name, sizeof name, "libdnnl.so.%d", major);
  return braid_library_open(name, why, why_bytes);
}

/* 0: none. */
static int find_other_major(void) {
  char why[160];
  for (int major = 1; major <= kLatestMajor; major++) {
    void *library = major == DNNL_VERSION_MAJOR ? NULL : open_major(major, why, sizeof why);
    if (!library) continue;
    dlclose(library);
    return major;
  }
  return 0;
}

static void explain(const char *why) {
  if (braid_library_static()) {
    snprintf(description, sizeof description,
             "%.100s, oneDNN among them: convolutions and matrix products are about ten times slower", why);
    return;
  }
  int other = find_other_major();
  char beside[64] = "";
  if (other) snprintf(beside, sizeof beside, " (there is libdnnl.so.%d, another interface)", other);
  snprintf(description, sizeof description,
           "no oneDNN %d (Debian: libdnnl%d), so convolutions and matrix products are about ten times slower: %.100s%s",
           DNNL_VERSION_MAJOR, DNNL_VERSION_MAJOR, why, beside);
}

/* NULL, or the name of a function that is not there. */
static const char *find_functions(void *library) {
#define BRAID_DNNL_FIND(name)                                                                                          \
  if (!braid_library_find(library, "dnnl_" #name, &braid_dnnl_functions.name, sizeof braid_dnnl_functions.name))       \
    return "dnnl_" #name;
  BRAID_DNNL_FUNCTIONS(BRAID_DNNL_FIND)
#undef BRAID_DNNL_FIND
  return NULL;
}

/* Is the library of this name the one we were built for? If not, `why` says so. */
static bool fits(void *library, char *why, size_t why_bytes) {
  const char *missing = find_functions(library);
  if (missing) {
    snprintf(why, why_bytes, "libdnnl.so.%d lacks %s", DNNL_VERSION_MAJOR, missing);
    return false;
  }
  const dnnl_version_t *version = DNNL(version)();
  snprintf(why, why_bytes, "libdnnl.so.%d says that it is version %d.%d.%d", DNNL_VERSION_MAJOR, version->major,
           version->minor, version->patch);
  return version->major == DNNL_VERSION_MAJOR;
}

static void load(void) {
  char why[160];
  void *library = open_major(DNNL_VERSION_MAJOR, why, sizeof why);
  if (!library && !why[0]) snprintf(why, sizeof why, "it cannot be loaded");
  loaded = library && fits(library, why, sizeof why);
  if (loaded) {
    const dnnl_version_t *version = DNNL(version)();
    snprintf(description, sizeof description, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    forgo_profiler();
    return;
  }
  if (library) dlclose(library);
  braid_dnnl_functions = (braid_dnnl_api){0};
  explain(why);
}

bool braid_dnnl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return loaded;
}

static const char *library_describe(void) {
  return description;
}

const braid_cpu_library braid_dnnl_library = {braid_dnnl_load, library_describe, braid_descriptions_enter,
                                              braid_descriptions_leave};
