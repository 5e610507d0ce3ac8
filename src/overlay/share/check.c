/* What a card is given is checked before anything runs. */
#include <math.h>

#include "base/try.h"
#include "overlay/share/card.h"

static bool is_time(double value) {
  return isfinite(value) && value >= 0;
}

static braid_status check_place_seconds(const braid_share_card *card, size_t m) {
  const braid_share_model *model = &card->models[m];
  for (int k = 0; model->place_seconds && k < card->cores; k++) {
    const double *seconds = model->place_seconds + (size_t)k * model->place_count;
    for (size_t p = 0; p < model->place_count; p++)
      if (!(seconds[p] > (p ? seconds[p - 1] : 0) && seconds[p] < model->seconds[k]))
        return braid_fail(BRAID_INVALID_ARGUMENT,
                          "place %zu of model %zu is %g s from its begin on %d cores; allowed: more than the place "
                          "before, less than the run",
                          p, m, seconds[p], k + 1);
  }
  return BRAID_OK;
}

static braid_status check_model(const braid_share_card *card, size_t m) {
  const braid_share_model *model = &card->models[m];
  for (int k = 0; k < card->cores; k++) {
    if (!isfinite(model->seconds[k]) || model->seconds[k] <= 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "model %zu takes %g s on %d cores; allowed: more than 0", m,
                        model->seconds[k], k + 1);
    if (model->switch_seconds && !is_time(model->switch_seconds[k]))
      return braid_fail(BRAID_INVALID_ARGUMENT, "model %zu takes %g s for a switch to %d cores; allowed: 0 or more", m,
                        model->switch_seconds[k], k + 1);
  }
  if (!is_time(model->vector_seconds))
    return braid_fail(BRAID_INVALID_ARGUMENT, "vectors of model %zu take %g s; allowed: 0 or more", m,
                      model->vector_seconds);
  double before = 0;
  for (size_t p = 0; model->places && p < model->place_count; p++) {
    double place = model->places[p];
    if (!(place > before && place < 1))
      return braid_fail(BRAID_INVALID_ARGUMENT, "place %zu of model %zu is at %g; allowed: after %g, before 1", p, m,
                        place, before);
    before = place;
  }
  if (model->place_seconds && !model->places)
    return braid_fail(BRAID_INVALID_ARGUMENT, "model %zu has seconds of places, and no places", m);
  return check_place_seconds(card, m);
}

static braid_status check_context(const braid_share_card *card, size_t c) {
  const braid_share_context *context = &card->contexts[c];
  if (!isfinite(context->priority) || context->priority <= 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "context %zu has priority %g; allowed: more than 0", c,
                      context->priority);
  if (!is_time(context->latency_seconds) || !is_time(context->time_out_seconds))
    return braid_fail(BRAID_INVALID_ARGUMENT, "context %zu has latency %g s and time-out %g s; allowed: 0 or more", c,
                      context->latency_seconds, context->time_out_seconds);
  if (!(context->bandwidth >= 0 && context->bandwidth <= 1))
    return braid_fail(BRAID_INVALID_ARGUMENT, "context %zu has %g of the bandwidth; allowed: 0 to 1", c,
                      context->bandwidth);
  int most = context->most ? context->most : card->cores;
  if (context->least < 0 || context->least > most || most > card->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "context %zu has %d to %d cores; allowed: 0 <= least <= most <= %d", c,
                      context->least, context->most, card->cores);
  if (card->is_public && !context->most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "context %zu of a public card has no number of cores", c);
  return BRAID_OK;
}

static braid_status check_job(const braid_share_card *card, size_t j) {
  const braid_share_submission *job = &card->jobs[j];
  if (job->context >= card->context_count || job->model >= card->model_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu is of context %zu and model %zu, of %zu and %zu", j,
                      job->context, job->model, card->context_count, card->model_count);
  if (!is_time(job->arrival) || (j && job->arrival < card->jobs[j - 1].arrival))
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu arrives at %g s; allowed: 0 or more, not before the one before",
                      j, job->arrival);
  if (!is_time(job->latency_seconds))
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu has latency %g s; allowed: 0 or more", j, job->latency_seconds);
  if (!(job->stretch >= 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu has stretch %g; allowed: more than 0, or 0 for 1", j,
                      job->stretch);
  if (isinf(job->stretch) && card->contexts[job->context].time_out_seconds == 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu never ends, and its context has no time-out", j);
  if (!(job->fails_at >= 0 && job->fails_at < 1))
    return braid_fail(BRAID_INVALID_ARGUMENT, "job %zu fails at %g; allowed: 0 to below 1", j, job->fails_at);
  return BRAID_OK;
}

braid_status braid_share_check(const braid_share_card *card) {
  if (card->cores < 1 || card->cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a card of %d cores; allowed: 1 to %d", card->cores,
                      BRAID_OVERLAY_MOST_CORES);
  for (size_t m = 0; m < card->model_count; m++) BRAID_TRY(check_model(card, m));
  double bandwidth = 0;
  int64_t cores = 0;
  for (size_t c = 0; c < card->context_count; c++) {
    BRAID_TRY(check_context(card, c));
    bandwidth += card->contexts[c].bandwidth;
    cores += card->contexts[c].most;
  }
  if (bandwidth > 1 + 1e-9) /* shares such as 1/3 are rounded */
    return braid_fail(BRAID_INVALID_ARGUMENT, "all contexts together have %g of the bandwidth; allowed: 1", bandwidth);
  if (card->is_public && cores > card->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "contexts of a public card have %lld cores, of %d", (long long)cores,
                      card->cores);
  for (size_t j = 0; j < card->job_count; j++) BRAID_TRY(check_job(card, j));
  return BRAID_OK;
}
