/* What the tests of plans and executions stand on: an op that can be held, a device that a test changes, small graphs.
 */
#ifndef BRAID_RUNTIME_EXECUTION_FIXTURE_H
#define BRAID_RUNTIME_EXECUTION_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "braid/custom.h"
#include "braid/machine.h"
#include "graph/graph.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kChannels = 16, kSide = 8, kFilters = 32, kImage = kChannels * kSide * kSide, kClasses = 10 };

/* --- an op that can be held ----------------------------------------------------------------------------------------
 */
static atomic_int held, inside, ran; /* read on queues' threads */

static inline braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                                      braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static inline void pause_a_little(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static inline braid_status hold(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  atomic_fetch_add(&inside, 1);
  atomic_fetch_add(&ran, 1);
  while (held) pause_a_little();
  memcpy(outputs[0].data, inputs[0].data, (size_t)braid_desc_bytes(inputs[0].desc));
  atomic_fetch_sub(&inside, 1);
  return BRAID_OK;
}

static const braid_custom_op kHold = {"test.Hold", 1, 1, 1, infer_same, hold};

static inline void wait_inside(int count) {
  while (inside < count) pause_a_little();
}

/* --- the CPU under another name ------------------------------------------------------------------------------------
 * One at a time; a test changes the rest of it as it likes. */
extern const braid_backend braid_backend_cpu;
static const char *cpu_name;

static inline braid_status renamed_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (capacity) strcpy(infos[0].name, cpu_name);
  return status;
}

static inline void renamed_info(void *self, braid_device_info *out) {
  braid_backend_cpu.info(self, out);
  strcpy(out->name, cpu_name);
}

static inline braid_backend renamed_cpu(const char *name) {
  braid_backend backend = braid_backend_cpu;
  backend.name = cpu_name = name;
  backend.enumerate = renamed_enumerate;
  backend.info = renamed_info;
  return backend;
}

/* With this backend beside those built in. */
static inline braid_registry *registry_with(const braid_backend *backend) {
  braid_registry *registry;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_add(registry, backend));
  return registry;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static inline braid_value_id add_tensor(braid_graph *graph, const char *name, braid_value_kind kind, int rank,
                                        const int64_t *dims, float scale) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) data[i] = scale * (float)((i * 37 + 11) % 23 - 11);
  OK(braid_graph_add_tensor(graph, name, kind, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static inline braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count) {
  braid_value_id out = 0;
  OK(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, NULL));
  return out;
}

/* Convolution, batch normalization, Relu, mean, product: constants that are folded, packed and taken as they are. */
static inline braid_graph *conv_graph(int64_t batch) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "net", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){batch, kChannels, kSide, kSide}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = add_tensor(graph, "w", BRAID_VALUE_PARAMETER, 4, (int64_t[]){kFilters, kChannels, 3, 3}, 0.01f);
  braid_value_id f = add_tensor(graph, "f", BRAID_VALUE_PARAMETER, 2, (int64_t[]){kFilters, kClasses}, 0.02f);
  braid_value_id norm[5] = {node(graph, "Conv", (braid_value_id[]){x, w}, 2)};
  static const char *const kNorm[] = {"scale", "shift", "mean", "variance"};
  for (int i = 0; i < 4; i++)
    norm[1 + i] = add_tensor(graph, kNorm[i], BRAID_VALUE_PARAMETER, 1, (int64_t[]){kFilters}, i == 3 ? 0 : 0.1f);
  braid_value_id y = node(graph, "BatchNormalization", norm, 5);
  y = node(graph, "Relu", &y, 1);
  y = node(graph, "GlobalAveragePool", &y, 1);
  y = node(graph, "Flatten", &y, 1);
  OK(braid_graph_add_output(graph, node(graph, "MatMul", (braid_value_id[]){y, f}, 2)));
  return graph;
}

static inline void fill(float *x, size_t count, int seed) {
  for (size_t i = 0; i < count; i++) x[i] = (float)((int)(i * 7 + (size_t)seed * 13) % 31 - 15) / 8;
}

static inline braid_machine *open_machine(const char *devices) {
  braid_machine *machine;
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = devices}, &machine));
  return machine;
}

static inline braid_plan *make_plan(braid_machine *machine, braid_graph *graph, bool training) {
  braid_plan *plan;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.training = training}, &plan));
  braid_graph_destroy(graph);
  return plan;
}

/* y = x * p; training: p <- p + x as well. */
static inline braid_graph *line_graph(bool trains, bool slow) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  int64_t count = 4;
  OK(braid_graph_create(NULL, "line", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id p = add_tensor(graph, "p", BRAID_VALUE_PARAMETER, 1, &count, 0);
  braid_value_id read = x;
  if (slow) read = node(graph, "test.Hold", &x, 1);
  OK(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){read, p}, 2)));
  if (trains) OK(braid_graph_update_state(graph, p, node(graph, "Add", (braid_value_id[]){p, x}, 2)));
  return graph;
}

#endif
