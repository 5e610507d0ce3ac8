/* Ops of your own: for models that use an op which Braid does not have.
 *
 * A registered op can be used in graphs (braid_graph_add_node) and is found by the ONNX importer; it runs on the CPU.
 * An op of an ONNX domain of its own is registered as "domain.Op". It has no gradient: training through it fails with a
 * sentence that names it. */
#ifndef BRAID_CUSTOM_H
#define BRAID_CUSTOM_H

#include "braid/graph.h"

/* An input or output while the op computes: row-major, host memory. An optional one left out has desc NULL. */
typedef struct braid_custom_array {
  const braid_desc *desc;
  void *data; /* an input's is only to be read */
} braid_custom_array;

typedef struct braid_custom_op {
  const char *name;
  int min_inputs, max_inputs, outputs;
  /* Sets the type and shape of every output (braid_desc_init). All inputs that are present are known; one left out is
   * NULL. Fails with braid_fail and a sentence when the inputs do not fit. */
  braid_status (*infer)(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                        braid_desc *outputs, size_t output_count);
  /* Computes all outputs. Called from the device's thread, or from the one that runs a small model; a device of a
   * machine (braid/machine.h) runs one op at a time. So it must not wait for anything else on that machine; a session
   * with a machine of its own may be run. */
  braid_status (*compute)(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                          const braid_custom_array *outputs, size_t output_count);
} braid_custom_op;

/* Registers in the set of the process, where every graph finds ops that has no set of its own; `op` and its name must
 * stay valid. Register before loading models. INVALID_ARGUMENT if an entry is missing or the name is taken. Any thread.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_custom_op_register(const braid_custom_op *op);

/* --- sets of one's own ---------------------------------------------------------------------------------------------
 * For libraries that share a process with others: two sets may have different ops of one name. */
typedef struct braid_custom_ops braid_custom_ops;

BRAID_API BRAID_MUST_CHECK braid_status braid_custom_ops_create(const braid_allocator *allocator,
                                                                braid_custom_ops **out);
/* Reference counted, by any thread; graphs, and what is made of them, hold references. NULL is allowed in release. */
BRAID_API braid_custom_ops *braid_custom_ops_retain(braid_custom_ops *ops);
BRAID_API void braid_custom_ops_release(braid_custom_ops *ops);
/* As braid_custom_op_register; `op` must stay valid for as long as the set. */
BRAID_API BRAID_MUST_CHECK braid_status braid_custom_ops_add(braid_custom_ops *ops, const braid_custom_op *op);
/* Nodes added from now on find their ops in this set instead of the process's (NULL: in that again). */
BRAID_API void braid_graph_use_custom_ops(braid_graph *graph, braid_custom_ops *ops);

#endif
