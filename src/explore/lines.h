/* Lines of a text in memory that may hold anything. */
#ifndef BRAID_EXPLORE_LINES_H
#define BRAID_EXPLORE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { BRAID_LINE_BYTES = 1024 };

typedef struct braid_lines {
  const char *at, *end;
  size_t number;               /* of the line that was read last, from 1; 0: none yet */
  char text[BRAID_LINE_BYTES]; /* that line without its end and blanks around it: what is longer is cut off, bytes of
                                  value 0 are blanks */
} braid_lines;

braid_lines braid_lines_of(const void *text, size_t bytes);
/* False: there is no further line. */
bool braid_lines_next(braid_lines *lines);
/* The text without blanks around it; the end is cut off in place. */
char *braid_lines_trim(char *text);

#endif
