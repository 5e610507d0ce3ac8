/* What NVIDIA's own libraries make of matrix products and convolutions, for `make bench` on machines that have them:
 * cuBLAS and cuDNN in float32 without TF32, the same shapes as build/bench/cl_kernels_bench, GFLOP/s of the best of
 * several runs.
 *
 *   cc bench/cuda_peer.c -o cuda_peer -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudnn -lcublas -lcudart */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 20 };

static void must(int failed, const char *what) {
  if (!failed) return;
  fprintf(stderr, "cuda_peer: %s failed (%d)\n", what, failed);
  exit(1);
}

static float *memory(size_t elements) {
  void *pointer;
  must(cudaMalloc(&pointer, elements * sizeof(float)), "cudaMalloc");
  must(cudaMemset(pointer, 0, elements * sizeof(float)), "cudaMemset");
  return pointer;
}

/* Milliseconds of the fastest run. */
static float best_of(void (*run)(void *), void *context) {
  cudaEvent_t start, end;
  float best = 0;
  must(cudaEventCreate(&start), "event");
  must(cudaEventCreate(&end), "event");
  for (int i = 0; i < RUNS; i++) {
    float ms;
    cudaEventRecord(start, NULL);
    run(context);
    cudaEventRecord(end, NULL);
    must(cudaEventSynchronize(end), "run");
    cudaEventElapsedTime(&ms, start, end);
    if (i == 0 || ms < best) best = ms;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return best;
}

typedef struct product {
  cublasHandle_t blas;
  int m, n, k;
  float *a, *b, *c;
} product;

static void run_product(void *context) {
  const product *p = context;
  const float one = 1, zero = 0;
  must(
      cublasSgemm(p->blas, CUBLAS_OP_N, CUBLAS_OP_N, p->n, p->m, p->k, &one, p->b, p->n, p->a, p->k, &zero, p->c, p->n),
      "cublasSgemm");
}

static void measure_product(cublasHandle_t blas, int m, int n, int k) {
  product p = {blas, m, n, k, memory((size_t)m * k), memory((size_t)k * n), memory((size_t)m * n)};
  float ms = best_of(run_product, &p);
  printf("matmul %dx%dx%d  %.3f ms  %.0f GFLOP/s\n", m, k, n, ms, 2e-6 * m * n * k / ms);
  cudaFree(p.a), cudaFree(p.b), cudaFree(p.c);
}

typedef struct convolution {
  cudnnHandle_t dnn;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t how;
  cudnnConvolutionFwdAlgo_t algorithm;
  float *px, *pw, *py;
  void *pad;
  size_t pad_bytes;
} convolution;

static void run_convolution(void *context) {
  const convolution *c = context;
  const float one = 1, zero = 0;
  must(cudnnConvolutionForward(c->dnn, &one, c->x, c->px, c->w, c->pw, c->how, c->algorithm, c->pad, c->pad_bytes,
                               &zero, c->y, c->py),
       "cudnnConvolutionForward");
}

/* batch, channels, side, filters, kernel, stride */
static void measure_convolution(cudnnHandle_t dnn, const int s[6]) {
  convolution c = {.dnn = dnn};
  int pad = s[4] / 2, n, k, h, w, found;
  cudnnConvolutionFwdAlgoPerf_t fastest;
  cudnnCreateTensorDescriptor(&c.x);
  cudnnCreateTensorDescriptor(&c.y);
  cudnnCreateFilterDescriptor(&c.w);
  cudnnCreateConvolutionDescriptor(&c.how);
  cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, s[0], s[1], s[2], s[2]);
  cudnnSetFilter4dDescriptor(c.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, s[3], s[1], s[4], s[4]);
  cudnnSetConvolution2dDescriptor(c.how, pad, pad, s[5], s[5], 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetConvolutionMathType(c.how, CUDNN_FMA_MATH);
  must(cudnnGetConvolution2dForwardOutputDim(c.how, c.x, c.w, &n, &k, &h, &w), "output size");
  cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h, w);
  must(cudnnFindConvolutionForwardAlgorithm(dnn, c.x, c.w, c.how, c.y, 1, &found, &fastest), "finding an algorithm");
  c.algorithm = fastest.algo;
  c.pad_bytes = fastest.memory;
  c.px = memory((size_t)s[0] * s[1] * s[2] * s[2]);
  c.pw = memory((size_t)s[3] * s[1] * s[4] * s[4]);
  c.py = memory((size_t)n * k * h * w);
  c.pad = memory(c.pad_bytes / sizeof(float) + 1);
  float ms = best_of(run_convolution, &c);
  double macs = (double)n * k * h * w * s[1] * s[4] * s[4];
  printf("conv %dx%d  %d x %d x %d x %d -> %d stride %d  %.3f ms  %.0f GFLOP/s\n", s[4], s[4], s[0], s[1], s[2], s[2],
         s[3], s[5], ms, 2e-6 * macs / ms);
  cudaFree(c.px), cudaFree(c.pw), cudaFree(c.py), cudaFree(c.pad);
  cudnnDestroyTensorDescriptor(c.x);
  cudnnDestroyTensorDescriptor(c.y);
  cudnnDestroyFilterDescriptor(c.w);
  cudnnDestroyConvolutionDescriptor(c.how);
}

int main(void) {
  static const int sizes[] = {256, 512, 1024, 2048, 4096};
  static const int convolutions[][6] = {{32, 64, 56, 64, 1, 1},   {32, 64, 56, 64, 3, 1},  {32, 128, 28, 128, 3, 1},
                                        {32, 256, 14, 256, 3, 1}, {32, 512, 7, 512, 3, 1}, {32, 3, 224, 64, 7, 2},
                                        {1, 64, 56, 64, 3, 1},    {1, 256, 14, 1024, 1, 1}};
  cublasHandle_t blas;
  cudnnHandle_t dnn;
  must(cublasCreate(&blas), "cublasCreate");
  must(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  must(cudnnCreate(&dnn), "cudnnCreate");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) measure_product(blas, sizes[i], sizes[i], sizes[i]);
  for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) measure_convolution(dnn, convolutions[i]);
  cudnnDestroy(dnn);
  cublasDestroy(blas);
  return 0;
}
