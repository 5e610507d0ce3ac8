#include "train/finder.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "graph/graph.h"
#include "train/report/report.h"
#include "train/trainer.h"

/* The average's decay, how far above its least the loss has diverged, and how many standard errors a slope is to be
 * below 0. */
static const double kDecay = 0.9, kDiverged = 4, kErrors = 2;
enum { kSkipped = 10, kLeastHalf = 5 };

/* --- judging -------------------------------------------------------------------------------------------------------
 */
double braid_finder_rate(const braid_rate_options *o, int64_t index) {
  return o->least * pow(o->most / o->least, (double)index / (double)(o->steps - 1));
}

static double least_smoothed(const braid_rate_search *search) {
  double least = INFINITY;
  for (size_t i = 0; i < search->count; i++) least = fmin(least, search->points[i].smoothed);
  return least;
}

/* The exponential average of the losses, divided by the sum of its weights so far (Kingma and Ba's correction). */
bool braid_finder_add(braid_rate_search *search, double rate, double loss) {
  size_t n = search->count;
  double before = n ? search->points[n - 1].smoothed * (1 - pow(kDecay, (double)n)) : 0;
  double smoothed = (kDecay * before + (1 - kDecay) * loss) / (1 - pow(kDecay, (double)n + 1));
  double least = least_smoothed(search);
  search->points[search->count++] = (braid_rate_point){.rate = rate, .loss = loss, .smoothed = smoothed};
  return n >= kSkipped && !(smoothed <= kDiverged * least);
}

/* The least-squares line through the losses of 2 * half + 1 points around `middle`, over the rate's logarithm: its
 * slope, and that slope's standard error. */
static double slope_around(const braid_rate_point *points, size_t middle, size_t half, double *error) {
  const braid_rate_point *p = points + middle - half;
  double n = (double)(2 * half + 1), x = 0, y = 0, xx = 0, xy = 0, rest = 0;
  for (size_t i = 0; i <= 2 * half; i++) {
    x += log(p[i].rate) / n;
    y += p[i].loss / n;
  }
  for (size_t i = 0; i <= 2 * half; i++) {
    double away = log(p[i].rate) - x;
    xx += away * away;
    xy += away * (p[i].loss - y);
  }
  double slope = xy / xx;
  for (size_t i = 0; i <= 2 * half; i++) {
    double residual = p[i].loss - y - slope * (log(p[i].rate) - x);
    rest += residual * residual;
  }
  *error = sqrt(rest / (n - 2) / xx);
  return slope;
}

void braid_finder_judge(braid_rate_search *search, int64_t steps) {
  const braid_rate_point *p = search->points;
  size_t lowest = 0, half = (size_t)(steps / 10 > kLeastHalf ? steps / 10 : kLeastHalf);
  for (size_t i = 1; i < search->count; i++)
    if (p[i].smoothed < p[lowest].smoothed) lowest = i;
  search->lowest = search->count ? p[lowest].rate : NAN;
  search->suggested = NAN;
  double steepest = 0;
  for (size_t i = half; i + half < search->count; i++) {
    double error, slope = slope_around(p, i, half, &error);
    if (!(slope < steepest) || !(slope < -kErrors * error)) continue;
    steepest = slope;
    search->suggested = p[i].rate;
  }
}

/* --- the run -------------------------------------------------------------------------------------------------------
 */
void braid_rate_options_init(braid_rate_options *options) {
  *options = (braid_rate_options){.least = 1e-7, .most = 10, .steps = 100};
}

static braid_status rates_check(const braid_rate_options *o) {
  if (!(o->least > 0) || !(o->most > o->least) || !isfinite(o->most))
    return braid_fail(BRAID_INVALID_ARGUMENT, "learning rates from %g to %g; a range above 0 is expected", o->least,
                      o->most);
  if (o->steps > kSkipped && o->steps <= 1000000) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%lld steps to find a learning rate; %d to 1000000 are expected",
                    (long long)o->steps, kSkipped + 1);
}

/* Divergence is what ends the search, also as numbers that are not finite; in the first steps it is a failure. */
static braid_status search_run(braid_trainer *trainer, const braid_rate_options *o, braid_rate_callback *callback,
                               void *context, braid_rate_search *search) {
  for (int64_t i = 0; i < o->steps && !search->diverged; i++) {
    double loss, rate = braid_finder_rate(o, i);
    braid_status status = braid_trainer_step(trainer, rate, &loss);
    search->diverged = status == BRAID_NOT_FINITE && i > kSkipped;
    if (search->diverged) break;
    BRAID_TRY(status);
    search->diverged = braid_finder_add(search, rate, loss);
    if (callback && !callback(context, i + 1, o->steps, &search->points[search->count - 1]))
      return braid_fail(BRAID_CANCELLED, "stopped after %lld of %lld steps", (long long)i + 1, (long long)o->steps);
  }
  braid_finder_judge(search, o->steps);
  return BRAID_OK;
}

braid_status braid_find_rate(const braid_graph *model, braid_dataset *train, const braid_train_options *options,
                             const braid_rate_options *rates, braid_rate_callback *callback, void *context,
                             braid_rate_search *out) {
  *out = (braid_rate_search){.suggested = NAN, .lowest = NAN};
  BRAID_TRY(rates_check(rates));
  braid_train_options o = *options;
  o.out_directory = o.ledger = NULL; /* nothing is kept */
  o.resume = o.keep_best = false;
  o.trace = NULL;
  o.schedule = BRAID_CONSTANT;
  o.warmup_steps = 0;
  o.steps = o.precision == BRAID_INT8 ? 0 : rates->steps;
  if (o.lookahead_steps > rates->steps) o.lookahead_steps = 0; /* it would come behind the search */
  braid_trainer *trainer;
  BRAID_TRY(braid_trainer_create(model, train, NULL, &o, &trainer));
  out->points = braid_zalloc_array(NULL, (size_t)rates->steps, sizeof *out->points);
  braid_status status = out->points ? search_run(trainer, rates, callback, context, out) : BRAID_NO_MEMORY;
  braid_trainer_destroy(trainer);
  if (status != BRAID_OK) braid_rate_search_deinit(out);
  return status;
}

void braid_rate_search_deinit(braid_rate_search *search) {
  braid_free(NULL, search->points);
  *search = (braid_rate_search){.suggested = NAN, .lowest = NAN};
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
static braid_status save_csv(const braid_rate_search *search, const char *path) {
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add(&text, "learning_rate,loss,smoothed_loss\n");
  for (size_t i = 0; i < search->count; i++)
    braid_text_printf(&text, "%.9g,%.9g,%.9g\n", search->points[i].rate, search->points[i].loss,
                      search->points[i].smoothed);
  braid_status status = text.failed ? BRAID_NO_MEMORY : braid_file_write(NULL, path, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

braid_status braid_rate_search_save(const braid_rate_search *search, const char *directory) {
  char path[4096];
  BRAID_TRY(braid_make_directories(directory));
  if (snprintf(path, sizeof path, "%s/learning-rate.html", directory) >= (int)sizeof path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.80s...: the path is too long", directory);
  BRAID_TRY(braid_report_rates(NULL, path, search));
  snprintf(path, sizeof path, "%s/learning-rate.csv", directory);
  return save_csv(search, path);
}
