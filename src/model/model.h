/* Model files: what onnx/ and darknet/ share. ONNX is read and written through protobuf-c, from ONNX's own .proto. */
#ifndef BRAID_MODEL_MODEL_H
#define BRAID_MODEL_MODEL_H

#include "braid/model.h"

/* In the metadata of a trained model, before the name of an initializer: "yes" if it trained, "no" if it stayed fixed.
 * So that what is trained again is the same. */
#define BRAID_ONNX_TRAINS "braid.trains."

/* What braid_model_save_onnx would say of the graph, without writing. */
BRAID_MUST_CHECK braid_status braid_onnx_check_save(const braid_graph *graph);
/* `options` is never NULL. */
BRAID_MUST_CHECK braid_status braid_onnx_load(const braid_allocator *allocator, const char *path,
                                              const braid_model_options *options, braid_graph **out);
BRAID_MUST_CHECK braid_status braid_onnx_parse(const braid_allocator *allocator, const braid_model_memory *memory,
                                               braid_graph **out);

/* Files that a model names. */
typedef struct braid_model_locations {
  char **names; /* relative to the model's folder, without "." and "..", each once */
  size_t count, capacity;
} braid_model_locations;
enum { BRAID_MODEL_MOST_LOCATIONS = 16384 };
/* Where the external data of an ONNX file is, in the order in which the file names it; the weights are not read.
 * INVALID_FILE: it is no ONNX file, or names a place outside its folder, or more places than MOST_LOCATIONS. *out is
 * freed with deinit, also on failure. */
BRAID_MUST_CHECK braid_status braid_onnx_locations(const braid_allocator *allocator, const char *path,
                                                   braid_model_locations *out);
void braid_model_locations_deinit(const braid_allocator *allocator, braid_model_locations *locations);

/* `options` is never NULL. */
BRAID_MUST_CHECK braid_status braid_darknet_load(const braid_allocator *allocator, const char *path,
                                                 const braid_model_options *options, braid_graph **out);
BRAID_MUST_CHECK braid_status braid_darknet_parse(const braid_allocator *allocator, const braid_model_memory *memory,
                                                  braid_graph **out);
#endif
