#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "layout_work.h"

enum { MOST_BENDS = 1000000, ORDER_SWEEPS = 12 };

static int compare_edges(const void *a, const void *b) {
  const layout_edge *x = a, *y = b;
  return x->to != y->to ? (x->to > y->to) - (x->to < y->to) : (x->from > y->from) - (x->from < y->from);
}

/* Rows by longest path; sorted edges make one sweep enough. Then sources move down to just above their first use. */
static bool place_in_rows(layout *l) {
  for (int i = 0; i < l->edge_count; i++) {
    const layout_edge *e = &l->edges[i];
    if (l->items[e->to].row <= l->items[e->from].row) l->items[e->to].row = l->items[e->from].row + 1;
  }
  int *lowest = malloc(((size_t)l->boxes + 1) * sizeof *lowest); /* the row above the first use; -1: not a source */
  if (!lowest) return false;
  for (int i = 0; i < l->boxes; i++) {
    lowest[i] = INT_MAX;
    if (l->items[i].row >= l->rows) l->rows = l->items[i].row + 1;
  }
  for (int i = 0; i < l->edge_count; i++) lowest[l->edges[i].to] = -1;
  for (int i = 0; i < l->edge_count; i++) {
    int from = l->edges[i].from, row = l->items[l->edges[i].to].row - 1;
    if (row < lowest[from]) lowest[from] = row;
  }
  for (int i = 0; i < l->boxes; i++) {
    if (lowest[i] >= 0 && lowest[i] != INT_MAX) l->items[i].row = lowest[i];
  }
  free(lowest);
  return true;
}

static bool add_bends(layout *l, double gap) {
  long bends = 0;
  for (int i = 0; i < l->edge_count; i++) {
    layout_edge *e = &l->edges[i];
    e->bends = l->items[e->to].row - l->items[e->from].row - 1;
    e->bend = l->boxes + (int)bends;
    bends += e->bends;
    if (bends > MOST_BENDS) return false;
  }
  layout_item *items = realloc(l->items, ((size_t)l->boxes + (size_t)bends + 1) * sizeof *items);
  if (!items) return false;
  l->items = items;
  l->item_count = l->boxes + (int)bends;
  for (int i = 0; i < l->edge_count; i++) {
    const layout_edge *e = &l->edges[i];
    for (int k = 0; k < e->bends; k++) {
      items[e->bend + k] = (layout_item){.row = items[e->from].row + 1 + k, .width = gap / 2};
    }
  }
  return true;
}

/* The k-th short piece of an edge goes from hop(k) to hop(k + 1). */
static int hop(const layout_edge *e, int k) {
  return k == 0 ? e->from : k <= e->bends ? e->bend + k - 1 : e->to;
}

static void fill_links(const layout *l, links *made, bool below) {
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < l->edge_count; i++) {
      for (int k = 0; k <= l->edges[i].bends; k++) {
        int owner = hop(&l->edges[i], below ? k : k + 1), other = hop(&l->edges[i], below ? k + 1 : k);
        if (pass == 0)
          made->start[owner + 2]++;
        else
          made->items[made->start[owner + 1]++] = other;
      }
    }
    for (int i = 0; pass == 0 && i < l->item_count; i++) made->start[i + 2] += made->start[i + 1];
  }
}

static bool make_links(const layout *l, links *made, bool below) {
  size_t pieces = 0;
  for (int i = 0; i < l->edge_count; i++) pieces += (size_t)l->edges[i].bends + 1;
  made->start = calloc((size_t)l->item_count + 3, sizeof *made->start);
  made->items = calloc(pieces + 1, sizeof *made->items);
  if (!made->start || !made->items) return false;
  fill_links(l, made, below);
  return true;
}

static bool make_work(layout *l, work *w) {
  size_t items = (size_t)l->item_count + 1;
  w->l = l;
  w->rows = calloc((size_t)l->rows + 1, sizeof *w->rows);
  w->row_counts = calloc((size_t)l->rows + 1, sizeof *w->row_counts);
  w->row_items = calloc(items, sizeof *w->row_items);
  w->keys = calloc(items, sizeof *w->keys);
  if (!w->rows || !w->row_counts || !w->row_items || !w->keys) return false;
  if (!make_links(l, &w->above, false) || !make_links(l, &w->below, true)) return false;
  for (int i = 0; i < l->item_count; i++) w->row_counts[l->items[i].row]++;
  for (int row = 0, at = 0; row < l->rows; row++) {
    w->rows[row] = w->row_items + at;
    at += w->row_counts[row];
    w->row_counts[row] = 0;
  }
  for (int i = 0; i < l->item_count; i++) {
    int row = l->items[i].row;
    l->items[i].order = w->row_counts[row];
    w->rows[row][w->row_counts[row]++] = i;
  }
  return true;
}

static void free_work(work *w) {
  free(w->rows);
  free(w->row_counts);
  free(w->row_items);
  free(w->keys);
  free(w->above.start);
  free(w->above.items);
  free(w->below.start);
  free(w->below.items);
}

/* Orders a row by the mean order of the neighbours; items without neighbours keep their place. Insertion sort: rows are
 * short, nearly sorted after the first sweeps, and the order of equals must stay. */
static void order_row(work *w, int row, const links *by) {
  int *items = w->rows[row], count = w->row_counts[row];
  for (int i = 0; i < count; i++) {
    int item = items[i], from = by->start[item], to = by->start[item + 1];
    double sum = 0;
    for (int k = from; k < to; k++) sum += w->l->items[by->items[k]].order;
    w->keys[item] = to > from ? sum / (to - from) : i;
  }
  for (int i = 1; i < count; i++) {
    int item = items[i], at = i;
    for (; at > 0 && w->keys[items[at - 1]] > w->keys[item]; at--) items[at] = items[at - 1];
    items[at] = item;
  }
  for (int i = 0; i < count; i++) w->l->items[items[i]].order = i;
}

/* Sorts the lists of neighbours by order. */
static void sort_links(const layout *l, links *made) {
  for (int item = 0; item < l->item_count; item++) {
    for (int i = made->start[item] + 1; i < made->start[item + 1]; i++) {
      int other = made->items[i], at = i;
      for (; at > made->start[item] && l->items[made->items[at - 1]].order > l->items[other].order; at--) {
        made->items[at] = made->items[at - 1];
      }
      made->items[at] = other;
    }
  }
}

static bool arrange(work *w, double gap) {
  layout *l = w->l;
  for (int sweep = 0; sweep < ORDER_SWEEPS; sweep++) {
    for (int k = 1; k < l->rows; k++) {
      if (sweep % 2 == 0)
        order_row(w, k, &w->above);
      else
        order_row(w, l->rows - 1 - k, &w->below);
    }
  }
  sort_links(l, &w->above);
  sort_links(l, &w->below);
  if (!layout_place(w, gap)) return false;
  double least = 0, most = 0;
  for (int i = 0; i < l->item_count; i++) {
    double left = l->items[i].x - l->items[i].width / 2, right = l->items[i].x + l->items[i].width / 2;
    if (i == 0 || left < least) least = left;
    if (i == 0 || right > most) most = right;
  }
  for (int i = 0; i < l->item_count; i++) l->items[i].x -= least;
  l->width = most - least;
  return true;
}

bool layout_create(const double *widths, int boxes, const layout_edge *edges, int edge_count, double gap, layout *out) {
  *out = (layout){.boxes = boxes, .item_count = boxes, .edge_count = edge_count};
  out->items = calloc((size_t)boxes + 1, sizeof *out->items);
  out->edges = calloc((size_t)edge_count + 1, sizeof *out->edges);
  work w = {.l = out};
  bool good = out->items && out->edges;
  if (good) {
    for (int i = 0; i < boxes; i++) out->items[i].width = widths[i];
    if (edge_count) memcpy(out->edges, edges, (size_t)edge_count * sizeof *edges);
    qsort(out->edges, (size_t)edge_count, sizeof *edges, compare_edges);
    good = place_in_rows(out) && add_bends(out, gap) && make_work(out, &w) && arrange(&w, gap);
  }
  free_work(&w);
  if (!good) layout_destroy(out);
  return good;
}

void layout_destroy(layout *l) {
  free(l->items);
  free(l->edges);
  l->items = NULL;
  l->edges = NULL;
}
