#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "graph/graph.h"
#include "runtime/plan/resolve.h"
#include "train/metrics.h"
#include "train/step.h"

enum { kWorst = 24 };

/* Everything one evaluation holds. */
typedef struct evaluation {
  const braid_allocator *allocator;
  braid_graph *graph;
  braid_session *session;
  braid_loader *loader;
  float *scores; /* batch x classes */
  int64_t batch;
  braid_score_kind kind;
  double loss_sum;
  int64_t correct, samples;
  double *by_class; /* of every class, what all samples score; NULL: too many */
  int32_t *labels;  /* with them */
} evaluation;

/* --- one sample ----------------------------------------------------------------------------------------------------
 */
/* What plain scores are above their log probabilities, in double; 0 for probabilities and their logarithms. */
static double excess_of(const evaluation *e, const float *scores, int classes) {
  if (e->kind != BRAID_SCORES_PLAIN) return 0;
  double most = scores[0], sum = 0;
  for (int c = 1; c < classes; c++) most = fmax(most, scores[c]);
  for (int c = 0; c < classes; c++) sum += exp(scores[c] - most);
  return log(sum) + most;
}

/* Cross entropy in double. */
static double loss_of(const evaluation *e, const float *scores, int32_t label, double excess) {
  if (e->kind == BRAID_SCORES_PROBABILITIES) return -log(fmax((double)scores[label], 1e-45));
  return excess - scores[label];
}

/* Keeps the list of the worst sorted by falling loss; equal losses keep the order of the samples. */
static void keep_worst(braid_test_result *result, int64_t index, int32_t guess, int32_t label, double loss) {
  int64_t at = result->worst_count;
  if (at == kWorst && !(loss > result->worst_loss[kWorst - 1])) return;
  if (at < kWorst)
    result->worst_count++;
  else
    at--;
  for (; at > 0 && result->worst_loss[at - 1] < loss; at--) {
    result->worst_loss[at] = result->worst_loss[at - 1];
    result->worst_index[at] = result->worst_index[at - 1];
    result->worst_guess[at] = result->worst_guess[at - 1];
    result->worst_label[at] = result->worst_label[at - 1];
  }
  result->worst_loss[at] = loss;
  result->worst_index[at] = index;
  result->worst_guess[at] = guess;
  result->worst_label[at] = label;
}

static void count_sample(evaluation *e, braid_test_result *result, const float *scores, int32_t label, int64_t index) {
  int guess = 0, above = 0;
  for (int c = 0; c < result->classes; c++) {
    if (scores[c] > scores[guess]) guess = c;
    above += scores[c] > scores[label];
  }
  double excess = excess_of(e, scores, result->classes), loss = loss_of(e, scores, label, excess);
  e->loss_sum += loss;
  e->correct += guess == label;
  result->ranks[above]++;
  if (e->by_class) {
    e->labels[result->samples] = label;
    for (int c = 0; c < result->classes; c++) e->by_class[c * e->samples + result->samples] = scores[c] - excess;
  }
  result->samples++;
  result->confusion[(int64_t)label * result->classes + guess]++;
  if (guess != label) keep_worst(result, index, guess, label, loss);
}

/* --- set up --------------------------------------------------------------------------------------------------------
 */
static braid_status evaluation_prepare(evaluation *e, const braid_graph *model, braid_dataset *dataset, int64_t batch,
                                       const braid_session_options *options) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  e->batch = batch < info.samples ? batch : info.samples;
  BRAID_TRY(braid_graph_clone(model, &e->graph));
  BRAID_TRY(braid_bind_input(e->graph, &info, e->batch));
  BRAID_TRY(braid_resolve_for_good(e->graph));
  braid_value_id scores;
  BRAID_TRY(braid_scores(e->graph, &info, false, &scores, &e->kind));
  e->graph->output_count = 0; /* only the scores are read */
  BRAID_TRY(braid_graph_add_output(e->graph, scores));
  e->scores = braid_zalloc_array(e->allocator, (size_t)(e->batch * info.classes), sizeof *e->scores);
  if (!e->scores) return BRAID_NO_MEMORY;
  e->samples = info.samples;
  if (info.samples <= BRAID_METRICS_MOST_SCORES / info.classes) {
    e->by_class = braid_zalloc_array(e->allocator, (size_t)(info.samples * info.classes), sizeof *e->by_class);
    e->labels = braid_zalloc_array(e->allocator, (size_t)info.samples, sizeof *e->labels);
    if (!e->by_class || !e->labels) return BRAID_NO_MEMORY;
  }
  BRAID_TRY(braid_session_create(e->graph, options, &e->session));
  braid_loader_options loading = {.batch = e->batch, .keep_last = true};
  return braid_loader_create(dataset, &loading, 0, 0, &e->loader);
}

/* From the C library's heap, where braid_test_result_deinit gives it back. */
static braid_status allocate_result(braid_test_result *result, int classes) {
  *result = (braid_test_result){.classes = classes, .top5 = NAN};
  result->confusion = braid_zalloc_array(NULL, (size_t)classes * (size_t)classes, sizeof *result->confusion);
  result->per_class = braid_zalloc_array(NULL, (size_t)classes, sizeof *result->per_class);
  result->ranks = braid_zalloc_array(NULL, (size_t)classes, sizeof *result->ranks);
  result->worst_index = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_index);
  result->worst_guess = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_guess);
  result->worst_label = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_label);
  result->worst_loss = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_loss);
  bool all = result->per_class && result->ranks && result->confusion && result->worst_index && result->worst_guess &&
             result->worst_label && result->worst_loss;
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status evaluation_run(evaluation *e, int64_t total, braid_test_callback *callback, void *context,
                                   braid_test_result *result) {
  int64_t steps = braid_loader_steps(e->loader);
  for (int64_t s = 0; s < steps; s++) {
    braid_batch batch;
    BRAID_TRY(braid_loader_next(e->loader, &batch));
    BRAID_TRY(braid_session_run(e->session, (const void *[]){batch.images}, (void *[]){e->scores}));
    for (int64_t i = 0; i < batch.count; i++)
      count_sample(e, result, e->scores + i * result->classes, batch.labels[i], batch.indices[i]);
    if (callback && !callback(context, result->samples, total))
      return braid_fail(BRAID_CANCELLED, "stopped after %lld of %lld samples", (long long)result->samples,
                        (long long)total);
  }
  result->loss = e->loss_sum / (double)result->samples;
  result->accuracy = (double)e->correct / (double)result->samples;
  braid_metrics_count(result);
  return e->by_class ? braid_metrics_areas(e->allocator, e->labels, e->by_class, result) : BRAID_OK;
}

braid_status braid_test(const braid_graph *model, braid_dataset *dataset, int64_t batch,
                        const braid_session_options *options, braid_test_callback *callback, void *context,
                        braid_test_result *result) {
  *result = (braid_test_result){0};
  braid_dataset_info info = braid_dataset_get_info(dataset);
  if (batch < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "a batch of %lld; at least 1", (long long)batch);
  if (info.samples < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "the data set %s has no samples", info.spec);
  evaluation e = {.allocator = model->allocator};
  braid_status status = allocate_result(result, info.classes);
  if (status == BRAID_OK) status = evaluation_prepare(&e, model, dataset, batch, options);
  if (status == BRAID_OK) status = evaluation_run(&e, info.samples, callback, context, result);
  if (status == BRAID_OK) status = braid_session_save_trace(e.session);
  braid_loader_destroy(e.loader);
  braid_session_destroy(e.session);
  braid_free(e.allocator, e.scores);
  braid_free(e.allocator, e.by_class);
  braid_free(e.allocator, e.labels);
  braid_graph_destroy(e.graph);
  if (status != BRAID_OK) braid_test_result_deinit(result);
  return status;
}

void braid_test_result_deinit(braid_test_result *result) {
  braid_free(NULL, result->confusion);
  braid_free(NULL, result->per_class);
  braid_free(NULL, result->ranks);
  braid_free(NULL, result->worst_index);
  braid_free(NULL, result->worst_guess);
  braid_free(NULL, result->worst_label);
  braid_free(NULL, result->worst_loss);
  *result = (braid_test_result){0};
}
