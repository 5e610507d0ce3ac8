/* What api.h says of CUDA's driver, beside NVIDIA's own header where that is installed. */
#include "backend/cuda/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "skip.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

_Static_assert(sizeof(braid_cuda_address) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(braid_cuda_id) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(braid_cuda_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(braid_cuda_update) == sizeof(CUgraphExecUpdateResultInfo), "CUgraphExecUpdateResultInfo");
_Static_assert((int)BRAID_CUDA_OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY, "");
_Static_assert((int)BRAID_CUDA_NO_DEVICE == CUDA_ERROR_NO_DEVICE, "");
_Static_assert((int)BRAID_CUDA_NO_BINARY_FOR_GPU == CUDA_ERROR_NO_BINARY_FOR_GPU, "");
_Static_assert((int)BRAID_CUDA_ALREADY_REGISTERED == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "");
_Static_assert((int)BRAID_CUDA_NOT_READY == CUDA_ERROR_NOT_READY, "");
_Static_assert((int)BRAID_CUDA_MAX_THREADS_PER_BLOCK == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "");
_Static_assert((int)BRAID_CUDA_MAX_BLOCK_X == CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, "");
_Static_assert((int)BRAID_CUDA_SHARED_PER_BLOCK == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, "");
_Static_assert((int)BRAID_CUDA_MULTIPROCESSORS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "");
_Static_assert((int)BRAID_CUDA_PCI_BUS == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, "");
_Static_assert((int)BRAID_CUDA_PCI_DEVICE == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, "");
_Static_assert((int)BRAID_CUDA_PCI_DOMAIN == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, "");
_Static_assert((int)BRAID_CUDA_CAPABILITY_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
_Static_assert((int)BRAID_CUDA_CAPABILITY_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
_Static_assert((int)BRAID_CUDA_SHARED_PER_BLOCK_AT_MOST == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "");
_Static_assert((int)BRAID_CUDA_CLUSTER_LAUNCH == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, "");
_Static_assert((int)BRAID_CUDA_DYNAMIC_SHARED == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "");
_Static_assert((int)BRAID_CUDA_RANGE_START == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "");
_Static_assert((int)BRAID_CUDA_RANGE_BYTES == CU_POINTER_ATTRIBUTE_RANGE_SIZE, "");
_Static_assert((int)BRAID_CUDA_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING, "");
_Static_assert((int)BRAID_CUDA_EVENT_UNTIMED == CU_EVENT_DISABLE_TIMING, "");
_Static_assert((int)BRAID_CUDA_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE, "");
_Static_assert((int)BRAID_CUDA_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP, "");
_Static_assert((int)BRAID_CUDA_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED, "");
_Static_assert((int)BRAID_CUDA_CAPTURE_SET_DEPENDENCIES == CU_STREAM_SET_CAPTURE_DEPENDENCIES, "");

static void test_statuses(void **state) {
  (void)state;
  static const CUresult kLost[] = {CUDA_ERROR_ILLEGAL_ADDRESS,     CUDA_ERROR_LAUNCH_FAILED,
                                   CUDA_ERROR_ECC_UNCORRECTABLE,   CUDA_ERROR_LAUNCH_TIMEOUT,
                                   CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
                                   CUDA_ERROR_EXTERNAL_DEVICE};
  for (size_t i = 0; i < sizeof kLost / sizeof *kLost; i++)
    assert_int_equal(braid_cuda_status((braid_cuda_result)kLost[i]), BRAID_DEVICE_LOST);
  assert_int_equal(braid_cuda_status(721 /* TENSOR_MEMORY_LEAK, of newer headers */), BRAID_DEVICE_LOST);
  assert_int_equal(braid_cuda_status(810 /* MPS_CLIENT_TERMINATED, the same */), BRAID_DEVICE_LOST);
  assert_int_equal(braid_cuda_status(CUDA_ERROR_OUT_OF_MEMORY), BRAID_NO_MEMORY);
  assert_int_equal(braid_cuda_status(CUDA_ERROR_INVALID_VALUE), BRAID_INTERNAL);
}
#else
static void test_statuses(void **state) {
  (void)state;
  skip_test("cuda.h", "CUDA's headers are not installed");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_statuses)};
  return skip_run_group_tests(tests, NULL, NULL);
}
