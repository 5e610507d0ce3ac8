#include "graph/suppression.h"

#include <stddef.h>

/* Higher scores first, then lower numbers. */
static bool comes_before(const float *scores, int64_t a, int64_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

static void sift(const float *scores, int64_t *heap, int64_t at, int64_t count) {
  for (;;) {
    int64_t last = at;
    for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
      if (comes_before(scores, heap[last], heap[child])) last = child;
    if (last == at) return;
    int64_t moved = heap[at];
    heap[at] = heap[last];
    heap[last] = moved;
    at = last;
  }
}

/* Heapsort: no memory, and no worst case. */
static void sort_by_score(const float *scores, int64_t *order, int64_t count) {
  for (int64_t i = count / 2; i-- > 0;) sift(scores, order, i, count);
  for (int64_t i = count; i-- > 1;) {
    int64_t last = order[0];
    order[0] = order[i];
    order[i] = last;
    sift(scores, order, 0, i);
  }
}

typedef struct corners {
  float low[2], high[2];
} corners;

static corners corners_of(const braid_suppression *s, const float *box) {
  corners c;
  for (int i = 0; i < 2; i++) {
    float a = s->centered ? box[i] - box[i + 2] / 2 : box[i];
    float b = s->centered ? box[i] + box[i + 2] / 2 : box[i + 2];
    c.low[i] = a < b ? a : b;
    c.high[i] = a < b ? b : a;
  }
  return c;
}

static float area_of(const corners *c) {
  return (c->high[0] - c->low[0]) * (c->high[1] - c->low[1]);
}

static bool overlaps(const braid_suppression *s, const float *a, const float *b) {
  corners one = corners_of(s, a), other = corners_of(s, b);
  float shared = 1;
  for (int i = 0; i < 2; i++) {
    float low = one.low[i] > other.low[i] ? one.low[i] : other.low[i];
    float high = one.high[i] < other.high[i] ? one.high[i] : other.high[i];
    if (!(high > low)) return false;
    shared *= high - low;
  }
  float all = area_of(&one) + area_of(&other) - shared;
  return all > 0 && shared / all > s->overlap;
}

/* The numbers of the boxes kept come to the front of `order`. */
static int64_t suppress_class(const braid_suppression *s, const float *boxes, const float *scores, int64_t *order) {
  int64_t candidates = 0, kept = 0;
  for (int64_t i = 0; i < s->count; i++)
    if (!s->scored || scores[i] > s->least) order[candidates++] = i;
  sort_by_score(scores, order, candidates);
  for (int64_t i = 0; i < candidates && kept < s->most; i++) {
    bool free = true;
    for (int64_t k = 0; free && k < kept; k++) free = !overlaps(s, boxes + 4 * order[k], boxes + 4 * order[i]);
    if (free) order[kept++] = order[i];
  }
  return kept;
}

int64_t braid_suppress(const braid_suppression *s, int64_t *order, int64_t *out) {
  int64_t found = 0;
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t c = 0; c < s->classes; c++) {
      int64_t kept = suppress_class(s, s->boxes + b * s->count * 4, s->scores + (b * s->classes + c) * s->count, order);
      for (int64_t i = 0; out && i < kept; i++) {
        int64_t *row = out + 3 * (found + i);
        row[0] = b;
        row[1] = c;
        row[2] = order[i];
      }
      found += kept;
    }
  return found;
}
