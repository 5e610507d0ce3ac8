/* Any bytes are an IDX array within their bounds, or a failure with a sentence. */
#include "train/data/idx.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_idx idx;
  if (braid_idx_parse("fuzz", data, bytes, &idx) != BRAID_OK) {
    if (!braid_error_detail()[0]) abort();
    return 0;
  }
  size_t count = 1;
  for (int i = 0; i < idx.rank; i++) count *= idx.dims[i];
  unsigned sum = 0;
  for (size_t i = 0; i < count; i++) sum += idx.elements[i];
  volatile unsigned read = sum; /* so that no element is left unread */
  (void)read;
  return 0;
}
