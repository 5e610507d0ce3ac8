/* Any text is a platform within its bounds, or a failure with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "device/platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_platform *platform;
  braid_status status = braid_platform_parse("input", data, bytes, &platform);
  if (status != BRAID_OK) {
    if (platform || (status != BRAID_NO_MEMORY && !braid_error_detail()[0])) abort();
    return 0;
  }
  for (unsigned i = 0; i < platform->devices_count; i++) {
    const braid_platform_device *device = &platform->devices[i];
    int64_t part;
    char options[512];
    if (braid_platform_find(platform, device->name, &part) != device || part != -1) abort();
    for (part = -1; part < device->parts; part++)
      if (braid_platform_options(device, part, "", options, sizeof options) && strlen(options) >= sizeof options)
        abort();
  }
  braid_platform_free(platform);
  return 0;
}
