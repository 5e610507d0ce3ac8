#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"

enum { FIRST_CAPACITY = 256 };

static char empty[] = "";

/* Numbers are formatted and parsed with a decimal point in every locale. */
static locale_t plain_locale;
static void make_locale(void) {
  plain_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}
static locale_t get_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_locale);
  return plain_locale;
}

void braid_text_init(braid_text *text, const braid_allocator *allocator) {
  *text = (braid_text){.allocator = allocator, .data = empty};
}

void braid_text_deinit(braid_text *text) {
  if (text->capacity) braid_free(text->allocator, text->data);
  braid_text_init(text, text->allocator);
}

/* Reserves `more` bytes and the terminator. */
static bool reserve(braid_text *text, size_t more) {
  if (text->failed) return false;
  size_t needed;
  if (!braid_add_size(text->length, more, &needed) || !braid_add_size(needed, 1, &needed)) {
    text->failed = true;
    (void)braid_refuse_memory(1, more);
    return false;
  }
  if (needed <= text->capacity) return true;
  size_t capacity = text->capacity ? text->capacity : FIRST_CAPACITY;
  while (capacity < needed) {
    if (!braid_mul_size(capacity, 2, &capacity)) capacity = needed;
  }
  char *data = braid_alloc(text->allocator, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  memcpy(data, text->data, text->length + 1);
  if (text->capacity) braid_free(text->allocator, text->data);
  text->data = data;
  text->capacity = capacity;
  return true;
}

void braid_text_add_bytes(braid_text *text, const void *bytes, size_t count) {
  if (!count || !reserve(text, count)) return;
  memcpy(text->data + text->length, bytes, count);
  text->length += count;
  text->data[text->length] = '\0';
}

char *braid_text_room(braid_text *text, size_t bytes) {
  return reserve(text, bytes) ? text->data + text->length : NULL;
}

void braid_text_took(braid_text *text, size_t bytes) {
  text->length += bytes;
  text->data[text->length] = '\0';
}

void braid_text_add(braid_text *text, const char *string) {
  braid_text_add_bytes(text, string, strlen(string));
}

void braid_text_printf(braid_text *text, const char *format, ...) {
  locale_t plain = get_locale();
  locale_t before = plain ? uselocale(plain) : (locale_t)0;
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) {
    text->failed = true;
    (void)braid_refuse_memory(1, SIZE_MAX); /* longer than vsnprintf can return */
  } else if (reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
  if (plain) uselocale(before);
}

/* Length of the valid UTF-8 sequence at `s` (NUL-terminated), 0 if invalid. */
static size_t utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  size_t length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
  }
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0; /* overlong */
  if (s[0] == 0xed && s[1] > 0x9f) return 0; /* surrogates */
  if (s[0] == 0xf0 && s[1] < 0x90) return 0; /* overlong */
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0; /* beyond U+10FFFF */
  return length;
}

static void add_json_character(braid_text *text, unsigned char c) {
  switch (c) {
  case '"':
    braid_text_add(text, "\\\"");
    break;
  case '\\':
    braid_text_add(text, "\\\\");
    break;
  case '\n':
    braid_text_add(text, "\\n");
    break;
  case '\r':
    braid_text_add(text, "\\r");
    break;
  case '\t':
    braid_text_add(text, "\\t");
    break;
  default:
    if (c < 0x20 || c == 0x7f)
      braid_text_printf(text, "\\u%04x", c);
    else
      braid_text_add_bytes(text, &c, 1);
  }
}

void braid_text_add_json(braid_text *text, const char *string) {
  braid_text_add(text, "\"");
  for (const unsigned char *s = (const unsigned char *)string; *s;) {
    size_t length = utf8_length(s);
    if (length == 0)
      braid_text_add(text, "\xef\xbf\xbd"); /* U+FFFD */
    else if (length == 1)
      add_json_character(text, *s);
    else
      braid_text_add_bytes(text, s, length);
    s += length ? length : 1;
  }
  braid_text_add(text, "\"");
}

void braid_text_add_html(braid_text *text, const char *string) {
  for (const unsigned char *s = (const unsigned char *)string; *s;) {
    size_t length = utf8_length(s);
    if (length == 0)
      braid_text_add(text, "\xef\xbf\xbd");
    else if (*s == '&')
      braid_text_add(text, "&amp;");
    else if (*s == '<')
      braid_text_add(text, "&lt;");
    else if (*s == '>')
      braid_text_add(text, "&gt;");
    else if (*s == '"')
      braid_text_add(text, "&quot;");
    else if (*s == '\'')
      braid_text_add(text, "&#39;");
    else if (length > 1 || *s >= 0x20 || *s == '\n' || *s == '\t')
      braid_text_add_bytes(text, s, length);
    else
      braid_text_add(text, "\xef\xbf\xbd"); /* control characters are not allowed in HTML and SVG */
    s += length ? length : 1;
  }
}

char *braid_strdup(const braid_allocator *allocator, const char *string) {
  size_t bytes = strlen(string) + 1;
  char *copy = braid_alloc(allocator, bytes);
  return copy ? memcpy(copy, string, bytes) : NULL;
}

/* The strto functions skip leading white space; a whole-string conversion must not. */
static bool starts_number(const char *s) {
  if (*s == '+' || *s == '-') s++;
  return (*s >= '0' && *s <= '9') || *s == '.';
}

bool braid_parse_i64(const char *string, int64_t *out) {
  if (!starts_number(string)) return false;
  char *end;
  errno = 0;
  long long value = strtoll(string, &end, 10);
  if (errno || end == string || *end) return false;
  *out = value;
  return true;
}

bool braid_parse_f64(const char *string, double *out) {
  if (!starts_number(string)) return false;
  char *end;
  locale_t plain = get_locale();
  double value = plain ? strtod_l(string, &end, plain) : strtod(string, &end);
  if (end == string || *end || !isfinite(value)) return false;
  *out = value;
  return true;
}

size_t braid_text_distance(const char *a, const char *b) {
  enum { kMost = 127 };
  size_t rows = strnlen(a, kMost), columns = strnlen(b, kMost), cost[kMost + 1];
  for (size_t k = 0; k <= columns; k++) cost[k] = k;
  for (size_t i = 1; i <= rows; i++) {
    size_t diagonal = cost[0];
    cost[0] = i;
    for (size_t k = 1; k <= columns; k++) {
      size_t replaced = diagonal + (a[i - 1] != b[k - 1]), shorter = cost[k] < cost[k - 1] ? cost[k] : cost[k - 1];
      diagonal = cost[k];
      cost[k] = replaced < shorter + 1 ? replaced : shorter + 1;
    }
  }
  return cost[columns];
}

/* When the rest does not fit, only the last '*' needs to take one byte more: what the earlier ones took fits already.
 */
bool braid_text_fits(const char *pattern, const char *name) {
  const char *star = NULL, *taken = NULL;
  while (*name) {
    if (*pattern == '*') {
      star = pattern++;
      taken = name;
    } else if (*pattern == '?' || *pattern == *name) {
      pattern++;
      name++;
    } else if (star) {
      pattern = star + 1;
      name = ++taken;
    } else {
      return false;
    }
  }
  return pattern[strspn(pattern, "*")] == '\0';
}
