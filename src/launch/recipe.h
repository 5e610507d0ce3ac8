/* A recipe: what runs one node on a device that launches kernels, as launches in order with their arguments and sizes.
 * A family's plan fills it from the node and the device's traits; the backend turns it into the driver's objects once,
 * at prepare, and enqueues those. Nothing here knows whose driver that is. */
#ifndef BRAID_LAUNCH_RECIPE_H
#define BRAID_LAUNCH_RECIPE_H

#include "launch/tuning.h"

enum { BRAID_LAUNCHES = 4096, BRAID_LAUNCH_ARGUMENTS = 40, BRAID_LAUNCH_OPTION_BYTES = 1024 };
enum { BRAID_LAUNCH_VECTOR_ARGUMENTS = 8, BRAID_LAUNCH_VECTOR_BYTES = 128 }; /* of a launch; of the longest, double16 */

/* The user's choices in place of a family's own, each 0: the family's. */
typedef struct braid_launch_knobs {
  bool as_cpu, as_gpu, as_fpga;        /* as=: the kernels of such a device; none: as the device says */
  bool wide;                           /* index_bits=64: for all tensors, not only for large ones */
  uint32_t units, simd, group, unroll; /* cu=, simd=, group=, unroll= */
  uint32_t slices;                     /* slices=: of the inner dimension of products */
  braid_launch_tile_sides tile;        /* tile= */
} braid_launch_knobs;

/* How kernels multiply and add four bytes at once. */
typedef enum braid_launch_dot {
  BRAID_LAUNCH_DOT_PLAIN,   /* one by one */
  BRAID_LAUNCH_DOT_KHRONOS, /* cl_khr_integer_dot_product, packed */
  BRAID_LAUNCH_DOT_PTX,     /* NVIDIA's instruction dp4a, from compute capability 6.1 on */
} braid_launch_dot;

/* How kernels multiply matrices of bytes at once; matrices of 16 bits by mma.sync where there is one of the two. */
typedef enum braid_launch_tensor {
  BRAID_LAUNCH_TENSOR_NONE,
  BRAID_LAUNCH_TENSOR_WARPS,      /* NVIDIA's mma.sync, from compute capability 8.0 on */
  BRAID_LAUNCH_TENSOR_WARPGROUPS, /* wgmma, of compute capability 9.0 */
} braid_launch_tensor;

/* What kernels are parameterized by: facts of the device, what is tuned for such devices, and the knobs. */
typedef struct braid_launch_traits {
  bool cpu, gpu, fpga;
  uint32_t compute_units;
  size_t local_bytes;            /* of local memory per work-group */
  bool local_is_real;            /* dedicated memory, not cached global memory */
  size_t max_group, max_item[3]; /* work-items per work-group, and per dimension */
  uint32_t vector_width;         /* preferred, of float */
  braid_launch_dot dot;
  braid_launch_tensor tensor;
  bool clusters;     /* neighbouring work-groups may share local memory, as Hopper's do */
  size_t local_most; /* local memory that a work-group may ask for at the launch; 0: none */
  bool aligned;      /* memory objects begin where vectors may */
  const braid_launch_tuning *tuning;
  braid_launch_knobs knobs;
} braid_launch_traits;

/* Once the facts are known: puts the knobs in place, and the tuning for such a device. */
void braid_launch_tune(braid_launch_traits *traits, const braid_launch_knobs *knobs);

typedef enum braid_launch_argument_kind {
  BRAID_LAUNCH_OPERAND,   /* operand `index` of the node, inputs first; an absent one is a null pointer. `bytes` from
                             `offset` of it; 0 bytes: all */
  BRAID_LAUNCH_WORKSPACE, /* `bytes` from `offset` of the workspace */
  BRAID_LAUNCH_INT,       /* `integer` in 32 bits */
  BRAID_LAUNCH_LONG,      /* `integer` in 64 bits */
  BRAID_LAUNCH_FLOAT,     /* `real` in 32 bits */
  BRAID_LAUNCH_NUMBER,    /* of type `element`: the first bytes of `integer` */
  BRAID_LAUNCH_VECTOR,    /* `lanes` numbers of type `element`: `bytes` of the launch's vector `index` */
  BRAID_LAUNCH_LOCAL,     /* `bytes` of local memory */
  BRAID_LAUNCH_FAULT,     /* a word of 32 bits: a kernel that meets an index out of range makes it 1, the task fails */
} braid_launch_argument_kind;

typedef struct braid_launch_argument {
  braid_launch_argument_kind kind;
  uint32_t index;
  uint32_t lanes;
  braid_dtype element;  /* of memory that a kernel of somebody else gets; BRAID_NONE: whatever it takes it for */
  size_t offset, bytes; /* offset: a multiple of the device's alignment */
  int64_t integer;
  double real;
} braid_launch_argument;

typedef struct braid_launch {
  const char *source; /* a file of the backend's kernel text without its ending: "conv" */
  void *module;       /* instead: text or a binary of somebody else, the backend's own object; NULL: none */
  char options[BRAID_LAUNCH_OPTION_BYTES]; /* for the compiler: "-DTILE_M=32 ..." */
  const char *function;
  uint32_t dimensions;
  size_t global[3], local[3]; /* local[0] 0: the driver chooses */
  size_t local_bytes;         /* local memory beyond what the kernel declares, CUDA's dynamic one */
  bool together;              /* runs at the same time as the launch before it, in a queue of its own */
  uint32_t vector_count;
  uint8_t vectors[BRAID_LAUNCH_VECTOR_ARGUMENTS][BRAID_LAUNCH_VECTOR_BYTES];
  size_t argument_count;
  braid_launch_argument arguments[BRAID_LAUNCH_ARGUMENTS];
} braid_launch;

/* Zeroed, it is an empty recipe in memory of the C library's. */
typedef struct braid_launch_recipe {
  const braid_allocator *allocator;
  size_t launch_count, launch_capacity;
  braid_launch *launches;
  size_t workspace_bytes;
} braid_launch_recipe;

/* A launch more, zeroed; addresses of the others do not stay. NULL: out of memory. */
braid_launch *braid_launch_recipe_add(braid_launch_recipe *recipe);
void braid_launch_recipe_deinit(braid_launch_recipe *recipe);

/* braid_kernel.implementation of backends that launch kernels. */
typedef struct braid_launch_kernel {
  /* The recipe is empty before. Optional inputs and shapes are read from `node`; its operands are PLAIN unless
   * braid_kernel.layouts asked for others. */
  braid_status (*plan)(const braid_launch_traits *traits, const braid_node_desc *node, braid_launch_recipe *recipe);
  /* As braid_kernel.match, where the device matters (size classes, local memory). NULL: no objection. */
  bool (*match)(const braid_launch_traits *traits, const braid_node_desc *node, char *why, size_t why_bytes);
  const void *foreign; /* of no family: what the backend matches and plans it by instead; NULL: none */
  const braid_kernel
      *widens; /* a kernel of float32 that takes 16-bit operands by conversions (widened.h); NULL: none */
} braid_launch_kernel;

/* A family's kernels, best first for each op; families are listed in families.c, one line each. */
typedef struct braid_launch_family {
  const braid_kernel *kernels;
  size_t count;
  bool widens; /* they know float32 and no 16-bit type: each is listed again, widened (widened.h) */
} braid_launch_family;

#endif
