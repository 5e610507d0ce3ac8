/* Any text is a SPEC within its bounds, or a failure with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "train/data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void try_spec(const char *text, bool keys_only) {
  braid_spec spec;
  if (braid_spec_parse(NULL, text, keys_only, "train", &spec) != BRAID_OK) {
    if (spec.path || !braid_error_detail()[0]) abort();
    return;
  }
  if (!keys_only && (!spec.path || !spec.path[0] || !spec.kind[0])) abort();
  if (spec.means > BRAID_SPEC_CHANNELS || spec.stds > BRAID_SPEC_CHANNELS || spec.limit < 0 || spec.pad < 0) abort();
  if (strcmp(spec.split, "train") != 0 && strcmp(spec.split, "test") != 0) abort();
  braid_spec_deinit(NULL, &spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char *text = malloc(bytes + 1);
  if (!text) return 0;
  if (bytes) memcpy(text, data, bytes);
  text[bytes] = '\0';
  try_spec(text, false);
  try_spec(text, true);
  free(text);
  return 0;
}
