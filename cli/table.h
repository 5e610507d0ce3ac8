/* Tables that are printed and written into a page: text cells, the first row is the head. */
#ifndef BRAID_CLI_TABLE_H
#define BRAID_CLI_TABLE_H

#include "cli.h"

typedef struct cli_table {
  const char *title, *note; /* note: below the title; NULL: none */
  char **cells;
  size_t columns, count, capacity;
  bool failed; /* out of memory */
} cli_table;

/* `head` has the columns' titles, separated by "|". */
void cli_table_begin(cli_table *table, const char *title, const char *note, const char *head);
void cli_table_cell(cli_table *table, const char *format, ...) BRAID_PRINTF(2, 3);
/* With at most so many rows below the head; the number of all others is said. */
void cli_table_print(const cli_table *table, size_t most_rows);
braid_page_table cli_table_page(const cli_table *table);
void cli_table_end(cli_table *table);

#endif
