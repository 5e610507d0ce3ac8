/* Machines inside: the opened devices of a program and the queues that all who use them share. */
#ifndef BRAID_RUNTIME_MACHINE_H
#define BRAID_RUNTIME_MACHINE_H

#include "braid/machine.h"
#include "device/queue.h"
#include "runtime/times.h"

enum { kHostSpace = 0, kMaxDevices = 16 };

/* Memory comes in spaces: space 0 is the host's, which all devices of unified memory share; every device of separate
 * memory has a space of its own. */
typedef struct braid_machine_device {
  braid_device *device;
  const braid_backend *backend;
  void *self;
  const braid_device_info *info;
  char label[48]; /* the name, with a number if opened twice */
  int space;
} braid_machine_device;

/* A device's queues: one for its kernels, on separate memory others for what comes and what goes, so that all run side
 * by side and data that comes does not stand behind results that are not there yet; one for collectives. */
typedef enum braid_queue_role {
  BRAID_QUEUE_KERNELS,
  BRAID_QUEUE_WRITES,
  BRAID_QUEUE_READS,
  BRAID_QUEUE_GROUP, /* collectives, which wait for other processes while kernels run */
  BRAID_QUEUE_ROLES
} braid_queue_role;

static inline int braid_queue_index(int device, braid_queue_role role) {
  return BRAID_QUEUE_ROLES * device + (int)role;
}

struct braid_machine {
  const braid_allocator *allocator;
  uint32_t references; /* atomic */
  braid_registry *own_registry;
  const braid_log *log; /* the registry's, and so is the next */
  const braid_progress *progress;
  braid_machine_device *devices;
  size_t device_count;
  int space_count;
  int host_device;                       /* the first of unified memory; -1: none */
  size_t host_alignment;                 /* what kernels expect of any host memory beyond its element type */
  pthread_mutex_t lock;                  /* of what a backend does for one thread at a time, and of `queues` */
  braid_queue *queues;                   /* as braid_queue_index says; opened when they are used first */
  struct braid_calls *calls;             /* of single ops (call.h) */
  struct braid_prepared_cache *prepared; /* kernels in use (plan/prepared.h) */
  braid_times times;                     /* measured by executions, for plans to come */
};

/* The queue, made when it is asked for first. */
BRAID_MUST_CHECK braid_status braid_machine_queue(braid_machine *machine, int index, braid_queue **out);
/* The device of a label, or of a number. NOT_FOUND lists them. */
BRAID_MUST_CHECK braid_status braid_machine_find(const braid_machine *machine, const char *name, int *out);
/* Is one of these devices gone? `devices`: bit i for device i. */
bool braid_machine_lost(const braid_machine *machine, uint32_t devices);
/* Waits until the point is reached; TIMEOUT at the deadline (< 0: none), DEVICE_LOST if one of the devices is gone and
 * the task does not end soon after. */
BRAID_MUST_CHECK braid_status braid_machine_await(const braid_machine *machine, uint32_t devices, braid_point point,
                                                  int64_t deadline_ns);
/* Between looks at whether a device is lost; for the tasks of one to end. */
enum { kLookNs = 100000000, kGraceNs = 500000000 };

/* A piece of memory of a space: a buffer of the first device that works there, else (host memory without a unified
 * device) the allocator's. */
typedef struct braid_memory {
  const braid_machine_device *owner; /* NULL: none */
  void *buffer;                      /* of the owner, or the memory itself; NULL: nothing is allocated */
  uint8_t *host;                     /* NULL: not the host's */
} braid_memory;
BRAID_MUST_CHECK braid_status braid_machine_allocate(braid_machine *machine, int space, size_t bytes,
                                                     braid_memory *out);
void braid_machine_free(braid_machine *machine, braid_memory *memory);
size_t braid_machine_alignment(const braid_machine *machine, int space);

/* As braid_device_find_kernel. */
const braid_kernel *braid_machine_find_kernel(braid_machine *machine, int device, const braid_node_desc *node,
                                              char *why, size_t why_bytes);
/* As braid_device_visit_kernels. */
size_t braid_machine_visit_kernels(braid_machine *machine, int device, const braid_node_desc *node,
                                   void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                   void *context);
/* Asks the kernel for layouts; false: it wants them plain. */
bool braid_machine_layouts(braid_machine *machine, int device, const braid_kernel *kernel, const braid_node_desc *node,
                           braid_layout *inputs, braid_layout *outputs);
/* Prepares a kernel, and undoes that. */
BRAID_MUST_CHECK braid_status braid_machine_prepare(braid_machine *machine, int device, const braid_kernel *kernel,
                                                    const braid_node_desc *node, void **prepared,
                                                    braid_prepared_info *info);
void braid_machine_discard(braid_machine *machine, int device, void *prepared); /* NULL is allowed */
/* What prepare would say; *folded: constants that it takes over. */
BRAID_MUST_CHECK braid_status braid_machine_query(braid_machine *machine, int device, const braid_kernel *kernel,
                                                  const braid_node_desc *node, braid_query *out, uint32_t *folded);

/* The same for a region; `packings` has room for one per input. */
BRAID_MUST_CHECK braid_status braid_machine_query_region(braid_machine *machine, int device, const braid_kernel *kernel,
                                                         const braid_node_desc *node, braid_query *out,
                                                         braid_packing *packings);

#endif
