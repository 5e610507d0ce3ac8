/* Model files: ONNX and Darknet import, ONNX export. */
#ifndef BRAID_MODEL_H
#define BRAID_MODEL_H

#include "braid/custom.h"
#include "braid/log.h"

typedef struct braid_model_options {
  const char *weights; /* Darknet: the .weights file; NULL: random weights from `seed` */
  uint64_t seed;
  braid_custom_ops *custom_ops; /* ops that ONNX does not define; NULL: those registered for the process */
  const braid_log *log;         /* for messages; NULL: none */
} braid_model_options;

/* Imports a model as a graph: Darknet if the path ends in .cfg, else ONNX. Shapes are those of the file (dynamic
 * dimensions are -1); nothing is folded. options may be NULL. INVALID_FILE: truncated, corrupted, cyclic, too large or
 * of wrong types. UNSUPPORTED: an op or attribute that Braid does not have. The detail names file, node and what was
 * expected. The files are read completely and not used afterwards. IO also if a file is changed while it is read. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_load(const braid_allocator *allocator, const char *path,
                                                         const braid_model_options *options, braid_graph **out);

typedef enum braid_model_format { BRAID_MODEL_ONNX = 0, BRAID_MODEL_DARKNET } braid_model_format;

/* A model in memory. With only `data` and `bytes` set: ONNX without external data. The caller's memory is not used
 * after braid_model_parse has returned. */
typedef struct braid_model_memory {
  const void *data; /* the contents of the .onnx or .cfg file */
  size_t bytes;
  braid_model_format format;
  const char *name;    /* used in error messages in place of a path; NULL: "model" */
  const void *weights; /* Darknet: the contents of the .weights file; NULL: random weights from `seed` */
  size_t weights_bytes;
  uint64_t seed;
  /* ONNX: returns the contents of a file of external data, valid until braid_model_parse returns. `location` is a
   * relative path without "." and "..", however the model writes it; called once per location. If it fails, parsing
   * fails with its status. NULL: models with external data are UNSUPPORTED. */
  braid_status (*external)(void *context, const char *location, const void **data, size_t *bytes);
  void *context;
  braid_custom_ops *custom_ops; /* as in braid_model_options */
  const braid_log *log;
} braid_model_memory;

/* As braid_model_load, from memory, with the same limits and errors. No file is opened. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_parse(const braid_allocator *allocator,
                                                          const braid_model_memory *memory, braid_graph **out);

/* Writes the graph as ONNX: opset 17, or the first later one that has all of its ops. The file is written atomically.
 * Parameters and states become initializers. Dynamic dimensions of inputs stay dynamic. Ops of other domains
 * ("domain.Op") are written with their domain, version 1. UNSUPPORTED names a node that ONNX cannot express. */
BRAID_API BRAID_MUST_CHECK braid_status braid_model_save_onnx(const braid_graph *graph, const char *path);

/* Reads an ONNX TensorProto file (input_0.pb of ONNX's test cases). UNSUPPORTED for sequences, optionals and element
 * types without a braid_dtype. */
BRAID_API BRAID_MUST_CHECK braid_status braid_onnx_tensor_load(const braid_allocator *allocator, const char *path,
                                                               braid_tensor **out);

#endif
