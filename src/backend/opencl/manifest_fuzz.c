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
  (void)!braid_launch_formula_check(text);
  free(text);
  return 0;
}
