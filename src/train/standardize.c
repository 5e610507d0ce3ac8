/* The normalization of a table's columns, as part of the model: whoever runs the saved file gives it the columns as
 * they are. */
#include <math.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "train/data/dataset.h"
#include "train/step.h"

/* --- statistics ----------------------------------------------------------------------------------------------------
 */
/* The mean and the standard deviation of each number over all samples (Welford), the second 1 where all are equal. */
static braid_status measure(braid_dataset *dataset, size_t count, double *mean, double *deviation) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  const braid_allocator *allocator = braid_dataset_allocator(dataset);
  float *numbers = braid_zalloc_array(allocator, count, sizeof *numbers);
  void *target = braid_zalloc(allocator, braid_dataset_target_bytes(dataset));
  float *scratch = braid_zalloc_array(allocator, braid_dataset_scratch(dataset), sizeof *scratch);
  braid_status status = numbers && target && scratch ? BRAID_OK : BRAID_NO_MEMORY;
  for (int64_t i = 0; i < info.samples && status == BRAID_OK; i++) {
    status = braid_dataset_read(dataset, i, NULL, scratch, numbers, target);
    for (size_t c = 0; c < count && status == BRAID_OK; c++) {
      double away = numbers[c] - mean[c];
      mean[c] += away / (double)(i + 1);
      deviation[c] += away * (numbers[c] - mean[c]);
    }
  }
  for (size_t c = 0; c < count; c++) deviation[c] = deviation[c] > 0 ? sqrt(deviation[c] / (double)info.samples) : 1;
  braid_free(allocator, scratch);
  braid_free(allocator, target);
  braid_free(allocator, numbers);
  return status;
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* Whether something fixed is subtracted from the input, or it is divided: the model has a normalization. */
static bool is_normalized(const braid_graph *graph, braid_value_id input) {
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (node->input_count != 2 || node->inputs[0] != input || node->inputs[1] < 0) continue;
    bool fixed = graph->values[node->inputs[1]].kind == BRAID_VALUE_CONSTANT;
    if (fixed && (braid_node_is(node, "Sub") || braid_node_is(node, "Div"))) return true;
  }
  return false;
}

static braid_status add_fixed(braid_graph *graph, const char *name, const braid_desc *desc, const double *numbers,
                              braid_value_id *out) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(desc); i++) braid_tensor_set_f64(tensor, i, numbers[i]);
  const char *free_name = braid_graph_find_value(graph, name) < 0 ? name : NULL;
  braid_status status = braid_graph_add_tensor(graph, free_name, BRAID_VALUE_CONSTANT, tensor, out);
  if (status == BRAID_OK) graph->values[*out].origin = BRAID_ORIGIN_FIXED;
  braid_tensor_release(tensor);
  return status;
}

/* (input - mean) / deviation, for all who read the input. */
static braid_status normalize_input(braid_graph *graph, const braid_desc *sample, const double *mean,
                                    const double *deviation) {
  braid_value_id input = braid_graph_input(graph, 0), means, deviations, centred = 0, scaled = 0;
  size_t readers = graph->node_count;
  BRAID_TRY(add_fixed(graph, "columns.mean", sample, mean, &means));
  BRAID_TRY(add_fixed(graph, "columns.std", sample, deviation, &deviations));
  BRAID_TRY(braid_graph_add_node(graph, "Sub", NULL, (braid_value_id[]){input, means}, 2, &centred, 1, NULL));
  BRAID_TRY(braid_graph_add_node(graph, "Div", NULL, (braid_value_id[]){centred, deviations}, 2, &scaled, 1, NULL));
  for (size_t i = 0; i < readers; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++)
      if (graph->nodes[i].inputs[k] == input) graph->nodes[i].inputs[k] = scaled;
  return braid_graph_sort(graph);
}

/* The shape of a sample, without the batch. */
static braid_status sample_desc(const braid_graph *model, const braid_dataset_info *info, braid_desc *out) {
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  braid_status status = braid_bind_samples(graph, info, 1);
  if (status == BRAID_OK) {
    const braid_desc *desc = &graph->values[braid_graph_input(graph, 0)].desc;
    status = braid_desc_init(out, BRAID_F32, desc->rank - 1, desc->dims + 1);
  }
  braid_graph_destroy(graph);
  return status;
}

braid_status braid_standardize_input(const braid_graph *model, braid_dataset *dataset, braid_graph **out) {
  *out = NULL;
  braid_dataset_info info = braid_dataset_get_info(dataset);
  size_t count = (size_t)info.width;
  braid_desc sample;
  if (info.channels != 1 || info.height != 1)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.200s: rows of numbers are expected, not pictures", info.spec);
  BRAID_TRY(sample_desc(model, &info, &sample));
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  double *numbers = braid_zalloc_array(graph->allocator, count, 2 * sizeof *numbers);
  braid_status status = numbers ? braid_graph_unresolve(graph) : BRAID_NO_MEMORY;
  if (status == BRAID_OK && !is_normalized(graph, braid_graph_input(graph, 0))) {
    status = measure(dataset, count, numbers, numbers + count);
    if (status == BRAID_OK) status = normalize_input(graph, &sample, numbers, numbers + count);
  }
  braid_free(graph->allocator, numbers);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}
