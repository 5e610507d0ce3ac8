/* The learning-rate finder's judgement of losses, apart from how they come about. */
#ifndef BRAID_TRAIN_FINDER_H
#define BRAID_TRAIN_FINDER_H
#include "braid/train.h"

/* The rate of step `index` of `steps`, which grow geometrically. */
double braid_finder_rate(const braid_rate_options *options, int64_t index);
/* Adds a step's loss to the points, of which there is room for one more; true: it has diverged. */
bool braid_finder_add(braid_rate_search *search, double rate, double loss);
/* Sets suggested and lowest; `steps`: of the whole search. */
void braid_finder_judge(braid_rate_search *search, int64_t steps);
#endif
