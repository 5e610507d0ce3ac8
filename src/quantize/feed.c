/* Samples for calibration and test: a data set's, through its loader, or arrays of a caller. */
#include <string.h>

#include "base/try.h"
#include "quantize/internal.h"
#include "train/step.h"

int64_t braid_feed_batch_of(const braid_feed *feed, const braid_graph *graph, int64_t wanted) {
  const braid_desc *desc = graph->input_count ? &graph->values[graph->inputs[0]].desc : NULL;
  if (desc && desc->rank > 0 && desc->dims[0] > 0) return desc->dims[0];
  return wanted < feed->samples ? wanted : feed->samples;
}

static braid_status bind_array(braid_graph *graph, size_t index, const braid_tensor *array, int64_t batch) {
  const braid_value *value = &graph->values[graph->inputs[index]];
  const braid_desc *given = braid_tensor_desc(array);
  char wanted[96], text[96];
  bool fits = given->rank >= 1 && (value->desc.rank < 0 || value->desc.rank == given->rank) &&
              given->dtype == value->desc.dtype;
  for (int i = 1; fits && i < given->rank && value->desc.rank > 0; i++)
    fits = value->desc.dims[i] < 0 || value->desc.dims[i] == given->dims[i];
  if (!fits)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "input %.120s is %s, the samples are %s: the same type and shape are expected, with the number "
                      "of samples first",
                      value->name, braid_desc_format(&value->desc, wanted, sizeof wanted),
                      braid_desc_format(given, text, sizeof text));
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, given->dims, (size_t)given->rank * sizeof *dims);
  dims[0] = batch;
  return braid_graph_set_input_shape(graph, graph->inputs[index], given->rank, dims);
}

braid_status braid_feed_bind(const braid_feed *feed, braid_graph *graph, int64_t batch) {
  if (feed->dataset) {
    braid_dataset_info info = braid_dataset_get_info(feed->dataset);
    return braid_bind_input(graph, &info, batch);
  }
  if (feed->input_count != graph->input_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the model has %zu inputs, samples are given for %zu", graph->input_count,
                      feed->input_count);
  for (size_t i = 0; i < feed->input_count; i++) BRAID_TRY(bind_array(graph, i, feed->inputs[i], batch));
  return BRAID_OK;
}

/* --- data sets -----------------------------------------------------------------------------------------------------
 */
static braid_status run_loader(const braid_feed *feed, int64_t batch, braid_loader *loader, braid_feed_take *take,
                               void *context) {
  bool classes = braid_dataset_get_info(feed->dataset).target == BRAID_TARGET_CLASS;
  for (int64_t done = 0; done < feed->samples;) {
    braid_batch loaded;
    BRAID_TRY(braid_loader_next(loader, &loaded));
    int64_t count = loaded.count < feed->samples - done ? loaded.count : feed->samples - done;
    braid_feed_batch given = {(const void *const[]){loaded.images}, classes ? loaded.labels : NULL, done,
                              count < batch ? count : batch};
    BRAID_TRY(take(context, &given));
    done += count;
  }
  return BRAID_OK;
}

static braid_status run_dataset(const braid_feed *feed, int64_t batch, braid_feed_take *take, void *context) {
  braid_loader_options options = {.batch = batch, .seed = feed->seed, .shuffle = feed->shuffle, .keep_last = true};
  braid_loader *loader;
  BRAID_TRY(braid_loader_create(feed->dataset, &options, 0, 0, &loader));
  braid_status status = run_loader(feed, batch, loader, take, context);
  braid_loader_destroy(loader);
  return status;
}

/* --- arrays --------------------------------------------------------------------------------------------------------
 */
static size_t sample_bytes(const braid_tensor *array) {
  const braid_desc *desc = braid_tensor_desc(array);
  return desc->dims[0] ? braid_desc_bytes(desc) / (size_t)desc->dims[0] : 0;
}

/* Batches lie in the array as they are; only the last, if it is not full, is copied. */
static braid_status run_arrays(const braid_feed *feed, int64_t batch, const void **inputs, void **last,
                               braid_feed_take *take, void *context) {
  for (int64_t done = 0; done < feed->samples; done += batch) {
    int64_t count = feed->samples - done < batch ? feed->samples - done : batch;
    for (size_t i = 0; i < feed->input_count; i++) {
      size_t bytes = sample_bytes(feed->inputs[i]);
      const char *from = (const char *)braid_tensor_const_data(feed->inputs[i]) + (size_t)done * bytes;
      inputs[i] = from;
      if (count == batch) continue;
      for (int64_t k = 0; k < batch; k++)
        memcpy((char *)last[i] + (size_t)k * bytes, from + (size_t)(k < count ? k : 0) * bytes, bytes);
      inputs[i] = last[i];
    }
    BRAID_TRY(take(context, &(braid_feed_batch){inputs, NULL, done, count}));
  }
  return BRAID_OK;
}

static braid_status run_inputs(const braid_feed *feed, const braid_allocator *allocator, int64_t batch,
                               braid_feed_take *take, void *context) {
  const void **inputs = braid_zalloc_array(allocator, feed->input_count, sizeof *inputs);
  void **last = braid_zalloc_array(allocator, feed->input_count, sizeof *last);
  braid_status status = inputs && last ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < feed->input_count; i++) {
    last[i] = braid_zalloc_array(allocator, (size_t)batch, sample_bytes(feed->inputs[i]) + 1);
    if (!last[i]) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = run_arrays(feed, batch, inputs, last, take, context);
  for (size_t i = 0; last && i < feed->input_count; i++) braid_free(allocator, last[i]);
  braid_free(allocator, last);
  braid_free(allocator, inputs);
  return status;
}

braid_status braid_feed_run(const braid_feed *feed, const braid_graph *bound, int64_t batch, braid_feed_take *take,
                            void *context) {
  if (feed->dataset) return run_dataset(feed, batch, take, context);
  return run_inputs(feed, bound->allocator, batch, take, context);
}
