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

static double number_at(const braid_chart_rows *rows, size_t row, size_t column) {
  return rows->numbers[row * rows->columns + column];
}

static double place_of(const braid_chart_rows *rows, size_t row) {
  return rows->places ? rows->places[row] : (double)row + 1;
}

static range range_of(const braid_chart_rows *rows, const braid_series *series, size_t count) {
  range r = {INFINITY, -INFINITY, 0};
  for (size_t s = 0; s < count; s++)
    for (size_t i = 0; i < rows->count; i++) {
      double y = number_at(rows, i, series[s].column);
      if (!isfinite(y)) continue;
      r.low = fmin(r.low, y);
      r.high = fmax(r.high, y);
    }
  if (!(r.low <= r.high)) return rounded(0, 1);
  double margin = r.high > r.low ? 0 : fmax(fabs(r.high) * 0.1, 1e-6);
  return rounded(r.low >= 0 ? fmax(0, r.low - margin) : r.low - margin, r.high + margin);
}

static double x_of(const braid_chart_rows *rows, size_t i) {
  double span = rows->count > 1 ? (double)(rows->count - 1) : 1;
  return kLeft + (double)i / span * (kWidth - kLeft - kRight);
}

static double y_of(range r, double y) {
  return kHeight - kBottom - (y - r.low) / (r.high - r.low) * (kHeight - kTop - kBottom);
}

static void add_axes(braid_text *text, const braid_chart_rows *rows, range r) {
  for (int t = 0, count = (int)round((r.high - r.low) / r.step); t <= count; t++) {
    double value = (round(r.low / r.step) + t) * r.step, y = y_of(r, value);
    braid_text_printf(text, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                      kWidth - kRight, y, y);
    braid_text_printf(text, "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.3g</text>", kLeft - 6,
                      y + 4, value);
  }
  size_t every = rows->count / 10 + 1;
  for (size_t i = 0; i < rows->count; i += every)
    braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%.3g</text>",
                      x_of(rows, i), kHeight - kBottom + 16, place_of(rows, i));
  braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">%s</text>",
                    (kLeft + kWidth - kRight) / 2, kHeight - 4, rows->unit);
}

static void add_series(braid_text *text, const braid_chart_rows *rows, const braid_series *series, range r) {
  size_t points = 0;
  braid_text_printf(text, "<polyline style=\"stroke:%s\" fill=\"none\" stroke-width=\"2\" points=\"", series->colour);
  for (size_t i = 0; i < rows->count; i++) {
    double y = number_at(rows, i, series->column);
    if (isfinite(y)) braid_text_printf(text, "%s%.1f,%.1f", points++ ? " " : "", x_of(rows, i), y_of(r, y));
  }
  braid_text_add(text, "\"/>");
  for (size_t i = 0; i < rows->count && rows->count <= 60; i++) {
    double y = number_at(rows, i, series->column);
    if (isfinite(y))
      braid_text_printf(
          text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" style=\"fill:%s\"><title>%s %.4g: %.5g</title></circle>",
          x_of(rows, i), y_of(r, y), series->colour, rows->unit, place_of(rows, i), y);
  }
}

/* The chart in words: where each line begins and ends. */
static void add_description(braid_text *text, const char *title, const braid_chart_rows *rows,
                            const braid_series *series, size_t count) {
  braid_text_add(text, "<title>");
  braid_text_add_html(text, title);
  for (size_t s = 0; s < count; s++) {
    double first = NAN, last = NAN;
    for (size_t i = 0; i < rows->count; i++) {
      double y = number_at(rows, i, series[s].column);
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
  braid_text_printf(text, "; %zu %s%s</title>", rows->count, rows->places ? "step" : rows->unit,
                    rows->count == 1 ? "" : "s");
}

void braid_chart(braid_text *text, const char *title, const braid_chart_rows *rows, const braid_series *series,
                 size_t count) {
  range r = range_of(rows, series, count);
  braid_text_printf(text, "<svg viewBox=\"0 0 %d %d\" role=\"img\">", kWidth, kHeight);
  add_description(text, title, rows, series, count);
  braid_text_printf(text, "<text class=\"title\" x=\"%d\" y=\"18\">", kLeft);
  braid_text_add_html(text, title);
  braid_text_add(text, "</text>");
  add_axes(text, rows, r);
  double x = kWidth - kRight;
  for (size_t s = count; s-- > 0;) {
    add_series(text, rows, &series[s], r);
    if (count == 1) break; /* the title says it */
    x -= 70;
    braid_text_printf(text, "<rect x=\"%.0f\" y=\"12\" width=\"14\" height=\"4\" style=\"fill:%s\"/>", x,
                      series[s].colour);
    braid_text_printf(text, "<text class=\"tick\" x=\"%.0f\" y=\"18\">%s</text>", x + 19, series[s].name);
  }
  braid_text_add(text, "</svg>\n");
}

/* --- points --------------------------------------------------------------------------------------------------------
 */
/* Decimal logarithms. */
typedef struct span {
  double low, high;
} span;

static span span_of(const braid_marks *points, size_t count, bool vertical) {
  span s = {INFINITY, -INFINITY};
  for (size_t p = 0; p < count; p++)
    for (size_t i = 0; i < points[p].count; i++) {
      double value = vertical ? points[p].items[i].y : points[p].items[i].x;
      if (!(value > 0) || !isfinite(value)) continue;
      s.low = fmin(s.low, log10(value));
      s.high = fmax(s.high, log10(value));
    }
  if (!(s.low <= s.high)) return (span){0, 1};
  double margin = fmax(0.05 * (s.high - s.low), 0.02);
  return (span){s.low - margin, s.high + margin};
}

static double across(span s, double value) {
  return kLeft + (log10(value) - s.low) / (s.high - s.low) * (kWidth - kLeft - kRight);
}

static double upward(span s, double value) {
  return kHeight - kBottom - (log10(value) - s.low) / (s.high - s.low) * (kHeight - kTop - kBottom);
}

/* Ticks at 1, 2 and 5 times the powers of ten; at these alone over many of them. */
static void add_ticks(braid_text *text, span s, bool vertical) {
  static const double kSteps[] = {1, 2, 5};
  bool wide = s.high - s.low > 3;
  for (double power = floor(s.low); power <= s.high; power++)
    for (size_t i = 0; i < (wide ? 1 : 3); i++) {
      double value = kSteps[i] * pow(10, power);
      if (log10(value) < s.low || log10(value) > s.high) continue;
      if (vertical) {
        double y = upward(s, value);
        braid_text_printf(text, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                          kWidth - kRight, y, y);
        braid_text_printf(text, "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%g</text>", kLeft - 6,
                          y + 4, value);
      } else {
        braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g</text>",
                          across(s, value), kHeight - kBottom + 16, value);
      }
    }
}

static void add_points(braid_text *text, const braid_marks *points, span x, span y) {
  if (points->joined) {
    braid_text_printf(text, "<polyline style=\"stroke:%s\" fill=\"none\" stroke-width=\"1.5\" points=\"",
                      points->colour);
    for (size_t i = 0; i < points->count; i++)
      braid_text_printf(text, "%s%.1f,%.1f", i ? " " : "", across(x, points->items[i].x),
                        upward(y, points->items[i].y));
    braid_text_add(text, "\"/>");
  }
  for (size_t i = 0; i < points->count; i++) {
    const braid_mark *point = &points->items[i];
    if (!(point->x > 0) || !(point->y > 0) || !isfinite(point->x) || !isfinite(point->y)) continue;
    double left = across(x, point->x), top = upward(y, point->y);
    braid_text_printf(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" style=\"stroke:%s;fill:%s\"/>", left, top,
                      points->joined ? 2 : 4, points->colour, point->hollow ? "none" : points->colour);
    if (!point->label) continue;
    bool beyond = point->label_left || left > kWidth - 90;
    braid_text_printf(text, "<text class=\"tick\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", beyond ? "end" : "start",
                      beyond ? left - 7 : left + 7, top - 4);
    braid_text_add_html(text, point->label);
    braid_text_add(text, "</text>");
  }
}

void braid_scatter(braid_text *text, const char *title, const char *description, const char *x_name, const char *y_name,
                   const braid_marks *points, size_t count) {
  span x = span_of(points, count, false), y = span_of(points, count, true);
  braid_text_printf(text, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>", kWidth, kHeight);
  braid_text_add_html(text, description);
  braid_text_printf(text, "</title><text class=\"title\" x=\"%d\" y=\"18\">", kLeft);
  braid_text_add_html(text, title);
  braid_text_add(text, "</text>");
  add_ticks(text, y, true);
  add_ticks(text, x, false);
  braid_text_printf(text, "<text class=\"tick\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">%s</text>",
                    (kLeft + kWidth - kRight) / 2, kHeight - 4, x_name);
  braid_text_printf(text, "<text class=\"tick\" x=\"4\" y=\"%d\">%s</text>", kTop - 4, y_name);
  double left = kWidth - kRight;
  for (size_t p = count; p-- > 0;) {
    add_points(text, &points[p], x, y);
    left -= 140;
    braid_text_printf(text, "<rect x=\"%.0f\" y=\"22\" width=\"14\" height=\"4\" style=\"fill:%s\"/>", left,
                      points[p].colour);
    braid_text_printf(text, "<text class=\"tick\" x=\"%.0f\" y=\"28\">", left + 19);
    braid_text_add_html(text, points[p].name);
    braid_text_add(text, "</text>");
  }
  braid_text_add(text, "</svg>\n");
}
