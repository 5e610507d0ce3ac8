/* libbraid_onnxruntime.so, the library that is registered: it loads the provider, which is beside it, with libbraid and
 * OpenMP, and passes the two entry points on. It is a file of its own because GNU's OpenMP reads how long its threads
 * spin when it is loaded, which is before any code of a library that is linked with it runs. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

typedef OrtStatus *create_function(const char *name, const OrtApiBase *base, const OrtLogger *logger, void **factories,
                                   size_t capacity, size_t *count);
typedef OrtStatus *release_function(void *factory);

BRAID_API create_function CreateEpFactories;
BRAID_API release_function ReleaseEpFactory;

static void *g_provider; /* stays loaded, linked so; the framework calls the entry points under a lock */

static bool openmp_is_loaded(void) {
  void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

/* Threads that wait for others spin about 15 ms before they sleep, which makes small networks many times slower where
 * other programs use the CPUs, too. Half a millisecond bridges the gaps between kernels, as in the braid command. The
 * variable is there while the libraries are loaded, and not afterwards. What the user has set counts. */
static bool spins_shorten(void) {
  if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") || openmp_is_loaded()) return false;
  return setenv("GOMP_SPINCOUNT", "10000", 0) == 0;
}

/* A function of the provider; NULL: `text` says why there is none. */
static void *provider_function(const char *name, char *text, size_t size) {
  if (!g_provider) {
    bool shortened = spins_shorten();
    g_provider = dlopen("libbraid_onnxruntime_provider.so", RTLD_NOW | RTLD_LOCAL); /* by this file's own search path */
    if (shortened) (void)unsetenv("GOMP_SPINCOUNT");
  }
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
