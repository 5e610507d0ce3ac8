#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli.h"

bool cli_json_begin(cli_json *json) {
  *json = (cli_json){.first = true};
  json->file = open_memstream(&json->text, &json->bytes);
  if (!json->file) return false;
  fputc('{', json->file);
  return true;
}

size_t cli_utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
  }
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return length && (overlong || beyond) ? 0 : length;
}

static void put_string(FILE *file, const char *value) {
  fputc('"', file);
  for (const unsigned char *s = (const unsigned char *)value; *s;) {
    size_t length = cli_utf8_length(s);
    if (length == 0)
      fputs("\\ufffd", file);
    else if (*s == '"' || *s == '\\')
      fprintf(file, "\\%c", *s);
    else if (*s < 0x20 || *s == 0x7f)
      fprintf(file, "\\u%04x", *s);
    else
      fwrite(s, 1, length, file);
    s += length ? length : 1;
  }
  fputc('"', file);
}

static void put_key(cli_json *json, const char *key) {
  if (!json->first) fputc(',', json->file);
  json->first = false;
  if (!key) return;
  put_string(json->file, key);
  fputc(':', json->file);
}

void cli_json_object(cli_json *json, const char *key) {
  put_key(json, key);
  fputc('{', json->file);
  json->first = true;
}

void cli_json_array(cli_json *json, const char *key) {
  put_key(json, key);
  fputc('[', json->file);
  json->first = true;
}

void cli_json_close(cli_json *json, char bracket) {
  fputc(bracket, json->file);
  json->first = false;
}

void cli_json_string(cli_json *json, const char *key, const char *value) {
  put_key(json, key);
  put_string(json->file, value ? value : "");
}

void cli_json_integer(cli_json *json, const char *key, int64_t value) {
  put_key(json, key);
  fprintf(json->file, "%" PRId64, value);
}

void cli_json_number(cli_json *json, const char *key, double value) {
  put_key(json, key);
  if (fabs(value) < 0x1p53 && value == trunc(value))
    fprintf(json->file, "%.0f", value); /* counts: exactly */
  else if (isfinite(value))
    fprintf(json->file, "%.9g", value);
  else
    fputs("null", json->file);
}

void cli_json_bool(cli_json *json, const char *key, bool value) {
  put_key(json, key);
  fputs(value ? "true" : "false", json->file);
}

void cli_json_dims(cli_json *json, const char *key, const braid_desc *desc) {
  cli_json_array(json, key);
  for (int i = 0; i < desc->rank; i++) cli_json_integer(json, NULL, desc->dims[i]);
  cli_json_close(json, ']');
}

void cli_json_discard(cli_json *json) {
  fclose(json->file);
  free(json->text);
}

bool cli_json_end(cli_json *json) {
  fputs("}\n", json->file);
  bool good = !ferror(json->file);
  good = fclose(json->file) == 0 && good;
  good = good && fwrite(json->text, 1, json->bytes, stdout) == json->bytes && fflush(stdout) == 0;
  free(json->text);
  return good;
}
