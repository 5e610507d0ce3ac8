/* Shared libraries that are loaded at run time. */
#ifndef BRAID_BASE_LIBRARY_H
#define BRAID_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the program is linked statically. It then loads no libraries: one would bring a second C library with it. */
bool braid_library_static(void);
/* Opens a library by its name or path. NULL: `why` says why not, or is "" where the system has not said. */
void *braid_library_open(const char *name, char *why, size_t why_bytes);
/* Looks up a function of an open library, and writes its address to `out`, a function pointer of `bytes` bytes (ISO C
 * does not convert the object pointer that dlsym returns). False, and NULL in `out`: not found. */
bool braid_library_find(void *library, const char *name, void *out, size_t bytes);
/* The same for a table of functions; NULL: all are there, else the name of the first that is not. */
typedef struct braid_library_function {
  const char *name;
  void *out; /* a function pointer */
} braid_library_function;
const char *braid_library_find_all(void *library, const braid_library_function *functions, size_t count);

#endif
