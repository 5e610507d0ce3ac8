/* Forecasts as placements of nodes on the devices of a machine that exists: a text that sessions run by. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/planning.h"

static const char kMagic[] = "# braid placement 1\n";
enum { kMostBytes = 64 << 20 };

/* --- writing -------------------------------------------------------------------------------------------------------
 */
/* Patterns of --place stand in quotes, and their '*' and '?' fit any letters. */
static bool is_plain(const char *name) {
  for (const unsigned char *at = (const unsigned char *)name; *at; at++)
    if (*at < ' ' || strchr("'*?", *at)) return false;
  return *name != '\0';
}

static size_t count_clocked(const braid_forecast *forecast) {
  size_t count = 0;
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++)
    count += braid_forecast_get_task(forecast, i).lower_clock;
  return count;
}

static braid_status check_task(const braid_forecast *forecast, size_t index) {
  const braid_forecast_task task = braid_forecast_get_task(forecast, index);
  if (task.devices > 1)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s is on %zu devices together, which only forecasts can be",
                      task.node, task.devices);
  if (is_plain(task.node)) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s: its name has a quote, a star, a question mark or a line's end",
                    task.node);
}

/* Devices, the one with most nodes first: it gets what the plan does not name. */
static void add_devices(const braid_forecast *forecast, braid_text *text) {
  size_t count = braid_forecast_device_count(forecast), most = 0;
  for (size_t d = 1; d < count; d++)
    if (braid_forecast_get_device(forecast, d).tasks > braid_forecast_get_device(forecast, most).tasks) most = d;
  braid_text_add(text, "devices");
  for (size_t i = 0; i <= count; i++) {
    size_t d = i ? i - 1 : most;
    braid_forecast_device device = braid_forecast_get_device(forecast, d);
    if (device.tasks && (!i || d != most)) braid_text_printf(text, " %s", device.name);
  }
  braid_text_add(text, "\n");
}

braid_status braid_forecast_save_placement(const braid_forecast *forecast, const char *what, int64_t batch,
                                           const char *path) {
  braid_text text;
  braid_status status = BRAID_OK;
  size_t tasks = braid_forecast_get_summary(forecast).tasks;
  braid_text_init(&text, NULL);
  braid_text_add(&text, kMagic);
  braid_text_printf(&text, "# %.500s\n", is_plain(what) ? what : "");
  add_devices(forecast, &text);
  if (batch > 0) braid_text_printf(&text, "batch %lld\n", (long long)batch);
  braid_text_add(&text, "ordered\n");
  size_t clocked = count_clocked(forecast);
  if (clocked) braid_text_printf(&text, "clocked %zu\n", clocked);
  for (size_t i = 0; i < tasks && status == BRAID_OK; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    status = check_task(forecast, i);
    braid_text_printf(&text, "%s %s\n", task.device, task.node);
  }
  if (status == BRAID_OK && text.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_file_write(text.allocator, path, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
bool braid_placement_is(const void *bytes, size_t count) {
  return count >= sizeof kMagic - 1 && memcmp(bytes, kMagic, sizeof kMagic - 1) == 0;
}

static braid_status fail_line(const char *name, size_t line, const char *expected) {
  return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: %s is expected", name, line, expected);
}

/* "DEVICE NAME" becomes "'NAME'=DEVICE ". */
static braid_status read_node(const char *name, size_t number, const char *line, braid_text *place) {
  size_t device = strcspn(line, " ");
  if (!device || line[device] != ' ' || !is_plain(line + device + 1) || strchr("'=,", line[0]))
    return fail_line(name, number, "a device, a blank and the name of a node");
  braid_text_printf(place, "%s'%s'=%.*s", place->length ? " " : "", line + device + 1, (int)device, line);
  return BRAID_OK;
}

static braid_status read_count(const char *name, size_t number, const char *text, const char *expected, int64_t *out) {
  return braid_parse_i64(text, out) && *out > 0 ? BRAID_OK : fail_line(name, number, expected);
}

/* `out` gets the numbers. */
static braid_status read_lines(const char *name, const char *text, size_t bytes, braid_text *devices, braid_text *place,
                               braid_placement *out) {
  char line[4096];
  size_t number = 0;
  for (size_t at = 0, length; at < bytes; at += length + 1) {
    const char *end = memchr(text + at, '\n', bytes - at);
    length = end ? (size_t)(end - (text + at)) : bytes - at;
    number++;
    if (length >= sizeof line || memchr(text + at, '\0', length)) return fail_line(name, number, "a line of text");
    memcpy(line, text + at, length);
    line[length] = '\0';
    if (!*line || *line == '#') continue;
    if (devices->length && strcmp(line, "ordered") == 0 && !place->length)
      braid_text_add(place, line);
    else if (devices->length && strncmp(line, "clocked ", 8) == 0)
      BRAID_TRY(read_count(name, number, line + 8, "\"clocked\" and how many nodes are", &out->clocked));
    else if (devices->length && !out->batch && !place->length && strncmp(line, "batch ", 6) == 0)
      BRAID_TRY(read_count(name, number, line + 6, "\"batch\" and how many samples it has", &out->batch));
    else if (devices->length)
      BRAID_TRY(read_node(name, number, line, place));
    else if (strncmp(line, "devices ", 8) == 0 && is_plain(line + 8))
      braid_text_add(devices, line + 8);
    else
      return fail_line(name, number, "\"devices\" and their names");
    if (devices->failed || place->failed) return BRAID_NO_MEMORY;
  }
  if (!strchr(place->length ? place->data : "", '=')) return fail_line(name, number, "a node");
  return BRAID_OK;
}

braid_status braid_placement_parse(const braid_allocator *allocator, const char *name, const void *text, size_t bytes,
                                   braid_placement *out) {
  braid_text devices, place;
  *out = (braid_placement){.allocator = allocator};
  if (!braid_placement_is(text, bytes)) return fail_line(name, 1, "\"# braid placement 1\"");
  braid_text_init(&devices, allocator);
  braid_text_init(&place, allocator);
  braid_status status = read_lines(name, text, bytes, &devices, &place, out);
  if (status == BRAID_OK) {
    out->devices = devices.data;
    out->place = place.data;
    return BRAID_OK;
  }
  braid_text_deinit(&devices);
  braid_text_deinit(&place);
  return status;
}

braid_status braid_placement_load(const braid_allocator *allocator, const char *path, braid_placement *out) {
  braid_file_view view;
  *out = (braid_placement){.allocator = allocator};
  BRAID_TRY(braid_file_open(allocator, path, kMostBytes, &view));
  braid_status status = braid_placement_parse(allocator, path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

void braid_placement_deinit(braid_placement *placement) {
  braid_free(placement->allocator, placement->devices);
  braid_free(placement->allocator, placement->place);
  *placement = (braid_placement){0};
}
