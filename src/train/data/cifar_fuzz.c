/* Any bytes are records with labels in range, or a failure with a sentence. A record is mostly pixels, which nobody
 * looks at, so the input is what matters of a file: its version, how many records it has and how many bytes beyond
 * them, and the label bytes; the pixels are all 255, which is no label. */
#include "train/data/cifar.h"

#include <stdlib.h>
#include <string.h>

enum { kMost = 4, kPixels = 3072, kHead = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const uint8_t *file, size_t bytes, size_t label_bytes, int classes) {
  size_t record = label_bytes + kPixels;
  for (int64_t records = 0; records <= kMost; records++) {
    bool good = bytes == record * (size_t)records;
    for (size_t i = 0; good && i < (size_t)records; i++) good = file[i * record + label_bytes - 1] < classes;
    braid_status status = braid_cifar_check("fuzz", file, bytes, (int)label_bytes, classes, records);
    if ((status == BRAID_OK) != good || (status != BRAID_OK && !braid_error_detail()[0])) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  if (bytes < kHead) return 0;
  size_t label_bytes = 1 + data[0] % 2, record = label_bytes + kPixels, length = record * (data[1] % kMost);
  length += data[2];
  uint8_t *file = malloc(length + !length); /* of its very length, so that reads beyond it are seen */
  if (!file) return 0;
  memset(file, 0xff, length);
  for (size_t i = kHead, at = 0; i < bytes && at < length; i++) {
    file[at] = data[i];
    at += label_bytes == 2 && at % record == 0 ? 1 : record - at % record;
  }
  check(file, length, label_bytes, label_bytes == 1 ? 10 : 100);
  free(file);
  return 0;
}
