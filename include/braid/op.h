/* Single ops: whether a machine would run one, and running one at once; for frameworks that hand over one op at a time.
 *
 * Ops are ONNX's in the meaning of the newest opset, or "domain.Op" of custom ops (braid/custom.h). */
#ifndef BRAID_OP_H
#define BRAID_OP_H

#include "braid/buffer.h"

/* --- would you run this op? ----------------------------------------------------------------------------------------
 */
typedef struct braid_op_use {
  const char *op;
  const braid_attr *attrs;
  size_t attr_count;
  const braid_operand *inputs; /* PLAIN; with contents where they are the same in every run */
  size_t input_count;
  size_t output_count; /* 0: one */
  const char *device;  /* its name in the machine or its number there; NULL: any */
} braid_op_use;

/* A kernel for the op. Strings live while the call lasts. */
typedef struct braid_op_candidate {
  const char *device, *kernel;
  const char *why; /* it does not take this use; NULL: it does */
} braid_op_candidate;

/* OK: some device runs it. UNSUPPORTED: none does, for the reasons in the sentence. NOT_FOUND: there is no such op or
 * device; INVALID_GRAPH or another failure of the op's rules: it does not take such attributes,
 * shapes or types, or a shape follows from contents that are not given. `candidate` (may be NULL) is called for
 * every kernel of the op on every device in question, each device's best first; the first that takes the op runs it. It
 * may use the machine. `outputs` (may be NULL) gets what the results are. Nothing is prepared. Any thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_supports(braid_machine *machine, const braid_op_use *use,
                                                               void (*candidate)(void *context,
                                                                                 const braid_op_candidate *candidate),
                                                               void *context, braid_desc *outputs);

/* --- run this op ---------------------------------------------------------------------------------------------------
 */
typedef struct braid_op_call {
  const char *op;
  const braid_attr *attrs;
  size_t attr_count;
  braid_buffer *const *inputs; /* of the machine; NULL: an optional one left out */
  size_t input_count;
  /* Bit i: the result's shape, or how it is computed, follows from the contents of input i (axes, shapes, pads). It is
   * of host memory and of 64 KiB at most, and the call is prepared for these contents. */
  uint32_t constants;
  braid_buffer *
      *outputs; /* NULL entries are made by the call, on the device that computes them; they are the caller's */
  size_t output_count;
  const char *device; /* as in braid_op_use */
} braid_op_call;

/* Runs the op and waits for its end; small ones run in the calling thread. What was prepared is kept in the machine for
 * the next call with the same op, attributes, types, shapes and constants: of several threads each takes an instance of
 * its own. The 256 used last are kept.
 *
 * Inputs and outputs must not overlap. Errors as of braid_machine_supports and of runs; a sentence also where a
 * shape follows from an input that `constants` does not name. On failure no output is made. Any thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_call(braid_machine *machine, const braid_op_call *call);

typedef struct braid_call_stats {
  size_t kept;           /* calls that are prepared now */
  uint64_t hits, misses; /* calls so far that were, and were not */
} braid_call_stats;
BRAID_API braid_call_stats braid_machine_call_stats(braid_machine *machine);

#endif
