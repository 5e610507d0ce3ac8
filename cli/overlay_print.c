/* The evaluation as text, as a page and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "overlay_evaluation.h"

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static const char *format_number(double number, char buffer[32]) {
  snprintf(buffer, 32,
           fabs(number) >= 1e4   ? "%.0f"
           : fabs(number) < 0.01 ? "%.1g"
                                 : "%.4g",
           number); // NOLINT: literals
  return buffer;
}

static void add_span(cli_table *table, braid_overlay_span span) {
  char low[32], high[32];
  if (isnan(span.low))
    cli_table_cell(table, "-");
  else if (span.low == span.high)
    cli_table_cell(table, "%s", format_number(span.low, low));
  else
    cli_table_cell(table, "%s to %s", format_number(span.low, low), format_number(span.high, high));
}

static bool has_any(const braid_overlay_span spans[CLI_OVERLAY_COLUMNS]) {
  for (size_t c = 0; c < CLI_OVERLAY_COLUMNS; c++)
    if (!isnan(spans[c].low)) return true;
  return false;
}

static size_t count_columns(const char *columns) {
  size_t count = 1;
  for (; *columns; columns++) count += *columns == '|';
  return count;
}

static void add_row(cli_table *table, const cli_overlay_line *line, const char *figures,
                    const braid_overlay_span *spans, size_t columns) {
  if (!has_any(spans)) return;
  cli_table_cell(table, "%s", line->label);
  cli_table_cell(table, "%s", figures);
  for (size_t c = 0; c < columns; c++) add_span(table, spans[c]);
}

static void make_table(const cli_overlay_section *s, cli_table *table) {
  char head[256];
  size_t columns = count_columns(s->columns);
  snprintf(head, sizeof head, "%s|figures are|%s", s->subject, s->columns);
  cli_table_begin(table, s->title, s->count ? s->note : "None of the chosen networks is in it.", head);
  for (size_t i = 0; i < s->count; i++) {
    const cli_overlay_line *line = &s->lines[i];
    add_row(table, line, "published", line->published, columns);
    if (line->figures) add_row(table, line, line->figures, line->ours, columns);
  }
}

static bool does_hold(const cli_overlay_hold *hold) {
  return hold->at_least ? hold->ours >= hold->wanted : hold->ours <= hold->wanted;
}

static void make_holds(const cli_overlay *o, cli_table *table) {
  cli_table_begin(
      table, "What must hold",
      "Beside the published: a static compiler below 0.5 s, a dynamic one below 0.05 ms at 16 cores, a task "
      "that stops at a tile within 40 microseconds. Compilers are measured here and now, and slower where the "
      "machine is busy. Average loss is that of all our tilings. Policies are held against others on the same traces.",
      "what|wanted|ours|holds");
  for (size_t i = 0; i < o->hold_count; i++) {
    const cli_overlay_hold *hold = &o->holds[i];
    cli_table_cell(table, "%s", hold->what);
    char number[32];
    cli_table_cell(table, "%s %.4g%s%s", hold->at_least ? "at least" : "at most", hold->wanted,
                   hold->unit[0] ? " " : "", hold->unit);
    cli_table_cell(table, "%s", format_number(hold->ours, number));
    cli_table_cell(table, "%s", does_hold(hold) ? "yes" : "no");
  }
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void write_span(cli_json *json, const char *key, braid_overlay_span span) {
  char to[32];
  cli_json_number(json, key, span.low);
  if (isnan(span.low) || span.low == span.high) return;
  snprintf(to, sizeof to, "%s_to", key);
  cli_json_number(json, to, span.high);
}

static void write_line(cli_json *json, const cli_overlay_section *s, const cli_overlay_line *line) {
  const char *at = s->columns;
  for (size_t c = 0; c < count_columns(s->columns); c++) {
    size_t length = strcspn(at, "|");
    char what[64];
    snprintf(what, sizeof what, "%.*s", (int)length, at);
    at += at[length] ? length + 1 : length;
    if (isnan(line->published[c].low) && isnan(line->ours[c].low)) continue;
    cli_json_object(json, NULL);
    cli_json_string(json, "of", line->label);
    cli_json_string(json, "what", what);
    write_span(json, "published", line->published[c]);
    write_span(json, "ours", line->ours[c]);
    cli_json_string(json, "figures", line->figures ? line->figures : "published");
    cli_json_close(json, '}');
  }
}

static void write_section(cli_json *json, size_t index, const cli_overlay_section *s) {
  char name[32];
  cli_json_object(json, NULL);
  cli_json_string(json, "name", cli_overlay_name(index, name, sizeof name));
  cli_json_string(json, "title", s->title);
  cli_json_array(json, "rows");
  for (size_t i = 0; i < s->count; i++) write_line(json, s, &s->lines[i]);
  cli_json_close(json, ']');
  cli_json_string(json, "note", s->note);
  cli_json_close(json, '}');
}

static braid_status print_json(const cli_overlay *o) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_array(&json, "sections");
  for (size_t s = 0; s < CLI_OVERLAY_SECTIONS; s++)
    if (o->wanted[s]) write_section(&json, s, &o->sections[s]);
  cli_json_close(&json, ']');
  cli_json_array(&json, "must_hold");
  for (size_t i = 0; i < o->hold_count; i++) {
    const cli_overlay_hold *hold = &o->holds[i];
    cli_json_object(&json, NULL);
    cli_json_string(&json, "what", hold->what);
    cli_json_number(&json, hold->at_least ? "at_least" : "at_most", hold->wanted);
    cli_json_number(&json, "ours", hold->ours);
    cli_json_string(&json, "unit", hold->unit);
    cli_json_bool(&json, "holds", does_hold(hold));
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(&json) ? BRAID_OK : braid_fail(BRAID_IO, "standard output: the document could not be written");
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status print_tables(const cli_table *tables, size_t count) {
  puts("The overlay (Zeng et al. 2021), section 7: what was published, and what our compilers and simulators give. "
       "There "
       "is no such hardware here.");
  for (size_t i = 0; i < count; i++) cli_table_print(&tables[i], SIZE_MAX - 1);
  return BRAID_OK;
}

braid_status cli_overlay_show(const cli_overlay *o, bool json, const char *html) {
  cli_table tables[CLI_OVERLAY_SECTIONS + 1] = {{0}};
  braid_page_table pages[CLI_OVERLAY_SECTIONS + 1];
  size_t count = 0;
  for (size_t s = 0; s < CLI_OVERLAY_SECTIONS; s++)
    if (o->wanted[s]) make_table(&o->sections[s], &tables[count++]);
  if (o->hold_count) make_holds(o, &tables[count++]);
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < count; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && html)
    status =
        braid_tile_write_html(NULL, html, "The overlay: published, modelled, measured", NULL, NULL, 0, pages, count);
  if (status == BRAID_OK) status = json ? print_json(o) : print_tables(tables, count);
  for (size_t i = 0; i < count; i++) cli_table_end(&tables[i]);
  return status;
}
