/* One node with random data, run by every kernel of the CPU that takes it and compared with the plain reference, in
 * every layout that a kernel asks for, with constant and changing weights. Include after cmocka.h. */
#ifndef BRAID_TESTS_KERNEL_FIXTURE_H
#define BRAID_TESTS_KERNEL_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "base/philox.h"
#include "graph/graph.h"
#include "tensor/layout.h"

enum { kMaxOperands = 16, kMaxKernels = 16, kSeed = 20240607 };

/* --- one node with its data ----------------------------------------------------------------------------------------
 */
typedef struct fixture {
  braid_graph *graph;
  braid_node_id node;
  braid_operand operands[kMaxOperands]; /* inputs, then outputs */
  void *data[kMaxOperands];             /* plain */
  size_t inputs, outputs;
} fixture;

static inline void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static inline void add_typed(fixture *f, braid_value_id *ids, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_graph_add_input(f->graph, NULL, &desc, &ids[f->inputs]));
  f->inputs++;
}

static inline void add_input(fixture *f, braid_value_id *ids, int rank, const int64_t *dims) {
  add_typed(f, ids, BRAID_F32, rank, dims);
}

static inline void set(fixture *f, const char *name, int count, const int64_t *values) {
  ok(braid_graph_set_ints(f->graph, f->node, name, values, (size_t)count));
}

/* Which bits of random bytes are kept: two give places in a window of 2 x 2. */
static uint8_t byte_mask = 3;

/* Not a finite number: what stands once in every image (or matrix) of the first input. 0: nothing does. */
static float intruder;

/* Errors are relative to the largest result, and to this: an activation may squeeze results, but not the errors of what
 * it was given. */
static double least_scale;

/* In which layout the first input lies, for kernels that choose by it. */
static braid_layout first_layout;
/* Called before each run of a kernel; NULL: nothing is. */
static void (*before_run)(void);

static inline void intrude(const braid_desc *desc, float *data) {
  int64_t count = braid_desc_count(desc), image = desc->rank > 2 ? count / desc->dims[0] : count;
  for (int64_t i = image / 3; i < count; i += image) data[i] = intruder;
}

/* float32 in [-1, 1), or integers. */
static inline void *random_data(const braid_desc *desc, uint32_t stream) {
  int64_t count = braid_desc_count(desc);
  float *data = calloc((size_t)count + 1, sizeof(double));
  for (int64_t i = 0; i < count; i++) {
    if (desc->dtype == BRAID_U8 || desc->dtype == BRAID_I8)
      ((uint8_t *)data)[i] = (uint8_t)(braid_random_u32(kSeed, 0, stream, (uint64_t)i) & byte_mask);
    else if (desc->dtype == BRAID_I32)
      ((int32_t *)data)[i] = (int32_t)(braid_random_u32(kSeed, 0, stream, (uint64_t)i) >> 16);
    else
      data[i] = braid_random_uniform(kSeed, 0, stream, (uint64_t)i) * 2 - 1;
  }
  return data;
}

static inline void finish_some(fixture *f, const char *op, braid_value_id *ids, size_t outputs, int left_out) {
  braid_value_id results[kMaxOperands] = {0};
  if (left_out >= 0) results[left_out] = -1;
  ok(braid_graph_add_node(f->graph, op, "n", ids, f->inputs, results, outputs, &f->node));
  f->outputs = outputs;
}

static inline void finish(fixture *f, const char *op, braid_value_id *ids, size_t outputs) {
  finish_some(f, op, ids, outputs, -1);
}

static inline void fill(fixture *f) {
  ok(braid_graph_infer_node(f->graph, f->node));
  const braid_node *node = &f->graph->nodes[f->node];
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    braid_value_id id = i < f->inputs ? node->inputs[i] : node->outputs[i - f->inputs];
    f->operands[i].present = id >= 0;
    if (id < 0) continue;
    f->operands[i].desc = f->graph->values[id].desc;
    f->data[i] = random_data(&f->operands[i].desc, (uint32_t)i);
    if (i == 0 && intruder != 0) intrude(&f->operands[0].desc, f->data[0]);
  }
}

static inline void clear(fixture *f) {
  for (size_t i = 0; i < kMaxOperands; i++) free(f->data[i]);
  braid_graph_destroy(f->graph);
}

static inline fixture begin(void) {
  fixture f = {.inputs = 0};
  ok(braid_graph_create(NULL, "test", &f.graph));
  return f;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static inline braid_node_desc describe(const fixture *f, const braid_operand *operands) {
  const braid_node *node = &f->graph->nodes[f->node];
  return (braid_node_desc){.op = node->op->name,
                           .name = node->name,
                           .attrs = &node->attrs,
                           .input_count = f->inputs,
                           .output_count = f->outputs,
                           .inputs = operands,
                           .outputs = operands + f->inputs};
}

/* What a layout pads with must be zero, whatever was there. */
static inline void check_padding(const braid_kernel *kernel, const braid_desc *desc, const void *plain,
                                 const void *memory) {
  uint8_t *again = malloc(braid_desc_bytes(desc) + 1);
  braid_layout_pack(desc, plain, again);
  for (size_t i = 0; i < braid_desc_bytes(desc); i++)
    if (again[i] != ((const uint8_t *)memory)[i])
      fail_msg("%s %s leaves padding that is not zero at byte %zu", kernel->op, kernel->name, i);
  free(again);
}

/* Runs `kernel`; plain results go to results[]. constant_from: inputs from there on are constants. */
static inline void run(const fixture *f, const braid_kernel *kernel, size_t constant_from, float **results) {
  braid_operand operands[kMaxOperands];
  memcpy(operands, f->operands, sizeof operands);
  braid_node_desc node = describe(f, operands);
  braid_layout layouts[kMaxOperands] = {BRAID_LAYOUT_PLAIN};
  if (kernel->layouts) {
    layouts[0] = first_layout;
    kernel->layouts(&node, layouts, layouts + f->inputs);
  }
  void *memory[kMaxOperands] = {NULL};
  for (size_t i = 0; i < f->inputs + f->outputs && i < kMaxOperands; i++) {
    if (!operands[i].present) continue;
    operands[i].desc.layout = layouts[i];
    memory[i] = braid_zalloc(NULL, braid_desc_bytes(&operands[i].desc));
    if (i < f->inputs)
      braid_layout_pack(&operands[i].desc, f->data[i], memory[i]);
    else
      memset(memory[i], 0x55, braid_desc_bytes(&operands[i].desc));
    if (i < f->inputs && i >= constant_from) operands[i].constant = f->data[i];
  }
  braid_cpu_prepared *prepared;
  braid_prepared_info info = {0};
  ok(braid_cpu_prepare(NULL, kernel, &node, &prepared, &info));
  void *workspace = info.workspace_bytes ? braid_alloc(NULL, info.workspace_bytes) : NULL;
  for (size_t i = 0; i < f->inputs; i++) prepared->inputs[i] = info.constants_folded >> i & 1 ? NULL : memory[i];
  for (size_t i = 0; i < f->outputs; i++) prepared->outputs[i] = memory[f->inputs + i];
  if (before_run) before_run();
  ok(braid_cpu_run(prepared, workspace));
  if (before_run) before_run();
  ok(braid_cpu_run(prepared, workspace)); /* and again: a run leaves nothing behind that changes the next */
  for (size_t i = 0; i < f->outputs; i++) {
    const braid_desc *desc = &operands[f->inputs + i].desc;
    results[i] = NULL;
    if (!operands[f->inputs + i].present) continue;
    results[i] = calloc((size_t)braid_desc_count(desc), sizeof(double)); /* of any type */
    braid_layout_unpack(desc, memory[f->inputs + i], results[i]);
    check_padding(kernel, desc, results[i], memory[f->inputs + i]);
  }
  braid_cpu_discard(prepared);
  braid_free(NULL, workspace);
  for (size_t i = 0; i < kMaxOperands; i++) braid_free(NULL, memory[i]);
}

/* NaN where NaN is wanted, and nowhere else. */
static inline bool is_near(float got, float wanted, double bound) {
  if (!isfinite(wanted)) return isnan(wanted) ? isnan(got) : got == wanted;
  return fabs((double)got - wanted) <= bound;
}

static inline void compare(const fixture *f, const braid_kernel *kernel, float **got, float **wanted) {
  for (size_t i = 0; i < f->outputs; i++) {
    const braid_operand *operand = &f->operands[f->inputs + i];
    if (!operand->present) continue;
    int64_t count = braid_desc_count(&operand->desc);
    if (operand->desc.dtype != BRAID_F32) {
      assert_memory_equal(got[i], wanted[i], braid_desc_bytes(&operand->desc));
      continue;
    }
    double scale = least_scale;
    for (int64_t j = 0; j < count; j++)
      if (isfinite(wanted[i][j])) scale = fmax(scale, fabs(wanted[i][j]));
    for (int64_t j = 0; j < count; j++)
      if (!is_near(got[i][j], wanted[i][j], 2e-5 * scale + 1e-6)) {
        char shape[128];
        fail_msg("%s %s %s: element %lld of output %zu is %.8g, the reference gives %.8g", kernel->op, kernel->name,
                 braid_desc_format(&f->operands[0].desc, shape, sizeof shape), (long long)j, i, (double)got[i][j],
                 (double)wanted[i][j]);
      }
  }
}

static inline bool is_saturated(braid_dtype dtype, uint8_t byte) {
  return dtype == BRAID_U8 ? byte == 0 || byte == 255 : byte == 128 || byte == 127;
}

/* Few of the results of bytes may lie at the ends of their range. */
static inline void check_saturation(const fixture *f, float **results) {
  const braid_desc *desc = &f->operands[f->inputs].desc;
  if (desc->dtype != BRAID_U8 && desc->dtype != BRAID_I8) return;
  const uint8_t *bytes = (const uint8_t *)results[0];
  int64_t count = braid_desc_count(desc), saturated = 0;
  for (int64_t i = 0; i < count; i++) saturated += is_saturated(desc->dtype, bytes[i]);
  if (saturated * 4 > count)
    fail_msg("%lld of %lld results are saturated: this compares nothing", (long long)saturated, (long long)count);
}

/* The kernels that take the node with inputs from `constant_from` on as constants, the reference last. */
static inline size_t list_matching(const fixture *f, size_t constant_from, const braid_kernel *matching[kMaxKernels]) {
  const braid_kernel **kernels;
  size_t count, found = 0;
  ok(braid_cpu_list_kernels(NULL, false, &kernels, &count));
  braid_operand operands[kMaxOperands];
  memcpy(operands, f->operands, sizeof operands);
  for (size_t i = constant_from; i < f->inputs; i++) operands[i].constant = f->data[i];
  braid_node_desc node = describe(f, operands);
  char why[256];
  for (size_t i = 0; i < count; i++)
    if (strcmp(kernels[i]->op, node.op) == 0 && (!kernels[i]->match || kernels[i]->match(&node, why, sizeof why)) &&
        found < kMaxKernels)
      matching[found++] = kernels[i];
  braid_free(NULL, kernels);
  return found;
}

/* All kernels that take the node against the last of them, with constant and changing weights; at least `least` fast
 * ones must take it where weights are constant. */
static inline void check_filled(fixture *f, int least) {
  const braid_kernel *matching[kMaxKernels];
  size_t found = list_matching(f, 1, matching);
  assert_true((int)found > least);
  float *wanted[kMaxOperands], *got[kMaxOperands];
  const braid_kernel *reference = matching[found - 1];
  run(f, reference, kMaxOperands, wanted);
  const char *op = describe(f, f->operands).op;
  if (strstr(op, "QLinear") || strcmp(op, "QuantizeLinear") == 0) check_saturation(f, wanted);
  for (size_t constant_from = 1; constant_from <= kMaxOperands; constant_from += kMaxOperands - 1) {
    found = list_matching(f, constant_from, matching);
    for (size_t k = 0; k < found && matching[k] != reference; k++) {
      run(f, matching[k], constant_from, got);
      compare(f, matching[k], got, wanted);
      for (size_t i = 0; i < f->outputs; i++) free(got[i]);
    }
  }
  for (size_t i = 0; i < f->outputs; i++) free(wanted[i]);
  clear(f);
}

static inline void check(fixture *f, int least) {
  fill(f);
  check_filled(f, least);
}

#endif
