/* A library that passes for oneDNN by its name. It has all of its functions and says that it is version 9;
 * WITHOUT_FUNCTIONS: it has none but the one that tells the version. */
#include "backend/cpu/onednn/library.h"

#define VISIBLE __attribute__((visibility("default")))

static const dnnl_version_t kVersion = {.major = 9};

/* One definition for all: they are called dnnl_NAME, whatever oneDNN's header declares of that name. */
#define STUB(name)                                                                                                     \
  VISIBLE const dnnl_version_t *stub_##name(void) __asm__("dnnl_" #name);                                              \
  const dnnl_version_t *stub_##name(void) {                                                                            \
    return &kVersion;                                                                                                  \
  }

#ifdef WITHOUT_FUNCTIONS
STUB(version)
#else
BRAID_DNNL_FUNCTIONS(STUB)
#endif
