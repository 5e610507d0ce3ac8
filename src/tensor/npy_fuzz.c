/* Any bytes are either a tensor that can be read to its last element, or a failure with a sentence. */
#include "tensor/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_tensor *tensor;
  braid_status status = braid_npy_parse(NULL, "fuzz", data, bytes, &tensor);
  if (status != BRAID_OK) {
    if (tensor || !braid_error_detail()[0]) abort();
    return 0;
  }
  int64_t count = braid_desc_count(braid_tensor_desc(tensor));
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += braid_tensor_get_f64(tensor, i);
  volatile double read = sum; /* so that no element is left unread */
  (void)read;
  braid_tensor_release(tensor);
  return 0;
}
