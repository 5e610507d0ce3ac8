/* What was explored as a drawing and as a page, with the charts and the style of training reports. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/explore.h"
#include "explore/page.h"
#include "train/report/chart.h"
#include "train/report/report.h"

typedef struct drawing {
  braid_mark *points; /* the front, then the named */
  char (*labels)[32];
  size_t front, named;
} drawing;

/* Slower designs than this many times the fastest would press the others together. */
static const double kSlowest = 20;

/* Designs of equal DSPs lie above each other: their labels go to both sides. */
static bool shares_place(const braid_tile_result *named, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (named[i].dsps == named[index].dsps) return true;
  return false;
}

static braid_status drawing_create(const braid_allocator *allocator, const braid_tile_search *search,
                                   const braid_tile_result *named, size_t named_count, drawing *out) {
  *out = (drawing){.named = named_count};
  out->points = braid_zalloc_array(allocator, search->front_count + out->named + 1, sizeof *out->points);
  out->labels = braid_zalloc_array(allocator, out->named + 1, sizeof *out->labels);
  if (!out->points || !out->labels) {
    braid_free(allocator, out->points);
    braid_free(allocator, out->labels);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < search->front_count; i++) {
    const braid_tile_result *r = &search->results[search->front[i]];
    if (r->total_ms > kSlowest * search->results[search->front[0]].total_ms) break; /* fastest first */
    out->points[out->front++] = (braid_mark){.x = r->dsps, .y = r->total_ms};
  }
  for (size_t i = 0; i < out->named; i++) {
    const braid_tile_result *r = &named[i];
    snprintf(out->labels[i], sizeof *out->labels, "%lld, %lld", (long long)r->design.tb, (long long)r->design.ti);
    out->points[out->front + i] = (braid_mark){.x = r->dsps,
                                               .y = r->total_ms,
                                               .label = out->labels[i],
                                               .hollow = !r->fits,
                                               .label_left = shares_place(named, i)};
  }
  return BRAID_OK;
}

static void add_drawing(braid_text *text, const char *title, const drawing *d) {
  char words[256] = "No design fits.";
  if (d->front)
    snprintf(
        words, sizeof words,
        "Milliseconds of a step over DSPs: %zu designs that no other one beats, from %.4g ms with %.0f DSPs to %.4g "
        "ms with %.0f",
        d->front, d->points[0].y, d->points[0].x, d->points[d->front - 1].y, d->points[d->front - 1].x);
  const braid_marks points[] = {
      {"no other design beats", "rgb(var(--blue))", d->points, d->front, true},
      {"T_B, T_I (o: does not fit)", "rgb(var(--red))", d->points + d->front, d->named, false},
  };
  braid_scatter(text, title, words, "DSPs", "ms a step", points, 2);
}

static braid_status draw(const braid_allocator *allocator, braid_text *text, const char *title,
                         const braid_tile_search *search, const braid_tile_result *named, size_t named_count) {
  drawing d;
  BRAID_TRY(drawing_create(allocator, search, named, named_count, &d));
  add_drawing(text, title, &d);
  braid_free(allocator, d.points);
  braid_free(allocator, d.labels);
  return BRAID_OK;
}

static braid_status finish(const braid_allocator *allocator, const char *path, braid_status status, braid_text *text) {
  if (status == BRAID_OK && text->failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_file_write(allocator, path, text->data, text->length);
  braid_text_deinit(text);
  return status;
}

braid_status braid_tile_write_svg(const braid_allocator *allocator, const char *path, const char *title,
                                  const braid_tile_search *search, const braid_tile_result *named, size_t named_count) {
  braid_text text;
  braid_text_init(&text, allocator);
  braid_text_printf(&text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 560 260\"><style>%s</style>"
                    "<rect width=\"560\" height=\"260\" style=\"fill:var(--page)\"/>\n",
                    braid_page_style);
  braid_status status = draw(allocator, &text, title, search, named, named_count);
  braid_text_add(&text, "</svg>\n");
  return finish(allocator, path, status, &text);
}

void braid_page_add_table(braid_text *text, const braid_page_table *table) {
  braid_text_add(text, "<h2>");
  braid_text_add_html(text, table->title);
  braid_text_add(text, "</h2>\n");
  if (table->note) {
    braid_text_add(text, "<p class=\"note\">");
    braid_text_add_html(text, table->note);
    braid_text_add(text, "</p>\n");
  }
  braid_text_add(text, "<table>");
  for (size_t row = 0; row < table->rows; row++) {
    braid_text_add(text, "<tr>");
    for (size_t column = 0; column < table->columns; column++) {
      braid_text_add(text, row ? "<td>" : "<th>");
      braid_text_add_html(text, table->cells[row * table->columns + column]);
      braid_text_add(text, row ? "</td>" : "</th>");
    }
    braid_text_add(text, "</tr>\n");
  }
  braid_text_add(text, "</table>\n");
}

braid_status braid_tile_write_html(const braid_allocator *allocator, const char *path, const char *title,
                                   const braid_tile_search *search, const braid_tile_result *named, size_t named_count,
                                   const braid_page_table *tables, size_t table_count) {
  braid_text text;
  braid_text_init(&text, allocator);
  braid_page_begin(&text, title);
  braid_status status = BRAID_OK;
  if (search) {
    braid_text_add(&text, "<div style=\"max-width:840px\">");
    status = draw(allocator, &text, "Time and DSPs", search, named, named_count);
    braid_text_add(&text, "</div>\n");
  }
  for (size_t i = 0; i < table_count; i++) braid_page_add_table(&text, &tables[i]);
  braid_page_end(&text);
  return finish(allocator, path, status, &text);
}
