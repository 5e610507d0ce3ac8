/* The report: one self-contained HTML file. */
#ifndef BRAID_TRAIN_REPORT_H
#define BRAID_TRAIN_REPORT_H
#include "braid/train.h"
#include "train/record.h"

typedef struct braid_report {
  const char *title;
  const braid_train_options *options;
  const braid_record *record;
  braid_dataset *test;             /* NULL: no confusion matrix and no images */
  const braid_test_result *result; /* on `test`; NULL with it */
  int64_t parameters;
} braid_report;

/* Writes the report atomically. */
BRAID_MUST_CHECK braid_status braid_report_write(const braid_allocator *allocator, const char *path,
                                                 const braid_report *report);
#endif
