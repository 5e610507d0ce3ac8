/* Where an ONNX model's bytes come from: the file, mapped, and the files of its external data.
 *
 * Tensors made from a source may point into a mapping; each holds a reference to it, so that the mapping lives as long
 * as the last of them, whatever happens to the source. */
#ifndef BRAID_MODEL_ONNX_SOURCE_H
#define BRAID_MODEL_ONNX_SOURCE_H

#include "base/map.h"
#include "braid/tensor.h"
#include "model/mapping.h"
#include "onnx.pb-c.h"

#define BRAID_ONNX_MAX_FILE_BYTES (64ull << 30)

typedef struct braid_onnx_source {
  const braid_allocator *allocator;
  const char *path; /* of the model, borrowed */
  braid_mapping *file;
  braid_mapping **external; /* opened so far */
  size_t external_count, external_capacity;
  braid_name_map *external_names; /* location -> index in external; NULL until the first */
} braid_onnx_source;

/* Maps the file. */
BRAID_MUST_CHECK braid_status braid_onnx_source_open(const braid_allocator *allocator, const char *path,
                                                     braid_onnx_source *out);
/* Bytes that are nobody's file (tests, fuzzing): copied. `path` is for messages and external data. */
BRAID_MUST_CHECK braid_status braid_onnx_source_wrap(const braid_allocator *allocator, const char *path,
                                                     const uint8_t *data, size_t bytes, braid_onnx_source *out);
void braid_onnx_source_close(braid_onnx_source *source);
const uint8_t *braid_onnx_source_data(const braid_onnx_source *source, size_t *bytes);

/* A tensor in any of the ways TensorProto can store one: typed fields, raw_data (also where braid_onnx_reduce has left
 * it in the file), external data. Points into the mapping where size and alignment allow, else is a copy. UNSUPPORTED:
 * an element type without a braid_dtype, or too many dimensions. */
BRAID_MUST_CHECK braid_status braid_onnx_tensor(braid_onnx_source *source, const Onnx__TensorProto *proto,
                                                braid_tensor **out);
/* The dense form of a sparse tensor. */
BRAID_MUST_CHECK braid_status braid_onnx_sparse_tensor(braid_onnx_source *source, const Onnx__SparseTensorProto *proto,
                                                       braid_tensor **out);
#endif
