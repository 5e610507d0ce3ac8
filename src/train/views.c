#include "train/views.h"

size_t braid_views_list(const braid_spec *spec, braid_view out[BRAID_MOST_VIEWS]) {
  static const int kShifts[] = {0, -1, 1};
  size_t count = 0;
  for (int shift = 0; shift < (spec->view_shifted ? 3 : 1); shift++)
    for (int flip = 0; flip < (spec->view_flipped ? 2 : 1); flip++) {
      float weight = spec->view_flipped ? 0.5f : 1;
      if (spec->view_shifted) weight *= shift ? 0.25f : 0.5f;
      out[count++] = (braid_view){kShifts[shift], kShifts[shift], flip != 0, weight};
    }
  return count;
}

static int reflected(int at, int count) {
  if (at < 0) return -at;
  return at < count ? at : 2 * (count - 1) - at;
}

void braid_view_take(const braid_view *view, const float *from, float *to, size_t planes, int height, int width) {
  for (size_t plane = 0; plane < planes; plane++, from += (ptrdiff_t)height * width)
    for (int y = 0; y < height; y++, to += width) {
      const float *line = from + (ptrdiff_t)reflected(y + view->top, height) * width;
      for (int x = 0; x < width; x++) to[x] = line[reflected((view->mirrored ? width - 1 - x : x) + view->left, width)];
    }
}
