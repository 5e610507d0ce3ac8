/* Custom ops: for models with ops that Braid does not have.
 *
 * A custom op can be used in graphs (braid_graph_add_node) and in ONNX models; it runs on the CPU. An op of another
 * ONNX domain is named "domain.Op". Custom ops have no gradient: braid_graph_gradients fails with UNSUPPORTED where the
 * loss depends on a parameter through one. Their nodes take attributes of any name and type: `infer` refuses what it
 * does not know. */
#ifndef BRAID_CUSTOM_H
#define BRAID_CUSTOM_H

#include "braid/graph.h"

/* An input or output of `compute`: row-major, in host memory. desc is NULL for an omitted optional one. */
typedef struct braid_custom_array {
  const braid_desc *desc;
  void *data; /* read-only for inputs */
} braid_custom_array;

typedef struct braid_custom_op {
  const char *name;
  int min_inputs, max_inputs, outputs;
  /* Sets the type and shape of every output with braid_desc_init. `inputs` have known shapes; NULL for an omitted
   * optional one. Returns braid_fail(...) if the inputs are not valid for the op. */
  braid_status (*infer)(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                        braid_desc *outputs, size_t output_count);
  /* Computes all outputs. Called by a queue's thread, by the caller's thread for small models, and by whoever makes a
   * plan, where the inputs are constants: several threads may call it at once. It must not wait for other work of its
   * machine (braid/machine.h), which could not start; running a session that has a machine of its own is allowed. */
  braid_status (*compute)(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                          const braid_custom_array *outputs, size_t output_count);
} braid_custom_op;

/* Registers an op for the whole process, for all graphs without a set of their own. `op` and its name are not copied
 * and must stay valid. Register before loading models. INVALID_ARGUMENT if an entry is missing or the name is taken.
 * Any thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_custom_op_register(const braid_custom_op *op);

/* --- sets of custom ops --------------------------------------------------------------------------------------------
 * For libraries that share a process with others: ops of different sets may have the same name. */
typedef struct braid_custom_ops braid_custom_ops;

BRAID_API BRAID_MUST_CHECK braid_status braid_custom_ops_create(const braid_allocator *allocator,
                                                                braid_custom_ops **out);
/* Reference counted, any thread. Graphs, and plans and sessions made from them, hold references. release(NULL) is
 * allowed. */
BRAID_API braid_custom_ops *braid_custom_ops_retain(braid_custom_ops *ops);
BRAID_API void braid_custom_ops_release(braid_custom_ops *ops);
/* As braid_custom_op_register, for this set; `op` must outlive the set. */
BRAID_API BRAID_MUST_CHECK braid_status braid_custom_ops_add(braid_custom_ops *ops, const braid_custom_op *op);
/* Nodes that are added from now on use the ops of this set instead of those registered for the process (NULL: the
 * latter). */
BRAID_API void braid_graph_use_custom_ops(braid_graph *graph, braid_custom_ops *ops);

#endif
