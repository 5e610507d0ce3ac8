/* Products of matrices by cuBLASLt: Gemm, FusedGemm and MatMul of float32. */
#ifndef BRAID_BACKEND_CUDA_BLAS_H
#define BRAID_BACKEND_CUDA_BLAS_H

#include "backend/cuda/kernel.h"

extern const braid_cuda_library_kernel braid_cuda_blas_product;

/* With the device's context current. NULL in `device->blas` where the library is not there. */
void braid_cuda_blas_open(braid_cuda_device *device);
void braid_cuda_blas_close(braid_cuda_device *device);
size_t braid_cuda_blas_version(const braid_cuda_device *device); /* 130000 is 13.0.0; 0: not there */

#endif
