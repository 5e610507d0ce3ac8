/* AllReduce over the cards of a group of processes by NCCL: gradients stay in the cards' memory. */
#ifndef BRAID_BACKEND_CUDA_NCCL_H
#define BRAID_BACKEND_CUDA_NCCL_H

#include "backend/cuda/kernel.h"

extern const braid_launch_family braid_cuda_nccl_family;

/* braid_backend.set_group. The processes join when they first look for a kernel of an AllReduce, all at the same place;
 * then all have NCCL or none: where one has no library or no card of its own, these nodes are left to other devices. */
void braid_cuda_set_group(void *device, struct braid_group *group);
/* With the device's context current. */
void braid_cuda_nccl_close(braid_cuda_device *device);
/* Asked while a task of a queue is waited for, which counts where the queue is that of collectives: once this process
 * was told to end and the others do not come, or NCCL has lost one of them, the device is lost. */
void braid_cuda_nccl_watch(braid_cuda_device *device, braid_cuda_stream stream);

#endif
