/* Queues: an in-order queue of the driver, fed by whoever submits, or by a thread for tasks that have to wait for what
 * the driver does not know. See queue.c for the way of a task. */
#ifndef BRAID_BACKEND_OPENCL_QUEUE_H
#define BRAID_BACKEND_OPENCL_QUEUE_H

#include "backend/opencl/device.h"

BRAID_MUST_CHECK braid_status braid_cl_queue_create(void *device, void **queue);
/* Waits for what was submitted, but not for a device that is lost; one that makes no progress at all is given up. */
void braid_cl_queue_destroy(void *device, void *queue);
braid_status braid_cl_queue_submit(void *queue, braid_task *task);
void braid_cl_queue_flush(void *queue);

#endif
