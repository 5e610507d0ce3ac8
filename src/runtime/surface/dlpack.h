/* DLPack's structs, written down from its public specification (version 1.1): the names and the layout are what
 * libraries exchange. The enumerations are numbers here; those that are looked at are named. */
#ifndef BRAID_RUNTIME_DLPACK_H
#define BRAID_RUNTIME_DLPACK_H

#include <stdint.h>

enum { kDlpackMajor = 1, kDlpackMinor = 1 };
enum { kDlpackCpu = 1, kDlpackCudaHost = 3, kDlpackRocmHost = 11 }; /* devices whose memory the host can use */
enum { kDlpackInt = 0, kDlpackUint = 1, kDlpackFloat = 2, kDlpackBfloat = 4, kDlpackBool = 6 };
enum {
  kDlpackFloat8E4m3fn = 10,
  kDlpackFloat8E4m3fnuz = 11,
  kDlpackFloat8E5m2 = 12,
  kDlpackFloat8E5m2fnuz = 13,
  kDlpackFloat8E8m0 = 14
};
enum { kDlpackReadOnly = 1 }; /* a flag */

typedef struct braid_dlpack_type {
  uint8_t code, bits;
  uint16_t lanes;
} braid_dlpack_type;

typedef struct braid_dlpack_tensor {
  void *data;
  int32_t device, device_number;
  int32_t rank;
  braid_dlpack_type type;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} braid_dlpack_tensor;

struct DLManagedTensor {
  braid_dlpack_tensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
  uint32_t major, minor; /* tensors of another major version have other members behind `deleter` */
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  braid_dlpack_tensor tensor;
};

#endif
