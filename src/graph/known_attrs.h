/* The attributes of ops: of ONNX's in each opset, and of a graph's. Who gives a node one that its op does not have is
 * refused, whoever it is: it would be passed over without a word, and the result would be another. */
#ifndef BRAID_GRAPH_KNOWN_ATTRS_H
#define BRAID_GRAPH_KNOWN_ATTRS_H

#include "graph/graph.h"

/* The names in this opset, with a space between; NULL: the op is not known. */
const char *braid_known_attrs(const char *op, int64_t opset);
const char *braid_known_attrs_microsoft(const char *op); /* of the domain com.microsoft */
/* Is the name among them, or one that says nothing? */
bool braid_known_attrs_list(const char *attrs, const char *name);
/* Is the attribute of another kind than ONNX gives it? Then *given and *expected say which in words. `newest`: in the
 * newest opset; else those are let pass that were of another kind before. */
bool braid_known_attr_differs(const braid_attr *attr, bool newest, const char **given, const char **expected);
/* The attribute that was probably meant, as " (did you mean strides?)"; "" if none is alike. Returns `out`. */
const char *braid_known_attrs_nearest(const char *attrs, const char *name, char *out, size_t bytes);

/* --- nodes of graphs (node_attrs.c) --------------------------------------------------------------------------------
 * An op of a graph has ONNX's attributes in the newest opset, and of ours those in a table. */
/* INVALID_GRAPH: the node's op does not have it, or of another kind. A program's own op has any. */
BRAID_MUST_CHECK braid_status braid_node_check_attr(const braid_node *node, const braid_attr *attr);
/* Writes the names that an op of the ops table has, with a space between. False: nothing says which it has. */
bool braid_op_attrs(const char *op, char *names, size_t bytes);

#endif
