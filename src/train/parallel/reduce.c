/* AllReduce nodes of a training graph. What is small is reduced together, since a message by itself takes as long as
 * some ten kilobytes of it; an eighth of all is enough for one, so that most of them leave while the backward pass goes
 * on. */
#include "base/arena.h"
#include "base/try.h"
#include "train/parallel/slice.h"

enum { kMostOperands = 32, kBuckets = 8 };
static const size_t kLeastBytes = (size_t)1 << 15, kMostBytes = (size_t)1 << 20; /* of several values together */

braid_status braid_add_all_reduce(braid_graph *graph, const braid_slice *slice, const char *reduction,
                                  braid_value_id *values, size_t count) {
  if (!slice->group || !count) return BRAID_OK;
  braid_value_id *results = braid_graph_arena_alloc(graph, count * sizeof *results);
  braid_node_id node;
  if (!results) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) results[i] = 0;
  BRAID_TRY(braid_graph_add_node(graph, "AllReduce", NULL, values, count, results, count, &node));
  graph->nodes[node].backward = true;
  for (size_t i = 0; i < count; i++) values[i] = results[i];
  return braid_graph_set_string(graph, node, "reduction", reduction);
}

static braid_node_id producer_of(const braid_graph *graph, braid_value_id value) {
  return graph->values[value].kind == BRAID_VALUE_RESULT ? graph->values[value].producer : -1;
}

/* The places of `values` by the nodes that compute them: an insertion sort, since they mostly come in falling order. */
static void sort_places(const braid_graph *graph, const braid_value_id *values, size_t *places, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t at = i;
    for (; at > 0 && producer_of(graph, values[places[at - 1]]) > producer_of(graph, values[i]); at--)
      places[at] = places[at - 1];
    places[at] = i;
  }
}

static size_t bucket_bytes(const braid_graph *graph, const braid_value_id *values, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += braid_desc_bytes(&graph->values[values[i]].desc);
  bytes /= kBuckets;
  return bytes < kLeastBytes ? kLeastBytes : bytes > kMostBytes ? kMostBytes : bytes;
}

static braid_status add_bucket(braid_graph *graph, const braid_slice *slice, braid_value_id *values,
                               const size_t *places, size_t count) {
  braid_value_id bucket[kMostOperands];
  for (size_t i = 0; i < count; i++) bucket[i] = values[places[i]];
  BRAID_TRY(braid_add_all_reduce(graph, slice, "sum", bucket, count));
  for (size_t i = 0; i < count; i++) values[places[i]] = bucket[i];
  return BRAID_OK;
}

braid_status braid_add_all_reduces(braid_graph *graph, const braid_slice *slice, braid_value_id *values, size_t count) {
  if (!slice->group || !count) return BRAID_OK;
  size_t *places = braid_graph_arena_alloc(graph, count * sizeof *places), first = 0, bytes = 0;
  size_t most = bucket_bytes(graph, values, count);
  if (!places) return BRAID_NO_MEMORY;
  sort_places(graph, values, places, count);
  for (size_t i = 0; i < count; i++) {
    const braid_desc *desc = &graph->values[values[places[i]]].desc;
    bool full = bytes >= most || i - first == kMostOperands;
    if (i > first && (full || desc->dtype != graph->values[values[places[first]]].desc.dtype)) {
      BRAID_TRY(add_bucket(graph, slice, values, places + first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += braid_desc_bytes(desc);
  }
  return add_bucket(graph, slice, values, places + first, count - first);
}

braid_status braid_add_weight(braid_graph *graph, const braid_slice *slice, braid_value_id *value) {
  if (!slice->group) return BRAID_OK;
  braid_value_id inputs[2] = {*value};
  braid_node_id node;
  braid_dtype dtype = graph->values[*value].desc.dtype;
  BRAID_TRY(braid_graph_add_scalar(graph, dtype, (double)slice->count / (double)slice->batch, &inputs[1]));
  *value = 0;
  BRAID_TRY(braid_graph_add_node(graph, "Mul", NULL, inputs, 2, value, 1, &node));
  graph->nodes[node].backward = true;
  return braid_graph_infer_node(graph, node);
}
