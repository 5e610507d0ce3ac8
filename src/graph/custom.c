#include "graph/custom.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"

enum { kMaxOperands = 64 };

/* Entries are only ever added: readers see the first `count` of them without a lock. */
typedef struct entry {
  braid_op op; /* first: infer gets back to the entry from it */
  const braid_custom_op *custom;
} entry;

static entry entries[BRAID_MAX_CUSTOM_OPS];
static atomic_size_t count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static braid_status infer(const braid_infer *infer) {
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

const braid_op *braid_custom_op_find(const char *name) {
  for (size_t i = 0, n = atomic_load(&count); i < n; i++)
    if (strcmp(entries[i].op.name, name) == 0) return &entries[i].op;
  return NULL;
}

size_t braid_custom_op_count(void) {
  return atomic_load(&count);
}

const braid_custom_op *braid_custom_op_at(size_t index) {
  return entries[index].custom;
}

static braid_status check(const braid_custom_op *op) {
  if (!op->name || !*op->name || !op->infer || !op->compute)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a custom op needs a name, infer and compute");
  if (op->min_inputs < 0 || op->max_inputs < op->min_inputs || op->max_inputs > kMaxOperands || op->outputs < 1 ||
      op->outputs > kMaxOperands)
    return braid_fail(BRAID_INVALID_ARGUMENT, "custom op %.80s: expected 0 to %d inputs and 1 to %d outputs", op->name,
                      kMaxOperands, kMaxOperands);
  return BRAID_OK;
}

static braid_status add(const braid_custom_op *op) {
  size_t at = atomic_load(&count);
  if (braid_op_find(op->name))
    return braid_fail(BRAID_INVALID_ARGUMENT, "custom op %.80s: there is an op of this name already", op->name);
  if (at == BRAID_MAX_CUSTOM_OPS)
    return braid_fail(BRAID_OUT_OF_RANGE, "custom op %.80s: %d are registered already, the most there can be", op->name,
                      BRAID_MAX_CUSTOM_OPS);
  entries[at] = (entry){.custom = op,
                        .op = {.name = op->name,
                               .min_inputs = (int16_t)op->min_inputs,
                               .max_inputs = (int16_t)op->max_inputs,
                               .min_outputs = (int16_t)op->outputs,
                               .max_outputs = (int16_t)op->outputs,
                               .infer = infer}};
  atomic_store(&count, at + 1);
  return BRAID_OK;
}

braid_status braid_custom_op_register(const braid_custom_op *op) {
  BRAID_TRY(check(op));
  pthread_mutex_lock(&adding);
  braid_status status = add(op);
  pthread_mutex_unlock(&adding);
  return status;
}
