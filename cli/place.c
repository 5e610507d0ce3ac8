/* Horizontal positions by Brandes and Koepf, "Fast and Simple Horizontal Coordinate Assignment" (GD 2001): items are
 * joined to vertical blocks with their median neighbours, in four ways (from above or below, from the left or right);
 * blocks are packed; every item gets the mean of the two middle ones of its four positions. Blocks are packed as
 * longest paths over the order within rows, first to the left and then as far back as there is room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layout_work.h"

typedef struct pass {
  const work *w;
  bool down, mirrored; /* sweeping from the first row; looking from the right */
  double gap;
  int *root, *next;    /* of each item: the first item of its block; the next in it (a ring) */
  int *degree, *queue; /* for the order of blocks */
  double *x;           /* of roots, then of all items */
} pass;

static int row_item(const pass *p, int row, int at) {
  int count = p->w->row_counts[row];
  return p->w->rows[row][p->mirrored ? count - 1 - at : at];
}

static int place_of(const pass *p, int item) {
  const layout_item *i = &p->w->l->items[item];
  return p->mirrored ? p->w->row_counts[i->row] - 1 - i->order : i->order;
}

static bool is_bend(const work *w, int item) {
  return item >= w->l->boxes;
}

/* Whether the segment from `upper` to `lower` crosses an inner segment of a long edge, which is kept straight. */
static bool crosses_long_edge(const work *w, int upper, int lower) {
  if (is_bend(w, upper) && is_bend(w, lower)) return false;
  const layout_item *u = &w->l->items[upper], *v = &w->l->items[lower];
  for (int at = 0; at < w->row_counts[v->row]; at++) {
    int item = w->rows[v->row][at];
    if (item == lower || !is_bend(w, item)) continue;
    int above = w->above.items[w->above.start[item]];
    if (is_bend(w, above) && (at < v->order) != (w->l->items[above].order < u->order)) return true;
  }
  return false;
}

static void align(pass *p) {
  const work *w = p->w;
  const links *by = p->down ? &w->above : &w->below;
  for (int i = 0; i < w->l->item_count; i++) p->root[i] = p->next[i] = i;
  for (int k = 1; k < w->l->rows; k++) {
    int row = p->down ? k : w->l->rows - 1 - k, last = -1;
    for (int at = 0; at < w->row_counts[row]; at++) {
      int item = row_item(p, row, at), from = by->start[item], count = by->start[item + 1] - from;
      for (int m = (count - 1) / 2; count && m <= count / 2 && p->next[item] == item; m++) {
        int other = by->items[from + (p->mirrored ? count - 1 - m : m)];
        bool crosses = p->down ? crosses_long_edge(w, other, item) : crosses_long_edge(w, item, other);
        if (crosses || place_of(p, other) <= last) continue;
        p->next[other] = item;
        p->root[item] = p->root[other];
        p->next[item] = p->root[item];
        last = place_of(p, other);
      }
    }
  }
}

static double distance(const pass *p, int left, int right) {
  return p->w->l->items[left].width / 2 + p->gap + p->w->l->items[right].width / 2;
}

/* Item beside `item` in its row, -1 at the end. */
static int beside(const pass *p, int item, int step) {
  int row = p->w->l->items[item].row, at = place_of(p, item) + step;
  return at >= 0 && at < p->w->row_counts[row] ? row_item(p, row, at) : -1;
}

/* Blocks in an order in which everything left of a block comes before it, into p->queue; their number. */
static int order_blocks(pass *p) {
  int items = p->w->l->item_count, filled = 0;
  memset(p->degree, 0, (size_t)items * sizeof *p->degree);
  for (int i = 0; i < items; i++) p->degree[p->root[i]] += beside(p, i, -1) >= 0;
  for (int i = 0; i < items; i++) {
    if (p->root[i] == i && !p->degree[i]) p->queue[filled++] = i;
  }
  for (int k = 0; k < filled; k++) {
    int item = p->queue[k];
    do {
      int right = beside(p, item, 1);
      if (right >= 0 && --p->degree[p->root[right]] == 0) p->queue[filled++] = p->root[right];
      item = p->next[item];
    } while (item != p->queue[k]);
  }
  return filled;
}

static void blocks_pack(pass *p) {
  int blocks = order_blocks(p);
  for (int k = 0; k < blocks; k++) {
    int root = p->queue[k], item = root;
    p->x[root] = 0;
    do {
      int left = beside(p, item, -1);
      if (left >= 0) p->x[root] = fmax(p->x[root], p->x[p->root[left]] + distance(p, left, item));
      item = p->next[item];
    } while (item != root);
  }
  for (int k = blocks - 1; k >= 0; k--) {
    int root = p->queue[k], item = root;
    double room = INFINITY;
    do {
      int right = beside(p, item, 1);
      if (right >= 0) room = fmin(room, p->x[p->root[right]] - distance(p, item, right));
      item = p->next[item];
    } while (item != root);
    if (isfinite(room)) p->x[root] = fmax(p->x[root], room);
  }
  for (int i = p->w->l->item_count - 1; i >= 0; i--) {
    if (p->root[i] != i) p->x[i] = p->x[p->root[i]];
  }
  for (int i = 0; p->mirrored && i < p->w->l->item_count; i++) p->x[i] = -p->x[i];
}

static void find_bounds(const layout *l, const double *x, double *least, double *most) {
  *least = INFINITY, *most = -INFINITY;
  for (int i = 0; i < l->item_count; i++) {
    *least = fmin(*least, x[i] - l->items[i].width / 2);
    *most = fmax(*most, x[i] + l->items[i].width / 2);
  }
}

static void combine(layout *l, double *x[4]) {
  double least[4], most[4];
  int narrow = 0;
  for (int k = 0; k < 4; k++) {
    find_bounds(l, x[k], &least[k], &most[k]);
    if (most[k] - least[k] < most[narrow] - least[narrow]) narrow = k;
  }
  for (int i = 0; i < l->item_count; i++) {
    double sorted[4];
    for (int k = 0; k < 4; k++) {
      double value = x[k][i] + (k % 2 ? most[narrow] - most[k] : least[narrow] - least[k]);
      int at = k;
      for (; at > 0 && sorted[at - 1] > value; at--) sorted[at] = sorted[at - 1];
      sorted[at] = value;
    }
    l->items[i].x = (sorted[1] + sorted[2]) / 2;
  }
}

bool layout_place(const work *w, double gap) {
  size_t items = (size_t)w->l->item_count + 1;
  pass p = {.w = w, .gap = gap};
  int *indices = malloc(items * 4 * sizeof *indices);
  double *positions = malloc(items * 4 * sizeof *positions), *x[4];
  bool good = indices && positions;
  if (good) {
    p.root = indices, p.next = indices + items, p.degree = indices + 2 * items, p.queue = indices + 3 * items;
    for (int k = 0; k < 4; k++) {
      p.down = k < 2, p.mirrored = k % 2;
      p.x = x[k] = positions + (size_t)k * items;
      align(&p);
      blocks_pack(&p);
    }
    combine(w->l, x);
  }
  free(indices);
  free(positions);
  return good;
}
