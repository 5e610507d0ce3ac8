/* The layers of the VGG-like network (models/vgg-tile.cfg) as single nodes of training in integers, for benchmarks of
 * the products in the three phases of a step. */
#ifndef BRAID_GRAPH_INTEGER_LAYERS_H
#define BRAID_GRAPH_INTEGER_LAYERS_H
#include "graph/graph.h"

typedef struct layer {
  const char *name;
  int64_t channels, filters, size; /* size 0: fully connected */
} layer;

static const layer kLayers[] = {{"conv 1", 3, 128, 32},    {"conv 2", 128, 128, 32}, {"conv 3", 128, 256, 16},
                                {"conv 4", 256, 256, 16},  {"conv 5", 256, 512, 8},  {"conv 6", 512, 512, 8},
                                {"full 1", 8192, 1024, 0}, {"full 2", 1024, 10, 0}};
enum { kLayerCount = sizeof kLayers / sizeof *kLayers, kPhases = 3 };
static const char *const kOps[kPhases] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};

/* A graph of one node: layer l forward (phase 0), the error of its input (1) or the gradient of its weights (2). */
static inline braid_status add_layer(const layer *l, int64_t batch, int phase, braid_graph **graph, braid_node_id *id) {
  int rank = l->size ? 4 : 2;
  int64_t x[4] = {batch, l->channels, l->size, l->size}, w[4] = {l->filters, l->channels, 3, 3};
  int64_t y[4] = {batch, l->filters, l->size, l->size}, pads[4] = {1, 1, 1, 1};
  braid_value_id ids[2], results[2] = {0};
  braid_desc first, second;
  braid_status status = braid_graph_create(NULL, "bench", graph);
  if (status == BRAID_OK) status = braid_desc_init(&first, BRAID_I8, rank, phase == 1 ? y : x);
  if (status == BRAID_OK) status = braid_desc_init(&second, BRAID_I8, rank, phase == 2 ? y : w);
  if (status == BRAID_OK) status = braid_graph_add_input(*graph, NULL, &first, &ids[0]);
  if (status == BRAID_OK) status = braid_graph_add_input(*graph, NULL, &second, &ids[1]);
  if (status == BRAID_OK) status = braid_graph_add_node(*graph, kOps[phase], "n", ids, 2, results, phase ? 2 : 1, id);
  if (status == BRAID_OK && l->size) status = braid_graph_set_ints(*graph, *id, "pads", pads, 4);
  if (status == BRAID_OK && l->size && phase)
    status =
        braid_graph_set_ints(*graph, *id, phase == 1 ? "input_shape" : "kernel_shape", phase == 1 ? x + 2 : w + 2, 2);
  if (status == BRAID_OK && !phase) status = braid_graph_set_int(*graph, *id, "bits", 8);
  if (status == BRAID_OK && !phase) status = braid_graph_set_int(*graph, *id, "shift", 10);
  return status == BRAID_OK ? braid_graph_infer_node(*graph, *id) : status;
}

#endif
