/* Checking of CIFAR files in memory, for the data set and for fuzzing. */
#ifndef BRAID_TRAIN_CIFAR_H
#define BRAID_TRAIN_CIFAR_H

#include "train/data/dataset.h"

/* Checks that the length is that of `records` records and that each label, the last of the `label_bytes` bytes, is
 * below `classes`. `name` is used in messages. */
BRAID_MUST_CHECK braid_status braid_cifar_check(const char *name, const uint8_t *data, size_t bytes, int label_bytes,
                                                int classes, int64_t records);

#endif
