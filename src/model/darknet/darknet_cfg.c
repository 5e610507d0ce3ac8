#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "model/darknet/darknet.h"

/* Darknet drops all white space of a line before it looks at it. */
static char *stripped(braid_arena *arena, const char *line, size_t length, size_t *out_length) {
  char *copy = braid_arena_text(arena, line, length);
  size_t count = 0;
  for (size_t i = 0; copy && i < length; i++)
    if (!isspace((unsigned char)line[i])) copy[count++] = line[i];
  if (copy) copy[count] = 0;
  *out_length = count;
  return copy;
}

static braid_status add_section(braid_cfg *cfg, char *line, size_t length, int number) {
  if (line[length - 1] != ']' || length < 3)
    return braid_fail(BRAID_INVALID_FILE, "%s:%d: \"%.80s\", expected [section]", cfg->path, number, line);
  if (cfg->count >= BRAID_DARKNET_MAX_LAYERS)
    return braid_fail(BRAID_INVALID_FILE, "%s:%d: more than %d sections", cfg->path, number, BRAID_DARKNET_MAX_LAYERS);
  braid_cfg_section *sections = braid_grow(cfg->allocator, cfg->sections, cfg->count, &cfg->capacity, sizeof *sections);
  if (!sections) return BRAID_NO_MEMORY;
  cfg->sections = sections;
  line[length - 1] = 0;
  sections[cfg->count++] = (braid_cfg_section){.type = line + 1, .line = number};
  return BRAID_OK;
}

static braid_status add_option(braid_cfg *cfg, char *line, int number) {
  char *equals = strchr(line, '=');
  if (!equals || equals == line)
    return braid_fail(BRAID_INVALID_FILE, "%s:%d: \"%.80s\", expected key=value", cfg->path, number, line);
  if (!cfg->count)
    return braid_fail(BRAID_INVALID_FILE, "%s:%d: \"%.80s\" stands before the first [section]", cfg->path, number,
                      line);
  *equals = 0;
  braid_cfg_section *section = &cfg->sections[cfg->count - 1];
  braid_cfg_option *options =
      braid_grow(cfg->allocator, section->options, section->count, &section->capacity, sizeof *options);
  if (!options) return BRAID_NO_MEMORY;
  section->options = options;
  options[section->count++] = (braid_cfg_option){.key = line, .value = equals + 1, .line = number};
  return BRAID_OK;
}

static braid_status parse_lines(braid_cfg *cfg, const char *text, size_t bytes) {
  int number = 0;
  for (size_t at = 0; at < bytes;) {
    const char *newline = memchr(text + at, '\n', bytes - at);
    size_t length = newline ? (size_t)(newline - (text + at)) : bytes - at, kept;
    number++;
    if (memchr(text + at, 0, length))
      return braid_fail(BRAID_INVALID_FILE, "%s:%d: holds a byte of value 0, expected text", cfg->path, number);
    char *line = stripped(cfg->arena, text + at, length, &kept);
    if (!line) return BRAID_NO_MEMORY;
    at += length + 1;
    if (!kept || *line == '#' || *line == ';') continue;
    BRAID_TRY(*line == '[' ? add_section(cfg, line, kept, number) : add_option(cfg, line, number));
  }
  return BRAID_OK;
}

braid_status braid_cfg_parse(const braid_allocator *allocator, const char *path, const char *text, size_t bytes,
                             braid_cfg *out) {
  *out = (braid_cfg){.allocator = allocator, .path = path};
  if (bytes > BRAID_DARKNET_MAX_CFG_BYTES)
    return braid_fail(BRAID_INVALID_FILE, "%s: has %zu bytes, a .cfg has at most %d", path, bytes,
                      BRAID_DARKNET_MAX_CFG_BYTES);
  braid_status status = braid_arena_create(allocator, &out->arena);
  if (status == BRAID_OK) status = parse_lines(out, text, bytes);
  if (status == BRAID_OK && !out->count)
    status = braid_fail(BRAID_INVALID_FILE, "%s: is empty, expected [net] and layers", path);
  if (status != BRAID_OK) braid_cfg_deinit(out);
  return status;
}

void braid_cfg_deinit(braid_cfg *cfg) {
  for (size_t i = 0; i < cfg->count; i++) braid_free(cfg->allocator, cfg->sections[i].options);
  braid_free(cfg->allocator, cfg->sections);
  braid_arena_destroy(cfg->arena);
  *cfg = (braid_cfg){0};
}

static void remember(braid_cfg *cfg, const braid_cfg_section *section, const char *key) {
  if (cfg->asked_of != section) cfg->asked_count = 0;
  cfg->asked_of = section;
  for (size_t i = 0; i < cfg->asked_count; i++)
    if (strcmp(cfg->asked[i], key) == 0) return;
  assert(cfg->asked_count < BRAID_DARKNET_MAX_KEYS);
  cfg->asked[cfg->asked_count++] = key;
}

const braid_cfg_option *braid_cfg_find(braid_cfg *cfg, const braid_cfg_section *section, const char *key) {
  remember(cfg, section, key);
  for (size_t i = 0; i < section->count; i++)
    if (strcmp(section->options[i].key, key) == 0) return &section->options[i];
  return NULL;
}

braid_status braid_cfg_int(braid_cfg *cfg, const braid_cfg_section *section, const char *key, int64_t otherwise,
                           int64_t low, int64_t high, int64_t *out) {
  const braid_cfg_option *option = braid_cfg_find(cfg, section, key);
  *out = otherwise;
  if (!option || (braid_parse_i64(option->value, out) && *out >= low && *out <= high)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s:%d: [%.40s] %s=%.80s, expected an integer from %lld to %lld", cfg->path,
                    option->line, section->type, key, option->value, (long long)low, (long long)high);
}

braid_status braid_cfg_float(braid_cfg *cfg, const braid_cfg_section *section, const char *key, double otherwise,
                             double *out) {
  const braid_cfg_option *option = braid_cfg_find(cfg, section, key);
  *out = otherwise;
  if (!option || braid_parse_f64(option->value, out)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s:%d: [%.40s] %s=%.80s, expected a number", cfg->path, option->line,
                    section->type, key, option->value);
}

const char *braid_cfg_string(braid_cfg *cfg, const braid_cfg_section *section, const char *key, const char *otherwise) {
  const braid_cfg_option *option = braid_cfg_find(cfg, section, key);
  return option ? option->value : otherwise;
}

braid_status braid_cfg_ints(braid_cfg *cfg, const braid_cfg_section *section, const char *key, int64_t *values,
                            size_t capacity, size_t *count) {
  const braid_cfg_option *option = braid_cfg_find(cfg, section, key);
  *count = 0;
  for (const char *at = option ? option->value : NULL; at;) {
    const char *comma = strchr(at, ',');
    size_t length = comma ? (size_t)(comma - at) : strlen(at);
    char item[24] = "";
    if (length < sizeof item) memcpy(item, at, length);
    if (*count == capacity || !braid_parse_i64(item, &values[*count]))
      return braid_fail(BRAID_INVALID_FILE, "%s:%d: [%.40s] %s=%.80s, expected at most %zu integers with commas",
                        cfg->path, option->line, section->type, key, option->value, capacity);
    (*count)++;
    at = comma ? comma + 1 : NULL;
  }
  return BRAID_OK;
}
