/* Plans: a graph placed on devices, in order, with its conversions, transfers and memory. Internal to the runtime.
 *
 * A value has an instance per place and layout in which some step needs it; an instance lies in a storage, which it may
 * share with others (views, results computed in place, a state and its update). Steps are what queues execute. A plan
 * is made in stages, each in a file: place.c (device and kernel of every node;
 * patterns.c those by hand), order.c (the order of nodes), plan.c,
 * instance.c and steps.c (steps and instances), prepare.c (kernels made ready), share.c (storages in common), memory.c
 * (offsets), hazard.c (waits across queues).
 *
 * Memory comes in spaces: space 0 is the host's, which all devices of unified memory share; every device of separate
 * memory has a space of its own. */
#ifndef BRAID_RUNTIME_PLAN_H
#define BRAID_RUNTIME_PLAN_H

#include "base/arena.h"
#include "braid/session.h"
#include "graph/graph.h"

typedef int32_t braid_instance_id; /* -1: absent */
typedef int32_t braid_storage_id;
typedef int32_t braid_step_id;

enum { kHostSpace = 0 };

typedef enum braid_storage_kind {
  BRAID_STORAGE_ARENA,      /* shared over time with others */
  BRAID_STORAGE_PERSISTENT, /* the session's own from run to run: parameters, states, converted or uploaded constants */
  BRAID_STORAGE_TENSOR,     /* the memory of a constant's tensor (host) */
  BRAID_STORAGE_INPUT,      /* the caller's (host) */
  BRAID_STORAGE_OUTPUT,
} braid_storage_kind;

typedef struct braid_storage {
  braid_storage_kind kind;
  int space;
  size_t bytes;
  size_t offset;             /* in its arena or persistent region */
  braid_step_id first, last; /* the steps that touch it first and last; -1: none */
  braid_storage_id same_as;  /* merged into another (share.c); -1: not */
  int index;                 /* INPUT, OUTPUT: which */
  braid_value_id value;      /* PERSISTENT, TENSOR: whose tensor is the contents at the start; -1: a setup step's */
} braid_storage;

typedef struct braid_instance {
  braid_value_id value;
  int space;
  braid_desc desc; /* with its layout */
  braid_storage_id storage;
  braid_instance_id next; /* of the same value */
} braid_instance;

typedef enum braid_step_kind { BRAID_STEP_KERNEL, BRAID_STEP_WRITE, BRAID_STEP_READ, BRAID_STEP_COPY } braid_step_kind;

typedef struct braid_step {
  braid_step_kind kind;
  int device, queue;  /* index of the device, of the queue (plan->queues) */
  braid_node_id node; /* -1: added by us */
  const char *label, *op, *why;
  const braid_kernel *kernel;
  void *prepared;
  braid_prepared_info info;
  braid_node_desc *desc;            /* KERNEL */
  braid_operand *operands;          /* a node's: what desc shows */
  braid_instance_id *instances;     /* inputs, then outputs; -1: absent or folded */
  braid_layout *layouts;            /* of a node's operands, in the same order */
  size_t input_count, output_count; /* transfers: 1, 1 */
  braid_storage_id workspace;       /* -1: none */
  braid_step_id *waits;             /* of other queues */
  size_t wait_count;
} braid_step;

typedef struct braid_step_list {
  braid_step *items;
  size_t count, capacity;
} braid_step_list;

typedef struct braid_plan_device {
  braid_device *device;
  const braid_backend *backend;
  void *self;
  const braid_device_info *info;
  const char *label; /* the name, with a number if opened twice */
  int space;
} braid_plan_device;

/* A device's queues: one for its kernels, on separate memory others for what comes and what goes, so that all run side
 * by side and data that comes does not stand behind results that are not there yet. */
typedef enum braid_queue_role {
  BRAID_QUEUE_KERNELS,
  BRAID_QUEUE_WRITES,
  BRAID_QUEUE_READS,
  BRAID_QUEUE_ROLES
} braid_queue_role;

typedef struct braid_plan_queue {
  int device;
  braid_queue_role role;
  bool used;
} braid_plan_queue;

static inline int braid_queue_index(int device, braid_queue_role role) {
  return BRAID_QUEUE_ROLES * device + (int)role;
}

typedef struct braid_placement {
  int device; /* -1: a view, no step */
  const braid_kernel *kernel;
  const char *why;
} braid_placement;

typedef struct braid_plan {
  const braid_allocator *allocator;
  braid_arena *arena; /* of all that lives as long as the plan and is not an array below */
  braid_graph *graph;
  bool training, no_reuse;
  int host_device;       /* the first of unified memory; -1: none */
  size_t host_alignment; /* what kernels expect of any host memory beyond its element type */
  braid_plan_device *devices;
  size_t device_count;
  int space_count;
  braid_plan_queue *queues; /* as braid_queue_index says */
  size_t queue_count;

  braid_placement *places;           /* per node */
  braid_node_id *order;              /* node_count */
  bool *views;                       /* per node: renames memory, no step */
  braid_value_id *roots;             /* per value: the value whose memory it is a view of, itself if none */
  braid_instance_id *first_instance; /* per value; -1: none yet */
  braid_instance_id *updates;        /* per state: the instance of its next value at its home; -1: none */
  int *homes;                        /* per value: space of parameters and states */
  braid_instance *instances;
  size_t instance_count, instance_capacity;
  braid_storage *storages;
  size_t storage_count, storage_capacity;
  braid_step_list setup, steps; /* setup runs once, when the session is made */

  size_t *arena_bytes, *persistent_bytes; /* per space */
  size_t unshared_bytes, folded_bytes;
} braid_plan;

/* `graph` is what is run, made from `given`, the caller's. */
BRAID_MUST_CHECK braid_status braid_plan_init(braid_plan *plan, braid_graph *graph, const braid_graph *given,
                                              braid_plan_device *devices, size_t device_count,
                                              const braid_session_options *options);
/* Discards what was prepared; the queues must be gone, the memory that kernels were bound to must not. */
void braid_plan_discard(const braid_plan *plan);
void braid_plan_deinit(braid_plan *plan);

/* --- stages --- */
BRAID_MUST_CHECK braid_status braid_plan_place(braid_plan *plan, const braid_graph *given,
                                               const braid_session_options *options);
/* Places every node where it ends soonest; `candidates`: per node and device its kernel there, NULL: none. */
BRAID_MUST_CHECK braid_status braid_plan_balance(braid_plan *plan, const braid_kernel *const *candidates);
BRAID_MUST_CHECK braid_status braid_plan_order(braid_plan *plan);
/* Prepares the kernels of all nodes. */
BRAID_MUST_CHECK braid_status braid_plan_prepare(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_share(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_memory(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_hazards(braid_plan *plan);

/* --- shared by the stages --- */
/* May kernels work on elements of this type at this host address? */
bool braid_plan_host_aligned(const braid_plan *plan, braid_dtype dtype, const void *address);
/* Is the value the same in every run, so that kernels may keep it? Its tensor is its contents. */
bool braid_plan_is_constant(const braid_plan *plan, braid_value_id value);
braid_storage *braid_plan_storage(const braid_plan *plan, braid_storage_id id); /* after merging */
braid_storage_id braid_plan_find(const braid_plan *plan, braid_storage_id id);
BRAID_MUST_CHECK braid_status braid_plan_add_storage(braid_plan *plan, braid_storage_kind kind, int space, size_t bytes,
                                                     braid_storage_id *out);
/* Adds a step that copies one instance over another of the same space, bytes for bytes. */
BRAID_MUST_CHECK braid_status braid_plan_add_copy(braid_plan *plan, const char *label, braid_instance_id from,
                                                  braid_instance_id to);
/* The value's instance at `space` in `layout`, made by conversion and transfer steps if there is none yet. */
BRAID_MUST_CHECK braid_status braid_plan_get(braid_plan *plan, braid_value_id value, int space, braid_layout layout,
                                             int device, braid_instance_id *out);
/* Calls visit for the storage of every operand of a step, workspace included. */
void braid_step_visit(const braid_plan *plan, const braid_step *step,
                      void (*visit)(void *context, braid_storage_id storage, bool writes), void *context);

/* Interval packing, separate for its test: offsets for blocks that live from `first` to `last`, so that no two alive at
 * the same time overlap. Returns the bytes of the arena. */
typedef struct braid_block {
  size_t bytes, offset; /* bytes: a multiple of the alignment */
  int32_t first, last;
} braid_block;
BRAID_MUST_CHECK braid_status braid_pack_blocks(const braid_allocator *allocator, braid_block *blocks, size_t count,
                                                size_t *arena_bytes);

#endif
