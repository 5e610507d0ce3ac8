#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static char empty[1] = "";

void braid_text_init(braid_text *text, const braid_allocator *allocator) {
  *text = (braid_text){.allocator = allocator, .data = empty};
}

void braid_text_deinit(braid_text *text) {
  if (text->data != empty) braid_free(text->allocator, text->data);
  braid_text_init(text, text->allocator);
}

/* Room for `count` more bytes and the terminator; false when out of memory. */
static bool reserve(braid_text *text, size_t count) {
  size_t needed;
  if (text->failed || !braid_add_size(text->length + 1, count, &needed)) {
    text->failed = true;
    return false;
  }
  if (needed <= text->capacity) return true;
  size_t capacity = text->capacity ? text->capacity : 256;
  while (capacity < needed) capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
  char *data = braid_alloc(text->allocator, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  memcpy(data, text->data, text->length + 1);
  if (text->data != empty) braid_free(text->allocator, text->data);
  text->data = data;
  text->capacity = capacity;
  return true;
}

void braid_text_add_bytes(braid_text *text, const void *bytes, size_t count) {
  if (!reserve(text, count)) return;
  if (count) memcpy(text->data + text->length, bytes, count);
  text->length += count;
  text->data[text->length] = 0;
}

void braid_text_add(braid_text *text, const char *string) {
  braid_text_add_bytes(text, string, strlen(string));
}

void braid_text_printf(braid_text *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length >= 0 && reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

/* Length of the valid UTF-8 sequence at `s`; 0 if there is none. */
static size_t utf8_length(const unsigned char *s) {
  static const unsigned kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
  if (n < 2) return n;
  unsigned code = s[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3f);
  }
  return code >= kLeast[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? n : 0;
}

void braid_text_add_json(braid_text *text, const char *string) {
  braid_text_add(text, "\"");
  for (const unsigned char *s = (const unsigned char *)string; *s;) {
    size_t n = utf8_length(s);
    if (n == 0)
      braid_text_add(text, "\\ufffd");
    else if (*s == '"' || *s == '\\')
      braid_text_printf(text, "\\%c", *s);
    else if (*s == '\n')
      braid_text_add(text, "\\n");
    else if (*s < 0x20 || *s == 0x7f)
      braid_text_printf(text, "\\u%04x", *s);
    else
      braid_text_add_bytes(text, s, n);
    s += n ? n : 1;
  }
  braid_text_add(text, "\"");
}

void braid_text_add_html(braid_text *text, const char *string) {
  for (const unsigned char *s = (const unsigned char *)string; *s;) {
    size_t n = utf8_length(s);
    if (n == 0)
      braid_text_add(text, "&#xfffd;");
    else if (*s == '<')
      braid_text_add(text, "&lt;");
    else if (*s == '>')
      braid_text_add(text, "&gt;");
    else if (*s == '&')
      braid_text_add(text, "&amp;");
    else if (*s == '"')
      braid_text_add(text, "&quot;");
    else if (*s == '\'')
      braid_text_add(text, "&#39;");
    else
      braid_text_add_bytes(text, s, n);
    s += n ? n : 1;
  }
}

char *braid_strdup(const braid_allocator *allocator, const char *string) {
  size_t bytes = strlen(string) + 1;
  char *copy = braid_alloc(allocator, bytes);
  if (copy) memcpy(copy, string, bytes);
  return copy;
}

bool braid_parse_i64(const char *string, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(string, &end, 10);
  if (end == string || *end || errno == ERANGE) return false;
  *out = value;
  return true;
}

bool braid_parse_f64(const char *string, double *out) {
  char *end;
  errno = 0;
  double value = strtod(string, &end);
  if (end == string || *end || !isfinite(value)) return false;
  *out = value;
  return true;
}
