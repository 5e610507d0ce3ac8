/* Post-training quantization from end to end: prepare, select, calibrate, emit, measure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/try.h"
#include "graph/rewrite.h"
#include "quantize/internal.h"

enum { SAMPLES = 512, TEST_SAMPLES = 1000, BATCH = 32, LAYERS = 16 };

const char *braid_calibration_name(braid_calibration calibration) {
  static const char *const kNames[] = {"minmax", "percentile", "entropy"};
  return (unsigned)calibration < sizeof kNames / sizeof *kNames ? kNames[calibration] : "";
}

/* --- arguments -----------------------------------------------------------------------------------------------------
 */
static braid_status take_options(const braid_quantize_options *given, braid_work *work) {
  braid_quantize_options *o = &work->options;
  if (given) *o = *given;
  if (!o->samples) o->samples = SAMPLES;
  if (!o->test_samples) o->test_samples = TEST_SAMPLES;
  if (!o->batch) o->batch = BATCH;
  if (!o->layers) o->layers = LAYERS;
  if (o->percentile == 0) o->percentile = 99.999;
  if (o->power_of_two) o->per_tensor = o->signed_activations = true;
  if (o->session) work->session = *o->session;
  if ((unsigned)o->calibration > BRAID_CALIBRATE_ENTROPY)
    return braid_fail(BRAID_INVALID_ARGUMENT, "calibration %d is none of minmax, percentile and entropy",
                      (int)o->calibration);
  if (!(o->percentile > 0 && o->percentile <= 100))
    return braid_fail(BRAID_INVALID_ARGUMENT, "percentile %g: above 0 and at most 100 is expected", o->percentile);
  if (o->samples < 1 || o->test_samples < 1 || o->batch < 1 || o->batch > 1 << 16 || o->layers < -1)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "samples, test samples and batch are at least 1, the batch at most 65,536, layers at least -1");
  if (work->session.training || work->session.plan || work->session.load_plan || work->session.save_plan)
    return braid_fail(BRAID_INVALID_ARGUMENT, "sessions of training or with a plan: several graphs are run");
  return BRAID_OK;
}

static braid_status feed_dataset(braid_dataset *dataset, int64_t most, braid_feed *feed) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  feed->dataset = dataset;
  feed->samples = info.samples < most ? info.samples : most;
  if (info.samples < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "the data set %.200s has no samples", info.spec);
  return BRAID_OK;
}

static braid_status feed_arrays(const braid_quantize_data *data, int64_t most, braid_feed *feed) {
  feed->inputs = data->inputs;
  feed->input_count = data->input_count;
  feed->samples = most;
  for (size_t i = 0; i < data->input_count; i++) {
    const braid_desc *desc = data->inputs[i] ? braid_tensor_desc(data->inputs[i]) : NULL;
    if (!desc || desc->rank < 1 || desc->dims[0] < 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "samples of input %zu: at least one is expected, in dimension 0", i);
    if (desc->dims[0] != braid_tensor_desc(data->inputs[0])->dims[0])
      return braid_fail(BRAID_INVALID_ARGUMENT, "%lld samples of input 0 and %lld of input %zu",
                        (long long)braid_tensor_desc(data->inputs[0])->dims[0], (long long)desc->dims[0], i);
    if (desc->dims[0] < feed->samples) feed->samples = desc->dims[0];
  }
  return BRAID_OK;
}

static braid_status take_data(const braid_quantize_data *data, braid_work *work) {
  const braid_quantize_options *o = &work->options;
  work->calibration.shuffle = true;
  work->calibration.seed = o->seed;
  if (data->calibration) {
    BRAID_TRY(feed_dataset(data->calibration, o->samples, &work->calibration));
    return feed_dataset(data->test ? data->test : data->calibration, o->test_samples, &work->test);
  }
  if (!data->input_count) return braid_fail(BRAID_INVALID_ARGUMENT, "no samples: a data set or arrays are expected");
  BRAID_TRY(feed_arrays(data, o->samples, &work->calibration));
  return feed_arrays(data, o->test_samples, &work->test);
}

static bool node_fits(const braid_node *node, const char *pattern) {
  bool fits = braid_text_fits(pattern, node->name);
  for (const braid_alias *alias = node->absorbed; alias && !fits; alias = alias->next)
    fits = braid_text_fits(pattern, alias->name);
  return fits;
}

static braid_status mark_kept(braid_work *work) {
  work->kept = braid_zalloc_array(work->allocator, work->graph->node_count + 1, sizeof *work->kept);
  if (!work->kept) return BRAID_NO_MEMORY;
  for (size_t k = 0; k < work->options.keep_count; k++) {
    bool found = false;
    for (size_t i = 0; i < work->graph->node_count; i++) {
      if (!node_fits(&work->graph->nodes[i], work->options.keep[k])) continue;
      work->kept[i] = found = true;
    }
    if (!found)
      return braid_fail(BRAID_NOT_FOUND, "keep: no node's name matches \"%.200s\"; the first is \"%.120s\"",
                        work->options.keep[k], work->graph->node_count ? work->graph->nodes[0].name : "");
  }
  return BRAID_OK;
}

/* --- the report ----------------------------------------------------------------------------------------------------
 */
static const char *copy_name(braid_quantize_result *result, const char *name) {
  return braid_arena_text(result->names, name, strlen(name));
}

static braid_status list_layers(const braid_work *work, const braid_selection *selection,
                                braid_quantize_result *result) {
  const braid_graph *graph = work->graph;
  result->layers = braid_arena_alloc(result->names, (graph->node_count + 1) * sizeof *result->layers);
  if (!result->layers) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    const char *why;
    if (!braid_select_is_layer(graph, node, &why)) continue;
    braid_quantize_layer *layer = &result->layers[result->layer_count++];
    *layer = (braid_quantize_layer){.name = copy_name(result, node->name), .op = copy_name(result, node->op->name)};
    layer->sqnr = (double)NAN;
    layer->why = selection->role[i] == BRAID_ROLE_LAYER ? NULL : why ? why : "it is kept";
    if (!layer->name || !layer->op) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static braid_status check_layers(const braid_quantize_result *result) {
  for (size_t i = 0; i < result->layer_count; i++)
    if (!result->layers[i].why) return BRAID_OK;
  if (!result->layer_count)
    return braid_fail(BRAID_UNSUPPORTED, "there is nothing to quantize: the model has no Conv, Gemm or MatMul");
  return braid_fail(BRAID_UNSUPPORTED, "there is nothing to quantize: node %.120s (%s) stays in float, because %s",
                    result->layers[0].name, result->layers[0].op, result->layers[0].why);
}

static braid_status list_tensors(const braid_work *work, braid_quantize_result *result) {
  const braid_graph *graph = work->graph;
  result->tensors = braid_arena_alloc(result->names, (graph->value_count + 1) * sizeof *result->tensors);
  if (!result->tensors) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++) {
    if (work->root[i] != (braid_value_id)i) continue;
    const braid_scale *scale = &work->scales[i];
    const char *name = copy_name(result, graph->values[i].name);
    if (!name) return BRAID_NO_MEMORY;
    result->tensors[result->tensor_count++] = (braid_quantize_tensor){
        name, scale->least, scale->greatest, scale->low, scale->high, scale->scale, scale->zero_point};
  }
  return BRAID_OK;
}

/* --- what each layer costs -----------------------------------------------------------------------------------------
 */
static braid_status measure_layers(const braid_work *work, const braid_selection *selection,
                                   braid_quantize_result *result) {
  double *sqnr = braid_zalloc_array(work->allocator, result->layer_count + 1, sizeof *sqnr);
  if (!sqnr) return BRAID_NO_MEMORY;
  braid_status status = braid_measure_layers(work, selection, sqnr);
  size_t next = 0;
  for (size_t i = 0; status == BRAID_OK && i < result->layer_count; i++)
    if (!result->layers[i].why) result->layers[i].sqnr = sqnr[next++];
  braid_free(work->allocator, sqnr);
  return status;
}

/* The layer that loses most of those that were not tried; -1: none. */
static int64_t next_layer(const braid_quantize_result *result) {
  int64_t worst = -1;
  for (size_t i = 0; i < result->layer_count; i++) {
    const braid_quantize_layer *layer = &result->layers[i];
    if (layer->why || layer->tried) continue;
    if (worst < 0 || layer->sqnr < result->layers[worst].sqnr) worst = (int64_t)i;
  }
  return worst;
}

static size_t node_of_layer(const braid_graph *graph, size_t layer) {
  const char *why;
  for (size_t i = 0, at = 0; i < graph->node_count; i++)
    if (braid_select_is_layer(graph, &graph->nodes[i], &why) && at++ == layer) return i;
  return 0;
}

static braid_status try_without(braid_work *work, const braid_reference *reference, size_t index, int64_t done,
                                int64_t total, braid_quantize_layer *layer) {
  size_t node = node_of_layer(work->graph, index);
  braid_selection selection;
  work->kept[node] = true;
  braid_status status = braid_select(work->graph, work->kept, work->options.power_of_two, &selection);
  work->kept[node] = false;
  if (status != BRAID_OK) return status;
  braid_graph *graph = NULL;
  status = braid_quantize_emit(work, &selection, &graph);
  braid_select_deinit(&selection);
  if (status == BRAID_OK)
    status = braid_reference_score(reference, graph, "without each layer", done, total, &layer->without);
  braid_graph_destroy(graph);
  layer->tried = status == BRAID_OK;
  return status;
}

static braid_status try_layers(braid_work *work, const braid_reference *reference, braid_quantize_result *result) {
  int64_t total = 0;
  for (size_t i = 0; i < result->layer_count; i++) total += !result->layers[i].why;
  if (total > work->options.layers) total = work->options.layers;
  for (int64_t i = 0; i < total; i++) {
    int64_t index = next_layer(result);
    if (index < 0) break;
    BRAID_TRY(try_without(work, reference, (size_t)index, i + 1, total, &result->layers[index]));
  }
  return BRAID_OK;
}

static braid_status measure(braid_work *work, const braid_selection *selection, braid_quantize_result *result) {
  braid_reference *reference;
  BRAID_TRY(measure_layers(work, selection, result));
  BRAID_TRY(braid_reference_create(work, &reference));
  result->test_samples = braid_reference_samples(reference);
  result->before = (braid_quantize_score){braid_reference_accuracy(reference), (double)NAN, (double)INFINITY};
  braid_status status = braid_reference_score(reference, result->graph, "the quantized model", 1, 1, &result->after);
  if (status == BRAID_OK) status = try_layers(work, reference, result);
  braid_reference_destroy(reference);
  return status;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status calibrate(const braid_graph *model, braid_work *work, const braid_selection *selection,
                              braid_quantize_result *result) {
  size_t values = work->graph->value_count;
  work->scales = braid_zalloc_array(work->allocator, values + 1, sizeof *work->scales);
  work->root = braid_zalloc_array(work->allocator, values + 1, sizeof *work->root);
  if (!work->scales || !work->root) return BRAID_NO_MEMORY;
  memcpy(work->root, selection->root, values * sizeof *work->root);
  BRAID_TRY(list_layers(work, selection, result));
  BRAID_TRY(check_layers(result));
  BRAID_TRY(braid_observe(work, selection));
  BRAID_TRY(list_tensors(work, result));
  BRAID_TRY(braid_quantize_emit(work, selection, &result->graph));
  BRAID_TRY(braid_quantize_declare(model, work->graph, result->graph));
  return measure(work, selection, result);
}

static braid_status quantize(const braid_graph *model, braid_work *work, braid_quantize_result *result) {
  BRAID_TRY(braid_arena_create(work->allocator, &result->names));
  int64_t batch = braid_feed_batch_of(&work->calibration, braid_graph_source(model), work->options.batch);
  BRAID_TRY(braid_quantize_prepare(model, &work->calibration, batch, &work->graph));
  BRAID_TRY(mark_kept(work));
  result->samples = work->calibration.samples;
  braid_selection selection;
  BRAID_TRY(braid_select(work->graph, work->kept, work->options.power_of_two, &selection));
  braid_status status = calibrate(model, work, &selection, result);
  braid_select_deinit(&selection);
  return status;
}

braid_status braid_quantize(const braid_graph *model, const braid_quantize_data *data,
                            const braid_quantize_options *options, braid_quantize_result *result) {
  *result = (braid_quantize_result){0};
  braid_work work = {.allocator = model->allocator};
  BRAID_TRY(take_options(options, &work));
  BRAID_TRY(take_data(data, &work));
  braid_status status = quantize(model, &work, result);
  braid_graph_destroy(work.graph);
  braid_free(work.allocator, work.kept);
  braid_free(work.allocator, work.scales);
  braid_free(work.allocator, work.root);
  return status;
}

void braid_quantize_result_deinit(braid_quantize_result *result) {
  braid_graph_destroy(result->graph);
  if (result->names) braid_arena_destroy(result->names);
  *result = (braid_quantize_result){0};
}
