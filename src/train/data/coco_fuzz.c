/* Any bytes are annotations whose pictures have targets, or a failure with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "train/data/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  for (int kind = BRAID_TARGET_CLASS; kind <= BRAID_TARGET_LABELS; kind++) {
    braid_listing list;
    if (braid_coco_parse(NULL, "fuzz", data, bytes, (braid_target_kind)kind, &list) != BRAID_OK) {
      if (!braid_error_detail()[0]) abort();
      continue;
    }
    for (size_t i = 0; i < list.samples; i++)
      if (!list.files[i][0] || (list.labels && (size_t)list.labels[i] >= list.name_count)) abort();
    braid_listing_deinit(&list);
  }
  return 0;
}
