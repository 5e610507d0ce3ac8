/* Single ops (eager execution): asking whether a machine can run an op, and running it.
 *
 * Ops are those of ONNX's newest opset, or custom ops (braid/custom.h). */
#ifndef BRAID_OP_H
#define BRAID_OP_H

#include "braid/buffer.h"

/* --- queries -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_op_use {
  const char *op;
  const braid_attr *attrs;
  size_t attr_count;
  const braid_operand *inputs; /* PLAIN descriptors; with `constant` for inputs that are the same in every run */
  size_t input_count;
  size_t output_count; /* 0: one */
  const char *device;  /* its name or its index in the machine; NULL: any */
} braid_op_use;

/* A kernel for the op. The strings are valid during the callback. */
typedef struct braid_op_candidate {
  const char *device, *kernel;
  const char *why; /* why the kernel cannot run it; NULL: it can */
} braid_op_candidate;

/* OK: a device can run the op, or nothing is left to run: what follows from shapes and constants alone (Shape, Size) is
 * computed before. UNSUPPORTED: no device can; the detail has the reasons. NOT_FOUND: no such op or device.
 * INVALID_GRAPH, or another status from the op's shape inference: attributes, shapes or types are not valid for the op,
 * or a shape depends on contents that are not given. `candidate` (may be NULL) is called for every kernel of the op on
 * the devices in question, best first for each device; the first one without a reason is the one that would run. The
 * callback may use the machine. `outputs` (may be NULL) receives the descriptors of the outputs. No kernel is prepared.
 * Any thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_supports(braid_machine *machine, const braid_op_use *use,
                                                               void (*candidate)(void *context,
                                                                                 const braid_op_candidate *candidate),
                                                               void *context, braid_desc *outputs);

/* --- calls ---------------------------------------------------------------------------------------------------------
 */
typedef struct braid_op_call {
  const char *op;
  const braid_attr *attrs;
  size_t attr_count;
  braid_buffer *const *inputs; /* of the same machine; NULL: an omitted optional one */
  size_t input_count;
  /* Bit i: the contents of input i (axes, shapes, pads) determine the output shapes or the kernel, so the call is
   * prepared for these contents. The input is in host memory and has at most 64 KiB. */
  uint32_t constants;
  braid_buffer **outputs; /* for NULL entries the call creates buffers, which the caller then owns, on the device */
  size_t output_count;
  const char *device; /* as in braid_op_use */
} braid_op_call;

/* Runs an op and waits for its end; small ones run in the calling thread. The machine caches the 256 most recently used
 * prepared calls, identified by op, attributes, types, shapes, constants and device. Threads that make the same call
 * concurrently use an instance each.
 *
 * Inputs and outputs must not overlap. Errors are those of braid_machine_supports and of runs; it is also an error if a
 * shape depends on an input that is not in `constants`. On failure no output is created. Any thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_call(braid_machine *machine, const braid_op_call *call);

typedef struct braid_call_stats {
  size_t kept;           /* cached calls */
  uint64_t hits, misses; /* calls that were found in the cache, and that were not */
} braid_call_stats;
BRAID_API braid_call_stats braid_machine_call_stats(braid_machine *machine);

#endif
