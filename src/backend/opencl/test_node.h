/* One node on one device, by hand: what the tests and the benchmark of this folder share. */
#ifndef BRAID_BACKEND_OPENCL_TEST_NODE_H
#define BRAID_BACKEND_OPENCL_TEST_NODE_H

#include <stdio.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "device/queue.h"
#include "graph/graph.h"

/* y = op(a[, b]) of `count` floats, its buffers, and the task that runs it. */
typedef struct test_node {
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_queue queue;
  braid_operand operands[3];
  braid_node_desc desc;
  const braid_kernel *kernel;
  void *prepared;
  void *buffers[3];
  braid_binding bindings[4];
  braid_verdict verdict;
  braid_timing timing; /* of the task done last */
  braid_task task;
} test_node;

static inline void test_node_close(test_node *node) {
  if (!node->device) return;
  braid_queue_close(&node->queue);
  for (int i = 0; i < 3; i++)
    if (node->buffers[i]) node->backend->buffer_destroy(node->self, node->buffers[i]);
  if (node->prepared) node->backend->discard(node->self, node->prepared);
  braid_device_close(node->device);
  *node = (test_node){0};
}

static inline void test_node_describe(test_node *node, const char *op, int64_t count) {
  static const struct braid_attrs kNoAttributes;
  size_t inputs = strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0 ? 2 : 1;
  for (int i = 0; i < 3; i++)
    node->operands[i] = (braid_operand){.present = true, .desc = {.dtype = BRAID_F32, .rank = 1, .dims = {count}}};
  node->desc = (braid_node_desc){.op = op,
                                 .name = "test",
                                 .attrs = &kNoAttributes,
                                 .input_count = inputs,
                                 .output_count = 1,
                                 .inputs = node->operands,
                                 .outputs = &node->operands[2]};
}

/* On failure close what there is. */
static inline braid_status test_node_open(test_node *node, braid_registry *registry, const char *spec, const char *op,
                                          int64_t count) {
  *node = (test_node){0};
  braid_status status = braid_device_open(registry, spec, &node->device);
  if (status != BRAID_OK) return status;
  node->backend = braid_device_backend(node->device);
  node->self = braid_device_self(node->device);
  test_node_describe(node, op, count);
  char why[256];
  node->kernel = braid_device_find_kernel(node->device, &node->desc, why, sizeof why);
  if (!node->kernel) return braid_fail(BRAID_UNSUPPORTED, "%s", why);
  braid_prepared_info info;
  status = node->backend->prepare(node->self, node->kernel, &node->desc, &node->prepared, &info);
  if (status == BRAID_OK) status = braid_queue_open(&node->queue, NULL, node->backend, node->self);
  size_t inputs = node->desc.input_count, bytes = (size_t)count * sizeof(float);
  for (size_t i = 0; status == BRAID_OK && i <= inputs; i++) {
    status = node->backend->buffer_create(node->self, bytes, &node->buffers[i]);
    node->bindings[i] = (braid_binding){.buffer = node->buffers[i], .bytes = bytes};
  }
  node->task = (braid_task){.kind = BRAID_TASK_KERNEL,
                            .label = "test",
                            .prepared = node->prepared,
                            .bindings = node->bindings,
                            .input_count = inputs,
                            .output_count = 1,
                            .verdict = &node->verdict};
  return status;
}

/* Submits a task and waits for it. */
static inline braid_status test_node_do(test_node *node, braid_task *task) {
  braid_verdict_init(&node->verdict);
  task->verdict = &node->verdict;
  task->timing = &node->timing;
  return braid_queue_do(&node->queue, task, -1);
}

static inline braid_status test_node_transfer(test_node *node, size_t index, void *host, bool write) {
  braid_task task = {.kind = write ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                     .label = "transfer",
                     .source = node->bindings[index],
                     .target = node->bindings[index],
                     .host = host};
  return test_node_do(node, &task);
}

#endif
