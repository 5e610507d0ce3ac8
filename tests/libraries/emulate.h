/* Kernel text as a program of the host (emulate.hh): compiled by c++ when a function is asked for, and kept. */
#ifndef BRAID_TESTS_EMULATE_H
#define BRAID_TESTS_EMULATE_H

#include <stdint.h>

typedef struct emulated_function emulated_function;

/* NULL: it does not compile; the compiler has said why on standard error. */
emulated_function *emulate_find(const char *text, const char *name);
int emulate_arguments(const emulated_function *function); /* how many */
/* The values of arguments, 8 bytes of each, to be freed; NULL: out of memory. */
uint64_t *emulate_copy(const emulated_function *function, void *const *arguments);
void emulate_launch(const emulated_function *function, const unsigned grid[3], unsigned block, void **arguments);

#endif
