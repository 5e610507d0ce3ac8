/* Buffers to and from other libraries by DLPack. */
#include "runtime/surface/dlpack.h"

#include "base/try.h"
#include "runtime/surface/buffer.h"

static const struct dlpack_dtype {
  uint8_t code, bits;
  braid_dtype dtype;
} kTypes[] = {
    {kDlpackFloat, 32, BRAID_F32},
    {kDlpackFloat, 64, BRAID_F64},
    {kDlpackFloat, 16, BRAID_F16},
    {kDlpackBfloat, 16, BRAID_BF16},
    {kDlpackInt, 8, BRAID_I8},
    {kDlpackInt, 16, BRAID_I16},
    {kDlpackInt, 32, BRAID_I32},
    {kDlpackInt, 64, BRAID_I64},
    {kDlpackUint, 8, BRAID_U8},
    {kDlpackUint, 16, BRAID_U16},
    {kDlpackUint, 32, BRAID_U32},
    {kDlpackUint, 64, BRAID_U64},
    {kDlpackBool, 8, BRAID_BOOL},
    {kDlpackFloat8E4m3fn, 8, BRAID_F8E4M3FN},
    {kDlpackFloat8E4m3fnuz, 8, BRAID_F8E4M3FNUZ},
    {kDlpackFloat8E5m2, 8, BRAID_F8E5M2},
    {kDlpackFloat8E5m2fnuz, 8, BRAID_F8E5M2FNUZ},
    {kDlpackFloat8E8m0, 8, BRAID_F8E8M0},
}; /* elements of 4 and 2 bits are packed there */
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

/* --- import --------------------------------------------------------------------------------------------------------
 */
static braid_dtype dlpack_dtype(const braid_dlpack_type *type) {
  for (size_t i = 0; i < kTypeCount && type->lanes == 1; i++)
    if (kTypes[i].code == type->code && kTypes[i].bits == type->bits) return kTypes[i].dtype;
  return BRAID_NONE;
}

/* Strides of dimensions of one element mean nothing, and none does where there are no elements. */
static bool dlpack_is_row_major(const braid_dlpack_tensor *tensor, const braid_desc *desc) {
  int64_t step = 1;
  if (!tensor->strides || !braid_desc_count(desc)) return true;
  for (int i = desc->rank; i-- > 0;) {
    if (desc->dims[i] != 1 && tensor->strides[i] != step) return false;
    step *= desc->dims[i];
  }
  return true;
}

static braid_status dlpack_desc(const braid_dlpack_tensor *tensor, braid_desc *out) {
  const braid_dlpack_type *type = &tensor->type;
  bool host = tensor->device == kDlpackCpu || tensor->device == kDlpackCudaHost || tensor->device == kDlpackRocmHost;
  if (!host)
    return braid_fail(BRAID_UNSUPPORTED, "a DLPack tensor on device type %d, only host memory (%d) is taken",
                      tensor->device, kDlpackCpu);
  braid_dtype dtype = dlpack_dtype(type);
  if (dtype == BRAID_NONE)
    return braid_fail(BRAID_UNSUPPORTED, "a DLPack tensor of type code %d with %d bits and %d lanes", type->code,
                      type->bits, type->lanes);
  if (tensor->rank < 0 || tensor->rank > BRAID_MAX_RANK)
    return braid_fail(BRAID_UNSUPPORTED, "a DLPack tensor of %d dimensions, at most %d are carried", tensor->rank,
                      BRAID_MAX_RANK);
  if (tensor->rank && !tensor->shape)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a DLPack tensor of %d dimensions without a shape", tensor->rank);
  BRAID_TRY(braid_desc_init(out, dtype, tensor->rank, tensor->shape));
  if (dlpack_is_row_major(tensor, out)) return BRAID_OK;
  char text[128];
  return braid_fail(BRAID_UNSUPPORTED, "a DLPack tensor %s with strides that are not row-major: make it contiguous",
                    braid_desc_format(out, text, sizeof text));
}

static braid_status dlpack_import(braid_machine *machine, const braid_dlpack_tensor *tensor, bool read_only,
                                  void (*release)(void *context), void *context, braid_buffer **out) {
  braid_desc desc;
  BRAID_TRY(dlpack_desc(tensor, &desc));
  uint8_t *data = tensor->data ? (uint8_t *)tensor->data + tensor->byte_offset : NULL;
  return braid_buffer_adopt(machine, &desc, data, read_only, release, context, out);
}

static void dlpack_release(void *context) {
  struct DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static void dlpack_release_versioned(void *context) {
  struct DLManagedTensorVersioned *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

braid_status braid_buffer_import_dlpack(braid_machine *machine, struct DLManagedTensor *tensor, braid_buffer **out) {
  *out = NULL;
  return dlpack_import(machine, &tensor->tensor, false, dlpack_release, tensor, out);
}

braid_status braid_buffer_import_dlpack_versioned(braid_machine *machine, struct DLManagedTensorVersioned *tensor,
                                                  braid_buffer **out) {
  *out = NULL;
  if (tensor->major != kDlpackMajor)
    return braid_fail(BRAID_UNSUPPORTED, "a DLPack tensor of version %u.%u, expected %d", tensor->major, tensor->minor,
                      kDlpackMajor);
  bool read_only = tensor->flags & kDlpackReadOnly;
  return dlpack_import(machine, &tensor->tensor, read_only, dlpack_release_versioned, tensor, out);
}

/* --- export --------------------------------------------------------------------------------------------------------
 */
typedef struct dlpack_export {
  union {
    struct DLManagedTensor plain;
    struct DLManagedTensorVersioned versioned;
  };
  const braid_allocator *allocator;
  braid_machine *machine; /* whose the allocator may be */
  braid_buffer *buffer;
  int64_t shape[BRAID_MAX_RANK], strides[BRAID_MAX_RANK];
} dlpack_export;

static void dlpack_free(dlpack_export *export) {
  braid_machine *machine = export->machine;
  braid_buffer_release(export->buffer);
  braid_free(export->allocator, export);
  braid_machine_release(machine);
}

static void dlpack_delete(struct DLManagedTensor *self) {
  dlpack_free(self->context);
}

static void dlpack_delete_versioned(struct DLManagedTensorVersioned *self) {
  dlpack_free(self->context);
}

static braid_status dlpack_make(braid_buffer *buffer, dlpack_export **out, braid_dlpack_tensor *tensor) {
  const braid_desc *desc = &buffer->desc;
  braid_binding place = braid_buffer_binding(buffer);
  if (!place.host)
    return braid_fail(BRAID_UNSUPPORTED, "a buffer on device %s: DLPack tensors are made of host memory, read it first",
                      braid_buffer_device(buffer));
  const struct dlpack_dtype *type = kTypes;
  while (type < kTypes + kTypeCount && type->dtype != desc->dtype) type++;
  if (type == kTypes + kTypeCount)
    return braid_fail(BRAID_UNSUPPORTED, "DLPack packs %s, a buffer does not: cast it first",
                      braid_dtype_name(desc->dtype));
  braid_machine *machine = buffer->memory->machine;
  dlpack_export *export = *out = braid_zalloc(machine->allocator, sizeof *export);
  if (!export) return BRAID_NO_MEMORY;
  export->allocator = machine->allocator;
  export->machine = braid_machine_retain(machine);
  export->buffer = braid_buffer_retain(buffer);
  *tensor = (braid_dlpack_tensor){.data = place.host,
                                  .device = kDlpackCpu,
                                  .rank = desc->rank,
                                  .type = {type->code, type->bits, 1},
                                  .shape = export->shape,
                                  .strides = export->strides};
  int64_t step = 1;
  for (int i = desc->rank; i-- > 0; step *= desc->dims[i]) {
    export->shape[i] = desc->dims[i];
    export->strides[i] = step;
  }
  return BRAID_OK;
}

braid_status braid_buffer_export_dlpack(braid_buffer *buffer, struct DLManagedTensor **out) {
  dlpack_export *export;
  braid_dlpack_tensor tensor;
  *out = NULL;
  if (buffer->memory->read_only)
    return braid_fail(BRAID_UNSUPPORTED, "the memory is read-only, which only a versioned DLPack tensor can say");
  BRAID_TRY(dlpack_make(buffer, &export, &tensor));
  export->plain = (struct DLManagedTensor){tensor, export, dlpack_delete};
  *out = &export->plain;
  return BRAID_OK;
}

braid_status braid_buffer_export_dlpack_versioned(braid_buffer *buffer, struct DLManagedTensorVersioned **out) {
  dlpack_export *export;
  braid_dlpack_tensor tensor;
  *out = NULL;
  BRAID_TRY(dlpack_make(buffer, &export, &tensor));
  export->versioned = (struct DLManagedTensorVersioned){
      kDlpackMajor, kDlpackMinor, export, dlpack_delete_versioned, buffer->memory->read_only ? kDlpackReadOnly : 0,
      tensor};
  *out = &export->versioned;
  return BRAID_OK;
}
