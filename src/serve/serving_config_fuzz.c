/* Any text is a configuration within its bounds, or a failure with a sentence. */
#include <stdlib.h>

#include "serve/serving_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_serve_config *config;
  braid_status status = braid_serve_config_parse("input", data, bytes, &config);
  if ((status == BRAID_OK) != (config != NULL) || (status != BRAID_OK && !braid_error_detail()[0])) abort();
  if (config && (!config->models_count || !config->devices_count || !config->tenants_count)) abort();
  braid_serve_config_free(config);
  return 0;
}
