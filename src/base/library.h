/* Shared libraries that are loaded at run time. */
#ifndef BRAID_BASE_LIBRARY_H
#define BRAID_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Looks up a function of a library opened with dlopen, and writes its address to `out`, a function pointer of `bytes`
 * bytes (ISO C does not convert the object pointer that dlsym returns). False, and NULL in `out`: not found. */
bool braid_library_find(void *library, const char *name, void *out, size_t bytes);

#endif
