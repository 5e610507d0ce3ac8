/* What the files of the mutant share: a device, its kernels and its queues, each with faults that BRAID_MUTANT names.
 */
#ifndef MUTANT_H
#define MUTANT_H

#include <stdlib.h>
#include <string.h>

#include <braid/host_queue.h>
#include <braid/plugin.h>

bool is(const char *name); /* the fault that was asked for? */

/* --- kernels.c, shapes.c, windows.c, bytes.c ---
 * A prepared kernel. */
typedef struct mine mine;
typedef braid_status work(const mine *kernel, const float *const *in, float *out, float *workspace);
struct mine {
  work *run;
  const braid_node_desc *node;
  float *packed, *first; /* a folded constant; a first result */
  int64_t axes[BRAID_MAX_RANK];
  size_t axis_count;
  int runs;
};
typedef struct body {
  work *run;
} body;

/* Matrices of a product: how many, over which dimensions. */
typedef struct stack {
  braid_desc lead;
  int64_t count;
} stack;
stack mutant_stack(const braid_node_desc *node);
void mutant_stack_find(const stack *s, const braid_node_desc *node, int64_t i, int64_t *left, int64_t *right);

extern const body ADD_BODY, MUL_BODY, SUM_BODY, CONCAT_BODY; /* shapes.c */
extern const body CONV_BODY, GLOBAL_POOL_BODY, GLOBAL_MAX_BODY, MAX_POOL_BODY, AVERAGE_POOL_BODY;
bool match_image(const braid_node_desc *node, char *why, size_t why_bytes);
bool match_float(const braid_node_desc *node, char *why, size_t why_bytes); /* all operands are float32 */
extern const body BYTES_BODY;                                               /* bytes.c */
bool match_bytes(const braid_node_desc *node, char *why, size_t why_bytes);
void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);

static inline int64_t elements(const mine *kernel) {
  return braid_desc_count(&kernel->node->outputs[0].desc);
}

const braid_kernel *const *mutant_kernels(void *device, size_t *count);
braid_status mutant_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                            braid_prepared_info *info);
void mutant_discard(void *device, void *prepared);
/* What prepare says, or something else. */
braid_status mutant_query(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query);
bool mutant_needs_workspace(const mine *kernel);
/* A second call gives the first one's results. */
void mutant_make_stale(mine *kernel, float *out);

/* --- mutant.c --- */
braid_status mutant_run(const braid_task *task); /* a task of any kind */
bool mutant_is_outside(const braid_binding *binding);
void mutant_keep_some(void); /* memory that nobody frees */

/* --- queues.c --- */
braid_status mutant_queue_create(void *device, braid_timeline *timeline, void **queue);
braid_status mutant_submit(void *queue, braid_task *task);
braid_status mutant_record(void *queue, braid_task *const *tasks, size_t count, void **out);
void mutant_erase(void *queue, void *which);
braid_status mutant_replay(void *queue, void *which, uint64_t first);
void mutant_run_here(void *queue, void *which, uint64_t first);

#endif
