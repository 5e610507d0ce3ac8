/* A device that a daemon on another machine, or another process of this one, has: every call of the contract becomes a
 * message (remote_format.h), questions of plans are remembered, and a recorded run is one message and one answer. */
#ifndef BRAID_BACKEND_REMOTE_REMOTE_H
#define BRAID_BACKEND_REMOTE_REMOTE_H

#include <pthread.h>

#include "backend/remote/channel.h"
#include "base/arena.h"

/* A constant that the daemon has. */
typedef struct remote_blob {
  uint64_t hash[2];
  size_t bytes;
  uint32_t id;    /* numbers are never used again */
  uint64_t stamp; /* of the question that it was used in last */
} remote_blob;

/* An answer to a question that may be asked again. */
typedef struct remote_answer {
  uint64_t hash[2];
  uint8_t *bytes; /* NULL: the place is free */
  size_t count;
} remote_answer;

typedef struct remote_device {
  const braid_allocator *allocator;
  remote_channel channel;
  braid_remote_device description; /* what the daemon says */
  braid_device_info info;          /* what we say */
  const braid_log *log;            /* NULL: none */
  uint64_t runs, run_calls;        /* atomic: recordings replayed, and the messages that took */
  /* --- kernels, fixed when the device is open --- */
  braid_arena *texts;
  braid_kernel *kernels;
  const braid_kernel **list;
  uint8_t *flags;
  size_t kernel_count;
  /* --- questions (node.c); with the lock, since query is called by any thread --- */
  pthread_mutex_t lock;
  braid_wire_writer question;
  remote_answer *answers; /* a hash table */
  size_t answer_count, answer_room;
  remote_blob *blobs;
  size_t blob_count, blob_room, blob_bytes;
  uint32_t blob_ids;
  uint64_t stamp;
} remote_device;

typedef struct remote_buffer {
  uint32_t id;
  size_t bytes;
} remote_buffer;

typedef struct remote_prepared {
  uint32_t id;
  size_t input_count;
  size_t *packed_bytes; /* of inputs that are packed, else 0 */
  size_t plain_bytes[]; /* of inputs that are constants, else 0 */
} remote_prepared;

/* The daemon's number of a kernel of ours, and its flags. */
static inline uint32_t remote_kernel_id(const braid_kernel *kernel) {
  return (uint32_t)(uintptr_t)kernel->implementation;
}

/* --- questions and what is prepared (node.c); entries of braid_backend --- */
bool remote_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes);
void remote_layouts(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                    braid_layout *outputs);
braid_status remote_query(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query);
braid_status remote_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                            braid_prepared_info *info);
void remote_discard(void *self, void *prepared);
braid_status remote_pack(void *self, void *prepared, uint32_t input, const void *plain, void *packed);
void remote_questions_deinit(remote_device *device);

/* --- constants (blob.c); with the device's lock --- */
/* The number under which the daemon has these bytes, once they were sent. */
BRAID_MUST_CHECK braid_status remote_blob_get(remote_device *device, const void *bytes, size_t count, uint32_t *out);
/* The same, of bytes that the daemon has; 0: it does not have them. */
uint32_t remote_blob_find(remote_device *device, const void *bytes, size_t count);
/* A number for `count` bytes that the daemon will make, and room for it; then `keep`, when it has made them. */
BRAID_MUST_CHECK braid_status remote_blob_reserve(remote_device *device, size_t count, uint32_t *out);
void remote_blob_keep(remote_device *device, uint32_t id, const void *bytes, size_t count);
/* Or it has not, or not all of them: what there is of it is forgotten. Returns the status, with its detail. */
braid_status remote_blob_abandon(remote_device *device, uint32_t id, braid_status status);

/* --- queues (queue.c); entries of braid_backend --- */
braid_status remote_queue_create(void *self, braid_timeline *timeline, void **queue);
void remote_queue_destroy(void *self, void *queue);
braid_status remote_submit(void *queue, braid_task *task);
braid_status remote_record(void *queue, braid_task *const *tasks, size_t count, void **recording);
void remote_erase(void *queue, void *recording);
braid_status remote_replay(void *queue, void *recording, uint64_t first);

#endif
