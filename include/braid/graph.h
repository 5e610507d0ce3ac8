/* Graphs: a model as a directed acyclic graph of nodes (an op applied to values) over values (tensors).
 *
 * A graph is built by an importer (model.h) or with the functions here, resolved once (shapes fixed, constants
 * folded: braid_resolve in session.h), optionally extended with gradients, and handed to a session. It is not
 * guarded: one thread at a time. Values and nodes are named by index; indices stay valid until the graph is compacted
 * by a pass, which only resolve, gradients and session creation (on its own copy) do: what no output needs is dropped,
 * the rest is numbered anew, and is found again by its name (braid_graph_find_value). */
#ifndef BRAID_GRAPH_H
#define BRAID_GRAPH_H

#include "braid/tensor.h"

typedef struct braid_graph braid_graph;
typedef int32_t braid_value_id; /* -1: absent */
typedef int32_t braid_node_id;

/* Attributes of a node: a list of named, typed values, as in ONNX. */
typedef struct braid_attrs braid_attrs;
BRAID_API bool braid_attr_has(const braid_attrs *attrs, const char *name);
/* The value of an attribute, or `otherwise` when it is absent or of another type. */
BRAID_API int64_t braid_attr_int(const braid_attrs *attrs, const char *name, int64_t otherwise);
BRAID_API double braid_attr_float(const braid_attrs *attrs, const char *name, double otherwise);
BRAID_API const char *braid_attr_string(const braid_attrs *attrs, const char *name, const char *otherwise);
/* NULL and *count = 0 when absent; else owned by the node. */
BRAID_API const int64_t *braid_attr_ints(const braid_attrs *attrs, const char *name, size_t *count);
BRAID_API const float *braid_attr_floats(const braid_attrs *attrs, const char *name, size_t *count);
BRAID_API const char *const *braid_attr_strings(const braid_attrs *attrs, const char *name, size_t *count);
BRAID_API braid_tensor *braid_attr_tensor(const braid_attrs *attrs, const char *name);

typedef enum braid_attr_kind {
  BRAID_ATTR_INT,
  BRAID_ATTR_FLOAT,
  BRAID_ATTR_STRING,
  BRAID_ATTR_INTS,
  BRAID_ATTR_FLOATS,
  BRAID_ATTR_STRINGS,
  BRAID_ATTR_TENSOR,
} braid_attr_kind;

/* One attribute: what braid/op.h takes lists of. */
typedef struct braid_attr {
  const char *name;
  braid_attr_kind kind;
  size_t count; /* of ints, floats, strings */
  union {
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    braid_tensor *tensor;
  };
} braid_attr;

typedef enum braid_value_kind {
  BRAID_VALUE_RESULT,    /* computed by a node */
  BRAID_VALUE_INPUT,     /* given by the caller at every run */
  BRAID_VALUE_CONSTANT,  /* fixed; holds a tensor */
  BRAID_VALUE_PARAMETER, /* trainable; holds its initial tensor, lives in the session from step to step */
  BRAID_VALUE_STATE,     /* kept from step to step but not trained by gradient: running statistics, momenta */
} braid_value_kind;

/* What a caller sees of a value and a node. Pointers are owned by the graph. */
typedef struct braid_value_info {
  const char *name;
  braid_value_kind kind;
  braid_desc desc;            /* dtype BRAID_NONE or rank -1 while unknown */
  const braid_tensor *tensor; /* of constants, parameters and states; else NULL */
  braid_node_id producer;     /* -1 unless RESULT */
  const char *fixed;          /* after make_trainable, of floating-point constants: why they do not train; else NULL */
} braid_value_info;

typedef struct braid_node_info {
  const char *name;
  const char *op;
  const braid_attrs *attrs;
  size_t input_count, output_count;
  const braid_value_id *inputs, *outputs; /* -1: an optional one left out */
} braid_node_info;

BRAID_API BRAID_MUST_CHECK braid_status braid_graph_create(const braid_allocator *allocator, const char *name,
                                                           braid_graph **out);
BRAID_API void braid_graph_destroy(braid_graph *graph); /* NULL is allowed */
/* A deep copy of the structure; tensors are shared (retained). */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_clone(const braid_graph *graph, braid_graph **out);

BRAID_API const char *braid_graph_name(const braid_graph *graph);
BRAID_API size_t braid_graph_value_count(const braid_graph *graph);
BRAID_API size_t braid_graph_node_count(const braid_graph *graph); /* nodes stand in a topological order */
BRAID_API braid_value_info braid_graph_value(const braid_graph *graph, braid_value_id value);
BRAID_API braid_node_info braid_graph_node(const braid_graph *graph, braid_node_id node);
BRAID_API size_t braid_graph_input_count(const braid_graph *graph);
BRAID_API size_t braid_graph_output_count(const braid_graph *graph);
BRAID_API braid_value_id braid_graph_input(const braid_graph *graph, size_t index);
BRAID_API braid_value_id braid_graph_output(const braid_graph *graph, size_t index);
BRAID_API braid_value_id braid_graph_find_value(const braid_graph *graph, const char *name); /* -1: none */
/* Multiply-accumulates of one node (0 for nodes that only move data); shapes must be resolved. */
BRAID_API int64_t braid_graph_node_macs(const braid_graph *graph, braid_node_id node);

/* --- building ---
 * Names are copied; a NULL or empty name gets a unique one. Every function gives the new value or node in *out.
 * Values are PLAIN: INVALID_ARGUMENT for a description or tensor in another layout. Layouts are chosen by plans. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_input(braid_graph *graph, const char *name,
                                                              const braid_desc *desc, braid_value_id *out);
/* kind: CONSTANT, PARAMETER or STATE. The tensor is retained. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_tensor(braid_graph *graph, const char *name,
                                                               braid_value_kind kind, braid_tensor *tensor,
                                                               braid_value_id *out);
/* Adds a node with `output_count` new RESULT values, written to outputs[]; optional entries that the caller has set to
 * -1 beforehand are left out. The op must be in the op table, else NOT_FOUND; input and output counts are checked
 * against it. Shapes are inferred at once where they can be, again whenever an attribute is set, and for good by
 * resolve. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_node(braid_graph *graph, const char *op, const char *name,
                                                             const braid_value_id *inputs, size_t input_count,
                                                             braid_value_id *outputs, size_t output_count,
                                                             braid_node_id *out);
/* Names are unique: INVALID_GRAPH if another value has it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_rename_value(braid_graph *graph, braid_value_id value,
                                                                 const char *name);
/* INVALID_GRAPH: the op is one of ONNX's and has the attribute of another kind in the newest opset. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_int(braid_graph *graph, braid_node_id node, const char *name,
                                                            int64_t value);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_float(braid_graph *graph, braid_node_id node, const char *name,
                                                              double value);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_string(braid_graph *graph, braid_node_id node, const char *name,
                                                               const char *value);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_ints(braid_graph *graph, braid_node_id node, const char *name,
                                                             const int64_t *values, size_t count);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_floats(braid_graph *graph, braid_node_id node, const char *name,
                                                               const float *values, size_t count);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_strings(braid_graph *graph, braid_node_id node,
                                                                const char *name, const char *const *values,
                                                                size_t count);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_tensor(braid_graph *graph, braid_node_id node, const char *name,
                                                               braid_tensor *tensor);
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_output(braid_graph *graph, braid_value_id value);
/* Fixes the shape of an input that the model left open (or overrides the one it declares). After braid_resolve too: the
 * graph then takes back what resolving folded when it is resolved again, given to a session or plan, or made trainable,
 * and cannot be changed or saved before. INVALID_ARGUMENT if it was changed in another way since it was resolved. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_input_shape(braid_graph *graph, braid_value_id input, int rank,
                                                                    const int64_t *dims);
/* Makes an input a CONSTANT: for inputs that shapes follow from (the target of a Reshape). The tensor is retained; its
 * type must be the input's. The input is no longer among the graph's inputs. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_bind_input(braid_graph *graph, braid_value_id input,
                                                               braid_tensor *tensor);
/* Makes a forward graph trainable: every floating-point CONSTANT that looks like a parameter of the exported model
 * becomes a PARAMETER (docs/training.md gives the rule; `fixed` says of each other one why not), and parameters that
 * the file stores once because they start equal become several; BatchNormalization goes into training mode with its
 * running statistics as STATEs; Dropout goes into training mode. Call it before resolving, so that parameters are not
 * folded. INVALID_GRAPH if nothing is trainable. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_make_trainable(braid_graph *graph);

/* Builds the backward nodes of the scalar (one-element) value `loss`: for each value in `wrt` the id of its gradient
 * goes to grads[] (-1 where the loss does not depend on it). UNSUPPORTED names the node whose op has no gradient. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_gradients(braid_graph *graph, braid_value_id loss,
                                                              const braid_value_id *wrt, size_t count,
                                                              braid_value_id *grads);
/* After each run the session copies nothing: `next` is computed into the storage of `state` (a PARAMETER or STATE), as
 * the last use of the old value. Shapes and types must agree. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_update_state(braid_graph *graph, braid_value_id state,
                                                                 braid_value_id next);

#endif
