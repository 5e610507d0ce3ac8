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
/* `options` is never NULL. */
BRAID_MUST_CHECK braid_status braid_darknet_load(const braid_allocator *allocator, const char *path,
                                                 const braid_model_options *options, braid_graph **out);
BRAID_MUST_CHECK braid_status braid_darknet_parse(const braid_allocator *allocator, const braid_model_memory *memory,
                                                  braid_graph **out);
#endif
