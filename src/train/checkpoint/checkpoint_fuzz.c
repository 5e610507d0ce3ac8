/* Checkpoints from memory: whatever the bytes, an answer and no harm. */
#include "train/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  braid_checkpoint_file *file;
  if (braid_checkpoint_parse(NULL, "fuzz", data, size, &file) != BRAID_OK) return 0;
  for (size_t i = 0; i < braid_checkpoint_count(file); i++) {
    braid_desc desc;
    const uint8_t *bytes = braid_checkpoint_find(file, braid_checkpoint_name(file, i), &desc);
    uint8_t sum = 0;
    for (size_t j = 0; j < braid_desc_bytes(&desc); j++) sum = (uint8_t)(sum + bytes[j]);
    (void)sum;
  }
  braid_checkpoint_close(file);
  return 0;
}
