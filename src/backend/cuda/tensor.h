/* Products of bytes on tensor cores: IntegerConv and its gradients by kernels/cuda/integer_tensor.cu. They want images
 * in the layout BRAID_LAUNCH_SAMPLES and write them in it. */
#ifndef BRAID_BACKEND_CUDA_TENSOR_H
#define BRAID_BACKEND_CUDA_TENSOR_H

#include "launch/recipe.h"

extern const braid_launch_family braid_cuda_tensor_family;

#endif
