#include "model/model.h"

braid_status braid_model_load(const braid_allocator *allocator, const char *path, const braid_model_options *options,
                              braid_graph **out) {
  static const braid_model_options none = {0};
  *out = NULL;
  if (!options) options = &none;
  if (options->weights)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: weights in a separate file belong to a Darknet .cfg", path);
  return braid_onnx_load(allocator, path, out);
}
