/* Any bytes are a table with its fields within their text, or a failure with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "train/data/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_csv csv;
  if (braid_csv_parse(NULL, "fuzz", data, bytes, &csv) != BRAID_OK) {
    if (!braid_error_detail()[0]) abort();
    return 0;
  }
  if (!csv.rows || !csv.columns || csv.field_count != csv.rows * csv.columns) abort();
  for (size_t r = 0; r < csv.rows; r++)
    for (size_t c = 0; c < csv.columns; c++) {
      const char *field = braid_csv_at(&csv, r, c);
      if (field < csv.text || field + strlen(field) > csv.text + bytes) abort();
    }
  braid_csv_deinit(&csv);
  return 0;
}
