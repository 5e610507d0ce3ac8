/* Loading OpenMP so that its threads wait for a short time. GNU's OpenMP reads how long they spin when it is loaded,
 * and has nothing to say it with afterwards. */
#ifndef BRAID_PLUGINS_SPINS_H
#define BRAID_PLUGINS_SPINS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

static inline bool braid_openmp_is_loaded(void) {
  void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

/* Loads a library that is OpenMP, or needs it. Threads that wait for others spin about 15 ms before they sleep, which
 * makes small networks many times slower where other programs use the CPUs, too. Half a millisecond bridges the gaps
 * between kernels, as in the braid command. The variable is there while the library is loaded, and not afterwards. What
 * the user has set counts. */
static inline void *braid_load_with_short_spins(const char *file) {
  bool shorten = !getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY") && !braid_openmp_is_loaded() &&
                 setenv("GOMP_SPINCOUNT", "10000", 0) == 0;
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (shorten) (void)unsetenv("GOMP_SPINCOUNT");
  return library;
}

#endif
