/* Graphs: a model as a directed acyclic graph. A node applies an op to values; a value is a tensor.
 *
 * A graph is imported (model.h) or built with the functions here, resolved (shapes inferred, constants folded:
 * braid_resolve in session.h), optionally extended with gradients, and given to a session or plan. A graph is used by
 * one thread at a time. Values and nodes are identified by index. Indices are invalidated by braid_resolve and
 * braid_graph_gradients, which remove nodes that no output depends on and renumber the rest; after them values are
 * found by name (braid_graph_find_value). Sessions and plans work on a copy. */
#ifndef BRAID_GRAPH_H
#define BRAID_GRAPH_H

#include "braid/tensor.h"

typedef struct braid_graph braid_graph;
typedef int32_t braid_value_id; /* -1: absent */
typedef int32_t braid_node_id;

/* Attributes of a node: a list of named, typed values, as in ONNX. */
typedef struct braid_attrs braid_attrs;
BRAID_API bool braid_attr_has(const braid_attrs *attrs, const char *name);
/* The value of an attribute, or `otherwise` if it is absent or of another type. Returned pointers are owned by the
 * node. */
BRAID_API int64_t braid_attr_int(const braid_attrs *attrs, const char *name, int64_t otherwise);
BRAID_API double braid_attr_float(const braid_attrs *attrs, const char *name, double otherwise);
BRAID_API const char *braid_attr_string(const braid_attrs *attrs, const char *name, const char *otherwise);
/* NULL and *count = 0 if absent; else owned by the node. */
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

/* One attribute, for braid/op.h. */
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
  BRAID_VALUE_PARAMETER, /* trainable; holds its initial tensor, kept by the session from step to step */
  BRAID_VALUE_STATE,     /* kept from step to step, not trained: running statistics, momenta */
} braid_value_kind;

/* Properties of a value and of a node. Pointers are owned by the graph. */
typedef struct braid_value_info {
  const char *name;
  braid_value_kind kind;
  braid_desc desc;            /* dtype BRAID_NONE or rank -1 while unknown */
  const braid_tensor *tensor; /* of constants, parameters and states; else NULL */
  braid_node_id producer;     /* -1 unless RESULT */
  const char
      *fixed; /* after braid_graph_make_trainable, of floating-point constants: why they are not trained; else NULL */
} braid_value_info;

typedef struct braid_node_info {
  const char *name;
  const char *op;
  const braid_attrs *attrs;
  size_t input_count, output_count;
  const braid_value_id *inputs, *outputs; /* -1: an omitted optional one */
} braid_node_info;

BRAID_API BRAID_MUST_CHECK braid_status braid_graph_create(const braid_allocator *allocator, const char *name,
                                                           braid_graph **out);
BRAID_API void braid_graph_destroy(braid_graph *graph); /* NULL is allowed */
/* Copies the structure; tensors are shared (retained). */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_clone(const braid_graph *graph, braid_graph **out);

BRAID_API const char *braid_graph_name(const braid_graph *graph);
BRAID_API size_t braid_graph_value_count(const braid_graph *graph);
BRAID_API size_t braid_graph_node_count(const braid_graph *graph); /* nodes are in topological order */
BRAID_API braid_value_info braid_graph_value(const braid_graph *graph, braid_value_id value);
BRAID_API braid_node_info braid_graph_node(const braid_graph *graph, braid_node_id node);
BRAID_API size_t braid_graph_input_count(const braid_graph *graph);
BRAID_API size_t braid_graph_output_count(const braid_graph *graph);
BRAID_API braid_value_id braid_graph_input(const braid_graph *graph, size_t index);
BRAID_API braid_value_id braid_graph_output(const braid_graph *graph, size_t index);
BRAID_API braid_value_id braid_graph_find_value(const braid_graph *graph, const char *name); /* -1: none */
/* Multiply-accumulate operations of one node: 0 if it only moves data, or a dimension is not known (not resolved). */
BRAID_API int64_t braid_graph_node_macs(const braid_graph *graph, braid_node_id node);

/* --- building ---
 * Names are copied; for a NULL or empty name a unique one is made. *out is the new value or node. Values are PLAIN:
 * INVALID_ARGUMENT for a descriptor or tensor in another layout; plans choose layouts. A dimension of an input that is
 * to be dynamic (the batch) is -1: set it after braid_desc_init. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_input(braid_graph *graph, const char *name,
                                                              const braid_desc *desc, braid_value_id *out);
/* kind: CONSTANT, PARAMETER or STATE. The tensor is retained. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_tensor(braid_graph *graph, const char *name,
                                                               braid_value_kind kind, braid_tensor *tensor,
                                                               braid_value_id *out);
/* Adds a node with `output_count` new RESULT values, written to outputs[]; optional outputs that the caller has set to
 * -1 beforehand are omitted. NOT_FOUND if the op is unknown (docs/ops.md lists them); INVALID_GRAPH if it does not take
 * these numbers of inputs and outputs. Types and shapes are inferred where they are known already, again whenever an
 * attribute is set, and finally by braid_resolve. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_add_node(braid_graph *graph, const char *op, const char *name,
                                                             const braid_value_id *inputs, size_t input_count,
                                                             braid_value_id *outputs, size_t output_count,
                                                             braid_node_id *out);
/* INVALID_GRAPH if another value has the name. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_rename_value(braid_graph *graph, braid_value_id value,
                                                                 const char *name);
/* Set an attribute. INVALID_GRAPH: the op has no attribute of this name (the sentence lists those that it has), or has
 * it with another type. Ops have ONNX's attributes of the newest opset, some a few more (MatMul transA, transB and
 * alpha; SoftmaxCrossEntropyLoss label_smoothing); custom ops take any. Names that begin with two underscores are
 * a tool's annotations and allowed everywhere. A node has at most 1,000 attributes: INVALID_ARGUMENT. */
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
/* Sets the shape of an input: of its dynamic dimensions, or in place of the declared shape. Also allowed on a resolved
 * graph: the graph as it was before braid_resolve is then restored with the new shape when it is next resolved, given
 * to a session or plan, or made trainable; until then it can be neither changed nor saved. INVALID_ARGUMENT if the
 * graph was changed in another way since it was resolved. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_input_shape(braid_graph *graph, braid_value_id input, int rank,
                                                                    const int64_t *dims);
/* Turns an input into a CONSTANT, for inputs whose contents determine shapes (the `shape` input of Reshape). The tensor
 * is retained and must have the input's type. The value is then no longer an input of the graph. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_bind_input(braid_graph *graph, braid_value_id input,
                                                               braid_tensor *tensor);
/* Makes a forward graph trainable. Every floating-point CONSTANT that is recognized as a parameter of the exported
 * model becomes a PARAMETER (docs/training.md has the rules; braid_value_info.fixed gives the reason for every other
 * one); in a graph that has PARAMETERs already, because a program built it so, these are the ones. Parameters that the
 * exporter stored as one tensor because their initial contents are equal are separated. BatchNormalization is set to
 * training mode with its running statistics as STATEs; Dropout is set to training mode. Call it before braid_resolve,
 * which would fold parameters. INVALID_GRAPH if nothing is trainable. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_make_trainable(braid_graph *graph);

/* In what a graph computes. With BRAID_BFLOAT16 and BRAID_FLOAT16 products (Conv, ConvTranspose, Gemm, MatMul) and what
 * passes their results on are of that type, with sums in float32; losses, Softmax, reductions and normalizations but
 * BatchNormalization are float32, as are parameters, statistics, the graph's inputs and its outputs (docs/training.md
 * has the list). With BRAID_TF32 devices that can may round the operands of products to 10 bits of fraction. BRAID_INT8
 * is of training alone (braid/train.h). */
typedef enum braid_precision { BRAID_FLOAT32, BRAID_INT8, BRAID_TF32, BRAID_BFLOAT16, BRAID_FLOAT16 } braid_precision;
BRAID_API const char *braid_precision_name(braid_precision precision); /* "float32", "int8", "tf32", "bf16", "fp16" */
/* The precision in which sessions and plans made from the graph compute, and gradients that are added to it from now
 * on; the graph itself, its names and its types stay. Values that are not float32 are left alone. INVALID_ARGUMENT for
 * BRAID_INT8. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_set_precision(braid_graph *graph, braid_precision precision);
/* What was set; BRAID_FLOAT32 once gradients have been added: the graph then holds 16-bit values and casts. */
BRAID_API braid_precision braid_graph_precision(const braid_graph *graph);

/* Adds the nodes that compute the gradients of `loss`, a value of one element, with respect to the `count` values `wrt`
 * (reverse-mode differentiation). grads[i] is the gradient of wrt[i], -1 if the loss does not depend on it. UNSUPPORTED
 * names a node whose op has no gradient. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_gradients(braid_graph *graph, braid_value_id loss,
                                                              const braid_value_id *wrt, size_t count,
                                                              braid_value_id *grads);
/* Declares that `next` is the new value of `state` (a PARAMETER or STATE) after each run. `next` is computed in place,
 * into the memory of `state`, after all other nodes have read the old value. Shapes and types must be equal. */
BRAID_API BRAID_MUST_CHECK braid_status braid_graph_update_state(braid_graph *graph, braid_value_id state,
                                                                 braid_value_id next);

#endif
