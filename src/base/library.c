#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The linker's name for the dynamic section of what this file is linked into; a static program has none. */
extern const char _DYNAMIC[] __attribute__((weak));

/* Where nobody calls it the linker need not warn that a static program cannot. */
#pragma weak dlopen

bool braid_library_static(void) {
  return _DYNAMIC == NULL;
}

void *braid_library_open(const char *name, char *why, size_t why_bytes) {
  why[0] = '\0';
  if (braid_library_static()) {
    snprintf(why, why_bytes, "this program is linked statically and loads no libraries");
    return NULL;
  }
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *error = library ? NULL : dlerror();
  if (error) snprintf(why, why_bytes, "%s", error);
  return library;
}

bool braid_library_find(void *library, const char *name, void *out, size_t bytes) {
  void *symbol = dlsym(library, name);
  memcpy(out, &symbol, bytes);
  return symbol != NULL;
}

const char *braid_library_find_all(void *library, const braid_library_function *functions, size_t count) {
  const char *missing = NULL;
  for (size_t i = 0; i < count; i++)
    if (!braid_library_find(library, functions[i].name, functions[i].out, sizeof(void (*)(void))) && !missing)
      missing = functions[i].name;
  return missing;
}
