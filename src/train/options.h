/* A trainer's options: their limits, and a copy of what they point to. */
#ifndef BRAID_TRAIN_OPTIONS_H
#define BRAID_TRAIN_OPTIONS_H

#include "braid/train.h"

/* INVALID_ARGUMENT says what is wrong. */
BRAID_MUST_CHECK braid_status braid_train_options_check(const braid_train_options *options);
/* Texts and groups become copies, to be released by the next; on failure those not copied yet are forgotten. */
BRAID_MUST_CHECK braid_status braid_train_options_own(const braid_allocator *allocator, braid_train_options *options);
void braid_train_options_release(const braid_allocator *allocator, braid_train_options *options);
#endif
