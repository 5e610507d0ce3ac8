/* Braid's own wire protocol: what stands in its messages, byte by byte. Shared by the daemon and libbraid-client, so it
 * stands on libc alone.
 *
 * A message is a header of 24 bytes and a body; numbers are little endian, texts are their length (uint16) and bytes
 * without a zero. A client begins with HELLO; the daemon answers each message by one of the same id whose kind has
 * BRAID_WIRE_REPLY added and whose body begins with a status and a sentence. Answers come in the order in which they
 * are ready. Over Unix sockets a descriptor travels (SCM_RIGHTS) with the first byte of a MEMORY message.
 *
 * Encoders append to a writer, whose `failed` says that memory ran out. Decoders return NULL, or a sentence of what is
 * wrong; they read nothing outside the body, and what they leave in *out fits its bounds. All functions may be called
 * by any thread. */
#ifndef BRAID_SERVE_WIRE_FORMAT_H
#define BRAID_SERVE_WIRE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define BRAID_WIRE_MAGIC 0x31445242u /* "BRD1" */

enum {
  BRAID_WIRE_VERSION = 1,
  BRAID_WIRE_HEADER = 24,
  BRAID_WIRE_NAME = 128, /* of a name, with its zero */
  BRAID_WIRE_TOKEN = 4097,
  BRAID_WIRE_DETAIL = 512,
  BRAID_WIRE_STATE = 513, /* of a tracestate */
  BRAID_WIRE_RANK = 8,
  BRAID_WIRE_PORTS = 64,
  BRAID_WIRE_SMALL = 16384,     /* message of any kind but LAUNCH, DATA and COMPILE, whole */
  BRAID_WIRE_PIECE = 256 << 10, /* bytes of a file in an answer */
  BRAID_WIRE_NONCE = 16,
  BRAID_WIRE_ADDRESS = 8192, /* bytes of a receiver's address, at most */
  BRAID_WIRE_REPLY = 0x8000
};

typedef enum braid_wire_kind {
  BRAID_WIRE_NOTICE = 0, /* only as a reply, of id 0: what was received is no message; the daemon closes */
  BRAID_WIRE_HELLO,      /* version, token; answered by a welcome */
  BRAID_WIRE_LIST,       /* models and their metadata */
  BRAID_WIRE_COMPILE,    /* an ONNX model's bytes; answered by its handle */
  BRAID_WIRE_FORGET,     /* frees a compiled model */
  BRAID_WIRE_DATA,       /* a named buffer of the connection */
  BRAID_WIRE_DROP,       /* frees a named buffer */
  BRAID_WIRE_MEMORY,     /* a sealed memfd becomes memory of the connection, under a number */
  BRAID_WIRE_UNMAP,
  BRAID_WIRE_CORES,   /* asks for instances of a device for the tenant alone */
  BRAID_WIRE_RELEASE, /* gives them back */
  BRAID_WIRE_LAUNCH,
  BRAID_WIRE_CANCEL, /* of the launch whose id is in the body */
  BRAID_WIRE_CLOSE,
  BRAID_WIRE_HARVEST, /* trains beside: memory whose first bytes become the connection's gate, until it ends */
  BRAID_WIRE_FILE,    /* a piece of a model's file, for other daemons of the cluster */
  BRAID_WIRE_DEVICE,  /* the connection becomes one of a device (backend/remote/remote_format.h) */
  BRAID_WIRE_BULK,    /* the rest of a model's file, to a receiver of UCX's, for other daemons of the cluster */
  BRAID_WIRE_SENDING, /* how it stands with that, by its nonce; answered by a BRAID_BULK state and a sentence */
  BRAID_WIRE_KINDS
} braid_wire_kind;

typedef struct braid_wire_header {
  uint16_t kind;
  uint64_t id, bytes; /* bytes: of the body */
} braid_wire_header;

/* Element types as the protocol numbers them. X(id, number, bytes, KServe's name) */
#define BRAID_WIRE_DTYPES(X)                                                                                           \
  X(BOOL, 1, 1, "BOOL")                                                                                                \
  X(U8, 2, 1, "UINT8")                                                                                                 \
  X(U16, 3, 2, "UINT16")                                                                                               \
  X(U32, 4, 4, "UINT32")                                                                                               \
  X(U64, 5, 8, "UINT64")                                                                                               \
  X(I8, 6, 1, "INT8")                                                                                                  \
  X(I16, 7, 2, "INT16")                                                                                                \
  X(I32, 8, 4, "INT32")                                                                                                \
  X(I64, 9, 8, "INT64")                                                                                                \
  X(F16, 10, 2, "FP16")                                                                                                \
  X(F32, 11, 4, "FP32")                                                                                                \
  X(F64, 12, 8, "FP64")                                                                                                \
  X(BF16, 13, 2, "BF16")
size_t braid_wire_dtype_bytes(unsigned dtype); /* of an element; 0: there is no such type */

/* Statuses are HTTP's: 200, 400 invalid, 401 and 403 refused, 404 unknown, 413 too large, 429 over quota, 499
 * cancelled, 500 failed, 501 not offered here, 503 unavailable, 504 late. */
typedef struct braid_wire_status {
  uint16_t code;
  char detail[BRAID_WIRE_DETAIL];
} braid_wire_status;

/* --- bodies --------------------------------------------------------------------------------------------------------
 */
typedef struct braid_wire_hello {
  uint32_t version;
  char token[BRAID_WIRE_TOKEN]; /* "": none */
  char client[BRAID_WIRE_NAME]; /* for people who look at the daemon */
} braid_wire_hello;

enum {
  BRAID_WIRE_MAY_COMPILE = 1,
  BRAID_WIRE_HAS_MEMORY = 2, /* the socket passes descriptors */
  BRAID_WIRE_HAS_BULK = 4,   /* files of models by UCX, for another daemon of the cluster */
  BRAID_WIRE_TAKES_TRACE = 8 /* launches may have a trace context */
};
typedef struct braid_wire_welcome {
  uint32_t version, rights;
  char server[BRAID_WIRE_NAME], tenant[BRAID_WIRE_NAME];
  uint64_t max_bytes; /* of a body */
} braid_wire_welcome;

typedef enum braid_wire_place {
  BRAID_WIRE_INLINE = 0, /* behind the fields, in the order of tensors */
  BRAID_WIRE_BUFFER,     /* of the connection, by name; its type and shape are the buffer's. Inputs only */
  BRAID_WIRE_SHARED      /* from `offset` on in memory `memory` */
} braid_wire_place;

/* An input, or (in an answer) an output: `bytes` is what type and shape make. A wanted output has no type and no
 * shape, and `bytes` is the room in shared memory. */
typedef struct braid_wire_tensor {
  char name[BRAID_WIRE_NAME];
  uint8_t place, dtype, rank;
  uint32_t memory;
  uint64_t offset, bytes;
  int64_t dims[BRAID_WIRE_RANK];
  char buffer[BRAID_WIRE_NAME];
} braid_wire_tensor;

/* 80 KiB: not to be cleared as a whole for each message. */
typedef struct braid_wire_launch {
  uint64_t compiled; /* handle of a compiled model; 0: `model` */
  char model[BRAID_WIRE_NAME], version[BRAID_WIRE_NAME];
  uint64_t timeout_us; /* from arrival; 0: the model's, or none */
  uint8_t priority;    /* 0: the tenant's; 1 to 9 */
  /* W3C trace context, as in HTTP's headers of these names; "": none */
  char traceparent[BRAID_WIRE_NAME], tracestate[BRAID_WIRE_STATE];
  size_t input_count, output_count;
  braid_wire_tensor inputs[BRAID_WIRE_PORTS], outputs[BRAID_WIRE_PORTS];
  const uint8_t *data; /* in the body: that of inline inputs */
  size_t data_bytes;
} braid_wire_launch;

typedef struct braid_wire_result {
  uint64_t waited_ns, ran_ns, batch; /* in the scheduler, in the run; rows of the run */
  size_t output_count;
  braid_wire_tensor outputs[BRAID_WIRE_PORTS];
  const uint8_t *data;
  size_t data_bytes;
} braid_wire_result;

typedef struct braid_wire_port {
  char name[BRAID_WIRE_NAME];
  uint8_t dtype, rank;
  int64_t dims[BRAID_WIRE_RANK]; /* -1: any */
} braid_wire_port;

typedef enum braid_wire_state {
  BRAID_WIRE_UNLOADED = 0,
  BRAID_WIRE_LOADING,
  BRAID_WIRE_READY,
  BRAID_WIRE_BROKEN
} braid_wire_state;

typedef struct braid_wire_model {
  char name[BRAID_WIRE_NAME], version[BRAID_WIRE_NAME];
  uint8_t state;
  char reason[BRAID_WIRE_DETAIL];
  uint64_t max_batch, handle; /* handle: of a compiled model; 0 in lists */
  size_t input_count, output_count;
  braid_wire_port inputs[BRAID_WIRE_PORTS], outputs[BRAID_WIRE_PORTS];
} braid_wire_model;

typedef struct braid_wire_compile {
  char name[BRAID_WIRE_NAME];   /* for messages */
  char device[BRAID_WIRE_NAME]; /* of the daemon's configuration; "": its first */
  uint64_t max_batch;           /* 0: the daemon's default */
  const uint8_t *data;          /* the ONNX file, in the body */
  size_t data_bytes;
} braid_wire_compile;

typedef struct braid_wire_cores {
  char device[BRAID_WIRE_NAME]; /* "": the daemon's first */
  uint32_t count;
} braid_wire_cores;

/* What a device has, and what was granted of it. */
typedef struct braid_wire_grant {
  uint64_t handle; /* 0: nothing was granted */
  uint32_t granted, instances, held /* by all tenants */, overlay_cores;
} braid_wire_grant;

/* A piece of a model's file from `offset` on. Daemons of before there were external data know files 0 and 1. */
typedef struct braid_wire_file {
  char model[BRAID_WIRE_NAME];
  uint32_t file; /* its number among the model's (serve/files.h) */
  uint64_t offset;
} braid_wire_file;

typedef struct braid_wire_bulk {
  braid_wire_file file;
  uint64_t total; /* bytes of the file, as the receiver knows them */
  uint8_t nonce[BRAID_WIRE_NONCE];
  const uint8_t *address; /* the receiver's, in the body */
  size_t address_bytes;
} braid_wire_bulk;

/* In shared memory, from its first byte on, between the daemon and a process that trains beside it. */
typedef struct braid_wire_gate {
  uint32_t open;  /* the daemon's: 1: compute, 0: rest. A futex, woken when it opens */
  uint32_t works; /* the other side's: 1 while it may compute; 0: it rests */
} braid_wire_gate;

/* --- writing -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_wire_writer {
  uint8_t *data; /* freed by free() */
  size_t length, capacity;
  bool failed; /* out of memory; what follows is ignored */
} braid_wire_writer;

void braid_wire_free(braid_wire_writer *writer);
void braid_wire_put(braid_wire_writer *writer, const void *bytes, size_t count);
void braid_wire_put_number(braid_wire_writer *writer, uint64_t value, size_t bytes);
void braid_wire_put_text(braid_wire_writer *writer, const char *text);
/* Begins a message; `end` writes the length into the header, with `more` bytes that are sent behind it. */
void braid_wire_begin(braid_wire_writer *writer, unsigned kind, uint64_t id);
void braid_wire_end(braid_wire_writer *writer, uint64_t more);

/* So many bytes of *parts have been sent: what is left begins at *parts, and is *count of them. */
void braid_wire_sent(struct iovec **parts, size_t *count, size_t sent);

void braid_wire_put_status(braid_wire_writer *writer, unsigned code, const char *detail);
void braid_wire_put_hello(braid_wire_writer *writer, const braid_wire_hello *hello);
void braid_wire_put_welcome(braid_wire_writer *writer, const braid_wire_welcome *welcome);
void braid_wire_put_tensor(braid_wire_writer *writer, const braid_wire_tensor *tensor);
void braid_wire_put_launch(braid_wire_writer *writer, const braid_wire_launch *launch); /* without its data */
void braid_wire_put_result(braid_wire_writer *writer, const braid_wire_result *result); /* without its data */
void braid_wire_put_model(braid_wire_writer *writer, const braid_wire_model *model);
void braid_wire_put_compile(braid_wire_writer *writer, const braid_wire_compile *compile); /* without its data */
void braid_wire_put_cores(braid_wire_writer *writer, const braid_wire_cores *cores);
void braid_wire_put_grant(braid_wire_writer *writer, const braid_wire_grant *grant);
void braid_wire_put_file(braid_wire_writer *writer, const braid_wire_file *file);
void braid_wire_put_bulk(braid_wire_writer *writer, const braid_wire_bulk *bulk);

/* --- reading -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_wire_reader {
  const uint8_t *data;
  size_t bytes, at;
  const char *wrong; /* what was wrong first; later reads give zeros. NULL: nothing */
} braid_wire_reader;

uint64_t braid_wire_get_number(braid_wire_reader *reader, size_t bytes);
void braid_wire_get_text(braid_wire_reader *reader, char *out, size_t room); /* room: with its zero */
/* NULL, or what was wrong; also where bytes are left. */
const char *braid_wire_finish(const braid_wire_reader *reader);

/* `bytes` has a header's 24. */
const char *braid_wire_get_header(const uint8_t *bytes, braid_wire_header *out);
void braid_wire_get_status(braid_wire_reader *reader, braid_wire_status *out);
const char *braid_wire_get_hello(braid_wire_reader *reader, braid_wire_hello *out);
const char *braid_wire_get_welcome(braid_wire_reader *reader, braid_wire_welcome *out);
/* DATA: a named tensor whose data is the rest of the body. */
const char *braid_wire_get_data(braid_wire_reader *reader, braid_wire_tensor *out, const uint8_t **out_data);
const char *braid_wire_get_launch(braid_wire_reader *reader, braid_wire_launch *out);
const char *braid_wire_get_result(braid_wire_reader *reader, braid_wire_result *out);
void braid_wire_get_model(braid_wire_reader *reader, braid_wire_model *out);
const char *braid_wire_get_compile(braid_wire_reader *reader, braid_wire_compile *out);
const char *braid_wire_get_cores(braid_wire_reader *reader, braid_wire_cores *out);
const char *braid_wire_get_grant(braid_wire_reader *reader, braid_wire_grant *out);
const char *braid_wire_get_file(braid_wire_reader *reader, braid_wire_file *out);
const char *braid_wire_get_bulk(braid_wire_reader *reader, braid_wire_bulk *out);
void braid_wire_get_nonce(braid_wire_reader *reader, uint8_t out[BRAID_WIRE_NONCE]);

#endif
