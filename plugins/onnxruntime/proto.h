/* Writes protobuf messages, the format of ONNX files, into memory that grows. */
#ifndef BRAID_ORT_PROTO_H
#define BRAID_ORT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct braid_ort_proto {
  unsigned char *data;
  size_t bytes, capacity;
  bool failed; /* out of memory: what follows is not written */
} braid_ort_proto;

/* All zero is an empty message. */
void braid_ort_proto_free(braid_ort_proto *proto);
void braid_ort_proto_int(braid_ort_proto *proto, int field, int64_t value);
void braid_ort_proto_float(braid_ort_proto *proto, int field, float value);
void braid_ort_proto_bytes(braid_ort_proto *proto, int field, const void *data, size_t bytes);
void braid_ort_proto_text(braid_ort_proto *proto, int field, const char *text);
/* A message inside: what is written until `end` is its contents. begin returns what end takes. */
size_t braid_ort_proto_begin(braid_ort_proto *proto, int field);
void braid_ort_proto_end(braid_ort_proto *proto, size_t begun);

#endif
