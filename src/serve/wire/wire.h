/* The front end of Braid's own protocol (wire_format.h): a thread reads all connections by epoll, the scheduler's
 * threads write answers, a thread copies long inputs, and one compiles models that clients bring.
 *
 * What a connection owns (buffers, memory, compiled models, grants) belongs to the reading thread and goes with the
 * connection. A launch keeps its connection, and the memory and the compiled model that it uses, by references. */
#ifndef BRAID_SERVE_WIRE_WIRE_H
#define BRAID_SERVE_WIRE_WIRE_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/thread.h"
#include "serve/files.h"
#include "serve/server.h"
#include "serve/wire/wire_format.h"

enum { BRAID_WIRE_FILES = 4, BRAID_WIRE_BUFFERS = 256, BRAID_WIRE_MEMORIES = 64, BRAID_WIRE_COMPILED = 8 };

typedef struct wire_connection wire_connection;

/* A named buffer. */
typedef struct wire_buffer {
  struct wire_buffer *next;
  braid_serve_tenant *tenant; /* whose quota has its bytes */
  int references;             /* atomic */
  braid_wire_tensor tensor;
  uint8_t data[];
} wire_buffer;

/* Shared memory of a client, mapped while it is referred to; sealed, so that it does not shrink under us. */
typedef struct wire_memory {
  struct wire_memory *next;
  braid_serve_tenant *tenant; /* whose quota has its bytes */
  uint32_t number;
  int references; /* atomic */
  uint8_t *data;
  size_t bytes;
  bool writable;
} wire_memory;

/* A model that a client brought. */
typedef struct wire_compiled {
  struct wire_compiled *next;
  braid_serve_tenant *tenant; /* whose quota has its bytes */
  uint64_t handle;
  int references; /* atomic */
  size_t bytes;
  char name[BRAID_SERVE_NAME];
  braid_serve_model_config config;
  braid_serve_statistics statistics;
  braid_serve_model *model;
} wire_compiled;

/* Instances of a device for a tenant alone. */
typedef struct wire_grant {
  struct wire_grant *next;
  uint64_t handle;
  size_t device;
  uint32_t count;
} wire_grant;

typedef struct wire_output {
  size_t port;
  wire_memory *memory; /* a reference; NULL: the answer itself */
  uint64_t offset, bytes;
} wire_output;

/* The bytes of an input, on their way into its tensor. */
typedef struct wire_copy {
  void *to;
  const uint8_t *from;
  size_t bytes;
  const char *bool_name; /* of an input of BOOLs, whose bytes are checked; else NULL */
  wire_memory *memory;   /* that they are in, a reference; or NULL */
  wire_buffer *buffer;   /* the same */
} wire_copy;

/* A launch that waits for its inputs, or that the scheduler has. */
typedef struct wire_call {
  struct wire_call *next, *previous;
  wire_connection *connection; /* a reference */
  wire_compiled *compiled;     /* a reference; NULL: a model of the configuration */
  braid_serve_request *request;
  uint64_t id;
  int cancelled;           /* atomic */
  struct wire_call *after; /* in the filling thread's line */
  uint8_t *body;           /* of the message, where inputs are still in it; NULL */
  size_t reserved;         /* for it, of the tenant's quota */
  size_t copy_count;
  wire_copy copies[BRAID_WIRE_PORTS];
  size_t output_count;
  wire_output outputs[]; /* the model's output_count */
} wire_call;

/* What a socket did not take at once. */
typedef struct wire_chunk {
  struct wire_chunk *next;
  bool counted; /* its bytes, against the tenant's quota */
  size_t bytes, used;
  uint8_t data[];
} wire_chunk;

/* A model to be compiled, from the reading thread to the compiling one and back. */
typedef struct wire_job {
  struct wire_job *next;
  wire_connection *connection; /* a reference */
  uint64_t id;
  wire_compiled *compiled;
  braid_serve_device *device;
  uint8_t *body; /* the message's, with `reserved` bytes of the tenant's quota */
  size_t reserved;
  const uint8_t *data; /* in it */
  size_t bytes;
  braid_serve_verdict verdict;
  char detail[BRAID_SERVE_DETAIL];
} wire_job;

struct wire_connection {
  struct braid_serve_wire *wire;
  wire_connection *next, *previous;
  int references;             /* atomic: the reading thread's, and one of each call and job */
  int gone;                   /* atomic: nobody waits for answers any more */
  bool local;                 /* a Unix socket */
  bool peer;                  /* another daemon of the cluster: what it asks for is not sent on */
  braid_serve_tenant *tenant; /* NULL: before its hello */
  /* --- of the reading thread --- */
  int64_t connected_ns, frame_ns; /* when the message that is being read began; 0: none */
  size_t used;
  uint8_t *body; /* of a message that `small` does not hold; NULL: none */
  braid_wire_header header;
  size_t body_used, reserved; /* reserved: of the tenant's quota */
  uint64_t skip;              /* bytes of a refused message that are still to come */
  int files[BRAID_WIRE_FILES];
  size_t file_count;
  bool ended; /* nothing is read any more: it is closed when its answers are sent */
  bool given; /* its socket is a session's of a remote device now: it is forgotten at once */
  bool compiling;
  wire_buffer *buffers;
  wire_memory *memories;
  wire_compiled *compiled;
  wire_grant *grants;
  wire_memory *gate; /* of training beside, a reference; NULL: it does not train */
  braid_serve_harvester harvester;
  /* --- of whoever has the lock --- */
  pthread_mutex_t lock;
  int file; /* -1: closed */
  wire_chunk *out, *out_last;
  size_t out_bytes;
  int64_t out_ns; /* when bytes went out last, or began to wait */
  uint32_t events;
  wire_call *calls;
  uint8_t small[BRAID_WIRE_SMALL];
};

/* The files of the model that another daemon asked for last. */
typedef struct wire_listing {
  size_t model; /* in the configuration */
  struct stat about;
  braid_serve_files files;
} wire_listing;

struct braid_serve_wire {
  braid_server *server;
  int epoll, wake;  /* wake: an eventfd */
  int listeners[2]; /* Unix, TCP; -1: none */
  char path[108];
  dev_t device; /* of the socket's file, so that we remove our own */
  ino_t inode;
  int port;
  braid_thread reader, compiler, filler;
  bool reading, compiles, fills; /* the threads are there */
  bool alone;                    /* the reading thread has one event at hand, and may run what it asks for */
  bool paused;                   /* no file descriptors for new connections */
  int ending, stop;              /* atomic: the compiling and the filling thread end; the reading one ends */
  int64_t receive_ns;
  wire_connection *connections, *dead; /* dead: to be released after the events at hand */
  size_t count;
  uint64_t handles;         /* given */
  braid_wire_writer answer; /* the reading thread's */
  braid_wire_launch launch; /* the same */
  wire_listing listing;     /* the same */
  pthread_mutex_t lock;     /* of what follows */
  pthread_cond_t changed;
  wire_job *jobs, *finished;
  wire_call *filling, **filling_end; /* launches whose inputs are long, in their order */
};

/* --- connections (connection.c) --- */
wire_connection *braid_wire_connection_create(struct braid_serve_wire *wire, int file, bool local);
void braid_wire_connection_release(wire_connection *connection); /* the last frees it */
/* What epoll says of it; false: it is to be ended. */
bool braid_wire_connection_serve(wire_connection *connection, uint32_t events);
/* Whether it has kept us waiting for too long. */
bool braid_wire_connection_is_late(wire_connection *connection, int64_t now_ns);
/* Closes the socket, and frees what it owns but is not in use. */
void braid_wire_connection_end(wire_connection *connection);
/* Sends the parts, or keeps what the socket does not take now. Any thread. */
void braid_wire_send(wire_connection *connection, const struct iovec *parts, size_t count);
/* What is lost cannot be told otherwise: the connection ends. Any thread. */
void braid_wire_break_off(wire_connection *connection);
/* Begins the answer to a message, with its status; the reading thread's. */
braid_wire_writer *braid_wire_answer(wire_connection *connection, unsigned kind, uint64_t id,
                                     braid_serve_verdict verdict, const char *detail);
void braid_wire_answer_send(wire_connection *connection, braid_wire_writer *writer);
/* Both, where nothing follows the status. */
void braid_wire_answer_status(wire_connection *connection, const braid_wire_header *header, braid_serve_verdict verdict,
                              const char *format, ...) BRAID_PRINTF(4, 5);

/* --- messages (message.c) --- */
/* Does what a whole message asks. */
void braid_wire_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
/* 0: there is none. */
unsigned braid_wire_dtype(braid_dtype dtype);
braid_dtype braid_wire_dtype_of(unsigned dtype);
void braid_wire_describe(const braid_serve_model *model, braid_wire_model *out); /* its ports */

/* --- launches (launch.c) --- */
void braid_wire_launch_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
/* Copies long inputs, so that nobody else's messages wait for that, and submits their launches. */
void *braid_wire_filler_main(void *wire);
void braid_wire_filler_drop(struct braid_serve_wire *wire); /* what is left in its line, at the end */
/* False: there is no such launch under way. */
bool braid_wire_launch_cancel(wire_connection *connection, uint64_t id);

/* --- what connections own (memory.c) --- */
void braid_wire_data_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_drop_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_memory_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_unmap_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
wire_buffer *braid_wire_buffer_find(const wire_connection *connection, const char *name);
void braid_wire_buffer_release(wire_buffer *buffer); /* NULL is allowed */
wire_memory *braid_wire_memory_find(const wire_connection *connection, uint32_t number);
void braid_wire_memory_retain(wire_memory *memory);
void braid_wire_memory_release(wire_memory *memory); /* NULL is allowed */
void braid_wire_memory_free_all(wire_connection *connection);

/* --- files of models (file.c) --- */
void braid_wire_file_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_bulk_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_sending_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);

/* --- compiling (compile.c) --- */
/* True: the body is the job's now, with what is reserved for it. */
bool braid_wire_compile_message(wire_connection *connection, const braid_wire_header *header, uint8_t *body);
void braid_wire_forget_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
wire_compiled *braid_wire_compiled_find(const wire_connection *connection, uint64_t handle);
void braid_wire_compiled_retain(wire_compiled *compiled);
void braid_wire_compiled_release(wire_compiled *compiled); /* NULL is allowed */
void *braid_wire_compiler_main(void *wire);
/* Answers what has been compiled; the reading thread's. */
void braid_wire_compile_finish(struct braid_serve_wire *wire);
void braid_wire_compile_drop(struct braid_serve_wire *wire); /* jobs that are left, at the end */

/* --- cores (cores.c) --- */
void braid_wire_cores_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_release_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_cores_free_all(wire_connection *connection);

/* --- training beside (harvest.c) --- */
void braid_wire_harvest_message(wire_connection *connection, const braid_wire_header *header, const uint8_t *body);
void braid_wire_harvest_end(wire_connection *connection); /* where there is one */

#endif
