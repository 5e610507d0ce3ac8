/* Learning rate schedules. */
#ifndef BRAID_TRAIN_SCHEDULE_H
#define BRAID_TRAIN_SCHEDULE_H
#include "braid/train.h"
#include "train/record.h"
/* The learning rate of step `step` (0-based) of options->steps, or epochs * steps_per_epoch. During the first
 * warmup_steps it rises linearly from base / warmup_steps. One-cycle: from base / 25 up to base over the first 30%,
 * then down to base / 250,000, both as cosines (Smith and Topin, "Super-Convergence", 2019, with the default factors of
 * PyTorch's OneCycleLR). Linear: base * (steps left, with this one) / (steps after the warm-up). `record`: the epochs
 * done before, which the plateau schedule goes by. */
double braid_learning_rate(const braid_train_options *options, const braid_record *record, int64_t step,
                           int64_t steps_per_epoch);
/* Whether all that the options order by a number of steps or epochs begins within the training of `epochs` epochs,
 * `total` steps, that it is to have: the warm-up is over with the last step at the latest, the step schedule lowers the
 * rate, and a lookahead keeps something. INVALID_ARGUMENT has both numbers. What may come or not (patience, a plateau)
 * is not asked for. */
BRAID_MUST_CHECK braid_status braid_schedule_check(const braid_train_options *options, int64_t epochs, int64_t total);
/* How far the kept parameters go towards those after update `update` (1-based) of `total`: an average after each, those
 * of a lookahead after some, 0 in between. */
double braid_kept_weight(const braid_train_options *options, int64_t update, int64_t total);
/* Whether there are such parameters, which are then evaluated and saved. */
static inline bool braid_keeps_parameters(const braid_train_options *options) {
  return options->average_decay > 0 || options->lookahead_steps > 0;
}
#endif
