#include "base/patterns.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"

static const char kAuto[] = "auto", kOrdered[] = "ordered", kSeparators[] = " ,", kQuotes[] = "'\"";

/* --- the list ------------------------------------------------------------------------------------------------------
 */
typedef struct reading {
  const char *const *names; /* of devices */
  size_t count;
  const char *whose;
  braid_arena *arena;
} reading;

/* "a, b, c", of many the first. */
static void list_names(const reading *r, char *out, size_t bytes) {
  const size_t most = 12;
  size_t used = 0;
  for (size_t i = 0; i < r->count && i < most && used < bytes; i++)
    used += (size_t)snprintf(out + used, bytes - used, "%s%.60s", i ? ", " : "", r->names[i]);
  if (r->count > most && used < bytes) snprintf(out + used, bytes - used, " and %zu more", r->count - most);
}

/* The device that an entry names, by name or number. */
static braid_status device_named(const reading *r, const char *name, int *out) {
  int64_t number;
  char names[1024];
  if (braid_parse_i64(name, &number) && number >= 0 && (size_t)number < r->count) {
    *out = (int)number;
    return BRAID_OK;
  }
  for (size_t i = 0; i < r->count; i++) {
    if (strcmp(r->names[i], name) != 0) continue;
    *out = (int)i;
    return BRAID_OK;
  }
  list_names(r, names, sizeof names);
  return braid_fail(BRAID_NOT_FOUND, "place: %.120s is not among the %s devices; these are %s", name, r->whose, names);
}

/* `text` is the entry without the quotes around its pattern, `equals` the sign behind that; NULL: there is none. */
static braid_status add_entry(const reading *r, char *text, char *equals, braid_patterns *out) {
  if (!equals && strcmp(text, kAuto) == 0) {
    out->balanced = true;
    return BRAID_OK;
  }
  if (!equals && strcmp(text, kOrdered) == 0) {
    out->ordered = true;
    return BRAID_OK;
  }
  if (!equals || equals == text)
    return braid_fail(
        BRAID_INVALID_ARGUMENT,
        "place: \"%.120s\", expected pattern=device, auto or ordered, and quotes around a pattern that holds spaces "
        "or commas",
        text);
  *equals = '\0';
  braid_pattern *pattern = &out->items[out->count++];
  pattern->text = text;
  return device_named(r, equals + 1, &pattern->device);
}

/* An entry begins with its pattern in quotes, or ends at the next separator, and its last "=" is behind the pattern. */
static braid_status read_entry(const reading *r, const char **list, braid_patterns *out) {
  const char *at = *list, *end = strchr(kQuotes, *at) ? strchr(at + 1, *at) : NULL;
  if (strchr(kQuotes, *at) && (!end || end[1] != '='))
    return braid_fail(BRAID_INVALID_ARGUMENT, "place: \"%.120s\", expected %c=device behind a pattern in quotes", at,
                      *at);
  size_t quoted = end ? (size_t)(end - at) - 1 : 0, rest = strcspn(end ? end + 1 : at, kSeparators);
  char *text = braid_arena_alloc(r->arena, quoted + rest + 1);
  if (!text) return BRAID_NO_MEMORY;
  if (quoted) memcpy(text, at + 1, quoted);
  memcpy(text + quoted, end ? end + 1 : at, rest);
  *list = (end ? end + 1 : at) + rest;
  return add_entry(r, text, end ? text + quoted : strrchr(text, '='), out);
}

braid_status braid_patterns_parse(const char *list, const char *const *devices, size_t count, const char *whose,
                                  braid_arena *arena, braid_patterns *out) {
  const reading r = {devices, count, whose, arena};
  *out = (braid_patterns){0};
  if (!list) return BRAID_OK;
  size_t most = 1;
  for (const char *at = list; *at; at++) most += strchr(kSeparators, *at) != NULL;
  out->items = braid_arena_alloc(arena, most * sizeof *out->items);
  if (!out->items) return BRAID_NO_MEMORY;
  for (list += strspn(list, kSeparators); *list; list += strspn(list, kSeparators))
    BRAID_TRY(read_entry(&r, &list, out));
  return BRAID_OK;
}

/* --- names --------------------------------------------------------------------------------------------------------
 */
size_t braid_patterns_first(braid_patterns *patterns, const char *name) {
  size_t first = patterns->count;
  for (size_t i = patterns->count; i-- > 0;) {
    if (!braid_text_fits(patterns->items[i].text, name)) continue;
    patterns->items[i].matched = true;
    first = i;
  }
  return first;
}

/* --- patterns that match nothing -----------------------------------------------------------------------------------
 */
enum { kNear = 3, kPatternBytes = 128 };

/* The pattern's letters: what a name would have to be like. */
static void strip(const char *pattern, char out[kPatternBytes]) {
  size_t length = 0;
  for (; *pattern && length + 1 < kPatternBytes; pattern++)
    if (*pattern != '*' && *pattern != '?') out[length++] = *pattern;
  out[length] = '\0';
}

/* Edits between the two, none if one holds the other; SIZE_MAX: nothing alike. */
static size_t distance(const char *letters, const char *name) {
  if (*letters && (strstr(name, letters) || strstr(letters, name))) return 0;
  size_t edits = braid_text_distance(letters, name);
  return edits <= 1 + strlen(letters) / 3 ? edits : SIZE_MAX;
}

/* "; near are a, b, c", or what the names are like at all. */
static void describe_near(const char *const *given, size_t count, const char *pattern, char *out, size_t bytes) {
  char letters[kPatternBytes];
  strip(pattern, letters);
  const char *names[kNear];
  size_t found = 0;
  out[0] = '\0';
  for (size_t edits = 0; edits < kPatternBytes && found < kNear; edits++)
    for (size_t i = 0; i < count && found < kNear; i++)
      if (distance(letters, given[i]) == edits) names[found++] = given[i];
  bool near = found > 0;
  for (size_t i = 0; !near && i < count && found < kNear; i++) names[found++] = given[i];
  size_t used = 0;
  for (size_t i = 0; i < found && used < bytes; i++)
    used += (size_t)snprintf(out + used, bytes - used, "%s%.120s",
                             i      ? ", "
                             : near ? "; near are "
                                    : "; the first are ",
                             names[i]);
}

braid_status braid_patterns_check(const braid_patterns *patterns, const braid_log *log, const char *const *given,
                                  size_t count) {
  for (size_t i = 0; i < patterns->count; i++) {
    const braid_pattern *pattern = &patterns->items[i];
    bool known = pattern->matched;
    for (size_t j = 0; !known && j < count; j++) known = braid_text_fits(pattern->text, given[j]);
    if (!known) {
      char near[512];
      describe_near(given, count, pattern->text, near, sizeof near);
      return braid_fail(BRAID_NOT_FOUND, "place: no node matches \"%.120s\"%s", pattern->text, near);
    }
    if (!pattern->matched)
      braid_log_write(log, BRAID_LOG_WARNING,
                      "place: \"%.120s\" places nothing: what it matches is computed beforehand, left out or only "
                      "another shape of the same memory",
                      pattern->text);
  }
  return BRAID_OK;
}
