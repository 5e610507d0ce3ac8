/* Every kernel of a device in every sharing of memory that the planner may choose for it (braid_kernel.in_place).
 *
 * The kernels come from the device's own table and the nodes are drawn at random: shapes that are equal, broadcast or
 * of the same number of bytes, types, attributes, layouts, inputs given twice or known before the run. A node that no
 * kernel takes is drawn again. What a kernel gives over its inputs must be, bit for bit, what it gives in memory of its
 * own. Then sessions with and without shared memory have to agree on such nodes. A bit of a kernel's mask for which no
 * node could be found fails, unless a test names it with the reason. */
#ifndef BRAID_TESTS_IN_PLACE_H
#define BRAID_TESTS_IN_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/session.h"
#include "device/queue.h"
#include "graph/graph.h"
#include "in_place_node.h"
#include "registry.h"
#include "skip.h"
#include "tensor/layout.h"

/* A bit that no node can use on devices of a kind, and why. */
typedef struct in_place_exception {
  const char *kind;
  const char *op, *kernel;
  int output, input;
  const char *reason;
} in_place_exception;

typedef struct in_place_options {
  const char *device;   /* what is opened for the kernels */
  const char *sessions; /* the devices of sessions */
  uint32_t attempts;    /* nodes drawn for an op at most */
  uint32_t wanted;      /* runs of each bit */
  uint32_t session_count;
  bool large; /* some nodes with so many elements that several threads work on them */
  const in_place_exception *exceptions;
  size_t exception_count;
} in_place_options;

static struct in_place_device {
  const in_place_options *options;
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_queue queue;
  braid_verdict verdict;
} in_place_on;

/* --- the device ----------------------------------------------------------------------------------------------------
 */
static inline braid_status in_place_submit(braid_task *task) {
  braid_verdict_init(&in_place_on.verdict);
  task->verdict = &in_place_on.verdict;
  task->label = "in place";
  return braid_queue_do(&in_place_on.queue, task, 120000000000);
}

static inline void in_place_write(void *buffer, const void *host, size_t bytes) {
  IN_PLACE_OK(in_place_submit(
      &(braid_task){.kind = BRAID_TASK_WRITE, .target = {buffer, NULL, 0, bytes}, .host = (void *)host}));
}

static inline void in_place_read(void *buffer, void *host, size_t bytes) {
  IN_PLACE_OK(
      in_place_submit(&(braid_task){.kind = BRAID_TASK_READ, .source = {buffer, NULL, 0, bytes}, .host = host}));
}

/* The contents in the layout of `desc`; padding is zero. */
static inline void *in_place_arrange(const braid_tensor *tensor, const braid_desc *desc) {
  uint8_t *to = calloc(braid_desc_bytes(desc) + 1, 1);
  assert_non_null(to);
  braid_layout_pack(desc, braid_tensor_const_data(tensor), to);
  return to;
}

/* --- one kernel on one node ----------------------------------------------------------------------------------------
 */
typedef struct in_place_run {
  const braid_kernel *kernel;
  const in_place_node *node;
  size_t inputs, outputs;
  braid_node_desc desc;
  braid_operand operands[2 * IN_PLACE_OPERANDS];
  braid_prepared_info info;
  void *prepared, *workspace;
  void *buffers[2 * IN_PLACE_OPERANDS];
  void *contents[2 * IN_PLACE_OPERANDS]; /* of an input; of an output: what it is in memory of its own */
} in_place_run;

typedef struct in_place_count {
  uint32_t runs[IN_PLACE_OUTPUTS][32]; /* per bit of the kernel's masks */
} in_place_count;

static inline uint32_t in_place_mask(const braid_kernel *kernel, size_t output) {
  if (output >= IN_PLACE_OUTPUTS) return 0;
  return output == 0 ? kernel->in_place : kernel->in_place_more[output - 1];
}

/* As the planner asks for them. */
static inline void in_place_choose_layouts(in_place_run *r) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_BHWC,
                                          BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_CHWB};
  const braid_backend *backend = in_place_on.backend;
  braid_layout layouts[2 * IN_PLACE_OPERANDS] = {BRAID_LAYOUT_PLAIN}, given = kLayouts[in_place_draw(5)];
  if (!r->kernel->layouts && !backend->layouts) return;
  for (size_t i = 0; i < r->inputs; i++)
    if (r->operands[i].present && r->operands[i].desc.rank > 2 && !r->operands[i].constant)
      layouts[i] = r->operands[i].desc.layout = given;
  if (r->kernel->layouts) r->kernel->layouts(&r->desc, layouts, layouts + r->inputs);
  if (backend->layouts) backend->layouts(in_place_on.self, r->kernel, &r->desc, layouts, layouts + r->inputs);
  for (size_t i = 0; i < r->inputs + r->outputs; i++) r->operands[i].desc.layout = layouts[i];
}

static inline bool in_place_describe(in_place_run *r, const in_place_node *n) {
  const braid_node *node = &n->graph->nodes[n->id];
  char why[256];
  r->node = n, r->inputs = node->input_count, r->outputs = node->output_count;
  for (size_t i = 0; i < r->inputs + r->outputs; i++) {
    braid_value_id id = i < r->inputs ? node->inputs[i] : node->outputs[i - r->inputs];
    if (id < 0) continue;
    const braid_value *value = &n->graph->values[id];
    const void *constant = value->kind == BRAID_VALUE_CONSTANT ? braid_tensor_const_data(value->tensor) : NULL;
    r->operands[i] = (braid_operand){true, value->desc, constant};
  }
  r->desc = (braid_node_desc){.op = node->op->name,
                              .name = "node",
                              .attrs = &node->attrs,
                              .input_count = r->inputs,
                              .output_count = r->outputs,
                              .inputs = r->operands,
                              .outputs = r->operands + r->inputs};
  const braid_backend *backend = in_place_on.backend;
  if (r->kernel->match && !r->kernel->match(&r->desc, why, sizeof why)) return false;
  if (backend->match && !backend->match(in_place_on.self, r->kernel, &r->desc, why, sizeof why)) return false;
  in_place_choose_layouts(r);
  for (size_t i = 0; i < r->inputs + r->outputs; i++)
    if (r->operands[i].present && braid_desc_bytes(&r->operands[i].desc) > IN_PLACE_BYTES) return false; /* padding */
  return true;
}

static inline bool in_place_same_value(const in_place_run *r, size_t i, size_t j) {
  const braid_node *node = &r->node->graph->nodes[r->node->id];
  return node->inputs[i] == node->inputs[j] && r->operands[i].desc.layout == r->operands[j].desc.layout;
}

static inline void in_place_allocate(in_place_run *r) {
  const braid_backend *backend = in_place_on.backend;
  for (size_t i = 0; i < r->inputs + r->outputs; i++) {
    if (!r->operands[i].present) continue;
    size_t bytes = braid_desc_bytes(&r->operands[i].desc);
    for (size_t j = 0; j < i && j < r->inputs && i < r->inputs; j++) /* given twice */
      if (in_place_same_value(r, i, j)) r->buffers[i] = r->buffers[j];
    r->contents[i] = i < r->inputs ? in_place_arrange(r->node->tensors[i], &r->operands[i].desc) : malloc(bytes + 1);
    assert_non_null(r->contents[i]);
    if (i >= r->inputs) memset(r->contents[i], IN_PLACE_PATTERN, bytes);
    if (!r->buffers[i]) IN_PLACE_OK(backend->buffer_create(in_place_on.self, bytes + 1, &r->buffers[i]));
  }
  if (r->info.workspace_bytes)
    IN_PLACE_OK(backend->buffer_create(in_place_on.self, r->info.workspace_bytes, &r->workspace));
}

static inline void in_place_free(in_place_run *r) {
  const braid_backend *backend = in_place_on.backend;
  backend->discard(in_place_on.self, r->prepared);
  for (size_t i = 0; i < r->inputs + r->outputs; i++) {
    free(r->contents[i]);
    for (size_t j = i + 1; j < r->inputs + r->outputs; j++)
      if (r->buffers[j] == r->buffers[i]) r->buffers[j] = NULL;
    if (r->buffers[i]) backend->buffer_destroy(in_place_on.self, r->buffers[i]);
  }
  if (r->workspace) backend->buffer_destroy(in_place_on.self, r->workspace);
}

/* over[o]: the input that output o lies over; -1: memory of its own. Inputs and what outputs held are written anew. */
static inline braid_status in_place_execute(const in_place_run *r, const int *over) {
  static uint8_t pattern[IN_PLACE_BYTES];
  if (!pattern[0]) memset(pattern, IN_PLACE_PATTERN, sizeof pattern);
  braid_binding bindings[2 * IN_PLACE_OPERANDS + 1] = {{0}};
  for (size_t i = 0; i < r->inputs + r->outputs; i++) {
    if (!r->operands[i].present) continue;
    size_t bytes = braid_desc_bytes(&r->operands[i].desc);
    bool folded = i < r->inputs && (r->info.constants_folded >> i & 1);
    int shared = i < r->inputs ? -1 : over[i - r->inputs];
    void *buffer = r->buffers[shared >= 0 ? (size_t)shared : i];
    if (bytes && shared < 0) in_place_write(buffer, i < r->inputs ? r->contents[i] : pattern, bytes);
    if (!folded) bindings[i] = (braid_binding){buffer, NULL, 0, bytes};
  }
  if (r->workspace) bindings[r->inputs + r->outputs] = (braid_binding){r->workspace, NULL, 0, r->info.workspace_bytes};
  return in_place_submit(&(braid_task){.kind = BRAID_TASK_KERNEL,
                                       .prepared = r->prepared,
                                       .bindings = bindings,
                                       .input_count = r->inputs,
                                       .output_count = r->outputs});
}

static inline void in_place_differ(const in_place_run *r, const int *over, size_t output, size_t byte) {
  char text[1024];
  int length = 0;
  for (size_t i = 0; i < r->inputs + r->outputs && length < 900; i++) {
    char one[96], layout[BRAID_LAYOUT_TEXT];
    const braid_desc *desc = &r->operands[i].desc;
    length +=
        snprintf(text + length, sizeof text - (size_t)length, "%s%s %s", i == r->inputs ? " ->" : "",
                 r->operands[i].present ? braid_desc_format(desc, one, sizeof one) : "-",
                 r->operands[i].present ? braid_layout_format(desc->layout, desc->rank, layout, sizeof layout) : "");
  }
  for (size_t o = 0; o < r->outputs && length < 1000; o++)
    if (over[o] >= 0)
      length += snprintf(text + length, sizeof text - (size_t)length, ", output %zu over input %d", o, over[o]);
  fail_msg("%s by %s: %s: byte %zu of output %zu is not what it is in memory of its own", r->desc.op, r->kernel->name,
           text, byte, output);
}

static inline void in_place_compare(const in_place_run *r, const int *over) {
  for (size_t o = 0; o < r->outputs; o++) {
    const braid_operand *operand = &r->operands[r->inputs + o];
    size_t bytes = operand->present ? braid_desc_bytes(&operand->desc) : 0;
    if (!bytes) continue;
    uint8_t *got = malloc(bytes), *expected = r->contents[r->inputs + o];
    assert_non_null(got);
    in_place_read(r->buffers[over[o] >= 0 ? (size_t)over[o] : r->inputs + o], got, bytes);
    for (size_t i = 0; i < bytes; i++)
      if (got[i] != expected[i]) in_place_differ(r, over, o, i);
    free(got);
  }
}

/* May output o lie over input i, and over all that lies there? The rule of share.c. */
static inline bool in_place_allowed(const in_place_run *r, size_t o, size_t i) {
  const braid_operand *out = &r->operands[r->inputs + o];
  if (!out->present || !r->operands[i].present || r->operands[i].constant) return false;
  for (size_t j = 0; j < r->inputs; j++)
    if (in_place_same_value(r, i, j) &&
        (!(in_place_mask(r->kernel, o) >> j & 1) || !braid_layout_same_places(&r->operands[j].desc, &out->desc)))
      return false;
  return true;
}

/* Every choice for output o and those after it. */
static inline void in_place_combine(const in_place_run *r, int *over, size_t o, in_place_count *counts) {
  if (o == r->outputs || o == IN_PLACE_OUTPUTS) {
    bool any = false;
    for (size_t k = 0; k < o; k++) any |= over[k] >= 0;
    if (!any) return;
    if (in_place_execute(r, over) != BRAID_OK)
      fail_msg("%s by %s in place: %s", r->desc.op, r->kernel->name, braid_error_detail());
    in_place_compare(r, over);
    for (size_t k = 0; k < o; k++)
      if (over[k] >= 0) counts->runs[k][over[k]]++;
    return;
  }
  over[o] = -1;
  in_place_combine(r, over, o + 1, counts);
  for (size_t i = 0; i < r->inputs; i++) {
    bool taken = false;
    for (size_t k = 0; k < o; k++) taken |= over[k] >= 0 && in_place_same_value(r, (size_t)over[k], i);
    if (taken || !in_place_allowed(r, o, i)) continue;
    over[o] = (int)i;
    in_place_combine(r, over, o + 1, counts);
  }
  over[o] = -1;
}

/* Does a bit that this node could count for still want runs? */
static inline bool in_place_wanted(const in_place_run *r, const in_place_count *counts) {
  for (size_t o = 0; o < r->outputs; o++)
    for (size_t i = 0; i < r->inputs; i++)
      if (in_place_allowed(r, o, i) && counts->runs[o][i] < in_place_on.options->wanted) return true;
  return false;
}

static inline void in_place_kernel(const braid_kernel *kernel, const in_place_node *n, in_place_count *counts) {
  in_place_run r = {.kernel = kernel};
  int own[IN_PLACE_OUTPUTS] = {-1, -1, -1, -1}, over[IN_PLACE_OUTPUTS] = {-1, -1, -1, -1};
  if (!in_place_describe(&r, n) || !in_place_wanted(&r, counts)) return;
  if (in_place_on.backend->prepare(in_place_on.self, kernel, &r.desc, &r.prepared, &r.info) != BRAID_OK) return;
  in_place_allocate(&r);
  if (in_place_execute(&r, own) == BRAID_OK) {
    for (size_t o = 0; o < r.outputs; o++)
      if (r.operands[r.inputs + o].present && braid_desc_bytes(&r.operands[r.inputs + o].desc))
        in_place_read(r.buffers[r.inputs + o], r.contents[r.inputs + o],
                      braid_desc_bytes(&r.operands[r.inputs + o].desc));
    in_place_combine(&r, over, 0, counts);
  }
  in_place_free(&r);
}

/* --- all kernels ---------------------------------------------------------------------------------------------------
 */
/* NULL: the bit has to be run. */
static inline const in_place_exception *in_place_exception_of(const braid_kernel *kernel, size_t output, size_t input) {
  for (size_t i = 0; i < in_place_on.options->exception_count; i++) {
    const in_place_exception *e = &in_place_on.options->exceptions[i];
    if (strcmp(e->kind, braid_device_get_info(in_place_on.device)->kind) == 0 && strcmp(e->op, kernel->op) == 0 &&
        strcmp(e->kernel, kernel->name) == 0 && e->output == (int)output && e->input == (int)input)
      return e;
  }
  return NULL;
}

/* Calls `visit` for each bit, but for those beyond the op's inputs, which say nothing; the sum of what it returns. */
typedef size_t in_place_visit(const braid_kernel *kernel, size_t output, size_t input, uint32_t runs, uint32_t attempt);
static inline size_t in_place_each_bit(const braid_kernel *kernel, const in_place_count *counts, uint32_t attempt,
                                       in_place_visit *visit) {
  const braid_op *op = braid_op_find(kernel->op);
  size_t sum = 0, inputs = op->max_inputs < 0 || op->max_inputs > 32 ? 32 : (size_t)op->max_inputs;
  for (size_t o = 0; o < IN_PLACE_OUTPUTS; o++)
    for (size_t i = 0; i < inputs; i++)
      if (in_place_mask(kernel, o) >> i & 1) sum += visit(kernel, o, i, counts->runs[o][i], attempt);
  return sum;
}

/* Is another node to be drawn for the bit? Where none is expected, a few are tried all the same. */
static inline size_t in_place_is_missing(const braid_kernel *kernel, size_t output, size_t input, uint32_t runs,
                                         uint32_t attempt) {
  const in_place_options *options = in_place_on.options;
  uint32_t most = in_place_exception_of(kernel, output, input) ? options->attempts / 100 : options->attempts;
  return runs < options->wanted && attempt + 1 < most;
}

/* Says which bits were not run; 1 where that is a fault. */
static inline size_t in_place_report(const braid_kernel *kernel, size_t output, size_t input, uint32_t runs,
                                     uint32_t attempt) {
  (void)attempt;
  const in_place_exception *e = in_place_exception_of(kernel, output, input);
  if (e && runs) fail_msg("%s by %s, output %zu over input %zu is run after all", e->op, e->kernel, output, input);
  if (runs) return 0;
  print_message("%s: %s by %s, output %zu over input %zu: %s\n", e ? "not run" : "never tried", kernel->op,
                kernel->name, output, input, e ? e->reason : "no node was found");
  return e ? 0 : 1;
}

static inline bool in_place_masked(const braid_kernel *kernel) {
  return kernel->in_place || kernel->in_place_more[0] || kernel->in_place_more[1] || kernel->in_place_more[2];
}

/* The kernels of one op, of which `kernels[0]` is the first with a mask. Returns the bits that could not be run. */
static inline size_t in_place_op(const braid_op *op, const braid_kernel *const *kernels, size_t count) {
  enum { kMost = 8 };
  static in_place_count counts[kMost];
  const braid_kernel *chosen[kMost];
  size_t found = 0, missing = 1;
  for (size_t i = 0; i < count; i++)
    if (strcmp(kernels[i]->op, op->name) == 0 && in_place_masked(kernels[i])) {
      assert_true(found < kMost);
      chosen[found++] = kernels[i];
    }
  memset(counts, 0, sizeof counts);
  for (uint32_t attempt = 0; missing; attempt++) {
    in_place_node n;
    bool good = in_place_draw_node(op, in_place_on.options->large, &n);
    missing = 0;
    for (size_t k = 0; k < found; k++) {
      if (good && in_place_each_bit(chosen[k], &counts[k], attempt, in_place_is_missing))
        in_place_kernel(chosen[k], &n, &counts[k]);
      missing += in_place_each_bit(chosen[k], &counts[k], attempt, in_place_is_missing);
    }
    braid_graph_destroy(n.graph);
  }
  missing = 0;
  for (size_t k = 0; k < found; k++) missing += in_place_each_bit(chosen[k], &counts[k], 0, in_place_report);
  return missing;
}

/* Calls `visit` once for each op that has a kernel with a mask. */
static inline size_t in_place_each_op(size_t (*visit)(const braid_op *op, const braid_kernel *const *kernels,
                                                      size_t count)) {
  size_t count, sum = 0, ops = 0;
  const braid_kernel *const *kernels = in_place_on.backend->kernels(in_place_on.self, &count);
  for (size_t i = 0; i < count; i++) {
    bool first = in_place_masked(kernels[i]);
    for (size_t j = 0; first && j < i; j++)
      first = strcmp(kernels[j]->op, kernels[i]->op) != 0 || !in_place_masked(kernels[j]);
    if (!first) continue;
    const braid_op *op = braid_op_find(kernels[i]->op);
    if (!op) fail_msg("kernel %s is for %s, which is no op", kernels[i]->name, kernels[i]->op);
    sum += visit(op, kernels, count);
    ops++;
  }
  print_message("%zu ops have kernels that write over their inputs (seed %d)\n", ops, IN_PLACE_SEED);
  return sum;
}

static inline void in_place_test_kernels(void **state) {
  (void)state;
  if (!in_place_on.device) skip_test("opencl", "there is no OpenCL device");
  size_t missing = in_place_each_op(in_place_op);
  if (missing) fail_msg("%zu in-place results were never tried: they need a node drawn here or a reason", missing);
}

/* --- sessions ------------------------------------------------------------------------------------------------------
 */
static inline braid_status in_place_run_session(const in_place_node *n, bool no_reuse, uint8_t **results) {
  braid_session *session;
  braid_status status = braid_session_create(n->graph,
                                             &(braid_session_options){.devices = in_place_on.options->sessions,
                                                                      .registry = in_place_on.registry,
                                                                      .training = true,
                                                                      .no_fusion = true,
                                                                      .no_reuse = no_reuse},
                                             &session);
  if (status != BRAID_OK) return status;
  for (size_t i = 0; i < n->graph->output_count; i++) {
    results[i] = calloc(braid_desc_bytes(braid_session_output(session, i)) + 1, 1);
    assert_non_null(results[i]);
  }
  status = braid_session_run(session, NULL, (void *const *)results);
  braid_session_destroy(session);
  return status;
}

/* Is there an output that somebody who looks at bytes alone would lay over an input? */
static inline bool in_place_tempting(const in_place_node *n) {
  const braid_node *node = &n->graph->nodes[n->id];
  for (size_t i = 0; i < node->input_count; i++)
    for (size_t o = 0; o < node->output_count; o++) {
      if (node->inputs[i] < 0 || node->outputs[o] < 0) continue;
      const braid_desc *in = &n->graph->values[node->inputs[i]].desc;
      const braid_desc *out = &n->graph->values[node->outputs[o]].desc;
      bool constant = n->graph->values[node->inputs[i]].kind == BRAID_VALUE_CONSTANT;
      if (!constant && braid_desc_count(out) > 1 && braid_desc_bytes(in) == braid_desc_bytes(out) &&
          (!braid_layout_same_places(in, out) || !in_place_draw(4)))
        return true;
    }
  return false;
}

/* The results go to the caller's memory, or die before they get there. */
static inline void in_place_add_outputs(in_place_node *n) {
  for (size_t o = 0; o < n->graph->nodes[n->id].output_count; o++) {
    braid_value_id value = n->graph->nodes[n->id].outputs[o], fresh = 0;
    if (value < 0) continue;
    if (in_place_draw(2))
      IN_PLACE_OK(braid_graph_add_node(n->graph, in_place_fresh.name, NULL, &value, 1, &fresh, 1, NULL));
    IN_PLACE_OK(braid_graph_add_output(n->graph, fresh ? fresh : value));
  }
}

static inline size_t in_place_sessions_of(const braid_op *op, const braid_kernel *const *kernels, size_t count) {
  (void)kernels, (void)count;
  uint32_t done = 0;
  for (uint32_t attempt = 0; attempt < in_place_on.options->attempts / 10; attempt++) {
    in_place_node n;
    bool wanted = done < in_place_on.options->session_count && in_place_draw_node(op, in_place_on.options->large, &n) &&
                  in_place_tempting(&n);
    if (done == in_place_on.options->session_count) break;
    if (wanted) {
      uint8_t *alone[IN_PLACE_OUTPUTS] = {NULL}, *shared[IN_PLACE_OUTPUTS] = {NULL};
      in_place_add_outputs(&n);
      bool runs = in_place_run_session(&n, true, alone) == BRAID_OK;
      if (runs) IN_PLACE_OK(in_place_run_session(&n, false, shared));
      for (size_t i = 0; runs && i < n.graph->output_count; i++) {
        const braid_desc *desc = &n.graph->values[n.graph->outputs[i]].desc;
        char text[96];
        if (memcmp(alone[i], shared[i], braid_desc_bytes(desc)) != 0)
          fail_msg("%s: output %zu, %s, is another with shared memory", op->name, i,
                   braid_desc_format(desc, text, sizeof text));
      }
      for (size_t i = 0; i < IN_PLACE_OUTPUTS; i++) free(alone[i]), free(shared[i]);
      done += runs;
    }
    braid_graph_destroy(n.graph);
  }
  return done;
}

static inline void in_place_test_sessions(void **state) {
  (void)state;
  if (!in_place_on.device) skip_test("opencl", "there is no OpenCL device");
  size_t done = in_place_each_op(in_place_sessions_of);
  print_message("%zu sessions whose results may lie over inputs of as many bytes\n", done);
  assert_true(done > 0);
}

/* --- opening and closing -------------------------------------------------------------------------------------------
 */
/* Without the device the tests are skipped. */
static inline void in_place_open(const in_place_options *options) {
  in_place_on.options = options;
  IN_PLACE_OK(braid_custom_op_register(&in_place_fresh));
  in_place_on.registry = open_test_registry(NULL, NULL);
  assert_non_null(in_place_on.registry);
  if (braid_device_open(in_place_on.registry, options->device, &in_place_on.device) != BRAID_OK) return;
  in_place_on.backend = braid_device_backend(in_place_on.device);
  in_place_on.self = braid_device_self(in_place_on.device);
  IN_PLACE_OK(braid_queue_open(&in_place_on.queue, NULL, in_place_on.backend, in_place_on.self));
}

static inline void in_place_close(void) {
  braid_queue_close(&in_place_on.queue);
  if (in_place_on.device) braid_device_close(in_place_on.device);
  braid_registry_destroy(in_place_on.registry);
}

static inline int in_place_main(const in_place_options *options) {
  in_place_open(options);
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_place_test_kernels), cmocka_unit_test(in_place_test_sessions)};
  int result = skip_run_group_tests(tests, NULL, NULL);
  in_place_close();
  return result;
}

#endif
