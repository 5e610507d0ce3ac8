/* What a remote device and the daemon that has it say to each other, byte by byte: the device contract
 * (braid/device.h) in messages. Shared by this backend and the daemon (src/serve/remote).
 *
 * The connection begins as any of Braid's protocol (serve/wire/wire_format.h): HELLO, then BRAID_WIRE_DEVICE, which
 * names a device and whose answer describes it. From then on it carries the messages below: headers of 24 bytes as
 * there, answered one after the other in the order in which they came. An answer has the id and kind of its message
 * with BRAID_WIRE_REPLY added, and begins with a status (of braid/status.h, uint16) and a sentence. Messages of id 0
 * are not answered. While the daemon works on a message it sends BUSY now and then, so that silence means it is lost.
 *
 * Decoders read nothing outside the body and bound what they leave; they return NULL, or a sentence of what is wrong.
 */
#ifndef BRAID_BACKEND_REMOTE_REMOTE_FORMAT_H
#define BRAID_BACKEND_REMOTE_REMOTE_FORMAT_H

#include "braid/device.h"
#include "serve/wire/wire_format.h"

enum {
  BRAID_REMOTE_VERSION = 1,
  BRAID_REMOTE_OPERANDS = 4096, /* of a node, inputs and outputs each */
  BRAID_REMOTE_TASKS = 1 << 16, /* of a run */
  BRAID_REMOTE_KERNELS_MOST = 1 << 16,
  BRAID_REMOTE_LABEL = 128,
  BRAID_REMOTE_WHY = 256,
  BRAID_REMOTE_INLINE = 4096, /* bytes of a constant that stand in the message; longer ones are blobs */
  BRAID_REMOTE_CHUNK = 8 << 20,
  BRAID_REMOTE_BUSY_MS = 1000
};
#define BRAID_REMOTE_NONE UINT32_MAX

typedef enum braid_remote_kind {
  BRAID_REMOTE_KERNELS = 0x100, /* the device's kernels */
  BRAID_REMOTE_MATCH,           /* a node; answered for each kernel of its op */
  BRAID_REMOTE_LAYOUTS,         /* kernel, node, the layouts on entry */
  BRAID_REMOTE_QUERY,           /* kernel, node */
  BRAID_REMOTE_PREPARE,         /* kernel, node; answered by a handle */
  BRAID_REMOTE_DISCARD,         /* a handle */
  BRAID_REMOTE_BLOB,            /* a part of a constant: id, bytes in all, offset, data */
  BRAID_REMOTE_FORGET,          /* a blob */
  BRAID_REMOTE_PACK,            /* prepared kernel, input, blob, new blob: the packed form, which is answered too */
  BRAID_REMOTE_BUFFER,          /* bytes; answered by a handle */
  BRAID_REMOTE_FREE,            /* a buffer */
  BRAID_REMOTE_RUN,             /* tasks, and what changes from run to run */
  BRAID_REMOTE_RECORD,          /* tasks; answered by a handle */
  BRAID_REMOTE_REPLAY,          /* a recording, and what changes from run to run */
  BRAID_REMOTE_ERASE,           /* a recording */
  BRAID_REMOTE_CANCEL,          /* the run under way; no body, not answered */
  BRAID_REMOTE_MEMORY,          /* free and total bytes of the device */
  BRAID_REMOTE_BUSY,            /* from the daemon, as a reply of id 0: it is at work */
  BRAID_REMOTE_END
} braid_remote_kind;

/* `bytes` has a header's 24; kinds of this list alone. */
const char *braid_remote_get_header(const uint8_t *bytes, braid_wire_header *out);

/* --- the device ----------------------------------------------------------------------------------------------------
 */
typedef struct braid_remote_open {
  uint32_t version;
  char device[BRAID_WIRE_NAME]; /* of the daemon's configuration; "": its first that is offered */
} braid_remote_open;
void braid_remote_put_open(braid_wire_writer *writer, const braid_remote_open *open);
const char *braid_remote_get_open(braid_wire_reader *reader, braid_remote_open *out);

typedef struct braid_remote_device {
  braid_device_info info; /* name: the daemon's for it */
  uint64_t max_body;      /* bytes of a message's body */
  uint64_t max_bytes;     /* that the tenant may have on the daemon */
} braid_remote_device;
void braid_remote_put_device(braid_wire_writer *writer, const braid_remote_device *device);
const char *braid_remote_get_device(braid_wire_reader *reader, braid_remote_device *out);

enum { BRAID_REMOTE_BROUGHT = 1, BRAID_REMOTE_HAS_LAYOUTS = 2 };
typedef struct braid_remote_kernel {
  char op[BRAID_WIRE_NAME], name[BRAID_WIRE_NAME];
  uint32_t in_place[4], flags;
} braid_remote_kernel;
void braid_remote_put_kernel(braid_wire_writer *writer, const braid_kernel *kernel, uint32_t flags);
void braid_remote_get_kernel(braid_wire_reader *reader, braid_remote_kernel *out);

/* --- nodes ---------------------------------------------------------------------------------------------------------
 * A descriptor with its layout; `any`: the layout may be BRAID_LAYOUT_ANY. What is read is a valid descriptor. */
void braid_remote_put_desc(braid_wire_writer *writer, const braid_desc *desc);
void braid_remote_get_desc(braid_wire_reader *reader, bool any, braid_desc *out);

enum { BRAID_REMOTE_PRESENT = 1, BRAID_REMOTE_CONSTANT = 2, BRAID_REMOTE_IS_BLOB = 4 };
/* Operands: flags, descriptor, and of constants their bytes, or the number of a blob. `blob`: 0, or that number. */
void braid_remote_put_operand(braid_wire_writer *writer, const braid_operand *operand, uint32_t blob);
typedef struct braid_remote_operand {
  uint8_t flags;
  braid_desc desc;
  uint32_t blob;          /* IS_BLOB */
  const uint8_t *content; /* CONSTANT and not IS_BLOB: in the body, braid_desc_bytes of the PLAIN descriptor */
} braid_remote_operand;
void braid_remote_get_operand(braid_wire_reader *reader, braid_remote_operand *out);
/* Bytes of a constant: plain, whatever the operand's layout is. */
size_t braid_remote_plain_bytes(const braid_desc *desc);

void braid_remote_put_attr(braid_wire_writer *writer, const braid_attr *attr);
/* Refuses the reader with this sentence, unless there is one already. */
void braid_remote_refuse(braid_wire_reader *reader, const char *why);
/* `bytes` bytes of the body, or NULL and refused. */
const uint8_t *braid_remote_get_bytes(braid_wire_reader *reader, uint64_t bytes);
/* A count of things that take at least `least` bytes each; 0 and refused if the body cannot hold them. */
size_t braid_remote_get_count(braid_wire_reader *reader, size_t bytes, size_t most, size_t least);

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
typedef struct braid_remote_binding {
  uint32_t buffer; /* 0: none */
  uint64_t offset, bytes;
} braid_remote_binding;
enum { BRAID_REMOTE_BINDING_BYTES = 20 };
void braid_remote_put_binding(braid_wire_writer *writer, const braid_remote_binding *binding);
void braid_remote_get_binding(braid_wire_reader *reader, braid_remote_binding *out);

/* The fields of a task before its bindings: those of a kernel are input_count + output_count + 1, of WRITE and READ 1,
 * of COPY 2 (source, target). */
typedef struct braid_remote_task {
  uint8_t kind;
  char label[BRAID_REMOTE_LABEL];
  uint32_t prepared; /* KERNEL */
  uint16_t input_count, output_count;
  uint64_t ports; /* bit i: binding i is given anew in each run; bit 63: all from 63 on */
} braid_remote_task;
void braid_remote_put_task(braid_wire_writer *writer, const braid_remote_task *task);
void braid_remote_get_task(braid_wire_reader *reader, braid_remote_task *out);
size_t braid_remote_binding_count(const braid_remote_task *task);
bool braid_remote_is_port(const braid_remote_task *task, size_t binding);

/* Where a WRITE's bytes come from: behind the fields of the message, in the order of tasks, or a blob as a whole. */
typedef enum braid_remote_source { BRAID_REMOTE_FROM_BODY = 0, BRAID_REMOTE_FROM_BLOB } braid_remote_source;
typedef struct braid_remote_write {
  uint8_t source;
  uint32_t blob; /* FROM_BLOB */
} braid_remote_write;
void braid_remote_put_write(braid_wire_writer *writer, const braid_remote_write *write);
void braid_remote_get_write(braid_wire_reader *reader, braid_remote_write *out);

/* The answer to a run. Behind it, if nothing failed, the bytes of READ tasks in their order. */
typedef struct braid_remote_result {
  int64_t arrived_ns, left_ns; /* in the daemon's clock */
  uint32_t failed;             /* the task that failed; BRAID_REMOTE_NONE: none has, CANCELLED if `status` says so */
  braid_status status;
  char detail[BRAID_WIRE_DETAIL];
  uint32_t timing_count; /* 0, or one for each task */
} braid_remote_result;
void braid_remote_put_result(braid_wire_writer *writer, const braid_remote_result *result);
const char *braid_remote_get_result(braid_wire_reader *reader, braid_remote_result *out);
void braid_remote_put_timing(braid_wire_writer *writer, const braid_timing *timing);
void braid_remote_get_timing(braid_wire_reader *reader, braid_timing *out);

/* The status that an answer begins with; INTERNAL for one that there is not. */
braid_status braid_remote_get_status(braid_wire_reader *reader, char detail[BRAID_WIRE_DETAIL]);

#endif
