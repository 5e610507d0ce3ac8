/* Models in files and in memory: ONNX and Darknet in, ONNX out. */
#ifndef BRAID_MODEL_H
#define BRAID_MODEL_H

#include "braid/custom.h"

typedef struct braid_model_options {
  const char *weights; /* Darknet: the .weights file; NULL: random weights from `seed` */
  uint64_t seed;
  braid_custom_ops *custom_ops; /* where the model's other ops are found; NULL: those registered for the process */
} braid_model_options;

/* Reads a model by its contents and ending (.onnx, .cfg) into a graph; shapes are those the file gives (open dimensions
 * are -1), nothing is folded. options may be NULL. A file that is truncated, corrupted, cyclic, too large or wrongly
 * typed is INVALID_FILE, an op or attribute we do not have UNSUPPORTED; the detail names file, node and what was
 * expected. Everything is read here: what becomes of the files later changes nothing. IO if one is written to
 * meanwhile. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_load(const braid_allocator *allocator, const char *path,
                                                         const braid_model_options *options, braid_graph **out);

typedef enum braid_model_format { BRAID_MODEL_ONNX = 0, BRAID_MODEL_DARKNET } braid_model_format;

/* A model in memory. All zero but for `data` and `bytes`: ONNX without external data. Nothing of it is needed once
 * braid_model_parse has returned. */
typedef struct braid_model_memory {
  const void *data; /* the contents of the .onnx or .cfg file */
  size_t bytes;
  braid_model_format format;
  const char *name;    /* stands for the path in messages; NULL: "model" */
  const void *weights; /* Darknet: the contents of the .weights file; NULL: random weights from `seed` */
  size_t weights_bytes;
  uint64_t seed;
  /* ONNX: gives the contents of a file of external data, which must stay until parse returns. `location` is as the
   * model says it, relative and without "..", called once per location. A failure ends parsing with its status. NULL:
   * a model with external data is UNSUPPORTED. */
  braid_status (*external)(void *context, const char *location, const void **data, size_t *bytes);
  void *context;
  braid_custom_ops *custom_ops; /* as in braid_model_options */
} braid_model_memory;

/* As braid_model_load, with the same limits and errors, from memory; no file is opened. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_parse(const braid_allocator *allocator,
                                                          const braid_model_memory *memory, braid_graph **out);

/* Writes the graph's forward nodes as ONNX (opset 17, or the first that has what the graph uses), whole or not at all.
 * Values that are PARAMETER or STATE become initializers with their current tensors. Dimensions that the inputs leave
 * open stay open: the file takes every shape that the graph takes. Ops of other domains ("domain.Op") are written under
 * their domain, version 1. UNSUPPORTED names a node that ONNX cannot express. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_save_onnx(const braid_graph *graph, const char *path);

/* A tensor from an ONNX TensorProto file (the input_0.pb of conformance cases). UNSUPPORTED for sequences, optionals
 * and element types without a braid_dtype. */
BRAID_API BRAID_MUST_CHECK braid_status braid_onnx_tensor_load(const braid_allocator *allocator, const char *path,
                                                               braid_tensor **out);

#endif
