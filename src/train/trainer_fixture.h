/* A small network, pictures made by the program, and a training of one by the other. For tests only. */
#ifndef BRAID_TRAIN_TRAINER_FIXTURE_H
#define BRAID_TRAIN_TRAINER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/philox.h"
#include "braid/model.h"
#include "graph/graph.h"
#include "registry.h"
#include "train/trainer.h"

enum { kSeed = 7, kClasses = 10 };
static char folder[64];
static braid_registry *registry; /* silent, but for tests that listen */

static inline int make_folder(void **state) {
  (void)state;
  strcpy(folder, "trainer-test-XXXXXX");
  registry = open_test_registry(NULL, NULL);
  return registry && mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
  (void)state;
  char command[128];
  braid_registry_destroy(registry);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static inline void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* --- a small network -----------------------------------------------------------------------------------------------
 */
static inline braid_value_id constant(braid_graph *graph, const char *name, int rank, const int64_t *dims, float scale,
                                      float offset) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    data[i] = offset + scale * braid_random_normal(kSeed, 0, (uint32_t)strlen(name), (uint64_t)i);
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static inline braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count,
                                  braid_node_id *id) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, id));
  return out;
}

static const braid_allocator *graph_allocator; /* of networks to come, and so of their trainers; NULL: the default */

/* Conv, BatchNormalization, Relu, MaxPool, Dropout, Flatten, Gemm, Softmax. */
static inline braid_graph *network(void) {
  braid_graph *graph;
  braid_node_id id;
  braid_value_id x;
  ok(braid_graph_create(graph_allocator, "small", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  braid_value_id w = constant(graph, "w", 4, (int64_t[]){16, 3, 3, 3}, 0.2f, 0);
  x = node(graph, "Conv", (braid_value_id[]){x, w}, 2, &id);
  ok(braid_graph_set_ints(graph, id, "pads", (int64_t[]){1, 1, 1, 1}, 4));
  int64_t channels = 16;
  braid_value_id norm[5] = {x, constant(graph, "scale", 1, &channels, 0, 1),
                            constant(graph, "shift", 1, &channels, 0, 0), constant(graph, "mean", 1, &channels, 0, 0),
                            constant(graph, "variance", 1, &channels, 0, 1)};
  x = node(graph, "BatchNormalization", norm, 5, NULL);
  x = node(graph, "Relu", &x, 1, NULL);
  x = node(graph, "MaxPool", &x, 1, &id);
  ok(braid_graph_set_ints(graph, id, "kernel_shape", (int64_t[]){4, 4}, 2));
  ok(braid_graph_set_ints(graph, id, "strides", (int64_t[]){4, 4}, 2));
  x = node(graph, "Dropout", &x, 1, NULL);
  x = node(graph, "Flatten", &x, 1, NULL);
  braid_value_id full[3] = {x, constant(graph, "full", 2, (int64_t[]){1024, kClasses}, 0.03f, 0),
                            constant(graph, "bias", 1, (int64_t[]){kClasses}, 0, 0)};
  x = node(graph, "Gemm", full, 3, NULL);
  x = node(graph, "Softmax", &x, 1, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static inline braid_dataset *glyphs(const char *split) {
  char spec[96];
  braid_dataset *dataset;
  snprintf(spec, sizeof spec, "builtin:glyphs,limit=320,augment=crop+flip,seed=3,split=%s", split);
  ok(braid_dataset_open(NULL, spec, "train", &dataset));
  return dataset;
}

static inline braid_train_options options_of(const char *name) {
  static char path[128];
  braid_train_options options;
  braid_train_options_init(&options);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  options.batch = 32;
  options.epochs = 2;
  options.seed = kSeed;
  options.out_directory = path;
  options.registry = registry;
  return options;
}

typedef struct stop_at {
  int64_t after, seen;
  double first_loss, last_loss;
  braid_train_progress last;
} stop_at;

static inline bool stop_after(void *context, const braid_train_progress *progress) {
  stop_at *s = context;
  if (s->seen == 0) s->first_loss = progress->loss;
  s->last_loss = progress->loss;
  s->last = *progress;
  return ++s->seen != s->after;
}

/* All the bits a run ends with: parameters, running statistics, momenta. */
static inline uint64_t bits_of(braid_trainer *trainer) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    if (value->kind != BRAID_VALUE_PARAMETER && value->kind != BRAID_VALUE_STATE) continue;
    braid_tensor *tensor;
    ok(braid_tensor_create(NULL, &value->desc, &tensor));
    ok(braid_session_read(trainer->session, value->name, tensor));
    const uint8_t *data = braid_tensor_const_data(tensor);
    for (size_t b = 0; b < braid_desc_bytes(&value->desc); b++) hash = (hash ^ data[b]) * 1099511628211u;
    braid_tensor_release(tensor);
  }
  return hash;
}

static size_t aside_bytes = SIZE_MAX; /* of trainers to come */

static inline uint64_t train_with(const braid_graph *graph, bool tested, braid_train_options options, stop_at *stop,
                                  braid_status expected) {
  braid_dataset *data = glyphs("train"), *test = tested ? glyphs("test") : NULL;
  braid_trainer *trainer;
  ok(braid_trainer_create(graph, data, test, &options, &trainer));
  trainer->aside_bytes = aside_bytes;
  braid_status status = braid_trainer_run(trainer, stop_after, stop);
  if (status != expected) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
  uint64_t bits = bits_of(trainer);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  if (test) braid_dataset_close(test);
  return bits;
}

static inline uint64_t train_model(const braid_graph *graph, braid_train_options options, stop_at *stop,
                                   braid_status expected) {
  return train_with(graph, true, options, stop, expected);
}

static inline uint64_t train(braid_train_options options, stop_at *stop, braid_status expected) {
  braid_graph *graph = network();
  uint64_t bits = train_model(graph, options, stop, expected);
  braid_graph_destroy(graph);
  return bits;
}

static inline bool keep_progress(void *context, const braid_train_progress *progress) {
  *(braid_train_progress *)context = *progress;
  return true;
}

#endif
