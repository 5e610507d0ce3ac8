/* The report: one self-contained HTML file. */
#ifndef BRAID_TRAIN_REPORT_H
#define BRAID_TRAIN_REPORT_H
#include "base/text.h"
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

/* A page in the report's style, for others too: its head and first title; its end. */
extern const char braid_page_style[]; /* CSS; charts need it */
void braid_page_begin(braid_text *text, const char *title);
void braid_page_end(braid_text *text);
/* The plot of a search for a learning rate, written atomically. */
BRAID_MUST_CHECK braid_status braid_report_rates(const braid_allocator *allocator, const char *path,
                                                 const braid_rate_search *search);
#endif
