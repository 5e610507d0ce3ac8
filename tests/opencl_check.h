/* Kernels against the CPU's plain ones: a graph of one node, its reference results, and the same from every kernel that
 * takes the node, the ones that would not be chosen on this device too; with outputs over inputs where a kernel allows
 * it. Memory that a kernel must not read or write is filled with a pattern and looked at afterwards. */
#ifndef BRAID_TESTS_OPENCL_CHECK_H
#define BRAID_TESTS_OPENCL_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/evaluate.h"
#include "base/philox.h"
#include "device/queue.h"
#include "graph/graph.h"
#include "launch/integer.h"
#include "registry.h"
#include "skip.h"
#include "tensor/layout.h"

enum { CHECK_SEED = 20111, CHECK_GUARD = 512, CHECK_OPERANDS = 16, CHECK_PATTERN = 0xff };

#define CHECK_OK(expression)                                                                                           \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

typedef struct check {
  braid_graph *graph;
  braid_node_id node;
  const char *only; /* a part of the names of the kernels to run; NULL: all */
  size_t runs;      /* kernels run so far */
} check;

static struct check_device {
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_queue queue;
  braid_verdict verdict;
  braid_cpu_evaluator evaluator;
} check_on;

static uint32_t check_draws;
static const char *check_options; /* for the device; NULL: none. To be set before it is opened */

static inline int64_t check_draw(int64_t low, int64_t high) { /* both ends included */
  return low + braid_random_below(CHECK_SEED, 0, 0, check_draws++, (uint32_t)(high - low + 1));
}

/* --- the device ----------------------------------------------------------------------------------------------------
 */
static int check_open(void **state) {
  (void)state;
  size_t count = 0;
  braid_device_info infos[16];
  check_on = (struct check_device){0};
  check_on.registry = open_test_registry(NULL, NULL);
  if (!check_on.registry) return 1;
  if (braid_registry_devices(check_on.registry, infos, 16, &count) != BRAID_OK) return 1;
  bool there = false;
  const char *wanted = getenv("BRAID_TEST_OPENCL"); /* "cuda0" runs the same tests on a device of that backend */
  char spec[512];
  if (!wanted) wanted = "opencl0";
  if (strncmp(wanted, "cuda", 4) == 0 && check_options && strstr(check_options, "as=") &&
      !strstr(check_options, "as=gpu"))
    return 0; /* its kernels are a GPU's alone */
  for (size_t i = 0; i < count && i < 16; i++) there |= strncmp(infos[i].name, wanted, strlen(infos[i].name)) == 0;
  if (!there) return 0;
  (void)snprintf(spec, sizeof spec, "%s%s%s", wanted,
                 !check_options        ? ""
                 : strchr(wanted, ':') ? ","
                                       : ":",
                 check_options ? check_options : "");
  if (braid_device_open(check_on.registry, spec, &check_on.device) != BRAID_OK) {
    print_message("%s\n", braid_error_detail());
    return 1;
  }
  check_on.backend = braid_device_backend(check_on.device);
  check_on.self = braid_device_self(check_on.device);
  if (braid_queue_open(&check_on.queue, NULL, check_on.backend, check_on.self) != BRAID_OK) return 1;
  return braid_cpu_evaluator_init(&check_on.evaluator, NULL) != BRAID_OK;
}

static int check_close(void **state) {
  (void)state;
  if (check_on.device) {
    braid_queue_close(&check_on.queue);
    braid_cpu_evaluator_deinit(&check_on.evaluator);
    braid_device_close(check_on.device);
  }
  braid_registry_destroy(check_on.registry);
  return 0;
}

static inline void check_submit(braid_task *task) {
  braid_verdict_init(&check_on.verdict);
  task->verdict = &check_on.verdict;
  task->label = "check";
  CHECK_OK(braid_queue_do(&check_on.queue, task, 120000000000));
}

static inline void check_write(void *buffer, const void *host, size_t bytes) {
  check_submit(&(braid_task){.kind = BRAID_TASK_WRITE, .target = {buffer, NULL, 0, bytes}, .host = (void *)host});
}

static inline void check_read(void *buffer, void *host, size_t bytes) {
  check_submit(&(braid_task){.kind = BRAID_TASK_READ, .source = {buffer, NULL, 0, bytes}, .host = host});
}

/* --- building a node -----------------------------------------------------------------------------------------------
 */
static inline void check_begin(check *c) {
  if (!check_on.device) skip_test("opencl", "there is no such device");
  *c = (check){0};
  CHECK_OK(braid_graph_create(NULL, "check", &c->graph));
}

static inline braid_value_id check_tensor(check *c, braid_dtype dtype, int rank, const int64_t *dims, double low,
                                          double high) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  CHECK_OK(braid_desc_init(&desc, dtype, rank, dims));
  CHECK_OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    double x = low + (high - low) * (double)braid_random_uniform(CHECK_SEED, 1, 0, check_draws++);
    braid_tensor_set_f64(tensor, i, braid_dtype_is_float(dtype) ? x : floor(x));
  }
  CHECK_OK(braid_graph_add_tensor(c->graph, NULL, BRAID_VALUE_STATE, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static inline braid_value_id check_floats(check *c, int rank, const int64_t *dims) {
  return check_tensor(c, BRAID_F32, rank, dims, -1, 1);
}

static inline braid_value_id check_ints(check *c, const int64_t *values, size_t count) {
  braid_value_id id;
  CHECK_OK(braid_graph_add_int64s(c->graph, values, count, &id));
  return id;
}

/* One output, or as many as `outputs` says (at most 4), of which those of the mask are wanted. */
static inline braid_node_id check_node_of(check *c, const char *op, const braid_value_id *inputs, size_t count,
                                          size_t outputs, uint32_t mask) {
  braid_value_id ids[CHECK_OPERANDS];
  for (size_t i = 0; i < outputs; i++) ids[i] = mask >> i & 1 ? 0 : -1;
  CHECK_OK(braid_graph_add_node(c->graph, op, NULL, inputs, count, ids, outputs, &c->node));
  return c->node;
}

static inline braid_node_id check_node(check *c, const char *op, const braid_value_id *inputs, size_t count) {
  return check_node_of(c, op, inputs, count, 1, 1);
}

static inline void check_set_ints(check *c, const char *name, const int64_t *values, int count) {
  CHECK_OK(braid_graph_set_ints(c->graph, c->node, name, values, (size_t)count));
}

/* --- running it ----------------------------------------------------------------------------------------------------
 */
typedef struct check_run {
  const braid_node *node;
  const braid_kernel *kernel;
  braid_node_desc desc;
  braid_operand operands[2 * CHECK_OPERANDS];
  const braid_tensor *inputs[CHECK_OPERANDS];
  braid_tensor *expected[CHECK_OPERANDS];
  double tolerance;
} check_run;

/* Within tolerance of the larger of the element and the largest of its tensor (for sums that cancel). */
static inline void check_same(const check_run *r, size_t output, const braid_tensor *got, const char *how) {
  const braid_tensor *expected = r->expected[output];
  const braid_desc *desc = braid_tensor_desc(expected);
  double most = 0;
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    double x = fabs(braid_tensor_get_f64(expected, i));
    if (isfinite(x) && x > most) most = x;
  }
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    double x = braid_tensor_get_f64(expected, i), y = braid_tensor_get_f64(got, i);
    bool near = braid_dtype_is_float(desc->dtype) && fabs(x - y) <= r->tolerance * most;
    if (x == y || (isnan(x) && isnan(y)) || near) continue;
    char text[128];
    fail_msg("%s by %s%s: element %lld of output %zu, %s, is %.9g, not %.9g", r->desc.op, r->kernel->name, how,
             (long long)i, output, braid_desc_format(desc, text, sizeof text), y, x);
  }
}

static inline void *check_buffer(size_t bytes) {
  void *buffer;
  uint8_t *pattern = malloc(bytes + CHECK_GUARD);
  assert_non_null(pattern);
  memset(pattern, CHECK_PATTERN, bytes + CHECK_GUARD);
  CHECK_OK(check_on.backend->buffer_create(check_on.self, bytes + CHECK_GUARD, &buffer));
  check_write(buffer, pattern, bytes + CHECK_GUARD);
  free(pattern);
  return buffer;
}

static inline void check_guard(const check_run *r, void *buffer, size_t bytes, const char *what, size_t index) {
  uint8_t *all = malloc(bytes + CHECK_GUARD);
  assert_non_null(all);
  check_read(buffer, all, bytes + CHECK_GUARD);
  for (size_t i = bytes; i < bytes + CHECK_GUARD; i++)
    if (all[i] != CHECK_PATTERN) fail_msg("%s by %s writes beyond %s %zu", r->desc.op, r->kernel->name, what, index);
  free(all);
}

/* In the layout that the kernel asked for. */
static inline void check_write_input(const check_run *r, size_t input, void *buffer, size_t bytes) {
  void *packed = malloc(bytes);
  assert_non_null(packed);
  braid_layout_pack(&r->operands[input].desc, braid_tensor_const_data(r->inputs[input]), packed);
  check_write(buffer, packed, bytes);
  free(packed);
}

/* Compares what lies in the layout that the kernel asked for, whose padding is zeros. */
static inline void check_output(const check_run *r, size_t operand, void *buffer, size_t bytes, const char *how) {
  braid_tensor *got;
  braid_desc plain = r->operands[operand].desc;
  char *packed = malloc(2 * bytes);
  assert_non_null(packed);
  plain.layout = BRAID_LAYOUT_PLAIN;
  CHECK_OK(braid_tensor_create(NULL, &plain, &got));
  check_read(buffer, packed, bytes);
  braid_layout_unpack(&r->operands[operand].desc, packed, braid_tensor_data(got));
  check_same(r, operand - r->desc.input_count, got, how);
  braid_layout_pack(&r->operands[operand].desc, braid_tensor_const_data(got), packed + bytes);
  if (memcmp(packed, packed + bytes, bytes) != 0)
    fail_msg("%s by %s%s: padding of output %zu is not zero", r->desc.op, r->kernel->name, how,
             operand - r->desc.input_count);
  braid_tensor_release(got);
  free(packed);
}

/* over: which input output 0 lies over; -1: none. */
static inline void check_kernel(check_run *r, int over) {
  void *prepared, *buffers[2 * CHECK_OPERANDS + 1] = {NULL};
  braid_prepared_info info;
  braid_binding bindings[2 * CHECK_OPERANDS + 1] = {{0}};
  const size_t inputs = r->desc.input_count, operands = inputs + r->desc.output_count;
  braid_status status = check_on.backend->prepare(check_on.self, r->kernel, &r->desc, &prepared, &info);
  if (status != BRAID_OK) fail_msg("%s by %s: %s", r->desc.op, r->kernel->name, braid_error_detail());
  for (size_t i = 0; i < operands; i++) {
    if (!r->operands[i].present) continue;
    size_t bytes = braid_desc_bytes(&r->operands[i].desc);
    bool shared = i == inputs && over >= 0;
    buffers[i] = shared ? buffers[over] : check_buffer(bytes);
    if (i < inputs && bytes) check_write_input(r, i, buffers[i], bytes);
    bindings[i] = (braid_binding){buffers[i], NULL, 0, bytes};
  }
  if (info.workspace_bytes) {
    buffers[operands] = check_buffer(info.workspace_bytes);
    bindings[operands] = (braid_binding){buffers[operands], NULL, 0, info.workspace_bytes};
  }
  check_submit(&(braid_task){.kind = BRAID_TASK_KERNEL,
                             .prepared = prepared,
                             .bindings = bindings,
                             .input_count = inputs,
                             .output_count = r->desc.output_count});
  for (size_t i = inputs; i <= operands; i++) {
    if (!buffers[i]) continue;
    check_guard(r, buffers[i], bindings[i].bytes, i == operands ? "the workspace, piece" : "output", i - inputs);
    if (i == operands || !bindings[i].bytes) continue;
    check_output(r, i, buffers[i], bindings[i].bytes, over >= 0 ? " in place" : "");
  }
  check_on.backend->discard(check_on.self, prepared);
  for (size_t i = 0; i <= operands; i++)
    if (buffers[i] && !(i == inputs && over >= 0)) check_on.backend->buffer_destroy(check_on.self, buffers[i]);
}

static inline void check_describe(const check *c, check_run *r) {
  const braid_node *node = r->node = &c->graph->nodes[c->node];
  assert_true(node->input_count <= CHECK_OPERANDS && node->output_count <= CHECK_OPERANDS);
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    const braid_value *value = &c->graph->values[node->inputs[i]];
    const void *constant = value->kind == BRAID_VALUE_CONSTANT ? braid_tensor_const_data(value->tensor) : NULL;
    r->operands[i] = (braid_operand){true, value->desc, constant};
    r->inputs[i] = value->tensor;
  }
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0)
      r->operands[node->input_count + i] = (braid_operand){true, c->graph->values[node->outputs[i]].desc, NULL};
  r->desc = (braid_node_desc){.op = node->op->name,
                              .name = "node",
                              .attrs = &node->attrs,
                              .input_count = node->input_count,
                              .output_count = node->output_count,
                              .inputs = r->operands,
                              .outputs = r->operands + node->input_count};
}

static inline void check_reset_layouts(check_run *r) {
  for (size_t i = 0; i < 2 * CHECK_OPERANDS; i++) r->operands[i].desc.layout = BRAID_LAYOUT_PLAIN;
}

/* Operands in the layouts that the kernel asks for where inputs come in `offered`. False: there is nothing to run,
 * since it makes no difference from PLAIN. */
static inline bool check_set_layouts(check_run *r, braid_layout offered) {
  braid_layout layouts[2 * CHECK_OPERANDS];
  const size_t inputs = r->desc.input_count, operands = inputs + r->desc.output_count;
  if (!r->kernel->layouts) return false;
  bool differs = offered == BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < operands; i++) layouts[i] = i < inputs && r->operands[i].desc.rank >= 2 ? offered : 0;
  r->kernel->layouts(&r->desc, layouts, layouts + inputs);
  for (size_t i = 0; i < operands; i++) {
    differs |= r->operands[i].present && r->operands[i].desc.layout != layouts[i];
    if (r->operands[i].present) CHECK_OK(braid_desc_set_layout(&r->operands[i].desc, layouts[i]));
  }
  return differs;
}

/* Into memory of its own, and over each input that it may lie over. Returns 1. */
static inline size_t check_ways(check_run *r) {
  check_kernel(r, -1);
  for (uint32_t over = 0; over < r->desc.input_count && over < 32; over++)
    if ((r->kernel->in_place >> over & 1) && r->operands[over].present &&
        braid_layout_same_places(&r->operands[over].desc, &r->desc.outputs[0].desc))
      check_kernel(r, (int)over);
  return 1;
}

/* Runs the node by every kernel that takes it and frees the graph. At least one must. */
static inline void check_end(check *c, double tolerance) {
  check_run r = {.tolerance = tolerance};
  char why[256];
  size_t count;
  check_describe(c, &r);
  CHECK_OK(braid_cpu_evaluate(&check_on.evaluator, c->graph, r.node, r.inputs, r.expected));
  const braid_kernel *const *kernels = check_on.backend->kernels(check_on.self, &count);
  for (size_t i = 0; i < count; i++) {
    r.kernel = kernels[i];
    if (strcmp(kernels[i]->op, r.desc.op) != 0 || (c->only && !strstr(kernels[i]->name, c->only))) continue;
    if (kernels[i]->match && !kernels[i]->match(&r.desc, why, sizeof why)) continue;
    const braid_launch_kernel *own = kernels[i]->implementation;
    if ((own->foreign || own->widens || kernels[i]->layouts) &&
        !check_on.backend->match(check_on.self, kernels[i], &r.desc, why, sizeof why))
      continue;
    if (check_set_layouts(&r, BRAID_LAYOUT_PLAIN) || !kernels[i]->layouts) c->runs += check_ways(&r);
    if (kernels[i]->layouts && check_set_layouts(&r, BRAID_LAUNCH_SAMPLES)) c->runs += check_ways(&r);
    check_reset_layouts(&r);
  }
  if (!c->runs) fail_msg("no kernel takes %s", r.desc.op);
  for (size_t i = 0; i < CHECK_OPERANDS; i++) braid_tensor_release(r.expected[i]);
  braid_graph_destroy(c->graph);
}

#endif
