/* Pass for cuBLASLt (CUBLASLT), NCCL (NCCL) and cuDNN: they take every product, sum and convolution, and compute none.
 *
 *   FAKE_CUBLASLT_VERSION=N  (130000)     FAKE_CUBLASLT_COUNT=N    algorithms for a product (1)
 *   FAKE_NCCL_FAIL=N         the process that NCCL cannot join    FAKE_NCCL_NAMELESS=1  the group has no name
 *   FAKE_CUDNN_VERSION=N     (91900)      FAKE_CUDNN_WORKSPACE=N   bytes that fused convolutions take (0) */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the real headers are not needed */
#define EXPORT __attribute__((visibility("default")))

static char any;

static long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : otherwise;
}

/* What makes and unmakes a thing, and sets an attribute of one. */
#define MAKE(name)                                                                                                     \
  EXPORT int name(void **out) {                                                                                        \
    *out = &any;                                                                                                       \
    return 0;                                                                                                          \
  }
#define UNMAKE(name)                                                                                                   \
  EXPORT int name(void *which) {                                                                                       \
    return which != &any;                                                                                              \
  }
#define SET(name)                                                                                                      \
  EXPORT int name(void *which, int attribute, const void *value, size_t bytes) {                                       \
    (void)attribute, (void)value, (void)bytes;                                                                         \
    return which != &any;                                                                                              \
  }

#ifndef NCCL
/* Calls leave their numbers in their stream, behind that of the one before. fake_library_calls counts them from
 * fake_library_reset on; fake_library_in_order: did each run after the one before it? */
enum { kMostCalls = 4000 };
typedef int (*copy_function)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
static int numbers[kMostCalls], before[kMostCalls], latest, calls;

static void copy(int *to, const int *from, void *stream) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *found = driver ? dlsym(driver, "cuMemcpyDtoDAsync_v2") : NULL;
  copy_function function;
  memcpy(&function, &found, sizeof function);
  if (found) (void)function((uintptr_t)to, (uintptr_t)from, sizeof *to, stream);
}
static void leave_number(void *stream) {
  if (calls == kMostCalls) abort();
  numbers[calls] = calls;
  copy(&before[calls], &latest, stream);
  copy(&latest, &numbers[calls], stream);
  calls++;
}
EXPORT void fake_library_reset(void) {
  calls = 0;
}
EXPORT int fake_library_calls(void) {
  return calls;
}
EXPORT int fake_library_in_order(void) {
  int right = 1;
  for (int i = 1; i < calls; i++) right &= before[i] == i - 1;
  return right;
}
#endif

#ifdef CUBLASLT
EXPORT size_t cublasLtGetVersion(void) {
  return (size_t)setting("FAKE_CUBLASLT_VERSION", 130000);
}
MAKE(cublasLtCreate)
UNMAKE(cublasLtDestroy)
EXPORT int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
  (void)compute, (void)scale;
  *out = &any;
  return 0;
}
UNMAKE(cublasLtMatmulDescDestroy)
SET(cublasLtMatmulDescSetAttribute)
EXPORT int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t step) {
  (void)type, (void)columns;
  *out = &any;
  return step < (int64_t)rows ? 7 : 0;
}
UNMAKE(cublasLtMatrixLayoutDestroy)
SET(cublasLtMatrixLayoutSetAttribute)
MAKE(cublasLtMatmulPreferenceCreate)
UNMAKE(cublasLtMatmulPreferenceDestroy)
SET(cublasLtMatmulPreferenceSetAttribute)
typedef struct found {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} found;
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                          void *preference, int room, found *out, int *count) {
  (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)room;
  *out = (found){.waves = 1};
  *count = (int)setting("FAKE_CUBLASLT_COUNT", 1);
  return 0;
}
EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *of_a, const void *b,
                          void *of_b, const void *beta, const void *c, void *of_c, void *d, void *of_d,
                          const void *algorithm, void *workspace, size_t bytes, void *stream) {
  (void)handle, (void)desc, (void)alpha, (void)a, (void)of_a, (void)b, (void)of_b, (void)beta, (void)c, (void)of_c;
  (void)d, (void)of_d, (void)algorithm, (void)workspace, (void)bytes;
  leave_number(stream);
  return 0;
}
#elif defined(NCCL)
typedef struct id {
  char bytes[128];
} id;
EXPORT const char *ncclGetErrorString(int code) {
  return code == 2 ? "a fault of the system" : "no error";
}
EXPORT int ncclGetUniqueId(id *out) {
  *out = (id){"the first process"};
  return setting("FAKE_NCCL_NAMELESS", 0) ? 2 : 0;
}
EXPORT int ncclCommInitRank(void **out, int size, id from, int rank) {
  *out = &any;
  return size < 2 || rank >= size || from.bytes[0] != 't' ? 4 : rank == setting("FAKE_NCCL_FAIL", -1) ? 2 : 0;
}
UNMAKE(ncclCommAbort)
EXPORT int ncclCommGetAsyncError(void *which, int *code) {
  *code = 0;
  return which != &any;
}
EXPORT int ncclGroupStart(void) {
  return 0;
}
EXPORT int ncclGroupEnd(void) {
  return 0;
}
EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, void *which, void *stream) {
  (void)from, (void)to, (void)count, (void)type, (void)how, (void)stream;
  return which != &any;
}
EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, void *which, void *stream) {
  (void)from, (void)to, (void)count, (void)type, (void)stream;
  return which != &any;
}
#else
EXPORT size_t cudnnGetVersion(void) {
  return (size_t)setting("FAKE_CUDNN_VERSION", 91900);
}
MAKE(cudnnCreate)
UNMAKE(cudnnDestroy)
static void *its_stream;
EXPORT int cudnnSetStream(void *handle, void *stream) {
  its_stream = stream;
  return handle != &any;
}
MAKE(cudnnCreateTensorDescriptor)
UNMAKE(cudnnDestroyTensorDescriptor)
EXPORT int cudnnSetTensorNdDescriptor(void *tensor, int type, int rank, const int *dims, const int *steps) {
  (void)tensor, (void)type;
  for (int i = 0; i < rank; i++)
    if (dims[i] < 1 || steps[i] < 1) return 2000;
  return 0;
}
MAKE(cudnnCreateFilterDescriptor)
UNMAKE(cudnnDestroyFilterDescriptor)
EXPORT int cudnnSetFilterNdDescriptor(void *filter, int type, int format, int rank, const int *dims) {
  (void)filter, (void)type, (void)format, (void)rank, (void)dims;
  return 0;
}
MAKE(cudnnCreateConvolutionDescriptor)
UNMAKE(cudnnDestroyConvolutionDescriptor)
EXPORT int cudnnSetConvolutionNdDescriptor(void *conv, int rank, const int *pads, const int *strides,
                                           const int *dilations, int mode, int type) {
  (void)conv, (void)rank, (void)pads, (void)strides, (void)dilations, (void)mode, (void)type;
  return 0;
}
EXPORT int cudnnSetConvolutionGroupCount(void *conv, int groups) {
  (void)conv;
  return groups < 1 ? 2000 : 0;
}
EXPORT int cudnnSetConvolutionMathType(void *conv, int math) {
  (void)conv, (void)math;
  return 0;
}
MAKE(cudnnCreateActivationDescriptor)
UNMAKE(cudnnDestroyActivationDescriptor)
EXPORT int cudnnSetActivationDescriptor(void *activation, int mode, int nan, double coefficient) {
  (void)activation, (void)mode, (void)nan, (void)coefficient;
  return 0;
}
typedef struct found {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
} found;
#define FIND(name)                                                                                                     \
  EXPORT int name(void *handle, void *a, void *b, void *conv, void *c, int room, int *count, found *out) {             \
    (void)handle, (void)a, (void)b, (void)conv, (void)c, (void)room;                                                   \
    *out = (found){.determinism = 1};                                                                                  \
    *count = 1;                                                                                                        \
    return 0;                                                                                                          \
  }
FIND(cudnnGetConvolutionForwardAlgorithm_v7)
FIND(cudnnGetConvolutionBackwardDataAlgorithm_v7)
FIND(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *x, void *w, void *conv, void *y, int algorithm,
                                                   size_t *bytes) {
  (void)handle, (void)x, (void)w, (void)conv, (void)y, (void)algorithm;
  *bytes = (size_t)setting("FAKE_CUDNN_WORKSPACE", 0);
  return 0;
}
#define RUN(name)                                                                                                      \
  EXPORT int name(void *handle, const void *alpha, void *of_a, const void *a, void *of_b, const void *b, void *conv,   \
                  int algorithm, void *workspace, size_t bytes, const void *beta, void *of_c, void *c) {               \
    (void)handle, (void)alpha, (void)of_a, (void)a, (void)of_b, (void)b, (void)conv, (void)algorithm;                  \
    (void)workspace, (void)bytes, (void)beta, (void)of_c, (void)c;                                                     \
    leave_number(its_stream);                                                                                          \
    return 0;                                                                                                          \
  }
RUN(cudnnConvolutionForward)
RUN(cudnnConvolutionBackwardData)
RUN(cudnnConvolutionBackwardFilter)
EXPORT int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, void *of_x, const void *x, void *of_w,
                                                 const void *w, void *conv, int algorithm, void *workspace,
                                                 size_t bytes, const void *beta, void *of_z, const void *z,
                                                 void *of_bias, const void *bias, void *activation, void *of_y,
                                                 void *y) {
  (void)handle, (void)alpha, (void)of_x, (void)x, (void)of_w, (void)w, (void)conv, (void)algorithm, (void)workspace;
  (void)bytes, (void)beta, (void)of_z, (void)z, (void)of_bias, (void)bias, (void)activation, (void)of_y, (void)y;
  leave_number(its_stream);
  return 0;
}
#endif
