/* Buffers inside: a piece of memory of a space, shared by views. */
#ifndef BRAID_RUNTIME_BUFFER_H
#define BRAID_RUNTIME_BUFFER_H

#include "braid/buffer.h"
#include "runtime/sync_task.h"

/* What several buffers lie in. */
typedef struct braid_buffer_memory {
  uint32_t references; /* atomic */
  braid_machine *machine;
  braid_memory memory; /* no owner: host memory of somebody else's */
  int space;
  bool read_only;
  void (*release)(void *context);
  void *context;
  pthread_mutex_t lock; /* guards sync_task */
  braid_sync_task sync_task;
} braid_buffer_memory;

struct braid_buffer {
  uint32_t references; /* atomic */
  braid_buffer_memory *memory;
  braid_desc desc;
  size_t offset, bytes; /* in the memory */
};

/* Where its contents lie. */
braid_binding braid_buffer_binding(const braid_buffer *buffer);
bool braid_buffer_overlaps(const braid_buffer *a, const braid_buffer *b);
/* As braid_buffer_wrap, for memory that may be read-only. */
BRAID_MUST_CHECK braid_status braid_buffer_adopt(braid_machine *machine, const braid_desc *desc, void *data,
                                                 bool read_only, void (*release)(void *context), void *context,
                                                 braid_buffer **out);

#endif
