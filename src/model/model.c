#include "model/model.h"

#include <string.h>

static bool ends_with(const char *path, const char *ending) {
  size_t length = strlen(path), tail = strlen(ending);
  return length >= tail && strcmp(path + length - tail, ending) == 0;
}

braid_status braid_model_load(const braid_allocator *allocator, const char *path, const braid_model_options *options,
                              braid_graph **out) {
  static const braid_model_options none = {0};
  *out = NULL;
  if (!options) options = &none;
  if (ends_with(path, ".cfg")) return braid_darknet_load(allocator, path, options, out);
  if (options->weights)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: weights in a separate file belong to a Darknet .cfg", path);
  return braid_onnx_load(allocator, path, out);
}
