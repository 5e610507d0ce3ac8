/* Index of kernels by op: the candidates for a node, best first. */
#ifndef BRAID_DEVICE_KERNEL_INDEX_H
#define BRAID_DEVICE_KERNEL_INDEX_H

#include "braid/device.h"

typedef struct braid_kernel_index {
  const braid_kernel **kernels; /* sorted by op; of one op in the order given */
  size_t count;
  const braid_allocator *allocator;
} braid_kernel_index;

BRAID_MUST_CHECK braid_status braid_kernel_index_init(braid_kernel_index *index, const braid_allocator *allocator,
                                                      const braid_kernel *const *kernels, size_t count);
void braid_kernel_index_deinit(braid_kernel_index *index);
/* The op of kernels that run every op of a program (braid/custom.h) for which the device has no other. */
#define BRAID_CUSTOM_KERNEL "(custom)"

/* Whether the kernel matches the node; if not, writes the reason to `why`. `backend` may be NULL: only the kernel's own
 * `match` is called. */
bool braid_kernel_takes(const braid_backend *backend, void *self, const braid_kernel *kernel,
                        const braid_node_desc *node, char *why, size_t why_bytes);
/* As braid_device_find_kernel. `backend` may be NULL: only the kernels' own `match` is called. `owner` is the name used
 * in `why` if there is no candidate. */
const braid_kernel *braid_kernel_index_find(const braid_kernel_index *index, const braid_backend *backend, void *self,
                                            const char *owner, const braid_node_desc *node, char *why,
                                            size_t why_bytes);

/* The device's kernel of that name for the node's op; NULL: it has none. Of the node op and custom are looked at. */
const braid_kernel *braid_device_kernel(const braid_device *device, const braid_node_desc *node, const char *name);
const braid_kernel *braid_kernel_index_named(const braid_kernel_index *index, const braid_node_desc *node,
                                             const char *name);
/* Calls `visit` for every kernel of the node's op, best first, with the reason why it does not match, or NULL. Returns
 * their number. */
size_t braid_device_visit_kernels(const braid_device *device, const braid_node_desc *node,
                                  void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                  void *context);
size_t braid_kernel_index_visit(const braid_kernel_index *index, const braid_backend *backend, void *self,
                                const braid_node_desc *node,
                                void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                void *context);

#endif
