/* ONNX files on the wire: a pass over the bytes before protobuf-c sees them.
 *
 * A model is mostly weights, and protobuf-c would copy every one of them. The pass checks the structure (lengths, wire
 * types, nesting, number of messages), and writes a reduced copy in which each large raw_data is left out: in its place
 * stands TensorProto.segment, whose begin and end say where in the file the bytes lie. Files that use `segment` for
 * what ONNX meant it (a tensor stored in pieces, which no tool writes) are refused, so the two can't be confused. */
#ifndef BRAID_MODEL_ONNX_WIRE_H
#define BRAID_MODEL_ONNX_WIRE_H

#include "base/file.h"
#include "onnx.pb-c.h"

enum {
  BRAID_ONNX_MAX_DEPTH = 100,         /* messages within messages, as protobuf's own limit */
  BRAID_ONNX_MAX_MESSAGES = 16 << 20, /* in one file: bounds what unpacking can allocate */
};

/* An allocator for protobuf-c over ours. The result refers to *allocator. */
ProtobufCAllocator braid_onnx_allocator(const braid_allocator *allocator);

/* Reduces and unpacks; `type` is what the file should be (ModelProto, TensorProto). INVALID_FILE with the byte offset.
 * Frees with protobuf_c_message_free_unpacked and the same allocator. */
BRAID_MUST_CHECK braid_status braid_onnx_unpack(const braid_allocator *allocator,
                                                const ProtobufCMessageDescriptor *type, braid_reader *file,
                                                ProtobufCMessage **out);
#endif
