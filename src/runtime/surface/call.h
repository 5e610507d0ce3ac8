/* Calls of single ops: what was prepared for them, kept in the machine. */
#ifndef BRAID_RUNTIME_CALL_H
#define BRAID_RUNTIME_CALL_H

#include "braid/op.h"

typedef struct braid_calls braid_calls;
BRAID_MUST_CHECK braid_status braid_calls_create(const braid_allocator *allocator, braid_calls **out);
/* The machine that holds them is going. */
void braid_calls_destroy(braid_calls *calls); /* NULL is allowed */

#endif
