/* Tables of text as CSV (RFC 4180): fields between commas, quoted where they hold commas, quotes (doubled) or ends of
 * lines; lines end with LF or CRLF; every row has as many fields as the first one. */
#ifndef BRAID_TRAIN_CSV_H
#define BRAID_TRAIN_CSV_H
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef struct braid_csv {
  const braid_allocator *allocator;
  char *text;          /* the fields, each ended by 0 */
  const char **fields; /* rows x columns */
  size_t *lines;       /* of the file, where each row begins; 1-based */
  size_t rows, columns, field_count, field_capacity, line_capacity;
} braid_csv;

/* Blanks around a field that is not quoted are left out, and lines that are empty at the end of the file. `name` is for
 * messages, which give line and column. Call deinit after a success only. */
BRAID_MUST_CHECK braid_status braid_csv_parse(const braid_allocator *allocator, const char *name, const uint8_t *data,
                                              size_t bytes, braid_csv *out);
void braid_csv_deinit(braid_csv *csv);
static inline const char *braid_csv_at(const braid_csv *csv, size_t row, size_t column) {
  return csv->fields[row * csv->columns + column];
}
#endif
