/* Line charts as SVG. */
#ifndef BRAID_TRAIN_CHART_H
#define BRAID_TRAIN_CHART_H
#include "base/text.h"
#include "train/record.h"

typedef struct braid_series {
  const char *name, *colour;
  size_t column; /* of the record */
} braid_series;

/* Appends an <svg> element with the series over the epochs (1, 2, ...). Rows that are NAN are omitted. */
void braid_chart(braid_text *text, const char *title, const braid_record *record, const braid_series *series,
                 size_t count);
#endif
