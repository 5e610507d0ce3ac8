/* What quantization costs: outputs of a quantized graph beside those of the float one, over the test samples, and each
 * layer's result beside what its quantized operands give. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/rewrite.h"
#include "quantize/internal.h"

/* Bytes of float outputs that are kept for comparison, and of a layer measurement's outputs; samples of the latter. */
enum { MOST_REFERENCE_BYTES = 512 << 20, MOST_PAIR_BYTES = 512 << 20, PAIR_SAMPLES = 64 };

struct braid_reference {
  braid_work *work;
  int64_t batch, samples;
  size_t output_count;
  int64_t *sizes;  /* of each output: elements of one batch; 0: not float32 */
  float *outputs;  /* of the float model: batch by batch, output by output */
  int64_t stride;  /* elements of all outputs of a batch */
  int64_t classes; /* scores of a sample in output 0; 0: it is no list of scores */
  bool labelled;
  int32_t *labels, *guesses;
  double accuracy;
};

/* --- scores --------------------------------------------------------------------------------------------------------
 */
/* NaN is never the highest. */
static int32_t highest(const float *scores, int64_t classes) {
  int32_t best = 0;
  for (int64_t i = 1; i < classes; i++)
    if (scores[i] > scores[best] || isnan(scores[best])) best = (int32_t)i;
  return best;
}

/* How many scores each sample has in this output; 0: it is none of [samples, classes, 1, 1 ...]. */
static int64_t score_count(const braid_desc *desc, int64_t batch) {
  if (desc->dtype != BRAID_F32 || desc->rank < 2 || desc->dims[0] != batch || desc->dims[1] < 2) return 0;
  for (int i = 2; i < desc->rank; i++)
    if (desc->dims[i] != 1) return 0;
  return desc->dims[1];
}

/* Whether labels count classes that output 0 has a score for each of. */
static bool has_labels(const braid_reference *r) {
  if (!r->work->test.dataset) return false;
  braid_dataset_info info = braid_dataset_get_info(r->work->test.dataset);
  return info.target == BRAID_TARGET_CLASS && info.classes == r->classes;
}

/* A copy that gives what a last Softmax or LogSoftmax reads: the same classes come first, and differences of scores say
 * more than those of probabilities. */
static braid_status bare_scores(const braid_graph *graph, braid_graph **out) {
  BRAID_TRY(braid_graph_clone(graph, out));
  for (size_t i = 0; i < (*out)->output_count; i++) {
    const braid_value *value = &(*out)->values[(*out)->outputs[i]];
    if (value->kind != BRAID_VALUE_RESULT || value->producer < 0) continue;
    const braid_node *last = &(*out)->nodes[value->producer];
    if (braid_node_is(last, "Softmax") || braid_node_is(last, "LogSoftmax")) (*out)->outputs[i] = last->inputs[0];
  }
  return BRAID_OK;
}

/* Sessions of a float and a quantized graph, over the test samples. */
static braid_status score_probe(const braid_work *work, const braid_graph *graph, int64_t *batch, braid_probe *out) {
  braid_graph *bare;
  *out = (braid_probe){0};
  BRAID_TRY(bare_scores(graph, &bare));
  braid_status status = braid_probe_create(work, &work->test, bare, 0, batch, out);
  braid_graph_destroy(bare);
  return status;
}

/* --- the float model -----------------------------------------------------------------------------------------------
 */
typedef struct reference_run {
  braid_reference *reference;
  braid_probe probe;
} reference_run;

static braid_status keep_batch(void *context, const braid_feed_batch *batch) {
  reference_run *run = context;
  braid_reference *r = run->reference;
  BRAID_TRY(braid_session_run(run->probe.session, batch->inputs, run->probe.outputs));
  float *to = r->outputs + batch->first / r->batch * r->stride;
  int64_t right = 0;
  for (size_t i = 0; i < r->output_count; to += r->sizes[i++])
    memcpy(to, run->probe.outputs[i], (size_t)r->sizes[i] * sizeof *to);
  for (int64_t i = 0; i < batch->count && r->classes; i++) {
    r->guesses[batch->first + i] = highest((const float *)run->probe.outputs[0] + i * r->classes, r->classes);
    if (!r->labelled || !batch->labels) continue;
    r->labels[batch->first + i] = batch->labels[i];
    right += batch->labels[i] == r->guesses[batch->first + i];
  }
  r->accuracy += (double)right / (double)r->samples;
  return braid_work_progress(r->work, "the float model", batch->first + batch->count, r->samples);
}

static braid_status measure_sizes(braid_reference *r, const braid_probe *probe) {
  r->output_count = probe->output_count;
  r->sizes = braid_zalloc_array(r->work->allocator, r->output_count + 1, sizeof *r->sizes);
  if (!r->sizes) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < r->output_count; i++) {
    const braid_desc *desc = braid_session_output(probe->session, i);
    r->sizes[i] = desc->dtype == BRAID_F32 ? braid_desc_count(desc) : 0;
    r->stride += r->sizes[i];
  }
  r->classes = r->output_count ? score_count(braid_session_output(probe->session, 0), r->batch) : 0;
  r->labelled = r->classes && has_labels(r);
  return BRAID_OK;
}

static braid_status allocate_reference(braid_reference *r) {
  int64_t most = (int64_t)MOST_REFERENCE_BYTES / (int64_t)sizeof(float) / (r->stride > 0 ? r->stride : 1);
  if (most < 1) most = 1;
  if (r->samples / r->batch >= most) r->samples = most * r->batch;
  r->work->test.samples = r->samples;
  int64_t batches = (r->samples + r->batch - 1) / r->batch;
  r->outputs = braid_zalloc_array(r->work->allocator, (size_t)batches, ((size_t)r->stride + 1) * sizeof *r->outputs);
  r->labels = braid_zalloc_array(r->work->allocator, (size_t)r->samples, 2 * sizeof *r->labels);
  r->guesses = r->labels ? r->labels + r->samples : NULL;
  return r->outputs && r->labels ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status fill_reference(braid_reference *r) {
  reference_run run = {.reference = r};
  BRAID_TRY(score_probe(r->work, r->work->graph, &r->batch, &run.probe));
  braid_status status = measure_sizes(r, &run.probe);
  if (status == BRAID_OK) status = allocate_reference(r);
  if (status == BRAID_OK) status = braid_feed_run(&r->work->test, r->work->graph, r->batch, keep_batch, &run);
  braid_probe_destroy(&run.probe);
  return status;
}

braid_status braid_reference_create(braid_work *work, braid_reference **out) {
  *out = NULL;
  braid_reference *r = braid_zalloc(work->allocator, sizeof *r);
  if (!r) return BRAID_NO_MEMORY;
  r->work = work;
  r->samples = work->test.samples;
  r->batch = braid_feed_batch_of(&work->test, work->graph, work->options.batch);
  braid_status status = fill_reference(r);
  if (status == BRAID_OK)
    *out = r;
  else
    braid_reference_destroy(r);
  return status;
}

void braid_reference_destroy(braid_reference *reference) {
  if (!reference) return;
  const braid_allocator *allocator = reference->work->allocator;
  braid_free(allocator, reference->sizes);
  braid_free(allocator, reference->outputs);
  braid_free(allocator, reference->labels);
  braid_free(allocator, reference);
}

int64_t braid_reference_samples(const braid_reference *reference) {
  return reference->samples;
}

double braid_reference_accuracy(const braid_reference *reference) {
  return reference->labelled ? reference->accuracy : (double)NAN;
}

/* --- a quantized model ---------------------------------------------------------------------------------------------
 */
typedef struct score_run {
  const braid_reference *reference;
  braid_probe probe;
  double signal, noise;
  int64_t same, right, done, total;
  const char *phase;
} score_run;

static void add_noise(const float *exact, const float *given, int64_t count, double *signal, double *noise) {
  double energy = 0, lost = 0;
  for (int64_t i = 0; i < count; i++) {
    double difference = (double)exact[i] - (double)given[i];
    energy += (double)exact[i] * (double)exact[i];
    lost += difference * difference;
  }
  *signal += energy;
  *noise += lost;
}

static braid_status score_batch(void *context, const braid_feed_batch *batch) {
  score_run *run = context;
  const braid_reference *r = run->reference;
  BRAID_TRY(braid_session_run(run->probe.session, batch->inputs, run->probe.outputs));
  const float *exact = r->outputs + batch->first / r->batch * r->stride;
  for (size_t i = 0; i < r->output_count; exact += r->sizes[i++])
    if (r->sizes[i])
      add_noise(exact, run->probe.outputs[i], braid_probe_valid(&run->probe, i, batch->count, r->batch), &run->signal,
                &run->noise);
  for (int64_t i = 0; i < batch->count && r->classes; i++) {
    int32_t guess = highest((const float *)run->probe.outputs[0] + i * r->classes, r->classes);
    run->same += guess == r->guesses[batch->first + i];
    run->right += r->labelled && guess == r->labels[batch->first + i];
  }
  int64_t part = run->total > 1 ? run->done : batch->first + batch->count;
  return braid_work_progress(r->work, run->phase, part, run->total > 1 ? run->total : r->samples);
}

braid_status braid_reference_score(const braid_reference *reference, const braid_graph *quantized, const char *phase,
                                   int64_t done, int64_t total, braid_quantize_score *out) {
  score_run run = {.reference = reference, .phase = phase, .done = done, .total = total};
  int64_t batch = reference->batch;
  BRAID_TRY(score_probe(reference->work, quantized, &batch, &run.probe));
  braid_status status = braid_feed_run(&reference->work->test, quantized, batch, score_batch, &run);
  braid_probe_destroy(&run.probe);
  double samples = (double)reference->samples;
  *out = (braid_quantize_score){.accuracy = reference->labelled ? (double)run.right / samples : (double)NAN,
                                .agreement = reference->classes ? (double)run.same / samples : (double)NAN,
                                .sqnr = braid_decibels(run.signal, run.noise)};
  return status;
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
typedef struct pair_run {
  const braid_work *work;
  braid_probe probe;
  int64_t batch, samples;
  double *energies; /* signal and noise of each layer */
} pair_run;

static braid_status measure_pairs(void *context, const braid_feed_batch *batch) {
  pair_run *run = context;
  BRAID_TRY(braid_session_run(run->probe.session, batch->inputs, run->probe.outputs));
  for (size_t i = 0; i + 1 < run->probe.output_count; i += 2)
    add_noise(run->probe.outputs[i], run->probe.outputs[i + 1],
              braid_probe_valid(&run->probe, i, batch->count, run->batch), &run->energies[i], &run->energies[i + 1]);
  return braid_work_progress(run->work, "layers one by one", batch->first + batch->count, run->samples);
}

static braid_status run_pairs(pair_run *run, const braid_graph *pairs) {
  braid_feed feed = run->work->calibration;
  if (feed.samples > PAIR_SAMPLES) feed.samples = PAIR_SAMPLES;
  run->samples = feed.samples;
  run->batch = braid_feed_batch_of(&feed, pairs, run->work->options.batch);
  BRAID_TRY(braid_probe_create(run->work, &feed, pairs, MOST_PAIR_BYTES, &run->batch, &run->probe));
  run->energies = braid_zalloc_array(run->work->allocator, run->probe.output_count + 1, sizeof *run->energies);
  if (!run->energies) return BRAID_NO_MEMORY;
  return braid_feed_run(&feed, pairs, run->batch, measure_pairs, run);
}

braid_status braid_measure_layers(const braid_work *work, const braid_selection *selection, double *sqnr) {
  braid_graph *pairs;
  BRAID_TRY(braid_quantize_emit_pairs(work, selection, &pairs));
  pair_run run = {.work = work};
  braid_status status = run_pairs(&run, pairs);
  for (size_t i = 0; status == BRAID_OK && i + 1 < run.probe.output_count; i += 2)
    sqnr[i / 2] = braid_decibels(run.energies[i], run.energies[i + 1]);
  braid_probe_destroy(&run.probe);
  braid_free(work->allocator, run.energies);
  braid_graph_destroy(pairs);
  return status;
}
