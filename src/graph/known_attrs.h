/* The attributes of ONNX's ops: their names in each opset and their kinds. For importers, and for all that gives a node
 * of a graph attributes. */
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
/* INVALID_GRAPH: the op, one of ONNX's, has it of another kind, or does not have it: passes give some nodes attributes
 * that ONNX does not know. Our own ops and those of programs take any. */
BRAID_MUST_CHECK braid_status braid_node_check_kind(const braid_node *node, const braid_attr *attr);
BRAID_MUST_CHECK braid_status braid_node_check_name(const braid_node *node, const braid_attr *attr);

#endif
