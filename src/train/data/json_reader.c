#include "train/data/json_reader.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"

enum { kMostDepth = 64, kMostDigits = 63 };

void braid_json_init(braid_json *json, const char *name, const uint8_t *data, size_t bytes) {
  const char *text = (const char *)data;
  *json = (braid_json){.name = name, .start = text, .at = text, .end = text + bytes};
}

braid_status braid_json_fail_at(const braid_json *json, const char *at, const char *what) {
  size_t line = 1, column = 1;
  for (const char *c = json->start; c < at; c++) {
    column = *c == '\n' ? 1 : column + 1;
    line += *c == '\n';
  }
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu, column %zu: %s", json->name, line, column, what);
}

static braid_status json_fail(const braid_json *json, const char *what) {
  return braid_json_fail_at(json, json->at, what);
}

static char next_char(braid_json *json) {
  while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
    json->at++;
  return json->at < json->end ? *json->at : '\0';
}

braid_status braid_json_enter(braid_json *json, char bracket) {
  if (next_char(json) != bracket) return json_fail(json, bracket == '[' ? "[ is expected" : "{ is expected");
  if (json->depth == kMostDepth) return json_fail(json, "values nest more than 64 deep");
  json->at++;
  json->depth++;
  json->fresh = true;
  return BRAID_OK;
}

static braid_status go_on(braid_json *json, char bracket, bool *more) {
  char c = next_char(json);
  *more = c != bracket;
  if (!*more) {
    json->at++;
    json->depth--;
  } else if (!json->fresh) {
    if (c != ',') return json_fail(json, bracket == ']' ? ", or ] is expected" : ", or } is expected");
    json->at++;
  }
  json->fresh = false;
  return BRAID_OK;
}

braid_status braid_json_item(braid_json *json, bool *more) {
  return go_on(json, ']', more);
}

braid_status braid_json_key(braid_json *json, char *key, size_t bytes, bool *more) {
  BRAID_TRY(go_on(json, '}', more));
  if (!*more) return BRAID_OK;
  BRAID_TRY(braid_json_string(json, key, bytes));
  if (next_char(json) != ':') return json_fail(json, ": is expected");
  json->at++;
  return BRAID_OK;
}

/* --- strings -------------------------------------------------------------------------------------------------------
 */
/* Where a string is written to; NULL: nowhere. */
typedef struct json_out {
  char *at, *end;
} json_out;

static braid_status put(braid_json *json, json_out *out, char c) {
  if (!out->at) return BRAID_OK;
  if (out->at + 1 >= out->end) return json_fail(json, "the text is too long");
  *out->at++ = c;
  return BRAID_OK;
}

static braid_status put_code(braid_json *json, json_out *out, uint32_t code) {
  if (code < 0x80) return put(json, out, (char)code);
  if (code >= 0x10000) BRAID_TRY(put(json, out, (char)(0xF0 | code >> 18)));
  if (code >= 0x10000) BRAID_TRY(put(json, out, (char)(0x80 | (code >> 12 & 63))));
  if (code >= 0x800 && code < 0x10000) BRAID_TRY(put(json, out, (char)(0xE0 | code >> 12)));
  if (code >= 0x800) BRAID_TRY(put(json, out, (char)(0x80 | (code >> 6 & 63))));
  if (code < 0x800) BRAID_TRY(put(json, out, (char)(0xC0 | code >> 6)));
  return put(json, out, (char)(0x80 | (code & 63)));
}

/* Four hexadecimal digits after \u. */
static braid_status read_hex(braid_json *json, uint32_t *out) {
  static const char kDigits[] = "0123456789abcdef";
  *out = 0;
  for (int i = 0; i < 4; i++, json->at++) {
    char c = json->at < json->end ? *json->at : '\0';
    const char *digit = c ? strchr(kDigits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    if (!digit) return json_fail(json, "four hexadecimal digits are expected after \\u");
    *out = *out << 4 | (uint32_t)(digit - kDigits);
  }
  return BRAID_OK;
}

static braid_status read_unicode(braid_json *json, json_out *out) {
  uint32_t code, low = 0;
  BRAID_TRY(read_hex(json, &code));
  bool high = code >= 0xD800 && code < 0xDC00;
  if (high && json->end - json->at >= 2 && json->at[0] == '\\' && json->at[1] == 'u') {
    json->at += 2;
    BRAID_TRY(read_hex(json, &low));
  }
  if (high && low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  if ((code >= 0xD800 && code < 0xE000) || !code || (low && code < 0x10000))
    return json_fail(json, "\\u gives no character");
  return put_code(json, out, code);
}

static braid_status read_escape(braid_json *json, json_out *out) {
  static const char kNames[] = "\"\\/bfnrt", kValues[] = "\"\\/\b\f\n\r\t";
  char c = json->at < json->end ? *json->at : '\0';
  const char *name = c ? strchr(kNames, c) : NULL;
  if (c != 'u' && !name) return json_fail(json, "an escape that JSON does not have");
  json->at++;
  return c == 'u' ? read_unicode(json, out) : put(json, out, kValues[name - kNames]);
}

static braid_status read_string(braid_json *json, json_out *out) {
  if (next_char(json) != '"') return json_fail(json, "a text is expected");
  const char *start = json->at++;
  for (;;) {
    if (json->at == json->end) return braid_json_fail_at(json, start, "the text is not ended");
    char c = *json->at;
    if ((unsigned char)c < ' ') return json_fail(json, "a control character in a text");
    json->at++;
    if (c == '"') return BRAID_OK;
    BRAID_TRY(c == '\\' ? read_escape(json, out) : put(json, out, c));
  }
}

braid_status braid_json_string(braid_json *json, char *out, size_t bytes) {
  json_out to = {out, out + bytes};
  BRAID_TRY(read_string(json, &to));
  *to.at = '\0';
  return BRAID_OK;
}

/* --- numbers and the rest ------------------------------------------------------------------------------------------
 */
static bool skip_digits(braid_json *json) {
  const char *start = json->at;
  while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
  return json->at > start;
}

static bool skip_one(braid_json *json, const char *of) {
  if (json->at == json->end || !*json->at || !strchr(of, *json->at)) return false;
  json->at++;
  return true;
}

braid_status braid_json_number(braid_json *json, double *out) {
  char digits[kMostDigits + 1];
  next_char(json);
  const char *start = json->at;
  skip_one(json, "-");
  bool zero = skip_one(json, "0"), right = zero || skip_digits(json);
  if (right && skip_one(json, ".")) right = skip_digits(json);
  if (right && skip_one(json, "eE")) {
    skip_one(json, "+-");
    right = skip_digits(json);
  }
  size_t length = (size_t)(json->at - start);
  if (!right || length > kMostDigits) return braid_json_fail_at(json, start, "a number is expected");
  memcpy(digits, start, length);
  digits[length] = '\0';
  return braid_parse_f64(digits, out) ? BRAID_OK : braid_json_fail_at(json, start, "a number is expected");
}

braid_status braid_json_whole(braid_json *json, int64_t *out) {
  double number;
  next_char(json);
  const char *start = json->at;
  BRAID_TRY(braid_json_number(json, &number));
  if (number != floor(number) || fabs(number) > 9007199254740992.0) /* 2^53 */
    return braid_json_fail_at(json, start, "a whole number is expected");
  *out = (int64_t)number;
  return BRAID_OK;
}

static braid_status skip_word(braid_json *json) {
  static const char *const kWords[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof kWords / sizeof *kWords; i++) {
    size_t length = strlen(kWords[i]);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, kWords[i], length) != 0) continue;
    json->at += length;
    return BRAID_OK;
  }
  return json_fail(json, "a value is expected");
}

braid_status braid_json_skip(braid_json *json) {
  double number;
  bool more = true;
  char c = next_char(json);
  if (c == '"') return read_string(json, &(json_out){NULL, NULL});
  if (c == '-' || (c >= '0' && c <= '9')) return braid_json_number(json, &number);
  if (c != '[' && c != '{') return skip_word(json);
  BRAID_TRY(braid_json_enter(json, c));
  for (;;) {
    BRAID_TRY(go_on(json, c == '[' ? ']' : '}', &more));
    if (!more) return BRAID_OK;
    if (c == '{') {
      BRAID_TRY(read_string(json, &(json_out){NULL, NULL}));
      if (next_char(json) != ':') return json_fail(json, ": is expected");
      json->at++;
    }
    BRAID_TRY(braid_json_skip(json));
  }
}

braid_status braid_json_finish(braid_json *json) {
  next_char(json);
  return json->at == json->end ? BRAID_OK : json_fail(json, "the end is expected");
}
