/* The CPU backend's own: how its kernels are written and found.
 *
 * A kernel file hands over one table of braid_kernel whose `implementation` is a braid_cpu_kernel; tables.c lists the
 * tables, best first. Kernels are called from the queue's thread and may use OpenMP for loops over independent outputs
 * (never for reductions whose order would depend on the number of threads). */
#ifndef BRAID_BACKEND_CPU_H
#define BRAID_BACKEND_CPU_H

#include "braid/device.h"

typedef struct braid_cpu_args {
  const void *const *inputs; /* NULL: left out, or folded into the prepared kernel */
  void *const *outputs;      /* NULL: left out */
  void *workspace;           /* 64-byte aligned; there is an address even if none was asked for */
  struct braid_group *group; /* of the device; NULL: none */
} braid_cpu_args;

/* `state` from create is kept by the backend from prepare to discard. */
typedef struct braid_cpu_kernel {
  /* Parses attributes, describes primitives. NULL: no state beyond the node description. `node` and
   * everything it points to (but not operand.constant) outlives the kernel, so `state` may keep the pointer. */
  braid_status (*create)(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                         braid_prepared_info *info);
  braid_status (*run)(const braid_node_desc *node, void *state, const braid_cpu_args *args);
  void (*destroy)(const braid_allocator *allocator, void *state); /* NULL: braid_free */
  /* Makes what only running takes, and takes long. create does without: it is what a query calls. NULL: nothing. */
  braid_status (*finish)(void *state);
  /* Constants that the kernel takes in packed form, args.inputs then pointing at that: lists them, after create, and
   * packs one. NULL: none. */
  void (*list_packings)(const void *state, braid_query *query);
  braid_status (*pack)(const braid_node_desc *node, void *state, uint32_t input, const void *plain, void *packed);
  /* Elements are moved by places that shapes alone determine: nothing is prepared or run for a node whose results are
   * empty, however large its other dimensions are. Other kernels run then too, for inputs may be wrong. */
  bool moves;
  bool waits; /* for other processes, and computes next to nothing: without the device's team of threads */
} braid_cpu_kernel;

/* What kernels stand on: a library that is looked for when the program runs, or (load alone) the processor. */
typedef struct braid_cpu_library {
  bool (*load)(void);            /* at the first call; false: it is not there, or not one we can use */
  const char *(*describe)(void); /* after load: its name and version; or why there is none, and what to install */
  void (*enter)(void);           /* a device is opened: what the library found out is kept */
  void (*leave)(void);           /* one is closed: with the last, that is let go of */
} braid_cpu_library;

typedef struct braid_cpu_table {
  const braid_kernel *kernels;
  size_t count;
  const braid_cpu_library *library; /* what the kernels stand on; NULL: nothing */
} braid_cpu_table;

/* Folding on the host: a braid_evaluator over the reference kernels lives in evaluate.c. */

#endif
