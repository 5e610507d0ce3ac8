#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "braid/tensor.h"

static const struct {
  const char *name;
  size_t bytes;
} kTypes[BRAID_DTYPE_COUNT] = {[BRAID_NONE] = {"none", 0},
#define ENTRY(id, text, size, npy) [BRAID_##id] = {text, size},
                               BRAID_DTYPE_MAP(ENTRY)
#undef ENTRY
};

static bool is_known(braid_dtype dtype) {
  return (int)dtype > BRAID_NONE && (int)dtype < BRAID_DTYPE_COUNT;
}

const char *braid_dtype_name(braid_dtype dtype) {
  return kTypes[is_known(dtype) ? dtype : BRAID_NONE].name;
}
size_t braid_dtype_size(braid_dtype dtype) {
  return is_known(dtype) ? kTypes[dtype].bytes : 0;
}

bool braid_dtype_is_float(braid_dtype dtype) {
  return dtype == BRAID_F32 || dtype == BRAID_F64 || dtype == BRAID_F16 || dtype == BRAID_BF16;
}

bool braid_dtype_is_narrow(braid_dtype dtype) {
  switch (dtype) {
#define NARROW(id, name, bytes, npy) case BRAID_##id:
    BRAID_NARROW_DTYPE_MAP(NARROW)
#undef NARROW
    return true;
  default:
    return false;
  }
}

braid_status braid_desc_init(braid_desc *desc, braid_dtype dtype, int rank, const int64_t *dims) {
  *desc = (braid_desc){.dtype = dtype, .rank = -1};
  if (!is_known(dtype)) return braid_fail(BRAID_INVALID_ARGUMENT, "element type %d is not known", (int)dtype);
  if (rank < 0 || rank > BRAID_MAX_RANK)
    return braid_fail(BRAID_OUT_OF_RANGE, "rank %d is outside 0..%d", rank, BRAID_MAX_RANK);
  int64_t bytes = (int64_t)braid_dtype_size(dtype);
  bool empty = false, fits = true;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return braid_fail(BRAID_OUT_OF_RANGE, "dimension %d is %" PRId64 ", at least 0", i, dims[i]);
    if (dims[i] == 0)
      empty = true;
    else if (fits)
      fits = braid_mul_i64(bytes, dims[i], &bytes);
  }
  /* a blocked layout may need 16 times as much */
  if (!empty && (!fits || bytes > INT64_MAX / 32))
    return braid_fail(BRAID_OUT_OF_RANGE, "a shape of rank %d whose size in bytes overflows", rank);
  desc->rank = rank;
  if (rank) memcpy(desc->dims, dims, (size_t)rank * sizeof *dims);
  return BRAID_OK;
}

int64_t braid_desc_count(const braid_desc *desc) {
  for (int i = 0; i < desc->rank; i++) {
    if (desc->dims[i] == 0) return 0; /* the product of the others may overflow */
  }
  int64_t count = 1;
  for (int i = 0; i < desc->rank; i++) count *= desc->dims[i];
  return count;
}

bool braid_desc_same_shape(const braid_desc *a, const braid_desc *b) {
  return a->rank == b->rank && (a->rank <= 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

char *braid_desc_format(const braid_desc *desc, char *buffer, size_t bytes) {
  size_t used = (size_t)snprintf(buffer, bytes, "%s[", braid_dtype_name(desc->dtype));
  if (desc->rank < 0 && used < bytes) used += (size_t)snprintf(buffer + used, bytes - used, "...");
  for (int i = 0; i < desc->rank && used < bytes; i++) {
    const char *comma = i ? "," : "";
    if (desc->dims[i] < 0)
      used += (size_t)snprintf(buffer + used, bytes - used, "%s?", comma);
    else
      used += (size_t)snprintf(buffer + used, bytes - used, "%s%" PRId64, comma, desc->dims[i]);
  }
  if (used < bytes) snprintf(buffer + used, bytes - used, "]");
  return buffer;
}
