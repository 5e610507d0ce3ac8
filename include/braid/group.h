/* A group of processes that train together, each with a slice of every batch (docs/training.md, "Several processes").
 *
 * Each process has one braid_group of its own: its rank, the number of all, and collectives, which every process calls
 * in the same order with operands of the same type and count. A registry that is given a group
 * (braid_registry_set_group) makes its trainers and devices members: AllReduce nodes of a graph then sum over all
 * processes.
 *
 * How processes exchange bytes is a table, braid_group_ops. The one for MPI is in a module that is loaded at run time
 * (libbraid_mpi.so), so that neither the library nor the command depends on MPI; another one is another table. */
#ifndef BRAID_GROUP_H
#define BRAID_GROUP_H

#include "braid/device.h"
#include "braid/tensor.h"

typedef enum braid_reduction {
  BRAID_REDUCE_SUM, /* of floating point: in an order that is the same in every run */
  BRAID_REDUCE_MAX,
  BRAID_REDUCE_OR /* bitwise, of integers */
} braid_reduction;

/* Asked while a process waits for the others: true once it is to wait no longer (it was told to end, and they do not
 * answer). Then a collective returns DEVICE_LOST, and the group can only be destroyed or aborted. */
typedef struct braid_group_patience {
  bool (*is_over)(void *context);
  void *context;
} braid_group_patience;

/* --- transports ----------------------------------------------------------------------------------------------------
 * Calls come from one thread at a time, not always the same one. Data is in host memory. A status other than OK ends
 * the group. A process that waits for the others sleeps, so that their threads and its own have the CPUs. */
enum { BRAID_GROUP_ABI = 1 };
typedef struct braid_group_ops {
  uint32_t abi;     /* BRAID_GROUP_ABI; stays first */
  const char *name; /* "mpi" */
  /* Joins the processes that were started together. */
  braid_status (*join)(void **context, int *rank, int *size);
  /* In place, int32, int64, float32 or float64 (of OR: integers). The result has the same bits in all processes. */
  braid_status (*all_reduce)(void *context, void *data, size_t count, braid_dtype dtype, braid_reduction reduction,
                             const braid_group_patience *patience);
  braid_status (*broadcast)(void *context, void *data, size_t bytes, int root, const braid_group_patience *patience);
  void (*abort)(void *context, int code); /* ends all processes of the group, this one as well */
  /* `lost`: a collective has failed, so the others cannot be waited for. */
  void (*leave)(void *context, bool lost);
} braid_group_ops;

/* The entry point of a module: returns its table. `abi` is the BRAID_GROUP_ABI of the program that loads it. */
#define BRAID_GROUP_MODULE(ops)                                                                                        \
  BRAID_API const braid_group_ops *braid_group_module(uint32_t abi);                                                   \
  const braid_group_ops *braid_group_module(uint32_t abi) {                                                            \
    (void)abi;                                                                                                         \
    return &(ops);                                                                                                     \
  }

/* --- groups --------------------------------------------------------------------------------------------------------
 */
typedef struct braid_group braid_group;

/* Joins by a table of the caller's, which must outlive the group. */
BRAID_API BRAID_MUST_CHECK braid_status braid_group_join(const braid_allocator *allocator, const braid_group_ops *ops,
                                                         braid_group **out);
/* Joins by a module. `path` NULL: libbraid_mpi.so beside the program or library that this function is in, in ../lib
 * from there, or where the system looks. NOT_FOUND says where it was looked for; UNSUPPORTED: it is of another version,
 * or the program is linked statically. */
BRAID_API BRAID_MUST_CHECK braid_status braid_group_load(const braid_allocator *allocator, const char *path,
                                                         braid_group **out);
/* Leaves; the registry with this group must be destroyed before. NULL is allowed. */
BRAID_API void braid_group_destroy(braid_group *group);
BRAID_API int braid_group_rank(const braid_group *group); /* 0 if group is NULL */
BRAID_API int braid_group_size(const braid_group *group); /* 1 if group is NULL */
/* `interrupted` says whether this process was told to end: a collective then waits for the others 20 seconds more.
 * Set it before the group is used. */
BRAID_API void braid_group_set_watch(braid_group *group, bool (*interrupted)(void *context), void *context);

/* Collectives. With `group` NULL, or of one process, they change nothing. */
BRAID_API BRAID_MUST_CHECK braid_status braid_group_all_reduce(braid_group *group, void *data, size_t count,
                                                               braid_dtype dtype, braid_reduction reduction);
BRAID_API BRAID_MUST_CHECK braid_status braid_group_broadcast(braid_group *group, void *data, size_t bytes, int root);
BRAID_API BRAID_MUST_CHECK braid_status braid_group_barrier(braid_group *group);
/* Every process says how its part went (`status`, and the thread's error detail). OK if all were; else all return the
 * status of the first that failed, with its detail behind its rank ("process 2: ..."), now and whenever they ask again:
 * the group is of no more use, and collectives return DEVICE_LOST. */
BRAID_API BRAID_MUST_CHECK braid_status braid_group_agree(braid_group *group, braid_status status);
/* Whether agree has returned a failure: then all processes know of it, and end by themselves. */
BRAID_API bool braid_group_failed_together(const braid_group *group);
/* For devices that reduce by themselves, asked while a collective runs: whether the others are not to be waited for any
 * more, since this process was told to end 20 seconds ago or a collective has failed. */
BRAID_API bool braid_group_gives_up(braid_group *group);
/* Ends all processes with this exit code, for failures after which the others cannot be told. */
BRAID_API void braid_group_abort(braid_group *group, int code);

/* The group of what uses the registry: trainers, and devices opened afterwards. NULL, the default: none. */
BRAID_API void braid_registry_set_group(braid_registry *registry, braid_group *group);
BRAID_API braid_group *braid_registry_get_group(const braid_registry *registry); /* NULL if registry is NULL */

#endif
