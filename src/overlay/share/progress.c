/* Shares of a run and seconds: in proportion, or in proportion between places (policy.h). */
#include <math.h>

#include "overlay/share/policy.h"

/* How many of the ascending values are at most `value`. */
static size_t count_to(const double *values, size_t count, double value) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (values[middle] > value)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* A point that is so far along from[i - 1] .. from[i] is as far along to[i - 1] .. to[i]; before the first one is 0,
 * behind the last one its end. */
static double convert(const double *from, double from_end, const double *to, double to_end, size_t count, double at) {
  size_t i = count_to(from, count, at);
  double low = i ? from[i - 1] : 0, high = i < count ? from[i] : from_end;
  double begin = i ? to[i - 1] : 0, end = i < count ? to[i] : to_end;
  return begin + (end - begin) * fmin((at - low) / (high - low), 1);
}

static const double *seconds_to_places(const braid_share_model *model, int k) {
  return model->place_seconds + (size_t)(k - 1) * model->place_count;
}

static double seconds_to(const braid_share_model *model, int k, double share) {
  return convert(model->places, 1, seconds_to_places(model, k), model->seconds[k - 1], model->place_count, share);
}

double braid_share_between(const braid_share_model *model, int k, double from, double to) {
  if (!model->place_seconds) return (to - from) * model->seconds[k - 1];
  double end = to == 1 ? model->seconds[k - 1] : seconds_to(model, k, to);
  return from == 0 ? end : end - seconds_to(model, k, from);
}

double braid_share_made(const braid_share_model *model, int k, double from, double seconds) {
  if (!model->place_seconds) return fmin(seconds / model->seconds[k - 1], 1 - from);
  double at = seconds_to(model, k, from) + seconds;
  return fmax(
      convert(seconds_to_places(model, k), model->seconds[k - 1], model->places, 1, model->place_count, at) - from, 0);
}

double braid_share_next_place(const braid_share_model *model, double progress) {
  const double same = 1e-9; /* of a run: two places are farther apart */
  if (!model->places) {
    double distance = 1.0 / ((double)model->place_count + 1);
    return fmin((floor(progress / distance + same) + 1) * distance, 1);
  }
  size_t next = count_to(model->places, model->place_count, progress);
  return next < model->place_count ? model->places[next] : 1;
}
