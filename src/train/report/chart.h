/* Charts as SVG: lines over epochs, and points over two logarithmic axes. */
#ifndef BRAID_TRAIN_CHART_H
#define BRAID_TRAIN_CHART_H
#include "base/text.h"

typedef struct braid_series {
  const char *name, *colour;
  size_t column; /* of the rows */
} braid_series;

/* What is drawn: rows at equal distances, with `unit` below, which bear the numbers 1, 2, ... or those of `places`. */
typedef struct braid_chart_rows {
  const double *numbers; /* count x columns */
  size_t count, columns;
  const char *unit;
  const double *places; /* NULL: 1, 2, ... */
} braid_chart_rows;

/* Appends an <svg> element with the series over the rows. Numbers that are NAN are omitted. */
void braid_chart(braid_text *text, const char *title, const braid_chart_rows *rows, const braid_series *series,
                 size_t count);

typedef struct braid_mark {
  double x, y;       /* above 0; others are omitted */
  const char *label; /* at its right; NULL: none */
  bool hollow, label_left;
} braid_mark;
typedef struct braid_marks {
  const char *name, *colour;
  const braid_mark *items;
  size_t count;
  bool joined; /* by a line, in the order of the items */
} braid_marks;
/* Appends an <svg> element; `description` is what it shows in words. */
void braid_scatter(braid_text *text, const char *title, const char *description, const char *x_name, const char *y_name,
                   const braid_marks *points, size_t count);
#endif
