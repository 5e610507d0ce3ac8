/* Convolutions of images of 16 bits with at most four channels, and the gradients of their weights, on tensor cores, by
 * kernels/cuda/few_channels.cu: Conv, FusedConv (bias, Relu) and ConvGradFilter. Images and weights lie channels last,
 * as for cuDNN, which leaves these nodes to them: it has no tensor cores for so few channels. */
#ifndef BRAID_BACKEND_CUDA_FEW_CHANNELS_H
#define BRAID_BACKEND_CUDA_FEW_CHANNELS_H

#include "backend/cuda/device.h"

extern const braid_launch_family braid_cuda_few_channels_family;

/* Can the device run the node, one of these ops, by them? */
bool braid_cuda_few_channels_takes(const braid_cuda_device *device, const braid_node_desc *node);

#endif
