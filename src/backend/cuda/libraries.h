/* Kernels that are those of CUDA's libraries, loaded when the program runs: cuBLASLt's products and cuDNN's
 * convolutions. What is not there is done by own kernels. */
#ifndef BRAID_BACKEND_CUDA_LIBRARIES_H
#define BRAID_BACKEND_CUDA_LIBRARIES_H

#include "backend/cuda/device.h"

/* With the device's context current. */
void braid_cuda_libraries_open(braid_cuda_device *device);
void braid_cuda_libraries_close(braid_cuda_device *device);
/* ", cuBLASLt 13.0, cuDNN 9.13"; "" where there is neither. */
void braid_cuda_libraries_describe(const braid_cuda_device *device, char *out, size_t bytes);
braid_launch_family braid_cuda_libraries_family(const braid_cuda_device *device);

#endif
