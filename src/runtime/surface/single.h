/* A graph of one op, for questions about it and for calls. */
#ifndef BRAID_RUNTIME_SINGLE_H
#define BRAID_RUNTIME_SINGLE_H

#include "braid/op.h"
#include "runtime/machine.h"

/* Inputs with contents are constants, the others the graph's inputs, in their order. *out is resolved as far as the one
 * node goes: outputs have types and shapes. */
BRAID_MUST_CHECK braid_status braid_single_graph(const braid_allocator *allocator, const braid_op_use *use,
                                                 braid_graph **out);
/* INVALID_ARGUMENT: an attribute that cannot be looked at. */
BRAID_MUST_CHECK braid_status braid_single_check(const char *op, const braid_attr *attrs, size_t count);
/* The device that is asked for; *out is -1 for any. */
BRAID_MUST_CHECK braid_status braid_single_device(const braid_machine *machine, const char *name, int *out);

#endif
