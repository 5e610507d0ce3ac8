/* Plans inside: a graph placed on devices, in order, with its conversions, transfers and memory. Made without preparing
 * anything; nothing of a plan changes once it is made.
 *
 * A value has an instance per place and layout in which some step needs it; an instance lies in a storage, which it may
 * share with others (views, results computed in place, a state and its update). Steps are what queues execute. A plan
 * is made in stages, each in a file: place.c (device and kernel of every node, and what becomes one; placing.h has its
 * parts), order.c (the order of nodes), home.c (where parameters and states are kept), plan.c, instance.c and steps.c
 * (steps and instances), early.c (small inputs first), prepare.c (kernels asked), share.c (storages in common),
 * memory.c (offsets), hazard.c (waits across queues). */
#ifndef BRAID_RUNTIME_PLAN_H
#define BRAID_RUNTIME_PLAN_H

#include "base/arena.h"
#include "base/patterns.h"
#include "graph/graph.h"
#include "runtime/machine.h"

typedef int32_t braid_instance_id; /* -1: absent */
typedef int32_t braid_storage_id;
typedef int32_t braid_step_id;

typedef enum braid_storage_kind {
  BRAID_STORAGE_ARENA,      /* shared over time with others */
  BRAID_STORAGE_PERSISTENT, /* of the weights: parameters and states, constants uploaded, converted or packed */
  BRAID_STORAGE_TENSOR,     /* the memory of a constant's tensor (host) */
  BRAID_STORAGE_INPUT,      /* the caller's (host) */
  BRAID_STORAGE_OUTPUT,
} braid_storage_kind;

typedef struct braid_storage {
  braid_storage_kind kind;
  int space;
  size_t bytes;
  size_t offset;             /* in its arena */
  braid_step_id first, last; /* the steps that touch it first and last; -1: none */
  braid_storage_id same_as;  /* merged into another (share.c); -1: not */
  int index;                 /* INPUT, OUTPUT: which */
  braid_value_id value;      /* PERSISTENT, TENSOR: whose tensor is the contents, or what they are made of */
  /* PERSISTENT: how its contents come from the value's tensor */
  braid_layout layout;
  bool converted;       /* by a setup step */
  braid_step_id packer; /* by the kernel of this step; -1: not */
  braid_packing packing;
} braid_storage;

typedef struct braid_instance {
  braid_value_id value;
  int space;
  braid_desc desc; /* with its layout */
  braid_storage_id storage;
  braid_instance_id next; /* of the same value */
} braid_instance;

typedef enum braid_step_kind { BRAID_STEP_KERNEL, BRAID_STEP_WRITE, BRAID_STEP_READ, BRAID_STEP_COPY } braid_step_kind;

/* What a step waits for: the nth step of another queue. */
typedef struct braid_step_wait {
  int queue, nth;
} braid_step_wait;

typedef struct braid_step {
  braid_step_kind kind;
  int device, queue;  /* index of the device, of the queue (plan->queues) */
  int nth;            /* of the steps of its queue, from 0 */
  braid_node_id node; /* -1: added by us */
  const char *label, *op, *why;
  const braid_kernel *kernel;
  braid_query query;                /* KERNEL: what the kernel asks for */
  braid_packing *packings;          /* of a region, in place of the query's; else NULL */
  uint32_t folded;                  /* constants that it takes over when it is prepared */
  braid_node_desc *desc;            /* KERNEL */
  braid_operand *operands;          /* a node's: what desc shows */
  braid_instance_id *instances;     /* inputs, then outputs; -1: absent or folded */
  braid_layout *layouts;            /* of a node's operands, in the same order */
  braid_layout *delivered;          /* in a plan that was loaded: what the kernel is asked with; else NULL */
  size_t input_count, output_count; /* transfers: 1, 1 */
  braid_storage_id workspace;       /* -1: none */
  braid_step_wait *waits;           /* at most one per queue */
  size_t wait_count;
} braid_step;

typedef struct braid_step_list {
  braid_step *items;
  size_t count, capacity;
} braid_step_list;

typedef struct braid_plan_queue {
  int device;
  braid_queue_role role;
  bool used;
  int steps; /* of a run */
} braid_plan_queue;

typedef struct braid_digest {
  uint64_t words[2];
} braid_digest;

/* Per value of a graph that a plan is made of: was its contents read on the way, so that the plan is for these? */
typedef struct braid_read_set {
  bool *items;
  size_t count;
} braid_read_set;

typedef struct braid_placement {
  int device; /* -1: a view, no step */
  const braid_kernel *kernel;
  const char *why;
  const struct braid_region *region; /* what the node is made of; NULL: it is no region */
  const braid_plan_offer *offers;    /* kept if braid_plan_options.explain */
  size_t offer_count;
} braid_placement;

struct braid_plan {
  const braid_allocator *allocator;
  uint32_t references; /* atomic */
  braid_machine *machine;
  braid_arena *arena;  /* of all that lives as long as the plan and is not an array below */
  braid_graph *graph;  /* its own, made from the caller's */
  braid_digest given;  /* of the caller's (snapshot.h) */
  braid_read_set read; /* of the caller's as well */
  bool training, no_fusion, no_reuse, device_io, callers_thread;
  bool small;                         /* its kernels are for one thread of the host's */
  bool here;                          /* it may run in the caller's thread: it is small, or that was asked for */
  bool reads_weights, writes_weights; /* such as others may write, or read */
  int host_device;                    /* the first of unified memory; -1: none */
  size_t host_alignment;              /* what kernels expect of any host memory beyond its element type */
  braid_layout *input_layouts, *output_layouts; /* of the caller's memory; NULL: plain */
  const braid_machine_device *devices;
  size_t device_count;
  int space_count;
  braid_plan_queue *queues; /* as braid_queue_index says */
  size_t queue_count;

  struct braid_region *regions;      /* those chosen (regions.h) */
  braid_placement *places;           /* per node */
  braid_node_id *order;              /* node_count */
  braid_patterns sequence;           /* if `ordered`, nodes start in the order of these patterns; in the arena */
  bool *views;                       /* per node: renames memory, no step */
  braid_value_id *roots;             /* per value: the value whose memory it is a view of, itself if none */
  braid_instance_id *first_instance; /* per value; -1: none yet */
  braid_instance_id *first_packed;   /* per value: its packed forms; -1: none */
  braid_instance_id *updates;        /* per state: the instance of its next value at its home; -1: none */
  int *homes;                        /* per value: space of parameters and states, and where others are read first */
  /* Per value: the layout in which a parameter or state is kept; of another value, that in which its reader would like
   * it, of which its producer is told. Most often plain. */
  braid_layout *layouts;
  braid_instance *instances;
  size_t instance_count, instance_capacity;
  braid_storage *storages;
  size_t storage_count, storage_capacity;
  braid_step_list setup, steps; /* setup converts constants, once */

  size_t *arena_bytes, *persistent_bytes; /* per space */
  size_t unshared_bytes, folded_bytes;
  const struct braid_snapshot *saved; /* while it is loaded: what is asked in place of the machine; else NULL */
  pthread_mutex_t lock;        /* of what follows, and of the contents of constants; held while an execution is made */
  struct braid_arenas *arenas; /* of executions whose tasks never overlap (execution/arenas.h); NULL: none is alive */
  /* Of the contents of constants, per value, for weights that several plans share: made when they are bound first. */
  braid_digest *digests; /* NULL: not made yet */
  braid_graph *unfolded; /* of a plan that was loaded: what its constants come from; NULL: they are there (restore.h) */
  bool *kept;            /* per value, for braid_plan_drop, which must not need memory */
  bool dropped;          /* constants that are not read where they are have lost their contents */
};

/* Lets go of the contents of constants that no execution reads where they are. `all`: of those too that another
 * execution would need to be prepared. */
void braid_plan_drop(braid_plan *plan, bool all);
/* Fills plan->digests. */
BRAID_MUST_CHECK braid_status braid_plan_digest(braid_plan *plan);

/* 128 bits for files, not against somebody who looks for two of the same. */
braid_digest braid_digest_of(const void *data, size_t bytes);
/* What identifies the contents of constants in this process: nobody can make two of the same. */
braid_digest braid_digest_contents(const void *data, size_t bytes);

/* --- stages --- */
/* ends.c: takes the layouts of inputs and outputs from the options; tells what reads and makes these of them. */
BRAID_MUST_CHECK braid_status braid_plan_set_ends(braid_plan *plan, const braid_plan_options *options);
void braid_plan_announce_ends(braid_plan *plan);
/* A plan without a graph. */
BRAID_MUST_CHECK braid_status braid_plan_new(braid_machine *machine, const braid_allocator *allocator,
                                             const braid_plan_options *options, braid_plan **out);
/* Resolves and folds a graph, as far as no device matters. */
BRAID_MUST_CHECK braid_status braid_plan_simplify(braid_graph *graph, bool no_fusion);
/* What comes before placing, and all that comes after it. `weights`: those that say where parameters are kept, or NULL.
 */
BRAID_MUST_CHECK braid_status braid_plan_start(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_finish(braid_plan *plan, braid_weights *weights);
/* Fills places, and makes one node of those that are chosen as one. */
BRAID_MUST_CHECK braid_status braid_plan_place(braid_plan *plan, const braid_graph *given,
                                               const braid_plan_options *options);
BRAID_MUST_CHECK braid_status braid_plan_order(braid_plan *plan);
/* Finds where parameters and states are kept, and in which layout: as in `weights` (may be NULL) if they are there. */
BRAID_MUST_CHECK braid_status braid_plan_find_homes(braid_plan *plan, braid_weights *weights);
/* Moves transfers of small inputs to the front, before anything refers to a step by its number. */
BRAID_MUST_CHECK braid_status braid_plan_bring_early(braid_plan *plan);
/* Asks the kernels of all nodes what they need. */
BRAID_MUST_CHECK braid_status braid_plan_query(braid_plan *plan);
/* Prepares them (prepared.h); prepared[i] belongs to step i, NULL: it has no kernel. */
struct braid_prepared;
BRAID_MUST_CHECK braid_status braid_plan_prepare(const braid_plan *plan, struct braid_prepared **prepared);
BRAID_MUST_CHECK braid_status braid_plan_share(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_memory(braid_plan *plan);
BRAID_MUST_CHECK braid_status braid_plan_hazards(braid_plan *plan);

/* --- shared by the stages --- */
/* May kernels work on elements of this type at this host address? */
bool braid_plan_host_aligned(const braid_plan *plan, braid_dtype dtype, const void *address);
/* Is the value the same in every run, so that kernels may keep it? Its tensor is its contents. */
bool braid_plan_is_constant(const braid_plan *plan, braid_value_id value);
/* Is it a parameter or state that runs read where the weights keep it? */
bool braid_plan_is_mutable(const braid_plan *plan, braid_value_id value);
/* The node as its kernel sees it, inputs and outputs plain; NULL: no memory. */
braid_operand *braid_plan_describe(const braid_plan *plan, const braid_node *node, braid_node_desc *desc);
braid_storage *braid_plan_storage(const braid_plan *plan, braid_storage_id id); /* after merging */
braid_storage_id braid_plan_find(const braid_plan *plan, braid_storage_id id);
BRAID_MUST_CHECK braid_status braid_plan_add_storage(braid_plan *plan, braid_storage_kind kind, int space, size_t bytes,
                                                     braid_storage_id *out);
/* Adds a step that copies one instance over another of the same space, bytes for bytes. */
BRAID_MUST_CHECK braid_status braid_plan_add_copy(braid_plan *plan, const char *label, braid_instance_id from,
                                                  braid_instance_id to);
/* The space of an input's memory. */
int braid_plan_input_space(const braid_plan *plan, braid_value_id value);
/* The value's instance at `space` in `layout`, made by conversion and transfer steps if there is none yet. */
BRAID_MUST_CHECK braid_status braid_plan_get(braid_plan *plan, braid_value_id value, int space, braid_layout layout,
                                             int device, braid_instance_id *out);
/* Asserts what every plan fulfils, where asserts are compiled in (base/invariant.h). */
void braid_plan_check(const braid_plan *plan);
/* How the step's kernel wants an input packed; NULL: not at all. */
const braid_packing *braid_step_packing(const braid_step *step, size_t input);
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
