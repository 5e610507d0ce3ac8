/* Libraries that are looked for when the program runs. */
#ifndef BRAID_BASE_LIBRARY_H
#define BRAID_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the address of a function of a library that dlopen gave into `out`, a function pointer of `bytes`: C does not
 * convert the object pointer that dlsym returns. False, and NULL: there is none of that name. */
bool braid_library_find(void *library, const char *name, void *out, size_t bytes);

#endif
