/* What a database of profiles has: tables, JSON, a page. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles.h"

typedef struct view {
  const cli_profile_options *options;
  const braid_profile_list *list;
  const braid_profile_report *report;
  braid_profile_threshold *thresholds;
  size_t threshold_count;
} view;

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static void add_number(cli_table *table, const char *format, double value) {
  if (isnan(value))
    cli_table_cell(table, "?");
  else
    cli_table_cell(table, format, value); /* NOLINT(clang-diagnostic-format-nonliteral) */
}

static void add_text(cli_table *table, const char *text) {
  cli_table_cell(table, "%s", text ? text : "?");
}

/* A row of a published profile that its publication does not have. */
static bool is_assumed(const braid_profile_entry *e) {
  return e->size && strcmp(e->size, "assumed") == 0;
}

/* What is to be known before the numbers are used. */
static void add_state(cli_table *table, const braid_profile_entry *e) {
  if (e->why)
    cli_table_cell(table, "not measured: %.90s", e->why);
  else if (e->stale)
    cli_table_cell(table, "stale: %.90s", e->stale);
  else if (is_assumed(e))
    cli_table_cell(table, "assumed");
  else if (strcmp(e->source, "measured") != 0)
    cli_table_cell(table, "published");
  else
    cli_table_cell(table, "%s", e->beside);
}

static void add_numbers(cli_table *table, const braid_profile_entry *e) {
  add_number(table, "%.4g", e->seconds * 1e3);
  add_number(table, "%.2g", e->seconds_mad * 1e3);
  add_number(table, "%.4g", e->seconds_mean * 1e3);
  add_number(table, "%.0f", e->runs < 0 ? NAN : (double)e->runs);
  add_number(table, "%.1f", e->peak_watts);
  add_number(table, "%.1f", e->average_watts);
  if (isnan(e->joules) || isnan(e->joules_error))
    add_number(table, "%.3g", e->joules * 1e3);
  else
    cli_table_cell(table, "%.3g+-%.1g", e->joules * 1e3, e->joules_error * 1e3);
  add_number(table, "%.3g", e->bytes_per_second * 1e-9);
  add_number(table, "%.2f", e->instructions_per_cycle);
  add_state(table, e);
}

static const char kNote[] = "ms: median; MAD: median absolute deviation, and mean of the runs, in ms. W: over a window "
                            "of the sensor at its peak, on "
                            "average; mJ: of one run, and its error. IPC: instructions per cycle. ?: unknown.";

static int size_rank(const char *size) {
  return strcmp(size, "small") == 0 ? 0 : strcmp(size, "medium") == 0 ? 1 : strcmp(size, "large") == 0 ? 2 : 3;
}

/* By op, size, device: as the published table stands. */
static int as_published(const void *left, const void *right) {
  const braid_profile_entry *a = *(const braid_profile_entry *const *)left;
  const braid_profile_entry *b = *(const braid_profile_entry *const *)right;
  int op = strcmp(a->op, b->op), size = size_rank(a->size) - size_rank(b->size), device = strcmp(a->device, b->device);
  if (op || size) return op ? op : size;
  return device                     ? device
         : a->devices != b->devices ? (a->devices > b->devices) - (a->devices < b->devices)
                                    : strcmp(a->beside, b->beside);
}

static int longest_first(const void *left, const void *right) {
  const braid_profile_entry *a = *(const braid_profile_entry *const *)left;
  const braid_profile_entry *b = *(const braid_profile_entry *const *)right;
  if (isnan(a->seconds) || isnan(b->seconds)) return isnan(a->seconds) - isnan(b->seconds);
  return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static size_t pick(const view *v, bool sized, const braid_profile_entry **out) {
  size_t count = 0;
  for (size_t i = 0; i < v->list->entry_count; i++)
    if (!v->list->entries[i].size != sized) out[count++] = &v->list->entries[i];
  qsort(out, count, sizeof *out, sized ? as_published : longest_first);
  return count;
}

static void make_published(const view *v, const braid_profile_entry **rows, cli_table *table) {
  size_t count = pick(v, true, rows);
  cli_table_begin(table, "Operations at three sizes (Table 1 of Hype-training)", kNote,
                  "op|size|device|ms|MAD|mean|runs|peak W|average W|mJ|GB/s|IPC|");
  for (size_t i = 0; i < count; i++) {
    add_text(table, rows[i]->op);
    add_text(table, rows[i]->size);
    if (rows[i]->devices > 1)
      cli_table_cell(table, "%" PRId64 " x %s", rows[i]->devices, rows[i]->device);
    else
      add_text(table, rows[i]->device);
    add_numbers(table, rows[i]);
  }
}

static void make_models(const view *v, const braid_profile_entry **rows, cli_table *table) {
  size_t count = pick(v, false, rows);
  cli_table_begin(table, "Operations of models, the longest first", NULL,
                  "op|shapes|device|ms|MAD|mean|runs|peak W|average W|mJ|GB/s|IPC|");
  for (size_t i = 0; i < count; i++) {
    add_text(table, rows[i]->op);
    cli_table_cell(table, "%.56s", rows[i]->shapes);
    add_text(table, rows[i]->device);
    add_numbers(table, rows[i]);
  }
}

static void make_devices(const view *v, cli_table *table) {
  cli_table_begin(table, "Devices", NULL, "device|idle W|energy by|link ms|link GB/s|measured|description");
  for (size_t i = 0; i < v->list->device_count; i++) {
    const braid_profile_device *d = &v->list->devices[i];
    add_text(table, d->device);
    add_number(table, "%.2f", d->idle_watts);
    add_text(table, d->energy_source);
    add_number(table, "%.4f", d->link_seconds * 1e3);
    add_number(table, "%.2f", d->link_bytes_per_second * 1e-9);
    add_text(table, strcmp(d->source, "measured") == 0 ? d->date : d->source);
    cli_table_cell(table, "%s%s%s", d->description ? d->description : "", d->software ? ", " : "",
                   d->software ? d->software : "");
  }
}

static void make_thresholds(const view *v, cli_table *table) {
  cli_table_begin(table, "Thresholds: where another device stops being faster", NULL, "op|fast device|other|GB/s|IPC|");
  for (size_t i = 0; i < v->threshold_count; i++) {
    const braid_profile_threshold *t = &v->thresholds[i];
    bool crossing = t->stops && t->ever;
    add_text(table, t->op);
    add_text(table, t->fast);
    add_text(table, t->other);
    add_number(table, "%.1f", crossing ? t->gigabytes_per_second : NAN);
    add_number(table, "%.2f", crossing ? t->instructions_per_cycle : NAN);
    cli_table_cell(table, "%s",
                   crossing   ? "below these an operation is a candidate for the other"
                   : t->stops ? "the other is faster at no size: no candidates"
                              : "the other is the faster one at the largest size: all are candidates");
  }
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void print_notes(const view *v) {
  size_t stale = 0, noted = 0;
  for (size_t i = 0; i < v->list->entry_count; i++) stale += v->list->entries[i].stale != NULL;
  for (size_t i = 0; i < v->list->device_count; i++)
    if (v->list->devices[i].energy_note)
      printf("%s%s: energy: %s\n", noted++ ? "" : "\n", v->list->devices[i].device, v->list->devices[i].energy_note);
  for (size_t i = 0; i < v->list->entry_count; i++) {
    const braid_profile_entry *e = &v->list->entries[i];
    bool told = !e->ipc_note;
    for (size_t k = 0; k < i && !told; k++)
      told = v->list->entries[k].ipc_note && strcmp(v->list->entries[k].device, e->device) == 0 &&
             strcmp(v->list->entries[k].ipc_note, e->ipc_note) == 0;
    if (!told) printf("%s: instructions per cycle: %s\n", e->device, e->ipc_note);
  }
  if (stale)
    printf("%zu of %zu entries are stale: braid profile measures them again when their operations are asked for.\n",
           stale, v->list->entry_count);
}

static void print_report(const view *v) {
  const braid_profile_report *r = v->report;
  if (!r) return;
  printf("%zu operations in %s: %zu measured (%zu of them stale before), %zu there already", r->operations,
         v->options->db, r->measured, r->stale, r->kept);
  if (r->unable) printf(", %zu that the device cannot run", r->unable);
  printf("; %zu measured again for drift, %zu drift\n", r->checked, r->drifting);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_text(cli_json *json, const char *key, const char *text) {
  if (text)
    cli_json_string(json, key, text);
  else
    cli_json_number(json, key, NAN); /* null */
}

static void json_devices(cli_json *json, const braid_profile_list *list) {
  cli_json_array(json, "devices");
  for (size_t i = 0; i < list->device_count; i++) {
    const braid_profile_device *d = &list->devices[i];
    cli_json_object(json, NULL);
    json_text(json, "device", d->device);
    json_text(json, "kind", d->kind);
    json_text(json, "description", d->description);
    json_text(json, "software", d->software);
    json_text(json, "version", d->version);
    json_text(json, "source", d->source);
    json_text(json, "date", d->date);
    cli_json_number(json, "threads", d->threads < 0 ? NAN : (double)d->threads);
    cli_json_number(json, "idle_w", d->idle_watts);
    cli_json_number(json, "idle_error_w", d->idle_watts_error);
    json_text(json, "energy_source", d->energy_source);
    json_text(json, "energy_note", d->energy_note);
    cli_json_number(json, "sensor_window_ms", d->window_seconds * 1e3);
    cli_json_number(json, "link_latency_ms", d->link_seconds * 1e3);
    cli_json_number(json, "link_gb_per_s", d->link_bytes_per_second * 1e-9);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_entry(cli_json *json, const braid_profile_entry *e) {
  cli_json_object(json, NULL);
  json_text(json, "device", e->device);
  cli_json_integer(json, "devices", e->devices);
  json_text(json, "op", e->op);
  json_text(json, "size", e->size);
  json_text(json, "shapes", e->shapes);
  json_text(json, "beside", e->beside[0] ? e->beside : NULL);
  json_text(json, "kernel", e->kernel);
  json_text(json, "source", e->source);
  json_text(json, "date", e->date);
  json_text(json, "stale", e->stale);
  json_text(json, "why_not", e->why);
  cli_json_number(json, "bytes", e->bytes);
  cli_json_number(json, "macs", e->macs);
  cli_json_number(json, "ms", e->seconds * 1e3);
  cli_json_number(json, "mean_ms", e->seconds_mean * 1e3);
  cli_json_number(json, "mad_ms", e->seconds_mad * 1e3);
  cli_json_number(json, "runs", e->runs < 0 ? NAN : (double)e->runs);
  cli_json_number(json, "energy_j", e->joules);
  cli_json_number(json, "energy_error_j", e->joules_error);
  json_text(json, "energy_source", e->energy_source);
  cli_json_number(json, "average_w", e->average_watts);
  cli_json_number(json, "peak_w", e->peak_watts);
  cli_json_number(json, "busy", e->busy);
  cli_json_number(json, "gb_per_s", e->bytes_per_second * 1e-9);
  cli_json_number(json, "instructions_per_cycle", e->instructions_per_cycle);
  json_text(json, "instructions_per_cycle_note", e->ipc_note);
  cli_json_number(json, "previous_ms", e->previous_seconds * 1e3);
  cli_json_number(json, "drift_mads", e->drift);
  cli_json_close(json, '}');
}

static void json_thresholds(cli_json *json, const view *v) {
  cli_json_array(json, "thresholds");
  for (size_t i = 0; i < v->threshold_count; i++) {
    const braid_profile_threshold *t = &v->thresholds[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "op", t->op);
    cli_json_string(json, "fast", t->fast);
    cli_json_string(json, "other", t->other);
    cli_json_bool(json, "faster_at_some_size", t->ever);
    cli_json_bool(json, "stops_being_faster", t->stops);
    cli_json_number(json, "gb_per_s", t->ever ? t->gigabytes_per_second : NAN);
    cli_json_number(json, "instructions_per_cycle", t->ever ? t->instructions_per_cycle : NAN);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static braid_status print_json(const view *v) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "db", v->options->db);
  if (v->options->forget_bad) cli_json_integer(&json, "forgotten", (int64_t)v->options->forgotten);
  if (v->report) {
    cli_json_integer(&json, "operations", (int64_t)v->report->operations);
    cli_json_integer(&json, "measured", (int64_t)v->report->measured);
    cli_json_integer(&json, "unable", (int64_t)v->report->unable);
    cli_json_integer(&json, "kept", (int64_t)v->report->kept);
    cli_json_integer(&json, "stale", (int64_t)v->report->stale);
    cli_json_integer(&json, "checked", (int64_t)v->report->checked);
    cli_json_integer(&json, "drifting", (int64_t)v->report->drifting);
  }
  json_devices(&json, v->list);
  cli_json_array(&json, "entries");
  for (size_t i = 0; i < v->list->entry_count; i++) json_entry(&json, &v->list->entries[i]);
  cli_json_close(&json, ']');
  json_thresholds(&json, v);
  return cli_json_end(&json) ? BRAID_OK : cli_no_memory();
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
enum { TABLES = 4 };

static braid_status show_tables(const view *v, const braid_profile_entry **rows) {
  const cli_profile_options *o = v->options;
  cli_table tables[TABLES];
  braid_page_table pages[TABLES];
  bool failed = false;
  make_devices(v, &tables[0]);
  make_published(v, rows, &tables[1]);
  make_thresholds(v, &tables[2]);
  make_models(v, rows, &tables[3]);
  for (int i = 0; i < TABLES; i++) {
    failed |= tables[i].failed;
    pages[i] = cli_table_page(&tables[i]);
    bool empty = tables[i].count == tables[i].columns;
    if (o->show && !o->common.json && !failed && !empty) cli_table_print(&tables[i], i == 3 ? (size_t)o->rows : 1000);
  }
  braid_status status = failed ? cli_no_memory() : BRAID_OK;
  if (o->html && status == BRAID_OK)
    status = braid_profile_save_html(v->list, "Profile of operations",
                                     "Measured on this machine, except what is called published, and what is called "
                                     "assumed, which nobody has published or measured. Both axes are logarithmic. "
                                     "Unknown and assumed numbers are not drawn.",
                                     pages, TABLES, o->html);
  for (int i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

braid_status cli_profile_show(const cli_profile_options *o, braid_profile_db *db, braid_profile_list *list,
                              const braid_profile_report *report) {
  view v = {.options = o, .list = list, .report = report};
  braid_status status = braid_profile_thresholds(db, list, NULL, NULL, &v.thresholds, &v.threshold_count);
  if (status != BRAID_OK) return status;
  const braid_profile_entry **rows = calloc(list->entry_count + 1, sizeof *rows);
  status = rows ? BRAID_OK : cli_no_memory();
  if (status == BRAID_OK && !o->common.json) print_report(&v);
  if (status == BRAID_OK) status = show_tables(&v, rows);
  if (status == BRAID_OK && o->common.json) status = print_json(&v);
  if (status == BRAID_OK && o->show && !o->common.json) print_notes(&v);
  free(rows);
  braid_free(NULL, v.thresholds);
  return status;
}
