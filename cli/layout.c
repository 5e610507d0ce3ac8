#include "layout.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BENDS = 1000000, ORDER_SWEEPS = 12, PLACE_SWEEPS = 24 };

/* Neighbours of every item in the row above and in the row below, as lists in one array each. */
typedef struct links {
  int *start, *items; /* of item i: items[start[i]] .. items[start[i + 1]] */
} links;

typedef struct work {
  layout *l;
  links above, below;
  int **rows, *row_counts;
  int *row_items;
  double *keys, *value, *weight, *wanted; /* scratch, one per item */
  int *length;
} work;

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
  w->keys = calloc(items * 4, sizeof *w->keys);
  w->length = calloc(items, sizeof *w->length);
  if (!w->rows || !w->row_counts || !w->row_items || !w->keys || !w->length) return false;
  w->value = w->keys + items, w->weight = w->value + items, w->wanted = w->weight + items;
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
  free(w->length);
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

/* Puts a row where its neighbours want it: the positions nearest to the wanted ones (least squares) that keep order and
 * distances, by pooling adjacent violators. Straight bends weigh more, so that long edges run straight. */
static void place_row(work *w, int row, double gap) {
  layout *l = w->l;
  int *items = w->rows[row], count = w->row_counts[row], blocks = 0;
  double offset = 0;
  for (int i = 0; i < count; i++) {
    const layout_item *item = &l->items[items[i]];
    if (i) offset += l->items[items[i - 1]].width / 2 + gap + item->width / 2;
    bool bend = items[i] >= l->boxes;
    w->keys[i] = offset;
    w->value[blocks] = w->wanted[items[i]] - offset;
    w->weight[blocks] = bend ? 4 : 1;
    w->length[blocks++] = 1;
    while (blocks > 1 && w->value[blocks - 2] >= w->value[blocks - 1]) {
      double weight = w->weight[blocks - 2] + w->weight[blocks - 1];
      w->value[blocks - 2] =
          (w->value[blocks - 2] * w->weight[blocks - 2] + w->value[blocks - 1] * w->weight[blocks - 1]) / weight;
      w->weight[blocks - 2] = weight;
      w->length[blocks - 2] += w->length[blocks - 1];
      blocks--;
    }
  }
  for (int block = 0, i = 0; block < blocks; block++) {
    for (int k = 0; k < w->length[block]; k++, i++) l->items[items[i]].x = w->value[block] + w->keys[i];
  }
}

static void want_neighbours(work *w, int row, const links *by, const links *also) {
  for (int i = 0; i < w->row_counts[row]; i++) {
    int item = w->rows[row][i];
    double sum = 0;
    int count = 0;
    for (int k = by->start[item]; k < by->start[item + 1]; k++, count++) sum += w->l->items[by->items[k]].x;
    for (int k = also ? also->start[item] : 0; also && k < also->start[item + 1]; k++, count++) {
      sum += w->l->items[also->items[k]].x;
    }
    w->wanted[item] = count ? sum / count : w->l->items[item].x;
  }
}

static void arrange(work *w, double gap) {
  layout *l = w->l;
  for (int sweep = 0; sweep < ORDER_SWEEPS; sweep++) {
    if (sweep % 2 == 0)
      for (int row = 1; row < l->rows; row++) order_row(w, row, &w->above);
    else
      for (int row = l->rows - 2; row >= 0; row--) order_row(w, row, &w->below);
  }
  for (int row = 0; row < l->rows; row++) {
    for (int i = 0; i < w->row_counts[row]; i++) w->wanted[w->rows[row][i]] = 0;
    place_row(w, row, gap);
  }
  for (int sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
    bool down = sweep % 2 == 0, last = sweep >= PLACE_SWEEPS - 4;
    for (int k = 0; k < l->rows; k++) {
      int row = down ? k : l->rows - 1 - k;
      want_neighbours(w, row, down ? &w->above : &w->below, last ? (down ? &w->below : &w->above) : NULL);
      place_row(w, row, gap);
    }
  }
  double least = 0, most = 0;
  for (int i = 0; i < l->item_count; i++) {
    double left = l->items[i].x - l->items[i].width / 2, right = l->items[i].x + l->items[i].width / 2;
    if (i == 0 || left < least) least = left;
    if (i == 0 || right > most) most = right;
  }
  for (int i = 0; i < l->item_count; i++) l->items[i].x -= least;
  l->width = most - least;
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
    good = place_in_rows(out) && add_bends(out, gap) && make_work(out, &w);
  }
  if (good) arrange(&w, gap);
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
