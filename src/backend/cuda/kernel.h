/* A node made ready: its recipe as the driver's launches, or a call of one of CUDA's libraries. It holds nothing of a
 * task, so that nodes which are alike share it. */
#ifndef BRAID_BACKEND_CUDA_KERNEL_H
#define BRAID_BACKEND_CUDA_KERNEL_H

#include "backend/cuda/device.h"
#include "backend/cuda/overlap.h"

enum { BRAID_CUDA_OPERANDS = 64 };

/* What a call of a library works on: addresses of inputs, then outputs; 0: absent. */
typedef struct braid_cuda_call {
  braid_cuda_stream stream;
  size_t input_count;
  braid_cuda_address operands[BRAID_CUDA_OPERANDS];
  braid_cuda_address workspace;
  size_t workspace_bytes;
} braid_cuda_call;

/* Of kernels that are a library's: braid_launch_kernel.foreign. */
typedef struct braid_cuda_library_kernel {
  bool (*match)(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes);
  braid_status (*prepare)(braid_cuda_device *device, const braid_node_desc *node, void **state,
                          size_t *workspace_bytes);
  void (*discard)(const braid_cuda_device *device, void *state);
  braid_status (*enqueue)(braid_cuda_device *device, void *state, const braid_cuda_call *call);
} braid_cuda_library_kernel;

bool braid_cuda_match(void *device, const braid_kernel *kernel, const braid_node_desc *node, char *why,
                      size_t why_bytes);
BRAID_MUST_CHECK braid_status braid_cuda_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                                                 void **prepared, braid_prepared_info *info);
BRAID_MUST_CHECK braid_status braid_cuda_query_kernel(void *device, const braid_kernel *kernel,
                                                      const braid_node_desc *node, braid_query *query);
void braid_cuda_discard(void *device, void *prepared);

/* Enqueues all of a task. `fault`: where a kernel that meets an index out of range says so. `overlap`: of the graph
 * that is captured in the stream; NULL: launches go one after the other. */
BRAID_MUST_CHECK braid_status braid_cuda_launch_all(braid_cuda_device *device, const braid_task *task,
                                                    braid_cuda_stream stream, braid_cuda_address fault,
                                                    braid_cuda_overlap *overlap);
/* May a kernel of the task find an index out of range? */
bool braid_cuda_may_fault(const braid_task *task);

#endif
