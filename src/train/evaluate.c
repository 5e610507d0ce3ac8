#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "graph/graph.h"
#include "runtime/plan/resolve.h"
#include "train/metrics.h"
#include "train/step.h"
#include "train/views.h"

enum { kWorst = 24 };

/* Everything one evaluation holds. */
typedef struct evaluation {
  const braid_allocator *allocator;
  braid_graph *graph;
  braid_session *session;
  braid_loader *loader;
  float *scores; /* batch x classes */
  braid_view views[BRAID_MOST_VIEWS];
  size_t view_count;
  size_t planes; /* of a batch */
  int height, width;
  float *seen, *part; /* of several views: a batch of one, and its scores */
  int64_t batch;
  braid_score_kind kind;
  double loss_sum;
  int64_t correct, exact, samples; /* correct: samples, or decisions about labels */
  double *by_class;                /* of every class, what all samples score; NULL: too many, or there are no classes */
  uint8_t *is_class;               /* with them: whether the sample is of the class */
  braid_number_sums *sums;         /* targets are numbers: one for each */
} evaluation;

/* --- one sample ----------------------------------------------------------------------------------------------------
 */
/* What plain scores are above their log probabilities, in double; 0 for probabilities and their logarithms. */
static double excess_of(const evaluation *e, const float *scores, int classes) {
  if (e->kind != BRAID_SCORES_PLAIN) return 0;
  float most = scores[0];
  for (int c = 1; c < classes; c++) most = fmaxf(most, scores[c]);
  double sum = 0;
  for (int c = 0; c < classes; c++) sum += exp((double)scores[c] - most);
  return log(sum) + most;
}

/* Cross entropy in double. */
static double loss_of(const evaluation *e, const float *scores, int32_t label, double excess) {
  if (isnan(scores[label])) return NAN; /* which fmax takes for the other number */
  if (e->kind == BRAID_SCORES_PROBABILITIES) return -log(fmax((double)scores[label], 1e-45));
  return excess - scores[label];
}

/* Keeps the list of the worst sorted by falling loss; equal losses keep the order of the samples. NaN is the worst. */
static void keep_worst(braid_test_result *result, int64_t index, int32_t guess, int32_t label, double loss) {
  int64_t at = result->worst_count;
  if (isnan(loss)) loss = INFINITY;
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

static void keep_score(evaluation *e, const braid_test_result *result, int c, double score, bool is_class) {
  if (!e->by_class) return;
  e->by_class[c * e->samples + result->samples] = score;
  e->is_class[c * e->samples + result->samples] = is_class;
}

static bool has_score(const braid_test_result *result, const float *scores) {
  for (int c = 0; c < result->classes; c++)
    if (isnan(scores[c])) return false;
  return true;
}

static void count_class(evaluation *e, braid_test_result *result, const float *scores, const void *target,
                        int64_t index) {
  int32_t label = *(const int32_t *)target;
  int guess = has_score(result, scores) ? 0 : -1, above = 0;
  for (int c = 0; guess >= 0 && c < result->classes; c++) {
    if (scores[c] > scores[guess]) guess = c;
    above += scores[c] > scores[label];
  }
  double excess = excess_of(e, scores, result->classes), loss = loss_of(e, scores, label, excess);
  e->loss_sum += loss;
  e->correct += guess == label;
  if (guess < 0)
    result->per_class[label].unscored++;
  else
    result->ranks[above]++;
  for (int c = 0; c < result->classes; c++) keep_score(e, result, c, scores[c] - excess, c == label);
  if (guess >= 0) result->confusion[(int64_t)label * result->classes + guess]++;
  if (guess != label) keep_worst(result, index, guess, label, loss);
}

/* Binary cross entropy of one label in double. Of probabilities, logarithms end at -100, as those of PyTorch's BCELoss.
 */
static double loss_of_label(const evaluation *e, double score, double target) {
  if (isnan(score)) return NAN;
  if (e->kind == BRAID_SCORES_PROBABILITIES)
    return -target * fmax(log(score), -100) - (1 - target) * fmax(log1p(-score), -100);
  double rest = log1p(exp(-fabs(score)));
  return target * (fmax(-score, 0) + rest) + (1 - target) * (fmax(score, 0) + rest);
}

static void count_labels(evaluation *e, braid_test_result *result, const float *scores, const void *targets,
                         int64_t index) {
  const float *target = targets;
  double loss = 0, half = e->kind == BRAID_SCORES_PROBABILITIES ? 0.5 : 0;
  int right = 0;
  for (int c = 0; c < result->classes; c++) {
    bool guess = scores[c] > half, is = target[c] >= 0.5f;
    braid_class_result *of = &result->per_class[c];
    of->samples += is;
    of->guessed += guess;
    of->right += is && guess;
    right += is == guess && !isnan(scores[c]);
    loss += loss_of_label(e, scores[c], target[c]);
    keep_score(e, result, c, scores[c], is);
  }
  loss /= result->classes;
  e->loss_sum += loss;
  e->correct += right;
  e->exact += right == result->classes;
  if (right < result->classes) keep_worst(result, index, -1, -1, loss);
}

static void count_numbers(evaluation *e, braid_test_result *result, const float *scores, const void *targets,
                          int64_t index) {
  const float *target = targets;
  double loss = 0;
  for (int c = 0; c < result->classes; c++)
    loss += braid_metrics_add_number(&e->sums[c], result->samples, scores[c], target[c]);
  loss /= result->classes;
  e->loss_sum += loss;
  keep_worst(result, index, -1, -1, loss);
}

static void count_sample(evaluation *e, braid_test_result *result, const float *scores, const void *target,
                         int64_t index) {
  static void (*const kCounts[])(evaluation *, braid_test_result *, const float *, const void *, int64_t) = {
      [BRAID_TARGET_CLASS] = count_class, [BRAID_TARGET_LABELS] = count_labels, [BRAID_TARGET_NUMBERS] = count_numbers};
  kCounts[result->target](e, result, scores, target, index);
  if (!has_score(result, scores) && result->unscored++ == 0) result->first_unscored = index;
  result->samples++;
}

/* --- views ---------------------------------------------------------------------------------------------------------
 */
static braid_status prepare_views(evaluation *e, const braid_dataset *dataset) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  e->planes = (size_t)(e->batch * info.channels);
  e->height = info.height;
  e->width = info.width;
  if (e->view_count == 1) return BRAID_OK;
  e->seen = braid_zalloc_array(e->allocator, e->planes, (size_t)info.height * (size_t)info.width * sizeof *e->seen);
  e->part = braid_zalloc_array(e->allocator, (size_t)(e->batch * info.classes), sizeof *e->part);
  return e->seen && e->part ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status score_batch(evaluation *e, const float *images, int classes) {
  int64_t count = e->batch * classes;
  BRAID_TRY(braid_session_run(e->session, (const void *[]){images}, (void *[]){e->scores}));
  if (e->view_count == 1) return BRAID_OK;
  for (int64_t i = 0; i < count; i++) e->scores[i] *= e->views[0].weight;
  for (size_t v = 1; v < e->view_count; v++) {
    braid_view_take(&e->views[v], images, e->seen, e->planes, e->height, e->width);
    BRAID_TRY(braid_session_run(e->session, (const void *[]){e->seen}, (void *[]){e->part}));
    for (int64_t i = 0; i < count; i++) e->scores[i] += e->views[v].weight * e->part[i];
  }
  return BRAID_OK;
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
  e->view_count = braid_views_list(braid_dataset_spec(dataset), e->views);
  bool means = e->view_count > 1; /* of scores, not of what a final Softmax makes of them */
  BRAID_TRY(braid_scores(e->graph, &info, means, &scores, &e->kind));
  e->graph->output_count = 0; /* only the scores are read */
  BRAID_TRY(braid_graph_add_output(e->graph, scores));
  e->scores = braid_zalloc_array(e->allocator, (size_t)(e->batch * info.classes), sizeof *e->scores);
  if (!e->scores) return BRAID_NO_MEMORY;
  BRAID_TRY(prepare_views(e, dataset));
  e->samples = info.samples;
  if (info.target == BRAID_TARGET_NUMBERS) {
    e->sums = braid_zalloc_array(e->allocator, (size_t)info.classes, sizeof *e->sums);
    if (!e->sums) return BRAID_NO_MEMORY;
  } else if (info.samples <= BRAID_METRICS_MOST_SCORES / info.classes) {
    size_t scores_kept = (size_t)(info.samples * info.classes);
    e->by_class = braid_zalloc_array(e->allocator, scores_kept, sizeof *e->by_class);
    e->is_class = braid_zalloc_array(e->allocator, scores_kept, sizeof *e->is_class);
    if (!e->by_class || !e->is_class) return BRAID_NO_MEMORY;
  }
  BRAID_TRY(braid_session_create(e->graph, options, &e->session));
  braid_loader_options loading = {.batch = e->batch, .keep_last = true, .threads = braid_loader_usual_threads()};
  return braid_loader_create(dataset, &loading, 0, 0, &e->loader);
}

/* From the C library's heap, where braid_test_result_deinit gives it back. */
static braid_status allocate_result(braid_test_result *result, const braid_dataset_info *info) {
  size_t classes = (size_t)info->classes;
  braid_metrics_clear(result, info->target, info->classes);
  result->worst_index = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_index);
  result->worst_guess = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_guess);
  result->worst_label = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_label);
  result->worst_loss = braid_zalloc_array(NULL, kWorst, sizeof *result->worst_loss);
  bool all = result->worst_index && result->worst_guess && result->worst_label && result->worst_loss;
  if (info->target == BRAID_TARGET_CLASS) {
    result->confusion = braid_zalloc_array(NULL, classes * classes, sizeof *result->confusion);
    result->ranks = braid_zalloc_array(NULL, classes, sizeof *result->ranks);
    all &= result->confusion && result->ranks;
  }
  if (info->target == BRAID_TARGET_NUMBERS) {
    result->per_number = braid_zalloc_array(NULL, classes, sizeof *result->per_number);
    all &= result->per_number != NULL;
  } else {
    result->per_class = braid_zalloc_array(NULL, classes, sizeof *result->per_class);
    all &= result->per_class != NULL;
  }
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status evaluation_finish(evaluation *e, braid_test_result *result) {
  double samples = (double)result->samples;
  result->loss = e->loss_sum / samples;
  if (result->target == BRAID_TARGET_NUMBERS) {
    braid_metrics_numbers(e->sums, result);
    return BRAID_OK;
  }
  bool labels = result->target == BRAID_TARGET_LABELS;
  result->accuracy = (double)e->correct / (labels ? samples * result->classes : samples);
  if (labels) result->exact_match = (double)e->exact / samples;
  braid_metrics_count(result);
  return e->by_class ? braid_metrics_areas(e->allocator, e->is_class, e->by_class, result) : BRAID_OK;
}

static braid_status evaluation_run(evaluation *e, int64_t total, braid_test_callback *callback, void *context,
                                   braid_test_result *result) {
  int64_t steps = braid_loader_steps(e->loader);
  size_t target_bytes =
      result->target == BRAID_TARGET_CLASS ? sizeof(int32_t) : (size_t)result->classes * sizeof(float);
  for (int64_t s = 0; s < steps; s++) {
    braid_batch batch;
    BRAID_TRY(braid_loader_next(e->loader, &batch));
    BRAID_TRY(score_batch(e, batch.images, result->classes));
    for (int64_t i = 0; i < batch.count; i++)
      count_sample(e, result, e->scores + i * result->classes, (const char *)batch.targets + (size_t)i * target_bytes,
                   batch.indices[i]);
    if (callback && !callback(context, result->samples, total))
      return braid_fail(BRAID_CANCELLED, "stopped after %lld of %lld samples", (long long)result->samples,
                        (long long)total);
  }
  return evaluation_finish(e, result);
}

braid_status braid_test(const braid_graph *model, braid_dataset *dataset, int64_t batch,
                        const braid_session_options *options, braid_test_callback *callback, void *context,
                        braid_test_result *result) {
  *result = (braid_test_result){0};
  braid_dataset_info info = braid_dataset_get_info(dataset);
  if (batch < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "a batch of %lld; at least 1", (long long)batch);
  if (info.samples < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "the data set %s has no samples", info.spec);
  evaluation e = {.allocator = model->allocator};
  braid_status status = allocate_result(result, &info);
  if (status == BRAID_OK) status = evaluation_prepare(&e, model, dataset, batch, options);
  if (status == BRAID_OK) status = evaluation_run(&e, info.samples, callback, context, result);
  if (status == BRAID_OK) status = braid_session_save_trace(e.session);
  braid_loader_destroy(e.loader);
  braid_session_destroy(e.session);
  braid_free(e.allocator, e.scores);
  braid_free(e.allocator, e.seen);
  braid_free(e.allocator, e.part);
  braid_free(e.allocator, e.by_class);
  braid_free(e.allocator, e.is_class);
  braid_free(e.allocator, e.sums);
  braid_graph_destroy(e.graph);
  if (status != BRAID_OK) braid_test_result_deinit(result);
  return status;
}

void braid_test_result_deinit(braid_test_result *result) {
  braid_free(NULL, result->confusion);
  braid_free(NULL, result->per_class);
  braid_free(NULL, result->per_number);
  braid_free(NULL, result->ranks);
  braid_free(NULL, result->worst_index);
  braid_free(NULL, result->worst_guess);
  braid_free(NULL, result->worst_label);
  braid_free(NULL, result->worst_loss);
  *result = (braid_test_result){0};
}
