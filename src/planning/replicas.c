#include "planning/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"

double braid_ring_seconds(int64_t count, double bytes, double latency_seconds, double bytes_per_second) {
  return 2 * (double)(count - 1) * (latency_seconds + bytes / (double)count / bytes_per_second);
}

/* Whether a node gives a parameter its next value from a gradient. */
static bool is_update(const braid_graph *graph, const braid_node *node) {
  if (node->input_count < 2 || node->inputs[0] < 0 || node->inputs[1] < 0 || node->output_count < 1) return false;
  const braid_value *parameter = &graph->values[node->inputs[0]];
  return parameter->kind == BRAID_VALUE_PARAMETER && parameter->next >= 0 && parameter->next == node->outputs[0] &&
         graph->values[node->inputs[1]].kind == BRAID_VALUE_RESULT;
}

static int by_producer(const void *left, const void *right, void *context) {
  const braid_graph *graph = context;
  const braid_replica_gradient *a = left, *b = right;
  braid_node_id x = graph->values[a->value].producer, y = graph->values[b->value].producer;
  return x != y ? (x > y) - (x < y) : (a->update > b->update) - (a->update < b->update);
}

static braid_status fill_buckets(const braid_graph *graph, double bucket_bytes, braid_arena *arena,
                                 braid_replicas *out) {
  size_t count = 0;
  out->gradients = braid_arena_alloc(arena, (graph->node_count + 1) * sizeof *out->gradients);
  out->first = braid_arena_alloc(arena, (graph->node_count + 2) * sizeof *out->first);
  if (!out->gradients || !out->first) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < graph->node_count; n++)
    if (is_update(graph, &graph->nodes[n]))
      out->gradients[count++] = (braid_replica_gradient){graph->nodes[n].inputs[1], (int32_t)n};
  qsort_r(out->gradients, count, sizeof *out->gradients, by_producer, (void *)graph);
  double bytes = 0;
  for (size_t i = 0; i < count; i++) {
    out->bucket[out->gradients[i].update] = (int32_t)out->bucket_count;
    bytes += (double)braid_desc_bytes(&graph->values[out->gradients[i].value].desc);
    if (bytes < bucket_bytes && i + 1 < count) continue;
    out->first[++out->bucket_count] = i + 1;
    bytes = 0;
  }
  return BRAID_OK;
}

/* Updates, and what reads what they give. */
static bool is_late(const braid_graph *graph, size_t n, const bool *late, const int32_t *bucket) {
  const braid_node *node = &graph->nodes[n];
  if (bucket[n] >= 0) return true;
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    const braid_value *value = &graph->values[node->inputs[i]];
    if (value->kind == BRAID_VALUE_RESULT && late[value->producer]) return true;
  }
  return false;
}

static void add_nodes(const braid_graph *graph, const bool *late, bool which, braid_replicas *out) {
  for (size_t n = 0; n < graph->node_count; n++)
    for (int64_t r = 0; r < out->count && late[n] == which; r++) {
      out->position[(size_t)r * graph->node_count + n] = (int32_t)out->entry_count;
      out->entries[out->entry_count++] = (braid_replica_entry){(int32_t)n, (int32_t)r, -1};
    }
}

braid_status braid_replicas_make(const braid_graph *graph, int64_t count, double bucket_bytes, braid_arena *arena,
                                 braid_replicas *out) {
  size_t nodes = graph->node_count, all = nodes * (size_t)count;
  *out = (braid_replicas){.count = count};
  out->bucket = braid_arena_alloc(arena, (nodes + 1) * sizeof *out->bucket);
  out->position = braid_arena_alloc(arena, (all + 1) * sizeof *out->position);
  out->entries = braid_arena_alloc(arena, (all + nodes + 1) * sizeof *out->entries);
  bool *late = braid_arena_alloc(arena, (nodes + 1) * sizeof *late);
  if (!out->bucket || !out->position || !out->entries || !late) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < nodes; n++) out->bucket[n] = -1, late[n] = false;
  if (count > 1) BRAID_TRY(fill_buckets(graph, bucket_bytes, arena, out));
  for (size_t n = 0; n < nodes && count > 1; n++) late[n] = is_late(graph, n, late, out->bucket);
  add_nodes(graph, late, false, out);
  for (size_t b = 0; b < out->bucket_count; b++)
    out->entries[out->entry_count++] = (braid_replica_entry){-1, 0, (int32_t)b};
  add_nodes(graph, late, true, out);
  return BRAID_OK;
}
