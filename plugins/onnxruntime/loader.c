/* libbraid_onnxruntime.so, the library that is registered: it loads the provider, which is beside it, with libbraid and
 * OpenMP, and passes the two entry points on. It is a file of its own because GNU's OpenMP reads how long its threads
 * spin when it is loaded, which is before any code of a library that is linked with it runs. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../spins.h"
#include "api.h"

typedef OrtStatus *create_function(const char *name, const OrtApiBase *base, const OrtLogger *logger, void **factories,
                                   size_t capacity, size_t *count);
typedef OrtStatus *release_function(void *factory);

BRAID_API create_function CreateEpFactories;
BRAID_API release_function ReleaseEpFactory;

static void *g_provider; /* stays loaded, linked so; the framework calls the entry points under a lock */

/* A function of the provider; NULL: `text` says why there is none. */
static void *provider_function(const char *name, char *text, size_t size) {
  if (!g_provider) /* by this file's own search path */
    g_provider = braid_load_with_short_spins("libbraid_onnxruntime_provider.so");
  void *function = g_provider ? dlsym(g_provider, name) : NULL;
  if (!function) snprintf(text, size, "Braid: the provider cannot be loaded: %s", dlerror());
  return function;
}

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, void **factories,
                             size_t capacity, size_t *count) {
  char text[1024];
  union {
    void *address;
    create_function *call;
  } create = {.address = provider_function("CreateEpFactories", text, sizeof text)};
  *count = 0;
  if (create.address) return create.call(name, base, logger, factories, capacity, count);
  /* CreateStatus has been the first function of the table since its first version. */
  braid_ort_api api;
  memcpy(&api.CreateStatus, ((const braid_ort_base *)base)->GetApi(1), sizeof(void *));
  return api.CreateStatus(BRAID_ORT_FAIL, text);
}

OrtStatus *ReleaseEpFactory(void *factory) {
  char text[1024];
  union {
    void *address;
    release_function *call;
  } release = {.address = provider_function("ReleaseEpFactory", text, sizeof text)};
  return release.address ? release.call(factory) : NULL;
}
