/* Layered drawing of a directed acyclic graph (Sugiyama): boxes in rows from the top, edges downwards.
 *
 * Rows are longest paths from the sources; long edges get a bend in every row they cross; the order within rows is by
 * barycentres; positions minimize the squared length of edges under the order and the distances, row by row. */
#ifndef BRAID_CLI_LAYOUT_H
#define BRAID_CLI_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct layout_edge {
  int from, to;    /* boxes, from < to */
  int bend, bends; /* first of its bends in `items`, and how many: filled in */
} layout_edge;

typedef struct layout_item {
  int row, order;
  double x, width; /* centre */
} layout_item;

typedef struct layout {
  layout_item *items; /* the boxes, then the bends of long edges */
  layout_edge *edges;
  int boxes, item_count, edge_count, rows;
  double width; /* all items lie in 0..width */
} layout;

/* Boxes have a width each and stand in topological order (edges go from a lower to a higher one). False when out of
 * memory, or when the drawing would need more than a million bends. */
bool layout_create(const double *widths, int boxes, const layout_edge *edges, int edge_count, double gap, layout *out);
void layout_destroy(layout *l);

#endif
