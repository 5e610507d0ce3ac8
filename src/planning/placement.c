/* Forecasts as placements of nodes on the devices of a machine that exists: a text that sessions run by. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/planning.h"

/* Of all formats; the number of ours follows. Format 1 did not say how many nodes there are. */
static const char kMagic[] = "# braid placement ", kFormat[] = "2";
enum { kMostBytes = 64 << 20, kLineBytes = 4096 /* with its end */ };

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

/* What is written can be read again. */
static braid_status check_lines(const char *text) {
  size_t number = 1;
  for (size_t length; *text; text += length + 1, number++) {
    length = strcspn(text, "\n");
    if (length >= kLineBytes)
      return braid_fail(BRAID_UNSUPPORTED, "line %zu of the plan has %zu bytes, and %d is the most", number, length,
                        kLineBytes - 1);
  }
  return BRAID_OK;
}

braid_status braid_forecast_save_placement(const braid_forecast *forecast, const char *what, int64_t batch,
                                           const char *path) {
  braid_text text;
  braid_status status = BRAID_OK;
  size_t tasks = braid_forecast_get_summary(forecast).tasks;
  braid_text_init(&text, NULL);
  braid_text_printf(&text, "%s%s\n", kMagic, kFormat);
  braid_text_printf(&text, "# %.500s\n", is_plain(what) ? what : "");
  add_devices(forecast, &text);
  if (batch > 0) braid_text_printf(&text, "batch %lld\n", (long long)batch);
  braid_text_add(&text, "ordered\n");
  size_t clocked = count_clocked(forecast);
  if (clocked) braid_text_printf(&text, "clocked %zu\n", clocked);
  braid_text_printf(&text, "nodes %zu\n", tasks);
  for (size_t i = 0; i < tasks && status == BRAID_OK; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    status = check_task(forecast, i);
    braid_text_printf(&text, "%s %s\n", task.device, task.node);
  }
  if (status == BRAID_OK && text.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = check_lines(text.data);
  if (status == BRAID_OK) status = braid_file_write(text.allocator, path, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
typedef struct reader {
  const char *name;
  size_t line; /* the one that is read, from 1 */
  braid_text devices, place;
  bool ordered;
  int64_t nodes, nodes_line, read; /* nodes: how many must come, 0: not said yet */
  braid_name_map *names;           /* of nodes, with their lines */
  braid_placement *out;
} reader;

static braid_status fail_line(const reader *r, const char *expected) {
  return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: %s is expected", r->name, r->line, expected);
}

static braid_status fail_cut(const reader *r) {
  if (r->nodes)
    return braid_fail(BRAID_INVALID_FILE,
                      "%.200s:%zu: the file was cut: it ends after %lld of the %lld nodes of line %lld", r->name,
                      r->line, (long long)r->read, (long long)r->nodes, (long long)r->nodes_line);
  return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: the file was cut: it ends before \"nodes\" and how many there are",
                    r->name, r->line);
}

/* "DEVICE NAME" becomes "'NAME'=DEVICE ". */
static braid_status read_node(reader *r, const char *line) {
  size_t device = strcspn(line, " ");
  const char *node = line + device + 1;
  int64_t before;
  if (r->read == r->nodes)
    return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: line %lld has %lld nodes, and this is one more", r->name,
                      r->line, (long long)r->nodes_line, (long long)r->nodes);
  if (!device || line[device] != ' ' || !is_plain(node) || strchr("'=,", line[0]))
    return fail_line(r, "a device, a blank and the name of a node");
  if (braid_name_map_get(r->names, node, &before))
    return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: node %.120s is on line %lld already; each node is expected once",
                      r->name, r->line, node, (long long)before);
  BRAID_TRY(braid_name_map_set(r->names, node, (int64_t)r->line));
  braid_text_printf(&r->place, "%s'%s'=%.*s", r->place.length ? " " : "", node, (int)device, line);
  r->read++;
  return BRAID_OK;
}

/* "KEY COUNT", once; false: it is another line. */
static bool read_count(reader *r, const char *line, const char *key, int64_t *out, braid_status *status) {
  size_t length = strlen(key);
  if (strncmp(line, key, length) != 0 || line[length] != ' ') return false;
  if (*out)
    *status = braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: \"%s\" comes twice", r->name, r->line, key);
  else if (!braid_parse_i64(line + length + 1, out) || *out <= 0)
    *status =
        braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: \"%s\" and a number above 0 is expected", r->name, r->line, key);
  return true;
}

/* What stands above the nodes. */
static braid_status read_head(reader *r, const char *line) {
  braid_status status = BRAID_OK;
  if (!r->devices.length) {
    if (strncmp(line, "devices ", 8) != 0 || !is_plain(line + 8)) return fail_line(r, "\"devices\" and their names");
    braid_text_add(&r->devices, line + 8);
  } else if (strcmp(line, "ordered") == 0 && !r->ordered) {
    r->ordered = true;
    braid_text_add(&r->place, line);
  } else if (read_count(r, line, "nodes", &r->nodes, &status)) {
    r->nodes_line = (int64_t)r->line;
  } else if (!read_count(r, line, "batch", &r->out->batch, &status) &&
             !read_count(r, line, "clocked", &r->out->clocked, &status)) {
    return fail_line(r, r->ordered ? "\"batch\", \"clocked\" or \"nodes\" with a number"
                                   : "\"ordered\", or \"batch\", \"clocked\" or \"nodes\" with a number");
  }
  return status;
}

/* Every line ends with a line's end, the last one too, so that a name that was cut is not taken for a shorter one. */
static braid_status read_lines(reader *r, const char *text, size_t bytes) {
  char line[kLineBytes];
  for (size_t at = 0, length; at < bytes; at += length + 1) {
    const char *end = memchr(text + at, '\n', bytes - at);
    length = end ? (size_t)(end - (text + at)) : bytes - at;
    r->line++;
    if (length >= kLineBytes || memchr(text + at, '\0', length)) return fail_line(r, "a line of text");
    memcpy(line, text + at, length);
    line[length] = '\0';
    if (!end)
      return braid_fail(BRAID_INVALID_FILE, "%.200s:%zu: the file was cut: it ends within a line", r->name, r->line);
    if (!*line || *line == '#') continue;
    BRAID_TRY(r->nodes ? read_node(r, line) : read_head(r, line));
    if (r->devices.failed || r->place.failed) return BRAID_NO_MEMORY;
  }
  return r->nodes && r->read == r->nodes ? BRAID_OK : fail_cut(r);
}

bool braid_placement_is(const void *bytes, size_t count) {
  return count >= sizeof kMagic - 1 && memcmp(bytes, kMagic, sizeof kMagic - 1) == 0;
}

static braid_status check_format(const char *name, const char *text, size_t bytes) {
  size_t start = sizeof kMagic - 1, length = sizeof kFormat - 1;
  if (!braid_placement_is(text, bytes))
    return braid_fail(BRAID_INVALID_FILE, "%.200s:1: \"%s%s\" is expected", name, kMagic, kFormat);
  if (bytes > start + length && memcmp(text + start, kFormat, length) == 0 && text[start + length] == '\n')
    return BRAID_OK;
  const char *end = memchr(text + start, '\n', bytes - start);
  size_t given = end ? (size_t)(end - (text + start)) : bytes - start;
  return braid_fail(
      BRAID_INVALID_FILE,
      "%.200s:1: a plan of format %.*s, and format %s is expected; `braid plan --save FILE` makes it anew", name,
      (int)(given < 20 ? given : 20), text + start, kFormat);
}

braid_status braid_placement_parse(const braid_allocator *allocator, const char *name, const void *text, size_t bytes,
                                   braid_placement *out) {
  *out = (braid_placement){.allocator = allocator};
  BRAID_TRY(check_format(name, text, bytes));
  reader r = {.name = name, .out = out};
  braid_text_init(&r.devices, allocator);
  braid_text_init(&r.place, allocator);
  braid_status status = braid_name_map_create(allocator, &r.names);
  if (status == BRAID_OK) status = read_lines(&r, text, bytes);
  braid_name_map_destroy(r.names);
  if (status == BRAID_OK) {
    out->devices = r.devices.data;
    out->place = r.place.data;
    return BRAID_OK;
  }
  braid_text_deinit(&r.devices);
  braid_text_deinit(&r.place);
  out->batch = out->clocked = 0;
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
