/* Text: a growing buffer with printf, and small string helpers. */
#ifndef BRAID_BASE_TEXT_H
#define BRAID_BASE_TEXT_H
#include "braid/allocator.h"
#include <stdbool.h>
#include <stdint.h>
typedef struct braid_text {
  const braid_allocator *allocator;
  char *data; /* always NUL-terminated; initially "" */
  size_t length, capacity;
  bool failed; /* an append ran out of memory; later appends are ignored */
} braid_text;
void braid_text_init(braid_text *text, const braid_allocator *allocator);
void braid_text_deinit(braid_text *text);
void braid_text_add(braid_text *text, const char *string);
void braid_text_add_bytes(braid_text *text, const void *bytes, size_t count);
/* Where `bytes` bytes may be written behind what is there, of which braid_text_took then says how many have been; NULL
 * when out of memory. */
char *braid_text_room(braid_text *text, size_t bytes);
void braid_text_took(braid_text *text, size_t bytes);
void braid_text_printf(braid_text *text, const char *format, ...) BRAID_PRINTF(2, 3);
void braid_text_add_json(braid_text *text, const char *string); /* quoted and escaped; invalid UTF-8 replaced */
void braid_text_add_html(braid_text *text, const char *string); /* escaped */
char *braid_strdup(const braid_allocator *allocator, const char *string); /* NULL when out of memory */
/* Whether the whole name matches the pattern: '*' stands for any text, '?' for any one byte; other characters, brackets
 * and backslashes among them, stand for themselves. */
bool braid_text_fits(const char *pattern, const char *name);
/* Levenshtein distance of the first 127 bytes of two strings. */
size_t braid_text_distance(const char *a, const char *b);
/* Whole-string conversions: false if characters are left over or the value does not fit. */
bool braid_parse_i64(const char *string, int64_t *out);
bool braid_parse_f64(const char *string, double *out); /* finite only */
#endif
