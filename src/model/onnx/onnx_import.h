/* The ONNX importer's own: what its parts share.
 *
 * onnx_import.c  the file, the graph's inputs, initializers and outputs
 * onnx_nodes.c   the order of nodes, names and scopes, If, model-local functions
 * onnx_declared.c  shapes that the file declares, against those that are computed
 * onnx_call.c    one use of an op on its way into the graph: inputs, attributes, outputs
 * onnx_attrs.c   attributes, checked against the types ONNX gives them
 * onnx_adapt*.c  older opsets rewritten into the newest */
#ifndef BRAID_MODEL_ONNX_IMPORT_H
#define BRAID_MODEL_ONNX_IMPORT_H

#include "base/arena.h"
#include "base/map.h"
#include "graph/graph.h"
#include "model/onnx/onnx_source.h"

enum {
  BRAID_ONNX_MAX_OPSET = 28,
  BRAID_ONNX_MAX_IR = 14,
  BRAID_ONNX_MAX_NODES = 1 << 20, /* after functions and branches are inlined */
  BRAID_ONNX_MAX_CALL_DEPTH = 32, /* functions calling functions */
};

typedef struct braid_onnx_importer {
  const braid_allocator *allocator;
  braid_onnx_source *source;
  braid_graph *graph;
  braid_arena *arena; /* lives as long as the import */
  const Onnx__ModelProto *model;
  braid_name_map *functions; /* "domain:name:overload" -> index in model->functions */
} braid_onnx_importer;

/* Where names are looked up: the main graph, a branch of an If (sees its surroundings), a function body (does not). */
typedef struct braid_onnx_scope braid_onnx_scope;
struct braid_onnx_scope {
  const braid_onnx_scope *parent; /* NULL: the main graph or a function */
  braid_name_map *names;          /* -> value, -1: left out by the caller */
  int64_t opset;
  int depth;
  braid_value_id condition; /* of a branch; else -1 */
  bool branch;              /* taken when the condition is this */
  /* A function body: the attributes of the call, by the function's names. */
  const Onnx__FunctionProto *function;
  const Onnx__AttributeProto *const *bound;
  const char *const *bound_names;
  size_t bound_count;
};

BRAID_MUST_CHECK braid_status braid_onnx_scope_init(const braid_onnx_importer *importer, braid_onnx_scope *scope);
void braid_onnx_scope_deinit(braid_onnx_scope *scope);
BRAID_MUST_CHECK braid_status braid_onnx_scope_set(braid_onnx_scope *scope, const char *name, braid_value_id value);
/* NOT_FOUND without a detail if nobody has defined the name. */
BRAID_MUST_CHECK braid_status braid_onnx_scope_find(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                                    const char *name, braid_value_id *out);
/* Gives a value its name in the file, moving generated names out of the way. */
BRAID_MUST_CHECK braid_status braid_onnx_claim_name(braid_onnx_importer *importer, braid_value_id value,
                                                    const char *name);
/* Constants of a graph or branch. */
BRAID_MUST_CHECK braid_status braid_onnx_import_initializers(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                                             const Onnx__GraphProto *proto);
/* All nodes, in topological order whatever their order in the file. */
BRAID_MUST_CHECK braid_status braid_onnx_import_nodes(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                                      Onnx__NodeProto *const *nodes, size_t count);

/* What the exporter wrote down of the constants, and of a node that became those from number `first` on; in
 * onnx_origin.c. */
BRAID_MUST_CHECK braid_status braid_onnx_note_origins(const braid_onnx_importer *importer,
                                                      const braid_onnx_scope *scope);
BRAID_MUST_CHECK braid_status braid_onnx_note_calls(braid_graph *graph, size_t first, const Onnx__NodeProto *node);

/* One use of an op. Adapters change it, add nodes before it, or replace it (then outputs are set and `done` is true).
 */
typedef struct braid_onnx_call {
  braid_onnx_importer *importer;
  const char *op;
  const char *name; /* of the node, or of its first output */
  int64_t opset;
  braid_value_id *inputs;
  size_t input_count, input_capacity;
  braid_value_id *outputs; /* -1: not wanted, else 0 until known */
  size_t output_count;
  braid_attr *attrs;
  size_t attr_count, attr_capacity;
  bool done;
} braid_onnx_call;

/* INVALID_FILE where an attribute is none that ONNX (or com.microsoft) gives the op in this opset. Ops of other domains
 * and those that are not carried are not looked at. */
BRAID_MUST_CHECK braid_status braid_onnx_check_attrs(const braid_onnx_call *call, const Onnx__NodeProto *node);

/* Converts and checks the attributes of a node; graphs are skipped. References to a function's attributes are replaced
 * by what the call gave. */
BRAID_MUST_CHECK braid_status braid_onnx_call_attrs(braid_onnx_call *call, const braid_onnx_scope *scope,
                                                    const Onnx__NodeProto *node);
/* The attribute itself, through references; NULL: none. */
const Onnx__AttributeProto *braid_onnx_bound_attr(const braid_onnx_scope *scope, const char *name);

void braid_onnx_call_deinit(braid_onnx_call *call);
/* "node NAME (OP): " and the message. */
BRAID_MUST_CHECK braid_status braid_onnx_call_fail(const braid_onnx_call *call, braid_status status, const char *format,
                                                   ...) BRAID_PRINTF(3, 4);
const braid_attr *braid_onnx_call_attr(const braid_onnx_call *call, const char *name); /* NULL: absent */
int64_t braid_onnx_call_int(const braid_onnx_call *call, const char *name, int64_t otherwise);
double braid_onnx_call_float(const braid_onnx_call *call, const char *name, double otherwise);
const char *braid_onnx_call_string(const braid_onnx_call *call, const char *name, const char *otherwise);
const int64_t *braid_onnx_call_ints(const braid_onnx_call *call, const char *name, size_t *count);
void braid_onnx_call_drop(braid_onnx_call *call, const char *name);
/* Adds, or replaces one of the same name. Takes over the reference of a tensor. */
BRAID_MUST_CHECK braid_status braid_onnx_call_put(braid_onnx_call *call, braid_attr attr);
BRAID_MUST_CHECK braid_status braid_onnx_call_set_int(braid_onnx_call *call, const char *name, int64_t value);
BRAID_MUST_CHECK braid_status braid_onnx_call_set_string(braid_onnx_call *call, const char *name, const char *value);
braid_value_id braid_onnx_call_input(const braid_onnx_call *call, size_t index); /* -1: absent */
BRAID_MUST_CHECK braid_status braid_onnx_call_set_input(braid_onnx_call *call, size_t index, braid_value_id value);
/* The description of a value, NULL while unknown; valid until a value is added. */
const braid_desc *braid_onnx_call_known(const braid_onnx_call *call, braid_value_id value);
/* int64 constants; rank 0 if scalar. */
BRAID_MUST_CHECK braid_status braid_onnx_call_constant_ints(braid_onnx_call *call, const int64_t *values, size_t count,
                                                            bool scalar, braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_onnx_call_constant_float(braid_onnx_call *call, float value, braid_value_id *out);
/* A float scalar of the type of `like` (through CastLike where that is not known yet). */
BRAID_MUST_CHECK braid_status braid_onnx_call_constant_like(braid_onnx_call *call, double value, braid_value_id like,
                                                            braid_value_id *out);
/* A node with one output before the call. `attr` (may be NULL) is an integer attribute. */
BRAID_MUST_CHECK braid_status braid_onnx_call_node(braid_onnx_call *call, const char *op, const braid_value_id *inputs,
                                                   size_t input_count, const char *attr, int64_t value,
                                                   braid_value_id *out);
/* The call has become the node that gave `value`. */
void braid_onnx_call_replace(braid_onnx_call *call, braid_value_id value);
/* Adds the node, unless done. */
BRAID_MUST_CHECK braid_status braid_onnx_call_emit(braid_onnx_call *call);

/* Rewrites a call into the newest opset's form, by one table. */
BRAID_MUST_CHECK braid_status braid_onnx_adapt(braid_onnx_call *call);
/* An adapter's row: `since` <= opset < `until`. */
typedef struct braid_onnx_adapter {
  const char *op;
  int since, until;
  braid_status (*rewrite)(braid_onnx_call *call);
} braid_onnx_adapter;
/* Rewrites that build several nodes, in onnx_adapt_nodes.c. */
braid_status braid_onnx_adapt_broadcast(braid_onnx_call *call);
braid_status braid_onnx_adapt_batch_normalization(braid_onnx_call *call);
braid_status braid_onnx_adapt_group_normalization(braid_onnx_call *call);
braid_status braid_onnx_adapt_softmax(braid_onnx_call *call);
braid_status braid_onnx_adapt_prelu(braid_onnx_call *call);
braid_status braid_onnx_adapt_dropout(braid_onnx_call *call);
/* Losses, in onnx_adapt_loss.c. */
braid_status braid_onnx_adapt_likelihood_loss(braid_onnx_call *call);
braid_status braid_onnx_adapt_cross_entropy_loss(braid_onnx_call *call);

/* Quantized ops of the domain com.microsoft, in onnx_adapt_quantized.c; *known: it is one that is carried. */
BRAID_MUST_CHECK braid_status braid_onnx_adapt_quantized(braid_onnx_call *call, bool *known);
/* Those that its optimizer writes, in onnx_adapt_microsoft.c. */
BRAID_MUST_CHECK braid_status braid_onnx_adapt_microsoft(braid_onnx_call *call, bool *known);

/* Tells the source's log of declared shapes of outputs and values that contradict what is computed. */
BRAID_MUST_CHECK braid_status braid_onnx_check_declared(const braid_onnx_importer *importer);

/* The model in `source`. */
BRAID_MUST_CHECK braid_status braid_onnx_import(braid_onnx_source *source, braid_graph **out);
#endif
