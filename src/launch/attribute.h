/* Attributes of a node as manifests see them. Geometry is resolved: `pads` are those that auto_pad stands for, and
 * `kernel_shape` is that of the weights where a convolution does not give it. */
#ifndef BRAID_LAUNCH_ATTRIBUTE_H
#define BRAID_LAUNCH_ATTRIBUTE_H

#include "braid/device.h"

/* A whole number, or one with a decimal point that is whole; index >= 0: an element of a list. `otherwise` where the
 * node has no such attribute; OUT_OF_RANGE where it has one of another kind, or a list without this element. */
BRAID_MUST_CHECK braid_status braid_launch_attribute(const braid_node_desc *node, const char *name, int64_t index,
                                                     int64_t otherwise, int64_t *out);
/* Is this text attribute, or `otherwise` where the node has it not, `word`? OUT_OF_RANGE where it is no text. */
BRAID_MUST_CHECK braid_status braid_launch_attribute_is(const braid_node_desc *node, const char *name, const char *word,
                                                        const char *otherwise, bool *out);

/* Would a kernel that knows nothing of the attribute compute the same: is it what holds without it, or repeated by the
 * shapes? */
bool braid_launch_attribute_is_neutral(const braid_node_desc *node, const braid_attr *attr);

#endif
