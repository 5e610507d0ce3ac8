/* An operation that is measured: what identifies it wherever it stands in a graph. */
#ifndef BRAID_PROFILE_SUBJECT_H
#define BRAID_PROFILE_SUBJECT_H

#include "base/text.h"
#include "graph/graph.h"

enum { BRAID_SUBJECT_KEY = 33 };

/* Whether a graph is a training step: it changes states. */
bool braid_subject_is_training(const braid_graph *graph);
/* A node that only renames memory: nothing runs. */
bool braid_subject_is_view(const braid_graph *graph, const braid_node *node);
/* What a node reads and writes at least: each operand and result once. */
double braid_subject_bytes(const braid_graph *graph, const braid_node *node);
/* Writes the key: of op, attributes, types, shapes, and which operands are constants or weights. Equal nodes have equal
 * keys in all graphs and processes. */
BRAID_MUST_CHECK braid_status braid_subject_key(const braid_graph *graph, const braid_node *node, bool training,
                                                char out[BRAID_SUBJECT_KEY]);
/* "1x3x224x224 64x3x7x7 -> 1x64x112x112, strides 2 2". */
void braid_subject_shapes(const braid_graph *graph, const braid_node *node, braid_text *out);

#endif
