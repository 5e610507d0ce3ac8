#include "train/report/report.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "train/monitor.h"
#include "train/report/chart.h"

/* Colours are variables, so that a reader's dark mode changes them all. */
const char braid_page_style[] =
    ":root{color-scheme:light dark;--page:#fff;--text:#1c2733;--soft:#5b6b7b;--line:#e3e8ee;--frame:#cbd4dd;"
    "--blue:31,119,180;--red:214,39,40;--green:44,160,44;--violet:148,103,189}"
    "@media(prefers-color-scheme:dark){:root{--page:#14191f;--text:#dde4ea;--soft:#9aa8b5;--line:#2c3640;"
    "--frame:#465360;--blue:88,166,230;--red:240,98,94;--green:94,196,94;--violet:184,150,224}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:var(--text);"
    "background:var(--page)}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse}"
    "td,th{padding:2px 9px;text-align:right;border-bottom:1px solid var(--line)}th{font-weight:600}"
    "td:first-child,th:first-child{text-align:left}.charts{display:grid;grid-template-columns:1fr "
    "1fr;gap:1em;margin-top:2em}"
    ".grid{stroke:var(--line)}.tick{font:11px system-ui,sans-serif;fill:var(--soft)}"
    ".title{font:600 14px system-ui,sans-serif;fill:var(--text)}"
    ".confusion td{border:0;min-width:26px;text-align:center;font-size:12px}"
    ".wrong{display:flex;flex-wrap:wrap;gap:12px}.wrong figure{margin:0;width:112px;font-size:12px}"
    ".wrong img{width:96px;height:96px;image-rendering:pixelated;border:1px solid var(--frame)}"
    ".note{color:var(--soft)}@media(max-width:800px){.charts{grid-template-columns:1fr}}";

/* --- pictures ------------------------------------------------------------------------------------------------------
 */
static void add_base64(braid_text *text, const uint8_t *data, size_t bytes) {
  static const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes; i += 3) {
    uint32_t group =
        (uint32_t)data[i] << 16 | (i + 1 < bytes ? (uint32_t)data[i + 1] << 8 : 0) | (i + 2 < bytes ? data[i + 2] : 0);
    char digits[4] = {kDigits[group >> 18], kDigits[group >> 12 & 63], i + 1 < bytes ? kDigits[group >> 6 & 63] : '=',
                      i + 2 < bytes ? kDigits[group & 63] : '='};
    braid_text_add_bytes(text, digits, sizeof digits);
  }
}

/* `label`, `guess`: the names of the classes, for readers who do not see the picture; NULL: there are none. */
static braid_status add_picture(const braid_allocator *allocator, braid_text *text, braid_dataset *dataset,
                                int64_t index, const char *label, const char *guess) {
  braid_dataset_info set = braid_dataset_get_info(dataset), *info = &set;
  size_t pixels = (size_t)info->height * (size_t)info->width * 3;
  uint8_t *rgb = braid_alloc(allocator, pixels);
  if (!rgb) return BRAID_NO_MEMORY;
  braid_status status = braid_dataset_picture(dataset, index, rgb);
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)info->width,
                     .height = (png_uint_32)info->height,
                     .format = PNG_FORMAT_RGB};
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  uint8_t *png = status == BRAID_OK ? braid_alloc(allocator, bytes) : NULL;
  if (status == BRAID_OK && !png) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK && !png_image_write_to_memory(&image, png, &bytes, 0, rgb, 0, NULL))
    status = braid_fail(BRAID_INTERNAL, "a picture could not be made: %s", image.message);
  if (status == BRAID_OK) {
    braid_text_printf(text, "<img alt=\"Sample %lld", (long long)index);
    if (label) {
      braid_text_add(text, ": ");
      braid_text_add_html(text, label);
      braid_text_add(text, ", taken for ");
      braid_text_add_html(text, guess);
    }
    braid_text_add(text, "\" src=\"data:image/png;base64,");
    add_base64(text, png, bytes);
    braid_text_add(text, "\">");
  }
  braid_free(allocator, png);
  braid_free(allocator, rgb);
  return status;
}

/* --- sections ------------------------------------------------------------------------------------------------------
 */
static void add_row(braid_text *text, const char *name, const char *format, double value) {
  braid_text_printf(text, "<tr><td>%s</td><td>", name);
  if (isfinite(value))
    braid_text_printf(text, format, value);
  else
    braid_text_add(text, "not measured");
  braid_text_add(text, "</td></tr>");
}

static void add_results(braid_text *text, const braid_test_result *r) {
  bool labels = r->target == BRAID_TARGET_LABELS;
  if (!r->classes) { /* an output is the loss */
    add_row(text, "test loss", "%.6g", r->loss);
  } else if (r->target == BRAID_TARGET_NUMBERS) {
    add_row(text, "mean squared error", "%.6g", r->mse);
    add_row(text, "mean absolute error", "%.6g", r->mae);
    add_row(text, "R\u00b2, mean over the numbers", "%.4f", r->r2);
  } else {
    add_row(text, labels ? "test accuracy (of all labels)" : "test accuracy", "%.2f %%", 100 * r->accuracy);
    if (labels) add_row(text, "all labels of a sample right", "%.2f %%", 100 * r->exact_match);
    add_row(text, "test loss", "%.4f", r->loss);
    add_row(text, "precision, mean over classes", "%.4f", r->precision);
    add_row(text, "recall, mean over classes", "%.4f", r->recall);
    add_row(text, "F1, mean over classes", "%.4f", r->f1);
    add_row(text, "area under the ROC curve, mean over classes", "%.4f", r->auc);
    add_row(text, "average precision, mean over classes", "%.4f", r->average_precision);
  }
  add_row(text, "test samples", "%.0f", (double)r->samples);
}

static void add_summary(braid_text *text, const braid_report *report) {
  const braid_record *record = report->record;
  static const char *const kOptimizers[] = {"SGD", "Adam", "AdamW", "WAGE"};
  static const char *const kSchedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", "linear"};
  const braid_train_options *o = report->options;
  braid_text_add(text, "<table>");
  if (report->result) {
    add_results(text, report->result);
  }
  if (record->count) {
    const double *last = record->rows[record->count - 1];
    if (isfinite(last[BRAID_RECORD_ACCURACY]))
      add_row(text, "training accuracy, last epoch", "%.2f %%", 100 * last[BRAID_RECORD_ACCURACY]);
    add_row(text, "training loss, last epoch", "%.4f", last[BRAID_RECORD_LOSS]);
    add_row(text, "seconds an epoch (measured, the last)", "%.2f", last[BRAID_RECORD_SECONDS]);
  }
  add_row(text, "epochs done", "%.0f", (double)record->count);
  if (record->count > 1) add_row(text, "best epoch", "%.0f", (double)braid_monitor_best(o, record) + 1);
  add_row(text, "parameters", "%.0f", (double)report->parameters);
  add_row(text, "batch", "%.0f", (double)o->batch);
  add_row(text, "learning rate", "%g", o->learning_rate);
  add_row(text, "weight decay", "%g", o->weight_decay);
  braid_text_printf(text, "<tr><td>optimizer</td><td>%s</td></tr><tr><td>schedule</td><td>%s</td></tr>",
                    kOptimizers[o->optimizer], o->optimizer == BRAID_WAGE ? "WAGE's" : kSchedules[o->schedule]);
  add_row(text, "seed", "%.0f", (double)o->seed);
  braid_text_add(text, "</table>\n");
}

/* Losses of an output and numbers have none. */
static bool has_accuracy(const braid_record *record) {
  for (size_t i = 0; i < record->count; i++)
    if (isfinite(record->rows[i][BRAID_RECORD_ACCURACY]) || isfinite(record->rows[i][BRAID_RECORD_TEST_ACCURACY]))
      return true;
  return false;
}

static void add_charts(braid_text *text, const braid_record *record) {
  static const braid_series kLoss[] = {{"training", "rgb(var(--blue))", BRAID_RECORD_LOSS},
                                       {"test", "rgb(var(--red))", BRAID_RECORD_TEST_LOSS}};
  static const braid_series kAccuracy[] = {{"training", "rgb(var(--blue))", BRAID_RECORD_ACCURACY},
                                           {"test", "rgb(var(--red))", BRAID_RECORD_TEST_ACCURACY}};
  static const braid_series kRate[] = {{"rate", "rgb(var(--green))", BRAID_RECORD_RATE}};
  static const braid_series kSeconds[] = {{"seconds", "rgb(var(--violet))", BRAID_RECORD_SECONDS}};
  const braid_chart_rows rows = {.numbers = record->count ? record->rows[0] : NULL,
                                 .count = record->count,
                                 .columns = BRAID_RECORD_COLUMNS,
                                 .unit = "epoch"};
  braid_text_add(text, "<div class=\"charts\">");
  braid_chart(text, "Loss", &rows, kLoss, 2);
  if (has_accuracy(record)) braid_chart(text, "Accuracy", &rows, kAccuracy, 2);
  braid_chart(text, "Learning rate at the end of the epoch", &rows, kRate, 1);
  braid_chart(text, "Seconds an epoch (measured)", &rows, kSeconds, 1);
  braid_text_add(text, "</div>\n");
}

enum { kMaxConfusionClasses = 40, kMaxNumbers = 200 };

static void add_number(braid_text *text, double value) {
  if (isfinite(value))
    braid_text_printf(text, "<td>%.4f</td>", value);
  else
    braid_text_add(text, "<td>none</td>");
}

static void add_classes(braid_text *text, const braid_dataset_info *info, const braid_test_result *result) {
  braid_text_add(text, "<h2>Classes</h2>");
  if (result->classes > kMaxConfusionClasses) {
    braid_text_printf(text, "<p class=\"note\">%d classes: the table is left out above %d.</p>", result->classes,
                      kMaxConfusionClasses);
    return;
  }
  braid_text_add(text, "<table><tr><th>class</th><th>samples</th><th>precision</th><th>recall</th><th>F1</th>"
                       "<th>AUC</th><th>AP</th></tr>");
  for (int c = 0; c < result->classes; c++) {
    const braid_class_result *of = &result->per_class[c];
    braid_text_add(text, "<tr><td>");
    braid_text_add_html(text, info->class_names[c]);
    braid_text_printf(text, "</td><td>%lld</td>", (long long)of->samples);
    add_number(text, of->precision);
    add_number(text, of->recall);
    add_number(text, of->f1);
    add_number(text, of->auc);
    add_number(text, of->average_precision);
    braid_text_add(text, "</tr>");
  }
  braid_text_add(text, "</table>\n");
}

static void add_numbers(braid_text *text, const braid_dataset_info *info, const braid_test_result *result) {
  braid_text_add(text, "<h2>Numbers</h2><table><tr><th>number</th><th>mean squared error</th><th>mean absolute "
                       "error</th><th>R\u00b2</th></tr>");
  for (int c = 0; c < result->classes && c < kMaxNumbers; c++) {
    braid_text_add(text, "<tr><td>");
    braid_text_add_html(text, info->class_names[c]);
    braid_text_printf(text, "</td><td>%.6g</td><td>%.6g</td><td>%.4f</td></tr>", result->per_number[c].squared_error,
                      result->per_number[c].absolute_error, result->per_number[c].r2);
  }
  braid_text_add(text, "</table>\n");
  if (result->classes > kMaxNumbers)
    braid_text_printf(text, "<p class=\"note\">%d more are left out.</p>", result->classes - kMaxNumbers);
}

static void add_confusion(braid_text *text, const braid_dataset_info *info, const braid_test_result *result) {
  braid_text_add(text, "<h2>Confusion</h2>");
  if (result->classes > kMaxConfusionClasses) {
    braid_text_printf(text, "<p class=\"note\">%d classes: the matrix is left out above %d.</p>", result->classes,
                      kMaxConfusionClasses);
    return;
  }
  braid_text_add(
      text, "<p class=\"note\">Rows are the truth, columns the guess.</p><table class=\"confusion\"><tr><th></th>");
  for (int c = 0; c < result->classes; c++) {
    braid_text_add(text, "<th>");
    braid_text_add_html(text, info->class_names[c]);
    braid_text_add(text, "</th>");
  }
  braid_text_add(text, "</tr>");
  for (int r = 0; r < result->classes; r++) {
    const int64_t *row = result->confusion + (int64_t)r * result->classes;
    int64_t total = 0;
    for (int c = 0; c < result->classes; c++) total += row[c];
    braid_text_add(text, "<tr><th>");
    braid_text_add_html(text, info->class_names[r]);
    braid_text_add(text, "</th>");
    for (int c = 0; c < result->classes; c++) {
      double share = total ? (double)row[c] / (double)total : 0;
      const char *hue = c == r ? "blue" : "red";
      braid_text_printf(text, "<td style=\"background:rgba(var(--%s),%.3f)\">%lld</td>", hue, sqrt(share),
                        (long long)row[c]);
    }
    braid_text_add(text, "</tr>");
  }
  braid_text_add(text, "</table>\n");
}

static braid_status add_worst(const braid_allocator *allocator, braid_text *text, const braid_report *report,
                              const braid_dataset_info *info) {
  const braid_test_result *result = report->result;
  bool classes = result->target == BRAID_TARGET_CLASS;
  braid_text_printf(text, "<h2>%s</h2><div class=\"wrong\">", classes ? "Worst classified" : "Highest loss");
  for (int64_t i = 0; i < result->worst_count; i++) {
    braid_text_add(text, "<figure>");
    const char *label = classes ? info->class_names[result->worst_label[i]] : NULL;
    bool taken = result->worst_guess[i] >= 0; /* its scores are numbers */
    const char *guess = !classes ? NULL : taken ? info->class_names[result->worst_guess[i]] : "none";
    BRAID_TRY(add_picture(allocator, text, report->test, result->worst_index[i], label, guess));
    braid_text_add(text, "<figcaption>");
    if (classes) {
      braid_text_add(text, "is <b>");
      braid_text_add_html(text, label);
      braid_text_add(text, "</b><br>taken for ");
      braid_text_add_html(text, guess);
      braid_text_add(text, "<br>");
    }
    braid_text_printf(text, "<span class=\"note\">sample %lld, loss %.2f</span></figcaption></figure>",
                      (long long)result->worst_index[i], result->worst_loss[i]);
  }
  braid_text_add(text, "</div>\n");
  return BRAID_OK;
}

void braid_page_begin(braid_text *text, const char *title) {
  braid_text_add(text, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                       "content=\"width=device-width\"><title>");
  braid_text_add_html(text, title);
  braid_text_printf(text, "</title><style>%s</style></head><body><h1>", braid_page_style);
  braid_text_add_html(text, title);
  braid_text_add(text, "</h1>\n");
}

void braid_page_end(braid_text *text) {
  braid_text_add(text, "</body></html>\n");
}

/* Training does not wait for the disk: the next epoch writes the page again. */
static braid_status end_page(const braid_allocator *allocator, const char *path, braid_text *text) {
  braid_writer *writer;
  braid_page_end(text);
  if (text->failed) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_writer_open(allocator, path, &writer));
  braid_status status = braid_writer_put(writer, text->data, text->length);
  if (status == BRAID_OK) return braid_writer_commit_unsynced(writer);
  braid_writer_abort(writer);
  return status;
}

braid_status braid_report_rates(const braid_allocator *allocator, const char *path, const braid_rate_search *search) {
  static const braid_series kSeries[] = {{"loss", "rgb(var(--violet))", 0}, {"smoothed", "rgb(var(--blue))", 1}};
  double most = 0;
  for (size_t i = 0; i < search->count; i++) most = fmax(most, search->points[i].smoothed);
  double *numbers = braid_zalloc_array(allocator, search->count + 1, 3 * sizeof *numbers);
  if (!numbers) return BRAID_NO_MEMORY;
  double *places = numbers + 2 * search->count;
  for (size_t i = 0; i < search->count; i++) {
    const braid_rate_point *p = &search->points[i];
    numbers[2 * i] = p->loss <= 2 * most ? p->loss : NAN; /* a last one far above all leaves no room to see them */
    numbers[2 * i + 1] = p->smoothed;
    places[i] = p->rate;
  }
  const braid_chart_rows rows = {
      .numbers = numbers, .count = search->count, .columns = 2, .unit = "learning rate", .places = places};
  braid_text text;
  braid_text_init(&text, allocator);
  braid_page_begin(&text, "Learning rate");
  braid_text_add(&text, "<table>");
  add_row(&text, "suggested: steepest descent of the loss", "%.3g", search->suggested);
  add_row(&text, "least smoothed loss at", "%.3g", search->lowest);
  add_row(&text, "steps", "%.0f", (double)search->count);
  braid_text_add(&text, "</table>\n<div class=\"charts\">");
  braid_chart(&text, "Loss over the learning rate", &rows, kSeries, 2);
  braid_text_add(&text, "</div>\n");
  braid_status status = end_page(allocator, path, &text);
  braid_text_deinit(&text);
  braid_free(allocator, numbers);
  return status;
}

braid_status braid_report_write(const braid_allocator *allocator, const char *path, const braid_report *report) {
  braid_text text;
  braid_text_init(&text, allocator);
  braid_page_begin(&text, report->title);
  add_summary(&text, report);
  add_charts(&text, report->record);
  braid_status status = BRAID_OK;
  if (report->test && report->result && report->result->classes) {
    braid_dataset_info info = braid_dataset_get_info(report->test);
    if (report->result->per_number)
      add_numbers(&text, &info, report->result);
    else
      add_classes(&text, &info, report->result);
    if (report->result->confusion) add_confusion(&text, &info, report->result);
    if (!info.table) status = add_worst(allocator, &text, report, &info); /* of pictures */
  }
  if (status == BRAID_OK) status = end_page(allocator, path, &text);
  braid_text_deinit(&text);
  return status;
}
