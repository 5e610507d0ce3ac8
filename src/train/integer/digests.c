#include "train/integer/digests.h"

#include <string.h>

#include "base/try.h"
#include "base/vector.h"

/* Of each result: L is large and of samples, P of a parameter, s small (a number, or one for each channel), - is not
 * recorded: a raw sum. Nodes of
 * another number of results have those of `otherwise`. Parameters, which IntegerUpdate and IntegerMomentum give, are
 * hashed by the ledger; momentums are not, which are twice as large. */
static const struct {
  const char *op, *results, *otherwise;
} kRecorded[] = {{"Add", "s", NULL}, /* of exponents */
                 {"IntegerAdd", "L", NULL},
                 {"IntegerAveragePool", "L", NULL},
                 {"IntegerAveragePoolGrad", "L", "-s"},
                 {"IntegerBatchNormalization", "LssLss", NULL},
                 {"IntegerBatchNormalizationGrad", "-ssssss", NULL},
                 {"IntegerConv", "L", NULL},
                 {"IntegerConvGradFilter", "-s", NULL},
                 {"IntegerConvGradInput", "-s", NULL},
                 {"IntegerErrorSum", "-ss", NULL},
                 {"IntegerInput", "L", NULL},
                 {"IntegerMaxPool", "LL", NULL},
                 {"IntegerMaxPoolGrad", "L", "-s"},
                 {"IntegerMomentum", "-P", NULL},
                 {"IntegerQuantize", "P", NULL},
                 {"IntegerRelu", "L", NULL},
                 {"IntegerReluGrad", "L", NULL},
                 {"IntegerScaleError", "Ls", NULL},
                 {"IntegerSquaredError", "sLs", NULL}};

enum { kMostInputs = 32 }; /* of one node */

static braid_status keep(const braid_allocator *allocator, braid_value_id **values, size_t *count, size_t *capacity,
                         braid_value_id value) {
  braid_value_id *grown = braid_grow(allocator, *values, *count, capacity, sizeof *grown);
  if (!grown) return BRAID_NO_MEMORY;
  *values = grown;
  grown[(*count)++] = value;
  return BRAID_OK;
}

static braid_status keep_vector(braid_integer_digests *d, braid_graph *graph, const braid_value_id *values,
                                size_t count, bool backward, int64_t first) {
  braid_value_id digest = 0;
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(graph, "IntegerDigest", NULL, values, count, &digest, 1, &node));
  graph->nodes[node].backward = backward;
  if (first) BRAID_TRY(braid_graph_set_int(graph, node, "first", first));
  return keep(d->allocator, &d->vectors, &d->vector_count, &d->vector_capacity, digest);
}

/* `place` of a small one counts from the first small one, until the end. */
static braid_status note_result(braid_integer_digests *d, braid_graph *graph, braid_node_id id, size_t output,
                                const char *layer, char kind, braid_value_id value, int64_t first) {
  braid_integer_digest *items = braid_grow(d->allocator, d->items, d->count, &d->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  d->items = items;
  const braid_node *node = &graph->nodes[id];
  bool backward = node->backward, large = kind != 's', split = kind == 'L';
  items[d->count++] =
      (braid_integer_digest){layer, node->op->name, output, large ? d->vector_count : SIZE_MAX - d->small_count, split};
  return large ? keep_vector(d, graph, &value, 1, backward, split ? first : 0)
               : keep(d->allocator, &d->small, &d->small_count, &d->small_capacity, value);
}

braid_status braid_integer_digests_note(braid_integer_digests *d, braid_graph *graph, braid_node_id id,
                                        const char *layer, const braid_value_id *results, int64_t first) {
  const char *kinds = NULL;
  size_t outputs = graph->nodes[id].output_count;
  for (size_t i = 0; i < sizeof kRecorded / sizeof *kRecorded; i++) {
    if (strcmp(kRecorded[i].op, graph->nodes[id].op->name) != 0) continue;
    bool all = strlen(kRecorded[i].results) == outputs || !kRecorded[i].otherwise;
    kinds = all ? kRecorded[i].results : kRecorded[i].otherwise;
  }
  for (size_t i = 0; kinds && i < outputs && kinds[i]; i++) {
    braid_value_id value = results ? results[i] : graph->nodes[id].outputs[i];
    if (kinds[i] != '-') BRAID_TRY(note_result(d, graph, id, i, layer, kinds[i], value, first));
  }
  return BRAID_OK;
}

braid_status braid_integer_digests_end(braid_integer_digests *d, braid_graph *graph) {
  size_t large = d->vector_count;
  for (size_t i = 0; i < d->count; i++)
    if (d->items[i].place >= large) d->items[i].place = large + (SIZE_MAX - d->items[i].place);
  for (size_t at = 0; at < d->small_count; at += kMostInputs)
    BRAID_TRY(keep_vector(d, graph, d->small + at,
                          d->small_count - at < kMostInputs ? d->small_count - at : kMostInputs, true, 0));
  braid_value_id all = 0;
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(graph, "Concat", NULL, d->vectors, d->vector_count, &all, 1, &node));
  BRAID_TRY(braid_graph_set_int(graph, node, "axis", 0));
  return braid_graph_add_output(graph, all);
}

void braid_integer_digests_deinit(braid_integer_digests *d) {
  braid_free(d->allocator, d->items);
  braid_free(d->allocator, d->vectors);
  braid_free(d->allocator, d->small);
  *d = (braid_integer_digests){.allocator = d->allocator};
}
