/* A node made ready: its recipe as the driver's kernels, with the arguments that stay set and the memory objects of the
 * bindings last seen, so that a run with the same bindings sets nothing. */
#ifndef BRAID_BACKEND_OPENCL_KERNEL_H
#define BRAID_BACKEND_OPENCL_KERNEL_H

#include "backend/opencl/device.h"

typedef struct braid_cl_prepared braid_cl_prepared;

BRAID_MUST_CHECK braid_status braid_cl_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                                               void **prepared, braid_prepared_info *info);
BRAID_MUST_CHECK braid_status braid_cl_query_kernel(void *device, const braid_kernel *kernel,
                                                    const braid_node_desc *node, braid_query *query);
void braid_cl_discard(void *device, void *prepared);
braid_status braid_cl_pack(void *device, void *prepared, uint32_t input, const void *plain, void *packed);
/* Asks the family where it depends on the device. */
bool braid_cl_match(void *device, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes);
/* Are there programs for all launches, or text and a compiler to make them? If not, says why. */
bool braid_cl_recipe_is_possible(const braid_cl_device *device, const braid_launch_recipe *recipe, char *why,
                                 size_t why_bytes);
/* Sets what the task's bindings changed and enqueues the launches; *first and *last are the events of the first and
 * the last, NULL if there is none. On failure they are those enqueued so far. */
BRAID_MUST_CHECK braid_status braid_cl_launch_all(braid_cl_device *device, const braid_task *task,
                                                  cl_command_queue queue, const cl_event *waits, cl_uint wait_count,
                                                  cl_event *first, cl_event *last);
/* Of a task whose commands have ended: did a kernel meet an index out of range? Then OUT_OF_RANGE. */
BRAID_MUST_CHECK braid_status braid_cl_find_fault(const braid_task *task);

#endif
