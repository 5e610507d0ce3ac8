/* Manifests: YAML files that bind ops to kernels of somebody else, in OpenCL text or a bitstream (docs/manifest.md).
 * Their kernels stand before the library's.
 *
 *   manifest  reads and checks the file                    entry  an entry for one node or chain: does it fit, its
 * recipe chain     finds chains in a graph, and claims them     place  operands as an entry wants them */
#ifndef BRAID_BACKEND_OPENCL_MANIFEST_H
#define BRAID_BACKEND_OPENCL_MANIFEST_H

#include <stdatomic.h>

#include "backend/opencl/program.h"
#include "launch/formula.h"

enum {
  BRAID_CL_ENTRY_LAUNCHES = 16,
  BRAID_CL_ENTRY_AXES = 8, /* axes of an operand as a kernel wants it */
  BRAID_CL_ENTRY_REPEATS = 1024,
  BRAID_CL_CHAIN = 8, /* nodes */
  BRAID_CL_NUMBERS = 16,
  BRAID_CL_OPERANDS = 32
};

/* Types of numbers as OpenCL C calls them. */
#define BRAID_CL_SCALARS(X)                                                                                            \
  X(char, I8)                                                                                                          \
  X(uchar, U8)                                                                                                         \
  X(short, I16) X(ushort, U16) X(int, I32) X(uint, U32) X(long, I64) X(ulong, U64) X(float, F32) X(double, F64)

/* One argument of a kernel: exactly one of in, out, a number, vector, local and workspace is there. Texts are formulas
 * (formula.h), and for floating-point numbers also such numbers or attr(NAME, NUMBER). */
typedef struct braid_cl_entry_argument {
  int64_t *in, *out;
  int64_t *node; /* of in: the node of the chain; NULL: 0 */
#define BRAID_CL_MEMBER(name, dtype) char *of_##name;
  BRAID_CL_SCALARS(BRAID_CL_MEMBER)
#undef BRAID_CL_MEMBER
  char *vector;  /* "float4" */
  char **values; /* of vector: one for all lanes, or one for each */
  unsigned values_count;
  char *local, *workspace;
  char *name;  /* of workspace: launches of a node that say the same name share it; NULL: "" */
  bool zeroed; /* of workspace: zeros before the first launch of each turn */
  /* Of in and out. Axes in the order that the kernel wants: "1", or "1/4" and "1%4": fours of axis 1, and what is in
   * one of them. */
  char **order;
  unsigned order_count;
  char **shape; /* their sizes as the kernel wants them, in that order; zeros are added behind */
  unsigned shape_count;
  char *item;      /* one element of axis 0, NULL: all */
  char *as, *frac; /* elements of another type, with bits of fraction; NULL: as they are, 0 */
} braid_cl_entry_argument;

static inline const char *braid_cl_workspace_name(const braid_cl_entry_argument *argument) {
  return argument->name ? argument->name : "";
}

typedef struct braid_cl_entry_launch {
  char *function, *options;
  bool together; /* starts with the launch before it */
  braid_cl_entry_argument *arguments;
  unsigned arguments_count;
  char **global, **local;
  unsigned global_count, local_count;
} braid_cl_entry_launch;

/* What the numbers of an entry are for nodes whose name the pattern fits. */
typedef struct braid_cl_layer {
  char *node;
  int64_t *values;
  unsigned values_count;
} braid_cl_layer;

typedef struct braid_cl_entry {
  char *name;
  char *op;     /* or */
  char **chain; /* ops of nodes each of which is the only reader of the one before; "Relu?" may be left out */
  unsigned chain_count;
  char **types; /* of inputs, then outputs; none: float32 */
  unsigned types_count;
  char **when;
  unsigned when_count;
  char **ignores; /* names of attributes that change nothing for these kernels */
  unsigned ignores_count;
  char **numbers; /* names */
  unsigned numbers_count;
  braid_cl_layer *layers; /* the first that fits the name of the (first) node; none fits: not taken */
  unsigned layers_count;
  char *repeat; /* turns in which all launches are made; NULL: one */
  braid_cl_entry_launch *launches;
  unsigned launches_count;
  /* Not of the entry itself, but of its file: where its functions are, and options for all. */
  braid_cl_module *module;
  const char *common_options; /* NULL: none */
  atomic_bool *warned;        /* of a formula without a value */
  const braid_cl_device *device;
} braid_cl_entry;

/* What the file says. */
typedef struct braid_cl_manifest_file {
  char *source, *bitstream, *options;
  braid_cl_entry *kernels;
  unsigned kernels_count;
} braid_cl_manifest_file;

/* Reads and checks text; `name` stands for the file in messages. */
BRAID_MUST_CHECK braid_status braid_cl_manifest_parse(const char *name, const void *text, size_t bytes,
                                                      braid_cl_manifest_file **out);
void braid_cl_manifest_free(braid_cl_manifest_file *file); /* NULL is allowed */

/* Reads the manifest that the device's options name, and opens what it refers to, beside it. */
BRAID_MUST_CHECK braid_status braid_cl_manifest_load(braid_cl_device *device, const char *path);
void braid_cl_manifest_release(braid_cl_device *device);
braid_launch_family braid_cl_manifest_family(const braid_cl_manifest *manifest); /* of ops; NULL is allowed: none */
/* The kernel for regions of chain *index, which is counted on; NULL: there is no other. */
const braid_kernel *braid_cl_manifest_chain(const braid_cl_manifest *manifest, size_t *index);

/* --- for one node or chain (entry.c) --- */
/* Who an entry is asked about: a node, or a chain of them that is or will be a region. */
typedef struct braid_cl_subject {
  const braid_cl_entry *entry;
  const braid_node_desc *whole; /* the node or region, whose operands a task has */
  const braid_node_desc *nodes[BRAID_CL_CHAIN];
  size_t node_count;
  int32_t inputs[BRAID_CL_CHAIN][BRAID_CL_OPERANDS]; /* the whole's inputs that are the nodes'; -1: from inside */
  const char *names[BRAID_CL_NUMBERS + 1];           /* the entry's numbers, then "turn" */
  int64_t values[BRAID_CL_NUMBERS + 1];
  uint64_t *asked; /* as in braid_launch_scope */
} braid_cl_subject;

/* Of an entry's formulas while nobody is asked about: they are only read. `names` has room for all. */
braid_launch_scope braid_cl_entry_scope(const braid_cl_entry *entry, const char *names[BRAID_CL_NUMBERS + 1]);
/* A number of any type, a formula or attr(NAME, NUMBER); without nodes in the scope it is only read. INVALID_FILE. */
BRAID_MUST_CHECK braid_status braid_cl_real(const char *text, const braid_launch_scope *scope, double *out);
/* "1", "1/4" or "1%4", part ' ', '/' or '%'; false: none of these. */
bool braid_cl_read_axis(const char *text, int64_t *axis, char *part, int64_t *size);
/* An element type by name, a number's type by that of OpenCL C ("uchar", or "uchar4" with its lanes); BRAID_NONE. */
braid_dtype braid_cl_find_dtype(const char *name);
braid_dtype braid_cl_find_scalar(const char *name, uint32_t *lanes);
/* The argument's number: its text, and in *dtype its type; NULL: it is no number. */
const char *braid_cl_number_text(const braid_cl_entry_argument *argument, braid_dtype *dtype);

bool braid_cl_entry_gives(const braid_cl_entry *entry, size_t output); /* is it an argument of a launch? */
/* Does the entry fit, and are its kernels there? If not, says why. */
bool braid_cl_subject_fits(braid_cl_subject *subject, const braid_cl_device *device, char *why, size_t why_bytes);
bool braid_cl_entry_match(const braid_cl_entry *entry, const braid_cl_device *device, const braid_node_desc *node,
                          char *why, size_t why_bytes);
/* The constants that a task gets in packed form (staging.h). */
typedef struct braid_cl_packed braid_cl_packed;
/* For a node, or for a region that was claimed by the entry. `packed`, zeroed: constants are packed; NULL: they are
 * bound as they are. */
BRAID_MUST_CHECK braid_status braid_cl_entry_plan(const braid_cl_entry *entry, const braid_launch_traits *traits,
                                                  const braid_node_desc *node, braid_launch_recipe *recipe,
                                                  braid_cl_packed *packed);

/* --- for chains (chain.c) --- */
braid_status braid_cl_claim_chains(void *device, const braid_subgraph *graph, braid_region_claim claim, void *context);
braid_status braid_cl_query_chain(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                                  size_t *workspace_bytes, braid_packing *packings, size_t *packing_count);
/* The subject that a region of the entry's is. */
BRAID_MUST_CHECK braid_status braid_cl_subject_of_region(const braid_cl_entry *entry, const braid_node_desc *node,
                                                         braid_cl_subject *out);

#endif
