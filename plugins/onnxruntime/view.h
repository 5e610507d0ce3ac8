/* A graph of ONNX Runtime, read once into plain structs: nodes and values by number. */
#ifndef BRAID_ORT_VIEW_H
#define BRAID_ORT_VIEW_H

#include "api.h"
#include "arena.h"
#include "braid/tensor.h"

typedef struct braid_ort_value {
  const OrtValueInfo *info;
  const char *name;
  int type;                     /* the runtime's number of its element type; 0: no tensor, or not known */
  int rank;                     /* -1: not known. Found node by node where the framework could not infer it (probe.c) */
  int64_t dims[BRAID_MAX_RANK]; /* -1: open */
  int producer;                 /* a node of this graph; -1: none */
  bool too_deep;                /* of more dimensions than a tensor of Braid has; its rank reads -1 */
  bool input, output;           /* of the graph */
  bool read;                    /* by a node or by a graph of one */
  /* A constant of the model, which lives as long as the graph. */
  const void *data; /* NULL: no constant */
  size_t bytes;
  /* What it would be if the open dimensions of the graph's inputs had certain sizes: its dimensions, and its contents
   * where they follow from shapes. Found node by node (probe.c), for sizes that the framework could not infer. */
  bool tried;
  int tried_rank;
  int64_t tried_dims[BRAID_MAX_RANK];
  braid_tensor *tried_contents; /* NULL: not known, or many */
} braid_ort_value;

typedef struct braid_ort_node {
  const OrtNode *node;
  const char *name, *op, *domain; /* domain "": ONNX's */
  size_t input_count, implicit_count, output_count, graph_count;
  int *inputs;   /* values; -1: an omitted one; then those that its graphs read (implicit_count) */
  int *outputs;  /* values; -1: an omitted one */
  bool assigned; /* to another provider, or already to this one */
} braid_ort_node;

typedef struct braid_ort_domain {
  const char *name;
  int64_t version;
} braid_ort_domain;

typedef struct braid_ort_view {
  braid_ort_arena arena;
  braid_ort_node *nodes; /* in topological order */
  braid_ort_value *values;
  braid_ort_domain *domains;
  size_t node_count, value_count, domain_count;
  bool inner;   /* the body of a control flow node */
  bool inlined; /* one of a node that the framework will replace by the node's function */
  int *slots;   /* hash table of names -> value + 1 */
  size_t slot_count;
} braid_ort_view;

/* The graph must outlive the view. INVALID_GRAPH: nodes are not in topological order. */
BRAID_MUST_CHECK braid_status braid_ort_view_read(const OrtGraph *graph, braid_ort_view *view);
void braid_ort_view_free(braid_ort_view *view);
/* The number of a value; -1: none. */
int braid_ort_view_find(const braid_ort_view *view, const char *name);
/* Numbers of the inputs (or outputs) of a node, which need not be one of the view; -1 for omitted ones. `values` is of
 * the view's arena. Values that the view does not have yet are added. */
BRAID_MUST_CHECK braid_status braid_ort_view_operands(braid_ort_view *view, const OrtNode *node, bool outputs,
                                                      int **values, size_t *count);

#endif
