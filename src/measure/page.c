/* What was measured as a page: time and power over bytes, and tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/profile.h"
#include "explore/page.h"
#include "train/report/chart.h"
#include "train/report/report.h"

enum { kDevices = 4, kOps = 12 };
static const char *const kColours[kDevices] = {"rgb(var(--blue))", "rgb(var(--red))", "rgb(var(--green))",
                                               "rgb(var(--violet))"};

typedef struct page {
  const braid_profile_list *list;
  braid_text text;
  braid_mark *marks; /* room for one of each entry */
} page;

static double seconds_ms(const braid_profile_entry *entry) {
  return entry->seconds * 1e3;
}

static double watts(const braid_profile_entry *entry) {
  return entry->average_watts;
}

/* Entries of a device that are of `op` (NULL: of any), alone on their device, with a number to draw that is not
 * assumed. */
static size_t collect(page *p, const char *device, const char *op, double (*number)(const braid_profile_entry *),
                      braid_mark *out) {
  size_t count = 0;
  for (size_t i = 0; i < p->list->entry_count; i++) {
    const braid_profile_entry *entry = &p->list->entries[i];
    if (strcmp(entry->device, device) != 0 || entry->beside[0] || (op && strcmp(entry->op, op) != 0)) continue;
    if (op && !entry->size) continue; /* of a model: in the chart of all */
    if (entry->size && strcmp(entry->size, "assumed") == 0) continue;
    if (number(entry) > 0 && entry->bytes > 0)
      out[count++] = (braid_mark){.x = entry->bytes * 1e-6, .y = number(entry)};
  }
  return count;
}

static void draw(page *p, const char *op, const char *title, const char *unit,
                 double (*number)(const braid_profile_entry *)) {
  braid_marks points[kDevices];
  char words[300];
  size_t used = 0, total = 0;
  for (size_t d = 0; d < p->list->device_count && used < kDevices; d++) {
    size_t count = collect(p, p->list->devices[d].device, op, number, p->marks + total);
    if (!count) continue;
    points[used] = (braid_marks){p->list->devices[d].device, kColours[used], p->marks + total, count, op != NULL};
    used++;
    total += count;
  }
  if (!total) return;
  snprintf(words, sizeof words, "%s: %s over megabytes read and written, %zu operations on %zu devices", title, unit,
           total, used);
  braid_text_add(&p->text, "<div>");
  braid_scatter(&p->text, title, words, "MB", unit, points, used);
  braid_text_add(&p->text, "</div>\n");
}

/* Whether an earlier entry is of the same op and was measured at a given size, too. */
static bool is_first(const braid_profile_list *list, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (list->entries[i].size && strcmp(list->entries[i].op, list->entries[index].op) == 0) return false;
  return list->entries[index].size != NULL;
}

static void draw_all(page *p) {
  size_t ops = 0;
  braid_text_add(&p->text, "<div class=\"charts\">\n");
  draw(p, NULL, "Time of all operations", "ms", seconds_ms);
  draw(p, NULL, "Power of all operations", "W", watts);
  for (size_t i = 0; i < p->list->entry_count && ops < kOps; i++) {
    char title[2][80];
    if (!is_first(p->list, i)) continue;
    snprintf(title[0], sizeof title[0], "%.40s: time", p->list->entries[i].op);
    snprintf(title[1], sizeof title[1], "%.40s: power", p->list->entries[i].op);
    draw(p, p->list->entries[i].op, title[0], "ms", seconds_ms);
    draw(p, p->list->entries[i].op, title[1], "W", watts);
    ops++;
  }
  braid_text_add(&p->text, "</div>\n");
}

static void add_note(braid_text *text, const char *note) {
  braid_text_add(text, "<p class=\"note\">");
  braid_text_add_html(text, note);
  braid_text_add(text, "</p>\n");
}

braid_status braid_profile_save_html(const braid_profile_list *list, const char *title, const char *note,
                                     const braid_page_table *tables, size_t table_count, const char *path) {
  page p = {.list = list};
  p.marks = braid_zalloc_array(NULL, list->entry_count + 1, sizeof *p.marks);
  if (!p.marks) return BRAID_NO_MEMORY;
  braid_text_init(&p.text, NULL);
  braid_page_begin(&p.text, title);
  if (note) add_note(&p.text, note);
  draw_all(&p);
  for (size_t i = 0; i < table_count; i++) braid_page_add_table(&p.text, &tables[i]);
  braid_page_end(&p.text);
  braid_status status = p.text.failed ? BRAID_NO_MEMORY : braid_file_write(NULL, path, p.text.data, p.text.length);
  braid_text_deinit(&p.text);
  braid_free(NULL, p.marks);
  return status;
}
