/* Any text is a manifest that was checked, or a failure with a sentence; formulas end. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/manifest.h"
#include "launch/formula.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_cl_manifest_file *file;
  braid_status status = braid_cl_manifest_parse("input", data, bytes, &file);
  if (status != BRAID_OK && (file || (status != BRAID_NO_MEMORY && !braid_error_detail()[0]))) abort();
  if (status == BRAID_OK && !file->kernels_count) abort();
  braid_cl_manifest_free(file);
  char *text = malloc(bytes + 1);
  if (!text) return 0;
  if (bytes) memcpy(text, data, bytes);
  text[bytes] = '\0';
  static const char *const kNames[] = {"turn"};
  int64_t ignored;
  (void)!braid_launch_formula(text, &(braid_launch_scope){.node_count = 3, .names = kNames, .name_count = 1}, &ignored);
  char part;
  int64_t axis, size;
  if (braid_cl_read_axis(text, &axis, &part, &size) && (axis < 0 || axis >= BRAID_MAX_RANK || size < 1)) abort();
  free(text);
  return 0;
}
