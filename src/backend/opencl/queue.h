/* Queues: in front of the driver's, the order and the ending of tasks by launch/queue.h; here what is OpenCL's. */
#ifndef BRAID_BACKEND_OPENCL_QUEUE_H
#define BRAID_BACKEND_OPENCL_QUEUE_H

#include "backend/opencl/device.h"

BRAID_MUST_CHECK braid_status braid_cl_queue_create(void *device, braid_timeline *timeline, void **queue);
/* Waits for what was submitted, but not for a device that is lost; one that makes no progress at all is given up. */
void braid_cl_queue_destroy(void *device, void *queue);
braid_status braid_cl_queue_submit(void *queue, braid_task *task);
void braid_cl_queue_flush(void *queue);
/* For the context, of one that was destroyed while its device was lost: may it be freed? */
bool braid_cl_queue_is_quiet(const braid_cl_queue *queue);
void braid_cl_queue_free(braid_cl_queue *queue);

#endif
