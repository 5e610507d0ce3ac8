#include "train/data/csv.h"

#include <stdbool.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"

enum { kMostColumns = 1 << 20 };

/* Fields are unquoted in their place: what is written never passes what is read. */
typedef struct csv_reader {
  braid_csv *csv;
  const char *name;
  char *at, *end;
  size_t line, first_line, column; /* of what is read next; of the row; of the field within the row, 0-based */
} csv_reader;

static braid_status csv_fail(const csv_reader *r, const char *what) {
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu, column %zu: %s", r->name, r->line, r->column + 1, what);
}

static braid_status add_field(csv_reader *r, const char *field) {
  braid_csv *csv = r->csv;
  const char **grown =
      braid_grow(csv->allocator, csv->fields, csv->field_count, &csv->field_capacity, sizeof *csv->fields);
  if (!grown) return BRAID_NO_MEMORY;
  csv->fields = grown;
  csv->fields[csv->field_count++] = field;
  return BRAID_OK;
}

/* After the opening quote. */
static braid_status read_quoted(csv_reader *r, char **end) {
  char *to = r->at;
  for (;; r->at++) {
    if (r->at == r->end) return csv_fail(r, "the quotes are not closed");
    if (*r->at == '\n') r->line++;
    if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) break;
    if (*r->at == '"') r->at++;
    *to++ = *r->at;
  }
  r->at++;
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
  *end = to;
  return BRAID_OK;
}

static braid_status read_plain(csv_reader *r, char **end) {
  char *to = r->at;
  for (; r->at < r->end && *r->at != ',' && *r->at != '\n' && *r->at != '\r'; r->at++) {
    if (*r->at == '"') return csv_fail(r, "a quote inside of a field that does not begin with one");
    if (*r->at != ' ' && *r->at != '\t') to = r->at + 1;
  }
  *end = to;
  return BRAID_OK;
}

/* *last: the row ends with it. */
static braid_status read_field(csv_reader *r, bool *last) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
  bool quoted = r->at < r->end && *r->at == '"';
  if (quoted) r->at++;
  char *field = r->at, *end;
  BRAID_TRY(quoted ? read_quoted(r, &end) : read_plain(r, &end));
  bool comma = r->at < r->end && *r->at == ',';
  *last = !comma;
  if (r->at < r->end && *r->at == '\r') r->at++;
  if (r->at < r->end && !comma && *r->at != '\n')
    return csv_fail(r, quoted ? "text after the closing quote" : "a carriage return without an end of line");
  if (r->at < r->end) r->at++;
  *end = '\0'; /* on what was read already, or on the byte behind the text */
  return add_field(r, field);
}

static braid_status read_row(csv_reader *r) {
  braid_csv *csv = r->csv;
  size_t *grown = braid_grow(csv->allocator, csv->lines, csv->rows, &csv->line_capacity, sizeof *csv->lines);
  if (!grown) return BRAID_NO_MEMORY;
  csv->lines = grown;
  csv->lines[csv->rows] = r->first_line = r->line;
  bool last = false;
  for (r->column = 0; !last; r->column++) {
    if (csv->rows && r->column == csv->columns)
      return braid_fail(BRAID_INVALID_FILE, "%s: line %zu has more than %zu fields, as the first line", r->name,
                        r->first_line, csv->columns);
    if (r->column == kMostColumns) return csv_fail(r, "there are more than 2^20 columns");
    BRAID_TRY(read_field(r, &last));
  }
  if (csv->rows && r->column < csv->columns)
    return braid_fail(BRAID_INVALID_FILE, "%s: line %zu has %zu fields, the first line has %zu", r->name, r->first_line,
                      r->column, csv->columns);
  csv->columns = r->column;
  csv->rows++;
  r->line++;
  return BRAID_OK;
}

static braid_status csv_read(csv_reader *r) {
  static const char kMark[] = "\xef\xbb\xbf"; /* UTF-8's byte order mark */
  if (r->end - r->at >= 3 && memcmp(r->at, kMark, 3) == 0) r->at += 3;
  const char *zero = memchr(r->at, 0, (size_t)(r->end - r->at));
  if (zero)
    return braid_fail(BRAID_INVALID_FILE, "%s: byte %zu has the value 0; text is expected", r->name,
                      (size_t)(zero - r->csv->text));
  while (r->end > r->at && strchr(" \t\r\n", r->end[-1])) r->end--;
  if (r->at == r->end) return braid_fail(BRAID_INVALID_FILE, "%s: is empty", r->name);
  while (r->at < r->end) BRAID_TRY(read_row(r));
  return BRAID_OK;
}

braid_status braid_csv_parse(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                             braid_csv *out) {
  *out = (braid_csv){.allocator = allocator};
  out->text = braid_alloc(allocator, bytes + 1);
  if (!out->text) return BRAID_NO_MEMORY;
  if (bytes) memcpy(out->text, data, bytes);
  out->text[bytes] = '\0';
  csv_reader r = {.csv = out, .name = name, .at = out->text, .end = out->text + bytes, .line = 1};
  braid_status status = csv_read(&r);
  if (status != BRAID_OK) braid_csv_deinit(out);
  return status;
}

void braid_csv_deinit(braid_csv *csv) {
  braid_free(csv->allocator, csv->text);
  braid_free(csv->allocator, csv->fields);
  braid_free(csv->allocator, csv->lines);
  *csv = (braid_csv){.allocator = csv->allocator};
}
