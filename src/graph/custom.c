#include "graph/custom.h"

#include <pthread.h>
#include <string.h>

#include "base/detail.h"
#include "base/invariant.h"
#include "base/try.h"

enum { kMaxOperands = 64 };

typedef struct entry {
  braid_op op; /* first: infer gets back to the entry from it */
  const braid_custom_op *custom;
  struct entry *next;
} entry;

/* Entries are only ever added, in front: readers take no lock. */
struct braid_custom_ops {
  const braid_allocator *allocator;
  uint32_t references;
  pthread_mutex_t adding;
  entry *first; /* atomic */
};

static braid_custom_ops process_ops = {.references = 1, .adding = PTHREAD_MUTEX_INITIALIZER};

static braid_status custom_infer(const braid_infer *infer) {
  const braid_custom_op *custom = ((const entry *)(const void *)infer->node->op)->custom;
  const braid_desc *inputs[kMaxOperands];
  braid_desc outputs[kMaxOperands] = {0};
  size_t input_count = infer->node->input_count, output_count = infer->node->output_count;
  for (size_t i = 0; i < input_count; i++) inputs[i] = braid_infer_input(infer, i);
  braid_clear_detail();
  braid_status status = custom->infer(&infer->node->attrs, inputs, input_count, outputs, output_count);
  if (status != BRAID_OK) return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, custom->name);
  for (size_t i = 0; i < output_count; i++)
    BRAID_TRY(braid_infer_output(infer, i, outputs[i].dtype, outputs[i].rank, outputs[i].dims));
  return BRAID_OK;
}

const braid_op *braid_custom_ops_find(const braid_custom_ops *ops, const char *name) {
  const entry *e = __atomic_load_n(&(ops ? ops : &process_ops)->first, __ATOMIC_ACQUIRE);
  while (e && strcmp(e->op.name, name) != 0) e = e->next;
  return e ? &e->op : NULL;
}

const braid_custom_op *braid_custom_op_of(const braid_op *op) {
  return op->infer == custom_infer ? ((const entry *)(const void *)op)->custom : NULL;
}

/* --- sets ----------------------------------------------------------------------------------------------------------
 */
static braid_status custom_check(const braid_custom_op *op) {
  if (!op->name || !*op->name || !op->infer || !op->compute)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a custom op needs a name, infer and compute");
  if (op->min_inputs < 0 || op->max_inputs < op->min_inputs || op->max_inputs > kMaxOperands || op->outputs < 1 ||
      op->outputs > kMaxOperands)
    return braid_fail(BRAID_INVALID_ARGUMENT, "custom op %.80s: expected 0 to %d inputs and 1 to %d outputs", op->name,
                      kMaxOperands, kMaxOperands);
  return BRAID_OK;
}

static braid_status custom_add(braid_custom_ops *ops, const braid_custom_op *op) {
  if (braid_op_find_built_in(op->name) || braid_custom_ops_find(ops, op->name))
    return braid_fail(BRAID_INVALID_ARGUMENT, "custom op %.80s: there is an op of this name already", op->name);
  entry *added = braid_zalloc(ops->allocator, sizeof *added);
  if (!added) return BRAID_NO_MEMORY;
  *added = (entry){.custom = op,
                   .op = {.name = op->name,
                          .min_inputs = (int16_t)op->min_inputs,
                          .max_inputs = (int16_t)op->max_inputs,
                          .min_outputs = (int16_t)op->outputs,
                          .max_outputs = (int16_t)op->outputs,
                          .flags = BRAID_OP_NARROW, /* what it takes is its own decision */
                          .infer = custom_infer},
                   .next = ops->first};
  __atomic_store_n(&ops->first, added, __ATOMIC_RELEASE);
  return BRAID_OK;
}

braid_status braid_custom_ops_add(braid_custom_ops *ops, const braid_custom_op *op) {
  BRAID_TRY(custom_check(op));
  pthread_mutex_lock(&ops->adding);
  braid_status status = custom_add(ops, op);
  pthread_mutex_unlock(&ops->adding);
  return status;
}

braid_status braid_custom_op_register(const braid_custom_op *op) {
  return braid_custom_ops_add(&process_ops, op);
}

braid_status braid_custom_ops_create(const braid_allocator *allocator, braid_custom_ops **out) {
  *out = braid_zalloc(allocator, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->allocator = allocator;
  (*out)->references = 1;
  pthread_mutex_init(&(*out)->adding, NULL);
  return BRAID_OK;
}

braid_custom_ops *braid_custom_ops_retain(braid_custom_ops *ops) {
  if (ops) braid_references_add(&ops->references);
  return ops;
}

void braid_custom_ops_release(braid_custom_ops *ops) {
  if (!ops || !braid_references_drop(&ops->references)) return;
  while (ops->first) {
    entry *next = ops->first->next;
    braid_free(ops->allocator, ops->first);
    ops->first = next;
  }
  pthread_mutex_destroy(&ops->adding);
  braid_free(ops->allocator, ops);
}
