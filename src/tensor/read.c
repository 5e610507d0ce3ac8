#include "tensor/read.h"

#include "base/try.h"
#include "tensor/narrow.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements in files are little endian and used as they are");

braid_status braid_tensor_read(const braid_allocator *allocator, braid_reader *reader, size_t offset,
                               const braid_desc *desc, braid_tensor **out) {
  *out = NULL;
  size_t total = braid_reader_bytes(reader), bytes = braid_packed_bytes(desc);
  if (offset > total || bytes > total - offset)
    return braid_fail(BRAID_INVALID_FILE, "%s: has %zu bytes, %zu from byte %zu on are expected",
                      braid_reader_name(reader), total, bytes, offset);
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(allocator, desc, &tensor));
  uint8_t *to = braid_tensor_data(tensor), *packed = to + braid_desc_bytes(desc) - bytes;
  braid_status status = braid_reader_get(reader, offset, packed, bytes);
  if (status != BRAID_OK) {
    braid_tensor_release(tensor);
    return status;
  }
  for (size_t i = 0; desc->dtype == BRAID_BOOL && i < bytes; i++) to[i] = to[i] != 0;
  if (braid_dtype_bits(desc->dtype) < 8) braid_narrow_unpack(desc->dtype, packed, braid_desc_count(desc), to);
  *out = tensor;
  return BRAID_OK;
}
