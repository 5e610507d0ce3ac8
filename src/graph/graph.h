/* The graph as the library's own rooms see it: its structure, the ops table, shape inference, passes.
 *
 * Memory: a graph owns one arena for names, attributes and index lists, freed as a whole; tensors are reference
 * counted. Nothing here knows a device: what must be computed while folding is asked of an evaluator. */
#ifndef BRAID_GRAPH_GRAPH_H
#define BRAID_GRAPH_GRAPH_H

#include "braid/graph.h"

/* Of tensors one reference is held. */
struct braid_attrs {
  braid_attr *items;
  size_t count, capacity;
};

/* What the file says of a constant. */
typedef enum braid_origin {
  BRAID_ORIGIN_UNKNOWN,
  BRAID_ORIGIN_PARAMETER, /* of a module */
  BRAID_ORIGIN_BUFFER,    /* kept by a module, but no parameter */
  BRAID_ORIGIN_LITERAL,   /* a Constant node, or computed from such alone */
  BRAID_ORIGIN_TRAINED,   /* a parameter of the training that wrote the file */
  BRAID_ORIGIN_FIXED,     /* that training left it as it was, or it is a running statistic */
} braid_origin;

typedef struct braid_value {
  const char *name;
  braid_value_kind kind;
  braid_desc desc;
  braid_tensor *tensor;   /* CONSTANT, PARAMETER, STATE; also a RESULT that folding has computed, until it is made a
                             CONSTANT */
  braid_node_id producer; /* RESULT */
  braid_value_id next;    /* PARAMETER, STATE: what it becomes after a run; -1: stays */
  braid_origin origin;    /* CONSTANT */
  const char *symbol;     /* CONSTANT: what the exported program calls it; NULL: not known */
  struct braid_lineage *lineage; /* CONSTANT, or folded RESULT (reads.c); NULL: nobody may have read it */
  braid_value_id quantized[3];   /* CONSTANT that a DequantizeLinear was folded into: its inputs; -1: none */
  int32_t quantized_axis;        /* of the scales, if there are several */
  const char *fixed;             /* after make_trainable, floating-point CONSTANT: why it does not train; a literal */
} braid_value;

/* A name of a node that another has taken in. */
typedef struct braid_alias {
  const char *name;
  struct braid_alias *next;
} braid_alias;

struct braid_op;
typedef struct braid_node {
  const char *name;
  const struct braid_op *op;
  braid_attrs attrs;
  size_t input_count, output_count;
  braid_value_id *inputs, *outputs; /* -1: left out */
  bool backward;                    /* built by braid_graph_gradients or for an optimizer */
  braid_alias *absorbed;            /* names of the nodes that were fused into it */
  const char *module;               /* the module of the exported program that it belongs to; NULL: not known */
  const char *call;                 /* the parameters that its call there takes, " p_a p_b "; NULL: not known */
  int32_t tag;                      /* 0; for a pass that must know its nodes again after a sort or a compaction */
} braid_node;

struct braid_graph {
  const braid_allocator *allocator;
  struct braid_arena *arena;
  const char *name;
  braid_value *values;
  braid_node *nodes; /* topological order */
  braid_value_id *inputs, *outputs;
  size_t value_count, value_capacity, node_count, node_capacity;
  size_t input_count, input_capacity, output_count, output_capacity;
  struct braid_name_map *names;        /* value name -> id */
  uint64_t unique;                     /* for generated names */
  struct braid_custom_ops *custom_ops; /* that new nodes' ops are found in; a reference; NULL: the process's */
  struct braid_custom_ops **op_sets;   /* that ops of the nodes are of; references */
  size_t op_set_count, op_set_capacity;
  double auxiliary_share;              /* what each output after the first counts in the loss of training; 0: nothing */
  braid_precision precision;           /* that plans and gradients are to have; applied by precision.c */
  bool resolved;                       /* shapes are fixed and folded */
  bool reshaped;                       /* an input has another shape since */
  struct braid_lineage *lineages;      /* newest first; in the arena */
  struct braid_unresolved *unresolved; /* what was resolved; NULL: it was not, or the graph was changed since */
};

/* --- ops table ------------------------------------------------------------------------------------------------------
 * One entry per op. Ops carry the meaning of the newest ONNX opset we read; the importer rewrites older forms. */
typedef struct braid_infer {
  braid_graph *graph;
  braid_node *node;
} braid_infer;

typedef struct braid_gradient_context braid_gradient_context; /* gradient.h */

enum {
  BRAID_OP_VIEW = 1,        /* output 0 is input 0 in another shape: no data moves if PLAIN (Reshape, Identity ...) */
  BRAID_OP_RANDOM = 2,      /* never folded */
  BRAID_OP_ELEMENTWISE = 4, /* output element i depends on element i of same-shaped inputs; any common layout will do */
  BRAID_OP_FUNCTION = 8,    /* of other ops: inference puts their nodes in its place (body.h), with their gradients */
  BRAID_OP_COLLECTIVE = 32, /* waits for other processes: never folded, on a queue of its own */
  BRAID_OP_NARROW = 16      /* operands may be of narrow types (braid_dtype_is_narrow); of other ops none may */
};

enum { BRAID_MAX_ATTRIBUTES = 1000 }; /* of a node: they are looked for one after the other */

typedef struct braid_op {
  const char *name;
  int16_t min_inputs, max_inputs; /* -1: no limit */
  int16_t min_outputs, max_outputs;
  uint32_t flags;
  /* Sets the outputs' descriptions (braid_infer_output) from the inputs'; all present inputs' types and shapes are
   * known. Fails with INVALID_GRAPH and a sentence when the node breaks the op's rules. */
  braid_status (*infer)(const braid_infer *infer);
  /* Multiply-accumulates; NULL: 0. */
  int64_t (*macs)(const braid_graph *graph, const braid_node *node);
  /* Adds the backward nodes; NULL: not differentiable (an error if a gradient is asked through it). */
  braid_status (*gradient)(braid_gradient_context *context);
} braid_op;

const braid_op *braid_op_find_built_in(const char *name); /* NULL: not in the ops table */
const braid_op *braid_op_find(const char *name);          /* there, else among those registered for the process */
const braid_op *braid_graph_find_op(const braid_graph *graph, const char *name); /* there, else in the graph's set */
/* The same for a node that is added: the graph keeps the set that the op is of. *out NULL: there is none. */
BRAID_MUST_CHECK braid_status braid_graph_take_op(braid_graph *graph, const char *name, const braid_op **out);
/* The sets of another graph's ops are the graph's as well. */
BRAID_MUST_CHECK braid_status braid_graph_share_ops(braid_graph *graph, const braid_graph *with);
size_t braid_op_count(void);
const braid_op *braid_op_at(size_t index);
const char *braid_op_family_name(size_t index); /* the file under ops/ that the op is in */

/* Each src/graph/ops/<family>.c hands over one table; ops.c lists the families in one place. */
typedef struct braid_op_family {
  const braid_op *ops;
  size_t count;
} braid_op_family;

/* --- for infer functions -------------------------------------------------------------------------------------------
 */
size_t braid_infer_inputs(const braid_infer *infer);
/* NULL if left out. */
const braid_desc *braid_infer_input(const braid_infer *infer, size_t index);
/* The input's contents where they are known before the run (constants, folded results), else NULL. */
const braid_tensor *braid_infer_constant(const braid_infer *infer, size_t index);
/* Sets an output's type and shape, checked; ignores an output that is left out. */
BRAID_MUST_CHECK braid_status braid_infer_output(const braid_infer *infer, size_t index, braid_dtype dtype, int rank,
                                                 const int64_t *dims);
/* INVALID_GRAPH with "node NAME (OP): " before the message. */
BRAID_MUST_CHECK braid_status braid_infer_fail(const braid_infer *infer, const char *format, ...) BRAID_PRINTF(2, 3);
/* Numpy broadcasting of two shapes into `out`; false if they do not fit. */
bool braid_broadcast(const braid_desc *a, const braid_desc *b, braid_desc *out);
/* axis in [-rank, rank) to [0, rank); INVALID_GRAPH otherwise. */
BRAID_MUST_CHECK braid_status braid_infer_axis(const braid_infer *infer, int64_t axis, int rank, int *out);

/* --- whole graph ---------------------------------------------------------------------------------------------------
 */
/* Computes a node whose inputs are all known; outputs[i] gets a new tensor (NULL where left out). UNSUPPORTED: leave it
 * to the run. */
typedef struct braid_evaluator {
  braid_status (*evaluate)(void *context, const braid_graph *graph, const braid_node *node,
                           const braid_tensor *const *inputs, braid_tensor **outputs);
  void *context;
} braid_evaluator;

/* One sweep in topological order: infers every value, folds what does not depend on inputs, parameters and states, then
 * removes dead nodes. `evaluator` may be NULL: nothing is folded but Constant, Shape and Size. */
BRAID_MUST_CHECK braid_status braid_graph_infer(braid_graph *graph, const braid_evaluator *evaluator);
/* Infers one node now (as add_node does). OK and unknown outputs while inputs are unknown. */
BRAID_MUST_CHECK braid_status braid_graph_infer_node(braid_graph *graph, braid_node_id node);
/* Orders nodes topologically; INVALID_GRAPH names a node on a cycle. */
BRAID_MUST_CHECK braid_status braid_graph_sort(braid_graph *graph);
/* Removes nodes and values that no output and no state update needs; indices change. */
BRAID_MUST_CHECK braid_status braid_graph_compact(braid_graph *graph);
/* Number of uses of a value by nodes, outputs and updates. */
BRAID_MUST_CHECK braid_status braid_graph_count_uses(const braid_graph *graph, int32_t *uses /* value_count */);

/* Rewrites for speed, same results, right for every device: folds BatchNormalization and affine ops into the weights of
 * a Conv, bias Adds into Gemm, drops Identity and inference Dropout, takes the gradient of a Relu before a max pool
 * where the pool's result lies. Removes what it replaces. What is fused for a device is found by fusion.h. */
BRAID_MUST_CHECK braid_status braid_graph_fold(braid_graph *graph);

/* The first step of braid_graph_make_trainable, without a change to what the graph computes for inference: nodes that
 * the file has in training mode leave it, and parameters that the file stores once because they start equal get a
 * constant each. What the trained parameters are written back to. */
BRAID_MUST_CHECK braid_status braid_graph_prepare_training(braid_graph *graph);

/* --- before and after resolving (unresolved.c) ----------------------------------------------------------------------
 * What resolving folds depends on the shapes of the inputs. So a resolved graph remembers what it was, and one whose
 * inputs get other shapes becomes that again before it is resolved anew. Once it is changed in another way there is no
 * way back: then it takes no other shape. */
/* A graph whose inputs have got other shapes is what it was before it was resolved, with those. Indices change. */
BRAID_MUST_CHECK braid_status braid_graph_unresolve(braid_graph *graph);
/* To be called before any change but that of an input's shape. INVALID_ARGUMENT if an input has got another shape. */
BRAID_MUST_CHECK braid_status braid_graph_begin_change(braid_graph *graph);
/* Is it to be unresolved? Then INVALID_ARGUMENT. */
BRAID_MUST_CHECK braid_status braid_graph_check_shapes(const braid_graph *graph);
/* A reference to what the graph is now, for the two below; of a resolved one, to what it was. */
BRAID_MUST_CHECK braid_status braid_graph_keep_unresolved(const braid_graph *graph, struct braid_unresolved **out);
/* The graph has been resolved, from this (the graph's reference from now on; NULL: nothing is kept). */
void braid_graph_set_resolved(braid_graph *graph, struct braid_unresolved *from);
/* Or it could not be: half of what resolving does would stay with shapes that it gets later. It is `before` again (as
 * from keep_unresolved; gives the reference back). */
void braid_graph_take_back(braid_graph *graph, struct braid_unresolved *before);
struct braid_unresolved *braid_unresolved_retain(struct braid_unresolved *kept); /* NULL is allowed here and below */
void braid_unresolved_release(struct braid_unresolved *kept);
/* What the graph will be unresolved to, but for its inputs' shapes; itself, if it will not. */
const braid_graph *braid_graph_source(const braid_graph *graph);

/* --- what the graph depends on (reads.c) ----------------------------------------------------------------------------
 * Of the numbers in constants only some decide what becomes of a graph: those that shape inference reads, and passes
 * that decide by numbers. They are noted as they are read; a clone begins anew. */
/* Before the contents of a value, or of a node's inputs, may be read. */
BRAID_MUST_CHECK braid_status braid_graph_track_value(braid_graph *graph, braid_value_id value);
BRAID_MUST_CHECK braid_status braid_graph_track_inputs(braid_graph *graph, const braid_node *node);
/* The node has been computed: who reads its results has read its inputs. */
BRAID_MUST_CHECK braid_status braid_graph_track_results(braid_graph *graph, const braid_node *node);
void braid_value_note_read(const braid_value *value);
bool braid_value_was_read(const braid_value *value);
/* The constants that were read, by the names that they had then. */
void braid_graph_visit_read(const braid_graph *graph, void (*visit)(void *context, const char *name), void *context);

/* --- internals shared by importers and passes ----------------------------------------------------------------------
 */
void *braid_graph_arena_alloc(braid_graph *graph, size_t bytes); /* zeroed; NULL when out of memory */
/* `node` answers to `name` too, that of a node it has taken in. */
BRAID_MUST_CHECK braid_status braid_graph_add_alias(braid_graph *graph, braid_node_id node, const char *name);
const char *braid_graph_intern(braid_graph *graph, const char *text, size_t length);
/* A new unnamed-or-named value without producer. */
BRAID_MUST_CHECK braid_status braid_graph_add_value(braid_graph *graph, const char *name, braid_value_kind kind,
                                                    braid_value_id *out);
/* The memory of a graph's inputs and tensors is read as plain: INVALID_ARGUMENT if it is described as something else.
 * `name` may be NULL. */
BRAID_MUST_CHECK braid_status braid_graph_check_plain(const char *name, const braid_desc *desc);
const braid_attr *braid_attrs_find(const braid_attrs *attrs, const char *name);
/* Gives `node` a copy of an attribute (of this graph or of another). */
BRAID_MUST_CHECK braid_status braid_attrs_copy(braid_graph *graph, braid_node_id node, const braid_attr *attr);
/* Constants: a scalar of any numeric type, and a list of int64 (axes, shapes). */
BRAID_MUST_CHECK braid_status braid_graph_add_scalar(braid_graph *graph, braid_dtype dtype, double value,
                                                     braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_graph_add_int64s(braid_graph *graph, const int64_t *values, size_t count,
                                                     braid_value_id *out);
/* Makes every use of `from` a use of `to`. */
void braid_graph_replace_uses(braid_graph *graph, braid_value_id from, braid_value_id to);

#endif
