#include "explore/lines.h"

#include <ctype.h>
#include <string.h>

braid_lines braid_lines_of(const void *text, size_t bytes) {
  return (braid_lines){.at = text, .end = bytes ? (const char *)text + bytes : text};
}

char *braid_lines_trim(char *text) {
  while (isspace((unsigned char)*text)) text++;
  size_t length = strlen(text);
  while (length && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
  return text;
}

bool braid_lines_next(braid_lines *lines) {
  if (lines->at == lines->end) return false;
  size_t left = (size_t)(lines->end - lines->at);
  const char *stop = memchr(lines->at, '\n', left);
  size_t length = stop ? (size_t)(stop - lines->at) : left;
  size_t kept = length < sizeof lines->text ? length : sizeof lines->text - 1;
  memcpy(lines->text, lines->at, kept);
  lines->text[kept] = '\0';
  for (size_t i = 0; i < kept; i++)
    if (!lines->text[i]) lines->text[i] = ' ';
  char *first = braid_lines_trim(lines->text);
  memmove(lines->text, first, strlen(first) + 1);
  lines->at += stop ? length + 1 : length;
  lines->number++;
  return true;
}
