/* The history of a training run: one row per finished epoch, kept in checkpoints and shown in the report. */
#ifndef BRAID_TRAIN_RECORD_H
#define BRAID_TRAIN_RECORD_H
#include <stddef.h>
#include <stdint.h>

enum {
  BRAID_RECORD_LOSS,
  BRAID_RECORD_ACCURACY,
  BRAID_RECORD_TEST_LOSS, /* NAN without a test set */
  BRAID_RECORD_TEST_ACCURACY,
  BRAID_RECORD_RATE,
  BRAID_RECORD_SECONDS, /* measured; training time of the epoch without evaluation */
  BRAID_RECORD_COLUMNS
};

typedef struct braid_record {
  double (*rows)[BRAID_RECORD_COLUMNS];
  size_t count, capacity;
} braid_record;
#endif
