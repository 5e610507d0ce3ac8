/* Any bytes are records with labels in range, or a failure with a sentence. */
#include "train/cifar.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  int label_bytes = bytes % 2 ? 1 : 2, classes = label_bytes == 1 ? 10 : 100;
  size_t record = (size_t)label_bytes + 3072;
  for (int64_t records = 0; records <= 2; records++) {
    if (braid_cifar_check("fuzz", data, bytes, label_bytes, classes, records) != BRAID_OK) {
      if (!braid_error_detail()[0]) abort();
      continue;
    }
    if (bytes != record * (size_t)records) abort();
    for (size_t i = 0; i < (size_t)records; i++)
      if (data[i * record + (size_t)label_bytes - 1] >= classes) abort();
  }
  return 0;
}
