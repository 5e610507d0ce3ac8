#include "train/schedule.h"

#include <math.h>

#include "train/integer/network.h"
#include "train/monitor.h"

static const double kPi = 3.14159265358979323846;

/* From `start` to `end` along half a cosine as t goes from 0 to 1. */
static double anneal(double start, double end, double t) {
  return end + (start - end) * 0.5 * (1 + cos(kPi * t));
}

/* Where PyTorch puts the peak: at the last step of the first 30%. */
static double one_cycle(double base, double step, double span) {
  const double peak = 0.3 * span - 1, start = base / 25, end = start / 1e4;
  if (step <= peak) return anneal(start, base, step / peak);
  return span - 1 > peak ? anneal(base, end, (step - peak) / (span - 1 - peak)) : base;
}

double braid_learning_rate(const braid_train_options *options, const braid_record *record, int64_t step,
                           int64_t steps_per_epoch) {
  double base = options->learning_rate;
  if (options->precision == BRAID_INT8)
    return options->optimizer == BRAID_WAGE ? braid_integer_wage_rate(base, step / steps_per_epoch, options->epochs)
                                            : braid_integer_cosine_rate(base, step, options->epochs * steps_per_epoch);
  if (step < options->warmup_steps) return base * (double)(step + 1) / (double)options->warmup_steps;
  int64_t total = options->steps ? options->steps : options->epochs * steps_per_epoch;
  int64_t span = total - options->warmup_steps;
  double t = span > 1 ? (double)(step - options->warmup_steps) / (double)(span - 1) : 0;
  switch (options->schedule) {
  case BRAID_CONSTANT:
    return base;
  case BRAID_STEP:
    return base * pow(options->step_gamma, (double)(step / steps_per_epoch / options->step_epochs));
  case BRAID_COSINE:
    return anneal(base, 0, t);
  case BRAID_ONE_CYCLE:
    return one_cycle(base, (double)(step - options->warmup_steps), (double)span);
  case BRAID_PLATEAU:
    return base * braid_monitor_plateau(options, record);
  case BRAID_LINEAR:
    return base * (double)(total - step) / (double)span;
  }
  return base;
}

braid_status braid_schedule_check(const braid_train_options *options, int64_t epochs, int64_t total) {
  const braid_train_options *o = options;
  if (o->precision == BRAID_INT8) return BRAID_OK; /* which has a schedule of its own */
  if (o->warmup_steps > total)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "the warm-up takes %lld steps, and the training has %lld: it would end below its learning rate",
                      (long long)o->warmup_steps, (long long)total);
  if (o->schedule == BRAID_STEP && o->step_epochs >= epochs)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "the step schedule lowers the rate every %lld epochs, and the training has %lld: it would stay",
                      (long long)o->step_epochs, (long long)epochs);
  if (o->lookahead_steps > total)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a lookahead goes on every %lld steps, and the training has %lld: nothing of it would be kept",
                      (long long)o->lookahead_steps, (long long)total);
  return BRAID_OK;
}

double braid_kept_weight(const braid_train_options *options, int64_t update, int64_t total) {
  if (!options->lookahead_steps) return update == 1 ? 1 : 1 - options->average_decay;
  if (update % options->lookahead_steps != 0) return 0;
  double begin = options->lookahead_share, done = update < total ? (double)update / (double)total : 1;
  return begin + (options->lookahead_end - begin) * done * done * done;
}
