/* Manifests: YAML files that bind ops to kernels of somebody else, in OpenCL text or a bitstream (docs/manifest.md).
 * Their kernels stand before the library's. */
#ifndef BRAID_BACKEND_OPENCL_MANIFEST_H
#define BRAID_BACKEND_OPENCL_MANIFEST_H

#include <stdatomic.h>

#include "backend/opencl/program.h"

enum { BRAID_CL_ENTRY_LAUNCHES = 4, BRAID_CL_ENTRY_AXES = BRAID_MAX_RANK };

/* One argument of a kernel: exactly one of in, out, integer, wide, real, local and workspace is there. Texts are
 * formulas (formula.h) but for `real`, a number or attr(NAME, NUMBER). */
typedef struct braid_cl_entry_argument {
  int64_t *in, *out;
  char *integer, *wide, *real, *local, *workspace;
  char *name;     /* of workspace: launches of a node that say the same name share it; NULL: "" */
  int64_t *order; /* of in and out: the operand's axes in the order that the kernel wants */
  unsigned order_count;
  char **shape; /* of in and out: their sizes as the kernel wants them, in that order; zeros are added behind */
  unsigned shape_count;
} braid_cl_entry_argument;

static inline const char *braid_cl_workspace_name(const braid_cl_entry_argument *argument) {
  return argument->name ? argument->name : "";
}

typedef struct braid_cl_entry_launch {
  char *function, *options;
  braid_cl_entry_argument *arguments;
  unsigned arguments_count;
  char **global, **local;
  unsigned global_count, local_count;
} braid_cl_entry_launch;

typedef struct braid_cl_entry {
  char *name, *op;
  char **types; /* of inputs, then outputs; none: float32 */
  unsigned types_count;
  char **when;
  unsigned when_count;
  braid_cl_entry_launch *launches;
  unsigned launches_count;
  /* Not of the entry itself, but of its file: where its functions are, and options for all. */
  braid_cl_module *module;
  const char *common_options; /* NULL: none */
  atomic_bool *warned;        /* of a formula without a value */
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
braid_launch_family braid_cl_manifest_family(const braid_cl_manifest *manifest); /* NULL is allowed: none */

/* --- for one node (entry.c) --- */
/* The text of `real`: a number, or attr(NAME, NUMBER) of these attributes (NULL: only reads). INVALID_FILE. */
BRAID_MUST_CHECK braid_status braid_cl_real(const char *text, const braid_attrs *attrs, double *out);
bool braid_cl_entry_gives(const braid_cl_entry *entry, size_t output); /* is it an argument of a launch? */
bool braid_cl_entry_match(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes);
BRAID_MUST_CHECK braid_status braid_cl_entry_plan(const braid_cl_entry *entry, const braid_launch_traits *traits,
                                                  const braid_node_desc *node, braid_launch_recipe *recipe);

#endif
