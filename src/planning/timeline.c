/* Timelines of forecasts: a trace for Perfetto, and a page. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "braid/planning.h"

static braid_status write_text(braid_text *text, const char *path) {
  braid_status status =
      text->failed ? BRAID_NO_MEMORY : braid_file_write(text->allocator, path, text->data, text->length);
  braid_text_deinit(text);
  return status;
}

/* --- trace ---------------------------------------------------------------------------------------------------------
 */
static void add_event(braid_text *text, const braid_forecast_task *task) {
  for (size_t d = 0; d < task->devices; d++) {
    braid_text_printf(text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"ts\":%.3f,\"dur\":%.3f,\"name\":",
                      task->device_index + d, task->start * 1e6, (task->end - task->start) * 1e6);
    braid_text_add_json(text, task->node);
    braid_text_printf(text, ",\"cat\":\"modelled\",\"args\":{\"op\":");
    braid_text_add_json(text, task->op);
    braid_text_add(text, ",\"taken_as\":");
    braid_text_add_json(text, task->like);
    if (!isnan(task->joules)) braid_text_printf(text, ",\"joules\":%.6g", task->joules);
    if (!isnan(task->peak_watts)) braid_text_printf(text, ",\"peak_watts\":%.6g", task->peak_watts);
    if (!isnan(task->mhz)) braid_text_printf(text, ",\"mhz\":%g", task->mhz);
    braid_text_add(text, ",\"why\":");
    braid_text_add_json(text, task->reason);
    braid_text_add(text, "}}");
  }
}

braid_status braid_forecast_save_trace(const braid_forecast *forecast, const char *path) {
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add(&text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                        "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"modelled\"}}");
  for (size_t d = 0; d < braid_forecast_device_count(forecast); d++) {
    braid_text_printf(&text, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":", d);
    braid_text_add_json(&text, braid_forecast_get_device(forecast, d).name);
    braid_text_add(&text, "}}");
  }
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    add_event(&text, &task);
  }
  for (size_t i = 0; i < braid_forecast_power_count(forecast); i++) {
    braid_forecast_power power = braid_forecast_get_power(forecast, i);
    bool average = !isnan(power.watts), peaks = !isnan(power.peak_watts);
    if (!average && !peaks) continue;
    braid_text_printf(&text, ",\n{\"ph\":\"C\",\"pid\":1,\"ts\":%.3f,\"name\":\"watts\",\"args\":{", power.from * 1e6);
    if (average) braid_text_printf(&text, "\"average\":%.6g%s", power.watts, peaks ? "," : "");
    if (peaks) braid_text_printf(&text, "\"peaks\":%.6g", power.peak_watts);
    braid_text_add(&text, "}}");
  }
  braid_text_add(&text, "\n]}\n");
  return write_text(&text, path);
}

/* --- page ----------------------------------------------------------------------------------------------------------
 */
enum { kLeft = 90, kWidth = 1400, kRow = 26, kPower = 160 };

/* A colour for an op: the same in every page. */
static unsigned hue_of(const char *op) {
  unsigned hash = 2166136261u;
  for (; *op; op++) hash = (hash ^ (unsigned char)*op) * 16777619u;
  return hash % 360;
}

static void add_quantity(braid_text *text, const char *format, const char *unknown, double number) {
  if (isnan(number))
    braid_text_add(text, unknown);
  else
    braid_text_printf(text, format, number);
}

static void draw_tasks(braid_text *text, const braid_forecast *forecast, double scale) {
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    for (size_t d = 0; d < task.devices; d++) {
      braid_text_printf(text, "<rect x='%.2f' y='%zu' width='%.2f' height='%d' fill='hsl(%u 55%% 62%%)'><title>",
                        kLeft + task.start * scale, (task.device_index + d) * kRow + 4,
                        fmax((task.end - task.start) * scale, 0.3), kRow - 8, hue_of(task.op));
      braid_text_add_html(text, task.node);
      braid_text_add(text, "\n");
      braid_text_add_html(text, task.op);
      if (strcmp(task.op, task.like) != 0) {
        braid_text_add(text, " taken as ");
        braid_text_add_html(text, task.like);
      }
      braid_text_printf(text, ", %.3f to %.3f ms", task.start * 1e3, task.end * 1e3);
      add_quantity(text, ", %.4g J", ", energy unknown", task.joules);
      add_quantity(text, ", peak %.4g W\n", ", peak unknown\n", task.peak_watts);
      braid_text_add_html(text, task.reason);
      braid_text_add(text, "</title></rect>\n");
    }
  }
}

/* A line of steps: the sum of peaks, or of averages, as far as it is known. */
static void draw_line(braid_text *text, const braid_forecast *forecast, double scale, double bottom, double per_watt,
                      bool peaks) {
  bool known = false;
  braid_text_printf(text, "<path fill='none' stroke='%s' d='", peaks ? "#c33" : "#36c");
  for (size_t i = 0; i < braid_forecast_power_count(forecast); i++) {
    braid_forecast_power power = braid_forecast_get_power(forecast, i);
    double watts = peaks ? power.peak_watts : power.watts, x = kLeft + power.from * scale;
    if (known) braid_text_printf(text, "H%.2f", x);
    double y = bottom - watts * per_watt;
    if (!isnan(watts) && known) braid_text_printf(text, "V%.2f", y);
    if (!isnan(watts) && !known) braid_text_printf(text, "M%.2f %.2f", x, y);
    known = !isnan(watts);
  }
  if (known) braid_text_printf(text, "H%.2f", kLeft + braid_forecast_get_summary(forecast).shown_seconds * scale);
  braid_text_add(text, "'/>\n");
}

/* Both, and the cap across. */
static void draw_power(braid_text *text, const braid_forecast *forecast, double scale, double top) {
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  double most = isnan(s.cap_watts) ? s.peak_watts : fmax(s.peak_watts, s.cap_watts), per_watt = kPower / (1.05 * most);
  double bottom = top + kPower;
  draw_line(text, forecast, scale, bottom, per_watt, false);
  draw_line(text, forecast, scale, bottom, per_watt, true);
  if (!isnan(s.cap_watts))
    braid_text_printf(
        text, "<path stroke='#000' stroke-dasharray='4' d='M%d %.2fH%d'/><text x='2' y='%.2f'>cap %.4g W</text>\n",
        kLeft, bottom - s.cap_watts * per_watt, kLeft + kWidth, bottom - s.cap_watts * per_watt + 4, s.cap_watts);
  braid_text_printf(text, "<text x='2' y='%.2f'>%.4g W</text><text x='2' y='%.2f'>0 W</text>\n",
                    bottom - s.peak_watts * per_watt + 4, s.peak_watts, bottom);
}

braid_status braid_forecast_save_html(const braid_forecast *forecast, const char *title, const char *path) {
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  size_t devices = braid_forecast_device_count(forecast);
  double scale = s.shown_seconds > 0 ? kWidth / s.shown_seconds : 0, top = (double)devices * kRow + 20;
  braid_text text;
  if (isnan(s.seconds))
    return braid_fail(BRAID_UNSUPPORTED, "the forecast has unknown times: there is nothing to draw");
  braid_text_init(&text, NULL);
  braid_text_add(&text, "<!DOCTYPE html><meta charset='utf-8'><title>");
  braid_text_add_html(&text, title);
  braid_text_add(&text, "</title><style>body{font:14px sans-serif}text{font-size:12px}</style><h1>");
  braid_text_add_html(&text, title);
  braid_text_printf(&text, "</h1><p>Modelled: %.3f ms", s.seconds * 1e3);
  add_quantity(&text, ", %.4g J", ", energy unknown", s.joules);
  add_quantity(&text, ", average %.4g W", ", average power unknown", s.average_watts);
  add_quantity(&text, ", peak %.4g W", ", peak unknown", s.peak_watts);
  braid_text_printf(&text,
                    ". Point at an operation for its numbers and the reason why it is there. Below: power over time, "
                    "%s.</p>\n<svg width='%d' height='%.0f'>\n",
                    isnan(s.peak_watts) ? "which is unknown" : "the sum of averages (blue) and of peaks (red)",
                    kLeft + kWidth + 10, top + kPower + 30);
  for (size_t d = 0; d < devices; d++) {
    braid_text_printf(&text, "<rect x='%d' y='%zu' width='%d' height='%d' fill='#f2f2f2'/><text x='2' y='%zu'>", kLeft,
                      d * kRow + 2, kWidth, kRow - 4, d * kRow + 17);
    braid_text_add_html(&text, braid_forecast_get_device(forecast, d).name);
    braid_text_add(&text, "</text>\n");
  }
  draw_tasks(&text, forecast, scale);
  if (!isnan(s.peak_watts)) draw_power(&text, forecast, scale, top);
  braid_text_printf(&text,
                    "<text x='%d' y='%.0f'>0</text><text x='%d' y='%.0f' text-anchor='end'>%.3f ms</text></svg>\n",
                    kLeft, top + kPower + 20, kLeft + kWidth, top + kPower + 20, s.shown_seconds * 1e3);
  return write_text(&text, path);
}
