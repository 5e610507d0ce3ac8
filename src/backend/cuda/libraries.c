#include "backend/cuda/libraries.h"

#include <stdio.h>

#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"

static const braid_launch_kernel kProduct = {.foreign = &braid_cuda_blas_product};
static const braid_launch_kernel kForward = {.foreign = &braid_cuda_dnn_forward};
static const braid_launch_kernel kByInputs = {.foreign = &braid_cuda_dnn_by_inputs};
static const braid_launch_kernel kByWeights = {.foreign = &braid_cuda_dnn_by_weights};

static const braid_kernel kKernels[] = {
    {.op = "Gemm", .name = "cublas_gemm", .implementation = &kProduct},
    {.op = "FusedGemm", .name = "cublas_gemm", .implementation = &kProduct},
    {.op = "MatMul", .name = "cublas_matmul", .implementation = &kProduct},
    {.op = "Conv", .name = "cudnn_conv", .layouts = braid_cuda_dnn_layouts, .implementation = &kForward},
    {.op = "FusedConv", .name = "cudnn_conv", .layouts = braid_cuda_dnn_layouts, .implementation = &kForward},
    {.op = "ConvGradInput",
     .name = "cudnn_conv_grad_input",
     .layouts = braid_cuda_dnn_layouts,
     .implementation = &kByInputs},
    {.op = "ConvGradFilter",
     .name = "cudnn_conv_grad_filter",
     .layouts = braid_cuda_dnn_layouts,
     .implementation = &kByWeights},
};

void braid_cuda_libraries_open(braid_cuda_device *device) {
  braid_cuda_blas_open(device);
  braid_cuda_dnn_open(device);
}

void braid_cuda_libraries_close(braid_cuda_device *device) {
  braid_cuda_dnn_close(device);
  braid_cuda_blas_close(device);
}

/* Before, the major number counts thousands. */
enum { kNewVersions = 100000, kNewDnnVersions = 90000 };

void braid_cuda_libraries_describe(const braid_cuda_device *device, char *out, size_t bytes) {
  size_t blas = braid_cuda_blas_version(device), dnn = braid_cuda_dnn_version(device);
  int used = 0;
  out[0] = '\0';
  if (blas >= kNewVersions)
    used = snprintf(out, bytes, ", cuBLASLt %zu.%zu", blas / 10000, blas % 10000 / 100);
  else if (blas) /* of 11, whose minor numbers go beyond 9 */
    used = snprintf(out, bytes, ", cuBLASLt 11.%zu", (blas - 11000) / 100);
  if (dnn >= kNewDnnVersions)
    snprintf(out + used, bytes - (size_t)used, ", cuDNN %zu.%zu", dnn / 10000, dnn % 10000 / 100);
  else if (dnn)
    snprintf(out + used, bytes - (size_t)used, ", cuDNN %zu.%zu", dnn / 1000, dnn % 1000 / 100);
}

/* Where a library is not there its kernels say so. */
braid_launch_family braid_cuda_libraries_family(const braid_cuda_device *device) {
  size_t count = sizeof kKernels / sizeof *kKernels;
  return (braid_launch_family){kKernels, device->blas || device->dnn ? count : 0, false};
}
