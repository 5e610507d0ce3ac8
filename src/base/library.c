#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

bool braid_library_find(void *library, const char *name, void *out, size_t bytes) {
  void *symbol = dlsym(library, name);
  memcpy(out, &symbol, bytes);
  return symbol != NULL;
}
