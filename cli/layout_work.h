/* Data shared by the steps of layered drawing: the ordered rows, and the edge segments between adjacent rows. */
#ifndef BRAID_CLI_LAYOUT_WORK_H
#define BRAID_CLI_LAYOUT_WORK_H

#include "layout.h"

/* Neighbours of every item in the row above or below, as lists in one array. */
typedef struct links {
  int *start, *items; /* of item i: items[start[i]] .. items[start[i + 1] - 1] */
} links;

typedef struct work {
  layout *l;
  links above, below;
  int **rows, *row_counts, *row_items;
  double *keys; /* scratch, one per item */
} work;

/* Gives every item its x (place.c). Lists of neighbours must be sorted by order. False when out of memory. */
bool layout_place(const work *w, double gap);

#endif
