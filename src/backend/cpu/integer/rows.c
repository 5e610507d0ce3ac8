#include "backend/cpu/integer/rows.h"

#include <string.h>

#include "backend/cpu/integer/lines_isa.h"

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* One row of a run whose first tap lies at `column` of a line: taps beside the line are padding. */
static void lay_edge(const braid_integer_rows *r, const int8_t *line, int64_t column, int64_t taps, uint8_t *to) {
  int64_t before = least(most(-column, 0), taps), end = most(least(r->width - column, taps), before);
  memset(to, r->flip, (size_t)(before * r->channels));
  if (end > before)
    BRAID_ISA_CALL(braid_integer_lay_lines, line + (column + before) * r->pixel, 0, 1, (end - before) * r->channels,
                   r->flip, to + before * r->channels, 0);
  memset(to + end * r->channels, r->flip, (size_t)((taps - end) * r->channels));
}

/* Places x to x + count - 1 of line y of the sweep. */
static void lay_line(const braid_integer_rows *r, const int8_t *image, int64_t y, int64_t x, int64_t count, uint8_t *to,
                     int64_t step) {
  const braid_integer_sweep *s = r->sweep;
  for (int64_t i = 0; i < s->run_count; i++) {
    const braid_integer_run *run = &s->runs[i];
    int64_t row = y * s->step[0] + run->at[0], every = s->step[1], bytes = run->taps * r->channels, end = x + count;
    const int8_t *line = image + row * r->width * r->pixel;
    /* Places whose taps all lie on the line. */
    int64_t last = r->width - run->taps - run->at[1], low = run->at[1] < 0 ? (every - 1 - run->at[1]) / every : 0;
    int64_t high = last < 0 ? 0 : last / every + 1;
    low = least(most(low, x), end);
    high = most(least(high, end), low);
    if (row < 0 || row >= r->height) {
      for (int64_t k = 0; k < count; k++) memset(to + k * step, r->flip, (size_t)bytes);
    } else {
      for (int64_t k = x; k < low; k++) lay_edge(r, line, k * every + run->at[1], run->taps, to + (k - x) * step);
      if (high > low)
        BRAID_ISA_CALL(braid_integer_lay_lines, line + (low * every + run->at[1]) * r->pixel, every * r->pixel,
                       high - low, bytes, r->flip, to + (low - x) * step, step);
      for (int64_t k = high; k < end; k++) lay_edge(r, line, k * every + run->at[1], run->taps, to + (k - x) * step);
    }
    to += bytes;
  }
}

void braid_integer_lay_rows(const braid_integer_rows *r, int64_t first, int64_t count, uint8_t *to, int64_t step) {
  const braid_integer_sweep *s = r->sweep;
  int64_t x = first % s->count[1], y = first / s->count[1] % s->count[0], image = first / s->count[1] / s->count[0];
  while (count > 0) {
    int64_t some = least(count, s->count[1] - x);
    lay_line(r, r->images + image * r->height * r->width * r->pixel, y, x, some, to, step);
    count -= some;
    to += some * step;
    x = 0;
    if (++y == s->count[0]) y = 0, image++;
  }
}
