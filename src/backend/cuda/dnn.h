/* Convolutions of float32 and their gradients by cuDNN: Conv and FusedConv with bias, residual and ReLU, ConvGradInput,
 * ConvGradFilter. */
#ifndef BRAID_BACKEND_CUDA_DNN_H
#define BRAID_BACKEND_CUDA_DNN_H

#include "backend/cuda/kernel.h"

extern const braid_cuda_library_kernel braid_cuda_dnn_forward, braid_cuda_dnn_by_inputs, braid_cuda_dnn_by_weights;

/* With the device's context current. NULL in `device->dnn` where the library is not there. */
void braid_cuda_dnn_open(braid_cuda_device *device);
void braid_cuda_dnn_close(braid_cuda_device *device);
size_t braid_cuda_dnn_version(const braid_cuda_device *device); /* 91300 is 9.13.0; 0: not there */
/* braid_kernel.layouts of all three. */
void braid_cuda_dnn_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);

#endif
