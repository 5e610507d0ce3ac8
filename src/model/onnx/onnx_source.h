/* Where an ONNX model's bytes come from: its file and the files of its external data, or memory of the caller's.
 *
 * Tensors are read into memory of their own, so that nothing refers to a file once its source is closed. */
#ifndef BRAID_MODEL_ONNX_SOURCE_H
#define BRAID_MODEL_ONNX_SOURCE_H

#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "braid/model.h"
#include "onnx.pb-c.h"

#define BRAID_ONNX_MAX_FILE_BYTES (64ull << 30)

typedef struct braid_onnx_source {
  const braid_allocator *allocator;
  const char *path;                 /* of the model, borrowed */
  braid_custom_ops *custom_ops;     /* borrowed; NULL: the process's */
  const braid_log *log;             /* borrowed; NULL: none */
  const braid_model_memory *memory; /* which it comes from in place of a file; NULL: a file */
  braid_reader *file;
  braid_reader **external; /* opened so far; all but `current` parked: some models have a file for each tensor */
  braid_reader *current;
  size_t external_count, external_capacity;
  braid_name_map *external_names; /* location -> index in external; NULL until the first */
} braid_onnx_source;

BRAID_MUST_CHECK braid_status braid_onnx_source_open(const braid_allocator *allocator, const char *path,
                                                     braid_onnx_source *out);
/* A model in memory in place of its files; it must outlive the source, and its name must not be NULL. */
BRAID_MUST_CHECK braid_status braid_onnx_source_wrap(const braid_allocator *allocator, const braid_model_memory *memory,
                                                     braid_onnx_source *out);
/* IO if one of its files changed since it was opened. */
BRAID_MUST_CHECK braid_status braid_onnx_source_check(const braid_onnx_source *source);
void braid_onnx_source_close(braid_onnx_source *source);

/* `location` of external data without its "." and "NAME/..", as one file is to have one name; *path is empty before. It
 * is relative to the model's folder; INVALID_FILE: it leads out of it, or names a folder. */
BRAID_MUST_CHECK braid_status braid_onnx_normalize_location(const char *location, braid_text *path);

/* A tensor in any of the ways TensorProto can store one: typed fields, raw_data (also where braid_onnx_unpack has left
 * it in the file), external data. UNSUPPORTED: an element type without a braid_dtype, or too many dimensions. */
BRAID_MUST_CHECK braid_status braid_onnx_tensor(braid_onnx_source *source, const Onnx__TensorProto *proto,
                                                braid_tensor **out);
/* The dense form of a sparse tensor. */
BRAID_MUST_CHECK braid_status braid_onnx_sparse_tensor(braid_onnx_source *source, const Onnx__SparseTensorProto *proto,
                                                       braid_tensor **out);
#endif
