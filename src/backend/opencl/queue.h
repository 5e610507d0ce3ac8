/* Queues: in front of the driver's, the order and the ending of tasks by launch/queue.h; here what is OpenCL's. */
#ifndef BRAID_BACKEND_OPENCL_QUEUE_H
#define BRAID_BACKEND_OPENCL_QUEUE_H

#include "backend/opencl/device.h"
#include "launch/queue.h"

/* A braid_launch_queue, which takes its tasks. */
BRAID_MUST_CHECK braid_status braid_cl_queue_create(void *device, braid_timeline *timeline, void **queue);
/* Waits for what was submitted, but not for a device that is lost; one that makes no progress at all is given up. */
void braid_cl_queue_destroy(void *device, void *queue);
void braid_cl_queue_free(braid_cl_queue *queue); /* for the context, of one that was destroyed */

#endif
