#include "train/report/chart.h"

#include <math.h>

enum { kWidth = 560, kHeight = 260, kLeft = 58, kRight = 16, kTop = 34, kBottom = 36, kTicks = 5 };

typedef struct range {
  double low, high, step; /* low and high are multiples of step */
} range;

/* The smallest of 1, 2, 5 times a power of ten that makes kTicks steps or fewer. */
static range rounded(double low, double high) {
  double raw = (high - low) / kTicks, power = pow(10, floor(log10(raw)));
  double step = raw <= power ? power : raw <= 2 * power ? 2 * power : raw <= 5 * power ? 5 * power : 10 * power;
  return (range){floor(low / step) * step, ceil(high / step) * step, step};
}

static range range_of(const braid_record *record, const braid_series *series, size_t count) {
  range r = {INFINITY, -INFINITY, 0};
  for (size_t s = 0; s < count; s++)
    for (size_t i = 0; i < record->count; i++) {
      double y = record->rows[i][series[s].column];
      if (!isfinite(y)) continue;
      r.low = fmin(r.low, y);
      r.high = fmax(r.high, y);
    }
  if (!(r.low <= r.high)) return rounded(0, 1);
  double margin = r.high > r.low ? 0 : fmax(fabs(r.high) * 0.1, 1e-6);
  return rounded(r.low >= 0 ? fmax(0, r.low - margin) : r.low - margin, r.high + margin);
}

static double x_of(const braid_record *record, size_t i) {
  double span = record->count > 1 ? (double)(record->count - 1) : 1;
  return kLeft + (double)i / span * (kWidth - kLeft - kRight);
}

static double y_of(range r, double y) {
  return kHeight - kBottom - (y - r.low) / (r.high - r.low) * (kHeight - kTop - kBottom);
}

static void add_axes(braid_text *text, const braid_record *record, range r) {
  for (int t = 0, count = (int)round((r.high - r.low) / r.step); t <= count; t++) {
    double value = (round(r.low / r.step) + t) * r.step, y = y_of(r, value);
    braid_text_printf(text, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                      kWidth - kRight, y, y);
    braid_text_printf(text, "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.3g</text>", kLeft - 6,
                      y + 4, value);
  }
  size_t every = record->count / 10 + 1;
  for (size_t i = 0; i < record->count; i += every)
    braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%zu</text>",
                      x_of(record, i), kHeight - kBottom + 16, i + 1);
  braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">epoch</text>",
                    (kLeft + kWidth - kRight) / 2, kHeight - 4);
}

static void add_series(braid_text *text, const braid_record *record, const braid_series *series, range r) {
  size_t points = 0;
  braid_text_printf(text, "<polyline style=\"stroke:%s\" fill=\"none\" stroke-width=\"2\" points=\"", series->colour);
  for (size_t i = 0; i < record->count; i++) {
    double y = record->rows[i][series->column];
    if (isfinite(y)) braid_text_printf(text, "%s%.1f,%.1f", points++ ? " " : "", x_of(record, i), y_of(r, y));
  }
  braid_text_add(text, "\"/>");
  for (size_t i = 0; i < record->count && record->count <= 60; i++) {
    double y = record->rows[i][series->column];
    if (isfinite(y))
      braid_text_printf(
          text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" style=\"fill:%s\"><title>epoch %zu: %.5g</title></circle>",
          x_of(record, i), y_of(r, y), series->colour, i + 1, y);
  }
}

/* The chart in words: where each line begins and ends. */
static void add_description(braid_text *text, const char *title, const braid_record *record, const braid_series *series,
                            size_t count) {
  braid_text_add(text, "<title>");
  braid_text_add_html(text, title);
  for (size_t s = 0; s < count; s++) {
    double first = NAN, last = NAN;
    for (size_t i = 0; i < record->count; i++) {
      double y = record->rows[i][series[s].column];
      if (!isfinite(y)) continue;
      if (isnan(first)) first = y;
      last = y;
    }
    braid_text_printf(text, "%s %s ", s ? "," : ":", series[s].name);
    if (isnan(first))
      braid_text_add(text, "not measured");
    else
      braid_text_printf(text, "from %.4g to %.4g", first, last);
  }
  braid_text_printf(text, "; %zu epoch%s</title>", record->count, record->count == 1 ? "" : "s");
}

void braid_chart(braid_text *text, const char *title, const braid_record *record, const braid_series *series,
                 size_t count) {
  range r = range_of(record, series, count);
  braid_text_printf(text, "<svg viewBox=\"0 0 %d %d\" role=\"img\">", kWidth, kHeight);
  add_description(text, title, record, series, count);
  braid_text_printf(text, "<text class=\"title\" x=\"%d\" y=\"18\">", kLeft);
  braid_text_add_html(text, title);
  braid_text_add(text, "</text>");
  add_axes(text, record, r);
  double x = kWidth - kRight;
  for (size_t s = count; s-- > 0;) {
    add_series(text, record, &series[s], r);
    if (count == 1) break; /* the title says it */
    x -= 70;
    braid_text_printf(text, "<rect x=\"%.0f\" y=\"12\" width=\"14\" height=\"4\" style=\"fill:%s\"/>", x,
                      series[s].colour);
    braid_text_printf(text, "<text class=\"tick\" x=\"%.0f\" y=\"18\">%s</text>", x + 19, series[s].name);
  }
  braid_text_add(text, "</svg>\n");
}
