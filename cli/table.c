#include "table.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Takes the text; NULL: there was no memory for it. */
static void add_cell(cli_table *table, char *text) {
  if (table->count == table->capacity && text) {
    size_t capacity = table->capacity ? 2 * table->capacity : 64;
    char **cells = realloc(table->cells, capacity * sizeof *cells);
    if (!cells) {
      free(text);
      text = NULL;
    } else {
      table->cells = cells;
      table->capacity = capacity;
    }
  }
  if (text)
    table->cells[table->count++] = text;
  else
    table->failed = true;
}

void cli_table_begin(cli_table *table, const char *title, const char *note, const char *head) {
  *table = (cli_table){.title = title, .note = note};
  for (const char *at = head;; at++) {
    size_t length = strcspn(at, "|");
    add_cell(table, strndup(at, length));
    table->columns++;
    at += length;
    if (!*at) break;
  }
}

void cli_table_cell(cli_table *table, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) text = NULL;
  va_end(arguments);
  add_cell(table, text);
}

/* Columns of numbers stand at the right. */
static bool is_number(const char *cell) {
  return !*cell || isdigit((unsigned char)*cell) || strchr("-+?<", *cell);
}

static size_t rows_of(const cli_table *table) {
  return table->columns ? table->count / table->columns : 0;
}

enum { MOST_COLUMNS = 16 };

typedef struct column {
  int width; /* 0: as wide as the cell */
  bool right;
} column;

static column measure_column(const cli_table *table, size_t index, size_t shown) {
  column c = {.right = index > 0};
  for (size_t row = 0; row < shown; row++) {
    const char *cell = table->cells[row * table->columns + index];
    if (row) c.right &= is_number(cell);
    if ((int)strlen(cell) > c.width) c.width = (int)strlen(cell);
  }
  if (index + 1 == table->columns && !c.right) c.width = 0;
  return c;
}

void cli_table_print(const cli_table *table, size_t most_rows) {
  size_t rows = rows_of(table), shown = rows > most_rows + 1 ? most_rows + 1 : rows;
  column columns[MOST_COLUMNS];
  for (size_t i = 0; i < table->columns; i++) columns[i] = measure_column(table, i, shown);
  printf("\n%s\n", table->title);
  if (table->note) printf("%s\n", table->note);
  for (size_t row = 0; row < shown; row++) {
    for (size_t i = 0; i < table->columns; i++)
      printf("  %*s", columns[i].right ? columns[i].width : -columns[i].width, table->cells[row * table->columns + i]);
    putchar('\n');
  }
  if (shown < rows) printf("  ... and %zu more\n", rows - shown);
}

braid_page_table cli_table_page(const cli_table *table) {
  return (braid_page_table){.title = table->title,
                            .note = table->note,
                            .cells = (const char *const *)table->cells,
                            .columns = table->columns,
                            .rows = rows_of(table)};
}

void cli_table_end(cli_table *table) {
  for (size_t i = 0; i < table->count; i++) free(table->cells[i]);
  free(table->cells);
  *table = (cli_table){.title = NULL};
}
