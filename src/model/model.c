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
  return braid_onnx_load(allocator, path, options, out);
}

braid_status braid_model_parse(const braid_allocator *allocator, const braid_model_memory *memory, braid_graph **out) {
  braid_model_memory own = *memory;
  *out = NULL;
  if (!own.name) own.name = "model";
  if (!own.data && own.bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: %zu bytes and no memory", own.name, own.bytes);
  bool darknet = own.format == BRAID_MODEL_DARKNET;
  if (!darknet && own.format != BRAID_MODEL_ONNX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: format %d, expected ONNX (%d) or Darknet (%d)", own.name,
                      (int)own.format, (int)BRAID_MODEL_ONNX, (int)BRAID_MODEL_DARKNET);
  if (!darknet && own.weights)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: weights apart from the model belong to Darknet", own.name);
  if (darknet && own.external) return braid_fail(BRAID_INVALID_ARGUMENT, "%s: external data belongs to ONNX", own.name);
  return darknet ? braid_darknet_parse(allocator, &own, out) : braid_onnx_parse(allocator, &own, out);
}
