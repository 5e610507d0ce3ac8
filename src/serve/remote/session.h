/* Devices that clients use from elsewhere (docs/remote.md): a connection that asks for one becomes a session, with a
 * thread of its own and a device that was opened for it alone. What a session has (buffers, constants, prepared
 * kernels, recordings) counts towards its tenant's max_bytes and goes with it.
 *
 * Every byte from a client is checked before a backend sees what it says: handles, the node against the op's own shape
 * inference (node.c), bindings against their buffers and against the tensors that the kernel will touch (task.c). */
#ifndef BRAID_SERVE_REMOTE_SESSION_H
#define BRAID_SERVE_REMOTE_SESSION_H

#include <pthread.h>

#include "backend/remote/remote_format.h"
#include "base/thread.h"
#include "device/queue.h"
#include "serve/remote/remote.h"

enum {
  SESSION_HANDLES = 1 << 16, /* of each kind */
  SESSION_BLOBS = 1 << 12,
  SESSION_OVERHEAD = 256, /* bytes counted for each thing beside what it holds */
};

/* A table of things by number, which is 1 for the first. */
typedef struct session_table {
  void **items;
  size_t count, room, first_free;
} session_table;

typedef struct session_buffer {
  void *self;
  size_t bytes;
  uint32_t users; /* recordings */
  bool dropped;   /* by the client: freed with its last user */
} session_buffer;

/* A constant that the client has sent, or sends. */
typedef struct session_blob {
  struct session_blob *next;
  uint32_t id;
  size_t bytes, got;
  uint32_t users; /* nodes */
  bool dropped;
  _Alignas(64) uint8_t data[]; /* as tensors are */
} session_blob;

/* A node as it was read: a graph of this one node, which holds its attributes and constants. */
typedef struct session_node {
  braid_graph *graph;
  braid_node_desc desc;
  braid_operand *operands; /* inputs, then outputs */
  session_blob **blobs;    /* that constants lie in; one user of each */
  size_t blob_count;
  char op[BRAID_WIRE_NAME], name[BRAID_WIRE_NAME];
} session_node;

typedef struct session_prepared {
  session_node node;
  void *self;
  braid_prepared_info info;
  braid_query query;
  const braid_kernel *kernel;
  size_t counted; /* bytes of the tenant's quota */
  uint32_t users;
  bool dropped;
} session_prepared;

typedef struct session {
  struct session *next;
  struct braid_serve_remote *remote;
  braid_serve_tenant *tenant;
  const braid_serve_device_config *config;
  braid_thread thread;
  int file;
  uint64_t opening;    /* id of the message that asked for the device */
  int ended, stopping; /* atomic */
  pthread_mutex_t send_lock;
  int busy; /* atomic: works on a message */
  /* --- its thread's --- */
  size_t counted; /* bytes of the tenant's quota, all of them */
  int64_t arrived_ns;
  uint8_t *body;
  size_t body_room, body_counted;
  braid_wire_writer writer;
  uint8_t *data; /* that follows the answer; freed with data_counted once it is sent */
  size_t data_bytes, data_counted;
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_device_info info;
  braid_queue queue;
  const braid_kernel *const *kernels;
  size_t kernel_count;
  session_table buffers, prepared, recordings;
  session_blob *blobs;
  size_t blob_count;
} session;

/* --- session.c --- */
/* Counts bytes of the tenant's quota; NO_MEMORY says what it may have. */
BRAID_MUST_CHECK braid_status session_count(session *s, size_t bytes);
void session_uncount(session *s, size_t bytes);
/* Opens the device that the configuration names, and closes it with all that the session has of it. */
BRAID_MUST_CHECK braid_status session_open_device(session *s);
void session_close_device(session *s);
/* Does what a message asks, and leaves the answer in s->writer and s->data. False: clients send no such message. */
bool session_handle(session *s, const braid_wire_header *header, const uint8_t *body);
void session_drop_data(session *s); /* once it is sent, or will not be */
/* Looks at the connection while a run is under way: true if it is to be cancelled. */
bool session_is_cancelled(session *s);

/* Before and after a run: training beside the daemon rests, and the power cap has room. False: it is not to be made. */
bool session_turn_begin(session *s);
void session_turn_end(session *s, int64_t began_ns);

/* --- memory.c --- */
/* The number of the new thing; 0: there are too many, or no memory, with the sentence. */
uint32_t session_table_add(session_table *table, void *item);
void *session_table_get(const session_table *table, uint64_t handle); /* NULL: there is none */
void *session_table_take(session_table *table, uint64_t handle);      /* the same, and it is no longer there */
braid_status session_buffer_message(session *s, braid_wire_reader *reader);
braid_status session_free_message(session *s, braid_wire_reader *reader);
braid_status session_blob_message(session *s, braid_wire_reader *reader);
braid_status session_forget_message(session *s, braid_wire_reader *reader);
braid_status session_memory_message(session *s, braid_wire_reader *reader);
void session_buffer_release(session *s, session_buffer *buffer); /* by a user */
session_blob *session_blob_find(const session *s, uint32_t id);  /* a whole one, or NULL */
/* A new one, whose bytes are to be filled in; INVALID_ARGUMENT if there is one of this number. */
BRAID_MUST_CHECK braid_status session_blob_make(session *s, uint32_t id, uint64_t bytes, session_blob **out);
void session_blob_release(session *s, session_blob *blob); /* by a user */
void session_memory_free_all(session *s);
/* INVALID_ARGUMENT if the message was malformed. */
BRAID_MUST_CHECK braid_status session_finish(const braid_wire_reader *reader);

/* --- node.c --- */
braid_status session_kernels_message(session *s, braid_wire_reader *reader);
braid_status session_match_message(session *s, braid_wire_reader *reader);
braid_status session_layouts_message(session *s, braid_wire_reader *reader);
braid_status session_query_message(session *s, braid_wire_reader *reader);
braid_status session_prepare_message(session *s, braid_wire_reader *reader);
braid_status session_pack_message(session *s, braid_wire_reader *reader);
braid_status session_discard_message(session *s, braid_wire_reader *reader);
void session_prepared_release(session *s, session_prepared *prepared); /* by a user */
void session_prepared_free_all(session *s);

/* --- task.c --- */
braid_status session_run_message(session *s, braid_wire_reader *reader);
braid_status session_record_message(session *s, braid_wire_reader *reader);
braid_status session_replay_message(session *s, braid_wire_reader *reader);
braid_status session_erase_message(session *s, braid_wire_reader *reader);
void session_recordings_free_all(session *s);

#endif
