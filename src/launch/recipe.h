/* A recipe: what runs one node on an OpenCL device, as launches of kernels in order with their arguments and sizes. A
 * kernel family's plan fills it from the node and the device's traits (recipes from data, a manifest, are filled from
 * that); program.c turns it into cl_kernel objects once, at prepare, and queue.c enqueues them. */
#ifndef BRAID_LAUNCH_RECIPE_H
#define BRAID_LAUNCH_RECIPE_H

#include "braid/device.h"

enum { BRAID_LAUNCHES = 32, BRAID_LAUNCH_ARGUMENTS = 40, BRAID_LAUNCH_OPTION_BYTES = 1024 };

/* Sides of a tile and of what one work-item makes of it. */
typedef struct braid_launch_tile_sides {
  uint32_t rows, columns, depth, work_rows, work_columns;
} braid_launch_tile_sides;

/* What kernels are parameterized by: facts of the device, and the knobs (0: the family's own choice). */
typedef struct braid_launch_traits {
  bool cpu, gpu, fpga;
  uint32_t compute_units;
  size_t local_bytes;                                      /* of local memory per work-group */
  bool local_is_real;                                      /* dedicated memory, not cached global memory */
  size_t max_group, max_item[3];                           /* work-items per work-group, and per dimension */
  uint32_t vector_width;                                   /* preferred, of float */
  bool wide;                                               /* places of 64 bits whatever the tensors' sizes */
  bool aligned;                                            /* memory objects begin where vectors may */
  uint32_t knob_units, knob_simd, knob_group, knob_unroll; /* open's cu=, simd=, group=, unroll= */
  braid_launch_tile_sides knob_tile;                       /* tile= */
  uint32_t knob_slices;                                    /* slices= */
} braid_launch_traits;

typedef enum braid_launch_argument_kind {
  BRAID_LAUNCH_OPERAND,   /* operand `index` of the node, inputs first; an absent one is a null pointer */
  BRAID_LAUNCH_WORKSPACE, /* `bytes` from `offset` of the workspace */
  BRAID_LAUNCH_INT,       /* `integer` as a cl_int */
  BRAID_LAUNCH_LONG,      /* `integer` as a cl_long */
  BRAID_LAUNCH_FLOAT,     /* `real` as a cl_float */
  BRAID_LAUNCH_LOCAL,     /* `bytes` of local memory */
} braid_launch_argument_kind;

typedef struct braid_launch_argument {
  braid_launch_argument_kind kind;
  uint32_t index;
  braid_dtype element;  /* of memory that a kernel of somebody else gets; BRAID_NONE: whatever it takes it for */
  size_t offset, bytes; /* offset: a multiple of the device's alignment */
  int64_t integer;
  double real;
} braid_launch_argument;

typedef struct braid_launch {
  const char *source;                      /* a file of kernels/opencl without its ending: "conv" */
  struct braid_cl_module *module;          /* instead: text or a bitstream of somebody else; NULL: none */
  char options[BRAID_LAUNCH_OPTION_BYTES]; /* for the compiler: "-DTILE_M=32 ..." */
  const char *function;
  uint32_t dimensions;
  size_t global[3], local[3]; /* local[0] 0: the driver chooses */
  size_t argument_count;
  braid_launch_argument arguments[BRAID_LAUNCH_ARGUMENTS];
} braid_launch;

typedef struct braid_launch_recipe {
  size_t launch_count;
  braid_launch launches[BRAID_LAUNCHES];
  size_t workspace_bytes;
} braid_launch_recipe;

/* braid_kernel.implementation of this backend. */
typedef struct braid_launch_kernel {
  /* The recipe is zeroed before. Optional inputs and shapes are read from `node`; its operands are PLAIN unless
   * braid_kernel.layouts asked for others. */
  braid_status (*plan)(const braid_launch_traits *traits, const braid_node_desc *node, braid_launch_recipe *recipe);
  /* As braid_kernel.match, where the device matters (size classes, local memory). NULL: no objection. */
  bool (*match)(const braid_launch_traits *traits, const braid_node_desc *node, char *why, size_t why_bytes);
  const struct braid_cl_entry *entry; /* of a manifest, which matches and plans instead; NULL: none */
} braid_launch_kernel;

/* A family's kernels, best first for each op; families are listed in families.c, one line each. */
typedef struct braid_launch_family {
  const braid_kernel *kernels;
  size_t count;
} braid_launch_family;

#endif
